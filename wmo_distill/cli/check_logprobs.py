"""`wmo-distill check-logprobs`: do the recorded log-probabilities belong to this model?"""

from typing import TYPE_CHECKING

import typer

from wmo_distill.cli.flags import Datums
from wmo_distill.cli.output import Printing, Progress, columns, printable
from wmo_distill.cli.scoring import Kind, Server, scorer_of
from wmo_distill.operation import option
from wmo_distill.scorers.options import CheckOptions

if TYPE_CHECKING:
    from wmo_distill.scorers.report import CheckReport, Spread


class Student(Server):
    scorer: Kind = option(Kind.VLLM, "What serves the student.")


def check_logprobs(
    datums: Datums, server: Student, options: CheckOptions, printing: Printing
) -> None:
    """Re-score a sample with the student's own server; name the fault, if any (exit code 1)."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers.check import check_logprobs as check

    if options.name is not None and options.store is None:
        raise UsageError("--name: expected --store too, found none; it names what --store keeps")
    options = CheckOptions.of(
        options,
        name=options.name or server.model,
        top_k=0 if server.scorer is Kind.ECHO else options.top_k,
    )
    if options.store is not None and options.name is None:
        raise UsageError("--name: expected the name that --store keeps values under, found none")
    scorer = scorer_of(server, options.concurrency)
    with Progress("sequences", quiet=printing.quiet) as progress:
        report = check(datums, scorer, options, progress=progress)
    printing.put(report, lambda: render(report))
    if report.verdict != "agrees":
        raise typer.Exit(1)


def render(report: "CheckReport") -> str:
    """The verdict and what to do, then the evidence, then the tables."""
    rows = [("verdict", f"{report.verdict}: {report.action}")]
    if report.fitted is not None:
        rows.append(("explained by", report.fitted))
    if report.orders:
        names = " or ".join(one.meaning for one in report.orders)
        rows.append(("order of filters", names))
    if report.shift:
        side = "late" if report.shift > 0 else "early"
        rows.append(("shift", f"{abs(report.shift)} token(s) {side}"))
    if report.episodes:
        rows.append(("episodes", printable(", ".join(report.episodes))))
    rows += [("clue", printable(one)) for one in report.clues]
    rows += [
        ("recorded as", report.claimed),
        ("compared", f"{report.tokens:,} tokens of {report.sequences:,} sequences"),
        (
            "difference",
            f"{report.mean_abs_difference:.4f} nats on average (tolerance {report.tolerance:.4g}, "
            f"{report.noise}), {report.mean_difference:+.4f} with its sign",
        ),
        (
            "tails",
            f"k3 KL {report.k3:.2g}; {report.outside:.2%} of the ratios outside [0.5, 2]",
        ),
        ("quantiles", "  ".join(f"{float(q):.0%} {x:+.4f}" for q, x in report.quantiles.items())),
    ]
    if report.rounded_to is not None:
        rows.append(("rounded to", f"{report.rounded_to:g} in the records"))
    if report.implausible:
        rows.append(("left out", f"{report.implausible:,} tokens recorded at or below -1000"))
    if report.not_told:
        rows.append(("not told", f"{report.not_told:,} tokens"))
    rows += [(f"not scored, {fault}", f"{n:,}") for fault, n in report.faults.items()]
    if report.stored is not None:
        rows.append(("stored", f"{report.stored:,} sequences"))
    rows += [("cannot tell", one) for one in report.cannot_tell]
    parts = [columns(rows, indent="")]
    for title, table in (
        ("by policy version", report.by_version),
        ("by turn", report.by_turn),
        ("by position", report.by_position),
        ("worst episodes", report.worst_episodes),
    ):
        if len(table) > 1:
            parts.append(_table(title, table))
    return "\n\n".join(parts)


def _table(title: str, table: "list[Spread]") -> str:
    head = (title, "tokens", "mean |d|", "mean d", "k3 KL", "outside", "5%", "95%")
    rows = [
        (
            printable(one.part),
            f"{one.tokens:,}",
            f"{one.mean_abs_difference:.4f}",
            f"{one.mean_difference:+.4f}",
            f"{one.k3:.2g}",
            f"{one.outside:.1%}",
            f"{one.quantiles['0.05']:+.3f}",
            f"{one.quantiles['0.95']:+.3f}",
        )
        for one in table
    ]
    return columns([head, *rows], indent="")
