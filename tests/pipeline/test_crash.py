"""Rules of builds that are broken off: the dataset is the old one or the new one, and goes on."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import SMALL, balanced, rows
from pipeline_readers import interrupted
from pipeline_trials import make_job, make_trial, snapshot, touch

from wmo_distill.errors import DistillError, UsageError
from wmo_distill.outputs import parts as parts_module
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.trial import read_found

TESTS = Path(__file__).parent


class CrashError(BaseException):
    """The process ends here; nothing of it is cleaned up."""


def crash_at(n: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fail at the n-th rename or removal, and forbid all cleaning up after it."""
    done: list[str] = []
    real: dict[str, Callable[..., Any]] = {"replace": os.replace, "unlink": os.unlink}
    real_rmtree = shutil.rmtree

    def step(name: str) -> Callable[..., Any]:
        def act(*args: Any, **options: Any) -> Any:
            if len(done) >= n:
                raise CrashError
            done.append(f"{name} {args[0]}")
            return real[name](*args, **options)

        return act

    def rmtree(*args: Any, **options: Any) -> None:
        if len(done) >= n:
            raise CrashError
        monkeypatch.setattr(os, "unlink", real["unlink"])
        real_rmtree(*args, **options)

    monkeypatch.setattr(os, "replace", step("replace"))
    monkeypatch.setattr(os, "unlink", step("unlink"))
    monkeypatch.setattr(parts_module.shutil, "rmtree", rmtree)
    return done


@pytest.mark.parametrize("first", [True, False])
def test_a_crash_at_any_step_leaves_one_dataset_or_the_other(tmp_path: Path, first: bool) -> None:
    job = make_job(tmp_path / "job", *(f"t{i}" for i in range(7)))
    old = tmp_path / "old"
    if not first:
        build_with(read_found, [job], old, workers=1, limits=SMALL)
        touch(job / "t2" / "result.json")
        shutil.rmtree(job / "t5")
        make_trial(job / "t8")
    new = tmp_path / "new"
    if not first:
        shutil.copytree(old, new)
    build_with(read_found, [job], new, workers=1, limits=SMALL)
    before = None if first else read_manifest(old)
    after = read_manifest(new)
    states = set()
    for n in range(60):
        out = tmp_path / f"out-{n}"
        if not first:
            shutil.copytree(old, out)
        with pytest.MonkeyPatch.context() as monkeypatch:
            done = crash_at(n, monkeypatch)
            try:
                build_with(read_found, [job], out, workers=1, limits=SMALL)
                crashed = False
            except CrashError:
                crashed = True
        if (out / "manifest.json").exists():
            manifest = read_manifest(out)
            assert manifest in (before, after), done
            for part in manifest.parts:
                assert (out / part.file).stat().st_size == part.bytes, done
            states.add(manifest == after)
        else:
            assert first, done
        summary = build_with(read_found, [job], out, workers=1, limits=SMALL)
        balanced(out, summary)
        assert read_manifest(out).dataset_hash == after.dataset_hash, done
        assert snapshot(out).keys() == snapshot(new).keys(), done
        if not crashed:
            break
    else:
        raise AssertionError("a build takes fewer steps than this")
    assert True in states
    assert n > 6


def script(out: Path, job: Path, reader: str, workers: int) -> "subprocess.Popen[bytes]":
    """A build in a process of its own."""
    code = (
        "from pathlib import Path; from pipeline_readers import *; "
        "from pipeline_datasets import SMALL; from wmo_distill.pipeline.build import build_with; "
        f"build_with({reader}, [Path({str(job)!r})], Path({str(out)!r}), workers={workers}, "
        "limits=SMALL)"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    return subprocess.Popen([sys.executable, "-c", code], env=env, stderr=subprocess.PIPE)


def wait_for(there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_build_leaves_no_lock_and_a_second_build_is_refused(
    tmp_path: Path, workers: int
) -> None:
    job = make_job(tmp_path / "job", *(f"t{i}" for i in range(6)))
    out = tmp_path / "out"
    process = script(out, job, "waiting", workers)
    wait_for((job / "waiting").exists)
    with pytest.raises(UsageError, match="no other run"):
        build([job], out)
    assert process.poll() is None  # it was refused, not kept waiting
    process.kill()
    process.communicate()
    assert not (out / "manifest.json").exists()
    (job / "waiting").unlink()
    summary = build_with(read_found, [job], out, workers=1, limits=SMALL)
    balanced(out, summary)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_from_the_keyboard(tmp_path: Path, workers: int) -> None:
    job = make_job(tmp_path / "job", *(f"t{i}" for i in range(6)))
    out = tmp_path / "out"
    build([job / "t0"], out)
    before = snapshot(out)
    process = script(out, job, "waiting", workers)
    wait_for((job / "waiting").exists)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert b"KeyboardInterrupt" in told
    assert snapshot(out) == before


def test_an_interrupted_first_build_leaves_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        build_with(interrupted, [job], out)
    assert not out.exists()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_full_disk_ends_the_build_and_blames_no_trial(tmp_path: Path, workers: int) -> None:
    job = make_job(tmp_path / "job", *(f"t{i}" for i in range(6)))
    out = tmp_path / "out"
    build([job / "t0"], out)
    before = snapshot(out)
    script_out = script(out, job, "full_disk", workers)
    _, told = script_out.communicate(timeout=300)
    assert b"No space left" in told
    assert b"DistillError" in told
    assert script_out.returncode == 1
    assert snapshot(out) == before


def test_a_part_that_cannot_be_read_back(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    part = out / read_manifest(out).parts[0].file
    data = bytearray(part.read_bytes())
    data[4 : len(data) - 8] = bytes(len(data) - 12)
    part.write_bytes(data)
    shutil.rmtree(job / "t1")
    before = snapshot(out)
    with pytest.raises(DistillError, match="--fresh"):
        build([job], out)
    assert snapshot(out) == before
    assert build([job], out, fresh=True).records == 1
    assert rows(out, "trial_name") == ["t2"]


def test_a_directory_that_cannot_be_written_to_is_reported_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, out = make_job(tmp_path / "job", "t1"), tmp_path / "out"

    def refuse(**_: object) -> str:
        raise PermissionError(13, "Permission denied", "a name that means nothing to anyone")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", refuse)
        with pytest.raises(UsageError) as told:
            build([job], out)
        assert str(told.value).startswith(f"{out}: expected a directory that can be written to")
        assert not out.exists()
    build([job], out)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", refuse)
        assert build([job], out).read == 0  # nothing to write
