"""Were the tokens drawn as the rows say? Decided by the tokens alone, where the records agree."""

import math
from dataclasses import dataclass

import numpy as np

from wmo_distill.scorers.compared import Compared
from wmo_distill.scorers.filters import (
    FilterOrder,
    Floats,
    Kept,
    SamplingParams,
    kept,
    log_sum,
    orders_of,
    unlisted,
)
from wmo_distill.scorers.fit import at_other_temperatures, with_other_filters

# Draws are judged by so many tokens, evenly taken.
_JUDGED = 2000
# In nats: a likelihood ratio that chance gives once in more than a million runs.
SURE = 14.0
_EACH = 5.0
# Standard errors beyond which tokens were not drawn so.
_FAR = 6.0
_RARE = 4.5
# Where engines differ a little, so large a share of tokens may be just outside a filter.
_SLIP = 0.02


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the drawn tokens say about sampling parameters."""

    params: SamplingParams
    orders: list[FilterOrder]
    """The orders of filters that the tokens allow."""
    others: list[SamplingParams]
    """Parameters of other kinds that explain the tokens hardly less well."""
    surprise: float
    """Standard errors by which the tokens are likelier than these parameters make them."""
    repeats: float
    """Standard errors by which tokens already in the sequence, or in the call, come more often
    than that; the lower of the two."""
    departs: float
    """The same excess of likelihood on average, in nats a token."""
    rarest: float = 1.0
    """Share by which repeated tokens must be rarer for `repeats` to show it."""

    @property
    def fits(self) -> bool:
        return abs(self.surprise) < _FAR and -_RARE < self.repeats < _FAR

    @property
    def penalised(self) -> bool:
        """Whether repeated tokens are too rare, as a repetition penalty makes them."""
        return self.repeats <= -_RARE


def drawn_by(tokens: Compared, claim: SamplingParams, *, left: float) -> Drawn:
    """The likeliest parameters; those of `claim` unless others are surely likelier.

    `left` is the mean difference of the records, in nats: unless it is next to nothing, a
    temperature that differs little is a model that does.
    """
    tokens = tokens.thinned(_JUDGED)
    exact = left < 1e-3
    slip = min(max(10.0 * left, 1e-9), _SLIP)
    orders = {order: _likelihood(tokens, claim, order, slip) for order in orders_of(claim)}
    claimed = max(orders, key=lambda one: orders[one])
    allowed = [one for one in orders if orders[one] > orders[claimed] - SURE]
    # Filters move where engines differ: a gain must be worth more than the difference.
    enough = SURE if exact else max(SURE, left * len(tokens))
    gains = _gains(tokens, claim, claimed, slip, exact=exact, enough=enough)
    if not gains or max(gains.values()) <= enough:
        return _drawn(tokens, claim, claimed, allowed, [])
    best = max(gains, key=lambda one: gains[one])
    near = [one for one in gains if gains[one] > gains[best] - SURE]
    # Each filter more must explain so much more.
    near.sort(key=lambda one: _EACH * one.filters - gains[one])
    chosen = near[0]
    others = {_kinds(one): one for one in reversed(near) if _kinds(one) != _kinds(chosen)}
    ranked = {order: _likelihood(tokens, chosen, order, slip) for order in orders_of(chosen)}
    likeliest = max(ranked, key=lambda one: ranked[one])
    also = [one for one in ranked if ranked[one] > ranked[likeliest] - SURE]
    rivals = [one for one in others.values() if one.filters == chosen.filters]
    return _drawn(tokens, chosen, likeliest, also, rivals)


def _kinds(params: SamplingParams) -> tuple[bool, ...]:
    """Which filters are on, and whether there is a temperature."""
    on = tuple(one is not None for one in (params.top_k, params.top_p, params.min_p))
    return (*on, params.temperature != 1.0)


def _gains(
    tokens: Compared,
    claim: SamplingParams,
    order: FilterOrder,
    slip: float,
    *,
    exact: bool,
    enough: float,
) -> dict[SamplingParams, float]:
    """By how many nats other parameters explain the tokens better than the claim."""
    gains: dict[SamplingParams, float] = {}

    def weigh(among: list[SamplingParams], base: float, *, conditional: bool) -> None:
        for one in among:
            orders = orders_of(one)
            by = order if order in orders else orders[0]
            gain = _likelihood(tokens, one, by, slip, conditional=conditional)
            gains[one] = max(gain - base, gains.get(one, -math.inf))

    listed = _likelihood(tokens, claim, order, slip, conditional=True)
    other = [
        one
        for one in at_other_temperatures(claim)
        if exact or abs(one.temperature / claim.temperature - 1) > 0.05
    ]
    weigh(other, listed, conditional=True)
    if claim.temperature == 1.0:
        base = _likelihood(tokens, claim, order, slip)
        weigh(list(with_other_filters(tokens, claim)), base, conditional=False)
    else:
        weigh(list(with_other_filters(tokens, claim)), listed, conditional=True)
    gains.pop(claim, None)
    for _ in range(3):  # a temperature and filters together
        best = max(gains, key=lambda one: gains[one])
        if gains[best] <= enough:
            break
        further = [*with_other_filters(tokens, best)]
        if best.temperature != claim.temperature:
            further += [*at_other_temperatures(best)]
        if best.temperature == 1.0 == claim.temperature:
            base = _likelihood(tokens, claim, order, slip)
            weigh(further, base, conditional=False)
            weigh(list(at_other_temperatures(best)), listed, conditional=True)
        else:
            weigh(further, listed, conditional=True)
        gains.pop(claim, None)
    return gains


def _likelihood(
    tokens: Compared,
    params: SamplingParams,
    order: FilterOrder,
    slip: float,
    *,
    conditional: bool = False,
) -> float:
    """Log-likelihood of the drawn tokens; `conditional`: given that they are listed ones.

    A share of `slip` may be drawn without any filter: a cut may be elsewhere by a token or two.
    """
    left = kept(tokens.top, params, order)
    inside = tokens.rescored >= _lowest(tokens.top, np.isfinite(tokens.top)) - 1e-9
    cut = _lowest(tokens.top, left.listed) - 1e-9
    drawable = ~left.whole | (tokens.rescored >= cut)
    scaled = tokens.top / params.temperature
    total = log_sum(np.where(left.listed, scaled, -np.inf))
    if not conditional:
        tail = unlisted(tokens.top, params.temperature)
        total = np.where(left.whole, total, np.logaddexp(total, tail))
    values = tokens.rescored / params.temperature - total
    base = tokens.rescored - (log_sum(tokens.top) if conditional else 0.0)
    if conditional:  # outside the list: impossible for a filter within it, else of no weight
        values = np.where(inside, values, 0.0)
        base = np.where(inside, base, 0.0)
    chance = np.where(drawable, values + math.log1p(-slip), -np.inf)
    return float(np.logaddexp(chance, base + math.log(slip)).sum())


def _lowest(top: Floats, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    """[N] the lowest of the chosen candidates."""
    values: Floats = np.where(chosen, top, np.inf).min(axis=1)
    return values


def _drawn(
    tokens: Compared,
    params: SamplingParams,
    order: FilterOrder,
    orders: list[FilterOrder],
    others: list[SamplingParams],
) -> Drawn:
    """How the tokens compare with what the parameters lead to expect of them."""
    left: Kept = kept(tokens.top, params, order)
    inside = (tokens.rescored >= _lowest(tokens.top, left.listed) - 1e-9) & left.listed.any(axis=1)
    scaled = np.where(left.listed, tokens.top / params.temperature, -np.inf)[inside]
    if not scaled.shape[0]:
        return Drawn(params, orders, others, 0.0, 0.0, 0.0)
    logs = scaled - log_sum(scaled)[:, None]
    chances = np.exp(logs)
    finite = np.where(np.isfinite(logs), logs, 0.0)
    mean = (chances * finite).sum(axis=1)
    variance = (chances * finite**2).sum(axis=1) - mean**2
    own = tokens.rescored[inside] / params.temperature - log_sum(scaled)
    repeats, expected_repeats = [], []
    for listed, drawn in ((tokens.top_seen, tokens.seen), (tokens.top_repeats, tokens.repeats)):
        expected = (chances * listed[inside]).sum(axis=1)
        squares = (chances * listed[inside].astype(float) ** 2).sum(axis=1)
        variance_of_it = float((squares - expected**2).sum())
        repeats.append(_errors((drawn[inside] - expected).sum(), variance_of_it))
        expected_repeats.append(
            _RARE * math.sqrt(max(variance_of_it, 1.0)) / max(float(expected.sum()), 1e-9)
        )
    return Drawn(
        params,
        orders,
        others,
        _errors((own - mean).sum(), variance.sum()),
        min(repeats),
        float((own - mean).mean()),
        min(1.0, *expected_repeats),
    )


def _errors(total: float, variance: float) -> float:
    return float(total / math.sqrt(max(variance, 1.0)))


def resolution(tokens: Compared, params: SamplingParams) -> tuple[float, float] | None:
    """What `drawn_by` could have seen: a temperature this far off, a filter that cuts this mass."""
    if not tokens.top.shape[1] or not len(tokens):
        return None
    tokens = tokens.thinned(_JUDGED)
    left = kept(tokens.top, params, orders_of(params)[0])
    scaled = np.where(left.listed, tokens.top / params.temperature, -np.inf)
    logs = scaled - log_sum(scaled)[:, None]
    chances = np.exp(logs)
    finite = np.where(np.isfinite(logs), logs, 0.0)
    variance = (chances * finite**2).sum(axis=1) - (chances * finite).sum(axis=1) ** 2
    information = max(float(variance.sum()), 1e-9)
    apart = params.temperature * math.sqrt(2.0 * SURE / information)
    return apart, min(1.0, SURE / len(tokens))
