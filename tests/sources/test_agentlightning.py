"""Agent Lightning: saved answers of its API."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.effort import examples
from tests.sources import capture_bank as bank
from tests.sources.recorder_bank import BANK, runs
from wmo_distill import TrialRecord, build, build_datum_shards, export_datums

NAME = "agentlightning-events"
RUNS = runs(NAME)


def edited(run: str, tmp: Path, change: bank.Change, name: str = "ro-0.events.json") -> TrialRecord:
    return bank.edited(BANK / NAME / run, name, tmp, change)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_run_is_read_as_it_was_sampled(run: Path, tmp_path: Path) -> None:
    records = bank.built([bank.copied(run, tmp_path)], tmp_path / "out")
    rollouts = bank.expected(run)
    assert len(records) == len(rollouts)
    for rollout in rollouts:
        record = bank.of_rollout(records, rollout["rollout"])
        bank.check_rollout(record, rollout)
        assert (record.format, record.task_id, record.model_name) == (
            "agentlightning", "task-1", "toy-policy",
        )  # fmt: skip
    assert len({record.group_id for record in records}) == 1


def test_one_build_of_the_whole_bank(tmp_path: Path) -> None:
    for run in RUNS:
        bank.copied(run, tmp_path / "bank")
    declare = {"logprob_mode": "processed"}
    summary = build([tmp_path / "bank"], tmp_path / "out", workers=1, declare=declare)
    assert (summary.found, summary.written) == (6, 6)
    assert build([tmp_path / "bank"], tmp_path / "out", workers=1, declare=declare).read == 0
    build([tmp_path / "bank"], tmp_path / "two", workers=2, declare=declare)
    assert bank.parts(tmp_path / "out") == bank.parts(tmp_path / "two")
    built = build_datum_shards(tmp_path / "out", tmp_path / "datums")
    assert built.stats.loss_tokens > 60
    assert export_datums(tmp_path / "datums", tmp_path / "verl", "verl").exported >= 4


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_damage_never_raises_nor_invents(run: Path, tmp_path: Path) -> None:
    bank.check_damage(run, tmp_path, examples(12))


def test_a_reward_that_the_trainer_filled_in_does_not_count(tmp_path: Path) -> None:
    (record,) = bank.built([bank.copied(BANK / NAME / "retry", tmp_path)], tmp_path / "out")
    assert (record.reward, record.reward_valid, record.measured) == (1.0, False, False)


@pytest.mark.parametrize(
    ("state", "message", "reason"),
    [
        ("succeeded", None, "unknown"),
        ("running", None, "unknown"),
        ("failed", "local subprocess timed out", "budget"),
        ("failed", "Job failed: DeadlineExceeded", "budget"),
        ("failed", "local controller shutdown", "cancelled"),
        ("failed", "local subprocess spawn failed: no such file", "not_run"),
        ("failed", 3, "error"),
    ],
)
def test_endings(state: str, message: object, reason: str, tmp_path: Path) -> None:
    def ended(answer: dict[str, Any]) -> None:
        answer["rollout"]["status"] |= {"state": state, "error_message": message}

    record = edited("version", tmp_path, ended, "ro-0.rollout.json")
    assert record.stop_reason == reason
    assert (record.finished_at is None) == (state == "running")


def test_an_answer_that_failed_is_counted(tmp_path: Path) -> None:
    def failed(events: list[dict[str, Any]]) -> None:
        events[1]["data"] |= {
            "status": "error", "http_status": 500, "response": {"error": "overloaded"},
        }  # fmt: skip

    record = edited("logprobs", tmp_path, failed)
    assert record.issues.count("call_failed") == 1
    assert len(record.spans) == 4


def test_every_answer_of_a_call_is_kept(tmp_path: Path) -> None:
    def two(events: list[dict[str, Any]]) -> None:
        choices = events[0]["data"]["response"]["choices"]
        choices.append({"index": 1, "finish_reason": "stop", "token_ids": [22590, 151645]})

    record = edited("version", tmp_path, two)
    sampled = [(span.sampled.tolist()[0], span.used) for span in record.spans]
    assert (22590, False) in sampled
    assert len(sampled) == 3


def test_an_event_that_is_saved_again_is_a_duplicate(tmp_path: Path) -> None:
    record = edited("version", tmp_path, lambda events: events.insert(1, events[0]))
    assert (len(record.spans), record.issues.count("duplicate")) == (2, 1)


def test_logprobs_of_other_tokens_are_refused(tmp_path: Path) -> None:
    def other(events: list[dict[str, Any]]) -> None:
        content = events[0]["data"]["response"]["choices"][0]["logprobs"]["content"]
        content[0], content[1] = content[1], content[0]

    record = edited("version", tmp_path, other)
    assert record.spans[0].sampled_logprobs is None
    assert "logprobs_damaged" in record.issues


def test_what_was_asked_for_and_experts(tmp_path: Path) -> None:
    def more(events: list[dict[str, Any]]) -> None:
        events[0]["data"] |= {"routed_experts": [[1, 2]], "adjusted_params": {"temperature": 0.5}}

    record = edited("version", tmp_path, more)
    assert record.sampled_with.temperature is None
    assert [span.sampling for span in record.spans] == [
        '{"temperature":0.5,"train_step":7}', '{"temperature":1.0,"train_step":8}',
    ]  # fmt: skip
    assert [span.extra for span in record.spans] == ['{"routed_experts":[[1,2]]}', None]


def test_a_validation_rollout_is_kept_and_not_trained(tmp_path: Path) -> None:
    record = edited(
        "version", tmp_path, lambda a: a["rollout"].update(is_train=False), "ro-0.rollout.json"
    )
    assert len(record.spans) == 2
    assert [segment.trainable for segment in record.segments] == [False]


def test_events_of_several_attempts_as_lines_that_grow(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "group", tmp_path)
    lines = []
    for number in range(2):
        events = json.loads((source / f"ro-{number}.events.json").read_text())
        (source / f"ro-{number}.events.json").unlink()
        lines += [
            json.dumps({**e, "rollout_id": "ro-0", "attempt_id": str(number)}) for e in events
        ]
    (source / "ro-1.rollout.json").unlink()
    file = source / "ro-0.events.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines[:3]) + lines[3][:200])
    records = bank.built([source], tmp_path / "out")
    assert [r.trial_id for r in records[:2]] == ["group/ro-0", "group/ro-0.1"]
    assert [len(r.spans) for r in records[:2]] == [2, 0]
    file.write_text("".join(f"{line}\n" for line in lines))
    assert build([source], tmp_path / "out", workers=1).read == 1
    records = bank.built([source], tmp_path / "out")
    assert sorted((r.trial_id, len(r.spans), r.reward) for r in records) == [
        ("group/ro-0", 2, 1.0), ("group/ro-0.1", 2, 0.0), ("group/ro-2", 1, None),
    ]  # fmt: skip


def test_a_rollout_without_events_keeps_its_row(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "version", tmp_path)
    (source / "ro-0.events.json").unlink()
    (record,) = bank.built([source], tmp_path / "out")
    assert (record.trial_id, record.spans, record.task_id) == ("version/ro-0", (), "task-1")
