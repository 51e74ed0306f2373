"""Trials of `harbor serve`: their job, and attempts that a retry supersedes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from wmo_distill import build, scan
from wmo_distill.sources.harbor.serve import read_retries, rollout_id

SOURCE = next((Path(__file__).parents[2] / "fixtures/trials/01-solved").glob("jobs/*/*__*"))
FIRST, SECOND, OTHER = (f"{n}0bd2fed-233a-4a3e-a5a8-49dfd1116d03" for n in "abc")
JOB = "0f2c6a5e-0000-4000-8000-000000000001"


def serve(data: Path, rollout: str, *, hour: int, graded: bool = True) -> Path:
    """A finished rollout as the server lays it out: its id is that of the trial."""
    trial = data / "files" / "rollouts" / rollout / "t__1"
    shutil.copytree(SOURCE, trial)
    result = json.loads((trial / "result.json").read_text())
    result |= {"id": rollout, "trial_name": "t__1", "finished_at": f"2026-11-29T{hour}:00:00Z"}
    result["config"] |= {"job_id": JOB, "trial_name": "t__1"}
    if not graded:
        result["verifier_result"] = None
    (trial / "result.json").write_text(json.dumps(result))
    return trial


def database(data: Path, *rows: tuple[str, str | None], wal: bool = False) -> sqlite3.Connection:
    """The columns that are asked for, of the table of Harbor 0.26.0."""
    connection = sqlite3.connect(data / "harbor.sqlite3")
    if wal:
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE internal_rollout (id TEXT UNIQUE NOT NULL, retry_of TEXT)")
    connection.executemany("INSERT INTO internal_rollout VALUES (?, ?)", rows)
    connection.commit()
    return connection


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    serve(data, FIRST, hour=10, graded=False)
    serve(data, SECOND, hour=11)
    serve(data, OTHER, hour=12)
    return data


def rows(out: Path) -> list[dict[str, Any]]:
    columns = ["trial_id", "job", "regrade_of"]
    frame = pl.read_parquet(out / "parts" / "*.parquet").sort("artifact_dir")
    return frame.select(columns).to_dicts()


@pytest.mark.parametrize("path", [".", "files", "files/rollouts"])
def test_a_retry_supersedes_the_attempt_that_it_repeats(
    data: Path, tmp_path: Path, path: str
) -> None:
    database(data, (FIRST, None), (SECOND, FIRST), (OTHER, None)).close()
    out = tmp_path / "out"
    build([data / path], out)
    assert rows(out) == [
        {"trial_id": FIRST, "job": JOB, "regrade_of": None},
        {"trial_id": SECOND, "job": JOB, "regrade_of": FIRST},
        {"trial_id": OTHER, "job": JOB, "regrade_of": None},
    ]
    kept = scan(out).sort("attempt").collect()
    assert kept["trial_id"].to_list() == [SECOND, OTHER]


def test_without_the_database_each_attempt_counts(data: Path, tmp_path: Path) -> None:
    build([data], tmp_path / "out")
    assert {row["regrade_of"] for row in rows(tmp_path / "out")} == {None}
    assert {row["job"] for row in rows(tmp_path / "out")} == {JOB}
    assert scan(tmp_path / "out").collect().height == 3


def test_no_file_is_made_next_to_the_database(data: Path) -> None:
    database(data, (SECOND, FIRST), wal=True).close()
    before = sorted(file.name for file in data.iterdir())
    assert read_retries(data) == {SECOND: FIRST}
    assert sorted(file.name for file in data.iterdir()) == before


def test_a_server_that_runs(data: Path) -> None:
    """Its newest rows are in the log next to the database."""
    with closing(database(data, (SECOND, FIRST), wal=True)):
        assert (data / "harbor.sqlite3-wal").stat().st_size
        assert read_retries(data) == {SECOND: FIRST}
        copy = data.parent / "copy"
        copy.mkdir()
        for end in ("", "-wal"):  # as a backup without the shared memory
            shutil.copy(data / f"harbor.sqlite3{end}", copy)
        before = sorted(file.name for file in copy.iterdir())
        assert read_retries(copy) == {SECOND: FIRST}
        assert sorted(file.name for file in copy.iterdir()) == before


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 200])
def test_a_damaged_database_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "harbor.sqlite3").write_bytes(content)
    assert read_retries(tmp_path) is None
    assert read_retries(tmp_path / "nowhere") is None


@pytest.mark.parametrize(
    ("path", "known"),
    [
        (f"files/rollouts/{FIRST}/t__1", FIRST),
        (f"files/rollouts/{FIRST.upper()}/t__1", None),
        ("files/rollouts/job/t__1", None),
        (f"jobs/{FIRST}/t__1", None),
        ("t__1", None),
    ],
)
def test_the_layout_is_recognised_by_its_path(path: str, known: str | None) -> None:
    assert rollout_id(Path("/") / path) == known
