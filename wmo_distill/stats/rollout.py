"""Rollout statistics over the columns of record shards: outcomes, endings, tokens, policy.

A record is one episode. Measured means graded and valid; rates count measured records unless
their name says `raw`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict

from wmo_distill.issues import Issue
from wmo_distill.predicates import is_measured
from wmo_distill.records import StopReason
from wmo_distill.stats.groups import GroupStats, PassAtK, TaskStats, by_group, by_task, pass_rates
from wmo_distill.stats.health import CallStats, PolicyHealth, call_stats
from wmo_distill.stats.rates import Rate, mean_rate, rate

# The first of these among a record's issues is why it has no spans: the earliest missing thing.
SPANLESS_REASONS: tuple[Issue, ...] = (
    Issue.DIRECTORY_MISSING,
    Issue.AGENT_RESULT_MISSING,
    Issue.DETAILS_MISSING,
    Issue.DETAILS_NULL,
    Issue.DETAILS_EMPTY,
    Issue.DETAILS_DAMAGED,
    Issue.ENTRY_DAMAGED,
    Issue.ENTRY_EMPTY,
    Issue.NO_COMPLETION_IDS,
    Issue.CALL_NOT_SALVAGED,
    Issue.CALL_UNPLACED,
    Issue.PROMPT_MISSING,
    Issue.PROMPT_EMPTY,
    Issue.PROMPT_DAMAGED,
    Issue.LISTS_MISALIGNED,
    Issue.SINK_CORRUPT,
    Issue.SINK_MISSING,
    Issue.RESULT_MISSING,
    Issue.RESULT_UNREADABLE,
)
NO_REASON = "none_recorded"
# Endings that say nothing about agent and harness.
_OUTSIDE = (None, StopReason.UNKNOWN, StopReason.NOT_RUN, StopReason.CANCELLED)

_COLUMNS = (
    "artifact_dir", "step_name", "task_id", "group_id", "agent_name", "model_name",
    "reward", "reward_valid", "passed", "infra_failed", "tests",
    "stop_reason", "reference_stop_reason", "completion", "issues", "output_tokens",
)  # fmt: skip


class Funnel(BaseModel):
    """How many records, and sampled tokens, are left for training at each stage."""

    model_config = ConfigDict(frozen=True)

    records: int
    with_spans: int
    with_tokens: int
    with_logprobs: int
    measured_with_logprobs: int
    sampled_tokens: int
    sampled_tokens_with_logprobs: int


class TokenTotals(BaseModel):
    """Sums over the records; all but `subagent` count the main chat."""

    model_config = ConfigDict(frozen=True)

    calls: int
    fragments: int
    """Runs of calls in which each prompt extends what came before."""
    input: int
    """`total` less `output`: what the model was given, once a fragment."""
    output: int
    """Sampled tokens."""
    total: int
    """Tokens of all fragments."""
    prompt: int
    """Tokens of all prompts, what they repeat included."""
    subagent: int
    """Tokens of the other chats, those of summarizers and of subagents."""
    expansion: float | None
    """Tokens of all fragments / tokens of each record's longest fragment."""


class RolloutStats(BaseModel):
    """What `stats` prints."""

    model_config = ConfigDict(frozen=True)

    trials: int
    records: int
    superseded: int
    """Records of older grades of the same rollout, passed over and in no number here."""
    measured: int
    infra_failed: int
    spanless: dict[str, int]
    solve_rate: Rate
    raw_solve_rate: Rate
    graded_solve_rate: Rate
    infra_failed_rate: Rate
    scaffold_loss_rate: Rate
    reference_scaffold_loss_rate: Rate
    stop_reasons: dict[str, dict[str, int]]
    """Records by stop reason, then by completion."""
    reference_stop_reasons: dict[str, int]
    """Records by the reference's word; null is under `unknown`."""
    issues: dict[str, int]
    max_tokens: int | None
    calls_at_cap: Rate
    records_at_cap: Rate
    funnel: Funnel
    tokens: TokenTotals
    health: PolicyHealth
    tasks: tuple[TaskStats, ...]
    groups: tuple[GroupStats, ...]
    pass_at_k: tuple[PassAtK, ...]


def rollout_stats(
    frame: pl.LazyFrame | pl.DataFrame, *, max_tokens: int | None = None, superseded: int = 0
) -> RolloutStats:
    """Statistics of a frame of record columns.

    `max_tokens` is the output cap of a call; without it nothing is counted as at the cap. The
    frame is taken as it is: `scan` has left out superseded regrades, `superseded` is their number.
    """
    lazy = frame.lazy()
    rows = lazy.select(_COLUMNS).collect().to_dicts()
    calls = call_stats(lazy, max_tokens)
    measured = [row for row in rows if measured_row(row)]
    groups = by_group(measured)
    solved = sum(row["passed"] is True for row in measured)
    judged = sum(row["passed"] is not None for row in measured)
    ended = [row["stop_reason"] for row in rows if row["stop_reason"] not in _OUTSIDE]
    lost = len(ended) - ended.count(StopReason.SUBMITTED)
    words = Counter(row["reference_stop_reason"] or "unknown" for row in rows)
    worded = len(rows) - words["unknown"]
    return RolloutStats(
        trials=len({row["artifact_dir"] for row in rows}),
        records=len(rows),
        superseded=superseded,
        measured=len(measured),
        infra_failed=sum(row["infra_failed"] is True for row in rows),
        spanless=_spanless(rows, calls.with_spans),
        solve_rate=rate(solved, judged),
        raw_solve_rate=rate(sum(row["passed"] is True for row in rows), len(rows)),
        graded_solve_rate=mean_rate(_scores(measured)),
        infra_failed_rate=rate(sum(row["infra_failed"] is True for row in rows), len(rows)),
        scaffold_loss_rate=rate(lost, len(ended)),
        reference_scaffold_loss_rate=rate(worded - words[StopReason.SUBMITTED], worded),
        stop_reasons=_crossed(rows),
        reference_stop_reasons={word: words[word] for word in sorted(words) if words[word]},
        issues=_counted(code for row in rows for code in row["issues"] or ()),
        max_tokens=max_tokens,
        calls_at_cap=_at_cap(calls.calls_at_cap, calls.calls, max_tokens),
        records_at_cap=_at_cap(calls.records_at_cap, calls.records_with_calls, max_tokens),
        funnel=_funnel(rows, calls),
        tokens=_totals(lazy),
        health=calls.health,
        tasks=by_task(rows, measured),
        groups=groups,
        pass_at_k=pass_rates(groups),
    )


def measured_row(row: Mapping[str, Any]) -> bool:
    """Graded, and the grade counts."""
    return is_measured(
        row["reward"],
        row["reward_valid"],
        infra_failed=row["infra_failed"],
        issues=row["issues"] or (),
    )


def _at_cap(n: int, of: int, max_tokens: int | None) -> Rate:
    """Unknown without a cap to compare with."""
    return rate(n, 0 if max_tokens is None else of)


def _scores(rows: Iterable[Mapping[str, Any]]) -> Iterable[float]:
    for row in rows:
        tests = row["tests"]
        if tests is not None and tests["resolved"]:
            yield tests["passed"] / tests["resolved"]


def _spanless(rows: Iterable[Mapping[str, Any]], with_spans: list[bool]) -> dict[str, int]:
    """Records without spans by the one reason that comes first; the counts sum to all of them."""
    reasons = []
    for row, has in zip(rows, with_spans, strict=True):
        if not has:
            found = set(row["issues"] or ())
            reasons.append(next((r.value for r in SPANLESS_REASONS if r in found), NO_REASON))
    return _counted(reasons)


def _crossed(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    pairs = Counter((row["stop_reason"] or "unknown", row["completion"] or "none") for row in rows)
    words = sorted({word for word, _ in pairs})
    return {
        word: {done: n for (stop, done), n in sorted(pairs.items()) if stop == word}
        for word in words
    }


def _counted(values: Iterable[str]) -> dict[str, int]:
    """Counts, the largest first."""
    counts = Counter(values)
    return {key: counts[key] for key in sorted(counts, key=lambda key: (-counts[key], key))}


def _funnel(rows: list[dict[str, Any]], calls: CallStats) -> Funnel:
    scored = calls.with_logprobs
    return Funnel(
        records=len(rows),
        with_spans=sum(calls.with_spans),
        with_tokens=sum((row["output_tokens"] or 0) > 0 for row in rows),
        with_logprobs=sum(scored),
        measured_with_logprobs=sum(
            has and measured_row(row) for row, has in zip(rows, scored, strict=True)
        ),
        sampled_tokens=calls.health.sampled_tokens,
        sampled_tokens_with_logprobs=calls.health.scored_tokens,
    )


def _totals(frame: pl.LazyFrame) -> TokenTotals:
    names = {
        "calls": "n_calls",
        "fragments": "fragments",
        "input": "input_tokens",
        "output": "output_tokens",
        "total": "total_tokens",
        "prompt": "prompt_tokens",
        "subagent": "subagent_tokens",
    }
    known = pl.col("expansion") > 0
    sums = frame.select(
        *[pl.col(column).cast(pl.Int64).sum().alias(name) for name, column in names.items()],
        longest=(pl.col("total_tokens") / pl.col("expansion")).filter(known).sum(),
    ).collect()
    totals = {name: int(sums[name][0]) for name in names}
    longest = sums["longest"][0]
    return TokenTotals(**totals, expansion=totals["total"] / longest if longest else None)
