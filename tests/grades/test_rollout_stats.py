"""Statistics of record columns: counts balance, rates show their denominators, null is not 0."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wmo_distill
from tests.grades.rows import ROWS, UNGRADED, UNSOLVED, call, frame, row
from wmo_distill.issues import Issue
from wmo_distill.records import TrialRecord
from wmo_distill.reference.stats import policy_health
from wmo_distill.report.stats import render_rollout_stats
from wmo_distill.stats.rollout import rollout_stats
from wmo_distill.stats.tally import NO_REASON
from wmo_distill.tokens import TokenSpan


@given(rows=ROWS, max_tokens=st.none() | st.integers(0, 3))
def test_the_counts_balance(rows: list[dict[str, Any]], max_tokens: int | None) -> None:
    got = rollout_stats(frame(*rows), max_tokens=max_tokens)
    funnel = got.funnel
    assert got.records == len(rows) == funnel.records
    assert funnel.with_spans == sum(any(s["segment"] == 0 for s in r["spans"]) for r in rows)
    assert sum(got.spanless.values()) == got.records - funnel.with_spans
    assert sum(n for by in got.stop_reasons.values() for n in by.values()) == got.records
    assert sum(got.reference_stop_reasons.values()) == got.records
    assert sum(got.issues.values()) == sum(len(r["issues"]) for r in rows)
    assert funnel.records >= funnel.with_spans >= funnel.with_tokens >= funnel.with_logprobs
    assert funnel.with_logprobs >= funnel.measured_with_logprobs
    assert funnel.sampled_tokens == got.tokens.output >= funnel.sampled_tokens_with_logprobs
    assert sum(task.records for task in got.tasks) == got.records
    assert sum(task.measured for task in got.tasks) == got.measured
    assert sum(group.solved for group in got.groups) == got.solve_rate.numerator
    assert sum(group.measured for group in got.groups) == got.solve_rate.denominator
    if max_tokens is None:
        assert got.calls_at_cap.value is None
    else:
        sizes = [len(s["sampled_token_ids"]) for r in rows for s in r["spans"] if s["segment"] == 0]
        assert got.calls_at_cap.denominator == len(sizes)
        assert got.calls_at_cap.numerator == sum(size >= max_tokens for size in sizes)
    scores = [
        x
        for r in rows
        for s in r["spans"]
        if s["segment"] == 0
        for x in s["sampled_logprobs"] or ()
        if x is not None and math.isfinite(x) and x > -1000
    ]
    assert funnel.sampled_tokens_with_logprobs == len(scores)
    expected = -sum(scores) / len(scores) if scores else None
    assert got.health.entropy_per_token == pytest.approx(expected)
    assert got == rollout_stats(frame(*rows).lazy(), max_tokens=max_tokens)
    assert "\x1b" not in render_rollout_stats(got)


def test_health_is_the_references_where_every_log_probability_is_finite() -> None:
    spans = [call(2, [-0.1, -0.2]), call(0, []), call(1, [-0.6])]
    record = TrialRecord(
        spans=tuple(
            TokenSpan(i, s["prompt_suffix"], s["sampled_token_ids"], s["sampled_logprobs"])
            for i, s in enumerate(spans)
        )
    )
    ours = rollout_stats(frame(row(spans=spans), row())).health
    theirs = policy_health([record, TrialRecord()])
    assert (ours.episodes, ours.sampled_tokens) == (theirs.episodes, theirs.sampled_tokens)
    assert ours.entropy_per_token == pytest.approx(theirs.entropy_per_token)
    assert ours.mean_generation_tokens == theirs.mean_generation_tokens == 3.0


@pytest.mark.parametrize("odd", [-1e16, -9999.0, -1000.0, math.nan, -math.inf])
def test_no_implausible_value_is_in_a_statistic(odd: float) -> None:
    clean = rollout_stats(frame(row(spans=[call(2, [-0.5, -1.5])]))).health
    got = rollout_stats(frame(row(spans=[call(3, [-0.5, odd, -1.5])]), row(spans=[call(1, [odd])])))
    assert (got.health.sampled_tokens, got.health.scored_tokens) == (4, 2)
    assert got.health.entropy_per_token == clean.entropy_per_token == 1.0
    assert got.health.episode_entropy == clean.episode_entropy
    assert got.funnel.with_logprobs == 1


def test_one_odd_episode_moves_the_mean_and_not_the_median() -> None:
    """Eleven episodes: the quantiles are the second, the sixth and the tenth."""
    rows = [row(spans=[call(n, [-n / 10] * n)]) for n in range(1, 11)]
    rows.append(row(spans=[call(1, [-999.0])]))
    got = rollout_stats(frame(*rows)).health
    assert got.episode_entropy is not None
    assert got.episode_generation_tokens is not None
    assert got.entropy_per_token == pytest.approx((38.5 + 999) / 56)
    assert got.episode_entropy.model_dump() == pytest.approx({"p10": 0.2, "p50": 0.6, "p90": 1.0})
    assert got.episode_generation_tokens.model_dump() == pytest.approx(
        {"p10": 1, "p50": 5, "p90": 9}
    )
    text = render_rollout_stats(rollout_stats(frame(*rows)))
    assert re.search(r"entropy proxy, nats a token +18.5268 +0.2000 +0.6000 +1.0000", text)


def test_nothing_is_null_everywhere() -> None:
    got = rollout_stats(frame(), max_tokens=10)
    for name in type(got).model_fields:
        value = getattr(got, name)
        if name.endswith(("rate", "at_cap")):
            assert value.value is None, name
    assert got.health.entropy_per_token is None
    assert got.health.mean_generation_tokens is None
    assert got.tokens.expansion is None
    assert render_rollout_stats(got)


def test_solve_rates() -> None:
    got = rollout_stats(
        frame(
            row(),
            row(**UNSOLVED),
            row(**UNGRADED),
            row(reward_valid=False),
            row(infra_failed=True),  # by a cell
            row(infra_failed=True, issues=[Issue.REWARD_FROM_FILE.value]),
            row(passed=None),  # a cell left it open
        )
    )
    assert (got.measured, got.infra_failed) == (4, 3)
    assert (got.solve_rate.numerator, got.solve_rate.denominator) == (2, 3)
    assert (got.raw_solve_rate.numerator, got.raw_solve_rate.denominator) == (4, 7)


def test_graded_solve_rate_is_over_measured_records_with_a_report() -> None:
    half = {"passed": 1, "resolved": 2, "unresolved": 5}
    none = {"passed": 0, "resolved": 3, "unresolved": 0}
    got = rollout_stats(
        frame(row(tests=half), row(tests=none), row(), row(**UNGRADED, tests=half))
    ).graded_solve_rate
    assert (got.value, got.numerator, got.denominator) == (0.25, 0.5, 2)


def test_scaffold_loss_counts_neither_cancelled_trials_nor_unknown_endings() -> None:
    stops = ["submitted", "not_run", "cancelled", "max_turns", "budget", "unknown"]
    words = ["submitted", "error", "error", "max_turns", "budget", None]
    got = rollout_stats(
        frame(
            *[
                row(stop_reason=stop, reference_stop_reason=word)
                for stop, word in zip(stops, words, strict=True)
            ]
        )
    )
    ours, theirs = got.scaffold_loss_rate, got.reference_scaffold_loss_rate
    assert (ours.numerator, ours.denominator) == (2, 3)
    assert (theirs.numerator, theirs.denominator) == (4, 5)
    assert got.reference_stop_reasons == {
        "budget": 1, "error": 2, "max_turns": 1, "submitted": 1, "unknown": 1,
    }  # fmt: skip


def test_a_record_without_spans_has_one_reason() -> None:
    got = rollout_stats(
        frame(
            row(issues=[Issue.DETAILS_EMPTY.value, Issue.EPISODES_MISSING.value]),
            row(issues=[Issue.RESULT_MISSING.value]),
            row(issues=[Issue.EPISODES_MISSING.value]),
            row(spans=[call(1, None)], issues=[Issue.DETAILS_EMPTY.value]),
        )
    )
    assert got.spanless == {"details_empty": 1, NO_REASON: 1, "result_missing": 1}
    assert got.issues["details_empty"] == 2


def test_pass_at_k_compares_episodes_of_one_group_alone() -> None:
    rows = [row(group_id="g", **({} if i == 0 else UNSOLVED)) for i in range(4)]
    rows += [row(group_id="h", model_name="other"), row(group_id="h", **UNSOLVED)]
    got = rollout_stats(frame(*rows))
    assert [(g.group_id, g.measured, g.solved) for g in got.groups] == [("g", 4, 1), ("h", 2, 1)]
    values = {p.k: (p.rate.value, p.rate.denominator) for p in got.pass_at_k}
    assert values == {1: (0.375, 2), 2: (0.75, 2), 4: (1.0, 1)}
    (task,) = got.tasks
    assert (task.solve_rate.numerator, task.solve_rate.denominator) == (2, 6)


def test_calls_at_the_cap_are_those_of_the_main_chat() -> None:
    spans = [call(3, None), call(4, None), call(5, None), call(9, None, segment=1)]
    got = rollout_stats(frame(row(spans=spans), row(spans=[call(1, None)])), max_tokens=4)
    assert (got.calls_at_cap.numerator, got.calls_at_cap.denominator) == (2, 4)
    assert (got.records_at_cap.numerator, got.records_at_cap.denominator) == (1, 2)


def test_tokens_are_sums_and_expansion_is_over_the_longest_fragments() -> None:
    counts = {"fragments": 2, "total_tokens": 30, "expansion": 1.5, "subagent_tokens": 4}
    got = rollout_stats(frame(row(**counts), row(total_tokens=10, expansion=1.0), row())).tokens
    assert (got.fragments, got.total, got.subagent) == (2, 40, 4)
    assert got.expansion == pytest.approx(40 / 30)


def test_trials_are_not_steps() -> None:
    got = rollout_stats(frame(row(step_name="s1"), row(step_name="s2")), superseded=3)
    assert (got.trials, got.records, got.superseded) == (1, 2, 3)


def test_the_text_shows_every_denominator_and_no_control_character() -> None:
    text = render_rollout_stats(
        rollout_stats(frame(row(task_id="a\x1b[2J"), row(**UNSOLVED)), max_tokens=5)
    )
    assert "0.500  1/2" in text
    assert "calls at the output cap of 5" in text
    assert "\x1b" not in text
    assert r"a\x1b[2J" in text
    many = rollout_stats(frame(*[row(task_id=f"t{i:02}") for i in range(30)]))
    assert "and 10 more" in render_rollout_stats(many)


@pytest.mark.parametrize("rows", [1, 7])
def test_slices_of_any_size_give_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    trials = Path(__file__).parents[2] / "fixtures/trials"
    wmo_distill.build([trials], tmp_path / "s", workers=1)
    frame = wmo_distill.scan(tmp_path / "s")
    whole = rollout_stats(frame, max_tokens=100).model_dump()
    monkeypatch.setattr("wmo_distill.stats.rollout._SLICE", rows)
    assert rollout_stats(frame, max_tokens=100).model_dump() == whole
    assert whole["calls_at_cap"]["numerator"] > 3


def test_a_call_whose_ids_are_not_recorded_is_in_no_rate_of_the_cap() -> None:
    unknown = call(0, None) | {"sampled_token_ids": None}
    rows = [row(spans=[call(5, None), unknown, call(0, None)]), row(spans=[unknown])]
    got = rollout_stats(frame(*rows), max_tokens=5)
    assert (got.calls_at_cap.numerator, got.calls_at_cap.denominator) == (1, 2)
    assert (got.records_at_cap.numerator, got.records_at_cap.denominator) == (1, 1)
