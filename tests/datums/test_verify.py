"""`verify_datums` finds nothing in what was written, and each invariant where it is broken."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests import sealed
from wmo_distill.cli.app import app
from wmo_distill.datums import writer
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.datums.verify import verify_datums
from wmo_distill.errors import UsageError

Rows = list[dict[str, Any]]


def part_of(datums: Path) -> Path:
    return datums / json.loads((datums / "manifest.json").read_text())["parts"][0]["file"]


@pytest.mark.parametrize(
    "options",
    [
        DatumOptions(),
        DatumOptions(subagents=True, reopen=True, normalize="sequence"),
        DatumOptions(purpose="sft", only="passed"),
        DatumOptions(max_datum_tokens=1200, context_budget=1500),
        DatumOptions(max_datum_tokens=1200, drop="record"),
        DatumOptions(advantages="centered", routed_experts=True),
        DatumOptions(only="failed", tasks=("terminal-bench/csv-totals",)),
    ],
)
def test_what_was_written_has_no_fault(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DatumOptions
) -> None:
    monkeypatch.setattr(writer, "GROUP_TOKENS", 4000)
    monkeypatch.setattr(writer, "PART_TOKENS", 20000)
    build_datum_shards(dataset, tmp_path / "d", options)
    assert verify_datums(tmp_path / "d") == []


def shorter(rows: Rows) -> None:
    rows[1]["loss_mask"].pop()


def put(name: str, value: Any) -> Callable[[Rows], None]:
    return lambda rows: rows[1].update({name: value})


def element(name: str, at: Callable[[dict[str, Any]], int], value: Any) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[1][name][at(rows[1])] = value

    return change


def first_trained(row: dict[str, Any]) -> int:
    return int(row["loss_mask"].index(True))


def advantage(value: float) -> Callable[[Rows], None]:
    return lambda rows: rows[1].update(advantages=[value] * len(rows[1]["token_ids"]))


def doubled(rows: Rows) -> None:
    rows.append(dict(rows[1]))


def two_ends(rows: Rows) -> None:
    fragment = next(row for row in rows if row["n_fragments"] > 1 and not row["ends_chat"])
    fragment["ends_chat"] = True


def lost(rows: Rows) -> None:
    fragment = next(row for row in rows if row["n_fragments"] > 1)
    rows.remove(fragment)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (shorter, "loss_mask, one a token"),
        (element("token_ids", lambda _: 0, -1), "token ids of 0 and more"),
        (element("token_ids", lambda _: 0, 5), "datum_id"),
        (element("loss_mask", lambda _: 0, True), "trained tokens in sampled runs alone"),
        (element("loss_mask", first_trained, False), "no sampled_logprobs where nothing"),
        (element("loss_mask", first_trained, False), "loss_tokens, from the rows,"),
        (element("sampled_logprobs", first_trained, None), "a log-probability at each"),
        (element("sampled_logprobs", first_trained, float("-inf")), "finite sampled_logprobs"),
        (element("call_starts", lambda _: 0, 10**6), "sampled runs in order"),
        (put("call_lengths", []), "sampled runs in order"),
        (put("finish_reasons", []), "finish_reasons, one a call"),
        (element("sampled_logprobs", first_trained, -1e16), "log-probabilities above -1000"),
        (two_ends, "one sequence with which an episode's main chat ends"),
        (put("segment", 1), "ends_chat in segment 0 alone"),
        (put("reward", 0.25), "the step_reward"),
        (put("step_reward", 0.25), "the step_reward"),
        (advantage(0.5), "no advantages"),
        (advantage(float("inf")), "finite advantages"),
        (advantage(float("nan")), "an advantage at each token"),
        (put("weight", -1.0), "a finite weight"),
        (put("n_fragments", 9), "9 fragments of"),
        (put("break_cause", "unknown"), "breaks, from the rows,"),
        (doubled, "each episode_id, segment and fragment_index once"),
        (lost, "datums, from the rows,"),
        (lost, "fragments of"),
    ],
)
def test_a_broken_invariant_is_found(
    change: Callable[[Rows], None], expected: str, dataset: Path, tmp_path: Path
) -> None:
    datums = tmp_path / "d"
    build_datum_shards(dataset, datums)
    part = part_of(datums)
    rows = pq.read_table(part).to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, schema=DATUM_SCHEMA), part)
    sealed.take_over(datums)
    assert any(
        fault.expected.startswith(expected) or expected in fault.expected
        for fault in verify_datums(datums)
    )


def test_files(dataset: Path, tmp_path: Path) -> None:
    datums = tmp_path / "d"
    build_datum_shards(dataset, datums)
    (datums / "parts/other.parquet").write_bytes(b"")
    part = part_of(datums)
    data = part.read_bytes()
    part.write_bytes(data[:100] + b"\xff" + data[101:])
    told = [str(fault) for fault in verify_datums(datums)]
    assert told[0].startswith(f"parts/{part.name}: expected SHA-256 ")
    assert any("expected a readable row group" in fault for fault in told)
    stray = "parts/other.parquet: expected only parts that the manifest names"
    assert any(fault.startswith(stray) for fault in told)
    part.write_bytes(b"no Parquet")
    sealed.take_over(datums)
    assert any("expected a readable Parquet file" in str(fault) for fault in verify_datums(datums))
    part.unlink()
    assert next(iter(verify_datums(datums))).expected == "a readable file"
    with pytest.raises(UsageError, match="expected the manifest of datums"):
        verify_datums(dataset)


def test_a_row_group_without_rows(dataset: Path, tmp_path: Path) -> None:
    datums = tmp_path / "d"
    build_datum_shards(dataset, datums)
    part = part_of(datums)
    table = pq.read_table(part)
    with pq.ParquetWriter(part, table.schema) as rewritten:
        rewritten.write_table(table)
        rewritten.write_table(table.slice(0, 0))
    sealed.take_over(datums)
    (fault,) = verify_datums(datums)
    assert (fault.file, fault.row) == (f"parts/{part.name}", table.num_rows)
    assert (fault.expected, fault.found) == ("no row group without rows", "group 1")


def test_other_columns(dataset: Path, tmp_path: Path) -> None:
    datums = tmp_path / "d"
    build_datum_shards(dataset, datums)
    part = part_of(datums)
    pq.write_table(pq.read_table(part).drop_columns(["weight"]), part)
    sealed.take_over(datums)
    assert "no column weight" in [fault.found for fault in verify_datums(datums)]


def test_the_command(dataset: Path, tmp_path: Path) -> None:
    datums = tmp_path / "d"
    build_datum_shards(dataset, datums)
    for place in (dataset, datums):
        done = CliRunner().invoke(app, ["verify", str(place)])
        assert (done.exit_code, done.output) == (0, f"{place}: no fault\n")
    part_of(datums).unlink()
    done = CliRunner().invoke(app, ["verify", str(datums)])
    assert done.exit_code == 1
    assert "make the datums again with --fresh" in done.stderr


def test_advantages_of_a_reward_that_does_not_count(dataset: Path, tmp_path: Path) -> None:
    build_datum_shards(dataset, tmp_path / "d", DatumOptions(advantages="centered"))
    part = part_of(tmp_path / "d")
    rows = pq.read_table(part).to_pylist()
    next(row for row in rows if row["advantages"])["reward_valid"] = False
    pq.write_table(pa.Table.from_pylist(rows, schema=DATUM_SCHEMA), part)
    sealed.take_over(tmp_path / "d")
    (fault,) = verify_datums(tmp_path / "d")
    assert fault.expected == "advantages of measured rewards alone"
