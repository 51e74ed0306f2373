"""Cells that name one episode of a file that holds several: `run/traces.jsonl#id`."""

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_trials import make_trial, put

from wmo_distill import Issue, UsageError, build
from wmo_distill.pipeline.cells import place_at


def traces(file: Path, *names: str) -> Path:
    """A run of `verifiers`: a line a trace, each with one call."""
    node = {"message": {"role": "user", "content": "x"}, "token_ids": [1, 2], "mask": [False] * 2}
    call = {"parent": 0, "sampled": True, "token_ids": [3], "mask": [True], "logprobs": [-0.5]}
    lines = [
        json.dumps({"id": name, "nodes": [node, call], "rewards": {"right": {"score": 1.0}}})
        for name in names
    ]
    return put(file, "\n".join(lines) + "\n")


def cells(place: Path, *names: str) -> Path:
    base: dict[str, Any] = {"task_id": "t", "reward": 0.25, "passed": False}
    listed = [{**base, "attempt": k, "artifact_dir": name} for k, name in enumerate(names, 1)]
    return put(place / "cells.json", listed)


@pytest.mark.parametrize("absolute", [False, True])
def test_a_cell_grades_one_episode_of_a_file(tmp_path: Path, absolute: bool) -> None:
    traces(tmp_path / "runs/a/traces.jsonl", "t1", "t2", "t3")
    make_trial(tmp_path / "runs/h#1/x__1")
    start = f"{tmp_path}/runs/" if absolute else ""
    given = cells(
        tmp_path, f"{start}a/traces.jsonl#t3", f"{start}h#1/x__1", f"{start}a/traces.jsonl#t1"
    )
    out = tmp_path / "out"
    summary = build([tmp_path / "runs"], out, cells=given)
    balanced(out, summary)
    assert rows(out, "artifact_dir", "attempt", "reward") == [
        ("runs/a/traces.jsonl#t3", 1, 0.25),
        ("runs/h#1/x__1", 2, 0.25),
        ("runs/a/traces.jsonl#t1", 3, 0.25),
    ]
    assert summary.skipped == {"no_cell": 1}
    assert ledger(out)["runs/a/traces.jsonl#t2"]["reasons"] == ["no_cell"]
    assert build([tmp_path / "runs"], out, cells=given).read == 0


def test_a_file_of_one_trial_needs_no_id_and_one_of_several_does(tmp_path: Path) -> None:
    traces(tmp_path / "runs/one/traces.jsonl", "t1")
    traces(tmp_path / "runs/two/traces.jsonl", "t2", "t3")
    out = tmp_path / "out"
    build([tmp_path / "runs"], out, cells=cells(tmp_path, "one/traces.jsonl"))
    assert rows(out, "artifact_dir") == ["runs/one/traces.jsonl#t1"]
    given = cells(tmp_path, "two/traces.jsonl")
    with pytest.raises(UsageError, match=r"cell 0 .*one of 2 trials .*traces\.jsonl#t2"):
        build([tmp_path / "runs"], tmp_path / "other", cells=given)


def test_an_episode_that_is_not_there_is_a_row_without_tokens(tmp_path: Path) -> None:
    traces(tmp_path / "runs/traces.jsonl", "t1")
    out = tmp_path / "out"
    given = cells(tmp_path, "traces.jsonl#gone", "traces.jsonl#t1")
    summary = build([tmp_path / "runs"], out, cells=given)
    balanced(out, summary)
    assert summary.issues[Issue.DIRECTORY_MISSING] == 1
    assert rows(out, "trial_name", "n_calls")[0] == ("traces.jsonl#gone", 0)


def test_one_episode_in_two_cells_is_an_error(tmp_path: Path) -> None:
    traces(tmp_path / "runs/traces.jsonl", "t1", "t2")
    given = cells(tmp_path, "traces.jsonl#t1", f"{tmp_path}/runs/traces.jsonl#t1")
    with pytest.raises(UsageError, match=r"each trial once, found 'traces\.jsonl#t1' again"):
        build([tmp_path / "runs"], tmp_path / "out", cells=given)


def test_a_name_is_cut_at_the_first_thing_that_is_there(tmp_path: Path) -> None:
    put(tmp_path / "a#b/f.jsonl", "")
    assert place_at(tmp_path / "a#b/f.jsonl#c#d/e") == (tmp_path / "a#b/f.jsonl", "#c#d/e")
    assert place_at(tmp_path / "a#b") == (tmp_path / "a#b", "")
    assert place_at(tmp_path / "a#c") is None
