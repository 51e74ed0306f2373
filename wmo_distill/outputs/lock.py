"""One writer at a time: a lock that the system takes back when its holder ends, however it ends."""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wmo_distill.errors import UsageError

LOCK_FILE = ".lock"
_TRIES = 5
_PAUSE = 0.06
"""Seconds between tries: `is_locked` holds the lock for an instant, a run for longer."""


@contextmanager
def writer_lock(out: Path) -> Iterator[None]:
    """Hold the lock of a directory, made if need be; UsageError where another run holds it.

    A directory that was made in vain is removed again, before the lock is given back: removed
    later, it could be one that another run has locked in the meantime.
    """
    while True:
        made = _made(out)
        try:
            held = _locked_soon(out)
        except FileNotFoundError:  # who made it has removed it
            continue
        try:
            if not _is_at(held, out):  # removed after it was opened: nobody else sees this lock
                continue
            try:
                yield
            finally:
                if made:
                    with suppress(OSError):
                        out.rmdir()
            return
        finally:
            os.close(held)


def _made(out: Path) -> bool:
    """Whether this call made the directory."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.mkdir()
    except OSError as error:
        if isinstance(error, FileExistsError) and out.is_dir():
            return False
        raise UsageError(
            f"{out}: expected a directory that can be made, found: {error.strerror}; name another"
        ) from None
    return True


def is_locked(out: Path) -> bool:
    """Whether a run writes to a directory now."""
    try:
        os.close(_locked(out))
    except UsageError:
        return True
    except OSError:
        return False
    return False


def _locked_soon(out: Path) -> int:
    for _ in range(_TRIES - 1):
        with suppress(UsageError):
            return _locked(out)
        time.sleep(_PAUSE)
    return _locked(out)


def _locked(out: Path) -> int:
    """An open, locked file: the directory itself, so that no file is left behind."""
    directory = os.open(out, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _lock(directory, out)
    except OSError:
        # Network file systems lock only what is open for writing.
        file = os.open(out / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return _lock(file, out)


def _is_at(held: int, out: Path) -> bool:
    """Whether what was locked is what others would lock now."""
    state = os.fstat(held)
    try:
        return os.path.samestat(
            state, os.stat(out if stat.S_ISDIR(state.st_mode) else out / LOCK_FILE)
        )
    except FileNotFoundError:
        return False


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
