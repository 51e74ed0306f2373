"""metrics.jsonl: a line for each run that wrote to a directory; a log, and no part of its content.

Lines are whole or, where a run was killed while it wrote, one torn last line, which the next run
takes away. Readers need no lock: the file only grows, or another takes its place.
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wmo_distill.files import whole_file

METRICS = "metrics.jsonl"
RUNS = ".runs"
"""Where it is in a directory whose own files a trainer may read as `*.jsonl`."""
MOST_BYTES = 1_000_000
"""A file that would become larger is cut to its newest half: about 500 runs stay at the least."""
_TRIES, _PAUSE = 20, 0.05


def add_metrics(out: Path, record: Mapping[str, Any]) -> None:
    """Add a line to the metrics in a directory; OSError where it cannot be, which changes none."""
    out.mkdir(exist_ok=True)
    line = json.dumps(record, default=str).encode() + b"\n"
    with _opened(out / METRICS) as fd:
        size = os.fstat(fd).st_size
        torn = size - _whole(fd, size)
        if torn:
            os.ftruncate(fd, size := size - torn)
        if size + len(line) > MOST_BYTES:
            _cut(out, fd, size, line)
            return
        try:
            written = os.write(fd, line)
            if written < len(line):
                raise OSError(f"{written} of {len(line)} bytes could be written")
        except OSError:
            with suppress(OSError):
                os.ftruncate(fd, size)
            raise


def _whole(fd: int, size: int) -> int:
    """The bytes of the lines that are whole."""
    if not size or os.pread(fd, 1, size - 1) == b"\n":
        return size
    start = max(0, size - MOST_BYTES)
    return start + 1 + os.pread(fd, size - start, start).rfind(b"\n")


def _cut(out: Path, fd: int, size: int, line: bytes) -> None:
    start = max(0, size - MOST_BYTES // 2)
    kept = os.pread(fd, size - start, start)
    kept = kept[kept.find(b"\n") + 1 :] if start else kept
    with whole_file(out / METRICS) as temporary:
        temporary.write_bytes(kept + line)


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    """The file, locked; another may have taken its place while the lock was waited for."""
    for _ in range(_TRIES):
        fd = os.open(
            file,
            os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK,
            0o644,
        )
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError("expected a regular file, found another")
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_PAUSE)
                continue
            if _is_at(fd, file):
                yield fd
                return
        finally:
            os.close(fd)
    raise OSError(f"expected to lock it within {_TRIES * _PAUSE:.0f} s, found it locked")


def _is_at(fd: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(file))
    except FileNotFoundError:
        return False
