"""A cell grades exactly the trial it names; any mistake in a cell is an error that names it."""

import json
import math
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.errors import UsageError
from wmo_distill.pipeline.cells import PlacedCell, load_cells
from wmo_distill.records import GradedTests

CELL = {"task_id": "a", "attempt": 1, "reward": 1.0, "passed": True, "artifact_dir": "a__t1"}


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A root with two trial directories."""
    for name in ("a__t1", "b__t2"):
        (tmp_path / "jobs" / name).mkdir(parents=True)
    return tmp_path / "jobs"


def cell(**changes: Any) -> dict[str, Any]:
    return {**CELL, **changes}


def load(jobs: Path, *cells: Any, paths: list[Path] | None = None) -> tuple[PlacedCell, ...]:
    file = jobs.parent / "cells.json"
    file.write_text(json.dumps(list(cells)))
    return load_cells(file, paths or [jobs])


B = cell(task_id="b", attempt=2, reward=0, passed=False, artifact_dir="b__t2/", note="slow")


def test_every_kind_of_file_gives_the_same_cells(jobs: Path) -> None:
    expected = load(jobs, CELL, B)
    assert [p.cell.reward for p in expected] == [1.0, 0.0]
    assert [p.root for p in expected] == [jobs / "a__t1", jobs / "b__t2"]
    texts = {
        "report.json": json.dumps({"score": 0.5, "cells": [CELL, B]}),
        "cells.jsonl": f"{json.dumps(CELL)}\r\n\n{json.dumps(B)}\n",
        "bom.json": "\ufeff" + json.dumps([CELL, B]),
        "bom.jsonl": "\ufeff" + json.dumps(CELL) + "\n" + json.dumps(B),
        "separator.jsonl": json.dumps(cell(extra="\u2028"), ensure_ascii=False)
        + f"\n{json.dumps(B)}",
    }
    for name, text in texts.items():
        (jobs.parent / name).write_text(text, "utf-8", newline="")
        assert load_cells(jobs.parent / name, [jobs]) == expected, name
    table = jobs.parent / "cells.parquet"
    pl.DataFrame([CELL | {"note": None}, B | {"reward": 0.0}]).write_parquet(table)
    assert load_cells(table, [jobs]) == expected


def test_one_line_and_no_cells(jobs: Path) -> None:
    file = jobs.parent / "cells.jsonl"
    file.write_text(json.dumps(CELL))
    assert len(load_cells(file, [jobs])) == 1
    assert load(jobs) == ()


def test_parquet_holds_the_optional_columns(jobs: Path) -> None:
    counts = {"passed": 1, "resolved": 2, "unresolved": 0}
    rows = [
        cell(tests=counts, infra_failed=True, step_name="s1"),
        B | {"tests": None, "infra_failed": None, "step_name": None},
    ]
    pl.DataFrame(rows, strict=False).write_parquet(jobs.parent / "cells.parquet")
    first, second = (p.cell for p in load_cells(jobs.parent / "cells.parquet", [jobs]))
    assert first.tests == GradedTests(**counts)
    assert (first.infra_failed, first.step_name) == (True, "s1")
    assert (second.tests, second.infra_failed, second.step_name) == (None, None, None)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (cell(reward=True), "reward: expected a finite JSON number or null, found true"),
        (cell(reward="1"), 'found "1"'),
        (cell(reward=math.nan), "found NaN"),
        (cell(reward=math.inf), "found Infinity"),
        (cell(reward=10**400), "reward: expected"),
        (cell(reward=[1]), "found [1]"),
        (cell(attempt=True), "attempt: expected an integer"),
        (cell(attempt=1.0), "attempt: expected an integer"),
        (cell(attempt=None), "attempt: expected an integer"),
        (cell(attempt=2**31), "attempt: expected an integer of at least 1 and below 2^31"),
        (cell(attempt=0), "attempt: expected an integer of at least 1"),
        (cell(attempt=-1), '(task "a", attempt -1): attempt: expected an integer of at least 1'),
        (cell(attempt=False), "attempt: expected an integer of at least 1"),
        (cell(attempt=0.0), "attempt: expected an integer of at least 1"),
        (cell(task_id=None), "task_id: expected"),
        (cell(task_id=7), "task_id: expected"),
        (cell(passed=1), "passed: expected"),
        (cell(passed="true"), "passed: expected"),
        (cell(infra_failed=0), "infra_failed: expected"),
        (cell(note=5), "note: expected"),
        (cell(step_name=5), "step_name: expected"),
        (cell(tests={"passed": 3, "resolved": 2, "unresolved": 0}), "0 <= passed <= resolved"),
        (cell(tests={"passed": 1, "resolved": 2}), "tests: expected"),
        (cell(tests={"passed": True, "resolved": 2, "unresolved": 0}), "tests: expected"),
        (cell(tests=[1, 2, 0]), "tests: expected"),
        (cell(artifact_dir=""), "a path that ends in a trial's name"),
        (cell(artifact_dir="."), "a path that ends in a trial's name"),
        (cell(artifact_dir="/"), "a path that ends in a trial's name"),
        (cell(artifact_dir=".."), "a path that ends in a trial's name"),
        (cell(artifact_dir="a__t1/.."), "a path that ends in a trial's name"),
        (cell(artifact_dir="a\0b"), "a path that ends in a trial's name"),
        (cell(artifact_dir=None), "artifact_dir: expected"),
        (cell(artifact_dir=3), "artifact_dir: expected"),
        ({k: v for k, v in CELL.items() if k != "reward"}, "found no reward"),
        ({k: v for k, v in CELL.items() if k != "passed"}, "found no passed"),
        ([1], "expected an object, found a list"),
        (None, "expected an object, found null"),
    ],
)
def test_a_wrong_cell_is_named(jobs: Path, wrong: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(jobs, B, wrong)
    assert "cells.json: cell 1" in str(caught.value)
    assert told in str(caught.value)
    if isinstance(wrong, dict) and "task_id" in wrong:
        assert f"task {json.dumps(wrong['task_id'])}" in str(caught.value)


@given(
    wrong=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*CELL, "tests", "note", "step_name"]), inner)
        ),
    )
)
def test_anything_is_a_cell_or_a_usage_error(
    wrong: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cells")
    (folder / "cells.json").write_text(
        json.dumps([{**CELL, **wrong} if type(wrong) is dict else wrong])
    )
    try:
        placed = load_cells(folder / "cells.json", [folder])
    except UsageError:
        return
    reward = placed[0].cell.reward
    assert reward is None or math.isfinite(reward)
    assert placed[0].name


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty.json", b""),
        ("blank.jsonl", b" \n\n"),
        ("cut.json", b'[{"task_id": "a"'),
        ("number.json", b"7"),
        ("object.json", b'{"rows": []}'),
        ("report.json", b'{"cells": {}}'),
        ("latin1.json", b'[{"task_id": "\xe9"}]'),
        ("bad.parquet", b"PAR1 and no more PAR1"),
        ("torn.jsonl", json.dumps(CELL).encode() + b"\n{"),
    ],
)
def test_a_file_that_holds_no_cells(jobs: Path, name: str, data: bytes) -> None:
    (jobs.parent / name).write_bytes(data)
    with pytest.raises(UsageError, match=name):
        load_cells(jobs.parent / name, [jobs])


def test_a_missing_file_and_missing_columns(jobs: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: expected a readable file"):
        load_cells(jobs / "none.json", [jobs])
    pl.DataFrame([{"task_id": "a", "attempt": 1}]).write_parquet(jobs / "short.parquet")
    with pytest.raises(UsageError, match="found no reward, passed, artifact_dir"):
        load_cells(jobs / "short.parquet", [jobs])


def test_relative_paths_are_never_taken_under_the_working_directory(
    jobs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    (here / "c__t3").mkdir(parents=True)
    monkeypatch.chdir(here)
    (only,) = load(jobs, cell(artifact_dir="c__t3"))
    assert (only.root, only.name) == (None, "c__t3")


def test_relative_paths_are_taken_under_path_then_next_to_the_file(jobs: Path) -> None:
    (under,) = load(jobs, cell(artifact_dir="a__t1"))
    (beside,) = load(jobs, cell(artifact_dir="jobs/a__t1"))
    (absolute,) = load(jobs, cell(artifact_dir=str(jobs / "a__t1")))
    assert under.root == beside.root == absolute.root == jobs / "a__t1"
    (itself,) = load(jobs, cell(artifact_dir="jobs/a__t1"), paths=[jobs / "a__t1"])
    assert itself.root == jobs / "a__t1"


@pytest.mark.parametrize("artifact_dir", ["other/d__t4", "{}/other/d__t4", "../other/d__t4"])
def test_a_directory_outside_every_path_is_an_error(jobs: Path, artifact_dir: str) -> None:
    (jobs.parent / "other" / "d__t4").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"cell 0 .*expected a directory or file below a PATH"):
        load(jobs, cell(artifact_dir=artifact_dir.format(jobs.parent)))


@pytest.mark.parametrize("artifact_dir", ["gone__x", "/gone/gone__x", "a__t1/result.json/gone__x"])
def test_a_cell_without_its_directory_has_no_root(jobs: Path, artifact_dir: str) -> None:
    (jobs / "a__t1" / "result.json").write_text("{}")
    (only,) = load(jobs, cell(artifact_dir=artifact_dir))
    assert (only.root, only.name) == (None, "gone__x")


def test_a_link_is_not_followed(jobs: Path, tmp_path: Path) -> None:
    (jobs / "link__x").symlink_to(jobs / "a__t1")
    assert [p.root for p in load(jobs, cell(artifact_dir="link__x"))] == [None]
    # a PATH may itself be a link
    alias = tmp_path / "alias"
    alias.symlink_to(jobs)
    (only,) = load(jobs, cell(artifact_dir=str(jobs / "a__t1")), paths=[alias])
    assert only.root is not None
    assert os.path.samefile(only.root, jobs / "a__t1")
    assert only.root.parent == alias


def test_one_name_below_two_paths_is_an_error(jobs: Path) -> None:
    (jobs.parent / "more" / "a__t1").mkdir(parents=True)
    with pytest.raises(UsageError, match="expected one directory or file, found 2"):
        load(jobs, CELL, paths=[jobs, jobs.parent / "more"])
    # one directory by two ways is one
    (only,) = load(jobs, CELL, paths=[jobs, jobs])
    assert only.root == jobs / "a__t1"


@pytest.mark.parametrize(
    ("second", "twice"),
    [
        (cell(attempt=2), True),
        (cell(artifact_dir="jobs/a__t1"), True),
        (cell(artifact_dir="a__t1/"), True),
        (cell(step_name="s1"), False),
        (cell(artifact_dir="b__t2"), False),
    ],
)
def test_the_same_trial_and_step_twice(jobs: Path, second: dict[str, Any], twice: bool) -> None:
    if not twice:
        assert len(load(jobs, CELL, second)) == 2
        return
    with pytest.raises(UsageError, match=r"cell 1 .*expected each trial once.*first in cell 0"):
        load(jobs, CELL, second)
