"""Statistics as `stats --json` prints them, and how a page shows a value with its path there."""

import json
from typing import Any

from markupsafe import Markup, escape
from pydantic import BaseModel

from wmo_distill.visible import shortened

Path = str
"""Such as `tasks.3.records`; `.length` counts a list or an object, `.sum` adds up its numbers."""
NONE = "–"
_HOVER = 300
"""Characters of a shortened text that are shown where the mouse rests."""


class Numbers:
    """One set of statistics; on the page each number is next to its path and its exact value.

    Numbers(stats).number("solve_rate.value")   ->
    <span data-key="solve_rate.value" data-value="0.7674418604651163">0.7674</span>
    """

    def __init__(self, data: BaseModel | Any, prefix: Path = "", label: str = "") -> None:
        self._data = json.loads(data.model_dump_json()) if isinstance(data, BaseModel) else data
        self._prefix = f"{prefix}." if prefix else ""
        self.label = label
        """What the page calls these statistics where it shows two of them."""

    def below(self, path: Path, label: str) -> "Numbers":
        """The statistics at a path, such as one of the two that a comparison holds."""
        return Numbers(self.at(path), self._prefix + path, label)

    def at(self, path: Path) -> Any:
        """The value at a path."""
        return value_at(self._data, path)

    def find(self, path: Path) -> Any:
        """The same, None where there is none."""
        try:
            return self.at(path)
        except (KeyError, IndexError, TypeError):
            return None

    def number(self, path: Path, digits: int | None = None) -> Markup:
        """A number, with so many decimals if given, or a dash where it was not measured."""
        value = self.at(path)
        key, exact = self._prefix + path, json.dumps(value)
        shown = written(value) if digits is None or value is None else _minus(f"{value:.{digits}f}")
        return Markup('<span data-key="{}" data-value="{}">{}</span>').format(key, exact, shown)

    def rate(self, path: Path) -> Markup:
        """The value of a rate."""
        return self.number(f"{path}.value", 3)

    def text(self, path: Path, most: int = 80) -> Markup:
        """A text that others wrote: visible, shortened, and of no influence on what is around."""
        value = self.at(path)
        if value is None:
            return Markup(NONE)
        short, whole = shortened(str(value), most), shortened(str(value), _HOVER)
        hover = Markup(' title="{}"').format(whole) if whole != short else ""
        return Markup('<bdi data-text="{}"{}>{}</bdi>').format(self._prefix + path, hover, short)

    def of(self, path: Path, whole: Path) -> Markup:
        """A count and what it is a part of, such as `33 of 43`."""
        return Markup("{} of {}").format(self.number(path), self.number(whole))

    def interval(self, path: Path) -> Markup:
        """The bounds of a rate's 95 % interval."""
        if self.at(f"{path}.low") is None:
            return Markup(NONE)
        low, high = self.number(f"{path}.low", 3), self.number(f"{path}.high", 3)
        return Markup("{} to {}").format(low, high)

    def share(self, path: Path) -> Markup:
        """What a rate is the rate of, such as `33 of 43`."""
        return self.of(f"{path}.numerator", f"{path}.denominator")


def value_at(data: Any, path: Path) -> Any:
    """The value at a path of JSON; KeyError where there is none."""
    for step in path.split("."):
        if isinstance(data, list):
            if step == "length":
                data = len(data)
                continue
            data = data[int(step)]
        elif step in data:
            data = data[step]
        elif step == "length":
            data = len(data)
        elif step == "sum":
            data = sum(data.values())
        else:
            raise KeyError(f"{step} of {path}")
    return data


def written(value: float | None) -> str:
    """A number for people: grouped digits, four of them where it is no whole number.

    12345 -> 12,345; 0.76744 -> 0.7674; -2.5e12 -> −2.5e+12; 31234.5 -> 31,234
    """
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if value == int(value) and abs(value) < 1e15:
        text = f"{int(value):,}"
    elif 1000 <= abs(value) < 1e9:
        text = f"{value:,.0f}"
    else:
        text = f"{value:.4g}"
    return _minus(text)


def _minus(text: str) -> str:
    """With the sign that is as wide as a plus."""
    return f"−{text[1:]}" if text.startswith("-") else text


def bold(text: object) -> Markup:
    """With weight, for the one figure of a sentence."""
    return Markup("<strong>{}</strong>").format(escape(text))


def quiet(text: object) -> Markup:
    """In the quieter colour."""
    return Markup('<span class="quiet">{}</span>').format(escape(text))
