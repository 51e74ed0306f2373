"""How numbers are spread: quantiles and a histogram, which one absurd value cannot move."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB

_QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_BINS = 20
_LARGEST = 1e9
_NARROWEST = 1e-200
"""Narrower bins than this are one bin."""

# What a number of this name can be; others are counted apart. Both bounds are outside.
PLAUSIBLE: Mapping[str, tuple[float, float]] = {
    "logprob": (IMPLAUSIBLE_LOGPROB, -IMPLAUSIBLE_LOGPROB),
    "reward": (-_LARGEST, _LARGEST),
    "advantages": (-_LARGEST, _LARGEST),
    "agent_seconds": (-math.ulp(0.0), _LARGEST),
    "ratio": (-math.ulp(0.0), _LARGEST),
}


class Histogram(BaseModel):
    """`counts[i]` values are in [`edges[i]`, `edges[i + 1]`), of the last bin its end too.

    Bins are equally wide between the 1 % and the 99 % quantile; where values are further out, one
    more bin at that end reaches to the lowest or the highest of them.
    """

    model_config = ConfigDict(frozen=True)

    edges: tuple[float, ...] = ()
    counts: tuple[int, ...] = ()


class Distribution(BaseModel):
    """Over `count` numbers; `missing` ones were not recorded, `implausible` ones are in no other.

    All numbers but the counts are None over nothing. Quantiles are interpolated linearly between
    the two nearest values; of log-probabilities and ratios of tokens they are right within 0.2 %.
    """

    model_config = ConfigDict(frozen=True)

    count: int
    missing: int
    implausible: int
    """Not finite, or outside what such a number can be."""
    mean: float | None = None
    low: float | None = None
    p1: float | None = None
    p5: float | None = None
    p10: float | None = None
    p25: float | None = None
    p50: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    high: float | None = None
    histogram: Histogram = Histogram()


def distribution(name: str, values: ArrayLike, *, missing: int = 0) -> Distribution:
    """Of all numbers of this name; NaN is one that was not recorded."""
    numbers = np.asarray(values, np.float64)
    absent = int(np.isnan(numbers).sum())
    good = numbers[plausible(name, numbers)]
    return _distribution(good, None, missing + absent, numbers.size - absent - good.size)


def plausible(name: str, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of them are finite and what a number of this name can be."""
    low, high = PLAUSIBLE.get(name, (-math.inf, math.inf))
    good: NDArray[np.bool_] = np.isfinite(numbers) & (numbers > low) & (numbers < high)
    return good


@dataclass(slots=True)
class Sketch:
    """The distribution of any number of values in constant memory.

    A value is counted under the first 18 bits of its float32: its sign, its power of two and the
    512th of that in which it is, so that its middle is wrong by 0.1 % at most.
    """

    name: str
    missing: int = 0
    implausible: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    _bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1 << 18, np.int64))

    def usable(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        return plausible(self.name, values)

    def add(self, values: NDArray[np.float64], *, missing: int = 0) -> None:
        """More values; NaN is one that was not recorded."""
        absent = int(np.isnan(values).sum())
        good = values[self.usable(values)]
        self.missing += missing + absent
        self.implausible += values.size - absent - good.size
        if good.size:
            self.total += float(good.sum())
            self.low = min(self.low, float(good.min()))
            self.high = max(self.high, float(good.max()))
            bits = (good.astype(np.float32) + np.float32(0)).view(np.uint32) >> 14
            self._bins += np.bincount(bits, minlength=self._bins.size)

    def distribution(self) -> Distribution:
        bins = np.flatnonzero(self._bins).astype(np.uint32)
        counts = self._bins[bins]
        zero = (bins & 0x1FFFF) == 0
        middle = ((bins << 14) | np.where(zero, 0, 1 << 13).astype(np.uint32)).view(np.float32)
        values = np.clip(middle.astype(np.float64), self.low, self.high)
        order = np.argsort(values, kind="stable")
        made = _distribution(values[order], counts[order], self.missing, self.implausible)
        if not made.count:
            return made
        mean = _finite(self.total / made.count)
        return made.model_copy(update={"mean": mean, "low": self.low, "high": self.high})


def _distribution(
    values: NDArray[np.float64], counts: NDArray[np.int64] | None, missing: int, implausible: int
) -> Distribution:
    """Of values, each as often as `counts` says."""
    count = values.size if counts is None else int(counts.sum())
    if not count:
        return Distribution(count=0, missing=missing, implausible=implausible)
    if counts is None:
        values = np.sort(values)
        counts = np.ones(values.size, np.int64)
    ends = np.cumsum(counts)

    def at(rank: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[np.searchsorted(ends, rank, side="right")]

    ranks = np.array(_QUANTILES) / 100 * (count - 1)
    below, above = at(np.floor(ranks)), at(np.ceil(ranks))
    share = ranks - np.floor(ranks)
    found = below * (1 - share) + above * share
    quantiles = {f"p{q}": float(x) for q, x in zip(_QUANTILES, found, strict=True)}
    low, high = float(values[0]), float(values[-1])
    with np.errstate(over="ignore"):
        mean = _finite(float((values * counts).sum()) / count)
    whole = bool((values == np.floor(values)).all())
    edges = _edges(low, float(below[0]), float(above[-1]), high, least=1.0 if whole else 0.0)
    filled = np.histogram(values, edges, weights=counts)[0]
    return Distribution(
        count=count,
        missing=missing,
        implausible=implausible,
        mean=mean,
        low=low,
        high=high,
        **quantiles,
        histogram=Histogram(edges=tuple(edges), counts=tuple(int(n) for n in filled)),
    )


def _edges(low: float, first: float, last: float, high: float, least: float) -> list[float]:
    """About `_BINS` equal bins over [first, last], on multiples of 1, 2 or 5 times a power of ten.

    They are at least `least` wide.
    Of a hundred whole numbers from 0 to 7 and one 900: 0, 1, 2, ..., 8, 900.
    """
    width = max((last - first) / _BINS, least)
    if width < _NARROWEST or not math.isfinite(width):
        width = max(abs(first) / _BINS, 1.0)
    power = math.floor(math.log10(width))
    times = next((m for m in (1, 2, 5) if m * 10.0**power >= width * (1 - 1e-9)), 10)
    step = times * 10.0**power

    def on(k: int) -> float:
        return k * times / 10**-power if power < 0 else float(k * times * 10**power)

    start, stop = math.floor(first / step), math.floor(last / step) + 1
    edges = [on(k) for k in range(start, stop + 1)]
    edges = [low, *edges] if low < edges[0] else edges
    return [*edges, high] if high > edges[-1] else edges


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
