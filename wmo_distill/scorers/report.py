"""What a check found, in numbers: the whole, by turn, by position, and the worst episodes."""

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.scorers.compared import Compared
from wmo_distill.scorers.filters import Bools, FilterOrder, Floats, Ints
from wmo_distill.scorers.options import Noise
from wmo_distill.scorers.scorer import ScoreFault
from wmo_distill.scorers.tolerance import k3, limited, mean_abs, outside
from wmo_distill.scorers.verdict import Verdict

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
_WORST = 10


class Spread(BaseModel):
    """Differences d = recorded - rescored of some tokens, in nats."""

    model_config = ConfigDict(frozen=True)

    part: str
    """Which tokens: `turn 1`, `position 0-499`, an episode's id, a policy version."""
    tokens: int
    mean_abs_difference: float
    """Each |d| limited to 5, so that one value cannot make the mean."""
    mean_difference: float
    k3: float
    """KL(sampler || scorer) estimated as the mean of exp(-d) - 1 + d."""
    outside: float
    """Share of probability ratios exp(d) outside [0.5, 2]."""
    quantiles: dict[str, float]
    """Quantiles of d by their share, such as `0.05`."""


class CheckReport(BaseModel):
    """The verdict first, then what to do, then the evidence."""

    model_config = ConfigDict(frozen=True)

    verdict: Verdict
    action: str
    """What to do, in a line."""
    clues: list[str] = Field(default_factory=list)
    """What else speaks for or against it; for `unexplained`, what it may be."""
    cannot_tell: list[str] = Field(default_factory=list)
    """What this check could not see, whatever the verdict."""
    sequences: int
    tokens: int
    """Compared: trained, with a plausible recorded and rescored log-probability."""
    mean_abs_difference: float
    mean_difference: float
    k3: float
    outside: float
    quantiles: dict[str, float]
    claimed: str
    """How the rows say that the tokens were sampled, and their log-probabilities taken."""
    fitted: str | None = None
    """What explains the records, where a temperature, a filter or a unit does."""
    orders: list[FilterOrder] = Field(default_factory=list)
    """The orders of temperature and filters that the data allow; several: they fit alike."""
    shift: int = 0
    """Tokens further on at which a token's value was recorded."""
    noise: Noise
    tolerance: float
    """Mean absolute difference in nats that is no fault, rounding of the records in it."""
    rounded_to: float | None = None
    """The decimal step that the recorded values were rounded to."""
    top_k: int
    """Candidates listed a token, after asking for more where more were needed."""
    implausible: int = 0
    """Trained tokens recorded at or below -1000: in no statistic."""
    not_compared: int = 0
    """Compared tokens whose value by the claim the listed candidates do not give."""
    by_turn: list[Spread] = Field(default_factory=list)
    by_position: list[Spread] = Field(default_factory=list)
    by_version: list[Spread] = Field(default_factory=list)
    """One for each policy version and training step, where there are several."""
    worst_episodes: list[Spread] = Field(default_factory=list)
    """At most ten, the worst first."""
    episodes: list[str] = Field(default_factory=list)
    """Episodes that disagree where the others agree."""
    faults: dict[ScoreFault, int] = Field(default_factory=dict)
    """Sequences that could not be scored."""
    stored: int | None = None
    """Re-scored sequences that were kept."""


def spread(part: str, difference: Floats) -> Spread | None:
    """None where no difference is known."""
    known = difference[np.isfinite(difference)]
    if not known.size:
        return None
    return Spread(
        part=part,
        tokens=known.size,
        mean_abs_difference=mean_abs(known),
        mean_difference=float(limited(known).mean()),
        k3=k3(known) or 0.0,
        outside=outside(known),
        quantiles={
            f"{share:g}": float(value)
            for share, value in zip(QUANTILES, np.quantile(known, QUANTILES), strict=True)
        },
    )


def _parts(difference: Floats, parts: Sequence[tuple[str, Bools]]) -> list[Spread]:
    found = [spread(name, difference[chosen]) for name, chosen in parts]
    return [one for one in found if one is not None]


def by_turn(tokens: Compared, difference: Floats) -> list[Spread]:
    """By the number of the call in its sequence: 1, 2, 3-4, 5-8, ..."""
    most = int(tokens.turn.max()) if len(tokens) else -1
    found = []
    for low, high in _doubling(most):
        name = f"turn {low + 1}" if low == high else f"turn {low + 1}-{high + 1}"
        found.append((name, (tokens.turn >= low) & (tokens.turn <= high)))
    return _parts(difference, found)


def by_position(tokens: Compared, difference: Floats) -> list[Spread]:
    """By the place in the sequence, in fifths of the compared tokens."""
    if not len(tokens):
        return []
    edges = np.unique(np.quantile(tokens.position, np.linspace(0, 1, 6)).astype(int))
    edges[-1] += 1
    return _parts(
        difference,
        [
            (f"position {low}-{high - 1}", (tokens.position >= low) & (tokens.position < high))
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ],
    )


def by_name(difference: Floats, part: Ints, names: Sequence[str]) -> list[Spread]:
    return _parts(difference, [(name, part == n) for n, name in enumerate(names)])


def worst(difference: Floats, episode: Ints, names: Sequence[str]) -> list[Spread]:
    """The episodes with the largest mean difference."""
    found = by_name(difference, episode, names)
    return sorted(found, key=lambda one: -one.mean_abs_difference)[:_WORST]


def _doubling(most: int) -> list[tuple[int, int]]:
    """(0, 0), (1, 1), (2, 3), (4, 7), ... up to `most`."""
    found, low = [], 0
    while low <= most:
        high = min(most, max(low, 2 * low - 1)) if low > 1 else low
        found.append((low, high))
        low = high + 1
    return found
