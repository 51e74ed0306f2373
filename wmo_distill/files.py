"""The edge to the file system: what may be opened, and files that appear whole.

Below a trial directory no symbolic link is followed and only regular files are opened, so neither
a FIFO nor a link to elsewhere can hang a build or be read by it.
"""

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

from wmo_distill.disk import RegularFile, asked
from wmo_distill.limits import (
    PARSED_BYTES,
    TEXT_BYTES,
    parsed_bytes,
    refuse_beyond,
    refuse_large_value,
)

# The answers of file systems that cannot sync a directory.
_NO_SYNC = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}
_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")
_LIKE_AN_ESCAPE = re.compile(rb"\\(?=x[0-9a-f]{2})")


class Absent(StrEnum):
    """Why a file gave no value."""

    MISSING = "missing"
    UNREADABLE = "unreadable"


class FilesState(NamedTuple):
    """Sum of the sizes and newest modification time of files; zeros where there is no file."""

    bytes: int
    mtime_ns: int


NO_STATE = FilesState(0, 0)


def sum_of(states: Iterable[os.stat_result]) -> FilesState:
    """The state of several files."""
    size = newest = 0
    for state in states:
        size += state.st_size
        newest = max(newest, state.st_mtime_ns)
    return FilesState(size, newest)


@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The files below one trial directory, by POSIX path relative to it."""

    root: Path
    _parsed: list[int] = field(default_factory=lambda: [0], compare=False, repr=False)
    """Estimate of the memory of all documents that were parsed."""

    def open(self, relative: str) -> RegularFile | Absent:
        """An unbuffered reader of a regular file that no symbolic link leads to."""
        state = _state(self.root, relative)
        if state is None:
            return Absent.MISSING
        if not stat.S_ISREG(state.st_mode):
            return Absent.UNREADABLE
        opened = asked(RegularFile, f"{os.fspath(self.root)}/{relative}")
        if opened is None:
            return Absent.MISSING
        if opened.is_regular:
            return opened
        opened.close()
        return Absent.UNREADABLE

    def state_of(self, names: Iterable[str]) -> FilesState:
        """Of the files of these names."""
        return sum_of(state for name in names if (state := self.stat(name)) is not None)

    def read(self, relative: str, most: int = -1, start: int = 0) -> bytes | Absent:
        """The whole file, or `most` bytes from `start`; TooLarge for a file that is no document.

        Zeros at the start of a large one say that it is no text at all.
        """
        opened = self.open(relative)
        if isinstance(opened, Absent):
            return opened
        with opened:
            try:
                size = opened.size
                if most < 0 and size > TEXT_BYTES:
                    if b"\0" in (opened.read(1 << 16) or b""):
                        return Absent.UNREADABLE
                    refuse_beyond(size, TEXT_BYTES, f"{relative}: bytes of one document")
                opened.seek(start)
                return opened.read(most)
            except MemoryError:
                return Absent.UNREADABLE

    def read_json(self, relative: str) -> Any | Absent:
        """The JSON value of a file, by the one definition of readable JSON."""
        data = self.read(relative)
        return data if isinstance(data, Absent) else self.parse(data)

    def parse(self, data: bytes) -> Any | Absent:
        """The JSON value of a text from these files; TooLarge where all so far take too much."""
        self.refuse_large(data)
        return parse_json(data)

    def refuse_large(self, data: bytes | memoryview) -> None:
        """TooLarge where a text that is to be parsed takes too much with all that were before."""
        self._parsed[0] += parsed_bytes(data)
        refuse_beyond(self._parsed[0], PARSED_BYTES, "bytes of memory for parsed documents")

    def is_dir(self, relative: str) -> bool:
        """Whether a real directory, reached by no link, is there."""
        state = _state(self.root, relative)
        return state is not None and stat.S_ISDIR(state.st_mode)

    def names(self, relative: str = "") -> list[str]:
        """The names in a directory, sorted as UTF-8 bytes; none where there is no directory."""
        if relative and not self.is_dir(relative):
            return []
        return sorted(asked(os.listdir, self.root / relative) or (), key=os.fsencode)

    def stat(self, relative: str) -> os.stat_result | None:
        """The state of a regular file that no link leads to."""
        state = _state(self.root, relative)
        return state if state is not None and stat.S_ISREG(state.st_mode) else None


def parse_json(data: bytes) -> Any | Absent:
    """Strict UTF-8, one leading BOM skipped, what `json.loads` accepts within its limits."""
    refuse_large_value(data)
    try:
        return json.loads(data.decode("utf-8").removeprefix("\ufeff"))
    except (ValueError, RecursionError, MemoryError):
        return Absent.UNREADABLE


def _state(root: Path, relative: str) -> os.stat_result | None:
    """The state of a path below root, or of the first link on the way; None if it is missing."""
    current = os.fspath(root)
    state: os.stat_result | None = None
    for part in relative.split("/"):
        if part in ("", ".", ".."):
            return None
        if state is not None and not stat.S_ISDIR(state.st_mode):
            return None
        current = f"{current}/{part}"
        state = asked(os.lstat, current)
        if state is None or stat.S_ISLNK(state.st_mode):
            return state
    return state


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path next to `path`; on success it is synced and takes that name."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync_file(temporary)
        os.replace(temporary, path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def open_file(path: Path) -> BufferedReader:
    """A file of ours to read; OSError for what is none, such as a FIFO, which nobody may fill."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "something that is no file", os.fspath(path))
    return os.fdopen(fd, "rb")


def file_sha256(path: Path) -> tuple[str, int]:
    """(SHA-256 in hex, size in bytes) of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


def sync_file(path: Path) -> None:
    """Make what was written to a file durable."""
    with open(path, "rb+") as written:
        os.fsync(written.fileno())


def sync_directory(path: Path) -> None:
    """Make a rename in this directory durable, where the file system can."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(fd)


def path_text(path: str | os.PathLike[str]) -> str:
    """A path as text that UTF-8 can hold, another for each path.

    Bytes that are not UTF-8 are written as \\xNN, and a backslash that would read so as \\x5c.
    """
    data = os.fsencode(path)
    if b"\\" in data:
        data = _LIKE_AN_ESCAPE.sub(rb"\\x5c", data)
    return data.decode("utf-8", "backslashreplace")


def text_path(text: str) -> Path:
    """The path of which `path_text` made this text."""
    data = _ESCAPE.sub(lambda escape: bytes([int(escape[1], 16)]), text.encode())
    return Path(os.fsdecode(data))


def plain_text(value: str) -> str:
    """Text that UTF-8 can hold: lone surrogates of a JSON escape become U+FFFD."""
    return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
