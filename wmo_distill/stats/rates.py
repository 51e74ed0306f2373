"""A rate that never hides its denominator, and the unbiased estimator of pass@k."""

from collections.abc import Iterable
from math import comb, hypot, sqrt

from pydantic import BaseModel, ConfigDict

_Z95 = 1.959963984540054


class Rate(BaseModel):
    """`numerator` / `denominator` with a 95 % Wilson interval; all None over nothing.

    The numerator of a mean of scores in [0, 1] is their sum; the interval is then too wide,
    never too narrow, for no such scores vary more than 0 and 1 with the same mean.
    """

    model_config = ConfigDict(frozen=True)

    value: float | None
    numerator: int | float
    denominator: int
    low: float | None
    """Bounds of the 95 % interval."""
    high: float | None


def rate(numerator: float, denominator: int) -> Rate:
    """A rate; an empty denominator gives None, not 0.0."""
    if not denominator:
        return Rate(value=None, numerator=numerator, denominator=0, low=None, high=None)
    low, high = wilson(numerator, denominator)
    return Rate(
        value=numerator / denominator,
        numerator=numerator,
        denominator=denominator,
        low=low,
        high=high,
    )


def mean_rate(scores: Iterable[float]) -> Rate:
    """The mean of scores in [0, 1]."""
    values = list(scores)
    return rate(sum(values), len(values))


def wilson(successes: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion, n >= 1."""
    p, z2 = successes / n, _Z95 * _Z95
    centre = p + z2 / (2 * n)
    half = _Z95 * sqrt(max(0.0, p * (1 - p) / n + z2 / (4 * n * n)))
    scale = 1 + z2 / n
    # Rounding must not move a bound past the value, which at 0 and 1 is the bound.
    return max(0.0, min((centre - half) / scale, p)), min(1.0, max((centre + half) / scale, p))


def pass_at_k(n: int, solved: int, k: int) -> float | None:
    """The chance that k of n attempts, drawn without replacement, hold one of `solved`.

    Unbiased for k fresh attempts; None where there are fewer than k.
    """
    if not 1 <= k <= n:
        return None
    return 1.0 - comb(n - solved, k) / comb(n, k)


def newcombe(before: Rate, after: Rate) -> tuple[float, float] | None:
    """The 95 % interval of `after - before`, by Newcombe's hybrid of the two score intervals."""
    a, b = before, after
    if a.value is None or a.low is None or a.high is None:
        return None
    if b.value is None or b.low is None or b.high is None:
        return None
    difference = b.value - a.value
    return (
        difference - hypot(b.value - b.low, a.high - a.value),
        difference + hypot(b.high - b.value, a.value - a.low),
    )
