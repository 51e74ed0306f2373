"""One writer at a time: a lock that the system takes back when its holder ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wmo_distill.errors import UsageError

LOCK_FILE = ".lock"


@contextmanager
def writer_lock(out: Path) -> Iterator[None]:
    """Hold the lock of a directory; UsageError at once where another run holds it."""
    held = _locked(out)
    try:
        yield
    finally:
        os.close(held)


def _locked(out: Path) -> int:
    """An open, locked file: the directory itself, so that no file is left behind."""
    try:
        return _lock(os.open(out, os.O_RDONLY | os.O_CLOEXEC), out)
    except OSError:
        # Network file systems lock only what is open for writing.
        file = os.open(out / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return _lock(file, out)


def _lock(fd: int, out: Path) -> int:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise UsageError(
            f"{out}: expected no other run that writes there, found one at work; "
            "wait for its end, or name another directory"
        ) from None
    except BaseException:
        os.close(fd)
        raise
    return fd
