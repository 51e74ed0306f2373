"""`wmo-distill check-logprobs`: do the recorded log-probabilities belong to this model?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wmo_distill.cli.output import Progress, columns, put, put_json
from wmo_distill.cli.scoring import (
    KINDS,
    ApiKeyEnv,
    Concurrency,
    Model,
    Timeout,
    Tokenizer,
    Url,
    scorer_of,
)

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
    "untold": "too little to tell: few tokens, or a law that reaches past the listed tokens; "
    "raise --sample, or --top-k",
}


def check_logprobs(
    datums: Annotated[Path, typer.Argument(metavar="DATUMS", help="What `datums` wrote.")],
    scorer: Annotated[
        str,
        typer.Option(metavar="|".join(KINDS), help="How the student is served."),
    ] = "vllm",
    url: Url = None,
    model: Model = None,
    tokenizer: Tokenizer = None,
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
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    api_key_env: ApiKeyEnv = None,
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
    with Progress("sequences", quiet=quiet) as progress:
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
