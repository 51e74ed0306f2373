"""How tokens are drawn: what a law makes of a model's distribution, and which law explains tokens.

Pure functions over arrays of N trained tokens. Natural logarithms throughout.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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


# Fewer compared tokens than these tell nothing in particular.
FEW = 30
# A law's normaliser is known where the tokens that are not listed weigh no more than this.
_UNLISTED = 0.01
# Fits look at so many tokens, evenly taken.
_FITTED = 20_000
# In nats: a likelihood ratio that chance gives once in more than a million runs.
_SURE = 14.0


def predicted(tokens: Tokens, law: Law) -> Floats:
    """The tokens' log-probabilities after a law, NaN where the listed ones do not tell them."""
    if law.plain:
        return tokens.rescored
    top = tokens.top
    if not top.shape[1]:
        return np.full(tokens.rescored.size, np.nan)
    scaled = top / law.temperature
    tail = _tail(top, law.temperature)
    everything = _everything(top, law.temperature)
    listed = _log_sum(np.where(_kept(top, law), scaled, -np.inf))
    reaches = np.zeros(top.shape[0], np.bool_)
    total = listed
    if law.top_p is not None:
        # The nucleus goes on past the list: by its own rule it weighs about top_p.
        reaches = np.exp(_log_sum(scaled) - everything) < law.top_p
        total = np.where(reaches, everything + math.log(law.top_p), listed)
    elif law.top_k is None or law.top_k > top.shape[1]:
        total = everything
        reaches = np.ones_like(reaches)
    heated = law.temperature != 1.0 or (law.top_k is not None and law.top_k > top.shape[1])
    unknown = reaches & heated & (np.exp(tail - everything) > _UNLISTED)
    values: Floats = np.where(unknown, np.nan, tokens.rescored / law.temperature - total)
    return values


def fit_law(tokens: Tokens, law: Law) -> Law | None:
    """The law after which the rescored tokens come nearest to the records."""
    if not tokens.top.shape[1]:
        return None

    few = _thinned(tokens)

    def left(one: Law) -> float:
        if one.top_k == 1 and few.recorded.min() < -1e-3:
            return math.inf  # all greedy records are 0
        values = predicted(few, one)
        if np.isfinite(values).sum() < min(FEW, values.size):
            return math.inf
        return mean_abs(few.recorded - values)

    best = min(
        [Law(), law, *_heated(Law()), *_filtered(tokens, Law()), *_filtered(tokens, law)], key=left
    )
    for _ in range(3):  # the temperature and the filter in turn
        best = min([best, *_heated(best)], key=left)
        best = min([best, *_filtered(tokens, best)], key=left)
    return best


def drawn_by(tokens: Tokens, law: Law, *, exact: bool) -> Law | None:
    """Another law by which these tokens were surely drawn, told from the tokens alone.

    Unless the records are `exact`, a temperature that differs little is a model that does.
    """
    if not tokens.top.shape[1]:
        return None
    tokens = _thinned(tokens)
    kept = _kept(tokens.top, law)
    lowest = np.where(kept, tokens.top, np.inf).min(axis=1)
    inside = tokens.rescored >= lowest
    listed = np.where(kept, tokens.top, -np.inf)[inside]

    def among_listed(temperature: float) -> float:
        """Their likelihood, given that they are among the listed ones."""
        total = _log_sum(listed / temperature)
        return float((tokens.rescored[inside] / temperature - total).sum())

    base = among_listed(law.temperature)
    gains = {
        one: among_listed(one.temperature) - base
        for one in _heated(law)
        if exact or abs(one.temperature / law.temperature - 1.0) > 0.05
    }
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
    everything = _everything(tokens.top, law.temperature)
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
        everything = _everything(top, law.temperature)
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


def _everything(top: Floats, temperature: float) -> Floats:
    """The weight of all tokens, listed or not."""
    found: Floats = np.logaddexp(_log_sum(top / temperature), _tail(top, temperature))
    return found


def _log_sum(values: Floats) -> Floats:
    highest = values.max(axis=1)
    found: Floats = highest + np.log(np.exp(values - highest[:, None]).sum(axis=1))
    return found


def mean_abs(values: Floats) -> float:
    """Over the values that are known."""
    known = values[np.isfinite(values)]
    return float(np.abs(known).mean()) if known.size else math.inf


def _thinned(tokens: Tokens) -> Tokens:
    """At most `_FITTED` of the tokens, evenly taken."""
    step = -(-tokens.recorded.size // _FITTED)
    if step <= 1:
        return tokens
    return Tokens(*(getattr(tokens, field.name)[::step] for field in fields(tokens)))
