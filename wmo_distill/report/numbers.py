"""Rates and distributions as cells of tables, each with what it is of."""

from collections.abc import Mapping, Sequence

from wmo_distill.report.tables import Row, section
from wmo_distill.report.words import Words, word_of
from wmo_distill.stats.distribution import Distribution
from wmo_distill.stats.rates import Rate
from wmo_distill.visible import shortened

MOST = 20
"""Rows of a table of any length."""
_LONGEST = 100


def rate_cells(rate: Rate) -> Row:
    """Value, fraction and interval; a dash where nothing was counted."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "-", f"{rate.numerator:g}/{rate.denominator}", ""
    whole = rate.numerator == int(rate.numerator)
    numerator = f"{int(rate.numerator)}" if whole else f"{rate.numerator:.4g}"
    interval = f"[{rate.low:.3f}, {rate.high:.3f}]"
    return f"{rate.value:.3f}", f"{numerator}/{rate.denominator}", interval


def solved(rate: Rate) -> str:
    """Such as `28 of 38 measured are solved: 0.737, 95 % interval [0.580, 0.850]`."""
    if rate.low is None or rate.high is None:
        return "none is measured"
    return (
        f"{rate.numerator:,} of {rate.denominator:,} measured are solved: {rate.value:.3f}, "
        f"95 % interval [{rate.low:.3f}, {rate.high:.3f}]"
    )


def below(path: str, found: Mapping[str, Distribution]) -> dict[str, Distribution]:
    """Those of a dictionary by the paths of their keys."""
    return {f"{path}.{name}": one for name, one in found.items()}


def distributions(found: Mapping[str, Distribution | None], words: Words) -> str:
    """A row for each that has a number, by its path; those without one are left out."""
    rows: list[list[str]] = [
        [
            word_of(words, path),
            f"{one.count:,}",
            *(number(x) for x in (one.mean, one.p10, one.p50, one.p90, one.high)),
            f"{one.implausible:,}" if one.implausible else "",
        ]
        for path, one in found.items()
        if one is not None and (one.count or one.implausible)
    ]
    head = ["", "of", "mean", "10 %", "median", "90 %", "highest", "implausible"]
    if not any(row[-1] for row in rows):
        rows, head = [row[:-1] for row in rows], head[:-1]
    return section(words["distributions"], rows, head=head)


def number(value: float | None) -> str:
    """About four digits."""
    if value is None:
        return "-"
    if (value == int(value) and abs(value) < 1e6) or abs(value) >= 1000:
        return f"{value:,.0f}" if abs(value) < 1e9 else f"{value:.3g}"
    if abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.1f}"


def named(*parts: str | None, of: str | None = None) -> str:
    """A name of one or two parts, of a bounded length, and what it is of where that is given."""
    name = " / ".join(part for part in parts if part) or "(not recorded)"
    return shortened(name, _LONGEST) + (f" ({shortened(of, _LONGEST)})" if of else "")


def cut(rows: Sequence[Row], most: int = MOST) -> list[Row]:
    """The first rows, and how many more there are."""
    more = len(rows) - most
    return [*rows[:most], *([[f"and {more:,} more"]] if more > 0 else [])]
