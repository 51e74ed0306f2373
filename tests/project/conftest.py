"""A dataset built from the real trials, and a way to run the command as a shell does."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project.forked import run_forked

ROOT = Path(__file__).parents[2]
TRIALS = ROOT / "fixtures" / "trials"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def run_command(*args: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run `wmo-distill ARGS` in a process of its own, 100 columns wide."""
    environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    return run_forked([*map(str, args)], cwd, environment)


@pytest.fixture(scope="session")
def run() -> Run:
    return run_command


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the real trials; not to be changed."""
    out = tmp_path_factory.mktemp("dataset") / "shards"
    done = run_command("build", TRIALS, "-o", out, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return out
