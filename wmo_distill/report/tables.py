"""The one renderer of tables for people, and how numbers, sizes and counts are written."""

import re
from collections.abc import Iterable, Mapping, Sequence

from wmo_distill.display import Cell as Cell
from wmo_distill.visible import visible

Row = Sequence[Cell]

_NUMERIC = re.compile(r"[\d.,/%+\-\[\]e ]+")


def table(rows: Iterable[Row], *, head: Row = (), indent: str = "  ") -> str:
    """Rows with aligned columns: numbers to the right, the first column and words to the left.

    A row whose cells after the first are all empty is left out; "" for no rows.
    """
    body = [[_text(cell) for cell in row] for row in rows]
    body = [row for row in body if len(row) == 1 or any(row[1:])]
    if not body:
        return ""
    lines = [[_text(cell) for cell in head], *body] if head else body
    columns = max(map(len, lines))
    lines = [row + [""] * (columns - len(row)) for row in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        at > 0 and all(_NUMERIC.fullmatch(row[at]) for row in body if len(row) > at and row[at])
        for at in range(columns)
    ]
    return "\n".join(
        (indent + "  ".join(_padded(*one) for one in zip(row, widths, right, strict=True))).rstrip()
        for row in lines
    )


def section(title: str, rows: Iterable[Row], *, head: Row = ()) -> str:
    """A table below its title, "" for no rows."""
    shown = table(rows, head=head)
    return shown and f"{visible(title)}\n{shown}"


def page(*sections: str) -> str:
    """Those that are not empty, one below the other."""
    return "\n\n".join(one for one in sections if one) + "\n"


def counts(numbers: Mapping[str, int]) -> str:
    """Such as `submitted 34, budget 4`: the most frequent first."""
    return ", ".join(f"{name} {n:,}" for name, n in ranked(numbers))


def ranked(numbers: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, and then by name."""
    return sorted(numbers.items(), key=lambda item: (-item[1], item[0]))


def words(*some: str | None) -> str:
    """Those that there are, with commas."""
    return ", ".join(word for word in some if word)


def size(n: float) -> str:
    """A number of bytes, such as `11.3 MB`; MB = 1e6 bytes."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n >= scale:
            return f"{n / scale:,.1f} {unit}"
    return f"{n:.0f} B"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    return visible(cell) if isinstance(cell, str) else f"{cell:,}"


def _padded(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)
