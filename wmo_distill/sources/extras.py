"""The large elements of an `extra`, taken out of a document one by one as it streams by.

An `extra` holds lists with one element a call; routed experts make them hundreds of megabytes.
Harbor indents by four, so a line tells by its indentation where an element begins and ends. No
string of JSON spans lines, and an element counts only when it is proved to be one JSON value, so
a document that is indented in another way is never misread: it takes the ordinary path.
"""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from wmo_distill.sources.numbers import WHITE, NotFlat, prove_value
from wmo_distill.sources.window import Window

SMALL = 1 << 12
"""Bytes of an element, or of all of an `extra`, that stay in the document."""
_PATIENCE = 1 << 12
"""Small elements after which the rest of an `extra` is left to the parser, which is faster."""
_NAME = b'"extra"'
_NO_INTEGERS = re.compile(rb"-0|[^-0-9,\[\]]")

_in_unicode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_in_ascii = json.JSONEncoder(separators=(",", ":")).encode


class Written(NamedTuple):
    """An element that was taken out: its text as `json_text` gives it, None where not wanted."""

    text: str | None

    def value(self) -> Any:
        return None if self.text is None else json.loads(self.text)


def json_text(value: Any) -> str | None:
    """JSON without white space outside strings, in characters that UTF-8 can hold.

    None where it is nested too deeply to be written.
    """
    if isinstance(value, Written):
        return value.text
    try:
        text = _in_unicode(value)
        return text if text.isascii() or _encodable(text) else _in_ascii(value)
    except RecursionError:
        return None


def written(element: bytes, wanted: bool) -> Written:
    """An element of a list; NotFlat unless it is one JSON value."""
    if prove_value(element):
        if not wanted:
            return Written(None)
        compact = element.translate(None, WHITE)
        if not _NO_INTEGERS.search(compact):
            return Written(compact.decode())
    try:
        value = json.loads(element.decode())
    except (ValueError, RecursionError):
        raise NotFlat from None
    text = json_text(value) if wanted else None
    if wanted and text is None:
        raise NotFlat
    return Written(text)


def pass_extra(window: Window, pieces: list[bytes], put: Callable[[bytes], bytes]) -> None:
    """Pass over the object under a key that is taken and ends `pieces`.

    In the place of a large element stands what `put` gives for it. Whatever is not of the form
    that Harbor writes stays in the document.
    """
    indent = _indentation(pieces)
    if indent is None or window.peek() != 58:  # ":"
        return
    data, end = window.data, b"\n%b}" % indent
    if data.find(end, window.pos, min(window.end, window.pos + SMALL)) >= 0:
        return
    line = re.compile(rb"\n%b(?:(        )(?=[^ \r\n\]}])|    \]|(\}))" % indent)
    reach = len(indent) + 11
    if 2 * reach > len(data):
        return
    is_element = False
    patience = _PATIENCE
    while patience:
        text, found = window.until_match(line, reach)
        patience -= len(text) < SMALL
        if found is None:
            pieces.append(text)
            return
        begins = found[1] is not None
        if not is_element:
            pieces.append(text)
            is_element = begins and text.endswith(b"[")
        elif begins and text.endswith(b","):
            pieces += _kept(text[:-1], put), b","
        elif begins or found[2]:
            raise NotFlat
        else:
            pieces.append(_kept(text, put))
            is_element = False
        # Without its line break, a broken string that spans lines would look whole.
        pieces.append(found[0])
        if found[2]:
            return


def _kept(element: bytes, put: Callable[[bytes], bytes]) -> bytes:
    return element if len(element) < SMALL else put(element)


def _indentation(pieces: list[bytes]) -> bytes | None:
    """The spaces before the key that ends the text, None if it does not stand first in its line."""
    text = b"".join(pieces[-2:])
    line = text[text.rfind(b"\n") + 1 : -len(_NAME)]
    return None if line.strip(b" ") or len(line) == len(text) - len(_NAME) else line


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
