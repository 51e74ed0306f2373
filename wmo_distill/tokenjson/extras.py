"""The large elements of an `extra`, taken out of a document one by one as it streams by.

An `extra` holds lists with one element a call; routed experts make them hundreds of megabytes.
Harbor indents by four, so the indentation of a line shows where an element begins and ends. No
string of JSON spans lines, and an element counts only when it is proved to be one JSON value, so
a document that is indented in another way is never misread: it takes the ordinary path.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from wmo_distill.tokenjson.numbers import WHITE, NotFlat, prove_value
from wmo_distill.tokenjson.window import Window

SMALL = 1 << 12
"""Bytes of an element, or of all of an `extra`, that stay in the document."""
PATIENCE = 1 << 14
"""Objects, and lines in them, that are looked at in vain in a document; the parser is faster."""
_NAME = b'"extra"'
_DEEPEST_INDENT = 64
_DEEPEST = 100
"""Levels that `json.loads` surely follows, and simdjson too."""
_PLAIN = bytes(range(32, 127)).translate(None, b'"\\')
_UNNESTED = bytes(range(256)).translate(None, b'[]{}"')
_NO_INTEGERS = re.compile(rb"-0|[^-0-9,\[\]]")

_in_unicode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_in_ascii = json.JSONEncoder(separators=(",", ":")).encode


class Written(NamedTuple):
    """An element that was taken out; its text may hold lone surrogates and is None if unwanted."""

    text: str | None
    """JSON without white space outside strings."""

    def value(self) -> Any:
        return None if self.text is None else json.loads(self.text)


def json_text(value: Any) -> str | None:
    """JSON without white space outside strings, in characters that UTF-8 can hold.

    None where it is nested too deeply to be written.
    """
    try:
        text = _in_unicode(value)
        return text if _encodable(text) else _in_ascii(value)
    except RecursionError:
        return None


def object_text(values: Mapping[str, Any]) -> str | None:
    """`json_text` of an object in which some values are `Written`."""
    try:
        members = [f"{_in_unicode(key)}:{_member(value)}" for key, value in values.items()]
    except RecursionError:
        return None
    text = f"{{{','.join(members)}}}"
    if _encodable(text):
        return text
    return json_text({k: v.value() if isinstance(v, Written) else v for k, v in values.items()})


def written(element: bytes, wanted: bool) -> Written:
    """An element of a list; NotFlat unless it is one JSON value."""
    if element.startswith(b'"'):
        if element.translate(None, _PLAIN) == b'""' and element.endswith(b'"'):
            return Written(element.decode() if wanted else None)
    elif not wanted:
        if _shallow(element) and prove_value(element):
            return Written(None)
    else:
        compact = element.translate(None, WHITE)
        integers = not _NO_INTEGERS.search(compact)
        if integers and _shallow(compact) and prove_value(element):
            return Written(compact.decode())
    try:
        value = json.loads(element.decode())
        return Written(_in_unicode(value) if wanted else None)
    except (ValueError, RecursionError):
        raise NotFlat from None


def pass_extra(
    window: Window, pieces: list[bytes], put: Callable[[bytes], bytes], patience: int
) -> int:
    """Pass over the object under a key that is taken and ends `pieces`; gives the patience left.

    `put` gives what replaces a large element in the document. Whatever is not of the form
    that Harbor writes stays in the document.
    """
    patience -= 1
    indent = _indentation(pieces)
    if indent is None or window.peek() != 58:  # ":"
        return patience
    pieces.append(b":")
    window.pos += 1
    window.peek()
    if window.end - window.pos < len(b"{\n"):
        window.refill()
    data, end = window.data, b"\n%b}" % indent
    head = data[window.pos : min(window.end, window.pos + SMALL)]
    if not head.startswith(b"{\n") or end in head:
        return patience
    line = re.compile(rb'\n%b(?:(        )(?=[^ \r\n\]}])|    \]|(\})|(?="))' % indent)
    reach = len(indent) + 11
    if 2 * reach > len(data):
        return patience
    is_element = False
    while patience > 0:
        text, found = window.until_match(line, reach)
        patience -= len(text) < SMALL
        if found is None:
            pieces.append(text)
            break
        begins, ends = found[1] is not None, len(found[0]) <= len(end)
        if not is_element:
            pieces.append(text)
            is_element = begins and text.endswith(b"[")
        elif begins and text.endswith(b","):
            pieces += _kept(text[:-1], put), b","
        elif begins or ends:
            raise NotFlat
        else:
            pieces.append(_kept(text, put))
            is_element = False
        # Without its line break, a broken string that spans lines would look whole.
        pieces.append(found[0])
        if ends:
            break
    return patience


def _kept(element: bytes, put: Callable[[bytes], bytes]) -> bytes:
    return element if len(element) < SMALL else put(element)


def _indentation(pieces: list[bytes]) -> bytes | None:
    """The spaces before the key that ends the text, None if it is not first in its line."""
    text = b"".join(pieces[-2:])[-_DEEPEST_INDENT - len(_NAME) - 1 :]
    line = text[text.rfind(b"\n") + 1 : -len(_NAME)]
    return None if line.strip(b" ") or len(line) == len(text) - len(_NAME) else line


def _shallow(element: bytes) -> bool:
    """Whether it surely nests no deeper than any parser follows."""
    marks = element.translate(None, _UNNESTED)
    if len(marks) <= _DEEPEST:
        return True
    if b'"' in marks:  # brackets in strings open nothing
        return False
    opens = np.isin(np.frombuffer(marks, np.uint8), (91, 123))
    return int(np.cumsum(np.where(opens, 1, -1)).max()) <= _DEEPEST


def _member(value: Any) -> str | None:
    if isinstance(value, Written):
        return value.text
    return "null" if value is None else _in_unicode(value)


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
