"""Which rollout row a capture of NeMo Gym belongs to, and what a row says of its own."""

import shutil
from pathlib import Path

from tests.sources.test_nemo_gym import RUNS, calls_of, expected, kept, only, read
from wmo_distill import (
    build,
    iter_records,
    verify,
)
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, SpanSource


def test_a_capture_that_grew_is_read_again(bank: Path, tmp_path: Path) -> None:
    run = bank / "multi"
    capture = run / "token_capture/0-0.tokens.jsonl"
    lines = capture.read_bytes().splitlines(keepends=True)
    capture.write_bytes(b"".join(lines[:2]) + lines[2][:100])
    out = tmp_path / "out"
    build([run], out, workers=1)
    (record,) = iter_records(out)
    assert len(record.spans) == 2
    assert record.issues.count(Issue.RECORD_UNREADABLE) == 1
    assert record.completeness is Completeness.INCOMPLETE
    capture.write_bytes(b"".join(lines))
    assert build([run], out, workers=1).read == 1
    (record,) = iter_records(out)
    assert calls_of(record) == kept(expected("multi")["0-0"])
    assert record.issues == ()
    assert verify(out) == []


def test_rows_that_come_after_the_capture(bank: Path, tmp_path: Path) -> None:
    run, out = bank / "lost", tmp_path / "out"
    rows = (run / "rollouts.jsonl").read_bytes()
    (run / "rollouts.jsonl").unlink()
    build([run], out, workers=1)
    (before,) = iter_records(out)
    assert (before.reward, before.reward_valid) == (None, None)
    (run / "rollouts.jsonl").write_bytes(rows)
    build([run], out, workers=1, keep_removed=True)
    (after,) = iter_records(out)
    assert (after.trial_id, after.reward) == (before.trial_id, 1.0)
    assert calls_of(after) == calls_of(before)
    assert verify(out) == []


def test_a_capture_in_a_directory_next_to_its_rows(bank: Path) -> None:
    run = bank / "lost"
    (run / "results").mkdir()
    (run / "rollouts.jsonl").rename(run / "results/rollouts.jsonl")
    record = only(run)
    assert (record.reward, record.span_source) == (1.0, SpanSource.CAPTURE)
    assert record.artifact_dir == "lost/results/rollouts.jsonl#0-0"


def test_a_capture_two_levels_below_its_rows(bank: Path) -> None:
    run = bank / "lost"
    (run / "node").mkdir()
    (run / "token_capture").rename(run / "node/token_capture")
    record = only(run)
    assert (record.reward, record.trial_id) == (1.0, "lost/node/token_capture#0-0")


def test_a_capture_belongs_to_the_nearest_rows(bank: Path) -> None:
    (bank / "rollouts.jsonl").write_bytes((bank / "lost/rollouts.jsonl").read_bytes())
    records = [r for trial in read(bank).values() for r in trial.records]
    joined = {r.artifact_dir: r for r in records}
    assert joined["bank/lost/rollouts.jsonl#0-0"].span_source is SpanSource.CAPTURE
    assert joined["bank/rollouts.jsonl#0-0"].span_source is SpanSource.RESULT
    assert len(records) == sum(len(expected(run)) for run in RUNS) + 1


def test_two_captures_equally_near_are_joined_with_no_row(bank: Path) -> None:
    run = bank / "lost"
    shutil.copytree(run / "token_capture", run / "other")
    records = [r for trial in read(run).values() for r in trial.records]
    assert [(r.reward, r.span_source) for r in records] == [
        (None, SpanSource.CAPTURE), (1.0, SpanSource.RESULT), (None, SpanSource.CAPTURE)
    ]  # fmt: skip


def test_nothing_outside_the_paths_is_looked_at(bank: Path) -> None:
    record = only(bank / "lost/token_capture")
    assert (record.reward, record.trial_id) == (None, "token_capture#0-0")


def test_of_two_rows_of_one_rollout_the_last_has_the_capture(bank: Path) -> None:
    rows = bank / "kept-evidence/rollouts.jsonl"
    line = rows.read_bytes()
    rows.write_bytes(line.replace(b'"reward":1.0', b'"reward":0.0') + line)
    records = [r for trial in read(bank / "kept-evidence").values() for r in trial.records]
    assert [(r.reward, len(r.spans)) for r in records] == [(0.0, 0), (1.0, 3)]
    assert len({r.trial_id for r in records}) == 2


def test_a_row_alone_says_what_its_recorder_left_out(bank: Path) -> None:
    shutil.rmtree(bank / "retry/token_capture")
    records = {r.trial_name: r for t in read(bank / "retry").values() for r in t.records}
    assert records["0-0"].issues == (Issue.DROPPED_BY_RECORDER,)
    assert records["0-0"].completeness is Completeness.SILENT
    assert records["0-1"].completeness is Completeness.INCOMPLETE  # masked
    trials = read(bank / "retry")
    assert sum(trial.calls_found for trial in trials.values()) == 7


def test_a_row_of_another_run_keeps_its_own_tokens(bank: Path) -> None:
    shutil.copy(bank / "group/rollouts.jsonl", bank / "lost/rollouts.jsonl")
    text = (bank / "lost/rollouts.jsonl").read_text()
    (bank / "lost/rollouts.jsonl").write_text(
        text.replace('"_ng_task_index":4', '"_ng_task_index":0')
    )
    records = {r.trial_name: r for t in read(bank / "lost").values() for r in t.records}
    assert calls_of(records["0-0"]) == kept(expected("group")["4-0"])
    assert Issue.CAPTURE_CONFLICT in records["0-0"].issues
