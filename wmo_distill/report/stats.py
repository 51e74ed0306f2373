"""Rollout statistics for people; every rate shows what it is a rate of."""

from collections.abc import Mapping, Sequence

from wmo_distill.report.numbers import MOST, cut, distributions, named, number, rate_cells, solved
from wmo_distill.report.tables import Row, page, ranked, section, words
from wmo_distill.stats.context import ContextAt
from wmo_distill.stats.health import Quantiles
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.stats.slices import Slice

NAMES = {
    "sampled_tokens": "sampled tokens an episode",
    "total_tokens": "tokens an episode",
    "turns": "turns an episode",
    "agent_seconds": "agent seconds",
    "reward": "reward, measured",
    "logprob": "log-probability, of tokens",
    "episode_logprob": "log-probability, mean of episodes",
    "staleness": "training steps behind",
}
RATES = {
    "solve_rate": "solve rate (of measured)",
    "raw_solve_rate": "raw solve rate (of all)",
    "graded_solve_rate": "graded solve rate (mean of test scores)",
    "infra_failed_rate": "never run, or never graded",
    "scaffold_loss_rate": "scaffold loss (did not submit)",
    "reference_scaffold_loss_rate": "scaffold loss, reference's rule",
}
CAP_RATES = {
    "calls_at_cap": "calls at the output cap",
    "records_at_cap": "records with a call at the cap",
}
_TURNS = 8


def render_rollout_stats(stats: RolloutStats, *, most: int = MOST) -> str:
    """A sentence, and tables, one below the other; at most `most` rows of those that grow."""
    tokens, health = stats.tokens, stats.health
    spread = {**stats.distributions}
    if stats.staleness is not None:
        spread["staleness"] = stats.staleness
    return page(
        _summary(stats),
        _slices(", ".join(stats.by[0].values) if stats.by else "", stats.by, most),
        section(
            "Records",
            [
                ("trials", stats.trials),
                ("records (episodes)", stats.records),
                ("left out by --where", stats.left_out or None),
                ("measured (graded and valid)", stats.measured),
                ("never run, or never graded", stats.infra_failed),
                ("superseded regrades passed over", stats.superseded),
            ],
        ),
        section("Rates, 95 % intervals", _rates(stats)),
        _endings(stats.stop_reasons),
        section("Left for training", _funnel(stats)),
        section(
            "Tokens",
            [
                ("calls of the main chats", tokens.calls),
                ("fragments", tokens.fragments),
                ("input", tokens.input),
                ("output (sampled)", tokens.output),
                ("total", tokens.total),
                ("prompt (uncached prefill)", tokens.prompt),
                ("total of other chats", tokens.subagent),
                (
                    "expansion (of total, by breaks)",
                    "-" if tokens.expansion is None else f"{tokens.expansion:.2f}",
                ),
            ],
        ),
        distributions(spread, NAMES),
        section(
            "Prompt tokens by turn",
            [
                (f"{at.turn}", f"{at.episodes:,}", *map(number, (at.p10, at.p50, at.p90)))
                for at in _thinned(stats.context)
            ],
            head=("turn", "episodes", "10 %", "median", "90 %"),
        ),
        section("Prefix breaks", [(cause, n) for cause, n in stats.breaks.items()]),
        section(
            "Policy",
            [
                (
                    "entropy proxy, nats a token",
                    *_spread(health.entropy_per_token, health.episode_entropy, 4),
                ),
                (
                    "sampled tokens an episode",
                    *_spread(health.mean_generation_tokens, health.episode_generation_tokens, 1),
                ),
            ],
            head=("", "mean", "10 %", "median", "90 % of episodes"),
        ),
        section("pass@k", [(f"pass@{p.k}", *rate_cells(p.rate)) for p in stats.pass_at_k]),
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
            "Tasks",
            _tasks(stats, most),
            head=("task", "records", "measured", "solve rate", "", "interval"),
        ),
        section("Without spans", stats.spanless.items()),
        section("Issues", stats.issues.items()),
        section(
            "Most wrong",
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
    known = RATES
    if stats.max_tokens is not None:
        known = RATES | {key: f"{name} of {stats.max_tokens:,}" for key, name in CAP_RATES.items()}
    return [(name, *rate_cells(getattr(stats, key))) for key, name in known.items()]


def _endings(stops: Mapping[str, Mapping[str, int]]) -> str:
    """Stop reasons down, completion across."""
    words = ["none", "claimed", "confirmed"]
    words += sorted({done for by in stops.values() for done in by} - set(words))
    totals = {stop: sum(by.values()) for stop, by in stops.items()}
    rows: list[Row] = [
        [stop, *(stops[stop].get(done, 0) for done in words), n] for stop, n in ranked(totals)
    ]
    return section("Endings", rows, head=("stop reason", *words, "all"))


def _funnel(stats: RolloutStats) -> list[Row]:
    f = stats.funnel
    stages = {
        "records": f.records,
        "with spans": f.with_spans,
        "with sampled tokens": f.with_tokens,
        "with a log-probability": f.with_logprobs,
        "and measured": f.measured_with_logprobs,
    }
    scored = f.sampled_tokens_with_logprobs
    found: list[Row] = []
    if stats.found is not None:
        account = stats.found
        lost = words(*(f"{reason} {n:,}" for reason, n in account.skipped.items()))
        calls = words(*(f"{reason} {n:,}" for reason, n in account.dropped.items()))
        found = [
            ("trials found", account.trials, "", f"skipped: {lost}" if lost else ""),
            ("calls found", account.calls_found, "", f"dropped: {calls}" if calls else ""),
        ]
    return [
        *found,
        *((name, n, _share(n, f.records)) for name, n in stages.items()),
        ("sampled tokens", f.sampled_tokens, ""),
        ("with a log-probability", scored, _share(scored, f.sampled_tokens)),
    ]


def _spread(mean: float | None, over: Quantiles | None, digits: int) -> Row:
    quantiles = (None, None, None) if over is None else (over.p10, over.p50, over.p90)
    return ["-" if x is None else f"{x:.{digits}f}" for x in (mean, *quantiles)]


def _tasks(stats: RolloutStats, most: int) -> list[Row]:
    rows: list[Row] = [
        (
            named(task.task_id, task.step_name),
            task.records,
            task.measured,
            *rate_cells(task.solve_rate),
        )
        for task in stats.tasks
    ]
    return cut(rows, most)


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "-"
