"""How much memory one trial may take beyond its tokens, decided before that memory is taken.

Token lists become arrays as they are read, 4 bytes an id and 8 a log-probability, so the largest
file bounds them. All else that a trial records becomes Python objects, up to 25 times its text.
"""

import ctypes
from contextlib import suppress

from wmo_distill.errors import DistillError

TEXT_BYTES = 256_000_000
"""Text of one document without its token lists; of one line, row or event with them."""
LIST_BYTES = 1_000_000_000
"""Text of one list of numbers, and of one extra of a call."""
PARSED_BYTES = 2_000_000_000
"""Estimate of what the parsed documents of a trial take together."""
LISTS = 1_000_000
"""Lists of numbers in one document; a call has three."""
LARGE = 1 << 24
"""Bytes of a trial from which memory that a step has freed is returned before the next step."""
_OBJECT_BYTES = 64
"""What one value of JSON takes at most, on average, whatever its text."""
_SMALL = 1 << 20


class TooLarge(DistillError):  # noqa: N818 - what was found of a trial, not a failure
    """A trial records more than may be held in memory: it has no rows, and this as its reason."""


def parsed_bytes(text: bytes | memoryview) -> int:
    """An upper estimate of the memory of a parsed text; that of a small one is not looked at."""
    size = len(text)
    if size <= _SMALL:
        return size
    pieces = (bytes(text[at : at + _SMALL]) for at in range(0, size, _SMALL))
    return size + _OBJECT_BYTES * sum(sum(map(one.count, (b",", b"[", b"{"))) for one in pieces)


def refuse_beyond(size: int, most: int, what: str) -> None:
    """TooLarge if a size is above its limit."""
    if size > most:
        raise TooLarge(
            f"{what}: expected at most {most:,}, found {size:,} or more; "
            "split the file, or leave this trial out"
        )


def refuse_large_value(text: bytes | memoryview) -> None:
    """TooLarge if a parsed text would take too much memory."""
    refuse_beyond(parsed_bytes(text), PARSED_BYTES, "bytes of memory for a parsed document")


def give_back_memory() -> None:
    """Return freed memory to the system, which glibc else keeps between arrays that are in use."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
