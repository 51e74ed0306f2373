"""Lists of objects that are proved to be JSON and left out of what is parsed.

A chat repeats in every record, and what nobody asks for need not become Python objects:

    "messages": [{"a": 1}]               record 0: proved, and its text is remembered
    "messages": [{"a": 1}, {"b": 2}]     record 1: "{"a": 1}" is compared, ", {"b": 2}" is proved
    "messages": "9f3c…:4"                what is parsed; the placeholder is random

A text that is proved is whole elements, so where it is there again, with a comma or a bracket
behind it, it is whole elements again. That the bracket before it opens a list is known when the
placeholder is found in its place in the parsed record.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wmo_distill.tokenjson.numbers import NotFlat, is_value
from wmo_distill.tokenjson.window import Remembered, Whole

_TRIES = 4
"""Ends that are tried; a string may hold what looks like one."""


@dataclass(frozen=True, slots=True)
class Unparsed:
    """A list that was left out: the part of a record between its brackets."""

    record: bytes
    start: int
    end: int

    @property
    def text(self) -> bytes:
        """The list with its brackets."""
        return self.record[self.start - 1 : self.end + 1]


def pass_values(window: Whole, known: Remembered, next_key: re.Pattern[bytes]) -> Unparsed | None:
    """A list whose opening bracket is taken, and its closing one; None where no object begins it.

    `known` is the text of the last list under this key. At `next_key` it has surely ended. NotFlat
    where nothing is proved: what is in such a list might be tried again for each list in it.
    """
    record, start = window.record, window.pos
    if record[start : start + 1] != b"{":
        return None
    same = known.take_shared(window)
    cut = same if same == known.size else 0
    at = start + cut
    end = at
    if not cut or record[at : at + 1] != b"]":
        opened = b"[{}%b]" if cut else b"[%b]"
        ends = _ends(record, at, next_key)
        end = next((end for end in ends if is_value(opened % record[at:end])), -1)
        if end < 0:
            raise NotFlat
        known.replace_tail(cut, record[at:end], 0)
    window.pos = end + 1
    return Unparsed(record, start, end)


def _ends(record: bytes, at: int, next_key: re.Pattern[bytes]) -> Iterator[int]:
    """Where a list of objects may end: behind an object, or at the last bracket that it can."""
    place = at
    for _ in range(_TRIES):
        place = record.find(b"}]", place) + 1
        if not place:
            return
        yield place
    found = next_key.search(record, at)
    last = record.rfind(b"]", place + 1, found.start() if found else len(record))
    if last >= 0:
        yield last
