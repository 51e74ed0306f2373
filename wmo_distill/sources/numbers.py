"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. NumPy reads such text fast but believes
much, so its answer is used only for a text of digits, commas and white space in which it finds as
many numbers as there is room for between the commas. simdjson, where it is installed, is faster
and believes nothing. Whatever these do not take goes through the ordinary parser.
"""

import json
import re
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from wmo_distill.sources.rows import LogprobRow, id_row, logprob_row
from wmo_distill.tokens import ID_LIMIT, NO_IDS, Ids, frozen

simdjson: Any = None
with suppress(ImportError):
    simdjson = import_module("simdjson")

WHITE = b" \t\r\n"
_LEADING_ZERO = re.compile(rb"(?:^|,)0[0-9]")
# simdjson counts the elements of a list in 24 bits.
_SIMDJSON_LIMIT = 1 << 24
_parsers = threading.local()


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document can tell what it is."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    if not text.strip(WHITE):
        return NO_IDS
    values = _simdjson(text, "i") if simdjson is not None else _numpy_ids(text)
    if values is None or int(values.min()) < 0 or int(values.max()) >= ID_LIMIT:
        return id_row(_loads(text)).delta
    return frozen(values.astype(np.int32))


def read_ids_after(text: bytes) -> Ids | None:
    """As `read_ids`, for text that goes on after at least one number: ", 2, 3" or nothing."""
    text = text.strip(WHITE)
    if not text:
        return NO_IDS
    if text[0] != 44 or not (rest := text[1:]).strip(WHITE):
        raise NotFlat
    return read_ids(rest)


def read_logprobs(text: bytes) -> LogprobRow:
    """Log-probabilities of the text between the brackets."""
    if simdjson is not None:
        values = _simdjson(text, "d")
        if values is not None:
            return LogprobRow(frozen(values))
    try:
        return logprob_row(orjson.loads(b"[%b]" % text))
    except orjson.JSONDecodeError:
        # NaN, Infinity and numbers beyond a double are readable JSON here, though not there.
        return logprob_row(_loads(text))


def _simdjson(text: bytes, kind: str) -> NDArray[Any] | None:
    """All numbers as int64 (`i`) or float64 (`d`), None if any is of another kind."""
    if len(text) >= _SIMDJSON_LIMIT:
        return None if kind == "d" else _numpy_ids(text)
    parser = _parsers.__dict__.get("parser") or _parsers.__dict__.setdefault(
        "parser", simdjson.Parser()
    )
    document = None
    try:
        # The text holds no closing bracket, so it cannot hold a list, which would be flattened.
        document = parser.parse(b"[%b]" % text)
        buffer = document.as_buffer(of_type=kind)
        return np.frombuffer(buffer, np.int64 if kind == "i" else np.float64).copy()
    except (ValueError, TypeError, RuntimeError):
        return None
    finally:
        del document  # the parser cannot be used again while a document of it lives


def _numpy_ids(text: bytes) -> NDArray[np.int64] | None:
    """All numbers, None if the text may be anything but integers without sign."""
    text = text.strip(WHITE)
    compact = text.translate(None, WHITE)
    digits = compact.translate(None, b",")
    if not digits.isdigit():
        return None
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (ValueError, DeprecationWarning):  # it met something else before the end
        return None
    # White space inside a number, and commas too many, end NumPy's reading early.
    if not values.size or values.size != len(compact) - len(digits) + 1:
        return None
    if (compact[0] == 48 or b",0" in compact) and _LEADING_ZERO.search(compact):
        return None
    return values


def _loads(text: bytes) -> list[object]:
    try:
        values = json.loads((b"[%b]" % text).decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotFlat from None
    assert isinstance(values, list)
    return values
