"""What a page consists of: sections of tables and figures, all of one form."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from wmo_distill.page.numbers import Numbers, Path
from wmo_distill.visible import shortened

Cell = Markup | str
Sides = Sequence[Numbers]
"""The statistics on a page: one, or two that are compared."""


@dataclass(frozen=True, slots=True)
class Table:
    """The first cell of a row names it; columns of numbers are to the right."""

    caption: Cell
    head: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    words: tuple[int, ...] = (0,)
    """Columns of words."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Charts with what they count over, and their numbers."""

    title: str
    charts: Sequence[Markup]
    caption: Cell
    table: Table
    key: Sequence[tuple[str, str]] = ()
    """(colour, what it is) of a chart with several."""
    is_open: bool = False
    """The table is next to the chart; otherwise a click shows it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence, and what is below."""

    name: str
    title: str
    about: Cell
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


COLORS = ("var(--a)", "var(--b)")


def colored(sides: Sides) -> list[tuple[Numbers, str]]:
    """The sides, each with its colour."""
    return list(zip(sides, COLORS, strict=False))


def columns(
    caption: Cell,
    head: str,
    rows: Sequence[tuple[Cell, Path]],
    sides: Sides,
    cell: Callable[[Numbers, Path], Cell] = Numbers.number,
    of: str = "records",
) -> Table:
    """A table of one number a row, with a column for each side."""
    return Table(
        caption,
        [head, *(side.label or of for side in sides)],
        [[name, *(cell(side, path) for side in sides)] for name, path in rows],
    )


def counted(caption: Cell, head: str, path: Path, sides: Sides, of: str = "records") -> Table:
    """A table of the counts of an object, the most frequent of the first side first."""
    names: dict[str, int] = {}
    for side in sides:
        for name, n in (side.find(path) or {}).items():
            names.setdefault(name, n)
    ranked = sorted(names, key=lambda name: (-names[name], name))

    def cell(side: Numbers, name: Path) -> Cell:
        found = name in (side.find(path) or {})
        return side.number(f"{path}.{name}") if found else ""

    return columns(caption, head, [(word(name), name) for name in ranked], sides, cell, of)


def word(name: str) -> Markup:
    """A word of the vocabulary, such as an issue code."""
    return Markup("<code>{}</code>").format(shortened(name))


def sentence(sides: Sides, one: Callable[[Numbers], Markup]) -> Markup:
    """A phrase of each side, with its label where there are two."""
    if len(sides) == 1:
        return one(sides[0])
    return Markup("; ").join(Markup("{}: {}").format(side.label, one(side)) for side in sides)
