"""Questions to the file system: what is asked again, how long, and what is never an answer."""

import errno
import io
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.disk import PATIENCE, RegularFile, asked, entries, is_directory
from wmo_distill.errors import ReadFault
from wmo_distill.files import Absent, TrialFiles


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were to be waited, in place of waiting."""
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(PATIENCE, "left", 1.5)
    return waited


def failing(code: int, times: int, real: Callable[..., Any]) -> Callable[..., Any]:
    left = [times]

    def call(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(code, os.strerror(code))
        return real(*args, **options)

    return call


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG])
def test_what_is_missing(code: int, waits: list[float]) -> None:
    assert asked(failing(code, 1, os.lstat), "/") is None
    assert waits == []


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    for name in ("x" * 300, "a\0b", "\ud800", "a/" * 3000 + "b"):
        assert TrialFiles(tmp_path).read(name) is Absent.MISSING
        assert not is_directory(tmp_path / name)


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM])
def test_what_passes_is_asked_again(code: int, waits: list[float], tmp_path: Path) -> None:
    state = asked(failing(code, 4, os.lstat), tmp_path)
    assert state is not None
    with pytest.raises(ReadFault, match=errno.errorcode[code]):
        asked(failing(code, 5, os.lstat), tmp_path)
    assert len(waits) == 6


def test_an_error_that_gives_way_to_nothing_there(waits: list[float]) -> None:
    def gone(path: str) -> None:
        raise OSError(errno.ENOENT if tries else errno.EIO, "")

    tries: list[int] = []
    assert asked(lambda path: tries.append(1) or gone(path), "/") is None


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM])
def test_permissions_cost_no_time(code: int, waits: list[float], tmp_path: Path) -> None:
    with pytest.raises(ReadFault, match=f"/here: expected .*{errno.errorcode[code]}"):
        asked(failing(code, 1, os.lstat), "/here")
    assert waits == []


def test_a_dead_file_system_is_waited_for_once(waits: list[float], tmp_path: Path) -> None:
    for _ in range(200):
        with pytest.raises(ReadFault):
            asked(failing(errno.EIO, 99, os.lstat), tmp_path)
    assert sum(waits) == pytest.approx(1.5)
    # Nothing is left to wait: a single error is asked again all the same.
    assert asked(failing(errno.EIO, 1, os.lstat), tmp_path) is not None


def test_a_read_is_tried_again_where_it_began(
    waits: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(100_000)
    (tmp_path / "f").write_bytes(data)
    for name in ("pread", "preadv"):
        real = getattr(os, name)
        calls = iter(range(10**6))

        def third(
            *args: Any, real: Callable[..., Any] = real, calls: Any = calls, name: str = name
        ) -> Any:
            if next(calls) % 3 == 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            few = min(args[1], 4096) if name == "pread" else [memoryview(args[1][0])[:4096]]
            return real(args[0], few, args[2])

        monkeypatch.setattr(os, name, third)
    with RegularFile(f"{tmp_path}/f") as file:
        assert file.read() == data
        file.seek(5)
        assert (file.read(9000), file.tell()) == (data[5:9005], 9005)
        file.seek(0)
        assert io.BufferedReader(file, 1 << 14).read() == data


def test_a_file_that_grows_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a" * 10)
    with RegularFile(f"{tmp_path}/f") as file:
        (tmp_path / "f").write_bytes(b"b" * 200_000)
        assert file.read() == b"b" * 200_000


def test_a_file_whose_state_is_not_given_leaves_nothing_open(
    waits: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"a")
    before = len(os.listdir("/dev/fd"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", failing(errno.EIO, 5, os.fstat))
        with pytest.raises(ReadFault, match="EIO"):
            TrialFiles(tmp_path).read("f")
    assert len(os.listdir("/dev/fd")) <= before


def test_links_are_no_directories(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "l").symlink_to("d")
    assert entries(tmp_path) == {"d": True, "l": False}
    assert entries(tmp_path / "none") is None


def test_a_fault_crosses_processes() -> None:
    fault = ReadFault.of("/p", OSError(errno.ESTALE, "Stale file handle"))
    again = pickle.loads(pickle.dumps(fault))
    assert str(again) == str(fault)
    assert str(fault) == "/p: expected to read what is there, found ESTALE (Stale file handle)"
