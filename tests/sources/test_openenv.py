"""OpenEnv: session documents, results of `openenv harbor --out`, and runs of its UI."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.effort import examples
from tests.sources import capture_bank as bank
from tests.sources.recorder_bank import BANK, runs
from wmo_distill import TrialRecord, build, build_datum_shards, export_datums

NAME = "openenv-capture"
TRIAL = Path(__file__).parents[2] / "fixtures/trials/01-solved"
RUNS = runs(NAME)


def edited(
    run: str, tmp: Path, change: bank.Change, name: str = "roll-0.rollout.json"
) -> TrialRecord:
    return bank.edited(BANK / NAME / run, name, tmp, change)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_every_run_is_read_as_it_was_sampled(run: Path, tmp_path: Path) -> None:
    records = bank.built([bank.copied(run, tmp_path)], tmp_path / "out")
    rollouts = bank.expected(run)
    assert len(records) == len(rollouts)
    for rollout in rollouts:
        record = bank.of_rollout(records, rollout["rollout"])
        bank.check_rollout(record, rollout)
        assert record.format == "openenv"
        assert record.rewards == rollout.get("rewards", {})
    assert len({record.group_id for record in records}) == 1


def test_one_build_of_the_whole_bank(tmp_path: Path) -> None:
    for run in RUNS:
        bank.copied(run, tmp_path / "bank")
    summary = build([tmp_path / "bank"], tmp_path / "out", workers=1)
    assert (summary.found, summary.written) == (17, 17)
    assert build([tmp_path / "bank"], tmp_path / "out", workers=1).read == 0
    build([tmp_path / "bank"], tmp_path / "two", workers=2)
    assert bank.parts(tmp_path / "out") == bank.parts(tmp_path / "two")
    built = build_datum_shards(tmp_path / "out", tmp_path / "datums", purpose="sft")
    assert built.stats.loss_tokens > 300
    assert export_datums(tmp_path / "datums", tmp_path / "trl", "trl-sft").exported > 10


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_damage_never_raises_nor_invents(run: Path, tmp_path: Path) -> None:
    bank.check_damage(run, tmp_path, examples(12))


def test_endings(tmp_path: Path) -> None:
    def ending(run: str) -> str:
        source = BANK / NAME / run
        return bank.built([bank.copied(source, tmp_path)], tmp_path / "o" / run)[0].stop_reason

    assert ending("budget") == "max_turns"
    assert ending("failed") == "context_overflow"
    assert ending("multi") == "unknown"
    records = bank.built([bank.copied(BANK / NAME / "results", tmp_path)], tmp_path / "out")
    stopped = bank.of_rollout(records, "roll-2")
    assert (stopped.stop_reason, stopped.exception_type) == ("not_run", "EnvironmentStartError")
    assert (stopped.reward, stopped.infra_failed) == (None, True)


def test_an_exception_of_the_verifier_leaves_the_ending_to_the_proxy(tmp_path: Path) -> None:
    def verifier_failed(results: list[dict[str, Any]]) -> None:
        results[0] |= {"exception_type": "VerifierTimeoutError", "budget_stop_count": 2}

    record = edited("results", tmp_path, verifier_failed, "results.json")
    assert (record.stop_reason, record.reference_stop_reason) == ("max_turns", None)
    assert (record.reward, record.reward_valid) == (1.0, False)


def test_zeros_of_a_refused_turn_are_null_and_others_stay(tmp_path: Path) -> None:
    def masked(results: list[dict[str, Any]]) -> None:
        results[3]["turns"][0]["trainable"] = False

    edited("results", tmp_path, masked, "results.json")
    records = bank.built([tmp_path / "results"], tmp_path / "again")
    spans = bank.of_rollout(records, "roll-3").spans
    assert [span.sampled_logprobs is None for span in spans] == [False, True, False]


def test_the_headline_reward_counts_under_any_name(tmp_path: Path) -> None:
    def renamed(results: list[dict[str, Any]]) -> None:
        results[0] |= {"rewards": {"score": 0.5, "speed": 1.0}, "reward": 0.5}

    record = edited("results", tmp_path, renamed, "results.json")
    assert record.reward == 0.5


def test_a_document_and_a_result_of_one_session_are_one_episode(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "lineages", tmp_path)
    results = json.loads((BANK / NAME / "results" / "results.json").read_text())
    (source / "results.json").write_text(json.dumps(results[:1]))
    alone = bank.expected(BANK / NAME / "lineages")[0]
    (record,) = bank.built([source], tmp_path / "out")
    bank.check_rollout(record, {**alone, "reward": 1.0})
    assert (record.trial_name, record.task_id) == ("echo__0", "toy/echo")
    (source / "roll-0.rollout.json").write_bytes(b'{"session_id": "roll-0", "turns": [], "seq')
    (record,) = bank.built([source], tmp_path / "torn")
    assert len(record.spans) == 3


def test_trace_entries_are_read_where_there_is_nothing_else(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "lineages", tmp_path)
    (source / "roll-0.rollout.json").unlink()
    (record,) = bank.built([source], tmp_path / "out")
    assert len(record.spans) == 3
    assert record.issues.count("dropped_by_recorder") == 2


def test_a_run_of_the_ui(tmp_path: Path) -> None:
    results = json.loads((BANK / NAME / "results" / "results.json").read_text())
    about = {
        "id": "20260922-000000-a1b2c3", "status": "done", "created": 1790000000.0,
        "finished": 1790000060.5, "dataset": "toy@1", "task_name": "echo", "harness": "toy",
        "sandbox": "none", "model": "toy-policy", "error": None, "wall_s": 60.5,
    }  # fmt: skip
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps({**about, "result": results[1]}))
    failed = {**about, "id": "20260922-000000-ffffff", "status": "failed", "error": "no sandbox"}
    (folder / "b.json").write_text(json.dumps({**failed, "result": None}))
    ran, crashed = bank.built([folder], tmp_path / "out")
    bank.check_rollout(ran, bank.expected(BANK / NAME / "results")[1])
    assert (ran.model_name, ran.agent_name, ran.job) == ("toy-policy", "toy", "runs")
    assert ran.started_at is not None
    assert ran.finished_at is not None
    assert (ran.finished_at - ran.started_at).total_seconds() == 60.5
    assert (crashed.stop_reason, crashed.reward, crashed.spans) == ("error", None, ())


def test_lineages_without_tools_are_distinguished_by_their_tokens(tmp_path: Path) -> None:
    def toolless(document: dict[str, Any]) -> None:
        for sequence in document["sequences"]:
            sequence |= {"role": "agent", "trainable": True}

    record = edited("lineages", tmp_path, toolless)
    assert [segment.kind for segment in record.segments] == ["main", "subagent"]
    bank.check_rollout(record, bank.expected(BANK / NAME / "lineages")[0])


def test_the_agents_chat_is_the_main_one_though_another_came_first(tmp_path: Path) -> None:
    def later(document: dict[str, Any]) -> None:
        for turn in document["turns"]:
            turn["index"] = {0: 1, 1: 0}.get(turn["index"], turn["index"])

    record = edited("lineages", tmp_path, later)
    assert [len(chat) for chat in record.chats.values()] == [3, 2]
    assert [segment.trainable for segment in record.segments] == [True, False]


def test_a_discarded_turn_without_ids_is_counted(tmp_path: Path) -> None:
    def left_out(document: dict[str, Any]) -> None:
        document["sequences"] = [s for s in document["sequences"] if s["role"] == "agent"]

    record = edited("retry", tmp_path, left_out)
    assert (len(record.spans), record.completeness) == (3, "silent")
    assert record.issues.count("dropped_by_recorder") == 1


def test_turns_that_were_all_discarded(tmp_path: Path) -> None:
    def discarded(document: dict[str, Any]) -> None:
        document["turns"] = [{**turn, "discarded": True} for turn in document["turns"][2:]]

    record = edited("break", tmp_path, discarded)
    assert [span.used for span in record.spans] == [False] * 3


@pytest.mark.parametrize("key", ["input_ids", "node_ids"])
def test_a_sequence_of_another_length_gives_no_ids(key: str, tmp_path: Path) -> None:
    def shortened(document: dict[str, Any]) -> None:
        del document["sequences"][0][key][0]

    record = edited("multi", tmp_path, shortened)
    assert len(record.spans) == {"input_ids": 0, "node_ids": 4}[key]
    assert sum(issue.drops_call for issue in record.issues) == 5 - len(record.spans)
    assert record.completeness == {"input_ids": "silent", "node_ids": "incomplete"}[key]


def test_an_evaluation_is_kept_and_not_trained(tmp_path: Path) -> None:
    record = edited("multi", tmp_path, lambda document: document.update(rollout_type="eval"))
    assert len(record.spans) == 5
    assert [segment.trainable for segment in record.segments] == [False]


def test_results_that_are_still_being_written(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "results", tmp_path)
    whole = (source / "results.json").read_bytes()
    cut = whole.index(b'"roll-2"') + 20
    (source / "results.json").write_bytes(whole[:cut])
    records = bank.built([source], tmp_path / "out")
    assert [len(record.spans) for record in records] == [3, 2, 0]
    assert "result_unreadable" in records[2].issues
    (source / "results.json").write_bytes(whole)
    assert build([source], tmp_path / "out", workers=1).read == 2
    records = bank.built([source], tmp_path / "out")
    assert [len(record.spans) for record in records] == [3, 2, 1, 3]


def test_a_trial_of_harbor_stays_one(tmp_path: Path) -> None:
    job = tmp_path / "job"
    shutil.copytree(TRIAL, job)
    (result,) = job.rglob("*__*/result.json")
    for folder in (job, result.parent, result.parent / "agent"):
        shutil.copy(BANK / NAME / "results" / "results.json", folder / "rollouts.json")
    records = bank.built([job], tmp_path / "out")
    assert sorted(record.format for record in records) == ["harbor"] + ["openenv"] * 4


def test_links_and_other_files_are_left_alone(tmp_path: Path) -> None:
    source = bank.copied(BANK / NAME / "single", tmp_path)
    (source / "link.json").symlink_to(BANK / NAME / "multi" / "roll-0.rollout.json")
    (source / "other.json").write_text('{"session_id": "x", "turns": 3}')
    (source / "list.json").write_text("[[1, 2], 3]")
    (source / "empty.json").touch()
    assert len(bank.built([source], tmp_path / "out")) == 1
