"""What became of the episodes: from found to trained, solve rates, endings, passes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from wmo_distill.page.blocks import (
    Cell,
    Figure,
    Section,
    Sides,
    Table,
    colored,
    columns,
    counted,
    sentence,
    word,
)  # fmt: skip
from wmo_distill.page.charts import Bar, Estimate, bars, estimates, stacked
from wmo_distill.page.numbers import NONE, Numbers, Path
from wmo_distill.page.svg import inline_svg

MOST_DRAWN = 30
MOST_LISTED = 100
COMPLETION = {"none": "var(--c1)", "claimed": "var(--c2)", "confirmed": "var(--c3)"}


def rate_cells(side: Numbers, path: Path) -> list[Cell]:
    """A rate, what it is the rate of, and its interval."""
    if side.find(path) is None:
        return ["", "", ""]
    return [side.rate(path), side.share(path), side.interval(path)]


Stages = Mapping[str, tuple[Path, Path]]
"""By name a count and what it is a part of."""


def funnel(sides: Sides, stages: Stages, caption: Callable[[Numbers], Markup]) -> Figure:
    """How many are left at each stage."""
    known = {n: p for n, p in stages.items() if all(s.find(p[0]) is not None for s in sides)}
    charts = [
        inline_svg(
            bars([Bar(n, s.at(part), s.at(whole)) for n, (part, whole) in known.items()], color),
            f"funnel-{at}",
            f"{s.label} From found to trained".strip(),
            "A bar a stage over what it is a part of.",
        )
        for at, (s, color) in enumerate(colored(sides))
    ]
    table = parts("What is left at each stage", "stage", known, sides)
    return Figure("Left for training", charts, sentence(sides, caption), table, is_open=True)


def parts(caption: str, head: str, stages: Stages, sides: Sides) -> Table:
    """A count and what it is a part of, a row each."""

    def cell(side: Numbers, name: str) -> Cell:
        part, whole = stages[name]
        return NONE if side.find(part) is None else side.of(part, whole)

    return columns(caption, head, [(name, name) for name in stages], sides, cell, "left of all")


def reasons(sides: Sides, caption: str, path: Path, of: str) -> list[Table]:
    """A table where there is something to count."""
    return [counted(caption, "reason", path, sides, of)] if any(s.find(path) for s in sides) else []


def rates(sides: Sides, named: Mapping[str, Path], caption: Callable[[Numbers], Markup]) -> Figure:
    """The rates that have a denominator."""
    known = [
        (name, path)
        for name, path in named.items()
        if any(side.find(f"{path}.denominator") for side in sides)
    ]
    charts = [
        inline_svg(
            estimates([estimate(s, name, path) for name, path in known], color, (0, 1)),
            f"rates-{at}",
            f"{s.label} Rates with 95 % intervals".strip(),
            "A dot a rate, a line over its Wilson interval, from 0 to 1.",
        )
        for at, (s, color) in enumerate(colored(sides))
        if known
    ]
    table = rate_table("Rates with 95 % Wilson intervals", "what", known, sides)
    return Figure("Rates", charts, sentence(sides, caption), table, is_open=True)


def estimate(side: Numbers, name: str, path: Path) -> Estimate:
    """A rate as a chart takes it."""
    return Estimate(name, *(side.find(f"{path}.{part}") for part in ("value", "low", "high")))


def rate_table(caption: Cell, head: str, rows: Sequence[tuple[Cell, Path]], sides: Sides) -> Table:
    """A rate a row: its value, what it is the rate of, and its interval, for each side."""
    labels = [f"{side.label} " if side.label else "" for side in sides]
    heads = [f"{label}{what}" for label in labels for what in ("rate", "of", "95 % interval")]

    return Table(
        caption,
        [head, *heads],
        [
            [name, *(cell for side in sides for cell in rate_cells(side, path))]
            for name, path in rows
        ],
    )


def tasks(side: Numbers, color: str, counts: Mapping[str, str]) -> Section:
    """Solve rate by task: the tasks with most graded records, and how many tasks there are.

    `counts` gives the heads of fields that count.
    """
    every = side.at("tasks")
    order = sorted(range(len(every)), key=lambda at: (-every[at]["solve_rate"]["denominator"], at))
    drawn, listed = sorted(order[:MOST_DRAWN]), sorted(order[:MOST_LISTED])
    rows = [(task_name(every[at]), f"tasks.{at}.solve_rate") for at in drawn]
    chart = inline_svg(
        estimates([estimate(side, name, path) for name, path in rows], color, (0, 1)),
        "tasks-0",
        "Solve rate by task",
        "A dot a task, a line over its 95 % Wilson interval, from 0 to 1.",
    )
    table = Table(
        _of_all(side, "tasks", len(listed)),
        ["task", "solve rate", "of", "95 % interval", *counts.values()],
        [
            [
                task_cell(side, f"tasks.{at}"),
                *rate_cells(side, f"tasks.{at}.solve_rate"),
                *(side.number(f"tasks.{at}.{name}") for name in counts),
            ]
            for at in listed
        ],
    )
    caption = Markup("{}; {} graded in all").format(
        _of_all(side, "tasks", len(drawn)), side.number("solve_rate.denominator")
    )
    is_open = len(listed) <= MOST_DRAWN
    figure = Figure("Solve rate by task", [chart] if rows else [], caption, table, is_open=is_open)
    about = "Solved of those whose grade is valid and says passed or not."
    return Section("tasks", "Solve rate by task", about, [figure])


def _of_all(side: Numbers, path: Path, shown: int) -> Markup:
    """Such as `17 tasks`, or `30 of 5,000 tasks, those with most graded`."""
    count = side.number(f"{path}.length")
    if shown == len(side.at(path)):
        return Markup("{} tasks").format(count)
    return Markup("{} of {} tasks, those with most graded").format(shown, count)


def task_cell(side: Numbers, path: Path) -> Markup:
    """The task, its step where it has some, and its origin where another has its name."""
    name = side.text(f"{path}.task_id")
    if side.at(f"{path}.step_name") is not None:
        name = Markup("{} / {}").format(name, side.text(f"{path}.step_name"))
    if side.at(f"{path}.origin") is not None:
        name = Markup("{} ({})").format(name, side.text(f"{path}.origin"))
    return name


def task_name(task: Mapping[str, Any]) -> str:
    """The same as text, for a chart."""
    step, origin = task["step_name"], task["origin"]
    name = (task["task_id"] or "(no task)") + (f" / {step}" if step else "")
    return name + (f" ({origin})" if origin else "")


def endings(sides: Sides) -> Section:
    """Stop reasons and completion."""
    figures = [_endings(side, at) for at, side in enumerate(sides)]
    about = (
        "Why the agent's episode ended, and whether it claimed to be done and confirmed it. "
        "unknown: the evidence is missing."
    )
    return Section("endings", "How episodes ended", about, figures)


def _endings(side: Numbers, number: int) -> Figure:
    stops = side.at("stop_reasons")
    order = sorted(stops, key=lambda stop: (-sum(stops[stop].values()), stop))
    others = sorted({done for by in stops.values() for done in by} - COMPLETION.keys())
    colors = COMPLETION | dict.fromkeys(others, "var(--b)")
    chart = inline_svg(
        stacked({stop: stops[stop] for stop in order}, colors),
        f"endings-{number}",
        "Stop reasons by completion",
        "A bar a stop reason, of its records without, with claimed and with confirmed completion.",
    )
    rows = [
        [
            word(stop),
            *(side.number(f"stop_reasons.{stop}.{done}") if done in stops[stop] else ""
              for done in colors),
            side.number(f"stop_reasons.{stop}.sum"),
        ]
        for stop in order
    ]  # fmt: skip
    title = f"{side.label}: stop reasons" if side.label else "Stop reasons by completion"
    table = Table("Records by stop reason and completion", ["reason", *colors, "all"], rows)
    caption = Markup("{} records").format(side.number("records"))
    key = [(color, name) for name, color in colors.items()]
    return Figure(title, [chart], caption, table, key, is_open=True)
