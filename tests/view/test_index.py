"""Filters, sorting and pages of the list, held against rows that pyarrow reads."""

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.shards.generated import lawful, write_dataset
from tests.view import data
from wmo_distill import UsageError, build, scan
from wmo_distill.records import Sampling
from wmo_distill.shards.find import find, read_at
from wmo_distill.view.answers import Answers
from wmo_distill.view.index import MOST_ROWS, SORTED

Row = dict[str, Any]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("index") / "out"
    build([data.TRIALS], place)
    return place


@pytest.fixture(scope="module")
def answers(out: Path) -> Answers:
    return Answers(out)


@pytest.fixture(scope="module")
def rows(out: Path) -> list[Row]:
    found: list[Row] = pq.read_table(out / "parts").to_pylist()
    return found


def ids(answers: Answers, **asked: str) -> list[str]:
    page = answers.episodes({"n": str(MOST_ROWS), **asked})
    found = [row["episode_id"] for row in page["rows"]]
    assert page["found"] == len(found)
    return found


def graded(row: Row) -> bool:
    return row["reward"] is not None and bool(row["reward_valid"]) and not row["infra_failed"]


@pytest.mark.parametrize(
    ("asked", "chooses"),
    [
        ({}, lambda row: True),
        ({"stop_reason": "budget"}, lambda row: row["stop_reason"] == "budget"),
        ({"completion": "confirmed"}, lambda row: row["completion"] == "confirmed"),
        ({"task_id": "csv-totals"}, lambda row: row["task_id"] == "csv-totals"),
        ({"format": "harbor"}, lambda row: row["format"] == "harbor"),
        ({"issue": "details_empty"}, lambda row: "details_empty" in row["issues"]),
        ({"grade": "passed"}, lambda row: graded(row) and row["passed"] is True),
        ({"grade": "failed"}, lambda row: graded(row) and row["passed"] is False),
        ({"grade": "unmeasured"}, lambda row: not graded(row)),
        ({"q": "SALES step"}, lambda row: "sales" in (row["task_id"] or "").lower()),
        ({"where": "output_tokens > 300"}, lambda row: row["output_tokens"] > 300),
        ({"where": "prompt_tokens > 9000"}, lambda row: row["prompt_tokens"] > 9000),
        (
            {"where": "reward = 1", "stop_reason": "submitted"},
            lambda row: row["reward"] == 1 and row["stop_reason"] == "submitted",
        ),
    ],
)  # fmt: skip
def test_a_filter_leaves_the_rows_that_it_names(
    answers: Answers, rows: list[Row], asked: dict[str, str], chooses: Callable[[Row], bool]
) -> None:
    wanted = [row["episode_id"] for row in rows if chooses(row)]
    assert len(wanted) > 0
    assert ids(answers, **asked) == wanted


def test_nothing_that_a_filter_names_is_a_pattern(answers: Answers) -> None:
    assert ids(answers, q=".*") == []
    assert ids(answers, q="(") == []
    assert ids(answers, stop_reason="nothing") == []
    with pytest.raises(UsageError, match="--where: expected a condition"):
        ids(answers, where="reward + 1")
    with pytest.raises(UsageError, match=r"--where: expected a condition .* `i32` failed"):
        ids(answers, where="CAST(trial_name AS INT) > 1")


@pytest.mark.parametrize("name", SORTED)
def test_every_column_sorts_with_nulls_last(answers: Answers, rows: list[Row], name: str) -> None:
    for down in ("", "1"):
        order = ids(answers, sort=name, down=down)
        assert sorted(order) == sorted(row["episode_id"] for row in rows)
        if name in ("output_tokens", "reward"):
            by_id = {row["episode_id"]: row[name] for row in rows}
            values = [by_id[one] for one in order]
            known = [value for value in values if value is not None]
            assert known == sorted(known, reverse=down == "1")
            assert values[len(known) :] == [None] * (len(values) - len(known))


def test_pages_are_pieces_of_the_whole(answers: Answers) -> None:
    whole = ids(answers, sort="total_tokens")
    pieces = [
        row["episode_id"]
        for start in range(0, 60, 7)
        for row in answers.episodes({"sort": "total_tokens", "start": str(start), "n": "7"})["rows"]
    ]
    assert pieces == whole


def test_the_attempts_are_those_of_scan(answers: Answers, out: Path) -> None:
    wanted = dict(scan(out).select("episode_id", "attempt").collect().rows())
    shown = {r["episode_id"]: r["attempt"] for r in answers.episodes({"n": "500"})["rows"]}
    assert shown == wanted


def test_attempts_of_rows_that_nearly_agree(tmp_path: Path) -> None:
    """Ties, times that are not known and names that differ in a byte; with and without regrades."""
    draw = random.Random(0)
    made = [
        lawful(
            str(n),
            trial_name=draw.choice(["a", "ä", "B"]),
            artifact_dir=f"job/{draw.choice('xyz')}{n % 3}",
            group_id=draw.choice(["g", "h"]),
            attempt=draw.choice([None, None, None, 7]),
            started_at=draw.choice([None, datetime(2026, 1, 1, draw.randrange(2), tzinfo=UTC)]),
        )
        for n in range(60)
    ]
    for name, rows in (("plain", made), ("again", [*made[:-1], replace(made[-1], regrade_of="3")])):
        write_dataset(tmp_path / name, [rows[:30], rows[30:]])
        wanted = dict(scan(tmp_path / name).select("episode_id", "attempt").collect().rows())
        shown = Answers(tmp_path / name).episodes({"n": "500"})["rows"]
        assert {row["episode_id"]: row["attempt"] for row in shown} == wanted
        assert len(wanted) == {"plain": 60, "again": 59}[name]


def test_a_place_is_that_of_find(answers: Answers, out: Path) -> None:
    for episode in ids(answers)[::9]:
        place = answers._dataset.read(lambda opened, e=episode: opened.index.place(e))
        assert place == find(out, episode)
        assert place is not None
        with_extra, without = read_at(place), read_at(place, extra=False)
        assert [s.extra for s in without.spans] == [None] * len(with_extra.spans)
        assert without.counts == with_extra.counts


def test_the_words_of_the_filters(answers: Answers, rows: list[Row]) -> None:
    facets = answers.start()["facets"]
    assert dict(facets["issue"])["details_empty"] == 6
    for name in ("task_id", "stop_reason"):
        assert sum(n for _, n in facets[name]) == sum(row[name] is not None for row in rows)


def test_other_attempts_of_one_task(tmp_path: Path) -> None:
    made = [
        lawful(name, task_id=task, group_id=group, sampled_with=Sampling(policy_version="1"))
        for name, task, group in (
            ("a", "t", "g"), ("b", "t", "h"), ("c", "t", "g"), ("d", "u", "g"), ("e", None, "g"),
        )
    ]  # fmt: skip
    write_dataset(tmp_path / "out", [made])
    answers = Answers(tmp_path / "out")
    others = {n: [o["episode_id"] for o in answers.episode(n)["others"]] for n in "abde"}
    assert others == {"a": ["c", "b"], "b": ["a", "c"], "d": [], "e": ["a", "c", "d"]}
    assert answers.episode("a")["versions"] == ["1"]


def test_where_two_episodes_differ(tmp_path: Path) -> None:
    from wmo_distill.tokens import TokenSpan

    one = (TokenSpan(0, [1, 2], [3, 4]), TokenSpan(1, [1, 2, 3, 4, 5], [6]))
    other = (TokenSpan(0, [1, 9], [3, 4]), TokenSpan(1, [1, 9, 3, 4, 5], [7]))
    start = (TokenSpan(0, [1, 2], [3, 4]),)
    made = [lawful(n, spans=s) for n, s in (("a", one), ("b", other), ("c", start), ("d", one))]
    write_dataset(tmp_path / "out", [made])
    answers = Answers(tmp_path / "out")
    assert answers.difference("a", "b") == {"at": [1, 1], "sampled": [5, 5]}
    assert answers.difference("a", "c") == {"at": [4, 3], "sampled": [5, 3]}
    assert answers.difference("a", "d") == {"at": None, "sampled": None}
