"""The source `tinker_capture`, on files that tinker-cookbook wrote and on damaged copies."""

import json
import shutil
from collections.abc import Callable
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
from wmo_distill import build, build_datum_shards, export_datums, iter_records, verify
from wmo_distill.issues import Issue
from wmo_distill.records import SegmentKind, TrialRecord

TINKER = BANK / "tinker-capture"
GROUP = TINKER / "jsonl-group"
# Of this run one call is left, and a rollout that left no row.
UNSEEN = {"store-nullbatch": 4}


@pytest.mark.parametrize("run", runs("tinker-capture"), ids=lambda run: run.name)
def test_what_was_sampled_is_read(run: Path, tmp_path: Path) -> None:
    if run.name in UNSEEN:
        records = _built(run, tmp_path)
        assert [len(record.spans) for record in records] == [1]
        return
    records = check(run, tmp_path, apart=run.name.endswith("-samples"))
    assert {record.format for record in records} == {"tinker_capture"}
    assert {record.stop_reason for record in records} == {"unknown"}
    job = "run-11" if run.name.startswith("store") else run.name
    assert {record.job for record in records} == {job}


def test_groups_attempts_and_rewards(tmp_path: Path) -> None:
    records = {record.trial_name: record for record in _built(GROUP, tmp_path)}
    train = [records[f"run-11:0:train:3:0:{k}"] for k in range(4)]
    assert [(r.attempt, r.reward) for r in train] == [(0, 1.0), (1, 0.0), (2, 0.5), (3, 0.0)]
    assert train[0].rewards == {"reward": 1.0, "final_reward": 1.0}
    assert len({record.group_id for record in train}) == 1
    evaluated = records["run-11:0:test:3:0:0:eval"]
    assert evaluated.reward is None
    assert evaluated.group_id != train[0].group_id
    assert (train[0].sampled_with.train_step, train[0].model_name) == (7, "toy/policy")
    assert train[0].sampled_with.temperature == 1.0


def test_a_capture_alone_has_no_rewards(tmp_path: Path) -> None:
    folder = copied(GROUP, tmp_path / "run")
    records = [r for read in read_all(folder / "capture") for r in read.records]
    assert [record.reward for record in records] == [None] * 5
    assert {record.job for record in records} == {"run"}


def test_a_restart_is_another_episode_and_group(tmp_path: Path) -> None:
    first, second = _built(TINKER / "jsonl-restart", tmp_path)
    assert (first.attempt, second.attempt) == (0, 0)
    assert first.group_id != second.group_id


def test_the_agent_of_a_scope_is_a_chat(tmp_path: Path) -> None:
    (record,) = _built(TINKER / "jsonl-lineages", tmp_path)
    assert [(s.kind, s.agent) for s in record.segments] == [
        (SegmentKind.MAIN, None), (SegmentKind.SUBAGENT, "sub")
    ]  # fmt: skip


def test_calls_without_coordinates_are_in_no_group(tmp_path: Path) -> None:
    records = _built(TINKER / "jsonl-unattributed", tmp_path)
    assert len({record.group_id for record in records}) == len(records) == 2
    assert all(Issue.NO_COORDINATES in record.issues for record in records)


def test_a_step_without_a_call_is_a_lost_call(tmp_path: Path) -> None:
    folder = copied(GROUP, tmp_path / "run")
    file = folder / "capture/sample.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    # The last call of a rollout: no later prompt shows that it is missing.
    scopes = [json.loads(line)["scope"] for line in lines]
    last = max(i for i, scope in enumerate(scopes) if scope["traj_idx"] == 3)
    file.write_text("".join(lines[:last] + lines[last + 1 :]))
    records = {r.trial_name: r for read in read_all(folder) for r in read.records}
    record = records["run-11:0:train:3:0:3"]
    assert record.issues == (Issue.CALL_LOST,)
    assert record.completeness == "incomplete"
    assert records["run-11:0:train:3:0:2"].completeness == "silent"


def test_answers_to_one_prompt_without_a_place_are_attempts(tmp_path: Path) -> None:
    def unplaced(record: dict[str, Any]) -> None:
        del record["scope"]["traj_idx"]

    folder = _edited(TINKER / "jsonl-samples", tmp_path, unplaced)
    records = [r for read in read_all(folder) for r in read.records]
    assert [record.attempt for record in records] == [0, 1, 2, 3]
    assert len({record.group_id for record in records}) == 1
    answers = {call.ids[1] for call in sampled(TINKER / "jsonl-samples")}
    assert {tuple(r.spans[0].sampled.tolist()) for r in records} == answers


def test_of_several_answers_the_one_gone_on_from_was_used(tmp_path: Path) -> None:
    def with_another(record: dict[str, Any]) -> None:
        other = {"tokens": [7, 8], "logprobs": [-1.0, -2.0], "stop_reason": "stop"}
        record["samples"].insert(0, other)
        record["num_samples"] = 2

    (read,) = read_all(_edited(TINKER / "jsonl-multi", tmp_path, with_another))
    (record,) = read.records
    main = [span for span in record.spans if span.segment == 0]
    answers = [call.ids[1] for call in sampled(TINKER / "jsonl-multi")]
    assert [tuple(span.sampled.tolist()) for span in main[:4]] == answers[:4]
    passed = [span for span in record.spans if span.used is False]
    assert [span.sampled.tolist() for span in passed] == [[7, 8]] * 4
    # Of the last prompt both are left, a segment each.
    assert {span.segment for span in record.spans if span.used is not False} == {0, 1}
    assert record.completeness == "silent"


def test_which_answer_earned_a_reward_is_not_known(tmp_path: Path) -> None:
    folder = copied(TINKER / "jsonl-samples", tmp_path / "run")
    shutil.copytree(GROUP / "iteration_000003", folder / "iteration_000003")
    (read,) = read_all(folder)
    (record,) = read.records
    assert record.reward == 1.0
    assert Issue.AMBIGUOUS_LAST_CALL in record.issues
    assert [segment.trainable for segment in record.segments] == [True, False, False, False]


def test_a_call_whose_outcome_is_unknown_is_context(tmp_path: Path) -> None:
    def submitted(record: dict[str, Any]) -> None:
        if record["seq_id"] == second:
            record["status"] = "submitted"
            del record["samples"]

    run = TINKER / "jsonl-multi"
    lines = (run / "capture/sample.jsonl").read_text().splitlines()
    second = json.loads(lines[1])["seq_id"]
    (read,) = read_all(_edited(run, tmp_path, submitted))
    (record,) = read.records
    assert read.calls_found == len(record.spans) == 5
    assert record.completeness == "incomplete"
    assert record.spans[1].sampled_token_ids is None


def test_a_prompt_of_another_length_than_recorded_is_damaged(tmp_path: Path) -> None:
    def longer(record: dict[str, Any]) -> None:
        record["prompt_length"] += 1

    (read,) = read_all(_edited(TINKER / "jsonl-single", tmp_path, longer))
    assert read.records[0].spans == ()
    assert Issue.PROMPT_DAMAGED in read.records[0].issues


def test_lines_that_say_nothing_of_a_rollout_are_counted(tmp_path: Path) -> None:
    folder = copied(TINKER / "jsonl-single", tmp_path / "run")
    with (folder / "capture/sample.jsonl").open("a") as file:
        file.write('{"kind": "sample", "scope": 7}\n[]\n{"kind": "train_op"}\n\n')
    records = {r.trial_name: r for read in read_all(folder) for r in read.records}
    assert records["unreadable"].issues.count(Issue.RECORD_UNREADABLE) == 2
    assert records["unreadable"].completeness == "incomplete"
    assert len(records) == 2


def test_a_file_that_grew_is_read_again(tmp_path: Path) -> None:
    whole = (GROUP / "capture/sample.jsonl").read_bytes()
    folder = copied(GROUP, tmp_path / "run")
    file = folder / "capture/sample.jsonl"
    file.write_bytes(whole[: len(whole) // 2])
    out = tmp_path / "out"
    assert build([folder], out, workers=1).calls < 12
    with file.open("ab") as grown:
        grown.write(whole[len(whole) // 2 :])
    build([folder], out, workers=1)
    assert build([folder], tmp_path / "again", workers=1).calls == 12
    assert verify(out) == []
    assert _rows(out) == _rows(tmp_path / "again")


def test_a_store_in_a_log_is_not_written_to(tmp_path: Path) -> None:
    folder = copied(TINKER / "store-multi", tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sum(len(r.spans) for read in read_all(folder) for r in read.records) == 5
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_rewards_next_to_a_store(tmp_path: Path) -> None:
    folder = copied(TINKER / "store-multi", tmp_path / "run")
    shutil.copytree(GROUP / "iteration_000003", folder / "iteration_000003")
    (read,) = read_all(folder)
    assert read.records[0].reward == 1.0


def test_workers_change_no_byte(tmp_path: Path) -> None:
    for workers in (1, 2):
        build([TINKER], tmp_path / str(workers), workers=workers)
    one, two = (
        {p.name: p.read_bytes() for p in (tmp_path / name).rglob("*.parquet")} for name in "12"
    )
    assert one == two


def test_datums_and_an_export(tmp_path: Path) -> None:
    out, datums = tmp_path / "out", tmp_path / "datums"
    build([copied(GROUP, tmp_path / "run")], out, workers=1, declare={"logprob_mode": "raw"})
    stats = build_datum_shards(out, datums).stats
    answers = [call for call in sampled(GROUP) if call.call["fate"] == "kept"]
    assert stats.loss_tokens == sum(len(call.ids[1]) for call in answers)
    assert export_datums(datums, tmp_path / "verl", "verl").exported == 4  # one is not graded


@settings(max_examples=examples(60))
@given(
    run=st.sampled_from([run for run in runs("tinker-capture") if "jsonl" in run.name]),
    damage=DAMAGE,
    kept=st.floats(0.1, 1.2),
)
def test_damaged_lines_are_no_others(
    tmp_path_factory: pytest.TempPathFactory,
    run: Path,
    damage: Damage,
    kept: float,
) -> None:
    folder = copied(run, tmp_path_factory.mktemp("damaged") / "run")
    file = folder / "capture/sample.jsonl"
    file.write_bytes(damaged(file.read_bytes(), damage, kept))
    check_damaged(folder, sampled(run))


@settings(max_examples=examples(60))
@given(
    run=st.sampled_from([run for run in runs("tinker-capture") if "store" in run.name]),
    damage=DAMAGE,
    kept=st.floats(0.1, 1.2),
)
def test_a_damaged_store_gives_no_others(
    tmp_path_factory: pytest.TempPathFactory,
    run: Path,
    damage: Damage,
    kept: float,
) -> None:
    folder = copied(run, tmp_path_factory.mktemp("damaged") / "run")
    for file in folder.iterdir():
        file.write_bytes(damaged(file.read_bytes(), damage, kept))
    check_damaged(folder, sampled(run))


def _built(run: Path, tmp_path: Path) -> list[TrialRecord]:
    out = tmp_path / "out"
    build([copied(run, tmp_path / "run")], out, workers=1)
    assert verify(out) == []
    return list(iter_records(out))


def _rows(out: Path) -> list[tuple[Any, ...]]:
    return [
        (r.episode_id, r.reward, r.issues, [s.sampled.tolist() for s in r.spans])
        for r in iter_records(out)
    ]


def _edited(run: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a run with every record of a call changed."""
    folder = copied(run, tmp_path / "run")
    file = folder / "capture/sample.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        edit(record)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder
