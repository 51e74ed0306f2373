"""How far engines with the same weights may differ; statistics that no single value moves."""

import math
from dataclasses import dataclass

import numpy as np

from wmo_distill.scorers.filters import Floats
from wmo_distill.scorers.options import Noise


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is no fault."""

    mean: float
    """Mean absolute difference in nats."""
    outside: float
    """Share of probability ratios outside [0.5, 2]."""

    def allows(self, difference: Floats) -> bool:
        """Whether differences (NaN: not known) are within it; by their mean and by their tail."""
        known = difference[np.isfinite(difference)]
        if not known.size:
            return False
        spread = math.sqrt(self.outside * (1.0 - self.outside) / known.size)
        most = max(self.outside + 4.0 * spread, 1.0 / known.size)
        return mean_abs(known) <= self.mean and outside(known) <= most


TOLERANCES = {
    Noise.FP32: Tolerance(0.005, 0.001),
    Noise.BF16: Tolerance(0.05, 0.005),
    Noise.FP8: Tolerance(0.1, 0.02),
    Noise.MOE: Tolerance(0.1, 0.02),
}

# Fewer compared tokens than these show nothing in particular.
FEW = 30
# One difference counts as no more nats than this in any mean.
_LIMIT = 5.0
_LOG_2 = math.log(2.0)


def limited(difference: Floats) -> Floats:
    """The known differences, each at most 5 nats in size: one value must not make a mean."""
    known: Floats = np.clip(difference[np.isfinite(difference)], -_LIMIT, _LIMIT)
    return known


def mean_abs(difference: Floats) -> float:
    """Mean absolute difference over the known values, inf where there is none."""
    known = limited(difference)
    return float(np.abs(known).mean()) if known.size else math.inf


def trimmed(difference: Floats) -> float:
    """Mean absolute difference without its largest tenth (at least one value): for few tokens."""
    known = np.sort(np.abs(limited(difference)))
    left = known[: known.size - max(1, known.size // 10)]
    return float(left.mean()) if left.size else 0.0


def outside(difference: Floats) -> float:
    """Share of probability ratios exp(recorded - rescored) outside [0.5, 2]."""
    known = difference[np.isfinite(difference)]
    return float((np.abs(known) > _LOG_2).mean()) if known.size else 0.0


def k3(difference: Floats) -> float | None:
    """KL(sampler || scorer) in nats a token: mean of exp(-d) - 1 + d, d = recorded - rescored.

    Schulman, "Approximating KL Divergence" (2020), k3; each d is limited to 5 nats.
    """
    known = limited(difference)
    return max(0.0, float((np.exp(-known) - 1.0 + known).mean())) if known.size else None


def step_of(values: Floats) -> float | None:
    """The decimal step that values were rounded to, 1, 0.1 ... 1e-4; None for finer ones.

    Example: -0.25, -1.5 and -0.75 give 0.01. Sure tokens may be 0 whatever the step.
    """
    some = values[values != 0.0][:5000]
    if some.size < FEW:
        return None
    for digits in (0, 1, 2, 3, 4):
        if np.abs(some * 10.0**digits - np.round(some * 10.0**digits)).max() < 1e-6 * 10.0**digits:
            return float(10.0**-digits)
    return None


def differ(a: Floats, b: Floats) -> float:
    """By how many standard errors |a| is smaller than |b| on average, where both are known."""
    both = np.isfinite(a) & np.isfinite(b)
    gain = np.abs(limited(b[both])) - np.abs(limited(a[both]))
    if gain.size < FEW or not gain.any():
        return 0.0
    return float(gain.mean() / (gain.std() / math.sqrt(gain.size) + 1e-12))
