"""`verifiers` runs: every sampled token of the bank once, and nothing else."""

import shutil
from pathlib import Path

import pytest

from tests.sources.verifiers_bank import (
    ANY_REWARD,
    BANK,
    RUNS,
    built,
    expected_of,
    expected_traces,
    said_call,
    said_span,
    sampled_calls,
    sequences_of,
    total_of,
    trained_as_by_prime_rl,
)
from wmo_distill import build, iter_records, verify
from wmo_distill.issues import Issue
from wmo_distill.records import Completeness, StopReason

TRACES = [run for run in RUNS if expected_traces(run)]


@pytest.mark.parametrize("run", TRACES)
def test_every_call_is_read_once_as_it_was_sampled(run: str, tmp_path: Path) -> None:
    records, traces = built(BANK / run, tmp_path), expected_traces(run)
    assert records.keys() == traces.keys()
    for trial_id, trace in traces.items():
        record = records[trial_id]
        want = [said_call(call) for call in sampled_calls(trace)]
        assert sorted(map(said_span, record.spans), key=repr) == sorted(want, key=repr)
        reasons = sorted(str(call["finish_reason"]) for call in sampled_calls(trace))
        assert sorted(str(span.finish_reason) for span in record.spans) == reasons
        assert record.reward == pytest.approx(total_of(trace["rewards_recorded"]))
        assert record.reference_stop_reason == trace["stop_condition"]
        assert record.completeness is Completeness.SILENT
        assert record.format == "verifiers"
        if trace["has_error"] or trace["dropped"]:
            assert record.reward_valid is False
        if not trace["trainable"]:
            assert Issue.AGENT_NOT_TRAINABLE in record.issues
            assert 0 not in record.chats
    assert verify(tmp_path) == []


@pytest.mark.parametrize("run", TRACES)
def test_prime_rl_trains_the_same_sequences(run: str, tmp_path: Path) -> None:
    traces = expected_traces(run)
    if not any(trace["sequences"] for trace in traces.values()):
        pytest.skip("nothing to train")
    built(BANK / run, tmp_path / "out")
    found = trained_as_by_prime_rl(tmp_path / "out", tmp_path / "datums")
    for trial_id, trace in traces.items():
        if trace["prime_rl"]["trains"]:
            assert found[trial_id] == sequences_of(trace)


def test_calls_without_ids_are_counted(tmp_path: Path) -> None:
    summary = build([BANK / "0.4.1.dev86-api"], tmp_path, workers=1)
    calls = sum(len(trace["calls"]) for trace in expected_traces("0.4.1.dev86-api").values())
    assert (summary.calls, summary.issues["call_without_evidence"]) == (0, calls)
    assert {record.stop_reason for record in iter_records(tmp_path)} == {StopReason.SUBMITTED}


def test_rollout_folders_of_prime_rl_count_a_trace_once(tmp_path: Path) -> None:
    records = built(BANK / "0.4.0-primerl_duo", tmp_path)
    again = build([BANK / "0.4.0-primerl_duo"], tmp_path, workers=1, reward_range=ANY_REWARD)
    assert again.skipped == {"duplicate_id": 3}
    assert again.read == 0
    assert {"/all/" in record.artifact_dir for record in records.values()} == {True}
    assert {record.job for record in records.values()} == {"run"}
    solver = next(r for r in records.values() if r.agent_name.startswith("solver/"))
    assert solver.sampled_with.train_step == 3
    assert solver.sampled_with.policy_version == "2"
    alone = built(BANK / "0.4.0-primerl_duo/run/rollouts/step_4", tmp_path / "effective")
    assert any("advantages" in (s.extra or "") for r in alone.values() for s in r.spans)


def test_a_resumed_run_next_to_what_was_before(tmp_path: Path) -> None:
    for name in ("before-resume", "0.4.0-resume"):
        shutil.copytree(BANK / name / "run", tmp_path / "runs" / name)
    records = built(tmp_path / "runs", tmp_path / "out")
    before = {t[0] for e in expected_of("before-resume")["episodes"] for t in e["traces"]}
    assert records.keys() == before | expected_traces("0.4.0-resume").keys()


def test_chats_of_subagents(tmp_path: Path) -> None:
    (record,) = built(BANK / "0.4.1.dev86-subagents", tmp_path / "new").values()
    (old,) = built(BANK / "0.2.1-subagents_old", tmp_path / "old").values()
    assert [info.kind.value for info in record.segments] == ["main", "subagent", "subagent"]
    assert [len(record.chats[k]) for k in range(3)] == [3, 2, 1]
    # Without links, a chat without a system message cannot be told from the agent's own.
    assert [len(old.chats[k]) for k in range(2)] == [4, 2]
    assert Issue.CHATS_UNLABELLED in old.issues
    assert Issue.CHATS_UNLABELLED not in record.issues


def test_attempts_at_a_compaction(tmp_path: Path) -> None:
    records = built(BANK / "0.4.1.dev86-compaction", tmp_path)
    accepted, twice, dangling = map(records.get, expected_traces("0.4.1.dev86-compaction"))
    assert accepted
    assert twice
    assert dangling
    assert [len(r.segments) for r in (accepted, twice, dangling)] == [1, 2, 2]
    assert (accepted.compactions, twice.compactions, dangling.compactions) == ((3,), (2,), ())
    assert [info.trainable for info in twice.segments] == [True, False]


def test_versions_of_each_call(tmp_path: Path) -> None:
    records = built(BANK / "0.4.1.dev86-weights", tmp_path)
    first, second = (records[trial] for trial in expected_traces("0.4.1.dev86-weights"))
    assert [span.versions for span in first.spans] == [
        (("11", 0),), (("11", 0), ("12", 12)), (("12", 0),), None
    ]  # fmt: skip
    assert first.sampled_with.policy_versions == ("11", "12")
    assert second.sampled_with.policy_version is None


def test_rounding_is_said_once_a_trace(tmp_path: Path) -> None:
    exact = built(BANK / "0.2.1-history", tmp_path / "exact").values()
    rounded = built(BANK / "0.4.1.dev86-huge", tmp_path / "rounded").values()
    assert {r.issues.count(Issue.LOGPROBS_ROUNDED) for r in exact} == {0}
    assert {r.issues.count(Issue.LOGPROBS_ROUNDED) for r in rounded} == {1}


def test_tensors_that_were_written_as_text_are_left_out(tmp_path: Path) -> None:
    (record,) = built(BANK / "0.2.1-moe_ascii", tmp_path).values()
    assert record.issues.count(Issue.TENSOR_NOT_READABLE) == 1
    assert all("routed_experts" not in (span.extra or "") for span in record.spans)


def test_an_episode_without_a_trace_and_strange_lines_have_rows_in_the_ledger(
    tmp_path: Path,
) -> None:
    summary = build([BANK / "edited-faults"], tmp_path, workers=1)
    assert (summary.found, summary.written) == (31, 28)
    assert summary.skipped == {"duplicate_id": 1, "line_unreadable": 2}
    (record,) = [r for r in iter_records(tmp_path) if (r.trial_id or "").startswith("episode:")]
    assert (record.stop_reason, record.infra_failed, record.spans) == ("not_run", True, ())
    again = build([BANK / "edited-faults"], tmp_path, workers=1)
    assert (again.read, again.skipped) == (0, summary.skipped)


FAULTS: dict[str, tuple[list[int], list[str]]] = {
    "none": ([0, 1, 2], []),
    "logprobs one short": ([0, 1, 2], ["logprobs_length"]),
    "logprobs absent": ([0, 1, 2], ["logprobs_missing"]),
    "a logprob null": ([0, 1, 2], ["logprob_not_finite"]),
    "a logprob -inf": ([0, 1, 2], ["logprob_not_finite"]),
    "mask longer than token_ids": ([1, 2], ["call_unplaced"]),
    "id of 2^31": ([], ["prompt_damaged"] * 3),
    "id 5.0": ([], ["prompt_damaged"] * 3),
    "id true": ([], ["prompt_damaged"] * 3),
    "parent out of range": ([0], ["prompt_damaged"] * 2),
    "parent cycle": ([], ["prompt_damaged"] * 3),
    "parent is a later node": ([0], ["prompt_damaged"] * 2),
    "call.node out of range": ([0, 1, 2], ["value_damaged"]),
    "mask with a hole": ([1, 2], ["call_unplaced"]),
    "mask true on a node not sampled": ([0, 1, 2], ["value_damaged"]),
    "token_ids absent everywhere": ([], ["call_without_evidence"] * 3 + ["no_completion_ids"]),
    "rewards null": ([0, 1, 2], ["rewards_missing"]),
    "reward score a string": ([0, 1, 2], ["reward_not_number"]),
    "reward NaN": ([0, 1, 2], ["reward_not_finite"]),
    "reward a plain number": ([0, 1, 2], []),
    "unknown keys everywhere": ([0, 1, 2], []),
    "unknown stop_condition": ([0, 1, 2], ["stop_condition_unknown"]),
    "same trace id twice in one episode": ([0, 1, 2], []),
    "lone surrogate escape": ([0, 1, 2], []),
    "key twice": ([0, 1, 2], []),
    "a blank line before": ([0, 1, 2], []),
}


def test_each_fault_costs_what_it_must(tmp_path: Path) -> None:
    records = built(BANK / "edited-faults", tmp_path)
    found = {
        fault["fault"]: records[fault["trace"]]
        for fault in expected_of("edited-faults")["faults"]
        if fault.get("trace")
    }
    assert {
        name: (
            [span.call_index for span in record.spans],
            [issue.value for issue in record.issues if issue is not Issue.LOGPROBS_ROUNDED],
        )
        for name, record in found.items()
    } == FAULTS


def test_rows_of_the_time_before_traces(tmp_path: Path) -> None:
    expected = expected_of("v0-tokens")["files"]["results.jsonl"]
    records = list(built(BANK / "v0-tokens", tmp_path).values())
    assert sorted([said_span(span) for span in record.spans] for record in records) == sorted(
        [said_call(step) for step in line["steps"]] for line in expected
    )
    assert {(r.reward, r.stop_reason, r.sampled_with.temperature) for r in records} == {
        (line["reward"], "max_turns", 0.9) for line in expected
    }
    assert {(r.group_expected, len(r.segments)) for r in records} == {(2, 1)}
    assert len({record.group_id for record in records}) == 2


def test_rows_that_failed_have_a_number_that_does_not_count(tmp_path: Path) -> None:
    records = built(BANK / "v0-errors", tmp_path).values()
    assert {(r.reward, r.reward_valid, r.stop_reason, r.exception_type) for r in records} == {
        (0.5, False, "provider_error", "ModelError")
    }
    assert verify(tmp_path) == []


def test_a_torn_last_line_is_counted(tmp_path: Path) -> None:
    summary = build([BANK / "edited-torn-traces"], tmp_path, workers=1)
    assert (summary.written, summary.skipped) == (1, {"line_unreadable": 1})
