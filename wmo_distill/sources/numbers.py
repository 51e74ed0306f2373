"""The text of one flat JSON list of numbers to an array.

Harbor writes one number a line, about 30 bytes an id. NumPy reads such text fast but believes
much, so its answer is used only where the digits of the numbers it gives are as many as those in
a text of nothing but digits, commas and white space. Any other text goes through a JSON parser.
"""

import json

import numpy as np
import orjson

from wmo_distill.sources.rows import IdRow, LogprobRow, id_row, logprob_row
from wmo_distill.tokens import ID_LIMIT, NO_IDS, Ids, frozen

WHITE = b" \t\r\n"
_WHITE_AND_COMMAS = WHITE + b","
_POWERS = [10**k for k in range(1, 10)]


class NotFlat(Exception):  # noqa: N818 - a signal to take the ordinary path, not an error
    """The text is no flat JSON list; only the whole document can tell what it is."""


def read_ids(text: bytes) -> Ids | None:
    """Ids of the text between the brackets; None if it holds something that is no id."""
    text = text.strip(WHITE)
    if not text:
        return NO_IDS
    digits = text.translate(None, _WHITE_AND_COMMAS)
    if not digits.isdigit():
        return _checked(text)
    try:
        values = np.fromstring(text, np.int64, sep=",")
    except (ValueError, DeprecationWarning):  # it met something else before the end
        return _checked(text)
    largest = values.max() if values.size else ID_LIMIT
    if values.size != text.count(b",") + 1 or largest >= ID_LIMIT:
        return _checked(text)
    tens = sum(int(np.count_nonzero(values >= p)) for p in _POWERS if p <= largest)
    if values.size + tens != len(digits):
        return _checked(text)  # leading zeros
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
