"""The account of a datum build, for people: the funnel, what was lost, and what breaks cost."""

from pathlib import Path

from wmo_distill.datums.advantages import AdvantageStats
from wmo_distill.datums.datum import BreakCause
from wmo_distill.datums.manifest import DatumSummary
from wmo_distill.files import path_text
from wmo_distill.report.tables import Row, page, section, words

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
    BreakCause.UNKNOWN: "the ids do not show the cause",
}


def render_datum_summary(out: Path, summary: DatumSummary) -> str:
    """The numbers, each with what is next to it."""
    stats = summary.stats
    kept = stats.records - sum(stats.dropped_records.values())
    funnel: list[Row] = [
        ("records", summary.records, f"of which {summary.with_logprobs:,} hold log-probabilities"),
        ("filtered out", summary.filtered),
        ("left out by --where", summary.unselected or None),
        ("without sampled tokens", summary.without_tokens),
        ("in dropped groups", summary.dropped_groups),
        *((f"dropped, {reason}", n) for reason, n in stats.dropped_records.items()),
        ("trained", kept),
        ("datums", stats.datums, f"{stats.fragments:,} more than one a record"),
        ("with routed experts", stats.with_routed_experts or None),
    ]
    tokens: list[Row] = [
        ("trained", stats.loss_tokens, f"next to {stats.context_tokens:,} of context"),
        *((f"not trained, {reason}", n) for reason, n in stats.dropped_tokens.items()),
    ]
    rescored: list[Row] = []
    if summary.rescored is not None:
        rescored = [
            ("datums with re-scored logprobs", summary.rescored),
            ("not re-scored", stats.datums - summary.rescored),
        ]
    breaks = ""
    if stats.breaks and summary.expansion is not None:
        breaks = section(
            f"Prefix breaks: {summary.expansion:.2f} times the tokens of unbroken chats",
            [(cause, n, FIXES[cause]) for cause, n in stats.breaks.items()],
        )
    return page(
        section(path_text(out), funnel),
        section("Sampled tokens", tokens),
        _without_advantage(summary) if summary.without_advantage else "",
        f"{summary.unknown_returns:,} trained records have no return: a later step is not "
        "measured, or missing"
        if summary.unknown_returns
        else "",
        "" if summary.teacher is None else section("Teacher", _teacher(summary.teacher)),
        section("Student, re-scored", rescored),
        breaks,
    )


def _without_advantage(summary: DatumSummary) -> str:
    small, n = summary.small_groups, summary.without_advantage
    reasons = words(
        f"{small:,} in a group with fewer than 2 measured" if small else "",
        f"{n - small:,} not measured" if n > small else "",
    )
    return f"{n:,} trained records have no advantage from rewards: {reasons}"


def _teacher(stats: AdvantageStats) -> list[Row]:
    return [
        ("datums with its advantages", stats.datums),
        ("not scored, no advantages", stats.mismatch_drops),
        ("not finite, no advantages", stats.not_finite_drops),
        ("clipped tokens", stats.clipped_tokens),
        ("mean advantage", _signed(stats.advantage_mean)),
        ("its standard deviation", _signed(stats.advantage_std)),
        # beta x (teacher - sampled): its mean is the reverse KL with the sign turned
        ("before clip and centring: the teacher's part", _signed(stats.teacher_mean)),
        ("the reward's part", _signed(stats.reward_mean)),
    ]


def _signed(value: float | None) -> str | None:
    return None if value is None else f"{value:+.4f}"
