"""Where the objects of a JSON file are, and their short texts, without reading the file whole.

The file is one object, a list of objects, or objects one after another (JSON lines):

    [{"id": "a", "turns": [5, 6]}, {"id": "b", "tu      two elements, the second not whole

Only strings and brackets are looked at, so runs of numbers cost next to nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import IO

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.limits import TEXT_BYTES, refuse_beyond

_TOKEN = re.compile(
    rb'"(?P<text>(?>[^"\\]*(?:\\.[^"\\]*)*))"(?P<colon>[ \t\r\n]*:)?|[{}\[\]]|"', re.DOTALL
)
_LEVELS = 4
"""Lists and objects in each other that are passed over at once: a message has its tool calls."""


def _passed_over() -> re.Pattern[bytes]:
    """Lists and objects one after another; brackets need not match, as none does for `_elements`.

    The depth of what is in them is bounded, and no choice is tried again: time is linear. Runs of
    numbers are bounded too: a search for the next bracket is faster.
    """
    # Atomic groups, since a possessive quantifier of a group is wrong before Python 3.11.5.
    other, text = rb'(?>[^{}\[\]"]{0,400})', rb'"(?>[^"\\]*(?:\\.[^"\\]*)*)"'
    value = text
    for _ in range(_LEVELS):
        value = rb"(?:%b|[{\[]%b(?>(?:%b%b)*)[}\]])" % (text, other, value, other)
    return re.compile(rb"(?>(?:[ \t\r\n,]*(?=[{\[])%b)*)" % value, re.DOTALL)


_VALUES = _passed_over()
_DEEP = 3
"""From this level on objects are not looked into: with as many open brackets."""
_AROUND = (b"[", b"}")
"""Behind these, objects of a list may follow."""
_MARKS = (b'"', b"{", b"}", b"[", b"]")
"""The first bytes of tokens."""
_BOM = b"\xef\xbb\xbf"
_HEAD = 1 << 16
_CHUNK = 1 << 20
_MARGIN = 64
"""A string this close to the end of what is read may be a key whose colon is still to come."""
_LONGEST_TEXT = 512
_MOST_KEYS = 128


@dataclass(slots=True)
class Element:
    """One object: its bytes, and its keys with their texts.

    A key of an object in it is `outer.inner`; a value that is no short string is None.
    """

    start: int
    end: int = 0
    whole: bool = False
    """Whether the object was closed; else `end` is where the reading ended."""
    texts: dict[str, str | None] = field(default_factory=dict)

    def text(self, key: str) -> str | None:
        """The value of a key where it is a string of at least one character."""
        return self.texts.get(key) or None


def outline(files: TrialFiles, relative: str) -> list[Element]:
    """The objects of a file; none where it is of another form."""
    return _outline(files, relative, None, None)


def first_object(files: TrialFiles, relative: str) -> Element | None:
    """The first object of a file, as far as its first bytes show it."""
    return next(iter(_outline(files, relative, _HEAD, 1)), None)


def _outline(files: TrialFiles, relative: str, most: int | None, n: int | None) -> list[Element]:
    """At most `n` objects of the first `most` bytes."""
    opened = files.open(relative)
    if isinstance(opened, Absent):
        return []
    with opened:
        try:
            return list(islice(_elements(opened, most), n))
        except MemoryError:
            return []


def read_between(files: TrialFiles, relative: str, start: int, end: int) -> bytes | Absent:
    """The bytes of an element."""
    opened = files.open(relative)
    if isinstance(opened, Absent):
        return opened
    refuse_beyond(end - start, TEXT_BYTES, f"{relative}: bytes of one object")
    with opened:
        try:
            opened.seek(start)
            return opened.read(end - start)
        except MemoryError:
            return Absent.UNREADABLE


def _elements(file: IO[bytes], most: int | None) -> Iterator[Element]:
    stack: list[bytes] = []
    keys: list[str | None] = [None, None]
    base: int | None = None
    element: Element | None = None
    at = 0
    for at, token in _tokens(file, most, stack):
        mark = token[0]
        if base is None:
            base = 1 if mark == b"[" else 0
        if mark in (b"{", b"["):
            if len(stack) == base:
                if mark == b"[" and base == 0:
                    return
                element = Element(at) if mark == b"{" else None
            stack.append(mark)
        elif mark in (b"}", b"]"):
            if not stack:
                return
            stack.pop()
            if element is not None and len(stack) == base:
                element.end, element.whole = at + 1, mark == b"}"
                yield element
                element = None
            if not stack and base == 1:
                return
        elif mark == b'"':
            break
        elif element is not None:
            _note(element, token, len(stack) - base, keys, stack[-1] == b"{")
    if element is not None:
        element.end = file.tell()
        yield element


def _note(
    element: Element, token: re.Match[bytes], depth: int, keys: list[str | None], in_object: bool
) -> None:
    if depth > 2 or not in_object:
        return
    text = token["text"]
    known = len(text) <= _LONGEST_TEXT and b"\\" not in text
    word = text.decode("utf-8", "replace") if known else None
    if token["colon"] is not None:
        keys[depth - 1] = word
        if depth == 1 and word is not None and len(element.texts) < _MOST_KEYS:
            element.texts.setdefault(word, None)
        return
    if word is None or None in keys[:depth]:
        return
    name = ".".join(key for key in keys[:depth] if key is not None)
    if name in element.texts or len(element.texts) < _MOST_KEYS:
        element.texts[name] = word


def _tokens(
    file: IO[bytes], most: int | None, stack: list[bytes]
) -> Iterator[tuple[int, re.Match[bytes]]]:
    """(offset, token) of every string and bracket; a lone quote is a string without an end.

    The caller keeps the open brackets in `stack`; deep in it whole objects may be left out.
    """
    data = file.read(_CHUNK if most is None else most)
    offset = len(_BOM) if data.startswith(_BOM) else 0
    data = data[offset:]
    if data.lstrip(b" \t\r\n")[:1] not in (b"{", b"["):
        return
    ended = most is not None or not data
    size = _CHUNK
    while True:
        stop = len(data)
        ahead = [-1] * len(_MARKS)
        at = _next_mark(data, 0, ahead)
        while token := _TOKEN.search(data, at):
            if not ended and (token.end() > len(data) - _MARGIN or token[0] == b'"'):
                stop = token.start()
                break
            yield offset + token.start(), token
            at = token.end()
            if token[0] == b"[":
                at = _next_mark(data, at, ahead)
            if token[0] in _AROUND and len(stack) >= _DEEP and (passed := _VALUES.match(data, at)):
                at = passed.end()
        if ended:
            return
        size = _CHUNK if stop else 2 * size
        offset, data = offset + stop, data[stop:]
        more = file.read(size) if len(data) <= TEXT_BYTES else b""
        ended, data = not more, data + more


def _next_mark(data: bytes, at: int, ahead: list[int]) -> int:
    """Where the next token begins; `ahead` is where each mark was last found.

    So runs of numbers are passed over by a search for single bytes, once for each mark.
    """
    for k, mark in enumerate(_MARKS):
        if ahead[k] < at:
            place = data.find(mark, at)
            ahead[k] = len(data) if place < 0 else place
    return min(ahead)
