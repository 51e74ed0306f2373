"""How numbers are spread: distributions, the growth of context, breaks, staleness."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from wmo_distill.page.blocks import (
    Cell,
    Figure,
    Section,
    Sides,
    Table,
    colored,
    sentence,
    word,
)  # fmt: skip
from wmo_distill.page.charts import Bar, band, bars, drawn_edges, histogram
from wmo_distill.page.numbers import Numbers, Path
from wmo_distill.page.svg import inline_svg
from wmo_distill.report.datums import FIXES
from wmo_distill.report.words import PARTS

_FIXES = {cause.value: fix for cause, fix in FIXES.items()}
_QUANTILES_OF = "Counts, mean and quantiles"


def distributions(
    sides: Sides, names: Mapping[str, tuple[str, str]], *, path: Path = "distributions"
) -> Section:
    """A histogram of each, and their quantiles in a table; `names` gives (title, unit)."""
    known = [name for name in names if all(side.find(f"{path}.{name}") for side in sides)]
    figures = [
        figure for name in known for figure in distribution(sides, f"{path}.{name}", *names[name])
    ]
    tables = [
        Table(
            f"{side.label}: counts, mean and quantiles" if side.label else _QUANTILES_OF,
            ["what", *(names[name][0] for name in known)],
            [
                [head, *(side.number(f"{path}.{name}.{part}") for name in known)]
                for part, head in PARTS.items()
            ],
        )
        for side in sides
    ]
    about = (
        "A line is at the median. A pale bar at an end holds all beyond it. Values that such a "
        "number cannot have are counted as implausible and are in no other number."
    )
    return Section("distributions", "Distributions", about, figures, tables)


def distribution(sides: Sides, path: Path, title: str, unit: str) -> list[Figure]:
    """One histogram a side, over the same range; no figure where no side has a value."""
    if not any(side.find(f"{path}.count") for side in sides):
        return []
    spans = [drawn_edges(side.at(f"{path}.histogram.edges")) for side in sides]
    ends = [end for edges in spans for end in edges]
    charts = [
        inline_svg(
            histogram(
                side.at(f"{path}.histogram.edges"),
                side.at(f"{path}.histogram.counts"),
                color,
                (min(ends), max(ends)),
                side.at(f"{path}.p50"),
            ),
            f"{path.replace('.', '-')}-{at}",
            f"{side.label} {title}".strip(),
            f"A histogram of {unit}, with a line at the median.",
        )
        for at, (side, color) in enumerate(colored(sides))
        if side.at(f"{path}.count")
    ]
    table = Table(
        f"{title}, values in each range",
        [*_side_head(sides), "from", "to", "values"],
        [
            [
                *([side.label] if len(sides) > 1 else []),
                side.number(f"{path}.histogram.edges.{at}"),
                side.number(f"{path}.histogram.edges.{at + 1}"),
                side.number(f"{path}.histogram.counts.{at}"),
            ]
            for side in sides
            for at in range(len(side.at(f"{path}.histogram.counts")))
        ],
    )
    caption = sentence(sides, lambda side: _counts(side, path, unit))
    return [Figure(title, charts, caption, table)]


def _counts(side: Numbers, path: Path, unit: str) -> Markup:
    parts = [Markup("{} {}").format(side.number(f"{path}.count"), unit)]
    if side.at(f"{path}.count"):
        parts.append(Markup("median {}").format(side.number(f"{path}.p50")))
    for name, about in (("missing", "not recorded"), ("implausible", "implausible")):
        if side.at(f"{path}.{name}"):
            parts.append(Markup("{} {}").format(side.number(f"{path}.{name}"), about))
    return Markup(", ").join(parts)


def context(sides: Sides) -> Section:
    """How long prompts are at each turn."""
    known = [pair for pair in colored(sides) if pair[0].find("context")]
    every = [point for side, _ in known for point in side.at("context")]
    ends = tuple(max((point[part] for point in every), default=1) for part in ("turn", "p90"))
    charts = [
        inline_svg(
            band(side.at("context"), color, (ends[0], ends[1])),
            f"context-{at}",
            f"{side.label} prompt tokens by turn".strip(),
            "The median as a line, the middle 80 % of the episodes as an area.",
        )
        for at, (side, color) in enumerate(known)
    ]
    parts = ("turn", "episodes", "p10", "p50", "p90")
    table = Table(
        "Prompt tokens by turn, over the episodes that got so far",
        [*_side_head(sides), "turn", "episodes", "10 %", "median", "90 %"],
        [
            [
                *([side.label] if len(sides) > 1 else []),
                *(side.number(f"context.{at}.{part}") for part in parts),
            ]
            for side, _ in known
            for at in range(len(side.at("context")))
        ],
    )  # fmt: skip
    caption = sentence(sides, _turns)
    figure = Figure("Prompt tokens by turn", charts, caption, table, is_open=len(table.rows) <= 24)
    about = "The median, and the range of the middle 80 % of the episodes that got so far."
    return Section("context", "Growth of context", about, [figure] if known else [])


def _turns(side: Numbers) -> Markup:
    if not side.find("context"):
        return Markup("no call")
    last = len(side.at("context")) - 1
    return Markup("{} episodes at turn {}, {} at turn {}").format(
        side.number("context.0.episodes"), side.number("context.0.turn"),
        side.number(f"context.{last}.episodes"), side.number(f"context.{last}.turn"),
    )  # fmt: skip


def breaks(sides: Sides, whole: Path, of: str) -> Section:
    """Prompts that do not extend what came before, by cause; `whole` counts what they are of."""
    every = sorted(
        {cause for side in sides for cause in side.find("breaks") or ()},
        key=lambda cause: (-(sides[0].find(f"breaks.{cause}") or 0), cause),
    )
    charts = [
        inline_svg(
            bars([_break(side, cause) for cause in every], color),
            f"breaks-{at}",
            f"{side.label} breaks by cause".strip(),
            "A bar a cause over all breaks.",
        )
        for at, (side, color) in enumerate(colored(sides))
        if side.find("breaks")
    ]
    rows: Sequence[Sequence[Cell]] = [
        [word(cause), *(_cause(side, cause) for side in sides), _FIXES.get(cause, "")]
        for cause in every
    ]
    head = ["cause", *(side.label or "breaks" for side in sides), "what happened, and what helps"]
    table = Table("Breaks by cause", head, rows, (0, len(head) - 1))
    caption = sentence(sides, lambda side: _all(side, whole, of))
    figure = Figure("Breaks by cause", charts, caption, table, is_open=True)
    about: Cell = "A prompt that does not extend all that came before begins another sequence."
    if not every:
        about = Markup("No break: {}.").format(caption)
    return Section("breaks", "Breaks by cause", about, [figure] if every else [])


def _break(side: Numbers, cause: str) -> Bar:
    return Bar(cause, side.find(f"breaks.{cause}") or 0, side.at("breaks.sum"))


def _cause(side: Numbers, cause: str) -> Cell:
    if side.find(f"breaks.{cause}") is None:
        return ""
    return side.of(f"breaks.{cause}", "breaks.sum")


def _all(side: Numbers, whole: Path, of: str) -> Markup:
    return Markup("{} breaks in {} {}").format(side.number("breaks.sum"), side.number(whole), of)


def _side_head(sides: Sides) -> list[str]:
    return ["of"] if len(sides) > 1 else []
