"""Rules of one build for trials with one id: one row, from the path that sorts first."""

import json
from pathlib import Path

import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_trials import make_trial, put

from wmo_distill.pipeline.build import build, build_with
from wmo_distill.shards.manifest import read_manifest
from wmo_distill.trial import read_found


def test_one_id_is_written_once_from_the_first_path(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        make_trial(tmp_path / "job" / name, id="same")
    out = tmp_path / "out"
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert (summary.found, summary.written, summary.skipped) == (3, 1, {"duplicate_id": 2})
    assert rows(out, "artifact_dir") == ["job/a"]
    row = ledger(out)["job/b"]
    assert (row["outcome"], row["reasons"], row["part"]) == ("skipped", ["duplicate_id"], None)
    assert row["trial_id"] == "same"


@pytest.mark.parametrize(
    "first",
    [
        '{"id": "same", "trial_name": "a", "agent_result": {"roll',
        '{"id": "same", "trial_name": "a", "id": "other"}',
        '{"id": "same", "trial_name": "a", "id": 5}',
    ],
)
def test_an_id_that_only_the_head_shows_takes_no_row_away(tmp_path: Path, first: str) -> None:
    put(tmp_path / "job" / "a" / "result.json", first)
    make_trial(tmp_path / "job" / "b", id="same")
    make_trial(tmp_path / "job" / "c", id="c")
    out = tmp_path / "out"
    summary = build([tmp_path / "job"], out)
    balanced(out, summary)
    assert summary.skipped == {}
    assert rows(out, "artifact_dir") == ["job/a", "job/b", "job/c"]


def test_ids_that_no_head_shows(tmp_path: Path) -> None:
    for name in ("a", "b"):
        text = json.dumps({"trial_name": name, "padding": "p" * 70_000, "id": "same"})
        put(tmp_path / "job" / name / "result.json", text)
    out = tmp_path / "out"
    summary = build_with(read_found, [tmp_path / "job"], out)
    balanced(out, summary)
    assert rows(out, "artifact_dir") == ["job/a"]
    assert [part.file for part in read_manifest(out).parts] == ["parts/part-00000.parquet"]
