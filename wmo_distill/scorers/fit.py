"""Which sampling parameters, in which order, explain recorded log-probabilities."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from wmo_distill.scorers.compared import Compared
from wmo_distill.scorers.filters import (
    Bools,
    FilterOrder,
    Floats,
    SamplingParams,
    at_temperature,
    kept,
    orders_of,
    processed,
)
from wmo_distill.scorers.tolerance import FEW, differ, mean_abs

TEMPERATURES = np.geomspace(0.2, 3.0, 109)
_COARSE = np.geomspace(0.25, 2.5, 16)
_TOP_PS = (*np.arange(50, 100) / 100, 0.995)
_MIN_PS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
# What model cards recommend: from here a search for several filters begins.
_COMMON = (
    SamplingParams(temperature=0.6, top_p=0.95, top_k=20),
    SamplingParams(temperature=0.7, top_p=0.8, top_k=20),
    SamplingParams(temperature=0.7, top_p=0.9, top_k=20),
    SamplingParams(temperature=0.6, top_p=0.95),
    SamplingParams(temperature=0.8, top_p=0.95),
    SamplingParams(temperature=1.0, top_p=0.95, top_k=40),
)
# Fits look at so many tokens, evenly taken; the search for a start at fewer.
FITTED = 1000
_SEARCHED = 120


@dataclass(frozen=True, slots=True)
class Fit:
    """Parameters that explain recorded values, and what they leave."""

    params: SamplingParams
    order: FilterOrder
    left: float
    """Mean absolute difference in nats, over the tokens whose value is known."""


def apply_params(tokens: Compared, params: SamplingParams, order: FilterOrder) -> Floats:
    """The rescored values after sampling parameters, NaN where too few tokens are listed."""
    return processed(tokens.rescored, tokens.top, params, order)


def drawable(tokens: Compared, params: SamplingParams, order: FilterOrder) -> Bools:
    """Which of the tokens sampling parameters let pass, as far as the listed ones show."""
    left = kept(tokens.top, params, order)
    lowest = np.where(left.listed, tokens.top, np.inf).min(axis=1)
    found: Bools = ~left.whole | (tokens.rescored >= lowest - 1e-9)
    return found


def best_order(tokens: Compared, params: SamplingParams) -> tuple[Fit, list[FilterOrder]]:
    """The order that comes nearest to the records, and all that come as near."""
    left = {
        order: tokens.recorded - apply_params(tokens, params, order) for order in orders_of(params)
    }
    best = min(left, key=lambda one: mean_abs(left[one]))
    same = [one for one in left if one is best or differ(left[best], left[one]) < 4.0]
    return Fit(params, best, mean_abs(left[best])), same


@lru_cache(maxsize=2)  # one question, whether it names a fault or only speaks against another
def fit_records(tokens: Compared, start: SamplingParams) -> Fit | None:
    """The parameters after which the rescored tokens come nearest to the records.

    None without candidates, or where they give less than half of the values for any parameters.
    """
    if not tokens.top.shape[1]:
        return None
    few, some = tokens.thinned(_SEARCHED), tokens.thinned(FITTED)
    starts = [SamplingParams(), start, *_COMMON]
    starts += [at_temperature(one, t) for t in _COARSE for one in {SamplingParams(), start}]
    # Two starts, since one may end where no small step leads further.
    some_start = _nearest(few, starts)
    some_start = _nearest(few, [some_start.params, *with_other_filters(few, start, coarse=True)])
    single = _nearest(few, with_other_filters(few, SamplingParams()))
    best = min((_polished(few, some, one) for one in (some_start, single)), key=_left)
    if best.left == math.inf:
        return None
    found, _ = best_order(tokens, best.params)
    return found


def _polished(few: Compared, some: Compared, best: Fit) -> Fit:
    """The parameters that temperature and filters, changed in turn, lead to."""
    plain = mean_abs(few.recorded - few.rescored)
    for at in (few, few, some):
        if at is some and best.left > 0.5 * plain:
            break  # it explains too little to be looked at closely
        before = best.left
        for _ in range(2):
            best = _nearest(at, [best.params, *at_other_temperatures(best.params)], best.order)
            best = _nearest(at, [best.params, *with_other_filters(at, best.params)], best.order)
        best = _nearest(at, [best.params, *_finer(best.params)])
        if at is few and best.left > 0.9 * before:
            break
    return best


def _left(fit: Fit) -> float:
    return fit.left


def _nearest(
    tokens: Compared, among: Iterable[SamplingParams], order: FilterOrder | None = None
) -> Fit:
    """The nearest of some parameters, in any order of filters or the one given."""
    found = Fit(SamplingParams(), FilterOrder.TOP_K_FIRST, math.inf)
    sure = tokens.recorded.min() > -1e-3
    for params in among:
        if params.top_k == 1 and not sure:
            continue  # all greedy records are 0
        orders = orders_of(params)
        for one in orders if order is None else [order if order in orders else orders[0]]:
            values = apply_params(tokens, params, one)
            if np.isfinite(values).sum() < max(FEW, values.size // 2):
                continue
            left = mean_abs(tokens.recorded - values)
            simpler = params.filters < found.params.filters
            if left < found.left - 1e-12 or (simpler and left <= found.left + 1e-12):
                found = Fit(params, one, left)
    return found


def at_other_temperatures(params: SamplingParams) -> Iterator[SamplingParams]:
    """The parameters at other temperatures."""
    for temperature in TEMPERATURES:
        yield at_temperature(params, temperature)


def _finer(params: SamplingParams) -> Iterator[SamplingParams]:
    """Temperatures near by, among them the round ones."""
    for factor in np.linspace(0.975, 1.025, 21):
        yield at_temperature(params, params.temperature * factor)
    yield at_temperature(params, round(params.temperature, 1))
    yield at_temperature(params, round(params.temperature, 2))


def with_other_filters(
    tokens: Compared, params: SamplingParams, *, coarse: bool = False
) -> Iterator[SamplingParams]:
    """The parameters with each filter off, and at each width that the listed tokens allow."""
    for name in ("top_k", "top_p", "min_p"):
        if getattr(params, name) is not None:
            yield replace(params, **{name: None})  # type: ignore[arg-type]
    width = tokens.top.shape[1]
    widths = sorted({*range(1, min(width, 64) + 1), *(int(k) for k in np.geomspace(1, width, 40))})
    for k in widths[:: 3 if coarse else 1]:
        yield replace(params, top_k=k)
    for p in _TOP_PS[:: 5 if coarse else 1]:
        yield replace(params, top_p=float(p))
    for p in _MIN_PS[:: 3 if coarse else 1]:
        yield replace(params, min_p=p)
