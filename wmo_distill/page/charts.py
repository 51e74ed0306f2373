"""The kinds of charts, drawn on a fixed frame: no size depends on fonts or on the length of names.

A chart is 360 units wide, so that its text is of the page's size on a phone and in a column.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt

from wmo_distill.visible import labels

WIDTH = 360
ROW = 20
_TAIL = 1.01
_NAMES = 152
_LONGEST = 23
"""Characters of a label in that width."""
_INK, _QUIET, _GRID = "var(--ink)", "var(--quiet)", "var(--grid)"


@dataclass(frozen=True, slots=True)
class Bar:
    """A count, and what it is a part of."""

    name: str
    count: float
    whole: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval; None where nothing was measured."""

    name: str
    value: float | None
    low: float | None
    high: float | None


def bars(rows: Sequence[Bar], color: str) -> alt.LayerChart:
    """Horizontal bars over what they are a part of."""
    names = _Names([row.name for row in rows])
    values = [names.row(at, count=r.count, whole=r.whole) for at, r in enumerate(rows)]
    base = _chart(values)
    y = _y(len(rows))
    x = alt.Scale(domain=[0, max([1, *(row.whole for row in rows)])])
    thick = {"y": alt.Y("top:Q", **y), "y2": "bottom:Q", "x2": alt.X2Datum(0)}
    whole = base.mark_rect(color=_GRID).encode(x=_x("whole", x), **thick)
    count = base.mark_rect(color=color).encode(x=_x("count", x), **thick)
    return _framed([whole, count, _names(base, y)], ROW * len(rows), left=_NAMES, names=names)


def estimates(rows: Sequence[Estimate], color: str, domain: tuple[float, float]) -> alt.LayerChart:
    """A dot a row with a line over its interval."""
    names = _Names([row.name for row in rows])
    values = [names.row(at, value=r.value, low=r.low, high=r.high) for at, r in enumerate(rows)]
    base = _chart(values)
    known = base.transform_filter("isValid(datum.value)")
    x, y = alt.Scale(domain=list(domain)), _y(len(rows))
    line = known.mark_rule(color=color, strokeWidth=2, opacity=0.5).encode(
        x=_x("low", x), x2="high:Q", y=alt.Y("row:Q", **y)
    )
    dot = known.mark_circle(color=color, size=48, opacity=1).encode(
        x=_x("value", x), y=alt.Y("row:Q", **y)
    )
    layers = [line, dot, _names(base, y)]
    if domain[0] < 0 < domain[1]:
        zero = _chart([{"at": 0}]).mark_rule(color=_QUIET, strokeDash=[3, 3])
        layers.insert(0, zero.encode(x=_x("at", x)))
    return _framed(layers, ROW * len(rows), left=_NAMES, names=names)


def stacked(rows: Mapping[str, Mapping[str, float]], colors: Mapping[str, str]) -> alt.LayerChart:
    """A bar a row of the parts that it consists of, in the order of `colors`."""
    names, values = _Names(list(rows)), []
    for at, parts in enumerate(rows.values()):
        start = 0.0
        for part in colors:
            end = start + parts.get(part, 0)
            values.append(names.row(at, part=part, start=start, end=end))
            start = end
    x = alt.Scale(domain=[0, max([1.0, *(one["end"] for one in values)])])
    y = _y(len(rows))
    fill = alt.Color(
        "part:N", legend=None, scale=alt.Scale(domain=list(colors), range=list(colors.values()))
    )
    drawn = _chart(values).mark_rect()
    drawn = drawn.encode(
        x=_x("start", x), x2="end:Q", y=alt.Y("top:Q", **y), y2="bottom:Q", color=fill
    )
    named = _names(_chart([names.row(at) for at in range(len(rows))]), y)
    return _framed([drawn, named], ROW * len(rows), left=_NAMES, names=names)


def histogram(
    edges: Sequence[float],
    counts: Sequence[int],
    color: str,
    domain: tuple[float, float],
    median: float | None,
) -> alt.LayerChart:
    """Counts between edges, which `drawn_edges` gave, and a line at the median.

    A bin that holds all beyond the others is pale.
    """
    inner = drawn_edges(edges)
    values = [
        {"low": low, "high": high, "count": n, "whole": (low, high) == bin_}
        for (low, high), bin_, n in zip(pairwise(inner), pairwise(edges), counts, strict=True)
    ]
    whole = domain if all(edge == int(edge) for edge in edges) else None
    x, axis = alt.Scale(domain=list(domain), nice=False), _axis(5, grid=False, whole=whole)
    most = 1.06 * max([1, *counts])
    y = alt.Y("count:Q", scale=alt.Scale(domain=[0, most]), axis=_axis(3, whole=(0, most)))
    bins = _chart(values).mark_rect(color=color)
    pale = alt.condition("datum.whole", alt.value(1), alt.value(0.4))
    drawn = bins.encode(x=_x("low", x, axis), x2="high:Q", y=y, y2=alt.Y2Datum(0), opacity=pale)
    at = _chart([{"at": median}] if median is not None else [])
    line = at.mark_rule(color=_INK, strokeWidth=1.5, clip=False).encode(x=_x("at", x, axis))
    return _framed([drawn, line], 120, left=40)


def drawn_edges(edges: Sequence[float]) -> list[float]:
    """The edges with a first and a last bin no wider than the others.

    0, 1, 2, 3, 900   ->   0, 1, 2, 3, 4
    """
    drawn = list(edges)
    if len(edges) > 3:
        width = min(high - low for low, high in pairwise(edges[1:-1]))
        if edges[1] - edges[0] > _TAIL * width:
            drawn[0] = edges[1] - width
        if edges[-1] - edges[-2] > _TAIL * width:
            drawn[-1] = edges[-2] + width
    return drawn


def band(
    points: Sequence[Mapping[str, float]], color: str, ends: tuple[float, float]
) -> alt.LayerChart:
    """The median of `p10`, `p50`, `p90` as a line over `turn`, the other two as an area.

    `ends` are the last turn and the most tokens of the frame.
    """
    base = _chart([dict(point) for point in points])
    first, (last, top) = points[0]["turn"], ends
    x = alt.Scale(domain=[first, max(last, first + 1)])
    turn = _x("turn", x, _axis(6, grid=False, whole=(first, last)))
    y: dict[str, Any] = {"scale": alt.Scale(domain=[0, top]), "axis": _axis(4)}
    area = base.mark_area(color=color, opacity=0.22).encode(
        x=turn, y=alt.Y("p10:Q", stack=None, **y), y2="p90:Q"
    )
    dots = len(points) <= 24 and alt.OverlayMarkDef(color=color, size=22)
    median = base.mark_line(color=color, strokeWidth=2, point=dots).encode(
        x=turn, y=alt.Y("p50:Q", **y)
    )
    return _framed([area, median], 160, left=44)


def _chart(values: list[dict[str, Any]]) -> alt.Chart:
    return alt.Chart(alt.InlineData(values=values))


class _Names:
    """The names of a chart's rows, and the labels that there is room for."""

    def __init__(self, names: list[str]) -> None:
        self._labels = labels(names, _LONGEST)
        self.full = dict(zip(self._labels, names, strict=True))

    def row(self, at: int, **values: Any) -> dict[str, Any]:
        """One row of a chart of bars or dots, counted from above."""
        return {"row": at, "top": at - 0.26, "bottom": at + 0.26, "name": self._labels[at]} | values


def _x(field: str, scale: alt.Scale, axis: alt.Axis | None = None) -> alt.X:
    return alt.X(f"{field}:Q", scale=scale, axis=axis or _axis(5), stack=None)


def _y(count: int) -> dict[str, Any]:
    return {"scale": alt.Scale(domain=[-0.5, count - 0.5], reverse=True), "axis": None}


def _axis(ticks: int, *, grid: bool = True, whole: tuple[float, float] | None = None) -> alt.Axis:
    """Thousands as 1k, and a fraction as it is; where few `whole` numbers are between its ends,
    one tick at each of them.
    """
    label = "abs(datum.value) < 1000 ? format(datum.value, '.6~g') : format(datum.value, '~s')"
    values: Any = alt.Undefined
    if whole is not None and whole[1] - whole[0] <= ticks:
        values = list(range(math.ceil(whole[0]), math.floor(whole[1]) + 1))
    return alt.Axis(title=None, tickCount=ticks, values=values, labelExpr=label, grid=grid)


def _names(base: alt.Chart, y: dict[str, Any]) -> alt.Chart:
    """The names of rows, to the left of the frame."""
    text = base.mark_text(align="right", baseline="middle", color=_INK, limit=_NAMES - 12)
    named: alt.Chart = text.encode(x=alt.value(-8), y=alt.Y("row:Q", **y), text="name:N")
    return named


def _framed(
    layers: list[Any], height: int, *, left: int, names: _Names | None = None
) -> alt.LayerChart:
    """The whole chart; `usermeta` holds the full name of each label that is shorter."""
    padding = {"left": left, "right": 14, "top": 6, "bottom": 24}
    chart = alt.layer(*layers).properties(
        width=WIDTH - left - 14,
        height=height,
        padding=padding,
        autosize={"type": "none"},
        usermeta={"names": names.full if names else {}},
    )
    framed: alt.LayerChart = (
        chart.configure(aria=False, background="transparent", font="Liberation Sans")
        .configure_view(stroke=None)
        .configure_text(fontSize=11)
        .configure_axis(
            labelColor=_QUIET,
            labelFontSize=11,
            labelPadding=4,
            gridColor=_GRID,
            domain=False,
            ticks=False,
            labelOverlap=True,
            labelFlush=False,
        )
    )
    return framed
