"""Rules of later runs for trials with one id, and for sinks that are found by a directory."""

import json
import shutil
from pathlib import Path

import pytest
from pipeline_datasets import balanced, rows
from pipeline_trials import make_job, make_trial, put, result

from wmo_distill.options import BuildOptions
from wmo_distill.pipeline import comparison
from wmo_distill.pipeline.build import build
from wmo_distill.sources.base import FoundTrial
from wmo_distill.trial import read_identity


def test_a_duplicate_takes_over_where_the_first_is_gone(tmp_path: Path) -> None:
    a, b = make_job(tmp_path / "jobs" / "a"), make_job(tmp_path / "jobs" / "b")
    make_trial(a / "t1", id="same")
    make_trial(b / "t1", id="same")
    out = tmp_path / "out"
    assert build([a, b], out).skipped == {"duplicate_id": 1}
    shutil.rmtree(a / "t1")
    summary = build([a], out)  # b is under no PATH of this run
    balanced(out, summary)
    assert (summary.written, summary.removed) == (1, 1)
    assert rows(out, "artifact_dir") == ["b/t1"]


def test_an_unchanged_duplicate_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "job")
    for name in ("t1", "t2"):
        make_trial(job / name, id="same")
    out = tmp_path / "out"
    build([job], out)
    read: list[Path] = []

    def noted(found: FoundTrial) -> tuple[str | None, str]:
        read.append(found.root)
        return read_identity(found)

    monkeypatch.setattr(comparison, "read_identity", noted)
    assert build([job], out).read == 0
    assert read == []
    make_trial(job / "t3", id="same")
    assert build([job], out).skipped == {"duplicate_id": 2}
    assert read == [job / "t3"]
    make_trial(job / "t2", id="another")
    assert build([job], out).skipped == {"duplicate_id": 1}
    assert rows(out, "trial_id") == ["same", "another"]


def test_a_new_trial_that_sorts_first_takes_the_id(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "m2")
    make_trial(job / "m1", id="same")
    out = tmp_path / "out"
    build([job], out)
    make_trial(job / "a", id="same")
    summary = build([job], out)
    balanced(out, summary)
    assert summary.read == 1
    assert sorted(rows(out, "artifact_dir")) == ["job/a", "job/m2"]


def test_a_sink_that_is_found_by_the_directory_is_watched(tmp_path: Path) -> None:
    """The head of a torn result names the trial, and nothing that can be read does."""
    job = make_job(tmp_path / "job")
    text = json.dumps(result("named"))
    put(job / "dir" / "result.json", text[: text.index('"agent_result"')])
    sink = put(tmp_path / "sinks" / "dir.jsonl", "")
    options = BuildOptions(sinks=tmp_path / "sinks")
    out = tmp_path / "out"
    assert build([job], out, options).read == 1
    line = {"call_index": 0, "prompt_token_ids": [1], "sampled_token_ids": [2]}
    sink.write_text(json.dumps(line) + "\n")
    summary = build([job], out, options)
    assert (summary.read, summary.tokens.output) == (1, 1)
    assert build([job], out, options).read == 0
