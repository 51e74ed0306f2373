"""Databases of calls that are damaged: what is known of them is kept, what is not has a reason."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.sources.capture_bank import copied, parts
from tests.sources.recorder_bank import BANK
from wmo_distill import build, verify
from wmo_distill.doctor.diagnose import diagnose

STORES = [
    "rllm-gateway/git-lineages/gateway_traces.db",
    "tinker-capture/store-failed/capture.sqlite",
]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A store of one file: what was in its log is in it."""
    run, name = request.param.rsplit("/", 1)
    file = copied(BANK / run, tmp_path) / name
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    return file


def without_pages(file: Path, first: int) -> None:
    """Pages from `first` on as zeros: the schema is on page 0."""
    data = file.read_bytes()
    size = int.from_bytes(data[16:18], "big")
    file.write_bytes(data[: first * size] + bytes(len(data) - first * size))


def test_one_that_nobody_can_look_into_has_a_ledger_row(store: Path, tmp_path: Path) -> None:
    folder, out = store.parent, tmp_path / "out"
    sound = build([folder], out, workers=1)
    assert sound.records
    shutil.copy(store, tmp_path / "sound")
    without_pages(store, 1)
    summary = build([folder], out, workers=1)
    assert (summary.found, summary.written) == (1, 0)
    assert summary.skipped == {"file_unreadable": 1}
    assert summary.removed == sound.found
    assert build([folder], out, workers=1).read == 0
    build([folder], tmp_path / "anew", workers=1)
    assert parts(out)["ledger.parquet"] == parts(tmp_path / "anew")["ledger.parquet"]
    assert verify(out) == []
    shutil.move(tmp_path / "sound", store)
    restored = build([folder], out, workers=1)
    assert (restored.records, restored.skipped) == (sound.records, {})


def test_doctor_names_it(store: Path) -> None:
    without_pages(store, 1)
    found = diagnose([store.parent])
    assert found.trials == 1


def test_a_store_of_another_program_is_none(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE wire_rows(x)")
        connection.execute("CREATE TABLE trace_sessions(x)")
        connection.commit()
    assert build([tmp_path], tmp_path / "out", workers=1).found == 0
