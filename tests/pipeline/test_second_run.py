"""Rules of later runs: many builds give the rows of one, and touch nothing that did not change."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_readers import counted
from pipeline_trials import make_job, make_steps, make_trial, put, result, snapshot, touch

from wmo_distill.options import BuildOptions
from wmo_distill.pipeline.build import build, build_with
from wmo_distill.shards.manifest import read_manifest


def test_a_second_run_without_changes_writes_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    make_trial(job / "t3", id=result("t1")["id"])
    out = tmp_path / "out"
    first = build([job], out)
    before, directory = snapshot(out), out.stat().st_mtime_ns
    second = build([job], out)
    assert snapshot(out) == before
    assert out.stat().st_mtime_ns == directory
    same = set(first.model_dump()) - {"seconds", "read", "bytes_read"}
    assert second.model_dump(include=same) == first.model_dump(include=same)
    assert second.read == 0


def test_only_new_and_changed_trials_are_read(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2", "t3")
    out = tmp_path / "out"
    read: list[str] = []
    reader = counted(read)
    build_with(reader, [job], out)
    assert read == ["t1", "t2", "t3"]
    read.clear()
    make_trial(job / "t4")
    touch(job / "t2" / "result.json")
    old = read_manifest(out).parts[0].file
    summary = build_with(reader, [job], out)
    balanced(out, summary)
    assert read == ["t2", "t4"]
    files = [part.file for part in read_manifest(out).parts]
    assert files == ["parts/part-00001.parquet", "parts/part-00002.parquet"]
    assert rows(out, "trial_name") == ["t1", "t3", "t2", "t4"]
    assert not (out / old).exists()


@pytest.mark.parametrize(
    ("file", "is_read"),
    [
        ("result.json", True),
        ("config.json", True),
        ("agent/trajectory.json", True),
        ("agent/trajectory.cont-1.json", True),
        ("agent/trajectory.summarization-1-summary.json", True),
        ("agent/wmo-run.json", True),
        ("wmo-run.json", True),
        ("verifier/reward.txt", True),
        ("verifier/reward.json", True),
        ("verifier/ctrf.json", True),
        ("steps/a/agent/trajectory.json", True),
        ("steps/a/verifier/ctrf.json", True),
        ("steps/a/b/agent/trajectory.json", True),
        ("steps/agent/agent/trajectory.json", True),
        ("steps/verifier/verifier/reward.txt", True),
        ("steps/a/agent/episode-0/response.json", False),
        ("trial.log", False),
        ("lock.json", False),
        ("agent/terminus_2.pane", False),
        ("verifier/test-stdout.txt", False),
        ("../config.json", False),
        ("../result.json", False),
        ("../../sinks/t1.jsonl", True),
        ("../../sinks/t1/step.jsonl", True),
        ("../../sinks/t2.jsonl", False),
    ],
)
def test_which_files_make_a_trial_changed(tmp_path: Path, file: str, is_read: bool) -> None:
    job = make_job(tmp_path / "job", "t1")
    (tmp_path / "sinks").mkdir()
    options = BuildOptions(sinks=tmp_path / "sinks")
    out = tmp_path / "out"
    place = Path(os.path.normpath(job / "t1" / file))

    def read() -> int:
        return build([job], out, options).read

    assert read() == 1
    if not place.exists():
        put(place, "{}")
        assert read() == is_read
    touch(place, later_ns=60_000_000_000)
    assert read() == is_read
    state = place.stat()
    place.write_text(place.read_text() + " ")
    os.utime(place, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert read() == is_read
    assert read() == 0


def test_the_ledger_holds_the_state_of_the_files(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1")
    files = [job / "t1" / "result.json", put(job / "t1" / "agent" / "trajectory.json", "{}")]
    put(job / "t1" / "trial.log", "x" * 1000)
    out = tmp_path / "out"
    build([job], out)
    (row,) = ledger(out).values()
    assert row["bytes"] == sum(file.stat().st_size for file in files)
    assert row["mtime_ns"] == max(file.stat().st_mtime_ns for file in files)
    assert row["part"] == "parts/part-00000.parquet"
    assert row["records"] == 1


def test_removed_trials(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2", "t3")
    make_steps(job / "t4", "s1", "s2")
    out = tmp_path / "out"
    build([job], out)
    shutil.rmtree(job / "t2")
    kept = build([job], out, keep_removed=True)
    balanced(out, kept)
    assert (kept.found, kept.records, kept.removed, kept.kept_removed) == (4, 5, 0, 1)
    assert "removed" in ledger(out)["job/t2"]["reasons"]
    before = snapshot(out)
    assert build([job], out, keep_removed=True).found == 4
    assert snapshot(out) == before
    gone = build([job], out)
    balanced(out, gone)
    assert (gone.found, gone.records, gone.removed, gone.read) == (3, 4, 1, 0)
    assert "job/t2" not in ledger(out)
    assert rows(out, "trial_name") == ["t1", "t3", "t4", "t4"]
    assert build([job], out).removed == 0


def test_a_removed_trial_that_comes_back_is_not_read_again(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.move(job / "t2", tmp_path / "t2")
    build([job], out, keep_removed=True)
    shutil.move(tmp_path / "t2", job / "t2")
    summary = build([job], out)
    balanced(out, summary)
    assert (summary.read, summary.removed) == (0, 0)
    assert "removed" not in ledger(out)["job/t2"]["reasons"]


def test_a_kept_trial_yields_to_the_directory_it_was_moved_to(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    out = tmp_path / "out"
    build([job], out)
    shutil.move(job / "t1", job / "z1")
    summary = build([job], out, keep_removed=True)
    balanced(out, summary)
    assert summary.skipped == {"duplicate_id": 1}
    assert sorted(rows(out, "artifact_dir")) == ["job/t2", "job/z1"]


def test_trials_under_other_paths_stay_untouched(tmp_path: Path) -> None:
    a, b = make_job(tmp_path / "jobs" / "a", "t1"), make_job(tmp_path / "jobs" / "b", "t2")
    out = tmp_path / "out"
    build([a, b], out)
    touch(b / "t2" / "result.json")
    make_trial(a / "t3")
    summary = build([a], out)
    balanced(out, summary)
    assert (summary.found, summary.read) == (3, 1)
    shutil.rmtree(b)
    assert build([a], out).found == 3
    assert read_manifest(out).inputs == ["a", "b"]


def test_a_path_that_only_begins_like_another_is_another(tmp_path: Path) -> None:
    a, ab = make_job(tmp_path / "jobs" / "a", "t1"), make_job(tmp_path / "jobs" / "ab", "t2")
    out = tmp_path / "out"
    build([a, ab], out)
    shutil.rmtree(ab / "t2")
    assert build([a], out).removed == 0
    assert build([ab], out).removed == 1


def test_an_unlisted_directory_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(tmp_path / "job", "t1")
    make_trial(job / "shut" / "t2")
    out = tmp_path / "out"
    build([job], out)
    before = snapshot(out)
    scandir = os.scandir

    def refuse(path: object) -> object:
        if str(path).endswith("shut"):
            raise OSError(5, "Input/output error", str(path))
        return scandir(path)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "scandir", refuse)
    summary = build([job], out)
    assert (summary.found, summary.removed, summary.unlisted) == (2, 0, ["job/shut"])
    assert snapshot(out) == before


def test_a_result_that_cannot_be_opened_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where it is all there is of a trial, nor where other files show the trial."""
    job = make_job(tmp_path / "job", "t1", "t2", "t3")
    put(job / "t3" / "agent" / "trajectory.json", "{}")
    out = tmp_path / "out"
    build([job], out)
    before = snapshot(out)
    open_file = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith(("t2/result.json", "t3/result.json")):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        summary = build([job], out)
        assert (summary.found, summary.removed, summary.unlisted) == (3, 0, ["job/t2"])
        assert summary.read == 0
        assert snapshot(out) == before
        first = build([job], tmp_path / "first")
        assert (first.found, first.unlisted) == (2, ["job/t2"])
    assert build([job], out).unlisted == []
    assert snapshot(out) == before
