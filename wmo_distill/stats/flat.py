"""Models as flat tables: the path of a number in the JSON is its key everywhere."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from wmo_distill.stats.compare import Comparison
from wmo_distill.stats.datums import SequenceStats
from wmo_distill.stats.rollout import RolloutStats
from wmo_distill.visible import visible

Scalar = bool | int | float | str | None
_RATE = ("value", "numerator", "denominator", "low", "high")


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Scalar]]:
    """The values of a model's JSON by their paths, such as `tasks.3.solve_rate.value`."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    inner: Iterable[tuple[Any, Any]]
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    else:
        yield path, value
        return
    for key, one in inner:
        yield from flat(one, f"{path}.{key}" if path else str(key))


def table_of(stats: RolloutStats | SequenceStats | Comparison) -> tuple[Sequence[str], list[Any]]:
    """(head, rows): the slices of `--by`, the differences of two datasets, else key and value."""
    if isinstance(stats, Comparison):
        rows = [one.model_dump() for one in stats.differences]
        return list(rows[0]), [list(row.values()) for row in rows]
    if isinstance(stats, RolloutStats) and stats.by:
        rows = []
        for one in stats.by:
            row = one.model_dump(exclude={"value", "values", "solve_rate"})
            solved = one.solve_rate.model_dump()
            rates = {f"solve_rate.{name}": solved[name] for name in _RATE}
            rows.append({**one.values, **row, **rates})
        return list(rows[0]), [list(row.values()) for row in rows]
    return ("key", "value"), [list(pair) for pair in flat(stats)]


def as_csv(head: Sequence[str], rows: Iterable[Sequence[Scalar]]) -> str:
    """Comma-separated values; numbers as in JSON, null is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(["" if cell is None else _cell(cell) for cell in row] for row in rows)
    return text.getvalue()


def _cell(cell: Scalar) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    text = repr(cell) if isinstance(cell, int | float) else str(cell)
    return visible(text)
