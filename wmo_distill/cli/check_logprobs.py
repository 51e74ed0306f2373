"""`wmo-distill check-logprobs`: do the recorded log-probabilities belong to this model?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Progress, columns, printable, put, put_json
from wmo_distill.cli.scoring import (
    KINDS,
    ApiKeyEnv,
    Concurrency,
    Model,
    Timeout,
    Tokenizer,
    Url,
    scorer_of,
    stop_says,
)

if TYPE_CHECKING:
    from wmo_distill.scorers.report import CheckReport, Spread

NOISES = ("fp32", "bf16", "fp8", "moe")


def check_logprobs(
    datums: Annotated[Path, typer.Argument(metavar="DATUMS", help="What `datums` wrote.")],
    scorer: Annotated[
        str,
        typer.Option(metavar="|".join(KINDS), help="How the student is served."),
    ] = "vllm",
    url: Url = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of sequences to re-score.")
    ] = 64,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the choice of sequences to re-score.")
    ] = 0,
    top_k: Annotated[
        int,
        typer.Option(
            metavar="K",
            min=0,
            help="Number of likeliest tokens to ask for at each position; more are asked for where "
            "they tell too little. 0: temperature and filters are not checked.",
        ),
    ] = 20,
    noise: Annotated[
        str,
        typer.Option(
            metavar="|".join(NOISES),
            help="Numerical noise to expect between sampler and server; sets the tolerance: "
            "0.005, 0.05, 0.1, 0.1 nats. moe: mixture of experts, routing not replayed.",
        ),
    ] = "bf16",
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="X", min=0.0, help="Mean difference in nats that is no fault, whatever --noise."
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the re-scored log-probabilities here, as `score` keeps a teacher's.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Name that --store keeps them under. Default: the model's name."
        ),
    ] = None,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    api_key_env: ApiKeyEnv = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Re-score a sample with the student's own server; name the fault, if any (exit code 1)."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers.check import check_logprobs as check
    from wmo_distill.scorers.tolerance import Noise

    if noise not in NOISES:
        raise UsageError(f"--noise: expected one of {', '.join(NOISES)}, found {noise!r}")
    kept_as = name or model
    if store is not None and kept_as is None:
        raise UsageError("--name: expected the name that --store keeps values under, found none")
    if name is not None and store is None:
        raise UsageError("--name: expected --store too, found none; it names what --store keeps")
    chosen = scorer_of(
        scorer,
        url=url,
        model=model,
        tokenizer=tokenizer,
        api_key_env=api_key_env,
        timeout=timeout,
    )
    kept = "nothing is kept" if store is None else f"the scores so far are kept in {store}"
    with stop_says(lambda: kept), Progress("sequences", quiet=quiet) as progress:
        report = check(
            datums,
            chosen,
            sample=sample,
            seed=seed,
            top_k=0 if scorer == "echo" else top_k,
            noise=Noise(noise),
            tolerance=tolerance,
            concurrency=concurrency,
            store=store,
            name=kept_as or "",
            progress=progress,
        )
    if as_json:
        put_json(report)
    elif not quiet:
        put(render(report))
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
