"""Builds with the caller's cells: their order, their trials, and what a change of one costs."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_readers import counted, failing_later
from pipeline_trials import make_job, make_steps, make_trial, put, result, snapshot

from wmo_distill.errors import UsageError
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.pipeline.reading import Limits
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.trial import read_found


def cell(artifact_dir: str, **changes: Any) -> dict[str, Any]:
    whole = {"task_id": "task", "attempt": 1, "reward": 0.5, "passed": False}
    return {**whole, "artifact_dir": artifact_dir, **changes}


def put_cells(place: Path, *cells: dict[str, Any]) -> Path:
    return put(place / "cells.json", list(cells))


def test_rows_are_in_the_order_of_the_cells(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2", "t3", "t4")
    names = ["t3", "t1", "t4"]
    file = put_cells(tmp_path, *(cell(f"job/{name}", attempt=i) for i, name in enumerate(names, 1)))
    for out, limits in ((tmp_path / "one", Limits()), (tmp_path / "two", Limits(part_trials=2))):
        summary = build_with(read_found, [tmp_path / "job"], out, cells=file, limits=limits)
        balanced(out, summary)
        assert rows(out, "trial_name", "attempt") == [("t3", 1), ("t1", 2), ("t4", 3)]
        assert (summary.found, summary.skipped) == (4, {"no_cell": 1})
        row = ledger(out)["job/t2"]
        assert (row["reasons"], row["trial_id"]) == (["no_cell"], result("t2")["id"])
        before = snapshot(out)
        assert build([job], out, cells=file).read == 0
        assert snapshot(out) == before


def test_the_cells_of_steps_may_be_mixed(tmp_path: Path) -> None:
    for name in ("t1", "t2"):
        make_steps(tmp_path / "job" / name, "a", "b", "c")
    file = put_cells(
        tmp_path,
        cell("job/t2", step_name="b", attempt=4),
        cell("job/t1", step_name="a", attempt=1),
        cell("job/t2", step_name="a", attempt=2),
        cell("job/t1", attempt=3),
    )
    out = tmp_path / "out"
    summary = build_with(
        read_found, [tmp_path / "job"], out, cells=file, limits=Limits(part_trials=1)
    )
    balanced(out, summary)
    assert rows(out, "trial_name", "step_name", "attempt") == [
        ("t2", "b", 4),
        ("t1", "a", 1),
        ("t2", "a", 2),
        ("t2", "c", None),
        ("t1", "b", 3),
        ("t1", "c", 3),
    ]
    assert {path: row["records"] for path, row in ledger(out).items()} == {"job/t1": 3, "job/t2": 3}
    assert summary.calls == summary.calls_found == 12


def test_steps_that_no_cell_grades_follow_their_trial(tmp_path: Path) -> None:
    for name in ("t1", "t2"):
        make_steps(tmp_path / "job" / name, "a", "b")
    file = put_cells(
        tmp_path, cell("job/t2", step_name="b"), cell("job/t1", step_name="a", attempt=2)
    )
    out = tmp_path / "out"
    balanced(out, build([tmp_path / "job"], out, cells=file))
    assert rows(out, "trial_name", "step_name", "attempt") == [
        ("t2", "b", 1), ("t2", "a", None), ("t1", "a", 2), ("t1", "b", None),
    ]  # fmt: skip


def test_a_mixed_trial_that_can_be_read_only_once_costs_no_other(tmp_path: Path) -> None:
    for name in ("t1", "t2"):
        make_steps(tmp_path / "job" / name, "a", "b")
    file = put_cells(
        tmp_path,
        cell("job/t1", step_name="a"),
        cell("job/t2"),
        cell("job/t1", step_name="b"),
    )
    out = tmp_path / "out"
    summary = build_with(failing_later("t1"), [tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert summary.skipped == {"read_failed": 1}
    assert rows(out, "trial_name", "step_name") == [("t2", "a"), ("t2", "b")]


def test_a_cell_without_its_directory_counts_as_found(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1")
    file = put_cells(
        tmp_path,
        cell("job/gone", step_name="b"),
        cell("job/t1"),
        cell("job/gone", step_name="a", reward=1.0),
    )
    out = tmp_path / "out"
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert (summary.found, summary.written) == (2, 2)
    assert rows(out, "trial_name", "step_name", "reward") == [
        ("gone", "b", 0.5),
        ("t1", None, 0.5),
        ("gone", "a", 1.0),
    ]
    row = ledger(out)["gone"]
    assert (row["bytes"], row["mtime_ns"], row["records"]) == (0, 0, 2)
    before = snapshot(out)
    assert build([tmp_path / "job"], out, cells=file).read == 0
    assert snapshot(out) == before
    make_trial(tmp_path / "job" / "gone")
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert ledger(out).keys() == {"job/gone", "job/t1"}
    assert summary.read == 1


def test_a_cell_that_names_no_trial_any_more_takes_its_row_away(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    file = put_cells(tmp_path, cell("job/t1"), cell("job/t2"), cell("job/gone"))
    assert build([tmp_path / "job"], out, cells=file).written == 3
    file = put_cells(tmp_path, cell("job/t1"))
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert (summary.written, summary.skipped, summary.removed) == (1, {"no_cell": 1}, 1)
    assert summary.read == 0


def test_a_directory_that_only_a_cell_calls_a_trial(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1")
    (tmp_path / "job" / "bare").mkdir()
    out = tmp_path / "out"
    file = put_cells(tmp_path, cell("job/bare"), cell("job/t1"))
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert rows(out, "artifact_dir", "reward") == [("job/bare", 0.5), ("job/t1", 0.5)]
    assert summary.issues["result_missing"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"reward": 1.0},
        {"attempt": 2},
        {"passed": None},
        {"task_id": "other"},
        {"note": "n"},
        {"infra_failed": True},
        {"tests": {"passed": 1, "resolved": 2, "unresolved": 0}},
    ],
)
def test_a_trial_whose_cell_differs_is_read_again(tmp_path: Path, changes: dict[str, Any]) -> None:
    make_job(tmp_path / "job", "t1", "t2")
    first, second = cell("job/t1"), cell("job/t2")
    out, once = tmp_path / "out", tmp_path / "once"
    read: list[str] = []

    def run(*cells: dict[str, Any]) -> list[str]:
        read.clear()
        file = put_cells(tmp_path, *cells)
        balanced(out, build_with(counted(read), [tmp_path / "job"], out, cells=file))
        return list(read)

    assert run(first, second) == ["t1", "t2"]
    assert run({**first, **changes}, second) == ["t1"]
    assert run(second, {**first, **changes}) == []
    assert run({**first, "artifact_dir": str(tmp_path / "job" / "t1")}, second) == ["t1"]
    build([tmp_path / "job"], once, cells=tmp_path / "cells.json")
    assert read_manifest(out).dataset_hash == read_manifest(once).dataset_hash


def test_cells_come_and_go(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    file = put_cells(tmp_path, cell("job/t1"))
    build([tmp_path / "job"], out)
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert (summary.written, summary.skipped, summary.read) == (1, {"no_cell": 1}, 1)
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert (summary.written, summary.skipped, summary.read) == (2, {}, 2)
    assert sorted(rows(out, "trial_name", "reward")) == [("t1", 1.0), ("t2", 1.0)]
    assert "cells" not in read_manifest(out).options


def test_a_duplicate_is_decided_among_the_trials_with_cells(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make_trial(tmp_path / "job" / name, id="same")
    out = tmp_path / "out"
    file = put_cells(tmp_path, cell("job/c"), cell("job/b"))
    summary = build([tmp_path / "job"], out, cells=file)
    balanced(out, summary)
    assert summary.skipped == {"duplicate_id": 1, "no_cell": 1}
    assert rows(out, "artifact_dir") == ["job/b"]


def test_a_cell_for_two_trials_of_one_path_is_an_error(tmp_path: Path) -> None:
    trial = make_trial(tmp_path / "job" / "t1")
    file = put_cells(tmp_path, cell(str(trial)), cell("elsewhere/t1"))
    with pytest.raises(UsageError, match="cell 1"):
        build([trial], tmp_path / "out", cells=file)
    assert not (tmp_path / "out").exists()


def test_the_digests_in_the_manifest_are_of_this_dataset(tmp_path: Path) -> None:
    make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([tmp_path / "job"], out, cells=put_cells(tmp_path, cell("job/t1"), cell("job/t2")))
    shutil.rmtree(tmp_path / "job" / "t2")
    build([tmp_path / "job"], out, cells=put_cells(tmp_path, cell("job/t1")))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["options"]["cells"].keys() == {"job/t1"}
