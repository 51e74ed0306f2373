"""Deterministic causes: a function of the rescored values that gives the recorded ones."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from wmo_distill.scorers.compared import Claim, Compared
from wmo_distill.scorers.filters import FilterOrder, Floats, SamplingParams, orders_of
from wmo_distill.scorers.fit import apply_params, best_order, fit_records
from wmo_distill.scorers.tolerance import FEW, Tolerance, differ, limited, mean_abs

_SHIFTS = (-2, -1, 1, 2)
# A cause explains the records if it leaves no more than this share of the difference, in mean
# and in spread. A fit with several numbers free leaves little by chance: less still.
_LEFT = 0.25
_SPREAD = 0.35
_LEFT_BY_FIT = 0.15


class Cause(StrEnum):
    RAW = "raw"
    UNFILTERED = "unfiltered"
    FITTED = "fitted"
    UNITS = "units"
    FILLER = "filler"
    SHIFTED = "shifted"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cause that explains the records."""

    cause: Cause
    what: str
    """The values that were recorded, in words: `values after temperature 0.7`."""
    difference: Floats
    """[N] recorded values less what the cause makes of the rescored, NaN where not known."""
    params: SamplingParams | None = None
    orders: tuple[FilterOrder, ...] = ()
    shift: int = 0
    """Tokens further on in its run at which a token's value was recorded."""
    rivals: tuple[str, ...] = ()
    """`what` of other causes that explain the records no less."""
    clues: tuple[str, ...] = field(default=())


def explain(
    tokens: Compared,
    claim: Claim,
    claimed: Floats,
    tolerance: Tolerance,
    *,
    only: Cause | None = None,
) -> Explanation | None:
    """The cause that explains the records, None where none does."""
    base = tokens.recorded - claimed
    before, spread = mean_abs(base), float(limited(base).std())
    found = []
    for one in _causes(tokens, claim, claimed, only):
        share = _LEFT_BY_FIT if one.cause is Cause.FITTED else _LEFT
        known = limited(one.difference)
        if known.size < max(FEW, len(tokens) // 4):
            continue
        enough = min(tolerance.mean, share * before)
        if mean_abs(one.difference) <= enough and known.std() <= max(_SPREAD * spread, 1e-9):
            found.append(one)
    if not found:
        return None
    best = min(found, key=lambda one: mean_abs(one.difference))
    rivals = tuple(
        one.what
        for one in found
        if one.cause is not best.cause and _alike(best.difference, one.difference)
    )
    return Explanation(
        best.cause, best.what, best.difference, best.params, best.orders, best.shift, rivals
    )


def _alike(a: Floats, b: Floats) -> bool:
    if a.size != b.size:
        return mean_abs(b) <= 1.5 * mean_abs(a) + 1e-9
    return differ(a, b) < 4.0


def _causes(
    tokens: Compared, claim: Claim, claimed: Floats, only: Cause | None
) -> list[Explanation]:
    # A wrong record may come nearest to a wrong order: each is looked at.
    several = [claimed]
    if claim.processed:
        several = [apply_params(tokens, claim.params, order) for order in orders_of(claim.params)]
    found = [
        Explanation(Cause.SHIFTED, f"a shift by {by:+d}", _shifted(tokens, values, by), shift=by)
        for values in several
        for by in _SHIFTS
    ]
    if only is Cause.SHIFTED:
        return found
    if claim.processed and not claim.params.plain:
        found.append(Explanation(Cause.RAW, "raw values", tokens.recorded - tokens.rescored))
        if claim.params.filters:
            unfiltered = apply_params(tokens, claim.params.unfiltered(), FilterOrder.TOP_K_FIRST)
            what = "values after temperature, before filters"
            found.append(Explanation(Cause.UNFILTERED, what, tokens.recorded - unfiltered))
    found += [one for values in several for one in _units(tokens, values)]
    found += _fillers(tokens)
    if any(mean_abs(one.difference) < 0.02 * mean_abs(tokens.recorded - claimed) for one in found):
        return found  # nothing that is fitted can come nearer
    fit = fit_records(tokens, claim.params)
    if fit is not None and not fit.params.plain and _far(fit.params, claim):
        _, orders = best_order(tokens, fit.params)
        values = apply_params(tokens, fit.params, fit.order)
        found.append(
            Explanation(
                Cause.FITTED,
                f"values after {fit.params}",
                tokens.recorded - values,
                fit.params,
                tuple(orders) if len(orders_of(fit.params)) > 1 else (),
            )
        )
    return found


def _far(params: SamplingParams, claim: Claim) -> bool:
    """Whether a fit is another setting, not the claimed one or a temperature a hair off 1."""
    if claim.processed and params == claim.params:
        return False
    claimed = claim.params.temperature if claim.processed else 1.0
    return params.filters > 0 or abs(params.temperature / claimed - 1.0) > 0.03


def _units(tokens: Compared, claimed: Floats) -> list[Explanation]:
    forms = {
        "negative natural logarithms (the sign is flipped)": -claimed,
        "base-10 logarithms": claimed / math.log(10.0),
        "base-2 logarithms": claimed / math.log(2.0),
        "negative base-10 logarithms": -claimed / math.log(10.0),
        "negative base-2 logarithms": -claimed / math.log(2.0),
        "probabilities": np.exp(claimed),
    }
    return [
        Explanation(Cause.UNITS, what, tokens.recorded - values) for what, values in forms.items()
    ]


def _fillers(tokens: Compared) -> list[Explanation]:
    values, counts = np.unique(tokens.recorded, return_counts=True)
    common = float(values[counts.argmax()])
    sure = tokens.rescored.std() < 1e-3
    if counts.max() < 0.95 * len(tokens) or sure:
        return []
    if common == 0.0 and not tokens.top.shape[1]:
        return []  # greedy sampling records 0 too, and only candidates show whether it was
    what = f"the constant {common + 0.0:g}"
    found = [Explanation(Cause.FILLER, what, tokens.recorded - common)]
    if common == 0.0 and (tokens.rescored >= tokens.top[:, 0] - 1e-3).mean() > 0.95:
        greedy = SamplingParams(top_k=1)
        values = tokens.recorded.copy()
        found.append(Explanation(Cause.FITTED, "greedy sampling", values, greedy))
    return found


def _shifted(tokens: Compared, claimed: Floats, shift: int) -> Floats:
    """Differences if the record of a token is at the token `shift` further on in its run."""
    n = len(tokens)
    if n <= abs(shift):
        return np.full(1, np.nan)
    here, there = (slice(shift, None), slice(None, n - shift))
    if shift < 0:
        here, there = slice(None, shift), slice(-shift, None)
    same = (tokens.run[here] == tokens.run[there]) & (
        tokens.offset[here] - tokens.offset[there] == shift
    )
    values: Floats = tokens.recorded[here][same] - claimed[there][same]
    return values
