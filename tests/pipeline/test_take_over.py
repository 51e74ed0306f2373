"""Duplicates below no PATH of a run: left alone, or taking over where their id has no row."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import SMALL, balanced, ledger, rows
from pipeline_readers import dying, raising
from pipeline_trials import make_job, make_trial, put, result, snapshot

from wmo_distill.pipeline.build import Summary, build, build_with
from wmo_distill.trial import read_found


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Three jobs; the trial t1 of a and of b have one id."""
    for name in "abc":
        make_job(tmp_path / "jobs" / name)
    make_trial(tmp_path / "jobs" / "a" / "t1", id="same")
    make_trial(tmp_path / "jobs" / "b" / "t1", id="same")
    return tmp_path / "jobs"


def run(jobs: Path, *names: str, **options: Any) -> Summary:
    out = jobs.parent / "out"
    summary = build([jobs / name for name in names], out, **options)
    balanced(out, summary)
    return summary


def written(jobs: Path) -> dict[str, str]:
    pairs: list[tuple[str, str]] = rows(jobs.parent / "out", "artifact_dir", "trial_id")
    return dict(pairs)


def reasons(jobs: Path, path: str) -> list[str]:
    found: list[str] = ledger(jobs.parent / "out")[path]["reasons"]
    return found


def test_a_duplicate_with_a_new_id_is_read_when_its_job_is_built(jobs: Path) -> None:
    run(jobs, "a", "b", "c")
    before = ledger(jobs.parent / "out")
    make_trial(jobs / "b" / "t1", id="new")
    assert run(jobs, "a").read == 0
    assert ledger(jobs.parent / "out") == before  # below no PATH: as it was
    summary = run(jobs, "a", "b")
    assert (summary.read, summary.skipped) == (1, {})
    assert written(jobs) == {"a/t1": "same", "b/t1": "new"}


def test_one_that_has_another_id_by_now_takes_over_nothing(jobs: Path) -> None:
    make_trial(jobs / "c" / "t2", id="same")
    run(jobs, "a", "b", "c")
    make_trial(jobs / "b" / "t1", id="new")
    shutil.rmtree(jobs / "a" / "t1")
    # b/t1 is asked first, and turns out to be another trial; then c/t2 is read.
    assert run(jobs, "a").read == 2
    assert written(jobs) == {"b/t1": "new", "c/t2": "same"}


def test_one_that_is_gone_too_is_said_to_be(jobs: Path) -> None:
    run(jobs, "a", "b", "c")
    shutil.move(jobs / "b" / "t1", jobs.parent / "t1")
    shutil.rmtree(jobs / "a" / "t1")
    summary = run(jobs, "a")
    assert (summary.found, summary.skipped) == (1, {"duplicate_id": 1})
    assert reasons(jobs, "b/t1") == ["duplicate_id", "removed"]
    before = snapshot(jobs.parent / "out")
    run(jobs, "a")
    assert snapshot(jobs.parent / "out") == before
    shutil.move(jobs.parent / "t1", jobs / "b" / "t1")
    run(jobs, "c")
    assert written(jobs) == {"b/t1": "same"}


def test_one_that_is_no_trial_any_more_gets_no_row(jobs: Path) -> None:
    run(jobs, "a", "b", "c")
    shutil.rmtree(jobs / "b" / "t1")
    make_job(jobs / "b" / "t1", "inner")
    shutil.rmtree(jobs / "a" / "t1")
    assert run(jobs, "a").read == 0
    assert written(jobs) == {}
    run(jobs, "a", "b")
    assert ledger(jobs.parent / "out").keys() == {"b/t1/inner"}


def test_one_below_what_is_a_trial_now_is_not_found(jobs: Path) -> None:
    run(jobs, "a", "b", "c")
    make_trial(jobs / "b", id="whole")
    shutil.rmtree(jobs / "a" / "t1")
    assert run(jobs, "a").read == 0
    run(jobs, "a", "b")
    assert written(jobs) == {"b": "whole"}


def test_a_link_in_its_place_is_not_followed(jobs: Path) -> None:
    run(jobs, "a", "b", "c")
    shutil.move(jobs / "b" / "t1", jobs.parent / "outside")
    (jobs / "b" / "t1").symlink_to(jobs.parent / "outside")
    shutil.rmtree(jobs / "a" / "t1")
    assert run(jobs, "a").read == 0
    assert written(jobs) == {}


def test_a_path_that_is_a_link_is_followed_as_before(jobs: Path) -> None:
    (jobs / "d").symlink_to(jobs / "b")
    run(jobs, "a", "c", "d")
    shutil.rmtree(jobs / "a" / "t1")
    run(jobs, "a")
    assert written(jobs) == {"d/t1": "same"}


def test_a_name_that_is_no_utf_8(jobs: Path) -> None:
    for name in (b"\xff", b"\\xff"):
        os.rename(jobs / "b" / "t1", os.fsencode(jobs / "b") + b"/" + name)
        run(jobs, "a", "b", "c", fresh=True)
        shutil.move(jobs / "a" / "t1", jobs.parent / "t1")
        assert run(jobs, "a").read == 1
        (path,) = written(jobs)
        assert path.startswith("b/\\x")
        shutil.move(jobs.parent / "t1", jobs / "a" / "t1")
        os.rename(os.fsencode(jobs / "b") + b"/" + name, jobs / "b" / "t1")


def test_one_that_a_cell_graded_waits_for_its_cell(jobs: Path) -> None:
    cells = [
        {"task_id": "t", "attempt": 1, "reward": 0.5, "passed": False, "artifact_dir": place}
        for place in (str(jobs / "a" / "t1"), str(jobs / "b" / "t1"))
    ]
    file = put(jobs.parent / "cells.json", cells)
    run(jobs, "a", "b", "c", cells=file)
    shutil.rmtree(jobs / "a" / "t1")
    run(jobs, "a")
    assert reasons(jobs, "b/t1") == ["duplicate_id", "no_cell"]
    run(jobs, "a", "b", cells=put(jobs.parent / "cells.json", cells[1:]))
    assert rows(jobs.parent / "out", "artifact_dir", "reward") == [("b/t1", 0.5)]


def test_a_kept_trial_yields_to_one_that_is_there(jobs: Path) -> None:
    """Whichever PATHs are given, then or later."""
    shutil.rmtree(jobs / "b" / "t1")
    run(jobs, "a", "b", "c")
    shutil.rmtree(jobs / "a" / "t1")
    run(jobs, "a", keep_removed=True)
    assert written(jobs) == {"a/t1": "same"}
    make_trial(jobs / "c" / "t2", id="same")
    run(jobs, "c")
    assert written(jobs) == {"c/t2": "same"}
    run(jobs, "a", "c", keep_removed=True)
    before = snapshot(jobs.parent / "out")
    run(jobs, "a", "c", keep_removed=True)
    assert snapshot(jobs.parent / "out") == before
    assert reasons(jobs, "a/t1") == ["duplicate_id", "removed"]


def test_a_trial_that_changed_while_it_was_read_is_read_again_as_a_duplicate_too(
    tmp_path: Path,
) -> None:
    """The ledger's state is not that of the files that the id was read from."""
    job = make_job(tmp_path / "job")
    trial = make_trial(job / "t2", id="first")
    state = (trial / "result.json").stat()
    put(trial / "change-once", result("t2", id="later"))
    out = tmp_path / "out"
    build_with(raising, [job], out)
    assert rows(out, "trial_id") == ["later"]
    make_trial(job / "t1", id="later")
    # Back to what was there when the build began, its time included.
    make_trial(trial, id="first")
    os.utime(trial / "result.json", ns=(state.st_atime_ns, state.st_mtime_ns))
    summary = build([job], out)
    balanced(out, summary)
    assert rows(out, "artifact_dir", "trial_id") == [("job/t1", "later"), ("job/t2", "first")]


def test_a_trial_that_kills_its_worker_holds_no_id(tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "t0")
    make_trial(job / "t1-kills", id="same")
    make_trial(job / "t2", id="same")
    out, once = tmp_path / "out", tmp_path / "once"
    for _ in range(2):
        summary = build_with(dying, [job], out, workers=2, limits=SMALL)
        balanced(out, summary)
        assert summary.skipped == {"worker_died": 1}
        assert sorted(rows(out, "trial_name")) == ["t0", "t2"]
    balanced(out, build_with(read_found, [job], out))
    build([job], once)
    told = [{p: (r["outcome"], r["trial_id"]) for p, r in ledger(o).items()} for o in (out, once)]
    assert told[0] == told[1]


def test_a_file_that_could_not_be_opened_is_read_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its size nor its time changes where somebody is given the right to read it."""
    job = make_job(tmp_path / "job", "t1", "t2")
    put(job / "t1" / "config.json", {"trial_name": "t1"})
    out = tmp_path / "out"
    open_file = os.open

    def refuse(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(path).endswith("t1/result.json"):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        first = build([job], out)
        balanced(out, first)
        assert rows(out, "trial_id") == [result("t2")["id"]]
        assert (first.skipped, list(first.errors)) == ({"io_error": 1}, ["job/t1"])
        before = snapshot(out)
        assert build([job], out).read == 0
        assert snapshot(out) == before
    summary = build([job], out)
    balanced(out, summary)
    assert summary.read == 1
    assert sorted(rows(out, "trial_name", "trial_id")) == [
        (name, result(name)["id"]) for name in ("t1", "t2")
    ]
    before = snapshot(out)
    with monkeypatch.context() as patch:  # and what was read once is not lost again
        patch.setattr(os, "open", refuse)
        again = build([job], out)
        assert (again.read, again.unread, list(again.errors)) == (0, 1, ["job/t1"])
    assert snapshot(out) == before
