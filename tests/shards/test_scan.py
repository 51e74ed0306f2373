"""Which rows count, their attempts, and the three readers that must agree."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.effort import examples
from wmo_distill.errors import DistillError, UsageError
from wmo_distill.records import TrialRecord
from wmo_distill.shards.scan import ATTEMPT_SQL, iter_records, passed_over, scan

from .generated import contents, lawful, write_dataset

NOON = datetime(2025, 6, 1, 12, tzinfo=UTC)
FILES_PER_EXAMPLE = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def trial(name: str, minute: int | None = 0, **changes: Any) -> TrialRecord:
    """A spanless trial that started (and finished) at that minute after noon."""
    at = None if minute is None else NOON + timedelta(minutes=minute)
    return lawful(name, spans=(), **{"started_at": at, "finished_at": at} | changes)


def steps(name: str, minute: int, count: int) -> list[TrialRecord]:
    return [
        trial(name, minute, episode_id=f"{name}/s{i}", step_name=f"s{i}", step_index=i)
        for i in range(count)
    ]


def attempts(out: Path) -> dict[str, int | None]:
    frame = scan(out).select("episode_id", "attempt").collect()
    return dict(zip(frame["episode_id"], frame["attempt"], strict=True))


def test_attempts_are_ranks_by_start_then_name_then_path(tmp_path: Path) -> None:
    rows = [
        trial("late", 9),
        trial("unstarted", None),
        trial("b-tie", 5),
        trial("a-tie", 5),
        *steps("stepped", 7, 3),
        trial("other-group", 1, group_id="f" * 16),
        replace(trial("a-tie", 5), episode_id="twin", trial_id="twin", artifact_dir="zzz"),
    ]
    write_dataset(tmp_path, [rows[:3], rows[3:]])
    assert attempts(tmp_path) == {
        "a-tie": 1,
        "twin": 2,
        "b-tie": 3,
        "stepped/s0": 4,
        "stepped/s1": 4,
        "stepped/s2": 4,
        "late": 5,
        "unstarted": 6,
        "other-group": 1,
    }


def test_names_are_compared_as_bytes(tmp_path: Path) -> None:
    """U+E000 sorts before U+10000 as UTF-8 (not as UTF-16), Z before a, é last of the three."""
    names = ["Z", "a", "é", "\ue000", "\U00010000"]
    write_dataset(tmp_path, [[trial(n) for n in reversed(names)]])
    assert attempts(tmp_path) == {n: i for i, n in enumerate(names, 1)}


def test_a_cells_attempt_stays(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[trial("a", 1, attempt=0), trial("b", 2, attempt=7), trial("c", 3)]])
    assert attempts(tmp_path) == {"a": 0, "b": 7, "c": 3}


NO_REWARDS: dict[str, Any] = {
    "rewards": {}, "reward": None, "trial_reward": None, "passed": None, "infra_failed": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([trial("a", 1), trial("b", 2, regrade_of="a")], {"b"}),
        ([trial("a", 3), trial("b", 2, regrade_of="a")], {"a"}),
        ([trial("a", 1), trial("b", 2, regrade_of="a", **NO_REWARDS)], {"a"}),
        ([trial("a", 1, **NO_REWARDS), trial("b", 2, regrade_of="a", **NO_REWARDS)], {"b"}),
        ([trial("c", 3, regrade_of="b"), trial("b", 2, regrade_of="a"), trial("a", 1)], {"c"}),
        ([trial("c", 2, regrade_of="a"), trial("b", 3, regrade_of="a"), trial("a", 1)], {"b"}),
        ([trial("b", 2, regrade_of="gone"), trial("c", 3, regrade_of="gone")], {"c"}),
        ([trial("b", 2, regrade_of="gone"), trial("c", 3)], {"b", "c"}),
        ([trial("a", None), trial("b", 2, regrade_of="a")], {"b"}),
        ([trial("a", 1), trial("b", None, regrade_of="a")], {"a"}),
        ([trial("a", 1, regrade_of="b"), trial("b", 2, regrade_of="a")], {"b"}),
        ([trial("a", 1, regrade_of="a")], {"a"}),
        ([trial("a", 1), trial("b", 2, regrade_of="a", rewards={})], {"b"}),
    ],
)
def test_of_one_rollout_the_newest_with_rewards_counts(
    tmp_path: Path, rows: Sequence[TrialRecord], kept: set[str]
) -> None:
    write_dataset(tmp_path, [rows])
    assert set(attempts(tmp_path)) == kept
    assert passed_over(tmp_path) == len(rows) - len(kept)
    assert {r.episode_id for r in iter_records(tmp_path)} == kept
    every = list(iter_records(tmp_path, superseded=True))
    assert [r.episode_id for r in every] == [r.episode_id for r in rows]


def test_the_steps_of_a_regrade_count_together(tmp_path: Path) -> None:
    first = steps("a", 1, 2)
    again = [replace(row, regrade_of="a") for row in steps("b", 2, 2)]
    write_dataset(tmp_path, [first, [*again, trial("c", 0)]])
    assert attempts(tmp_path) == {"b/s0": 2, "b/s1": 2, "c": 1}
    assert passed_over(tmp_path) == 1


def test_trials_without_an_id_are_distinguished_by_path(tmp_path: Path) -> None:
    rows = [
        trial(n, 1, trial_id=None, episode_id=f"path:job/{n}", regrade_of="a") for n in ("b", "c")
    ]
    write_dataset(tmp_path, [[*rows, trial("a", 0)]])
    assert attempts(tmp_path) == {"path:job/c": 1}


@st.composite
def datasets(draw: st.DrawFn) -> list[list[TrialRecord]]:
    """Groups, ties, steps, unknown starts, cells and chains of regrades, cut anyhow into parts."""
    names = draw(st.permutations("abcdefgh"))[: draw(st.integers(0, 8))]
    rows: list[TrialRecord] = []
    for name in names:
        minute = draw(st.none() | st.integers(0, 3))
        shared = {
            "group_id": draw(st.sampled_from(["0" * 16, "1" * 16])),
            "attempt": draw(st.sampled_from([None, None, None, 5])),
            "regrade_of": draw(st.sampled_from([None, None, None, *"abcd"])),
            **(NO_REWARDS if draw(st.booleans()) else {}),
        }
        count = draw(st.sampled_from([0, 0, 2]))
        own = steps(name, minute or 0, count) if count else [trial(name, minute)]
        rows += [replace(row, **shared) for row in own]
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=2)))
    bounds = [0, *cuts, len(rows)]
    return [rows[a:b] for a, b in pairwise(bounds)]


@FILES_PER_EXAMPLE
@given(datasets())
def test_scan_and_iter_records_agree(tmp_path: Path, parts: list[list[TrialRecord]]) -> None:
    write_dataset(tmp_path, parts)
    records = list(iter_records(tmp_path))
    frame = scan(tmp_path).collect()
    assert frame["episode_id"].to_list() == [r.episode_id for r in records]
    assert frame["attempt"].to_list() == [r.attempt for r in records]
    assert None not in frame["attempt"].to_list()
    every = list(iter_records(tmp_path, superseded=True))
    assert {r.episode_id for r in records} <= {r.episode_id for r in every}
    assert [r.episode_id for r in every] == [r.episode_id for part in parts for r in part]
    trials = {r.trial_id for r in every} - {r.trial_id for r in records}
    assert passed_over(tmp_path) == len(trials)


@FILES_PER_EXAMPLE
@given(datasets())
def test_the_sql_window_agrees(tmp_path: Path, parts: list[list[TrialRecord]]) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    write_dataset(tmp_path, [[replace(r, regrade_of=None) for r in part] for part in parts])
    files = [str(tmp_path / "parts" / f"part-{i:05d}.parquet") for i in range(len(parts))]
    rows = duckdb.sql(f"SELECT episode_id, {ATTEMPT_SQL} FROM read_parquet({files!r})").fetchall()
    assert dict(rows) == attempts(tmp_path)


def test_only_the_parts_of_the_manifest_are_read(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[trial("a")], [trial("b")]])
    write_dataset(tmp_path, [[trial("c")]])
    assert len(list((tmp_path / "parts").iterdir())) == 2
    assert set(attempts(tmp_path)) == {"c"}
    assert [r.episode_id for r in iter_records(tmp_path)] == ["c"]


def test_an_empty_dataset_has_its_columns(tmp_path: Path) -> None:
    write_dataset(tmp_path, [[]])
    frame = scan(tmp_path).collect()
    assert frame.height == 0
    assert frame.schema["attempt"] == pl.Int32
    assert frame.schema["rewards"] == pl.List(pl.Struct({"name": pl.String, "value": pl.Float64}))
    assert list(iter_records(tmp_path)) == []
    assert passed_over(tmp_path) == 0


def test_records_come_back_whole_from_many_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmo_distill.shards.writer.GROUP_TOKENS", 30)
    rows = [lawful(n, attempt=0) for n in "abcde"]
    write_dataset(tmp_path, [rows])
    assert [contents(r) for r in iter_records(tmp_path)] == [contents(r) for r in rows]


@pytest.mark.parametrize("name", ["[ab]*?", "year=2025", "~", "ü b"])
def test_any_directory_name_will_do(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    write_dataset(tmp_path / name, [[trial("a")]])
    assert attempts(tmp_path / name) == {"a": 1}
    assert "year" not in scan(tmp_path / name).collect_schema().names()


def test_no_dataset_is_a_usage_error(tmp_path: Path) -> None:
    for read in (scan, iter_records, passed_over):
        with pytest.raises(UsageError, match="expected the manifest of a dataset"):
            read(tmp_path)


@pytest.mark.parametrize("data", [None, b"", b"PAR1 and more"], ids=["gone", "empty", "text"])
def test_a_damaged_part_is_named(tmp_path: Path, data: bytes | None) -> None:
    write_dataset(tmp_path, [[trial("a")]])
    part = tmp_path / "parts" / "part-00000.parquet"
    part.unlink()
    if data is not None:
        part.write_bytes(data)
    for read in (scan, lambda out: list(iter_records(out)), passed_over):
        with pytest.raises(DistillError, match=r"part-00000\.parquet: expected a part as its"):
            read(tmp_path)  # type: ignore[operator]
