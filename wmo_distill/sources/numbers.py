"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. NumPy reads such text fast but believes
much, so its answer is used only for a text of digits, commas and white space in which it finds as
many numbers as there is room for between the commas. simdjson, where it is installed, is faster
and believes nothing. Whatever these do not take goes through the ordinary parser.
"""

import json
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import orjson

from wmo_distill.sources.rows import LogprobRow, id_row, logprob_row
from wmo_distill.tokens import ID_LIMIT, NO_IDS, Ids, Logprobs, frozen

simdjson: Any = None
with suppress(ImportError):
    simdjson = import_module("simdjson")

WHITE = b" \t\r\n"
_LEADING_ZERO = re.compile(rb"(?:^|,)0[0-9]")
# simdjson counts the elements of a list in 24 bits.
_SIMDJSON_LIMIT = 1 << 24
_LARGE = 1 << 20


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document can tell what it is."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    if simdjson is not None and (ids := _simdjson_ids(b"[%b]" % text)) is not None:
        return ids
    if not text or text.isspace():
        return NO_IDS if not text.strip(WHITE) else id_row(_loads(text)).delta
    ids = _numpy_ids(text)
    if ids is None:
        ids = id_row(_loads(text)).delta
    return ids


def read_ids_after(text: bytes) -> Ids | None:
    """As `read_ids`, for text that goes on after at least one number: ", 2, 3" or nothing."""
    if simdjson is not None and (ids := _simdjson_ids(b"[0%b]" % text)) is not None:
        return ids[1:]
    text = text.strip(WHITE)
    if not text:
        return NO_IDS
    if text[0] != 44 or not (rest := text[1:]).strip(WHITE):
        raise NotFlat
    return read_ids(rest)


def read_logprobs(text: bytes) -> LogprobRow:
    """Log-probabilities of the text between the brackets."""
    if simdjson is not None and (values := _simdjson_logprobs(b"[%b]" % text)) is not None:
        return LogprobRow(values)
    try:
        return logprob_row(orjson.loads(b"[%b]" % text))
    except orjson.JSONDecodeError:
        # NaN, Infinity and numbers beyond a double are readable JSON here, though not there.
        return logprob_row(_loads(text))


def prove_flat(texts: Sequence[bytes]) -> None:
    """NotFlat unless each text is the inside of a flat JSON list; no text holds a bracket "]".

    Without a string no text can lean on another: one that opens a bracket leaves it open.
    """
    if simdjson is None:
        for text in texts:
            read_logprobs(text)
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


def _parse(array: bytes) -> Any:
    """A simdjson array, which must be gone before the next one is asked for.

    Its text holds one closing bracket, so it cannot hold a list, which simdjson would flatten.
    """
    global _parsers
    if len(array) >= _SIMDJSON_LIMIT:
        raise ValueError
    if _parsers is None:
        _parsers = _Parsers()
    return _parsers.parse(array)


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


def _numpy_ids(text: bytes) -> Ids | None:
    """All numbers, None if the text may be anything but ids."""
    text = text.strip(WHITE)
    compact = text.translate(None, WHITE)
    digits = compact.translate(None, b",")
    # NumPy reads white space between two commas as a zero.
    if not digits.isdigit() or b",," in compact or compact.startswith(b","):
        return None
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (ValueError, DeprecationWarning):  # it met something else before the end
        return None
    # White space inside a number, and a comma at the end, end NumPy's reading early.
    if not values.size or values.size != len(compact) - len(digits) + 1 or values.max() >= ID_LIMIT:
        return None
    if (compact[0] == 48 or b",0" in compact) and _LEADING_ZERO.search(compact):
        return None
    return frozen(values.astype(np.int32))


def _loads(text: bytes) -> list[object]:
    try:
        values = json.loads((b"[%b]" % text).decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotFlat from None
    assert isinstance(values, list)
    return values
