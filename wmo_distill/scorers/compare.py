"""Recorded log-probabilities against those of the same model asked again: what is wrong."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from wmo_distill.scorers.laws import (
    FEW,
    Floats,
    Law,
    Tokens,
    drawn_by,
    fit_law,
    mean_abs,
    predicted,
)


class Verdict(StrEnum):
    """The likeliest fault, or none."""

    AGREES = "agrees"
    TEMPERATURE = "temperature"
    """Sampled, or recorded, at another temperature than the rows say."""
    FILTERED = "filtered"
    """Sampled with a top-k or top-p that the rows do not name."""
    PROCESSED = "processed"
    """Recorded after temperature and filters, though the rows say before."""
    RAW = "raw"
    """Recorded before temperature and filters, though the rows say after."""
    SHIFTED = "shifted"
    """Recorded beside the token before or after."""
    TEMPLATE = "template"
    """First turns agree and later ones do not: the prompts were not those recorded."""
    TOKENIZER = "tokenizer"
    """The recorded ids make no sense to this model."""
    WEIGHTS = "weights"
    """Alike, but not the same model: stale or other weights."""
    UNTOLD = "untold"
    """Too little to tell: few tokens, or a law that reaches past the listed ones."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, the law that explains the records where one does, and the shift."""

    verdict: Verdict
    law: Law | None = None
    shift: int = 0


# A law explains the records if what it leaves is within tolerance or so small a share.
_EXPLAINED = 0.15
# Mean loss of log-probability beyond which ids are noise to a model.
_NOISE = 2.0
_SHIFTS = (-2, -1, 1, 2)


def find_fault(tokens: Tokens, law: Law, *, processed: bool, tolerance: float) -> Finding:
    """The likeliest fault of records said to be drawn by `law`.

    `processed` says that the records claim to be taken after temperature and filters.
    `tolerance` is the mean absolute difference that two servers of one model may have.
    """
    claimed = predicted(tokens, law) if processed else tokens.rescored
    known = np.isfinite(claimed)
    if not known.any():
        return Finding(Verdict.UNTOLD)
    left = mean_abs(tokens.recorded - claimed)
    shifts = {shift: mean_abs(_shifted(tokens, claimed, shift)) for shift in _SHIFTS}
    shift = min(shifts, key=lambda one: shifts[one])
    few = int(known.sum()) < FEW
    # A sure model differs little from anything: there a shift must not explain much better.
    if left <= tolerance and (few or left == 0.0 or shifts[shift] > 0.3 * left):
        drawn = None if few else drawn_by(tokens, law, exact=left == 0.0)
        if drawn is None:
            return Finding(Verdict.AGREES)
        cooler = drawn.temperature != law.temperature
        return Finding(Verdict.TEMPERATURE if cooler else Verdict.FILTERED, drawn)
    if few:
        return Finding(Verdict.UNTOLD)
    enough = max(min(tolerance, 0.3 * left), _EXPLAINED * left)
    if processed and mean_abs(tokens.recorded - tokens.rescored) <= enough:
        return Finding(Verdict.RAW)
    if shifts[shift] <= enough:
        return Finding(Verdict.SHIFTED, shift=shift)
    fitted = fit_law(tokens, law)
    if fitted is not None and mean_abs(tokens.recorded - predicted(tokens, fitted)) <= enough:
        if processed:
            return Finding(Verdict.TEMPERATURE, fitted)
        return Finding(Verdict.PROCESSED, fitted)
    difference = tokens.recorded - claimed
    opening, later = tokens.first & known, ~tokens.first & known
    if opening.any() and later.any():
        begun, gone_on = mean_abs(difference[opening]), mean_abs(difference[later])
        if begun <= _EXPLAINED * gone_on or (begun <= tolerance and gone_on >= 3 * begun):
            return Finding(Verdict.TEMPLATE)
    if difference[known].mean() > _NOISE and _correlation(tokens) < 0.3:
        return Finding(Verdict.TOKENIZER)
    return Finding(Verdict.WEIGHTS)


def _shifted(tokens: Tokens, claimed: Floats, shift: int) -> Floats:
    """Differences if the record of a token stands at the token `shift` further on in its run."""
    n = tokens.recorded.size
    if n <= abs(shift):
        return np.full(1, np.inf)
    here, there = (slice(shift, None), slice(None, n - shift))
    if shift < 0:
        here, there = slice(None, shift), slice(-shift, None)
    same = tokens.run[here] == tokens.run[there]
    values: Floats = tokens.recorded[here][same] - claimed[there][same]
    return values


def _correlation(tokens: Tokens) -> float:
    if min(tokens.recorded.std(), tokens.rescored.std()) == 0.0:
        return 0.0
    return float(np.corrcoef(tokens.recorded, tokens.rescored)[0, 1])
