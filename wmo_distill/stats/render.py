"""Rollout statistics as plain text for people; every rate shows what it is a rate of."""

from collections.abc import Iterable, Mapping, Sequence

from wmo_distill.stats.health import Quantiles
from wmo_distill.stats.rates import Rate
from wmo_distill.stats.rollout import RolloutStats

Table = Sequence[Sequence[str]]


def render_rollout_stats(stats: RolloutStats, *, most: int = 20) -> str:
    """Aligned tables, one below the other; at most `most` tasks are listed."""
    sections = [
        ("Records", _records(stats)),
        ("Rates, 95 % intervals", _rates(stats)),
        ("Endings", _endings(stats.stop_reasons)),
        ("Left for training", _funnel(stats)),
        ("Tokens", _tokens(stats)),
        ("Policy", _policy(stats)),
        ("pass@k", [[f"pass@{p.k}", *rate_cells(p.rate)] for p in stats.pass_at_k]),
        ("Tasks", _tasks(stats, most)),
        ("Without spans", _counts(stats.spanless)),
        ("Issues", _counts(stats.issues)),
    ]
    return "\n\n".join(f"{title}\n{aligned(rows)}" for title, rows in sections if rows) + "\n"


def rate_cells(rate: Rate) -> list[str]:
    """Value, fraction and interval of a rate; a dash where nothing was counted."""
    if rate.value is None or rate.low is None or rate.high is None:
        return ["-", f"{rate.numerator:g}/{rate.denominator}", ""]
    return [
        f"{rate.value:.3f}",
        f"{rate.numerator:.4g}/{rate.denominator}"
        if rate.numerator != int(rate.numerator)
        else f"{int(rate.numerator)}/{rate.denominator}",
        f"[{rate.low:.3f}, {rate.high:.3f}]",
    ]


def aligned(rows: Table) -> str:
    """Columns padded to one width; the first is left-aligned, the others right-aligned."""
    columns = max(len(row) for row in rows)
    filled = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = [max(len(row[i]) for row in filled) for i in range(columns)]
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in filled
    )


def _records(stats: RolloutStats) -> Table:
    return [
        ["trials", _n(stats.trials)],
        ["records (episodes)", _n(stats.records)],
        ["measured (graded and valid)", _n(stats.measured)],
        ["infrastructure failures", _n(stats.infra_failed)],
        ["superseded regrades passed over", _n(stats.superseded)],
    ]


def _rates(stats: RolloutStats) -> Table:
    rates = {
        "solve rate (of measured)": stats.solve_rate,
        "raw solve rate (of all)": stats.raw_solve_rate,
        "graded solve rate (mean of test scores)": stats.graded_solve_rate,
        "infrastructure failures": stats.infra_failed_rate,
        "scaffold loss": stats.scaffold_loss_rate,
        "scaffold loss, reference's rule": stats.reference_scaffold_loss_rate,
    }
    if stats.max_tokens is not None:
        rates[f"calls at the cap of {stats.max_tokens}"] = stats.calls_at_cap
        rates["records with a call at the cap"] = stats.records_at_cap
    return [[name, *rate_cells(rate)] for name, rate in rates.items()]


def _endings(stops: Mapping[str, Mapping[str, int]]) -> Table:
    """Stop reasons down, completion across."""
    if not stops:
        return []
    words = ["none", "claimed", "confirmed"]
    words += sorted({done for by in stops.values() for done in by} - set(words))
    rows = [
        [stop, *[_n(by.get(done, 0)) for done in words], _n(sum(by.values()))]
        for stop, by in sorted(stops.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    ]
    return [["stop reason", *words, "all"], *rows]


def _funnel(stats: RolloutStats) -> Table:
    f = stats.funnel
    stages = {
        "records": f.records,
        "with spans": f.with_spans,
        "with sampled tokens": f.with_tokens,
        "with log-probabilities": f.with_logprobs,
        "and measured": f.measured_with_logprobs,
    }
    rows = [[name, _n(n), _share(n, f.records)] for name, n in stages.items()]
    rows.append(["sampled tokens", _n(f.sampled_tokens), ""])
    scored = f.sampled_tokens_with_logprobs
    rows.append(["with log-probabilities", _n(scored), _share(scored, f.sampled_tokens)])
    return rows


def _tokens(stats: RolloutStats) -> Table:
    t = stats.tokens
    return [
        ["calls of the main chats", _n(t.calls)],
        ["fragments", _n(t.fragments)],
        ["input", _n(t.input)],
        ["output (sampled)", _n(t.output)],
        ["total", _n(t.total)],
        ["prompt (uncached prefill)", _n(t.prompt)],
        ["subagent", _n(t.subagent)],
        ["expansion", "-" if t.expansion is None else f"{t.expansion:.2f}"],
    ]


def _policy(stats: RolloutStats) -> Table:
    h = stats.health
    return [
        ["", "mean", "10 %", "median", "90 % of episodes"],
        ["entropy proxy, nats a token", *_spread(h.entropy_per_token, h.episode_entropy, 4)],
        [
            "sampled tokens an episode",
            *_spread(h.mean_generation_tokens, h.episode_generation_tokens, 1),
        ],
    ]


def _spread(mean: float | None, over: Quantiles | None, digits: int) -> list[str]:
    quantiles = (None, None, None) if over is None else (over.p10, over.p50, over.p90)
    return ["-" if x is None else f"{x:.{digits}f}" for x in (mean, *quantiles)]


def _tasks(stats: RolloutStats, most: int) -> Table:
    if not stats.tasks:
        return []
    rows = [["task", "records", "measured", "solve rate", "", "interval"]]
    for task in stats.tasks[:most]:
        name = task.task_id or "(no task)"
        name += f" / {task.step_name}" if task.step_name is not None else ""
        solved = rate_cells(task.solve_rate)
        rows.append([_printable(name), _n(task.records), _n(task.measured), *solved])
    if len(stats.tasks) > most:
        rows.append([f"and {_n(len(stats.tasks) - most)} more"])
    return rows


def _counts(counts: Mapping[str, int]) -> Table:
    return [[name, _n(n)] for name, n in counts.items()]


def _n(value: int) -> str:
    return f"{value:,}"


def _share(n: int, of: int) -> str:
    return f"{n / of:.1%}" if of else "-"


def _printable(text: Iterable[str]) -> str:
    """Names come from trials: control characters must not reach a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)
