"""`wmo-distill stats`: what a dataset holds, in numbers."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Json, put
from wmo_distill.errors import UsageError
from wmo_distill.operation import Options, option


class Counted(Options):
    """What is counted, here and in `report`."""

    max_tokens: int | None = option(
        None, "Output cap of a call, to count the calls that reached it.", "N", ge=1
    )
    by: tuple[str, ...] = option(
        (), "Split by this column, or by several with commas. May be repeated.", "COLUMN"
    )
    where: str | None = option(
        None,
        "Count only rows for which this is true, in polars' SQL: 'reward < 1 AND n_calls > 20'.",
        "EXPRESSION",
    )


class StatsOptions(Counted):
    csv: bool = option(
        False, "Print comma-separated values: the table of --by or of two, else key and value."
    )


def stats(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="What `build` or `datums` wrote.")],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="OTHER", help="Another of the same kind, to compare with."),
    ] = None,
    *,
    options: StatsOptions,
    printing: Json,
) -> None:
    """Solve rates, endings, tokens and issues; every rate with its numerator and denominator."""
    from wmo_distill.report.datum_stats import render_comparison, render_datum_stats
    from wmo_distill.report.stats import render_rollout_stats
    from wmo_distill.stats.compare import compare, stats_of
    from wmo_distill.stats.flat import as_csv, table_of
    from wmo_distill.stats.rollout import RolloutStats

    if options.csv and printing.as_json:
        raise UsageError("--csv: expected one form of output, found --json too; leave one out")
    one, *others = (
        stats_of(path, max_tokens=options.max_tokens, by=options.by, where=options.where)
        for path in (out, other)
        if path is not None
    )
    both = compare(one, others[0]) if others else None
    if options.csv:
        put(as_csv(*table_of(one if both is None else both)))
    elif both is not None:
        printing.put(both, lambda: render_comparison(both, (str(out), str(other))))
    elif isinstance(one, RolloutStats):
        printing.put(one, lambda: render_rollout_stats(one))
    else:
        printing.put(one, lambda: render_datum_stats(one))
