"""What a person sees of files that the system does not give, and what the next build does."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline_datasets import balanced, ledger, rows
from pipeline_trials import make_job, make_trial, put, result, touch
from typer.testing import CliRunner

from wmo_distill import load_trial_rollout_spans, load_trial_spans, read_trial
from wmo_distill.cli.app import app
from wmo_distill.disk import PATIENCE
from wmo_distill.doctor.diagnose import diagnose
from wmo_distill.errors import DistillError
from wmo_distill.exporters.messages import export_messages
from wmo_distill.pipeline.build import build

Closing = Callable[..., Any]


@pytest.fixture
def closed(monkeypatch: pytest.MonkeyPatch) -> Closing:
    """Closes files whose path ends so, until it is given none."""
    ends: list[str] = []
    codes = [errno.EACCES]
    monkeypatch.setattr(PATIENCE, "left", 0.0)
    for name in ("open", "scandir"):
        real = getattr(os, name)

        def ask(path: Any, *args: Any, real: Any = real, **options: Any) -> Any:
            if str(path).endswith(tuple(ends)):
                raise OSError(codes[0], os.strerror(codes[0]), str(path))
            return real(path, *args, **options)

        monkeypatch.setattr(os, name, ask)

    def close(*paths: str, code: int = errno.EACCES) -> None:
        ends[:], codes[0] = paths, code

    return close


def test_the_command_reports_what_it_could_not_read(tmp_path: Path, closed: Closing) -> None:
    job, out = make_job(tmp_path / "job", "t1", "t2"), tmp_path / "out"
    make_trial(job / "shut" / "t3")
    put(job / "t1" / "agent" / "trajectory.json", "{}")
    closed("t1/result.json", "job/shut", code=errno.EIO)
    run = CliRunner().invoke(app, ["build", str(job), "-o", str(out), "--quiet", "--strict"])
    assert run.exit_code == 3
    said = "expected to read what is there, found EIO (Input/output error)"
    lines = run.stderr.splitlines()
    assert lines[:2] == [
        f"wmo-distill: job/shut: {job}/shut: {said}",
        f"wmo-distill: job/t1: {job}/t1/result.json: {said}",
    ]
    assert "is read in the next build" in lines[2]
    run = CliRunner().invoke(app, ["build", str(job), "-o", str(out), "--json"])
    assert run.exit_code == 0
    summary = json.loads(run.stdout)
    assert (summary["found"], summary["written"], summary["skipped"]) == (2, 1, {"io_error": 1})
    assert (summary["unread"], summary["unlisted"]) == (2, ["job/shut"])
    assert list(summary["errors"]) == ["job/shut", "job/t1"]
    closed()
    run = CliRunner().invoke(app, ["build", str(job), "-o", str(out), "--quiet"])
    assert (run.stderr, sorted(rows(out, "trial_name"))) == ("", ["t1", "t2", "t3"])


def test_many_faults_are_counted(tmp_path: Path, closed: Closing) -> None:
    job = make_job(tmp_path / "job", "ok", *(f"t{n:02}" for n in range(30)))
    for n in range(30):
        put(job / f"t{n:02}" / "agent" / "trajectory.json", "{}")
    closed(*(f"t{n:02}/result.json" for n in range(30)))
    run = CliRunner().invoke(app, ["build", str(job), "-o", str(tmp_path / "out"), "--quiet"])
    assert "10 more like these" in run.stderr
    assert len(run.stderr.splitlines()) == 22


def test_a_changed_trial_keeps_its_row_and_is_marked(tmp_path: Path, closed: Closing) -> None:
    job, out = make_job(tmp_path / "job", "t1", "t2"), tmp_path / "out"
    put(job / "t1" / "config.json", {"trial_name": "t1"})
    build([job], out)
    put(job / "t1" / "result.json", result("t1", verifier_result={"rewards": {"reward": 0.0}}))
    touch(job / "t1" / "result.json")
    closed("t1/result.json")
    summary = build([job], out)
    balanced(out, summary)
    assert rows(out, "trial_name", "reward") == [("t1", 1.0), ("t2", 1.0)]
    assert (summary.written, summary.unread) == (2, 1)
    assert "io_error" in ledger(out)["job/t1"]["reasons"]
    closed()
    # Whatever size and time say now.
    state = (job / "t1" / "result.json").stat()
    os.utime(job / "t1" / "result.json", ns=(state.st_atime_ns, state.st_mtime_ns - 10**9))
    summary = build([job], out)
    assert sorted(rows(out, "trial_name", "reward")) == [("t1", 0.0), ("t2", 1.0)]
    assert (summary.read, summary.unread) == (1, 0)
    assert "io_error" not in ledger(out)["job/t1"]["reasons"]


@pytest.mark.parametrize("file", ["config.json", "result.json"])
def test_the_files_of_a_job(tmp_path: Path, closed: Closing, file: str) -> None:
    """`job` and `group_expected` of its trials are not known without them."""
    job, out = make_job(tmp_path / "job", "t1", "t2"), tmp_path / "out"
    closed(f"job/{file}")
    first = build([job], out)
    if file == "result.json":  # the config says all
        assert (first.written, first.unread) == (2, 0)
    else:
        assert (first.skipped, list(first.errors)) == ({"io_error": 2}, ["job/t1", "job/t2"])
    closed()
    build([job], out)
    expected = [("job", 2), ("job", 2)]
    assert rows(out, "job", "group_expected") == expected
    touch(job / "t1" / "result.json")
    closed(f"job/{file}")
    build([job], out)
    assert rows(out, "job", "group_expected") == expected
    closed()
    balanced(out, build([job], out))
    assert rows(out, "job", "group_expected") == expected


def test_an_id_that_could_not_be_read_makes_no_duplicate(tmp_path: Path, closed: Closing) -> None:
    a, b = make_job(tmp_path / "jobs" / "a"), make_job(tmp_path / "jobs" / "b")
    make_trial(a / "t1", id="same")
    make_trial(b / "t1", id="same")
    put(b / "t1" / "agent" / "trajectory.json", "{}")
    put(a / "t1" / "agent" / "trajectory.json", "{}")
    out = tmp_path / "out"
    for shut, written in (("b/t1/agent/trajectory.json", "a"), ("a/t1/result.json", "b")):
        closed(shut)
        summary = build([tmp_path / "jobs"], out, fresh=True)
        assert rows(out, "artifact_dir") == [f"jobs/{written}/t1"]
        balanced(out, summary)
        closed()
        summary = build([tmp_path / "jobs"], out)
        assert rows(out, "artifact_dir") == ["jobs/a/t1"]
        assert summary.skipped == {"duplicate_id": 1}
        balanced(out, summary)


def test_doctor_reports_and_counts_what_is_left(tmp_path: Path, closed: Closing) -> None:
    job = make_job(tmp_path / "job", "t1", "t2")
    put(job / "t1" / "config.json", {"trial_name": "t1"})
    closed("t1/config.json")
    found = diagnose([job])
    assert (found.trials, list(found.unread), found.sample.trials) == (2, ["job/t1"], 1)
    run = CliRunner().invoke(app, ["doctor", str(job)])
    assert "job/t1/config.json: expected to read what is there, found EACCES" in run.stderr


def test_the_library_says_what_it_could_not_read(tmp_path: Path, closed: Closing) -> None:
    trial = make_trial(tmp_path / "t1")
    put(tmp_path / "t1.jsonl", "")
    closed("result.json", "t1.jsonl", code=errno.ESTALE)
    for read in (
        lambda: read_trial(trial),
        lambda: load_trial_rollout_spans(trial),
        lambda: load_trial_spans(tmp_path, "t1"),
    ):
        with pytest.raises(DistillError, match="ESTALE"):
            read()


def test_an_export_of_chats_counts_what_it_could_not_read(tmp_path: Path, closed: Closing) -> None:
    job, out = make_job(tmp_path / "job", "t1", "t2"), tmp_path / "out"
    put(job / "t1" / "agent" / "trajectory.json", "{}")
    build([job], out)
    closed("trajectory.json")
    summary = export_messages(out, tmp_path / "chats")
    assert summary.refused == {"io_error": 1, "trajectory_missing": 1}
