"""`wmo-distill stats`: what a dataset holds, in numbers."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import Json
from wmo_distill.operation import Options, option


class StatsOptions(Options):
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


def stats(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="What `build` or `datums` wrote.")],
    other: Annotated[
        Path | None,
        typer.Argument(metavar="[OTHER]", help="Another of the same kind, to compare with."),
    ] = None,
    *,
    options: StatsOptions,
    printing: Json,
) -> None:
    """Solve rates, endings, tokens and issues; every rate with its numerator and denominator."""
    from wmo_distill.report.stats import render_rollout_stats
    from wmo_distill.stats.compare import compare, stats_of

    given = {name: getattr(options, name) for name in ("max_tokens", "by", "where")}
    numbers = stats_of(out, **given)
    if other is not None:
        both = compare(numbers, stats_of(other, **given))
        printing.put(both, lambda: str(both))
        return
    printing.put(numbers, lambda: render_rollout_stats(numbers))  # type: ignore[arg-type]
