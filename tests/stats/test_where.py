"""What `--where` may not say: what ends the process for lack of memory or stack, other files."""

import os
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from tests.shards.generated import lawful, write_dataset
from wmo_distill.errors import UsageError
from wmo_distill.shards.where import (
    COPYING,
    FUNCTIONS,
    LONGEST_TEXT,
    MOST_COPIES,
    MOST_TERMS,
    refused,
)
from wmo_distill.stats.rollout import dataset_stats


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("LPAD(task_id, 2000000000) = 'a'", "the function LPAD, which is not allowed; "),
        ("LPAD\u2003(task_id, 9) = 'a'", "the function LPAD"),
        ("\"lpad\"(task_id, 9) = 'a'", "the function LPAD"),
        ("`Rpad` (task_id, 9) = 'a'", "the function RPAD"),
        ("REPLACE(task_id, 'a', 'aaaa') = 'a'", "the function REPLACE"),
        ("CONCAT(task_id, task_id) = 'a'", "the function CONCAT"),
        ("ARRAY_LENGTH(RANGE(1, 9000000000)) = 1", "the function RANGE"),
        ("UNNEST(issues) = 'a'", "the function UNNEST"),
        ("task_id || task_id = 'a'", "||, which joins text; "),
        (
            "n_calls < (SELECT COUNT(*) FROM read_csv('/etc/passwd'))",
            "SELECT, a query of its own",
        ),
        ("n_calls IN (WITH x AS (SELECT 1) SELECT 1)", "WITH, a query"),
        ("/* ' */ LPAD(task_id, 9) /* ' */ = 'a'", "/*, which begins no text"),
        ("n_calls > 1 -- '", "--, which begins no text"),
        ("task_id = $$a$$", "$, which begins no text"),
        ("task_id = 'a", "', which begins no text"),
        ("task_id = E'\\' LPAD(task_id, 9) = '", "text with the prefix E; "),
        (f"task_id = '{'a' * LONGEST_TEXT}'", f"a text of {LONGEST_TEXT + 2:,} characters; "),
        (" OR ".join(["n_calls = 1"] * MOST_TERMS), f"give at most {MOST_TERMS:,}, or `column IN"),
        ("n_calls = 1" + " IS NULL" * MOST_TERMS, f"give at most {MOST_TERMS:,}"),
        ("passed" + " BETWEEN FALSE AND TRUE" * 30, "BETWEEN 30 times; give at most 8"),
        ("NULLIF(" * 9 + "passed" + ", TRUE)" * 9, "NULLIF 9 times"),
        ('"left"(' * 9 + "note" + ", 1)" * 9 + " = ''", "LEFT 9 times"),
        ("CASE n_calls WHEN 1 THEN TRUE END", "CASE of a value; "),
        ("LENGHT(task_id) > 1", "did you mean LENGTH or "),
    ],
)
def test_what_is_refused_says_why(tmp_path: Path, where: str, found: str) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    with pytest.raises(UsageError) as error:
        dataset_stats(tmp_path / "out", where=where)
    said = str(error.value)
    assert said.startswith("--where: expected a condition such as `reward < 1 AND n_calls > 20`, ")
    assert found in said


@pytest.mark.parametrize(
    "where",
    [
        "task_id = 'it''s LPAD(x) || --'",
        "(n_calls > 1 OR NOT (passed)) AND n_calls IN (1, 2)",
        "CAST(n_calls AS VARCHAR(3)) = '1'",
        "reward < AVG(reward) OVER (PARTITION BY task_id)",
        "COUNT(*) FILTER (WHERE passed) > 1",
        "EXTRACT(YEAR FROM (started_at)) = 2026",
        "started_at > DATE '2026-11-01' AND agent_seconds < 1.5e3",
        "CASE WHEN (passed) THEN (n_calls > 1) ELSE (n_calls > 2) END",
        "\"note\" LIKE '%100\\%' AND `n_calls` BETWEEN (1) AND (2)",
        "ARRAY_CONTAINS(issues, 'sink_missing') OR task_id RLIKE ('^a+$')",
        " OR ".join(["n_calls = 1"] * (MOST_TERMS // 4)),
        f"n_calls IN ({', '.join(map(str, range(20 * MOST_TERMS)))})",
    ],
)
def test_what_asks_for_no_more_than_it_is_given_is_allowed(where: str) -> None:
    assert refused(where) is None


def test_the_longest_expressions_are_answered(tmp_path: Path) -> None:
    """In a process of its own: without the limits these end it by a signal."""
    write_dataset(tmp_path / "out", [[lawful("one")]])
    for chain in (" IS NULL", "::INT", " + 1"):
        for terms in (MOST_TERMS // 3, 10 * MOST_TERMS):
            where = "n_calls" + chain * terms + " = 1"
            command = [sys.executable, "-m", "wmo_distill", "stats", str(tmp_path / "out")]
            done = subprocess.run(
                [*command, "--where", where, "--json"],
                capture_output=True,
                env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            )
            assert done.returncode in (0, 2), (chain, terms, done.stderr[-300:])
            if terms > MOST_TERMS:
                assert b"give at most" in done.stderr


# What is around the value that is given, by word: some of these make copies of another one.
_GIVEN = ("{f}({x})", "{f}({x}, 1)", "{f}(a, {x})", "{f}({x}, 1, 2)", "{f}(a, {x}, 2)",
          "{f}(a, 'x', {x})", "({x}) {f} 1 AND 2", "SUM({x}) {f} ()",
          "SUM(a) {f} (WHERE {x})")  # fmt: skip


def test_words_that_copy_what_they_are_given_are_counted() -> None:
    """Four in one another: of a word that copies, each adds more than the one before it."""

    def is_copying(word: str, form: str) -> bool:
        sizes, where = [], "a"
        for _ in range(5):
            where = form.format(f=word, x=where)
            try:
                sizes.append(len(pl.sql_expr(where).meta.serialize()))
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
                return False
        added = [after - before for before, after in pairwise(sizes)]
        return added[-1] > 1.5 * added[-2]

    words = {*COPYING, *(name for names in FUNCTIONS.values() for name in names)}
    found = {word for word in words if any(is_copying(word, form) for form in _GIVEN)}
    assert found <= set(COPYING)
    assert {"BETWEEN", "LEFT", "NULLIF", "OVER"} <= found


@pytest.mark.parametrize("form", ["SPLIT_PART(note, 'x', {})", "LEFT(note, {})", "NULLIF({}, 1)"])
def test_as_many_copies_as_are_allowed_take_seconds(tmp_path: Path, form: str) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    where = "n_calls"
    for _ in range(MOST_COPIES):
        where = form.format(where)
    with suppress(UsageError):  # text where a number is expected
        dataset_stats(tmp_path / "out", where=f"{where} IS NULL")


def test_each_allowed_function_is_one_of_polars() -> None:
    """Or of a newer polars than this one; those of SQL's own syntax have words in them."""
    syntax = {"ALL", "ANY", "CAST", "TRY_CAST", "EXTRACT", "POSITION", "TRIM", "SUBSTRING"}
    newer = {
        "BIT_NOT", "CUME_DIST", "DATE_TRUNC", "DENSE_RANK", "FIRST_VALUE", "LAG", "LAST_VALUE",
        "LEAD", "NTH_VALUE", "NTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER", "TOTAL", "TRUNC",
        "TRUNCATE",
    }  # fmt: skip
    for name in {name for names in FUNCTIONS.values() for name in names} - syntax - newer:
        assert any(_known(name, given) for given in ("", "a", "a, 1", "a, 'b'", "a, 'b', 1")), name


def _known(name: str, given: str) -> bool:
    try:
        pl.sql_expr(f"{name}({given})")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return "unsupported function" not in str(error)
    return True
