"""`wmo-distill stats`: what a dataset holds, in numbers."""

from wmo_distill.cli.flags import Dataset
from wmo_distill.cli.output import Json
from wmo_distill.operation import Options, option


class StatsOptions(Options):
    max_tokens: int | None = option(
        None, "Output cap of a call, to count the calls that reached it.", "N", ge=1
    )


def stats(out: Dataset, options: StatsOptions, printing: Json) -> None:
    """Solve rates, endings, tokens and issues; every rate with its numerator and denominator."""
    from wmo_distill.report.stats import render_rollout_stats
    from wmo_distill.shards.scan import passed_over, scan
    from wmo_distill.stats.rollout import rollout_stats

    numbers = rollout_stats(scan(out), max_tokens=options.max_tokens, superseded=passed_over(out))
    printing.put(numbers, lambda: render_rollout_stats(numbers))
