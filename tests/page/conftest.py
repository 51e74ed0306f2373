"""Datasets, their sequences, and the reports of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project.conftest import run_command
from wmo_distill import build, build_datum_shards
from wmo_distill.page.write import write_report

TRIALS = Path(__file__).parents[2] / "fixtures" / "trials"

Report = Callable[..., str]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "shards"
    build([TRIALS], out, workers=1, declare={"policy_version": "step-7", "train_step": 7})
    return out


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of some of the same tasks."""
    out = tmp_path_factory.mktemp("report") / "before"
    build(sorted(TRIALS.glob("0*")), out, workers=1)
    return out


@pytest.fixture(scope="session")
def datums(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("report") / "datums"
    build_datum_shards(dataset, out)
    return out


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    def written(*paths: Path, **options: Any) -> str:
        out = tmp_path_factory.mktemp("page") / "report.html"
        write_report(paths[0], out, other=paths[1] if len(paths) > 1 else None, **options)
        return out.read_text()

    return written


def stats(*args: object) -> Any:
    """What `stats --json` prints."""
    done = run_command("stats", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
