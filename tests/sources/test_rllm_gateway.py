"""The source `rllm_gateway`, on stores that rLLM's gateway wrote and on damaged copies."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.effort import examples
from tests.sources.recorder_bank import (
    BANK,
    DAMAGE,
    Damage,
    check,
    check_damaged,
    copied,
    damaged,
    read_all,
    runs,
    sampled,
)
from wmo_distill import build, build_datum_shards, export_datums, verify
from wmo_distill.datums.experts import call_experts
from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.shards.manifest import read_manifest

RLLM = BANK / "rllm-gateway"
STORE = "gateway_traces.db"


@pytest.mark.parametrize("run", runs("rllm-gateway"), ids=lambda run: run.name)
def test_what_was_sampled_is_read(run: Path, tmp_path: Path) -> None:
    records = check(run, tmp_path)
    assert {record.format for record in records} == {"rllm_gateway"}
    assert {(r.reward, r.stop_reason, r.job) for r in records} == {(None, "unknown", run.name)}


def test_sessions_named_by_task_are_groups(tmp_path: Path) -> None:
    records = _read(copied(RLLM / "wheel-group", tmp_path / "run"))
    assert [(r.task_id, r.attempt) for r in records] == [("task-5", k) for k in range(3)]
    assert len({record.group_id for record in records}) == 1


def test_one_session_of_another_name_unmakes_the_groups(tmp_path: Path) -> None:
    folder = _edited(RLLM / "wheel-group", tmp_path)
    _execute(folder, "UPDATE trace_sessions SET session_id = 'free' WHERE session_id LIKE '%:2'")
    records = _read(folder)
    assert {record.task_id for record in records} == {None}
    assert len({record.group_id for record in records}) == 3


def test_a_session_name_in_two_runs_is_two_sessions(tmp_path: Path) -> None:
    folder = _edited(RLLM / "wheel-group", tmp_path)
    _execute(folder, "ALTER TABLE trace_sessions ADD COLUMN run_id TEXT NOT NULL DEFAULT 'a'")
    _execute(folder, "UPDATE trace_sessions SET run_id = 'b' WHERE session_id LIKE '%:2'")
    _execute(folder, "UPDATE trace_sessions SET session_id = 'task-5:1' WHERE run_id = 'b'")
    records = _read(folder)
    names = ["task-5:0@a", "task-5:1@a", "task-5:1@b"]
    assert [record.trial_name for record in records] == names
    assert [len(record.spans) for record in records] == [3, 2, 3]
    assert len({record.group_id for record in records}) == 2


def test_log_probabilities_that_lost_a_null_are_recovered(tmp_path: Path) -> None:
    (record,) = _read(copied(RLLM / "git-logprobs", tmp_path / "run"))
    assert Issue.LOGPROBS_FROM_RAW_RESPONSE in record.issues
    assert record.issues.count(Issue.LOGPROB_NOT_FINITE) == 1

    def without(trace: dict[str, Any]) -> None:
        trace["raw_response"] = None

    (record,) = _read(_edited(RLLM / "git-logprobs", tmp_path, without))
    assert Issue.LOGPROBS_LENGTH in record.issues
    assert record.spans[1].sampled_logprobs is None


def test_experts_cover_all_tokens_but_the_last(tmp_path: Path) -> None:
    (record,) = _read(copied(RLLM / "git-experts", tmp_path / "run"))
    expected = sampled(RLLM / "git-experts")
    for call, span in zip(expected, record.spans, strict=True):
        experts = call_experts(span)
        assert experts is not None
        assert list(experts.shape) == call.call["experts_shape"]


def test_calls_are_in_order_of_time(tmp_path: Path) -> None:
    folder = _edited(RLLM / "git-version", tmp_path)
    # Tasks in the background write the last call first.
    _execute(folder, "UPDATE traces SET rowid = 100 - rowid")
    _execute(folder, "UPDATE trace_sessions SET rowid = 100 - rowid")
    (record,) = _read(folder)
    assert [v for s in record.spans for v, _ in s.versions or ()] == ["7", "7", "8"]
    assert record.completeness == "silent"


def test_a_broken_stream_is_not_what_the_agent_went_on_from(tmp_path: Path) -> None:
    def broken(trace: dict[str, Any]) -> None:
        if trace["timestamp"] > last:
            trace.update(finish_reason=None, raw_response=None)

    last = 1790000003.5
    (record,) = _read(_edited(RLLM / "git-retry", tmp_path, broken))
    (span,) = [s for s in record.spans if s.finish_reason is None]
    assert span.used is False
    assert Issue.AMBIGUOUS_LAST_CALL not in record.issues


def test_a_layout_without_whole_prompts_is_named(tmp_path: Path) -> None:
    def compact(trace: dict[str, Any]) -> None:
        if trace["timestamp"] > 1790000001:
            suffix = trace.pop("prompt_token_ids")[-5:]
            trace.update(parent_trace_id="a", prompt_ids_suffix=suffix, completion_token_ids=[])

    (record,) = _read(_edited(RLLM / "git-version", tmp_path, compact))
    assert record.issues.count(Issue.LAYOUT_UNKNOWN) == 2
    assert record.completeness == "incomplete"
    assert len(record.spans) == 1


def test_calls_without_a_session_are_chats_of_no_group(tmp_path: Path) -> None:
    folder = _edited(RLLM / "wheel-group", tmp_path)
    _execute(folder, "DELETE FROM trace_sessions")
    records = _read(folder)
    assert [len(record.spans) for record in records] == [3, 2, 3]
    assert len({record.group_id for record in records}) == 3
    assert all(Issue.NO_COORDINATES in record.issues for record in records)


def test_a_trace_that_a_session_names_and_is_gone_is_lost(tmp_path: Path) -> None:
    folder = _edited(RLLM / "git-version", tmp_path)
    _execute(folder, "DELETE FROM traces WHERE rowid = 3")
    (record,) = _read(folder)
    assert record.issues == (Issue.CALL_LOST,)
    assert record.completeness == "incomplete"


def test_a_store_that_grew_is_read_again(tmp_path: Path) -> None:
    folder = _edited(RLLM / "wheel-group", tmp_path)
    whole = (folder / STORE).read_bytes()
    _execute(folder, "DELETE FROM trace_sessions WHERE session_id LIKE '%:2'")
    _execute(
        folder, "DELETE FROM traces WHERE trace_id NOT IN (SELECT trace_id FROM trace_sessions)"
    )
    out = tmp_path / "out"
    assert build([folder], out, workers=1).calls == 5
    (folder / STORE).write_bytes(whole)
    grown = build([folder], out, workers=1)
    assert (grown.calls, grown.read) == (8, 1)
    build([folder], tmp_path / "again", workers=1)
    assert read_manifest(out).dataset_hash == read_manifest(tmp_path / "again").dataset_hash
    assert verify(out) == []
    assert build([folder], out, workers=1).read == 0


def test_messages_are_no_sampling(tmp_path: Path) -> None:
    """Every request repeats them, so they differ between calls."""
    folder = _edited(RLLM / "git-version", tmp_path)
    requests = "json_object('messages', json_array(rowid), 'headers', rowid, 'seed', rowid)"
    _execute(folder, f"UPDATE traces SET data = json_set(data, '$.raw_request', {requests})")
    (record,) = _read(folder)
    assert [json.loads(span.sampling or "") for span in record.spans] == [
        {"seed": number} for number in range(1, len(record.spans) + 1)
    ]


@pytest.mark.parametrize("asked", [[0], [[1]], ["x"]], ids=str)
def test_a_list_among_the_arguments_of_a_request_is_no_token_list(
    asked: list[object], tmp_path: Path
) -> None:
    folder = _edited(RLLM / "git-version", tmp_path)
    request = f"json('{json.dumps({'logprobs': asked})}')"
    _execute(folder, f"UPDATE traces SET data = json_set(data, '$.raw_request', {request})")
    (record,) = _read(folder)
    assert len(record.spans) == 3
    assert Issue.SAMPLING_LEFT_OUT in record.issues


def test_a_store_in_use_is_not_written_to(tmp_path: Path) -> None:
    folder = copied(RLLM / "git-open", tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert [len(record.spans) for record in _read(folder)] == [3]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_another_database_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "other.db")) as other, other:
        other.execute("CREATE TABLE traces(trace_id)")
        other.execute("CREATE VIEW trace_sessions AS SELECT 1 AS trace_id, 2 AS session_id")
    (folder / "no.db").write_bytes(b"SQLite format 3")
    (folder / "link.db").symlink_to(RLLM / "git-single" / STORE)
    assert _read(folder) == []


def test_workers_change_no_byte(tmp_path: Path) -> None:
    for workers in (1, 2):
        build([RLLM], tmp_path / str(workers), workers=workers)
    one, two = (
        {p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.parquet")} for name in "12"
    )
    assert one == two


def test_datums_and_an_export(tmp_path: Path) -> None:
    run, out, datums = RLLM / "git-version", tmp_path / "out", tmp_path / "datums"
    build([copied(run, tmp_path / "run")], out, workers=1, declare={"logprob_mode": "raw"})
    stats = build_datum_shards(out, datums, purpose="sft").stats
    assert stats.loss_tokens == sum(len(call.ids[1]) for call in sampled(run))
    assert export_datums(datums, tmp_path / "trl", "trl-sft").exported == 1


@settings(max_examples=examples(60))
@given(run=st.sampled_from(runs("rllm-gateway")), damage=DAMAGE, kept=st.floats(0.1, 1.2))
def test_a_damaged_store_gives_no_others(
    tmp_path_factory: pytest.TempPathFactory, run: Path, damage: Damage, kept: float
) -> None:
    folder = copied(run, tmp_path_factory.mktemp("damaged") / "run")
    for file in folder.iterdir():
        file.write_bytes(damaged(file.read_bytes(), damage, kept))
    check_damaged(folder, sampled(run))


def _read(folder: Path) -> list[TrialRecord]:
    return [record for read in read_all(folder) for record in read.records]


def _execute(folder: Path, statement: str) -> None:
    with closing(sqlite3.connect(folder / STORE)) as store, store:
        store.execute(statement)


def _edited(
    run: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], None] | None = None
) -> Path:
    """A copy of a store in one file, every trace changed."""
    folder = tmp_path / "edited"
    shutil.rmtree(folder, ignore_errors=True)
    copied(run, folder)
    with closing(sqlite3.connect(folder / STORE)) as store, store:
        for row, data in store.execute("SELECT rowid, data FROM traces").fetchall():
            trace = json.loads(data)
            if edit is not None:
                edit(trace)
            store.execute("UPDATE traces SET data = ? WHERE rowid = ?", (json.dumps(trace), row))
    return folder
