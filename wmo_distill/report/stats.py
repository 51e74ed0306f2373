"""Rollout statistics for people; every rate shows what it is a rate of."""

from collections.abc import Mapping

from wmo_distill.report.tables import Row, page, ranked, section
from wmo_distill.stats.health import Quantiles
from wmo_distill.stats.rates import Rate
from wmo_distill.stats.rollout import RolloutStats


def render_rollout_stats(stats: RolloutStats, *, most: int = 20) -> str:
    """Tables, one below the other; at most `most` tasks are listed."""
    tokens, health = stats.tokens, stats.health
    return page(
        section(
            "Records",
            [
                ("trials", stats.trials),
                ("records (episodes)", stats.records),
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
                ("expansion", "-" if tokens.expansion is None else f"{tokens.expansion:.2f}"),
            ],
        ),
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
        section("pass@k", [(f"pass@{p.k}", *_rate(p.rate)) for p in stats.pass_at_k]),
        section(
            "Tasks",
            _tasks(stats, most),
            head=("task", "records", "measured", "solve rate", "", "interval"),
        ),
        section("Without spans", stats.spanless.items()),
        section("Issues", stats.issues.items()),
    )


def _rate(rate: Rate) -> Row:
    """Value, fraction and interval; a dash where nothing was counted."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "-", f"{rate.numerator:g}/{rate.denominator}", ""
    whole = rate.numerator == int(rate.numerator)
    numerator = f"{int(rate.numerator)}" if whole else f"{rate.numerator:.4g}"
    interval = f"[{rate.low:.3f}, {rate.high:.3f}]"
    return f"{rate.value:.3f}", f"{numerator}/{rate.denominator}", interval


def _rates(stats: RolloutStats) -> list[Row]:
    rates = {
        "solve rate (of measured)": stats.solve_rate,
        "raw solve rate (of all)": stats.raw_solve_rate,
        "graded solve rate (mean of test scores)": stats.graded_solve_rate,
        "never run, or never graded": stats.infra_failed_rate,
        "scaffold loss": stats.scaffold_loss_rate,
        "scaffold loss, reference's rule": stats.reference_scaffold_loss_rate,
    }
    if stats.max_tokens is not None:
        rates[f"calls at the cap of {stats.max_tokens}"] = stats.calls_at_cap
        rates["records with a call at the cap"] = stats.records_at_cap
    return [(name, *_rate(rate)) for name, rate in rates.items()]


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
    return [
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
            (task.task_id or "(no task)") + (f" / {task.step_name}" if task.step_name else ""),
            task.records,
            task.measured,
            *_rate(task.solve_rate),
        )
        for task in stats.tasks[:most]
    ]
    if len(stats.tasks) > most:
        rows.append([f"and {len(stats.tasks) - most:,} more"])
    return rows


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "-"
