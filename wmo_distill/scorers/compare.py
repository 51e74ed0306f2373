"""Recorded log-probabilities against those of the same model asked again: what is wrong.

Pure functions over arrays of N trained tokens. Natural logarithms throughout.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """How tokens are drawn from a model's distribution."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    @property
    def plain(self) -> bool:
        return self == Law()

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:.3g}"]
        parts += [f"top_k {self.top_k}"] if self.top_k is not None else []
        parts += [f"top_p {self.top_p:.3g}"] if self.top_p is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """N tokens in the order of their runs."""

    recorded: Floats
    rescored: Floats
    top: Floats
    """[N, K] log-probabilities of the likeliest, falling, -inf where there are fewer."""
    run: Ints
    """Which sampled run a token is in."""
    first: NDArray[np.bool_]
    """Whether that run is the first turn of its chat."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A verdict, the law that explains the records where one does, and the shift."""

    verdict: Verdict
    law: Law | None = None
    shift: int = 0


# A law explains the records if what it leaves is within tolerance or so small a share.
_EXPLAINED = 0.15
# In nats: a likelihood ratio that chance gives once in more than a million runs.
_SURE = 14.0
# Mean loss of log-probability beyond which ids are noise to a model.
_NOISE = 2.0
_SHIFTS = (-2, -1, 1, 2)


def find_fault(tokens: Tokens, law: Law, *, processed: bool, tolerance: float) -> Finding:
    """The likeliest fault of records said to be drawn by `law`.

    `processed` says that the records claim to be taken after temperature and filters.
    `tolerance` is the mean absolute difference that two servers of one model may have.
    """
    claimed = predicted(tokens, law) if processed else tokens.rescored
    left = _mean_abs(tokens.recorded - claimed)
    if left <= tolerance:
        drawn = drawn_by(tokens, law)
        if drawn is None:
            return Finding(Verdict.AGREES)
        cooler = drawn.temperature != law.temperature
        return Finding(Verdict.TEMPERATURE if cooler else Verdict.FILTERED, drawn)
    enough = max(tolerance, _EXPLAINED * left)
    if processed and _mean_abs(tokens.recorded - tokens.rescored) <= enough:
        return Finding(Verdict.RAW)
    shifts = {shift: _mean_abs(_shifted(tokens, claimed, shift)) for shift in _SHIFTS}
    shift = min(shifts, key=lambda one: shifts[one])
    if shifts[shift] <= enough:
        return Finding(Verdict.SHIFTED, shift=shift)
    fitted = fit_law(tokens, law)
    if fitted is not None and _mean_abs(tokens.recorded - predicted(tokens, fitted)) <= enough:
        if processed:
            return Finding(Verdict.TEMPERATURE, fitted)
        return Finding(Verdict.PROCESSED, fitted)
    difference = np.abs(tokens.recorded - claimed)
    later = ~tokens.first
    if (
        tokens.first.any()
        and later.any()
        and difference[tokens.first].mean() <= max(tolerance, _EXPLAINED * difference[later].mean())
    ):
        return Finding(Verdict.TEMPLATE)
    if (tokens.recorded - claimed).mean() > _NOISE and _correlation(tokens) < 0.3:
        return Finding(Verdict.TOKENIZER)
    return Finding(Verdict.WEIGHTS)


def predicted(tokens: Tokens, law: Law) -> Floats:
    """The tokens' log-probabilities after a law; without a top the temperature cannot be told."""
    if law.plain or not tokens.top.shape[1]:
        return tokens.rescored
    kept = _kept(tokens.top, law)
    scaled = tokens.rescored / law.temperature
    total = _log_sum(np.where(kept, tokens.top, -np.inf) / law.temperature)
    if law.top_k is None and law.top_p is None:
        total = np.logaddexp(total, _tail(tokens.top, law.temperature))
    values: Floats = scaled - total
    return values


def fit_law(tokens: Tokens, law: Law) -> Law | None:
    """The law after which the rescored tokens come nearest to the records."""
    if not tokens.top.shape[1]:
        return None

    def left(one: Law) -> float:
        return _mean_abs(tokens.recorded - predicted(tokens, one))

    best = min(
        [Law(), law, *_heated(Law()), *_filtered(tokens, Law()), *_filtered(tokens, law)], key=left
    )
    for _ in range(3):  # the temperature and the filter in turn
        best = min([best, *_heated(best)], key=left)
        best = min([best, *_filtered(tokens, best)], key=left)
    return best


def drawn_by(tokens: Tokens, law: Law) -> Law | None:
    """Another law by which these tokens were surely drawn, told from the tokens alone."""
    if not tokens.top.shape[1]:
        return None
    kept = _kept(tokens.top, law)
    lowest = np.where(kept, tokens.top, np.inf).min(axis=1)
    inside = tokens.rescored >= lowest
    listed = np.where(kept, tokens.top, -np.inf)[inside]

    def among_listed(temperature: float) -> float:
        """Their likelihood, given that they are among the listed ones."""
        total = _log_sum(listed / temperature)
        return float((tokens.rescored[inside] / temperature - total).sum())

    base = among_listed(law.temperature)
    gains = {one: among_listed(one.temperature) - base for one in _heated(law)}
    if law.top_k is None and law.top_p is None:
        gains |= {one: _filter_gain(tokens, one) for one in _filtered(tokens, law)}
    highest = max(gains.values())
    if highest <= _SURE:
        return None
    # Of laws that the tokens hardly tell apart, the simplest.
    near = [one for one in gains if gains[one] > highest - _SURE]
    return max(near, key=lambda one: (one.top_p is None, one.top_k is None, gains[one]))


def _filter_gain(tokens: Tokens, law: Law) -> float:
    """How much likelier the tokens are if nothing outside a filter could be drawn."""
    kept = _kept(tokens.top, law)
    lowest = np.where(kept, tokens.top, np.inf).min(axis=1)
    if (tokens.rescored < lowest).any():
        return -math.inf
    scaled = tokens.top / law.temperature
    everything = np.logaddexp(_log_sum(scaled), _tail(tokens.top, law.temperature))
    mass = _log_sum(np.where(kept, scaled, -np.inf)) - everything
    return float(-mass.sum())


def _heated(law: Law) -> Iterator[Law]:
    """The law at other temperatures."""
    for temperature in np.geomspace(0.2, 3.0, 109):
        yield replace(law, temperature=float(temperature))


def _filtered(tokens: Tokens, law: Law) -> Iterator[Law]:
    """Each filter at the law's temperature, of a width that the listed tokens can tell."""
    for k in range(1, tokens.top.shape[1] + 1):
        yield Law(temperature=law.temperature, top_k=k)
    for percent in range(50, 100):
        yield Law(temperature=law.temperature, top_p=percent / 100)


def _kept(top: Floats, law: Law) -> NDArray[np.bool_]:
    """Which of the likeliest a law can draw."""
    kept = np.isfinite(top)
    if law.top_k is not None:
        kept[:, law.top_k :] = False
    if law.top_p is not None:
        scaled = top / law.temperature
        everything = np.logaddexp(_log_sum(scaled), _tail(top, law.temperature))
        share = np.exp(scaled - everything[:, None])
        before = np.cumsum(share, axis=1) - share
        kept &= before < law.top_p
    return kept


def _tail(top: Floats, temperature: float) -> Floats:
    """The weight of all tokens that are not listed, taken to be about as likely as the last."""
    left = np.log(np.clip(1.0 - np.exp(top).sum(axis=1), 1e-12, None))
    last = np.where(np.isfinite(top), top, np.inf).min(axis=1)
    values: Floats = left + last * (1.0 / temperature - 1.0)
    return values


def _log_sum(values: Floats) -> Floats:
    highest = values.max(axis=1)
    found: Floats = highest + np.log(np.exp(values - highest[:, None]).sum(axis=1))
    return found


def _shifted(tokens: Tokens, claimed: Floats, shift: int) -> Floats:
    """Differences if the record of a token stands at the token `shift` further on in its run."""
    n = tokens.recorded.size
    if n <= abs(shift):
        return np.full(1, np.inf)
    here, there = (slice(shift, None), slice(None, n - shift))
    if shift < 0:
        here, there = slice(None, shift), slice(-shift, None)
    same = tokens.run[here] == tokens.run[there]
    found = tokens.recorded[here][same] - claimed[there][same]
    return found if found.size else np.full(1, np.inf)


def _mean_abs(values: Floats) -> float:
    return float(np.abs(values).mean())


def _correlation(tokens: Tokens) -> float:
    if min(tokens.recorded.std(), tokens.rescored.std()) == 0.0:
        return 0.0
    return float(np.corrcoef(tokens.recorded, tokens.rescored)[0, 1])
