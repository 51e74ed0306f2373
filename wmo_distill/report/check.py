"""What a check of log-probabilities found, for people."""

from collections.abc import Sequence

from wmo_distill.report.tables import Row, page, table
from wmo_distill.scorers.report import CheckReport, Spread


def render_check(report: CheckReport) -> str:
    """The verdict and what to do, then the evidence, then the tables."""
    side = "late" if report.shift > 0 else "early"
    implausible = f"{report.implausible:,} tokens recorded at or below -1000"
    rows: list[Row] = [
        ("verdict", f"{report.verdict}: {report.action}"),
        ("explained by", report.fitted),
        ("order of filters", " or ".join(one.meaning for one in report.orders)),
        ("shift", f"{abs(report.shift)} token(s) {side}" if report.shift else None),
        ("episodes", ", ".join(report.episodes)),
        *(("clue", one) for one in report.clues),
        ("recorded as", report.claimed),
        ("compared", f"{report.tokens:,} tokens of {report.sequences:,} sequences"),
        (
            "difference",
            f"{report.mean_abs_difference:.4f} nats on average (tolerance {report.tolerance:.4g}, "
            f"{report.noise}), {report.mean_difference:+.4f} with its sign",
        ),
        ("tails", f"k3 KL {report.k3:.2g}; {report.outside:.2%} of the ratios outside [0.5, 2]"),
        ("quantiles", "  ".join(f"{float(q):.0%} {x:+.4f}" for q, x in report.quantiles.items())),
        (
            "rounded to",
            None if report.rounded_to is None else f"{report.rounded_to:g} in the records",
        ),
        ("left out", implausible if report.implausible else None),
        ("not compared", f"{report.not_compared:,} tokens" if report.not_compared else None),
        *((f"not scored, {fault}", f"{n:,}") for fault, n in report.faults.items()),
        ("stored", None if report.stored is None else f"{report.stored:,} sequences"),
        *(("cannot tell", one) for one in report.cannot_tell),
    ]
    return page(
        table(rows, indent=""),
        _spreads("by policy version", report.by_version),
        _spreads("by turn", report.by_turn),
        _spreads("by position", report.by_position),
        _spreads("worst episodes", report.worst_episodes),
    )


def _spreads(title: str, spreads: Sequence[Spread]) -> str:
    """A table where there is something to compare."""
    rows = [
        (
            one.part,
            one.tokens,
            f"{one.mean_abs_difference:.4f}",
            f"{one.mean_difference:+.4f}",
            f"{one.k3:.2g}",
            f"{one.outside:.1%}",
            f"{one.quantiles['0.05']:+.3f}",
            f"{one.quantiles['0.95']:+.3f}",
        )
        for one in spreads
    ]
    head = (title, "tokens", "mean |d|", "mean d", "k3 KL", "outside", "5%", "95%")
    return table(rows, head=head, indent="") if len(rows) > 1 else ""
