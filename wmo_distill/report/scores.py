"""What there is to score, and what was scored, for people."""

from wmo_distill.report.tables import Row, page, section
from wmo_distill.scorers.run import ScorePlan, ScoreSummary


def render_plan(teacher: str, plan: ScorePlan) -> str:
    rows: list[Row] = [
        ("datums", plan.datums, f"{plan.sequences:,} different sequences"),
        ("scored before", plan.cached),
        ("requests", plan.requests),
        ("tokens", plan.tokens, f"{plan.longest:,} in the longest"),
        ("cost", None if plan.cost is None else f"{plan.cost:,.2f}"),
    ]
    return page(section(teacher, rows))


def render_scores(summary: ScoreSummary) -> str:
    rows: list[Row] = [
        ("sequences", summary.sequences, f"{summary.cached:,} scored before"),
        ("answers", summary.requests),
        ("scored", summary.scored, f"{summary.tokens:,} tokens"),
        ("repeated", summary.repeated or None),
    ]
    for fault, n in summary.faults.items():
        rows.append((f"not scored, {fault}", n, f"first: {summary.first_found[fault]}"))
    return page(section(summary.teacher, rows))
