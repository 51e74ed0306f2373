"""Where in a sample records disagree: episodes, versions, turns, places in a turn."""

from dataclasses import dataclass

import numpy as np

from wmo_distill.scorers.compared import Compared
from wmo_distill.scorers.filters import Bools, Floats, Ints
from wmo_distill.scorers.tolerance import FEW, Tolerance, mean_abs, outside, trimmed

# A part is bad from so many times the tolerance on.
_BAD = 3.0


@dataclass(frozen=True, slots=True)
class Uneven:
    """Parts, by number, that agree, that do not, and those that could be either."""

    good: list[int]
    bad: list[int]
    between: list[int]
    apart: bool
    """Whether a gap is between good and bad, and the good ones' tokens are about as unsure: a sure
    model agrees with anything."""

    @property
    def decided(self) -> bool:
        parts = len(self.good) + len(self.bad) + len(self.between)
        return bool(self.good and self.bad and self.apart and len(self.between) <= 0.1 * parts)


def uneven(
    tokens: Compared, difference: Floats, part: Ints, tolerance: Tolerance, *, few: int
) -> Uneven:
    """Parts of at least `few` tokens, by how far they are off; single values do not count."""
    found: dict[str, list[int]] = {"good": [], "bad": [], "between": []}
    lefts: dict[str, list[float]] = {"good": [], "bad": [], "between": []}
    for name in np.unique(part).tolist():
        own = difference[(part == name) & np.isfinite(difference)]
        if own.size < few:
            continue
        left = trimmed(own)
        many = outside(own) > max(0.1, 5 * tolerance.outside)
        kind = "good" if mean_abs(own) <= tolerance.mean else "between"
        if left > _BAD * tolerance.mean or (left > tolerance.mean and many):
            kind = "bad"
        found[kind].append(int(name))
        lefts[kind].append(mean_abs(own))
    unsure = [
        -float(tokens.rescored[np.isin(part, found[kind])].mean()) if found[kind] else 0.0
        for kind in ("good", "bad")
    ]
    gap = 3.0 * max(lefts["good"], default=0.0) <= min(lefts["bad"], default=0.0)
    return Uneven(**found, apart=gap and unsure[0] >= 0.5 * unsure[1])


@dataclass(frozen=True, slots=True)
class Odd:
    """Parts that disagree where the whole may agree."""

    episodes: list[int]
    """Numbers of the episodes that disagree."""
    clues: tuple[str, ...]


def parts_that_differ(tokens: Compared, difference: Floats, tolerance: Tolerance) -> Odd:
    """Episodes, turns and places that are off by themselves."""
    episodes = uneven(tokens, difference, tokens.episode, tolerance, few=8).bad
    clues = []
    whole = trimmed(difference)

    def off(chosen: Bools) -> bool:
        own = difference[chosen & np.isfinite(difference)]
        rest = difference[~chosen & np.isfinite(difference)]
        if own.size < FEW:
            return False
        left = trimmed(own)
        return left > _BAD * tolerance.mean and left > 3.0 * (trimmed(rest) if rest.size else 0.0)

    if off(tokens.offset == 0):
        clues.append("the first token of each turn is off")
    if off(tokens.last):
        clues.append("the last token of each turn is off")
    for turn in np.unique(tokens.turn).tolist():
        if whole <= tolerance.mean and turn and off(tokens.turn == turn):
            clues.append(f"turn {turn + 1} is off by itself")
    return Odd(episodes, tuple(clues))
