"""The lock of a directory, on file systems of either kind."""

import errno
import fcntl
import gc
import os
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from wmo_distill.datums.manifest import DATUMS
from wmo_distill.errors import UsageError
from wmo_distill.exporters.files import EXPORT, ExportManifest
from wmo_distill.files import Absent
from wmo_distill.outputs import parts
from wmo_distill.outputs.lock import is_locked, writer_lock
from wmo_distill.outputs.parts import check_out, writing


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
    gc.collect()  # what other tests left open is not closed meanwhile
    opened = len(os.listdir("/dev/fd"))
    with writer_lock(tmp_path):
        for _ in range(2):
            with pytest.raises(UsageError, match="found one at work"), writer_lock(tmp_path):
                pass
    with writer_lock(tmp_path):
        pass
    assert len(os.listdir("/dev/fd")) == opened
    assert os.listdir(tmp_path) == ([] if directories else [".lock"])


def before_call(patch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], Any]) -> None:
    """Do something once, right before the next call of a function."""
    real = getattr(module, name)

    def call(*args: Any, **more: Any) -> Any:
        patch.setattr(module, name, real)
        act()
        return real(*args, **more)

    patch.setattr(module, name, call)


def test_a_writer_outlasts_a_look_at_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks whether a run writes holds the lock for an instant."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with ExitStack() as look:
        look.enter_context(writer_lock(tmp_path))
        with pytest.raises(UsageError, match="found one at work"), writer_lock(tmp_path):
            pass
        assert len(pauses) == 4
        assert sum(pauses) < 0.3
        before_call(monkeypatch, time, "sleep", look.close)
        with writer_lock(tmp_path):
            assert is_locked(tmp_path)
        assert len(pauses) == 5
    assert not is_locked(tmp_path)


def test_a_run_that_came_second_does_not_remove_the_directory_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find none; the first makes it and writes, the second is refused."""
    out = tmp_path / "out"
    with ExitStack() as first:
        before_call(monkeypatch, os, "mkdir", lambda: first.enter_context(writing(out, DATUMS)))
        with pytest.raises(UsageError, match="found one at work"), writing(out, DATUMS):
            pass
        assert out.is_dir()
    assert not out.exists()


def test_a_directory_that_is_removed_while_it_is_being_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock on it would be one that nobody else sees."""
    out = tmp_path / "out"
    for module, name in ((fcntl, "flock"), (os, "open")):
        with ExitStack() as first:
            first.enter_context(writer_lock(out))
            before_call(monkeypatch, module, name, first.close)
            with writer_lock(out):
                with pytest.raises(UsageError, match="found one at work"), writer_lock(out):
                    pass
                assert out.is_dir()
        assert not out.exists()


def test_what_another_command_wrote_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was empty when it was looked at, and is not once it is locked."""
    out = tmp_path / "out"
    manifest = b'{"kind": "wmo-distill export"}'

    def write() -> None:
        out.mkdir()
        (out / "manifest.json").write_bytes(manifest)

    before_call(monkeypatch, os, "mkdir", write)
    found = "found that of wmo-distill export"
    with pytest.raises(UsageError, match=found), writing(out, DATUMS):
        pass
    assert (out / "manifest.json").read_bytes() == manifest


def test_a_commit_that_ends_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are seen, its manifest is not there yet, and then its staging is gone."""
    out, staged = tmp_path / "out", tmp_path / "out/.staging-1"
    staged.mkdir(parents=True)
    (out / "data-00000.jsonl").touch()
    value = {"kind": EXPORT.mark[1], "schema_version": EXPORT.version, "tool_version": "1"}
    account = {"source": "", "target": "verl", "options": {}, "summary": {}, "parts": []}
    EXPORT.write(staged, ExportManifest.model_validate(value | account))

    def end(*_: object) -> Any:
        os.replace(staged / "manifest.json", out / "manifest.json")
        return Absent.MISSING

    monkeypatch.setattr(parts, "stated", end)
    check_out(out, EXPORT)
