"""Tables for notebooks, safe wherever their text came from."""

from collections.abc import Sequence

from wmo_distill.visible import visible

Cell = str | int | float | None
_LONGEST = 300
_MOST = 20


def facts(of: object, names: Sequence[str]) -> list[tuple[str, str]]:
    """The attributes of these names that hold something, as text."""
    values = [(name, getattr(of, name)) for name in names]
    return [(name, str(value)) for name, value in values if value not in (None, "", ())]


def html_page(title: str, *tables: str) -> str:
    """What a notebook shows: no script, no style but that of the notebook's own tables."""
    return f"<div><strong>{_cell(title)}</strong>{''.join(tables)}</div>"


def html_table(rows: Sequence[Sequence[Cell]], head: Sequence[str] = ()) -> str:
    """The first rows as a table, every cell escaped and of bounded length; "" for no rows."""
    more = [(f"and {len(rows) - _MOST:,} more",)] if len(rows) > _MOST else []
    body = "".join(f"<tr>{_cells(row, 'td')}</tr>" for row in [*rows[:_MOST], *more])
    top = f"<thead><tr>{_cells(head, 'th')}</tr></thead>" if head else ""
    return f"<table>{top}<tbody>{body}</tbody></table>" if body else ""


def _cells(row: Sequence[Cell], tag: str) -> str:
    return "".join(f"<{tag}>{_cell(cell)}</{tag}>" for cell in row)


def _cell(cell: Cell) -> str:
    from html import escape  # a millisecond of every command's start

    if cell is None:
        return ""
    if isinstance(cell, int):
        return f"{cell:,}"
    text = str(cell)
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
    return escape(visible(cut))
