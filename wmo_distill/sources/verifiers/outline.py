"""What one line is, by its outermost keys, and where its traces are; no number is parsed.

an episode        {"id": "e", "traces": [{"id": "t", "nodes": [...]}, ...]}
a bare trace      {"id": "t", "nodes": [...]}
a row before them {"example_id": 0, "completion": [...], "reward": 1.0}
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wmo_distill.files import Absent, parse_json, plain_text

# A string, with the colon if it is a key; a bracket; or the quote of a string that does not end.
_TOKEN = re.compile(rb'("(?>[^"\\]*(?:\\.[^"\\]*)*)")([ \t\r]*:)?|[\[\]{}]|"', re.DOTALL)
_MARKS = (b"]", b"[", b'"', b"{")
_BOM = b"\xef\xbb\xbf"
_ID, _TRACES, _NODES = b'"id"', b'"traces"', b'"nodes"'
_ROW = {b'"example_id"', b'"completion"', b'"reward"'}
_QUOTE, _LIST, _OBJECT = b'"[{'
_DEEP = 4
"""Below this level nothing is looked at."""


class Kind(StrEnum):
    """What a line is."""

    EPISODE = "episode"
    TRACE = "trace"
    ROW = "row"
    """A rollout of the time before traces (v0)."""


class Cut(NamedTuple):
    """One trace of an episode: bytes `start`..`stop` of the line."""

    start: int
    stop: int
    trace_id: str | None


@dataclass(slots=True)
class Outline:
    """One line; `kind` is None for what is none of ours."""

    kind: Kind | None = None
    whole: bool = False
    """Whether its brackets close at the end, and there alone."""
    own_id: str | None = None
    cuts: list[Cut] = field(default_factory=list)
    """Of an episode: the objects in `traces`."""
    listed: tuple[int, int] = (0, 0)
    """Of an episode: where the list `traces` begins and ends."""


def outline_of(line: bytes) -> Outline:
    """The outline of one line; of a torn one what its beginning shows."""
    found = Outline()
    lead = len(_BOM) if line.startswith(_BOM) else 0
    if not line[lead:].lstrip(b" \t\r").startswith(b"{"):
        return found
    keys: set[bytes] = set()
    depth = 0
    name = [b""] * (_DEEP + 1)  # the last key on each level
    start = [0] * (_DEEP + 1)  # where the value that holds each level begins
    trace_id: str | None = None
    ahead = [-1] * len(_MARKS)
    closed = last = end = 0
    while token := _TOKEN.search(line, end):
        begin, end = token.span()
        byte = line[begin]
        if byte == _QUOTE:
            if token[1] is None:
                break
            if token[2]:
                if depth <= _DEEP:
                    name[depth] = token[1]
                if depth == 1:
                    keys.add(token[1])
                continue
        elif byte == _LIST and (close := _flat_end(line, end, ahead)):
            end = close
        else:
            if byte in b"[{":
                depth += 1
                if depth <= _DEEP:
                    start[depth], name[depth] = begin, b""
                if depth == 2 and name[1] == _TRACES:
                    found.cuts, found.listed = [], (begin, end)
                elif depth == 3:
                    trace_id = None
                continue
            depth -= 1
            if depth < 0:
                closed += 1  # more than was opened
                break
            begin = start[depth + 1] if depth < _DEEP else begin
        if depth > 3:
            continue
        # A value of this level ends here.
        first = line[begin]
        if depth < 1:
            closed, last = closed + 1, end
        elif depth == 1 and name[1] == _ID and first == _QUOTE:
            found.own_id = _text(token[1])
        elif name[1] == _TRACES:
            if depth == 1:
                found.cuts = found.cuts if begin == found.listed[0] else []
                found.listed = begin, end
            elif depth == 2 and first == _OBJECT and line[start[2]] == _LIST:
                found.cuts.append(Cut(begin, end, trace_id))
            elif depth == 3 and name[3] == _ID and first == _QUOTE:
                trace_id = _text(token[1])
    found.whole = closed == 1 and depth == 0 and token is None and not line[last:].strip()
    found.kind = _kind(keys, line[found.listed[0]])
    return found


def _flat_end(line: bytes, at: int, ahead: list[int]) -> int:
    """Where a list ends that opened before `at`, if it holds numbers alone, else 0.

    `ahead` is where each mark is next: each byte is looked at once for each of them.
    """
    for k, mark in enumerate(_MARKS):
        if ahead[k] < at:
            place = line.find(mark, at)
            ahead[k] = len(line) if place < 0 else place
    close, *others = ahead
    return close + 1 if close < min(others) else 0


def _kind(keys: set[bytes], first: int) -> Kind | None:
    if _TRACES in keys:
        return Kind.EPISODE if first == _LIST else None
    if _NODES in keys:
        return Kind.TRACE
    return Kind.ROW if keys >= _ROW else None


def _text(token: bytes) -> str | None:
    value = parse_json(token)
    return None if isinstance(value, Absent) or not value else plain_text(str(value))
