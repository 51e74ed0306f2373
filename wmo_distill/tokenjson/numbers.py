"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. simdjson, where it is installed, makes an
array of them without a Python object for each; else NumPy does for long lists of ids, and orjson
parses all others. Whatever these do not surely read as `json.loads` does goes through that.
"""

import json
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import orjson

from wmo_distill.arrays import ID_LIMIT, Ids, Logprobs, frozen
from wmo_distill.limits import refuse_large_value
from wmo_distill.tokenjson.rows import LogprobRow, id_row, logprob_row

simdjson: Any = None
with suppress(ImportError):
    simdjson = import_module("simdjson")

WHITE = b" \t\r\n"
# What is in true, false and null, and in a string or an object.
_NO_NUMBER = (b"u", b"a", b'"', b"{")
# What NumPy's parser skips beyond JSON's white space, and signs.
_LENIENT = (b"-", b"+", b"\v", b"\f")
# simdjson counts the elements of a list in 24 bits.
_SIMDJSON_LIMIT = 1 << 24
_LARGE = 1 << 20
_PIECE = 1 << 19
"""Bytes of a list of ids that are read at once."""
_LONG = 1 << 13
"""Bytes of a list from which NumPy, with the proof, is faster than orjson."""


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document shows what it is."""


class NotText(Exception):  # noqa: N818 - as above
    """The file holds zeros where it was not written, as a sparse one does: it is no JSON."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    ids = _ids_in_pieces(text) if len(text) > _PIECE else None
    return _ids_at_once(text) if ids is None else ids


def _ids_in_pieces(text: bytes) -> Ids | None:
    """The same for a long text, cut at commas, so that what is made of it on the way is small.

    None if a piece is empty, as behind a last comma, or holds something that is no id.
    """
    found = np.empty(text.count(b",") + 1, np.int32)
    start = n = 0
    while start <= len(text):
        end = text.find(b",", start + _PIECE)
        piece = text[start : len(text) if end < 0 else end]
        if b'"' in piece or not piece.strip(WHITE):
            return None
        try:
            ids = _ids_at_once(piece)
        except NotFlat:
            return None
        if ids is None:
            return None
        found[n : n + ids.size] = ids
        start, n = start + len(piece) + 1, n + ids.size
    return frozen(found)


def _ids_at_once(text: bytes) -> Ids | None:
    whole = b"[%b]" % text
    ids = None if simdjson is None else _simdjson_ids(whole)
    if ids is None and len(text) >= _LONG:
        ids = _numpy_ids(text)
    if ids is None:
        ids = _orjson_ids(whole)
    return id_row(_loads(text)).delta if ids is None else ids


def read_ids_after(text: bytes) -> Ids | None:
    """As `read_ids`, for what follows a number: ", 2, 3", white space or nothing."""
    ids = read_ids(b"0" + text)
    return None if ids is None else ids[1:]


def read_logprobs(text: bytes) -> LogprobRow:
    """Log-probabilities of the text between the brackets."""
    whole = b"[%b]" % text
    if simdjson is not None and (values := _simdjson_logprobs(whole)) is not None:
        return LogprobRow(values)
    try:
        found = orjson.loads(whole)
    except orjson.JSONDecodeError:
        # NaN, Infinity and numbers beyond a double are readable JSON here, though not there.
        return logprob_row(_loads(text))
    if any(mark in whole for mark in _NO_NUMBER):
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


def is_value(text: bytes) -> bool:
    """Whether a text is surely one JSON value, whichever parser is installed; it is not kept."""
    if simdjson is not None:
        return prove_value(text)
    refuse_large_value(text)
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


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


def _simdjson_ids(whole: bytes) -> Ids | None:
    """All numbers, None if there is none or any is no integer in [0, 2^31)."""
    document = None
    try:
        document = _parse(whole)
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


def _simdjson_logprobs(whole: bytes) -> Logprobs | None:
    """All numbers, None if any is no number or beyond a double."""
    document = None
    try:
        document = _parse(whole)
        values = np.frombuffer(document.as_buffer(of_type="d"), np.float64).copy()
        values.setflags(write=False)
        return values
    except (ValueError, TypeError, RuntimeError):
        return None
    finally:
        del document


def _numpy_ids(text: bytes) -> Ids | None:
    """All numbers, None if any may be no integer in [0, 2^31).

    NumPy also reads "+7", "007" and "1, 2,", takes an empty place for 0, and clamps at 2^63. So its
    numbers are written as JSON again: of "1, 007" that is [1,7], with 2 digits where the text has
    4. Without signs and empty places no number has fewer digits in the text than written again, so
    equal sums prove each. An empty place may be behind a 0: then all bytes are compared.
    """
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (ValueError, DeprecationWarning):  # before NumPy 2.4 it warned, and ended there
        return None
    written = orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    digits = np.count_nonzero(np.frombuffer(text, np.uint8) > 47)
    if digits != len(written) - values.size + 1 or not text.rstrip(WHITE)[-1:].isdigit():
        return None
    if any(mark in text for mark in _LENIENT) or np.maximum.reduce(values) >= ID_LIMIT:
        return None
    if not values.all() and written != text.translate(None, WHITE):
        return None
    return frozen(values.astype(np.int32))


def _orjson_ids(whole: bytes) -> Ids | None:
    """All numbers, None if any may be no integer in [0, 2^31)."""
    # An array refuses fractions, strings, null and what is too large, but takes true for 1 and
    # false for 0: both hold an "e".
    if b"e" in whole or b"-" in whole:
        return None
    try:
        return frozen(np.frombuffer(array("i", orjson.loads(whole)), np.int32))
    except (ValueError, TypeError, OverflowError):
        return None


def _loads(text: bytes) -> list[object]:
    try:
        values = json.loads((b"[%b]" % text).decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotFlat from None
    assert isinstance(values, list)
    return values
