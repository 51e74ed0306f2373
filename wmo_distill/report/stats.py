"""Rollout statistics for people; every rate shows what it is a rate of."""

from collections.abc import Mapping, Sequence

from wmo_distill.report.numbers import (
    MOST,
    below,
    cut,
    distributions,
    named,
    number,
    rate_cells,
    solved,
)
from wmo_distill.report.tables import Row, page, ranked, section, words
from wmo_distill.report.words import RECORDS
from wmo_distill.stats.context import ContextAt
from wmo_distill.stats.health import Quantiles
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.stats.slices import Slice

_RATES = (
    "solve_rate", "raw_solve_rate", "graded_solve_rate", "infra_failed_rate",
    "scaffold_loss_rate", "reference_scaffold_loss_rate",
)  # fmt: skip
_CAP_RATES = ("calls_at_cap", "records_at_cap")
_OF_RECORDS = ("trials", "records", "left_out", "measured", "infra_failed", "superseded")
_TOKENS = ("calls", "fragments", "input", "output", "total", "prompt", "subagent")
_TURNS = 8


def render_rollout_stats(stats: RolloutStats, *, most: int = MOST) -> str:
    """A sentence, and tables, one below the other; at most `most` rows of those that grow."""
    tokens, health = stats.tokens, stats.health
    shown = [name for name in _OF_RECORDS if name != "left_out" or stats.left_out]
    return page(
        _summary(stats),
        _slices(", ".join(stats.by[0].values) if stats.by else "", stats.by, most),
        section("Records", [(RECORDS[name], getattr(stats, name)) for name in shown]),
        section("Rates, 95 % intervals", _rates(stats)),
        _endings(stats.stop_reasons),
        section(RECORDS["funnel"], _funnel(stats)),
        section(
            RECORDS["tokens"],
            [
                *((RECORDS[f"tokens.{name}"], getattr(tokens, name)) for name in _TOKENS),
                (
                    RECORDS["tokens.expansion"],
                    "-" if tokens.expansion is None else f"{tokens.expansion:.2f}",
                ),
            ],
        ),
        distributions(
            {**below("distributions", stats.distributions), "staleness": stats.staleness}, RECORDS
        ),
        section(
            RECORDS["context"],
            [
                (f"{at.turn}", f"{at.episodes:,}", *map(number, (at.p10, at.p50, at.p90)))
                for at in _thinned(stats.context)
            ],
            head=("turn", "episodes", "10 %", "median", "90 %"),
        ),
        section(RECORDS["breaks"], stats.breaks.items()),
        section(
            RECORDS["health"],
            [
                (
                    RECORDS["entropy_per_token"],
                    *_spread(health.entropy_per_token, health.episode_entropy, 4),
                ),
                (
                    RECORDS["mean_generation_tokens"],
                    *_spread(health.mean_generation_tokens, health.episode_generation_tokens, 1),
                ),
            ],
            head=("", "mean", "10 %", "median", "90 % of episodes"),
        ),
        section(
            RECORDS["pass_at_k"], [(f"pass@{p.k}", *rate_cells(p.rate)) for p in stats.pass_at_k]
        ),
        *(
            _slices(name, slices, most)
            for name, slices in (
                ("format", stats.formats),
                ("agent", stats.agents),
                ("model", stats.models),
                ("policy version", stats.versions),
            )
            if len(slices) > 1
        ),
        section(
            RECORDS["tasks"],
            _tasks(stats, most),
            head=("task", "records", "measured", "solve rate", "", "interval"),
        ),
        section(RECORDS["spanless"], stats.spanless.items()),
        section(RECORDS["issues"], stats.issues.items()),
        section(
            RECORDS["worst"],
            [
                (
                    named(worst.trial_name or worst.artifact_dir, worst.step_name),
                    words(*(f"{reason} {n:,}" for reason, n in worst.reasons.items())),
                )
                for worst in stats.worst[:5]
            ],
        ),
    )


def _summary(stats: RolloutStats) -> str:
    kept = stats.funnel.with_logprobs
    chosen = f" ({stats.left_out:,} more left out by --where)" if stats.left_out else ""
    return (
        f"{stats.records:,} episodes of {stats.trials:,} trials{chosen}; "
        f"{solved(stats.solve_rate)}; {kept:,} hold log-probabilities"
    )


def _slices(title: str, slices: Sequence[Slice], most: int) -> str:
    """A table of the slices of one column, or of several."""
    rows: list[Row] = [
        (
            named(one.value),
            one.records,
            one.measured,
            *rate_cells(one.solve_rate),
            one.sampled_tokens,
            number(one.median_sampled),
            number(one.median_turns),
        )
        for one in slices
    ]
    head = (
        title, "records", "measured", "solve rate", "", "interval", "sampled", "median", "turns",
    )  # fmt: skip
    return section(f"By {title}", cut(rows, most), head=head)


def _thinned(points: Sequence[ContextAt]) -> list[ContextAt]:
    """The first and the last of them, and some between."""
    last = len(points) - 1
    if last < _TURNS:
        return list(points)
    return [points[round(i * last / (_TURNS - 1))] for i in range(_TURNS)]


def _rates(stats: RolloutStats) -> list[Row]:
    capped = f" of {stats.max_tokens:,}" if stats.max_tokens is not None else None
    rows = [(RECORDS[name], name) for name in _RATES]
    if capped is not None:
        rows += [(RECORDS[name] + capped, name) for name in _CAP_RATES]
    return [(word, *rate_cells(getattr(stats, name))) for word, name in rows]


def _endings(stops: Mapping[str, Mapping[str, int]]) -> str:
    """Stop reasons down, completion across."""
    words = ["none", "claimed", "confirmed"]
    words += sorted({done for by in stops.values() for done in by} - set(words))
    totals = {stop: sum(by.values()) for stop, by in stops.items()}
    rows: list[Row] = [
        [stop, *(stops[stop].get(done, 0) for done in words), n] for stop, n in ranked(totals)
    ]
    return section(RECORDS["stop_reasons"], rows, head=("stop reason", *words, "all"))


def _funnel(stats: RolloutStats) -> list[Row]:
    f = stats.funnel
    stages = ("with_spans", "with_tokens", "with_logprobs", "measured_with_logprobs")
    scored = f.sampled_tokens_with_logprobs
    found: list[Row] = []
    if stats.found is not None:
        account = stats.found
        lost = words(*(f"{reason} {n:,}" for reason, n in account.skipped.items()))
        calls = words(*(f"{reason} {n:,}" for reason, n in account.dropped.items()))
        found = [
            (RECORDS["found.trials"], account.trials, "", f"skipped: {lost}" if lost else ""),
            (
                RECORDS["found.calls_found"],
                account.calls_found,
                "",
                f"dropped: {calls}" if calls else "",
            ),
        ]
    return [
        *found,
        (RECORDS["funnel.records"], f.records, _share(f.records, f.records)),
        *((RECORDS[at], getattr(f, at), _share(getattr(f, at), f.records)) for at in stages),
        (RECORDS["sampled_tokens"], f.sampled_tokens, ""),
        (RECORDS["with_logprobs"], scored, _share(scored, f.sampled_tokens)),
    ]


def _spread(mean: float | None, over: Quantiles | None, digits: int) -> Row:
    quantiles = (None, None, None) if over is None else (over.p10, over.p50, over.p90)
    return ["-" if x is None else f"{x:.{digits}f}" for x in (mean, *quantiles)]


def _tasks(stats: RolloutStats, most: int) -> list[Row]:
    rows: list[Row] = [
        (
            named(task.task_id, task.step_name, of=task.origin),
            task.records,
            task.measured,
            *rate_cells(task.solve_rate),
        )
        for task in stats.tasks
    ]
    return cut(rows, most)


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "-"
