"""The targets that other Makefiles call."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / ".ci/requirements.txt"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A stand-in for an installed environment, so that nothing is downloaded."""
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    command = venv / "bin" / "wmo-distill"
    command.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m wmo_distill "$@"\n')
    command.chmod(0o755)
    for done in ("run", "report"):
        (venv / done).touch()
    return venv


def make(venv: Path, *args: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["make", "--no-print-directory", *map(str, args), f"VENV={venv}"],
        cwd=cwd, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def state(directory: Path) -> dict[str, int]:
    """When each file was written, without the log of runs."""
    files = (p for p in directory.rglob("*") if p.is_file() and p.name != "metrics.jsonl")
    return {p.name: p.stat().st_mtime_ns for p in files}


@pytest.mark.parametrize("how", ["-C", "-f"])
def test_shards_twice_changes_nothing(venv: Path, tmp_path: Path, how: str) -> None:
    """With -C paths are absolute, with -f they are relative to where make was called."""
    shutil.copytree(ROOT / "fixtures/trials/01-solved", tmp_path / "jobs" / "01-solved")
    trials, out = ("jobs", "shards") if how == "-f" else (tmp_path / "jobs", tmp_path / "shards")
    where = ROOT / "Makefile" if how == "-f" else ROOT
    args = (how, where, "shards", f"TRIALS={trials}", f"OUT={out}")
    first = make(venv, *args, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    before = state(tmp_path / "shards")
    assert "manifest.json" in before
    assert make(venv, *args, cwd=tmp_path).returncode == 0
    assert state(tmp_path / "shards") == before
    shutil.copytree(ROOT / "fixtures/trials/30-unicode", tmp_path / "jobs" / "30-unicode")
    assert make(venv, *args, "BUILD=--quiet", cwd=tmp_path).stdout == ""
    assert state(tmp_path / "shards")["manifest.json"] != before["manifest.json"]


def test_report_builds_and_draws(venv: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "fixtures/trials/01-solved", tmp_path / "jobs" / "01-solved")
    done = make(venv, "-f", ROOT / "Makefile", "report", "TRIALS=jobs", "OUT=out/", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")


def test_shards_without_trials_says_what_to_say(venv: Path, tmp_path: Path) -> None:
    done = make(venv, "-C", ROOT, "shards", cwd=tmp_path)
    assert done.returncode != 0
    assert "TRIALS is empty; expected a directory of trials" in done.stderr


def test_a_failing_build_fails_make(venv: Path, tmp_path: Path) -> None:
    done = make(
        venv, "-C", ROOT, "shards", "TRIALS=/nowhere", f"OUT={tmp_path / 'o'}", cwd=tmp_path
    )
    assert done.returncode != 0
    assert "/nowhere: expected " in done.stderr


def test_make_alone_lists_the_targets(venv: Path, tmp_path: Path) -> None:
    listed = make(venv, "-C", ROOT, cwd=tmp_path).stdout
    for target in ("demo", "test", "shards", "report", "torture"):
        assert f"make {target}" in listed


def test_arguments_of_the_caller_win(venv: Path, tmp_path: Path) -> None:
    """pytest takes the last of two."""
    (venv / "dev").touch()
    done = make(venv, "-n", "-C", ROOT, "test", "TESTS=-n 3 tests/shards", cwd=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if "-m pytest" in line]
    assert re.search(r" -n auto .* -n 3 tests/shards$", line)


def test_the_check_of_a_clone_is_make_test() -> None:
    assert f"make test LOCK={LOCK.relative_to(ROOT)}" in (ROOT / ".ci/run").read_text()


def test_the_lock_holds_what_is_required() -> None:
    """Where this fails, `make lock` renews it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = project["project"]["optional-dependencies"]["dev"]
    build = project["build-system"]["requires"]
    wanted = [Requirement(one) for one in [*project["project"]["dependencies"], *extra, *build]]
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(r"^(\S+)==(\S+)", LOCK.read_text(), re.MULTILINE):
        pins.setdefault(canonicalize_name(name), []).append(version)
    for one in wanted:
        versions = pins[canonicalize_name(one.name)]
        assert all(one.specifier.contains(version) for version in versions), one


def test_every_pin_of_the_lock_has_hashes() -> None:
    for pin in re.split(r"^(?=\w)", LOCK.read_text(), flags=re.MULTILINE)[1:]:
        assert "--hash=sha256:" in pin, pin
