"""A datum build told to people: the funnel, what was lost, and what breaks cost."""

from collections.abc import Sequence
from pathlib import Path

from wmo_distill.datums.advantages import AdvantageStats
from wmo_distill.datums.datum import BreakCause, DatumStats
from wmo_distill.datums.manifest import DatumSummary
from wmo_distill.files import path_text

FIXES: dict[BreakCause, str] = {
    BreakCause.REWRITTEN_HISTORY: "the history was edited: keep what was sent before as it was",
    BreakCause.DROPPED_COMPLETION: (
        "the template drops replies or their thinking: interleaved_thinking: true, or a template "
        "that keeps them"
    ),
    BreakCause.RETOKENIZED: "text was encoded again: send token ids back instead of text",
    BreakCause.PAST_STOP: "replies run on beyond what is kept: stop where the parser stops",
    BreakCause.SUMMARIZED: "summarization begins anew: nothing to mend, or enable_summarize: false",
    BreakCause.TRUNCATED_TURN: "replies are cut at the output cap: raise it",
    BreakCause.UNKNOWN: "no cause can be told from the ids",
}


def render_datum_summary(out: Path, summary: DatumSummary) -> str:
    """The numbers as aligned text."""
    stats = summary.stats
    kept = stats.records - sum(stats.dropped_records.values())
    lines = [
        path_text(out),
        *_table(
            [
                ("records", summary.records, ""),
                ("filtered out", summary.filtered, ""),
                ("without sampled tokens", summary.without_tokens, ""),
                ("in dropped groups", summary.dropped_groups, ""),
                *((f"dropped, {reason}", n, "") for reason, n in stats.dropped_records.items()),
                ("trained", kept, f"{summary.with_logprobs:,} hold log-probabilities"),
                ("datums", stats.datums, f"{stats.fragments:,} more than one a record"),
                *_experts(stats),
            ]
        ),
        "",
        "Sampled tokens",
        *_table(
            [
                ("trained", stats.loss_tokens, f"beside {stats.context_tokens:,} of context"),
                *((f"not trained, {reason}", n, "") for reason, n in stats.dropped_tokens.items()),
            ]
        ),
    ]
    if summary.without_advantage:
        lines += ["", _without_advantage(summary)]
    if summary.unknown_returns:
        lines += [
            "",
            f"{summary.unknown_returns:,} trained records have no return: "
            "a later step is not measured, or missing",
        ]
    if summary.teacher is not None:
        lines += ["", "Teacher", *_teacher(summary.teacher)]
    if summary.rescored is not None:
        rows = [
            ("datums with re-scored logprobs", summary.rescored, ""),
            ("not re-scored", stats.datums - summary.rescored, ""),
        ]
        lines += ["", "Student, asked again", *_table(rows)]
    if stats.breaks and summary.expansion is not None:
        lines += ["", f"Prefix breaks: {summary.expansion:.2f} times the tokens of unbroken chats"]
        lines += _table([(cause, n, FIXES[cause]) for cause, n in stats.breaks.items()])
    return "\n".join(lines)


def _without_advantage(summary: DatumSummary) -> str:
    small, n = summary.small_groups, summary.without_advantage
    reasons = [f"{small:,} in a group with fewer than 2 measured"] if small else []
    reasons += [f"{n - small:,} not measured"] if n > small else []
    return f"{n:,} trained records have no advantage from rewards: {', '.join(reasons)}"


def _experts(stats: DatumStats) -> list[tuple[str, int, str]]:
    n = stats.with_routed_experts
    return [("with routed experts", n, "")] if n else []


def _teacher(told: AdvantageStats) -> list[str]:
    rows = [
        ("datums with its advantages", told.datums, ""),
        ("not scored, no advantages", told.mismatch_drops, ""),
        ("not finite, no advantages", told.not_finite_drops, ""),
        ("clipped tokens", told.clipped_tokens, ""),
    ]
    mean, std = told.advantage_mean, told.advantage_std
    if mean is None or std is None:
        return _table(rows)
    parts = [f"  advantage {mean:+.4f} on average, deviation {std:.4f}"]
    if told.teacher_mean is not None:
        # beta x (teacher - sampled): its mean is the reverse KL with the sign turned
        own = "" if told.reward_mean is None else f", the reward's {told.reward_mean:+.4f}"
        parts.append(
            f"  before clip and centring: the teacher's part {told.teacher_mean:+.4f}{own}"
        )
    return [*_table(rows), *parts]


def _table(rows: Sequence[tuple[str, int, str]]) -> list[str]:
    shown = [(name, f"{n:,}", note) for name, n, note in rows if n or not note]
    if not shown:
        return []
    left = max(len(name) for name, _, _ in shown)
    right = max(len(n) for _, n, _ in shown)
    return [f"  {name:<{left}}  {n:>{right}}  {note}".rstrip() for name, n, note in shown]
