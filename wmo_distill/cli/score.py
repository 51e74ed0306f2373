"""`wmo-distill score`: a teacher's log-probabilities of training sequences."""

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
    stop_says,
)

if TYPE_CHECKING:
    from wmo_distill.scorers.run import ScorePlan, ScoreSummary


def score(
    datums: Annotated[Path, typer.Argument(metavar="DATUMS", help="What `datums` wrote.")],
    cache: Annotated[
        Path, typer.Option("--cache", "-c", metavar="CACHE", help="Where scores are kept.")
    ],
    scorer: Annotated[
        str | None,
        typer.Option(metavar="|".join(KINDS), help="Who scores; echo: /v1/completions with echo."),
    ] = None,
    url: Url = None,
    model: Model = None,
    teacher: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What the scores are kept under; else the model's name."),
    ] = None,
    tokenizer: Tokenizer = None,
    top_k: Annotated[
        int, typer.Option(metavar="K", min=0, help="Keep the K likeliest tokens too.")
    ] = 0,
    concurrency: Concurrency = 8,
    timeout: Timeout = 600.0,
    attempts: Annotated[
        int, typer.Option(metavar="N", min=1, help="Tries while a server is unavailable.")
    ] = 6,
    api_key_env: ApiKeyEnv = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be asked; ask nothing.")
    ] = False,
    price: Annotated[
        float | None,
        typer.Option(metavar="X", min=0.0, help="Of a million tokens, for --dry-run."),
    ] = None,
    write_requests: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write requests for a job elsewhere; ask nothing."),
    ] = None,
    read_answers: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take that job's answers.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Fill a cache with a teacher's log-probabilities, for `datums --scores`."""
    from wmo_distill.errors import UsageError
    from wmo_distill.scorers import exchange, run
    from wmo_distill.scorers.cache import ScoreCache

    name = teacher or model
    if name is None:
        raise UsageError("--teacher: expected the name that scores are kept under, found none")
    ways = [scorer is not None, write_requests is not None, read_answers is not None]
    if sum(ways) != 1 and not (dry_run and sum(ways) <= 1):
        raise UsageError(
            "expected one of --scorer, --write-requests and --read-answers, "
            f"found {sum(ways)}; say who is to score"
        )
    run.refuse_other_tokenizer(datums, tokenizer)
    kept = ScoreCache(cache)
    if dry_run:
        plan = run.plan_scores(datums, kept, name, top_k=top_k, price=price)
        if as_json:
            put_json(plan)
        elif not quiet:
            put(_planned(name, plan))
        return
    if write_requests is not None:
        count = exchange.write_requests(datums, kept, name, write_requests, top_k=top_k)
        if not quiet:
            put(f"{count:,} requests")
        return
    if read_answers is not None:
        summary = exchange.read_answers(datums, kept, name, read_answers, top_k=top_k)
    else:
        chosen = scorer_of(
            scorer or "",
            url=url,
            model=model,
            tokenizer=tokenizer,
            api_key_env=api_key_env,
            timeout=timeout,
        )
        with (
            stop_says(lambda: f"{cache} holds {len(kept):,} scores; the same command goes on"),
            Progress("sequences", quiet=quiet) as progress,
        ):
            summary = run.score_datums(
                datums,
                kept,
                chosen,
                name,
                top_k=top_k,
                concurrency=concurrency,
                attempts=attempts,
                progress=progress,
            )
    if as_json:
        put_json(summary)
    elif not quiet:
        put(_told(summary))
    if summary.requests and not summary.scored:
        raise typer.Exit(1)


def _planned(teacher: str, plan: "ScorePlan") -> str:
    rows = [
        ("datums", f"{plan.datums:,}, {plan.sequences:,} sequences that differ"),
        ("scored before", f"{plan.cached:,}"),
        ("requests", f"{plan.requests:,}"),
        ("tokens", f"{plan.tokens:,}, the longest {plan.longest:,}"),
    ]
    if plan.cost is not None:
        rows.append(("cost", f"{plan.cost:,.2f}"))
    return f"{teacher}\n{columns(rows)}"


def _told(summary: "ScoreSummary") -> str:
    rows = [
        ("sequences", f"{summary.sequences:,}, {summary.cached:,} scored before"),
        ("answers", f"{summary.requests:,}"),
        ("scored", f"{summary.scored:,}, {summary.tokens:,} tokens"),
    ]
    if summary.repeated:
        rows.append(("repeated", f"{summary.repeated:,}"))
    for fault, n in summary.faults.items():
        rows.append((f"not scored, {fault}", f"{n:,}  first: {summary.first_found[fault]}"))
    return f"{summary.teacher}\n{columns(rows)}"
