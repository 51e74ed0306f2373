"""A run that is killed at any step: the directory is the old one or the new one, and goes on."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.outputs import works
from tests.outputs.works import STEPS, VERIFY, WORKS, small
from wmo_distill.outputs import parts as parts_module
from wmo_distill.outputs.manifest import MANIFEST

Files = dict[str, bytes]


class CrashError(BaseException):
    """The process ends here; nothing of it is cleaned up."""


def files(out: Path) -> Files:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def crash_at(n: int, patch: pytest.MonkeyPatch) -> list[str]:
    """End at the n-th step on the file system, and let nothing clean up after it."""
    done: list[str] = []
    rmtree = shutil.rmtree

    def step(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **more: Any) -> Any:
            if len(done) >= n:
                raise CrashError
            done.append(f"{name} {args[0]}")
            return real(*args, **more)

        return act

    for name in STEPS:
        patch.setattr(os, name, step(name, getattr(os, name)))
    patch.setattr(parts_module.shutil, "rmtree", step("rmtree", rmtree))
    return done


@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
@pytest.mark.parametrize("name", WORKS)
def test_a_crash_at_any_step(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, first: bool
) -> None:
    """What a second run gives is what runs that nothing broke off give, byte for byte."""
    small(monkeypatch.setattr)
    work, start, once, twice = WORKS[name], tmp_path / "0", tmp_path / "1", tmp_path / "2"
    if not first and work is works.score:
        works.score(source, start, "other")
    elif not first:
        work(source, start)
    states: list[Files] = [files(start)]
    for before, after in ((start, once), (once, twice)):
        if before.exists():
            shutil.copytree(before, after)
        work(source, after)
        assert VERIFY[name](after) == []
        states.append(files(after))
    assert len(states[-1]) > 3
    seen: set[int] = set()
    for n in range(400):
        out = tmp_path / "out"
        shutil.rmtree(out, ignore_errors=True)
        if not first:
            shutil.copytree(start, out)
        with pytest.MonkeyPatch.context() as patch:
            done = crash_at(n, patch)
            try:
                work(source, out)
                crashed = False
            except CrashError:
                crashed = True
        if (out / MANIFEST).exists():
            # A reader finds all that the manifest names; only other files may be left.
            faults = {fault.expected for fault in VERIFY[name](out)}
            assert faults <= {"only parts that the manifest names", "no unfinished commit"}, done
        else:
            assert first, done
        work(source, out)
        assert VERIFY[name](out) == [], done
        assert files(out) in states[1:], done
        seen.add(states[1:].index(files(out)))
        if not crashed:
            break
    else:
        raise AssertionError("a run takes fewer steps than this")
    assert n > 10
    assert 0 in seen


@pytest.mark.parametrize("name", WORKS)
@pytest.mark.parametrize("n", [9, 15])
def test_a_process_that_is_killed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, n: int
) -> None:
    small(monkeypatch.setattr)
    WORKS[name](source, tmp_path / "once")
    shutil.copytree(tmp_path / "once", tmp_path / "twice")
    WORKS[name](source, tmp_path / "twice")
    root = Path(works.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.outputs.works", name, source, tmp_path / "out", str(n)],
        cwd=root,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    WORKS[name](source, tmp_path / "out")
    assert files(tmp_path / "out") in (files(tmp_path / "once"), files(tmp_path / "twice"))
