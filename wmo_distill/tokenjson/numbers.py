"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. simdjson, where it is installed, makes an
array of them without a Python object for each; else orjson parses. Whatever these do not surely
read as `json.loads` does goes through that.
"""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import orjson

from wmo_distill.arrays import ID_LIMIT, Ids, Logprobs, frozen
from wmo_distill.tokenjson.rows import LogprobRow, id_row, logprob_row

simdjson: Any = None
with suppress(ImportError):
    simdjson = import_module("simdjson")

WHITE = b" \t\r\n"
# What stands in a fraction, in true, false and null, and in a string or an object.
_NO_INTEGER = (b".", b"e", b"E", b"u", b'"')
_NO_NUMBER = (b"u", b"a", b'"', b"{")
# simdjson counts the elements of a list in 24 bits.
_SIMDJSON_LIMIT = 1 << 24
_LARGE = 1 << 20


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document can tell what it is."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    array = b"[%b]" % text
    ids = None if simdjson is None else _simdjson_ids(array)
    if ids is None:
        ids = _orjson_ids(array)
    return id_row(_loads(text)).delta if ids is None else ids


def read_ids_after(text: bytes) -> Ids | None:
    """As `read_ids`, for what follows a number: ", 2, 3", white space or nothing."""
    ids = read_ids(b"0" + text)
    return None if ids is None else ids[1:]


def read_logprobs(text: bytes) -> LogprobRow:
    """Log-probabilities of the text between the brackets."""
    array = b"[%b]" % text
    if simdjson is not None and (values := _simdjson_logprobs(array)) is not None:
        return LogprobRow(values)
    try:
        found = orjson.loads(array)
    except orjson.JSONDecodeError:
        # NaN, Infinity and numbers beyond a double are readable JSON here, though not there.
        return logprob_row(_loads(text))
    if any(mark in array for mark in _NO_NUMBER):
        return logprob_row(found)
    return LogprobRow(frozen(np.array(found, np.float64)))


def prove_flat(texts: Sequence[bytes]) -> None:
    """NotFlat unless each text is the inside of a flat JSON list; no text holds a bracket "]".

    Without a string no text can lean on another: one that opens a bracket leaves it open.
    """
    if simdjson is None:
        for text in texts:
            try:
                orjson.loads(b"[%b]" % text)
            except orjson.JSONDecodeError:
                _loads(text)
        return
    whole = b"[[%b]]" % b"],[".join(texts)
    if b'"' in whole:
        raise NotFlat
    try:
        _parse(whole)
    except (ValueError, RuntimeError):
        raise NotFlat from None


def prove_ids(texts: Sequence[bytes]) -> None:
    """As `prove_flat`, faster where the texts are plain ids."""
    if not plain_ids(b", ".join(texts)):
        prove_flat(texts)


def plain_ids(joined: bytes) -> bool:
    """Whether a text is numbers of 1 to 15 digits, without leading zeros, with ", " between them.

    Then so is each text of which it is joined.
    """
    text = np.frombuffer(joined, np.uint8)
    digit = text - np.uint8(48) < 10  # bytes below "0" wrap around
    if text.size < 4 or not (digit[0] and digit[-1]):
        return False
    zero = (text == 48)[:-1] & digit[1:]
    comma = (text[:-1] == 44) & (text[1:] == 32)
    if np.count_nonzero(digit) + 2 * np.count_nonzero(comma) != text.size:
        return False
    if zero[0] or (comma[:-2] & (zero[2:] | comma[2:])).any():
        return False
    for width in (1, 2, 4, 8):
        digit = digit[width:] & digit[:-width]
    return not digit.any()


def prove_value(text: bytes) -> bool:
    """Whether simdjson is installed and finds one JSON value, which begins with the first byte."""
    # simdjson passes over a BOM.
    if simdjson is None or text.startswith(b"\xef\xbb\xbf"):
        return False
    document = None
    try:
        # A parser keeps the memory of its largest text.
        large = len(text) > _LARGE
        document = simdjson.Parser().parse(text) if large else _parse(text)
        return document is not None
    except (ValueError, RuntimeError):
        return False
    finally:
        del document


class _Parsers(threading.local):
    """A simdjson parser for each thread; its memory is used again for every list."""

    def __init__(self) -> None:
        self.parse: Callable[[bytes], Any] = simdjson.Parser().parse


_parsers: _Parsers | None = None


def _parse(text: bytes) -> Any:
    """What simdjson parses, which must be gone before anything else is parsed.

    Of an array that is to become numbers the text holds one closing bracket, so it cannot hold a
    list, which simdjson would flatten.
    """
    global _parsers
    if len(text) >= _SIMDJSON_LIMIT:
        raise ValueError
    if _parsers is None:
        _parsers = _Parsers()
    return _parsers.parse(text)


def _simdjson_ids(array: bytes) -> Ids | None:
    """All numbers, None if there is none or any is no integer in [0, 2^31)."""
    document = None
    try:
        document = _parse(array)
        values = np.frombuffer(document.as_buffer(of_type="i"), np.uint64)
        # A negative number reads as one beyond 2^63; no number at all has no maximum.
        if np.maximum.reduce(values) >= ID_LIMIT:
            return None
        ids = values.astype(np.int32)
        ids.setflags(write=False)
        return ids
    except (ValueError, TypeError, RuntimeError):
        return None
    finally:
        del document


def _simdjson_logprobs(array: bytes) -> Logprobs | None:
    """All numbers, None if any is no number or beyond a double."""
    document = None
    try:
        document = _parse(array)
        values = np.frombuffer(document.as_buffer(of_type="d"), np.float64).copy()
        values.setflags(write=False)
        return values
    except (ValueError, TypeError, RuntimeError):
        return None
    finally:
        del document


def _orjson_ids(array: bytes) -> Ids | None:
    """All numbers, None if any may be no integer in [0, 2^31)."""
    # NumPy takes 2.5, true and "2" for integers; it refuses null and what is too large.
    if any(mark in array for mark in _NO_INTEGER):
        return None
    try:
        ids = np.array(orjson.loads(array), np.int32)
    except (ValueError, TypeError, OverflowError):
        return None
    return None if ids.size and np.minimum.reduce(ids) < 0 else frozen(ids)


def _loads(text: bytes) -> list[object]:
    try:
        values = json.loads((b"[%b]" % text).decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotFlat from None
    assert isinstance(values, list)
    return values
