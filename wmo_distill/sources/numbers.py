"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. NumPy reads such text fast but believes
much, so its answer is used only for a text of digits, commas and white space in which it finds as
many numbers as there is room for between the commas. Any other text goes through a JSON parser.
"""

import json
import re

import numpy as np
import orjson

from wmo_distill.sources.rows import IdRow, LogprobRow, id_row, logprob_row
from wmo_distill.tokens import ID_LIMIT, NO_IDS, Ids, frozen

WHITE = b" \t\r\n"
_LEADING_ZERO = re.compile(rb"(?:^|,)0[0-9]")


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document can tell what it is."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    text = text.strip(WHITE)
    if not text:
        return NO_IDS
    compact = text.translate(None, WHITE)
    if not compact.translate(None, b",").isdigit():
        return _checked(text)
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (ValueError, DeprecationWarning):  # it met something else before the end
        return _checked(text)
    # White space inside a number, and commas too many, end NumPy's reading early.
    if values.size != compact.count(b",") + 1 or values.max(initial=0) >= ID_LIMIT:
        return _checked(text)
    if (compact[0] == 48 or b",0" in compact) and _LEADING_ZERO.search(compact):
        raise NotFlat
    return frozen(values.astype(np.int32))


def read_ids_after(text: bytes) -> Ids | None:
    """As `read_ids`, for text that goes on after at least one number: ", 2, 3" or nothing."""
    text = text.strip(WHITE)
    if not text:
        return NO_IDS
    if text[0] != 44:
        raise NotFlat
    rest = text[1:]
    if not rest.strip(WHITE):
        raise NotFlat
    return read_ids(rest)


def read_logprobs(text: bytes) -> LogprobRow:
    """Log-probabilities of the text between the brackets."""
    listed = b"[%b]" % text
    try:
        values = orjson.loads(listed)
    except orjson.JSONDecodeError:
        # NaN, Infinity and numbers beyond a double are readable JSON here, though not there.
        values = _loads(listed)
    return logprob_row(values)


def _checked(text: bytes) -> Ids | None:
    row: IdRow = id_row(_loads(b"[%b]" % text))
    return row.delta


def _loads(listed: bytes) -> list[object]:
    try:
        values = json.loads(listed.decode("utf-8"))
    except (ValueError, RecursionError):
        raise NotFlat from None
    assert isinstance(values, list)
    return values
