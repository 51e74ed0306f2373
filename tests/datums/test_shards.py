"""Datum shards: what is in them, that they balance, and that they are replaced whole."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import wmo_distill
from wmo_distill.cli.app import app
from wmo_distill.datums import writer
from wmo_distill.datums.build import build_datums
from wmo_distill.datums.options import DatumOptions
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.datums.table import DATUM_SCHEMA
from wmo_distill.errors import UsageError
from wmo_distill.records import StopReason
from wmo_distill.shards.scan import iter_records


def rows(out: Path) -> list[dict[str, Any]]:
    return pl.read_parquet(out / "parts/*.parquet").to_dicts()


def test_rows_are_the_builder_s_datums(dataset: Path, tmp_path: Path) -> None:
    summary = build_datum_shards(dataset, tmp_path / "d")
    datums, stats = build_datums(r for r in iter_records(dataset) if r.spans)
    assert summary.stats.model_dump(exclude={"records", "dropped_records"}) == stats.model_dump(
        exclude={"records", "dropped_records"}
    )
    got = rows(tmp_path / "d")
    assert len(got) == len(datums) == summary.stats.datums
    for row, datum in zip(got, datums, strict=True):
        ids = np.array(row["token_ids"], "<i4")
        assert row["datum_id"] == hashlib.sha256(ids.tobytes()).hexdigest()[:32]
        assert ids.tolist() == datum.token_ids.tolist()
        assert row["loss_mask"] == datum.loss_mask.tolist()
        trained = [x for x, m in zip(row["sampled_logprobs"], row["loss_mask"], strict=True) if m]
        assert trained == datum.sampled_logprobs[datum.loss_mask].tolist()
        assert all(
            x is None
            for x, m in zip(row["sampled_logprobs"], row["loss_mask"], strict=True)
            if not m
        )
        assert row["advantages"] is None
    keys = [(row["episode_id"], row["segment"], row["fragment_index"]) for row in got]
    assert len(set(keys)) == len(keys)


def test_records_balance(dataset: Path, tmp_path: Path) -> None:
    for options in (
        DatumOptions(),
        DatumOptions(only="passed"),
        DatumOptions(where="n_calls > 3", only="measured"),
        DatumOptions(max_datum_tokens=2000, drop="record"),
        DatumOptions(advantages="grpo", min_group=2),
    ):
        summary = build_datum_shards(dataset, tmp_path / "d", options, fresh=True)
        lost = summary.filtered + summary.unselected
        lost += summary.without_tokens + summary.dropped_groups
        assert summary.records == lost + summary.stats.records
        assert summary.records == len(list(iter_records(dataset)))


def test_advantages_and_weights(dataset: Path, tmp_path: Path) -> None:
    options = DatumOptions(advantages="centered", normalize="sequence")
    build_datum_shards(dataset, tmp_path / "d", options, fresh=True)
    by_episode: dict[str, list[dict[str, Any]]] = {}
    for row in rows(tmp_path / "d"):
        by_episode.setdefault(row["episode_id"], []).append(row)
        if row["reward"] is not None and row["reward_valid"]:
            wanted = row["reward"] - row["group_mean"]
            assert row["advantages"] == [wanted if m else 0.0 for m in row["loss_mask"]]
        else:
            assert row["advantages"] is None
    for fragments in by_episode.values():
        trained = sum(sum(row["loss_mask"]) for row in fragments)
        assert all(row["weight"] == pytest.approx(1 / trained) for row in fragments)
        assert all(row["n_fragments"] == len(fragments) for row in fragments)


def test_a_discount_of_nothing_is_refused(dataset: Path, tmp_path: Path) -> None:
    options = DatumOptions(advantages="grpo", discount=0.5)
    with pytest.raises(UsageError, match="--discount: expected --reward return"):
        build_datum_shards(dataset, tmp_path / "d", options)
    assert not (tmp_path / "d").exists()


def test_a_build_replaces_the_one_before(dataset: Path, tmp_path: Path) -> None:
    out = tmp_path / "d"
    first = build_datum_shards(dataset, out)
    with pytest.raises(UsageError, match=r"--only: expected it not given .*'failed'.*--fresh"):
        build_datum_shards(dataset, out, DatumOptions(only="failed"))
    second = build_datum_shards(dataset, out, DatumOptions(only="failed"), fresh=True)
    assert not set(first.parts) & set(second.parts)
    assert sorted(p.relative_to(out).as_posix() for p in (out / "parts").iterdir()) == second.parts
    told = json.loads((out / "manifest.json").read_text())
    assert [part["file"] for part in told["parts"]] == second.parts
    assert told["options"]["only"] == "failed"


def test_parts_and_row_groups_are_bounded(
    dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build_datum_shards(dataset, tmp_path / "whole")
    monkeypatch.setattr(writer, "GROUP_TOKENS", 4000)
    monkeypatch.setattr(writer, "PART_TOKENS", 20_000)
    cut = build_datum_shards(dataset, tmp_path / "cut")
    assert len(cut.parts) > len(whole.parts) == 1
    for name in cut.parts:
        file = pq.ParquetFile(tmp_path / "cut" / name)
        assert file.schema_arrow.equals(DATUM_SCHEMA, check_metadata=True)
        assert all(file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups))
    assert rows(tmp_path / "cut") == rows(tmp_path / "whole")


def test_log_probabilities_are_byte_stream_split(dataset: Path, tmp_path: Path) -> None:
    (name,) = build_datum_shards(dataset, tmp_path / "d").parts
    group = pq.ParquetFile(tmp_path / "d" / name).metadata.row_group(0)
    encodings = {
        column.path_in_schema: column.encodings
        for column in (group.column(i) for i in range(group.num_columns))
    }
    assert "BYTE_STREAM_SPLIT" in encodings["sampled_logprobs.list.element"]
    assert "PLAIN" in encodings["token_ids.list.element"]


def test_nothing_to_train_is_a_dataset(dataset: Path, tmp_path: Path) -> None:
    summary = build_datum_shards(
        dataset, tmp_path / "d", DatumOptions(drop_stop_reasons=tuple(StopReason))
    )
    assert not summary.stats.datums
    summary = build_datum_shards(
        dataset, tmp_path / "e", DatumOptions(only="passed", min_group=9, advantages="grpo")
    )
    assert summary.filtered + summary.without_tokens + summary.dropped_groups == summary.records
    table = pq.read_table(tmp_path / "d/parts")
    assert table.num_rows == 0
    assert table.schema.equals(DATUM_SCHEMA)


def test_what_is_wrong_is_reported_before_work(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="manifest"):
        build_datum_shards(tmp_path, tmp_path / "d")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    with pytest.raises(UsageError, match="found other files"):
        build_datum_shards(dataset, tmp_path / "other")
    with pytest.raises(UsageError, match="found that of a dataset"):
        build_datum_shards(dataset, dataset, fresh=True)
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["file"]
    with pytest.raises(UsageError, match=r"--task: expected a task of .*, found 'none'"):
        build_datum_shards(dataset, tmp_path / "d", DatumOptions(tasks=("none",)))
    assert not (tmp_path / "d").exists()


def test_the_command(dataset: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    out = tmp_path / "d"
    done = runner.invoke(app, ["datums", str(dataset), "-o", str(out), "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert told["stats"]["datums"] == len(rows(out))
    done = runner.invoke(
        app, ["datums", str(dataset), "-o", str(out), "--advantages", "grpo", "--fresh"]
    )
    assert done.exit_code == 0
    assert "no advantage" in done.stdout
    assert "the template drops replies" in done.stdout
    done = runner.invoke(app, ["datums", str(dataset), "-o", str(out), "--advantages", "best"])
    assert isinstance(done.exception, UsageError)
    assert "--advantages" in str(done.exception)


def test_the_library_names_it() -> None:
    assert wmo_distill.build_datums is build_datums
    assert wmo_distill.build_datum_shards is build_datum_shards


def test_what_a_killed_first_build_left_is_replaced(dataset: Path, tmp_path: Path) -> None:
    parts = tmp_path / "d/parts"
    parts.mkdir(parents=True)
    (parts / "datums-00000.parquet").write_bytes(b"whole")
    (parts / ".datums-00001.parquet.99.tmp").write_bytes(b"half")
    summary = build_datum_shards(dataset, tmp_path / "d")
    assert [p.name for p in parts.iterdir()] == [Path(name).name for name in summary.parts]
    (tmp_path / "e/parts").mkdir(parents=True)
    (tmp_path / "e/parts/mine.parquet").write_bytes(b"x")
    with pytest.raises(UsageError, match="found other files"):
        build_datum_shards(dataset, tmp_path / "e")


def test_groups_are_dropped_on_request_without_advantages(dataset: Path, tmp_path: Path) -> None:
    summary = build_datum_shards(dataset, tmp_path / "d", DatumOptions(min_group=99))
    assert summary.dropped_groups == summary.records - summary.without_tokens > 30
