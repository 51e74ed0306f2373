"""`wmo-distill score`: a teacher's log-probabilities of training sequences."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.flags import Datums
from wmo_distill.cli.output import Writing, end, put
from wmo_distill.cli.scoring import Server, opened, scorer_of
from wmo_distill.errors import stop_says
from wmo_distill.operation import Options, option
from wmo_distill.scorers.options import ScoreOptions


class Ways(Options):
    """What to do in place of asking a scorer."""

    dry_run: bool = option(False, "Report what would be asked; ask nothing.")
    price: float | None = option(
        None, "Price of a million tokens, for the cost in --dry-run.", "X", ge=0.0
    )
    write_requests: Path | None = option(
        None, "Write requests for a batch job to this file; ask nothing.", "FILE"
    )
    read_answers: Path | None = option(
        None, "Read the answers of that batch job from this file.", "FILE"
    )


def score(
    datums: Datums,
    cache: Annotated[
        Path, typer.Option("--cache", "-c", metavar="CACHE", help="Directory of the scores.")
    ],
    teacher: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the scores. Default: the model's name."),
    ] = None,
    *,
    server: Server,
    options: ScoreOptions,
    ways: Ways,
    printing: Writing,
) -> None:
    """Fill a cache with a teacher's log-probabilities, for `datums --scores`."""
    from wmo_distill.errors import UsageError
    from wmo_distill.report.scores import render_plan, render_scores
    from wmo_distill.scorers import exchange, run

    name = teacher or server.model
    if name is None:
        raise UsageError("--teacher: expected the name that scores are kept under, found none")
    given = [server.scorer, ways.write_requests, ways.read_answers]
    found = sum(way is not None for way in given)
    if found != 1 and not (ways.dry_run and not found):
        raise UsageError(
            "expected one of --scorer, --write-requests and --read-answers, "
            f"found {found}; name one way to get scores"
        )
    run.refuse_other_tokenizer(datums, server.tokenizer)
    kept, top_k = opened(cache), options.top_k
    if ways.dry_run:
        plan = run.plan_scores(datums, kept, name, top_k=top_k, price=ways.price)
        printing.put(plan, lambda: render_plan(name, plan))
        return
    if ways.write_requests is not None:
        count = exchange.write_requests(datums, kept, name, ways.write_requests, top_k=top_k)
        if not printing.quiet:
            put(f"{count:,} requests")
        return
    answers = ways.read_answers
    scorer = scorer_of(server) if answers is None else None
    with (
        stop_says(lambda: f"{cache} holds {len(kept):,} scores; the same command goes on"),
        printing.writing(cache) as progress,
    ):
        if answers is not None:
            summary = exchange.read_answers(datums, kept, name, answers, top_k=top_k)
        else:
            assert scorer is not None
            summary = run.score_datums(datums, kept, scorer, name, options, progress=progress)
    printing.put(summary, lambda: render_scores(summary))
    if summary.requests and not summary.scored:
        end(
            1,
            f"{cache}: expected scores, found none for {summary.requests:,} requests; the result "
            "counts the reasons, the same command asks again",
        )
