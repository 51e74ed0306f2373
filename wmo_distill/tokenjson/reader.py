"""JSON records read one after another: a prompt that repeats the one before is not parsed again.

    {"prompt_token_ids": [5, 6], "logprobs": [-1.5]}        record 0: both lists are parsed
    {"prompt_token_ids": [5, 6, 7], "logprobs": [-0.5]}     record 1: "5, 6" is compared as text

What was read has rows (see `rows`) in the place of its token lists. A record of which any list is
in another place, or of another form, is parsed whole, with the same answer.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from wmo_distill.files import Absent, parse_json
from wmo_distill.limits import refuse_large_value
from wmo_distill.tokenjson.numbers import NotFlat, NotText
from wmo_distill.tokenjson.rows import (
    DAMAGED_IDS,
    DAMAGED_LOGPROBS,
    IdRow,
    SharedRows,
    id_row,
)
from wmo_distill.tokenjson.scan import Scanner
from wmo_distill.tokenjson.skeleton import CutList, ListNames
from wmo_distill.tokenjson.window import Remembered, Whole

_T = TypeVar("_T")
Holders = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]
"""The objects of a record that hold token lists, in the order in which they are written."""
Refuse = Callable[[bytes | memoryview], None]
"""Raises TooLarge where parsing a text would take too much memory."""


def parsed(data: bytes | memoryview, refuse: Refuse = refuse_large_value) -> Any | Absent:
    """The JSON value of a record, faster than `parse_json` where that reads the same."""
    refuse(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # NaN, for one
        return parse_json(bytes(data))


@dataclass(slots=True)
class RecordReader:
    """Reads the records of one episode; its prompts are linked in the order of reading."""

    names: ListNames
    holders: Holders
    refuse: Refuse = refuse_large_value
    values: tuple[str, ...] = ()
    """Keys whose lists of objects are left out, as `Unparsed`; empty once that has failed."""
    _remembered: Remembered = field(default_factory=Remembered)
    _last: IdRow | None = None
    """The prompt whose text is remembered."""
    _chain: SharedRows = field(default_factory=SharedRows)
    """Links the prompts of records that are parsed whole."""
    _passed: dict[str, Remembered] = field(init=False)

    def __post_init__(self) -> None:
        self._passed = {name: Remembered() for name in self.values}

    def read(self, data: bytes) -> Any | Absent:
        """The value of a record."""
        try:
            return self._fast(data)
        except (NotFlat, NotText):
            self._remembered.clear()
            self._last = None
        if self._passed:
            self._passed = {}
            return self.read(data)
        value = parsed(data, self.refuse)
        name = self.names.prompt
        for holder in self._holders(value):
            ids = holder.get(name)
            if isinstance(ids, list) and ids:
                holder[name] = self._chain.add(id_row(ids))
        return value

    def _fast(self, data: bytes) -> Any | Absent:
        scanner = Scanner(
            Whole(data),
            self._remembered,
            names=self.names,
            last_prompt=self._last,
            values=self._passed,
        )
        skeleton = scanner.skeleton()
        value = parsed(skeleton.text, self.refuse)
        if isinstance(value, Absent):
            raise NotFlat
        used = 0
        for holder in self._holders(value):
            for name in self.names:
                found = _at(skeleton.lists, holder.get(name))
                if found is not None and found.key == name:
                    holder[name] = _value(found, self.names)
                    used += 1
            for name in self._passed:
                if (passed := _at(skeleton.values, holder.get(name))) is not None:
                    holder[name] = passed
                    used += 1
        if used != skeleton.cut:
            raise NotFlat
        self._last = _first_of_equal(scanner.last_prompt, self._last)
        return value

    def _holders(self, value: Any) -> Iterator[dict[str, Any]]:
        return self.holders(value) if isinstance(value, dict) else iter(())


def _first_of_equal(row: IdRow | None, known: IdRow | None) -> IdRow | None:
    """The row that the next record shares with: a record may hold its prompt several times."""
    while row is not None and (above := row.before) is not None and above is not known:
        if not row.shared == row.size == above.size:
            break
        row = above
    return row


def _at(cut: Mapping[str, _T], value: Any) -> _T | None:
    """What was cut out where a value is its placeholder."""
    return cut.get(value) if isinstance(value, str) else None


def _value(found: CutList, names: ListNames) -> Any:
    if found.flat:
        return found.rows[0]
    if not found.rows:
        return []
    return DAMAGED_LOGPROBS if found.key == names.logprobs else DAMAGED_IDS
