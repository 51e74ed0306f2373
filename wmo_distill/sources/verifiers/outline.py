"""What one line is, by its outermost keys, and where its traces are; no number is parsed.

In the same way it is found where the nodes of a trace are.

an episode        {"id": "e", "traces": [{"id": "t", "nodes": [...]}, ...]}
a bare trace      {"id": "t", "nodes": [...]}
a row before them {"example_id": 0, "completion": [...], "reward": 1.0}
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wmo_distill.files import Absent, parse_json, plain_text
from wmo_distill.limits import TEXT_BYTES

# A string, with the colon if it is a key; a bracket; or the beginning of a torn string.
_TOKEN = re.compile(rb'("(?>[^"\\]*(?:\\.[^"\\]*)*)")([ \t\r]*:)?|[\[\]{}]|"', re.DOTALL)
_MARKS = (b"]", b"[", b'"', b"{")
_BOM = b"\xef\xbb\xbf"
TRACES, NODES = b'"traces"', b'"nodes"'
_ID = b'"id"'
_ROW = {b'"example_id"', b'"completion"', b'"reward"'}
_QUOTE, _LIST, _OBJECT = b'"[{'
_MARGIN = 64
"""A string this close to the end of what is read may be a key whose colon is still to come."""
_DEEP = 4
"""Below this level nothing is looked at."""


class Kind(StrEnum):
    """What a line is."""

    EPISODE = "episode"
    TRACE = "trace"
    ROW = "row"
    """A rollout of the time before traces (v0)."""


class Cut(NamedTuple):
    """One trace of an episode, or node of a trace: bytes `start`..`stop` of the line."""

    start: int
    stop: int
    own_id: str | None


@dataclass(slots=True)
class Outline:
    """One line; `kind` is None for what is none of ours."""

    kind: Kind | None = None
    whole: bool = False
    """Whether its brackets close at the end, and there alone."""
    own_id: str | None = None
    cuts: list[Cut] = field(default_factory=list)
    """Of an episode: the objects in `traces`; of a trace, where asked for, those in `nodes`."""
    listed: tuple[int, int] = (0, 0)
    """Where that list begins and ends."""
    is_object: bool = False
    """Whether it begins as one, zeros of a file system that crashed aside."""

    @property
    def is_torn(self) -> bool:
        return self.is_object and not self.whole

    @property
    def is_foreign(self) -> bool:
        """Whether it is an object that another program wrote."""
        return self.whole and self.kind is None


def outline_of(pieces: Iterable[bytes], wanted: bytes = TRACES) -> Outline:
    """The outline of one line, given in pieces; of a torn one what its beginning shows.

    `wanted` is the list whose objects are looked for.
    """
    found = Outline()
    text = _Text(iter(pieces))
    lead = len(_BOM) if text.data.startswith(_BOM) else 0
    found.is_object = text.data[lead:].lstrip(b"\0 \t\r").startswith(b"{")
    if not text.data[lead:].lstrip(b" \t\r").startswith(b"{"):
        return found
    keys: set[bytes] = set()
    depth = 0
    name = [b""] * (_DEEP + 1)  # the last key on each level
    start = [0] * (_DEEP + 1)  # where the value that holds each level begins
    opener = [0] * (_DEEP + 1)  # and its first byte
    own_id: str | None = None
    listed = 0  # the first byte of the value of the list that is wanted
    for begin, end, first, flat, token in text.tokens():
        if first == _QUOTE:
            if token[2]:
                if depth <= _DEEP:
                    name[depth] = token[1]
                if depth == 1:
                    keys.add(token[1])
                continue
        elif not flat:
            if first in b"[{":
                depth += 1
                if depth <= _DEEP:
                    start[depth], opener[depth], name[depth] = begin, first, b""
                if depth == 2 and name[1] == wanted:
                    found.cuts, found.listed, listed = [], (begin, end), first
                elif depth == 3:
                    own_id = None
                continue
            depth -= 1
            if depth < 0:  # more than was opened
                found.whole = False
                break
            if depth < _DEEP:
                begin, first = start[depth + 1], opener[depth + 1]
        if depth > 3:
            continue
        # A value of this level ends here.
        if depth < 1:
            found.whole = depth == 0 and not found.whole
        elif depth == 1 and name[1] == _ID and first == _QUOTE:
            found.own_id = _text(token[1])
        elif name[1] == wanted:
            if depth == 1:
                found.cuts = found.cuts if begin == found.listed[0] else []
                found.listed, listed = (begin, end), first
            elif depth == 2 and first == _OBJECT and opener[2] == _LIST:
                found.cuts.append(Cut(begin, end, own_id))
            elif depth == 3 and name[3] == _ID and first == _QUOTE:
                own_id = _text(token[1])
    found.whole = found.whole and not text.data[text.end :].strip()
    found.kind = _kind(keys, listed)
    return found


class _Text:
    """A line as far as it was read and is still needed; `base` is where `data` is in it."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._more: bytes | None = b""
        self.data = b""
        self.base = 0
        self.end = 0
        """Of the last token, once there is none left."""
        while self._more is not None and not self.data.strip():
            self._read_on(0)

    def tokens(self) -> Iterator[tuple[int, int, int, bool, re.Match[bytes]]]:
        """(where it begins and ends in the line, first byte, `flat`, match) of each token.

        `flat`: it is a whole list that holds numbers and words alone.
        """
        while True:
            data, base, is_last = self.data, self.base, self._more is None
            sure = len(data) if is_last else len(data) - _MARGIN
            ahead = [-1] * len(_MARKS)
            end = 0
            while found := _TOKEN.search(data, end):
                start, stop = found.span()
                first = data[start]
                flat = False
                if first == _LIST:
                    close, other = _marks_after(data, stop, ahead)
                    if close == other and not is_last:  # what ends it is still to come
                        break
                    if flat := close < other:
                        stop = close + 1
                elif stop > sure or (first == _QUOTE and stop - start == 1):
                    break
                end = stop
                yield base + start, base + stop, first, flat, found
            if is_last:
                self.end = end
                return
            self._read_on(end if found is None else start)

    def _read_on(self, keep: int) -> None:
        """Forget what is before `keep`, and read at least as much as is left.

        What goes on for longer than a text may be ends here, as if torn: reading refuses it.
        """
        parts = [self.data[keep:]]
        wanted = len(parts[0]) or 1
        while 0 < wanted <= TEXT_BYTES and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            wanted -= len(piece)
        self._more = None if wanted > 0 else b""
        self.base, self.data = self.base + keep, b"".join(parts)


def _marks_after(data: bytes, at: int, ahead: list[int]) -> tuple[int, int]:
    """Where the next "]" and the next other mark are; `ahead` is where each was last found.

    So each byte is looked at once for each mark.
    """
    for k, mark in enumerate(_MARKS):
        if ahead[k] < at:
            place = data.find(mark, at)
            ahead[k] = len(data) if place < 0 else place
    close, *others = ahead
    return close, min(others)


def _kind(keys: set[bytes], first: int) -> Kind | None:
    if TRACES in keys:
        return Kind.EPISODE if first == _LIST else None
    if NODES in keys:
        return Kind.TRACE
    return Kind.ROW if keys >= _ROW else None


def _text(token: bytes) -> str | None:
    value = parse_json(token)
    return None if isinstance(value, Absent) or not value else plain_text(str(value))
