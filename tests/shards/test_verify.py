"""Every fault of a dataset's files is found, and a dataset without faults has none."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import sealed
from wmo_distill.cli.app import app
from wmo_distill.errors import UsageError
from wmo_distill.outputs import faults
from wmo_distill.outputs.faults import Fault
from wmo_distill.shards.schema import LEDGER_SCHEMA
from wmo_distill.shards.verify import verify
from wmo_distill.shards.writer import parquet_writer

from .damaged import PART, edit_table, reported, rewritten, set_column
from .generated import lawful, write_dataset


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write_dataset(tmp_path, [[lawful("a"), lawful("b", spans=())], [lawful("c")]])
    return tmp_path


def test_an_empty_dataset_has_no_faults(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[]])
    assert verify(tmp_path) == []


def test_a_flipped_byte(out: Path) -> None:
    data = bytearray((out / PART).read_bytes())
    data[len(data) // 2] ^= 1
    (out / PART).write_bytes(data)
    assert f"{PART}: expected SHA-256 " in reported(out)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"], ids=["none", "cut", "text"])
def test_a_part_that_is_no_part(out: Path, data: bytes) -> None:
    (out / PART).write_bytes(data)
    faults = verify(out)
    assert any(f.file == PART and f.expected == "a readable Parquet file" for f in faults)


def test_a_part_that_is_gone(out: Path) -> None:
    (out / PART).unlink()
    (fault,) = verify(out)
    assert (fault.file, fault.expected) == (PART, "a readable file")


def test_a_part_that_may_not_be_read(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fault for each, whatever is in it; nothing is to be restored."""
    real, closed = os.open, {os.fspath(out / "parts" / name) for name in os.listdir(out / "parts")}

    def ask(path: Any, *args: Any, **options: Any) -> int:
        if os.fspath(path) in closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", ask)
    said = [str(fault) for fault in verify(out)]
    found = "expected a readable file, found Permission denied; change its permissions"
    assert said == [f"parts/part-0000{n}.parquet: {found}" for n in (0, 1)]
    run = CliRunner().invoke(app, ["verify", str(out)])
    assert run.stderr == f"wmo-distill: {out}: 2 faults; then verify again\n"
    closed.remove(os.fspath(out / PART))
    assert "restore the files" not in CliRunner().invoke(app, ["verify", str(out)]).stderr


def test_a_part_with_bytes_flipped_anywhere(out: Path) -> None:
    """However a part is damaged, verify tells it and does not raise."""
    data = (out / PART).read_bytes()
    for at in range(7, len(data), 997):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        (out / PART).write_bytes(damaged)
        assert f"{PART}: expected SHA-256 " in reported(out)


def test_every_row_twice(out: Path) -> None:
    edit_table(out, lambda table: pa.concat_tables([table, table]))
    text = reported(out)
    assert f"{PART}, row 2: expected each episode_id once, found a" in text
    assert f"{PART}: expected rows as in the manifest, 2, found 4" in text
    assert "manifest.json: expected dataset_hash" in text


def test_a_row_changed_within_the_invariants(out: Path) -> None:
    """No invariant of rows is broken, yet the part is not the one that was written."""
    edit_table(out, set_column("note", ["changed", ""]))
    files = {fault.file for fault in verify(out)}
    assert files == {PART, "manifest.json"}
    assert f"{PART}: expected row_sum as in the manifest" in reported(out)


def test_another_schema(out: Path) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    pq.write_table(table.drop_columns(["note"]), out / PART)
    assert f"{PART}: expected a readable Parquet file, found a footer of SHA-256 " in reported(out)
    sealed.take_over(out)
    assert "expected the columns of schema version 2, found no column note" in reported(out)
    pq.write_table(table.replace_schema_metadata(None), out / PART)
    sealed.take_over(out)
    assert "another schema version in its metadata" in reported(out)


def test_a_row_group_without_rows(out: Path) -> None:
    with pq.ParquetFile(out / PART) as file:
        table = file.read()
    with parquet_writer(out / PART) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(0, 0))
    sealed.take_over(out)
    assert "no row group without rows" in reported(out)


def test_a_file_that_no_manifest_names(out: Path) -> None:
    (out / "parts/part-00009.parquet").write_bytes((out / PART).read_bytes())
    assert "parts/part-00009.parquet: expected only parts that the manifest names" in reported(out)


def edit_ledger(out: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    rows = pq.read_table(out / "ledger.parquet").to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, LEDGER_SCHEMA), out / "ledger.parquet")
    sealed.take_over(out)


SKIPPED = {"outcome": "skipped", "records": 0, "part": None, "reasons": ["no_cell"]}
DUPLICATE = SKIPPED | {"path": "job/d", "reasons": ["duplicate_id"]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.pop(), "a row for job/c, which has records"),
        (lambda rows: rows[0].update(records=2), "row 0: expected 2 rows of job/a"),
        (lambda rows: rows[0].update(part="parts/part-00001.parquet"), "row 0: expected 1 rows"),
        (lambda rows: rows[0].update(part=None), "row 0: expected 1 rows of job/a in None"),
        (lambda rows: rows[0].update(SKIPPED), "no rows of job/a, which was skipped"),
        (lambda rows: rows[0].update(outcome="lost"), "outcome written or skipped, found 'lost'"),
        (lambda rows: rows.append(rows[0] | SKIPPED), "each path once, found job/a"),
        (lambda rows: rows.append(rows[0] | SKIPPED | {"path": "d"}), "found, from the ledger, 4"),
        (
            lambda rows: rows.append(rows[0] | SKIPPED | {"path": "d", "reasons": []}),
            "a reason for a skipped trial",
        ),
        (lambda rows: rows[0].update(trial_id="z"), "row 0: expected the id of the rows, a, found"),
        (lambda rows: rows[1].update(trial_id="a"), "trial a written once, from job/a, found job"),
        (
            lambda rows: rows.append(rows[0] | DUPLICATE | {"trial_id": "z"}),
            "a written trial with the id of the duplicate job/d, found none with id z",
        ),
    ],
)
def test_the_ledger_accounts_for_every_row(out: Path, change: Any, message: str) -> None:
    edit_ledger(out, change)
    assert message in reported(out)


@pytest.mark.parametrize(
    "row",
    [{}, {"trial_id": "z", "reasons": ["duplicate_id", "removed"]}],
    ids=["its id is written", "it says why it did not take over"],
)
def test_a_duplicate_that_is_none_of_the_faults(out: Path, row: dict[str, Any]) -> None:
    edit_ledger(out, lambda rows: rows.append(rows[0] | DUPLICATE | row))
    assert "of the duplicate" not in reported(out)


def test_a_ledger_that_is_none(out: Path) -> None:
    (out / "ledger.parquet").write_bytes(b"x")
    assert "ledger.parquet: expected sha256 as in the manifest" in reported(out)
    sealed.take_over(out)
    assert "ledger.parquet: expected a readable Parquet file" in reported(out)
    pq.write_table(pa.table({"path": ["a"]}), out / "ledger.parquet")
    sealed.take_over(out)
    assert "ledger.parquet: expected the columns of schema version 2" in reported(out)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("found", 9), ("written", 2), ("records", 4), ("calls", 1), ("calls_found", 7),
        ("skipped", {"no_cell": 1}), ("issues", {"details_null": 1}), ("stop_reasons", {}),
        ("tokens", {"input": 1}), ("calls_dropped", {"prompt_empty": 1}),
    ],
)  # fmt: skip
def test_the_manifests_totals_add_up(out: Path, key: str, value: Any) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["totals"][key] = value
    (out / "manifest.json").write_text(json.dumps(manifest))
    faults = verify(out)
    assert {fault.file for fault in faults} == {"manifest.json"}
    assert any(fault.expected.startswith(key) for fault in faults)


def test_options_that_are_none(out: Path) -> None:
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["options"] = {"reward_range": [0]}
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"manifest\.json: options\.reward_range: "):
        verify(out)


def test_a_file_that_is_wrong_throughout_is_reported_in_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "FAULTS_A_FILE", 3)
    rewritten(tmp_path, [lawful(f"a{i}", passed=False) for i in range(50)])
    found = [fault for fault in verify(tmp_path) if fault.file == PART]
    assert len(found) == 4
    assert found[-1].found.endswith(" more")


def test_a_fault_says_where_expected_found() -> None:
    assert str(Fault("parts/p", 3, "a", "b")) == "parts/p, row 3: expected a, found b"
    assert str(Fault("parts/p", None, "a", "b")) == "parts/p: expected a, found b"


def test_no_dataset_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected the manifest of a dataset"):
        verify(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"parent": "/elsewhere"},
        {"inputs": []},
        {"tool_version": "0"},
        {"slow_reads": 1},
        {"options": {"max_turns": 3}},
        {"seal": "0"},
    ],
)
def test_what_only_the_manifest_says_is_sealed(out: Path, change: dict[str, Any]) -> None:
    value = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(dict(reversed(value.items()))))
    assert verify(out) == []  # neither order nor spacing says anything
    (out / "manifest.json").write_text(json.dumps(value | change))
    (fault,) = verify(out)
    assert str(fault).startswith("manifest.json: expected the seal of what it says")


@pytest.mark.parametrize(
    "change",
    [{"mtime_ns": 3}, {"bytes": 0}, {"trial_id": "z"}, {"trial_name": None}, {"reasons": ["x"]}],
)
def test_the_ledger_is_the_manifests(out: Path, change: dict[str, Any]) -> None:
    manifest = (out / "manifest.json").read_bytes()
    edit_ledger(out, lambda rows: rows[1].update(change))
    (out / "manifest.json").write_bytes(manifest)
    assert "ledger.parquet: expected sha256 as in the manifest" in reported(out)
