"""`wmo-distill datums`: records to training sequences."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Writing, end
from wmo_distill.cli.scoring import opened
from wmo_distill.datums.options import DatumOptions


def datums(
    source: Dataset,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DATUMS", help="Directory to write.")],
    *,
    scores: Annotated[
        Path | None,
        typer.Option(metavar="CACHE", help="Cache of `score`: advantages from a teacher."),
    ] = None,
    rescored_cache: Annotated[
        Path | None,
        typer.Option(
            "--rescored",
            metavar="CACHE",
            help="Cache of `check-logprobs --store`: the student's logprobs, asked again.",
        ),
    ] = None,
    options: DatumOptions,
    printing: Writing,
) -> None:
    """Turn the records of a dataset into training sequences, each sampled token trained once."""
    from wmo_distill.datums.shards import build_datum_shards
    from wmo_distill.report.datums import render_datum_summary

    cache = None if scores is None else opened(scores)
    again = None if rescored_cache is None else opened(rescored_cache)
    with printing.writing(out) as progress:
        summary = build_datum_shards(
            source, out, options, scores=cache, rescored=again, progress=progress
        )
    printing.put(summary, lambda: render_datum_summary(out, summary))
    if not summary.stats.datums:
        end(
            4,
            f"{out}: expected training sequences, found none of {summary.records:,} records; "
            f"`wmo-distill stats {source}` says what they hold",
        )
