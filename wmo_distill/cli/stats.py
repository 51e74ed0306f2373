"""`wmo-distill stats`: what a dataset holds, in numbers."""

from pathlib import Path
from typing import Annotated

import typer

from wmo_distill.cli.output import put, put_json


def stats(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A dataset that `build` wrote.")],
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The output cap of a call: count the calls that reached it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Solve rates, endings, tokens and issues; every rate with its numerator and denominator."""
    from wmo_distill.shards.scan import passed_over, scan
    from wmo_distill.stats.render import render_rollout_stats
    from wmo_distill.stats.rollout import rollout_stats

    numbers = rollout_stats(scan(out), max_tokens=max_tokens, superseded=passed_over(out))
    if as_json:
        put_json(numbers)
    else:
        put(render_rollout_stats(numbers))
