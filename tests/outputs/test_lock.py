"""The lock of a directory, on file systems of either kind."""

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from wmo_distill.errors import UsageError
from wmo_distill.outputs.lock import writer_lock


@pytest.mark.parametrize("directories", [True, False])
def test_one_holder_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directories: bool
) -> None:
    flock = fcntl.flock

    def files_only(fd: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(fd, operation)

    if not directories:
        monkeypatch.setattr(fcntl, "flock", files_only)
    opened = len(os.listdir("/dev/fd"))
    with writer_lock(tmp_path):
        for _ in range(2):
            with pytest.raises(UsageError, match="found one at work"), writer_lock(tmp_path):
                pass
    with writer_lock(tmp_path):
        pass
    assert len(os.listdir("/dev/fd")) == opened
    assert os.listdir(tmp_path) == ([] if directories else [".lock"])
