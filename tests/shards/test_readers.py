"""Parts are read without our code: pyarrow, polars, DuckDB, `datasets`.

A part that holds only rows without spans is next to a full one: every reader must give both one
schema and lose nothing.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from wmo_distill.records import GradedTests, Sampling, SegmentInfo, SegmentKind
from wmo_distill.shards.schema import SCHEMA
from wmo_distill.tokens import TokenSpan

from .generated import lawful, long_chat, write_dataset

NAMED: dict[str, Any] = {
    "finish_reason": "stop",
    "versions": (("a", 0), ("b", 1)),
    "used": False,
}


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dataset")
    full = [
        lawful(
            "é-full",
            rewards={"reward": 1.0, "only here": 0.25},
            tests=GradedTests(passed=3, resolved=4, unresolved=1),
            sampled_with=Sampling(train_step=2**40, declared=("tokenizer",), tokenizer="t"),
            started_at=datetime(2025, 6, 1, 12, 0, 0, 1, tzinfo=UTC),
        ),
        lawful(
            "gaps",
            spans=(
                TokenSpan(0, [1, 2], [3, 4], [-0.5, float("nan")], **NAMED),
                TokenSpan(2, [1, 2, 3, 4, 5], None, sampling="{}"),
                TokenSpan(3, [1, 9], []),
            ),
            segments=(SegmentInfo(), SegmentInfo(SegmentKind.SUBAGENT, "a", "m", False)),
        ),
        lawful("long", spans=long_chat(20, 30)),
    ]
    bare = [lawful(f"bare{i}", spans=(), rewards={}, reward=None, passed=None) for i in range(3)]
    write_dataset(out, [bare, full, []])
    return out / "parts"


NO_TESTS = {"passed": None, "resolved": None, "unresolved": None}
"""How polars before 1.2 reads a struct that is null."""
EPISODES = ["bare0", "bare1", "bare2", "é-full", "gaps", "long"]
GAPS = [
    {
        "segment": 0, "call_index": 0, "prefix_len": 0, "prompt_suffix": [1, 2],
        "sampled_token_ids": [3, 4], "sampled_logprobs": [-0.5, None], "finish_reason": "stop",
        "versions": [{"version": "a", "start": 0}, {"version": "b", "start": 1}],
        "sampling": None, "used": False, "extra": None,
    },
    {
        "segment": 0, "call_index": 2, "prefix_len": 4, "prompt_suffix": [5],
        "sampled_token_ids": None, "sampled_logprobs": None, "finish_reason": None,
        "versions": None, "sampling": "{}", "used": None, "extra": None,
    },
    {
        "segment": 0, "call_index": 3, "prefix_len": 1, "prompt_suffix": [9],
        "sampled_token_ids": [], "sampled_logprobs": None, "finish_reason": None,
        "versions": None, "sampling": None, "used": None, "extra": None,
    },
]  # fmt: skip


def check(rows: list[dict[str, Any]]) -> None:
    """What every reader must give, whichever types it has for lists and structs."""
    assert [row["episode_id"] for row in rows] == EPISODES
    by_name = {row["episode_id"]: row for row in rows}
    assert by_name["bare1"]["spans"] == []
    assert by_name["bare1"]["tests"] in (None, NO_TESTS)
    assert by_name["gaps"]["spans"] == GAPS
    assert by_name["gaps"]["segments"] == [
        {"kind": "main", "agent": None, "model": None, "trainable": True},
        {"kind": "subagent", "agent": "a", "model": "m", "trainable": False},
    ]
    full = by_name["é-full"]
    assert full["rewards"] == [
        {"name": "reward", "value": 1.0},
        {"name": "only here", "value": 0.25},
    ]
    assert full["tests"] == {"passed": 3, "resolved": 4, "unresolved": 1}
    assert full["declared"] == ["tokenizer"]
    started = full["started_at"]
    assert (
        started if isinstance(started, int) else started.timestamp() * 1e6
    ) == 1_748_779_200_000_001
    assert full["train_step"] == 2**40
    spans = by_name["long"]["spans"]
    expected = long_chat(20, 30)
    assert [s["sampled_token_ids"] for s in spans] == [s.sampled.tolist() for s in expected]
    assert spans[7]["sampled_logprobs"] == expected[7].sampled_logprobs.tolist()  # type: ignore[union-attr]


def test_pyarrow(parts: Path) -> None:
    check(ds.dataset(parts).to_table().to_pylist())
    for part in sorted(parts.iterdir()):
        assert pq.read_schema(part).equals(SCHEMA, check_metadata=True)
        assert pq.read_table(part).schema.equals(SCHEMA, check_metadata=True)


def test_polars(parts: Path) -> None:
    check(pl.read_parquet(parts / "*.parquet").to_dicts())
    assert len({str(pl.read_parquet_schema(part)) for part in parts.iterdir()}) == 1
    tokens = pl.scan_parquet(parts / "*.parquet").explode("spans").unnest("spans")
    assert (
        tokens.select(pl.col("prompt_suffix").list.len().sum()).collect().item() == 4 * 3 + 4 + 600
    )


def test_duckdb(parts: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    # DuckDB hands out times with a zone only where pytz is installed: as microseconds, then.
    table = duckdb.sql(
        "SELECT * REPLACE (epoch_us(started_at) AS started_at) "
        f"FROM read_parquet('{parts}/*.parquet')"
    )
    names = table.columns
    check([dict(zip(names, row, strict=True)) for row in table.fetchall()])
    tokens = duckdb.sql(
        f"SELECT sum(len(span.sampled_token_ids)) FROM "
        f"(SELECT unnest(spans) AS span FROM read_parquet('{parts}/*.parquet'))"
    )
    assert tokens.fetchall() == [(4 * 3 + 2 + 600,)]


def test_datasets(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets", reason="the package datasets is not installed")
    files = [str(part) for part in sorted(parts.iterdir())]
    table = datasets.load_dataset(
        "parquet", data_files=files, split="train", cache_dir=str(tmp_path)
    )
    check(list(table))
    stream = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True)
    check(list(stream))
