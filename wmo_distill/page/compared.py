"""Two sets of statistics: what differs, with intervals, and the tasks that both have."""

from collections.abc import Mapping

from markupsafe import Markup

from wmo_distill.page.blocks import COLORS, Cell, Figure, Section, Table
from wmo_distill.page.charts import Estimate, estimates
from wmo_distill.page.numbers import NONE, Numbers, Path
from wmo_distill.page.outcomes import MOST_DRAWN, MOST_LISTED, task_cell, task_name
from wmo_distill.page.svg import inline_svg
from wmo_distill.report.words import PARTS, RECORDS, SEQUENCES, word_of

_LEAST_RANGE = 0.1
_HEAD = ("difference", "95 % interval", "A", "of", "B", "of")


def differences(both: Numbers, rates: Mapping[str, Path]) -> Section:
    """Every rate and every median of both; `rates` are the names of rates with their paths."""
    names = {f"{path}.value": name for name, path in rates.items()}
    every = both.at("differences")
    known = [at for at, one in enumerate(every) if _is_rate(one["key"]) and one["low"] is not None]
    rows = [
        _estimate(both, f"differences.{at}", _named(both, every[at]["key"], names)) for at in known
    ]
    chart = inline_svg(
        estimates(rows, COLORS[1], _range(rows)),
        "differences",
        "Differences of rates, B less A",
        "A dot a rate, a line over Newcombe's 95 % interval; a dashed line is at no difference.",
    )
    table = Table(
        "Differences, B less A",
        ["what", *_HEAD],
        [
            [_name_cell(both, one["key"], names), *_cells(both, f"differences.{at}", one["key"])]
            for at, one in enumerate(every)
            if one["a"] is not None or one["b"] is not None
        ],
    )
    caption = Markup("A: {} graded; B: {} graded").format(
        both.number("a.solve_rate.denominator"), both.number("b.solve_rate.denominator")
    )
    figure = Figure("B less A", [chart] if rows else [], caption, table, is_open=True)
    about = "Rates with Newcombe's 95 % intervals; of a difference of medians none is known."
    return Section("differences", "Differences", about, [figure])


def paired_tasks(both: Numbers) -> Section:
    """The tasks of both, those that differ most first."""
    every = both.at("tasks")
    order = sorted(range(len(every)), key=lambda at: (-abs(every[at]["difference"] or 0), at))
    known = [at for at in order if every[at]["difference"] is not None]
    rows = [_estimate(both, f"tasks.{at}", task_name(every[at])) for at in known[:MOST_DRAWN]]
    chart = inline_svg(
        estimates(rows, COLORS[1], _range(rows)),
        "tasks-0",
        "Difference of the solve rate by task, B less A",
        "A dot a task, a line over its 95 % interval; a dashed line is at no difference.",
    )
    table = Table(
        "Solve rates of the tasks of both, those that differ most first",
        ["task", *_HEAD],
        [
            [
                task_cell(both, path),
                *_difference(both, path, rate=True),
                *(cell for side in ("a", "b")
                  for cell in (both.rate(f"{path}.{side}"), both.share(f"{path}.{side}"))),
            ]
            for path in (f"tasks.{at}" for at in order[:MOST_LISTED])
        ],
    )  # fmt: skip
    caption = Markup("Drawn: {} of {} tasks with a solve rate in both").format(
        len(rows), both.number("paired.tasks")
    )
    about = Markup(
        "{} tasks have a solve rate in both: {} better in B, {} worse, by {} in the mean of tasks "
        "(95 % interval {}). Tasks in A alone: {}; in B alone: {}; of another format or source "
        "in B: {}."
    ).format(
        both.number("paired.tasks"), both.number("paired.better"), both.number("paired.worse"),
        both.number("paired.mean_difference", 3), both.interval("paired"),
        both.number("only_a"), both.number("only_b"),
        both.number("paired.other_origins"),
    )  # fmt: skip
    is_open = len(table.rows) <= MOST_DRAWN
    figure = Figure("By task", [chart], caption, table, is_open=is_open)
    return Section("tasks", "Solve rate by task", about, [figure] if rows else [])


def _is_rate(key: str) -> bool:
    return key.endswith(".value")


def _named(both: Numbers, key: str, names: Mapping[str, str]) -> str:
    """`distributions.turns.p50` is the median of turns, `pass_at_k.2.rate.value` pass@4."""
    first, *rest = key.split(".")
    if first == "pass_at_k":
        return f"pass@{both.at(f'a.{first}.{rest[0]}.k')}"
    if first == "distributions":
        words = RECORDS if both.at("kind") == "records" else SEQUENCES
        return f"{word_of(words, key.rpartition('.')[0])}, {PARTS[rest[-1]]}"
    return names[key]


def _name_cell(both: Numbers, key: str, names: Mapping[str, str]) -> Cell:
    first, at, *_ = key.split(".")
    if first == "pass_at_k":
        return Markup("pass@{}").format(both.number(f"a.{first}.{at}.k"))
    return _named(both, key, names)


def _estimate(both: Numbers, path: Path, name: str) -> Estimate:
    return Estimate(name, *(both.at(f"{path}.{part}") for part in ("difference", "low", "high")))


def _range(rows: list[Estimate]) -> tuple[float, float]:
    """The same to both sides of no difference, so that the eye can compare."""
    ends = [abs(end) for row in rows for end in (row.low, row.high) if end is not None]
    most = max([_LEAST_RANGE, *ends])
    return -most, most


def _cells(both: Numbers, path: Path, key: str) -> list[Cell]:
    """The number under `key` in both, each with what it is over, and their difference."""
    rate = _is_rate(key)
    cells: list[Cell] = []
    for side in ("a", "b"):
        over = f"{side}.{key.rpartition('.')[0]}"
        cells.append(both.number(f"{path}.{side}", 3 if rate else None))
        cells.append(both.share(over) if rate else both.number(f"{over}.count"))
    return [*_difference(both, path, rate=rate), *cells]


def _difference(both: Numbers, path: Path, *, rate: bool) -> list[Cell]:
    return [
        both.number(f"{path}.difference", 3 if rate else None),
        both.interval(path) if both.at(f"{path}.low") is not None else NONE,
    ]
