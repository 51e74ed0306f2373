"""Questions to the file system: asked again before an error counts, and never taken for an answer.

A file is missing only where the system says so. Any other error, of a network file system that
hangs or of permissions, is a `ReadFault`, which no reader takes for what a file holds.
"""

import errno
import io
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from wmo_distill.errors import ReadFault

_T = TypeVar("_T")
_Path = str | os.PathLike[str]

# Nothing is there. Trials record names of files: the last two are for names that no file can have.
_MISSING = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EILSEQ}
# Answers that do not change within a second: a person has to change permissions.
_LASTING = {errno.EACCES, errno.EPERM}
_FINAL = _MISSING | _LASTING
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_CHUNK = 1 << 16


@dataclass(slots=True)
class Patience:
    """How long to wait before the next try, in all at most `left` seconds in this process.

    Where a file system is dead every file fails; when nothing is left, tries follow at once.
    """

    left: float = 20.0

    def sleep(self, seconds: float) -> None:
        time.sleep(self.spend(seconds))

    def spend(self, seconds: float) -> float:
        """So many seconds, or what is left."""
        seconds = min(seconds, self.left)
        self.left -= seconds
        return seconds


def _may_pass(error: BaseException) -> bool:
    """Whether a second try may be answered."""
    return isinstance(error, OSError) and error.errno not in _FINAL


PATIENCE = Patience()
_again = Retrying(
    retry=retry_if_exception(_may_pass),
    stop=stop_after_attempt(4),
    wait=wait_random_exponential(multiplier=0.1, max=1.0),
    sleep=PATIENCE.sleep,
    reraise=True,
)


def _answer(call: Callable[..., _T], *args: object) -> _T:
    """What a call gives, tried up to five times; the OSError of the last try."""
    try:
        return call(*args)
    except OSError as error:
        if not _may_pass(error):
            raise
    return _again(call, *args)


def answered(path: _Path, call: Callable[..., _T], *args: object) -> _T:
    """What a call gives about a file that is open; ReadFault where the system does not answer."""
    try:
        return _answer(call, *args)
    except OSError as error:
        raise ReadFault.of(path, error) from None


def asked(call: Callable[..., _T], path: _Path, *more: object) -> _T | None:
    """What the system answers to `call(path, ...)`, None where nothing is there.

    ReadFault where it does not answer.
    """
    try:
        return _answer(call, path, *more)
    except ValueError:  # text that no path can hold
        return None
    except OSError as error:
        if error.errno in _MISSING:
            return None
        raise ReadFault.of(path, error) from None


def is_there(path: _Path) -> bool:
    """Whether anything is there, links followed."""
    return asked(os.stat, path) is not None


def is_directory(path: _Path) -> bool:
    """Whether a directory is there, links followed."""
    state = asked(os.stat, path)
    return state is not None and stat.S_ISDIR(state.st_mode)


def entries(folder: _Path) -> dict[str, bool] | None:
    """The names in a directory, and whether each is a directory itself and no link to one."""
    return asked(_entries, folder)


def _entries(folder: _Path) -> dict[str, bool]:
    with os.scandir(folder) as found:
        return {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}


class RegularFile(io.FileIO):
    """A regular file open to be read; a read that failed is tried again where it began."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, _READ_ONLY)
        try:
            state = os.fstat(fd)
            super().__init__(fd)
        except BaseException:
            os.close(fd)
            raise
        self.is_regular = stat.S_ISREG(state.st_mode)
        self.size = state.st_size
        self._path, self._at = path, 0

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, or all that follow; fewer only where the file ends."""
        whole = size is None or size < 0
        left = max(0, self.size - self._at) + 1 if whole or size is None else size
        pieces = []
        while left and (piece := self._ask(os.pread, left)):
            self._at += len(piece)
            pieces.append(piece)
            left = _CHUNK if whole else left - len(piece)
        return b"".join(pieces)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any, /) -> int:
        count = self._ask(os.preadv, [buffer])
        self._at += count
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence != os.SEEK_SET:
            raise io.UnsupportedOperation("expected an offset from the start")
        self._at = offset
        return offset

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        with suppress(OSError):  # nothing was written that could be lost
            super().close()

    def _ask(self, call: Callable[..., _T], wanted: object) -> _T:
        return answered(self._path, call, self.fileno(), wanted, self._at)
