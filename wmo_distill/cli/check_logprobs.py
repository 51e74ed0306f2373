"""`wmo-distill check-logprobs`: do the recorded log-probabilities belong to this model?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Progress, columns, put, put_json
from wmo_distill.cli.scoring import KINDS, scorer_of

if TYPE_CHECKING:
    from wmo_distill.scorers.check import CheckReport

MEANINGS = {
    "agrees": "the recorded log-probabilities are this model's",
    "temperature": "the tokens were sampled at another temperature than the rows say: declare it",
    "filtered": "the tokens were sampled with a filter that the rows do not name: declare it",
    "processed": "recorded after temperature and filters: declare logprob_mode=processed and them, "
    "or have the sampler record raw ones",
    "raw": "recorded before temperature and filters: declare logprob_mode=raw",
    "shifted": "recorded beside a neighbouring token: mend the recorder, train nothing of this",
    "template": "first turns agree and later ones do not: the model was given other prompts than "
    "were recorded, such as a chat template that drops thinking",
    "tokenizer": "the ids make no sense to this model: another tokenizer, or another model",
    "weights": "much alike, but not the same weights: a stale or newer policy, or another "
    "precision; name its version",
}


def check_logprobs(
    datums: Annotated[Path, typer.Argument(metavar="DATUMS", help="What `datums` wrote.")],
    scorer: Annotated[
        str,
        typer.Option(metavar="|".join(KINDS), help="How the student is served."),
    ] = "vllm",
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server, such as http://localhost:8000.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="The model to ask for, or a tinker:// path.")
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The server's: another than the rows' is refused."),
    ] = None,
    sample: Annotated[int, typer.Option(metavar="N", min=1, help="Sequences to score again.")] = 64,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the sample.")] = 0,
    top_k: Annotated[
        int,
        typer.Option(
            metavar="K", min=0, help="Likeliest tokens to ask for; 0: temperatures stay untold."
        ),
    ] = 20,
    tolerance: Annotated[
        float,
        typer.Option(metavar="X", min=0.0, help="Mean difference, in nats, that is no fault."),
    ] = 0.05,
    concurrency: Annotated[
        int, typer.Option(metavar="N", min=1, help="Requests that run at once.")
    ] = 8,
    timeout: Annotated[
        float, typer.Option(metavar="S", min=0.001, help="Seconds that one request may take.")
    ] = 600.0,
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="VAR", help="The environment variable that holds the server's key."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Score a sample again by the student's own server, and name what is wrong (exit code 1)."""
    from wmo_distill.scorers.check import check_logprobs as check

    chosen = scorer_of(
        scorer,
        url=url,
        model=model,
        tokenizer=tokenizer,
        api_key_env=api_key_env,
        timeout=timeout,
        concurrency=concurrency,
    )
    progress = Progress("sequences", quiet=quiet)
    try:
        report = check(
            datums,
            chosen,
            sample=sample,
            seed=seed,
            top_k=0 if scorer == "echo" else top_k,
            tolerance=tolerance,
            concurrency=concurrency,
            progress=progress,
        )
    finally:
        progress.close()
    if as_json:
        put_json(report)
    elif not quiet:
        put(_told(report))
    if report.verdict != "agrees":
        raise typer.Exit(1)


def _told(report: "CheckReport") -> str:
    spread = "  ".join(f"{float(q):.0%} {x:+.4f}" for q, x in report.quantiles.items())
    rows = [
        ("compared", f"{report.tokens:,} tokens of {report.sequences:,} sequences"),
        ("recorded as", report.claimed),
        (
            "difference",
            f"{report.mean_abs_difference:.4f} nats, {report.mean_difference:+.4f} with its sign",
        ),
        ("quantiles", spread),
    ]
    if report.fitted is not None:
        rows.append(("explained by", report.fitted))
    if report.shift:
        side = "late" if report.shift > 0 else "early"
        rows.append(("shift", f"{abs(report.shift)} {side}"))
    rows += [(f"not scored, {fault}", f"{n:,}") for fault, n in report.faults.items()]
    return f"{report.verdict}: {MEANINGS[report.verdict]}\n{columns(rows)}"
