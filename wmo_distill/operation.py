"""The options of an operation: one model, which its flags, keywords, manifest and docs come from.

    class SampleOptions(Options):
        size: int = option(64, "Number of sequences to read.", "N", ge=1)
        shuffle: bool = option(True, "Read in the order of the files.")
        wait: float = 1.0

is `--size N` and `--no-shuffle` of a command, and `size`, `shuffle` and `wait` of a function. A
field without `option` is no flag; one with `exclude=True` is not in a manifest.
"""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict

from wmo_distill.errors import UsageError


def option(
    default: Any,
    about: str,
    metavar: str | None = None,
    *,
    flag: str | None = None,
    **constraints: Any,
) -> Any:
    """A field that is a flag too: `about` is its help, `flag` its names where they differ."""
    shown: JsonDict = {"flag": flag, "metavar": metavar}
    return Field(default, description=about, json_schema_extra=shown, **constraints)


class Options(BaseModel):
    """Options are frozen, and an unknown one is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, given: Self | None = None, /, **changes: Any) -> Self:
        """`given`, or the defaults, with `changes`; UsageError names the flag of a wrong value."""
        if given is not None and not changes:
            return given
        before = {} if given is None else {n: getattr(given, n) for n in given.model_fields_set}
        try:
            return cls(**(before | changes))
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            if name not in cls.model_fields:
                raise TypeError(f"{name}: expected an option of {cls.__name__}") from None
            said = first["msg"].removeprefix("Value error, ")
            if first["type"].startswith("byte_size"):
                said = "expected a size such as 8GB or 500MB"
            if first["type"] == "enum":
                choices = first["ctx"]["expected"].replace(" or ", ", ").replace("'", "")
                said = f"expected one of {choices}"
            said = said.replace("Input should be greater", "expected a number greater")
            said = said.replace("Input should be less", "expected a number less")
            said = said.replace("Input should be", "expected")
            found = "" if "found" in said else f", found {first['input']!r}"
            raise UsageError(f"{cls.flag(name)}: {said}{found}; give another") from None

    def recorded(self) -> dict[str, Any]:
        """What a manifest holds, and a later run is compared with."""
        return self.model_dump(mode="json")

    def difference(self, before: Mapping[str, Any]) -> str:
        """The first option that a run before was given otherwise, in a phrase; "" for none."""
        now, unset = self.recorded(), type(self)().recorded()
        for name in sorted(now.keys() | before.keys()):
            then, value = before.get(name, unset.get(name)), now.get(name)
            if then != value:
                flag = self.flag(name) if name in type(self).model_fields else name
                said = [_given(one, unset.get(name)) for one in (then, value)]
                return f"{flag}: expected {said[0]} as in the run before, found {said[1]}"
        return ""

    @classmethod
    def flag(cls, name: str) -> str:
        """The flag of a field; one that is true by default has a flag that says no."""
        field = cls.model_fields[name]
        shown = field.json_schema_extra
        own = shown.get("flag") if isinstance(shown, Mapping) else None
        if own is not None:
            return str(own).split()[0]
        return ("--no-" if field.default is True else "--") + name.replace("_", "-")


def _given(value: Any, unset: Any) -> str:
    """A value as its flag takes it, such as `logprob_mode=raw top_p=1.0`."""
    if value == unset and (isinstance(value, bool) or not value):
        return "it not given"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={one}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "it given" if isinstance(value, bool) else repr(value)
