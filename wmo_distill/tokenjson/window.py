"""A file seen through a window of fixed size, and text compared without parsing it."""

import ctypes
import mmap
import re
from collections.abc import Callable, Sequence
from typing import IO, Any, Protocol

import numpy as np

from wmo_distill.limits import LIST_BYTES, refuse_beyond
from wmo_distill.tokenjson.numbers import NotText

WINDOW = 1 << 20
_BLOCK = 1 << 12
_REMEMBERED = 1 << 24
_SPACE = 32
"""No greater byte is white space in JSON."""
_WHITE = re.compile(rb"[ \t\r\n]*")

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
_memcmp.restype = ctypes.c_int


class Readable(Protocol):
    """What a window reads from: an unbuffered file, or a part of one."""

    def readinto(self, buffer: Any, /) -> int | None: ...


class Block:
    """Bytes of fixed capacity at a known address; memory is taken up only as it is written."""

    __slots__ = ("_pin", "address", "data", "view")

    def __init__(self, capacity: int) -> None:
        self.data = mmap.mmap(-1, capacity)
        self.view = memoryview(self.data)
        # The pin keeps the address good for as long as the block lives.
        self._pin = (ctypes.c_char * capacity).from_buffer(self.data)
        self.address = ctypes.addressof(self._pin)


class Growing:
    """Text that is put together from pieces, without memory that is left over when it is gone."""

    def __init__(self) -> None:
        self._block = Block(WINDOW)
        self.size = 0

    def add(self, piece: bytes) -> None:
        size = self.size + len(piece)
        if size > len(self._block.data):
            larger = Block(2 * size)
            larger.view[: self.size] = self.text
            self._block = larger
        self._block.view[self.size : size] = piece
        self.size = size

    @property
    def text(self) -> memoryview:
        return self._block.view[: self.size]


class Window:
    """Bytes `pos`..`end` of `block` are the next unread bytes of a file, never the whole file."""

    __slots__ = ("_read", "block", "data", "end", "pos")

    def __init__(self, file: IO[bytes] | Readable, block: Block) -> None:
        self.block = block
        self.data: mmap.mmap | bytes = block.data
        self.pos = 0
        self.end = 0
        self._read: Callable[[memoryview], int | None] = file.readinto  # type: ignore[union-attr]

    def refill(self) -> bool:
        """Move the unread bytes to the front and read on; False at the end of the file.

        Unread bytes must leave room: callers consume or copy out what they have seen.
        """
        left = self.end - self.pos
        if self.pos:
            self.block.view[:left] = self.block.view[self.pos : self.end]
            self.pos, self.end = 0, left
        room = self.block.view[left:]
        if not len(room):
            raise ValueError("window is full of unread bytes")
        n = self._read(room)
        self.end += n or 0
        return bool(n)

    @property
    def address(self) -> int:
        """Of the next unread byte."""
        return self.block.address + self.pos

    def peek(self) -> int | None:
        """The next byte that is no white space, without taking it; None at the end."""
        if self.pos < self.end and (byte := self.data[self.pos]) > _SPACE:
            return byte
        while True:
            self.pos = _WHITE.match(self.data, self.pos, self.end).end()  # type: ignore[union-attr]
            if self.pos < self.end:
                return self.data[self.pos]
            if not self.refill():
                return None

    def until(self, stop: bytes) -> bytes | None:
        """The bytes before `stop` (one byte), which is taken too; None if the file ends first."""
        pieces: list[bytes] = []
        while True:
            at = self.data.find(stop, self.pos, self.end)
            if at >= 0:
                text = self.data[self.pos : at]
                self.pos = at + 1
                return b"".join((*pieces, text)) if pieces else text
            pieces.append(self.data[self.pos : self.end])
            self.pos = self.end
            refuse_long(pieces)
            if not self.refill():
                return None

    def until_match(
        self, pattern: re.Pattern[bytes], reach: int, most: int | None = None
    ) -> tuple[bytes, re.Match[bytes] | None]:
        """The bytes before a match, which is taken too, and the match; None if the file ends first.

        `reach` is how many bytes the pattern looks at, at most. TooLarge where more than `most`
        bytes are before it.
        """
        pieces: list[bytes] = []
        while True:
            found = pattern.search(self.data, self.pos, self.end)
            if found:
                pieces.append(self.data[self.pos : found.start()])
                self.pos = found.end()
                return b"".join(pieces), found
            # A match may cross the edge of the window.
            safe = max(self.pos, self.end - reach)
            pieces.append(self.data[self.pos : safe])
            self.pos = safe
            refuse_long(pieces, most)
            if not self.refill():
                pieces.append(self.data[self.pos : self.end])
                self.pos = self.end
                return b"".join(pieces), None


class Whole(Window):
    """A text that is in memory, all of it in view."""

    __slots__ = ("_pin", "record")

    def __init__(self, text: bytes) -> None:
        self.data = self.record = text
        self.pos = 0
        self.end = len(text)
        self._pin = np.frombuffer(text, np.uint8)

    @property
    def address(self) -> int:
        return int(self._pin.ctypes.data) + self.pos

    def refill(self) -> bool:
        return False


def refuse_long(pieces: Sequence[bytes], most: int | None = None) -> None:
    """TooLarge where the pieces of one value are, each of a window; they are counted seldom.

    NotText where the file was not written there, as a sparse one.
    """
    if b"\0" in pieces[-1]:
        raise NotText
    if not len(pieces) % 16:
        refuse_beyond(sum(map(len, pieces)), most or LIST_BYTES, "bytes of one list, extra or text")


class Remembered:
    """The text of the last list of ids, against which the next one is compared."""

    __slots__ = ("block", "numbers", "size")

    def __init__(self) -> None:
        self.block = Block(_REMEMBERED)
        self.size = 0
        self.numbers = 0

    def clear(self) -> None:
        self.size = self.numbers = 0

    def take_shared(self, window: Window) -> int:
        """Take from the window what equals the remembered text; gives the number of bytes."""
        shared = 0
        while shared < self.size:
            if window.pos == window.end and not window.refill():
                break
            n = min(self.size - shared, window.end - window.pos)
            equal = equal_bytes(self.block.address + shared, window.address, n)
            shared += equal
            window.pos += equal
            if equal < n:
                break
        return shared

    def cut_at_number(self, shared: int) -> tuple[int, int]:
        """(bytes, numbers) of the whole numbers in the first `shared` bytes, a comma after each."""
        comma = self.block.data.rfind(b",", 0, shared)
        if comma < 0:
            return 0, 0
        text = np.frombuffer(self.block.view[:comma], np.uint8)
        return comma, int(np.count_nonzero(text == 44)) + 1

    def replace_tail(self, at: int, tail: bytes, numbers: int) -> None:
        """Remember the first `at` bytes and then `tail`."""
        size = at + len(tail)
        if size > len(self.block.data):
            larger = Block(2 * size)
            larger.view[:at] = self.block.view[:at]
            self.block = larger
        self.block.view[at:size] = tail
        self.size, self.numbers = size, numbers


def equal_bytes(a: int, b: int, n: int) -> int:
    """How many leading bytes at two addresses are equal, of `n`."""
    if _memcmp(a, b, n) == 0:
        return n
    done = 0
    while n - done > _BLOCK:
        if _memcmp(a + done, b + done, _BLOCK):
            break
        done += _BLOCK
    m = min(_BLOCK, n - done)
    left = np.frombuffer(ctypes.string_at(a + done, m), np.uint8)
    right = np.frombuffer(ctypes.string_at(b + done, m), np.uint8)
    return done + int((left != right).argmax())
