"""Recorded log-probabilities against those of the same model asked again: what is wrong.

A fault is named only where it explains the records and no other fault does; else `unexplained`.
"""

from dataclasses import replace

import numpy as np

from wmo_distill.scorers.compared import Claim, Compared
from wmo_distill.scorers.draws import Drawn, drawn_by
from wmo_distill.scorers.explain import Cause, Explanation, explain
from wmo_distill.scorers.filters import Bools, FilterOrder, Floats, orders_of
from wmo_distill.scorers.fit import apply_params, best_order
from wmo_distill.scorers.parts import parts_that_differ, uneven
from wmo_distill.scorers.residue import objections, unlike
from wmo_distill.scorers.tolerance import FEW, Tolerance, limited, mean_abs
from wmo_distill.scorers.verdict import Finding, Verdict

_VERDICTS = {
    Cause.RAW: Verdict.RAW,
    Cause.UNFILTERED: Verdict.UNFILTERED,
    Cause.UNITS: Verdict.UNITS,
    Cause.FILLER: Verdict.FILLER,
    Cause.SHIFTED: Verdict.SHIFTED,
}


def find_fault(tokens: Compared, claim: Claim, tolerance: Tolerance) -> Finding:
    """The likeliest fault of records that `claim` describes."""
    claimed, orders = claimed_values(tokens, claim)
    difference = tokens.recorded - claimed
    known = np.isfinite(claimed)
    if claim.processed and claim.others:
        return Finding(
            Verdict.UNEXPLAINED,
            clues=(f"values after {', '.join(claim.others)} cannot be computed here",),
        )
    if int(known.sum()) < FEW:
        return _of_few(difference, int(known.sum()), len(tokens), tolerance)
    odd = parts_that_differ(tokens, difference, tolerance)
    if tolerance.allows(difference) and not odd.episodes and not odd.clues:
        fault = _hidden_shift(tokens, claim, difference, tolerance)
        return fault or _of_draws(tokens, claim, tuple(orders), difference)
    cause = explain(tokens, claim, claimed, tolerance)
    if cause is not None:
        return _named(cause, claim)
    if known.mean() < 0.8:
        few = f"the listed candidates give only {known.mean():.0%} of the values by the claim"
        return Finding(Verdict.UNEXPLAINED, clues=(few, *odd.clues))
    parts = _of_parts(tokens, claim, difference, tolerance)
    if parts is not None:
        return replace(parts, clues=(*parts.clues, *odd.clues))
    return _of_residue(tokens, claim, difference, odd.clues, tolerance)


def claimed_values(tokens: Compared, claim: Claim) -> tuple[Floats, list[FilterOrder]]:
    """What the records should be by the claim, and the orders of filters that fit them."""
    if not claim.processed:
        return tokens.rescored, []
    fit, orders = best_order(tokens, claim.params)
    return apply_params(tokens, claim.params, fit.order), orders


def _of_few(difference: Floats, known: int, tokens: int, tolerance: Tolerance) -> Finding:
    if known and known == tokens and mean_abs(difference) <= tolerance.mean:
        return Finding(Verdict.AGREES, clues=(f"only {known} tokens were compared",))
    short = f"{known} of {tokens} compared tokens have a value by the claim"
    return Finding(Verdict.UNEXPLAINED, clues=(short,))


def _hidden_shift(
    tokens: Compared, claim: Claim, difference: Floats, tolerance: Tolerance
) -> Finding | None:
    """A sure model differs little from anything: there a shift must not explain much better."""
    left = mean_abs(difference)
    if left <= 1e-6:
        return None
    cause = explain(tokens, claim, tokens.recorded - difference, tolerance, only=Cause.SHIFTED)
    return None if cause is None else _named(cause, claim)


def _of_draws(
    tokens: Compared, claim: Claim, orders: tuple[FilterOrder, ...], difference: Floats
) -> Finding:
    """The records agree: were the tokens drawn as the rows say?"""
    if not tokens.top.shape[1] or claim.others:
        return Finding(Verdict.AGREES, orders=orders)
    left = mean_abs(difference)
    drawn = drawn_by(tokens, claim.params, left=left)
    if not claim.processed:
        orders = tuple(drawn.orders)
    open_orders = orders if len(orders_of(drawn.params)) > 1 else ()
    if drawn.params == claim.params:
        if drawn.fits or (abs(drawn.departs) <= max(0.01, left) and not drawn.penalised):
            return Finding(Verdict.AGREES, orders=open_orders, drawn=drawn)
        if drawn.penalised and abs(drawn.surprise) < 2.0 * abs(drawn.repeats):
            return Finding(Verdict.PENALTY, clues=(_rare(drawn),), drawn=drawn)
        clue = (
            f"the tokens were not drawn by {claim.params}: they are "
            f"{'likelier' if drawn.surprise > 0 else 'less likely'} than that by "
            f"{abs(drawn.surprise):.0f} standard errors"
        )
        return Finding(Verdict.UNEXPLAINED, clues=(clue, *_repeats(drawn)), drawn=drawn)
    if not drawn.fits:
        clue = f"{drawn.params} fits the drawn tokens better than {claim.params}, but not well"
        return Finding(Verdict.UNEXPLAINED, clues=(clue, *_repeats(drawn)), drawn=drawn)
    detail = "; or ".join(str(one) for one in drawn.others)
    other_temperature = drawn.params.temperature != claim.params.temperature
    return Finding(
        Verdict.TEMPERATURE if other_temperature else Verdict.FILTERED,
        drawn.params,
        tuple(drawn.orders) if len(orders_of(drawn.params)) > 1 else (),
        detail=f"explained no better than by: {detail}" if detail else "",
        drawn=drawn,
    )


def _rare(drawn: Drawn) -> str:
    return (
        "tokens that are in the sequence already were drawn less often than the model says, by "
        f"{-drawn.repeats:.0f} standard errors"
    )


def _repeats(drawn: Drawn) -> tuple[str, ...]:
    return (_rare(drawn),) if drawn.penalised else ()


def _named(cause: Explanation, claim: Claim) -> Finding:
    if cause.rivals:
        names = " or ".join(str(one) for one in (cause.what, *cause.rivals))
        return Finding(Verdict.UNEXPLAINED, clues=(f"explained alike by: {names}",))
    if cause.cause is Cause.FITTED:
        assert cause.params is not None
        other_temperature = cause.params.temperature != claim.params.temperature
        other = Verdict.TEMPERATURE if other_temperature else Verdict.FILTERED
        verdict = other if claim.processed else Verdict.PROCESSED
        return Finding(verdict, cause.params, cause.orders, clues=cause.clues)
    return Finding(
        _VERDICTS[cause.cause],
        params=cause.params,
        orders=cause.orders,
        shift=cause.shift,
        detail=cause.what if cause.cause in (Cause.UNITS, Cause.FILLER) else "",
        clues=cause.clues,
    )


def _of_parts(
    tokens: Compared, claim: Claim, difference: Floats, tolerance: Tolerance
) -> Finding | None:
    """Some versions, episodes or turns agree, the others do not."""
    versions = uneven(tokens, difference, tokens.version, tolerance, few=FEW)
    if versions.bad and versions.good and -1 not in versions.bad:
        return Finding(Verdict.MIXED_VERSIONS, versions=tuple(versions.bad))
    mixed = np.unique(tokens.version).size > 1
    opening, later = tokens.opening, ~tokens.opening
    episodes = uneven(tokens, difference, tokens.episode, tolerance, few=8)
    bad = np.isin(tokens.episode, episodes.bad)
    if (
        episodes.decided
        and len(episodes.good) >= len(episodes.bad)
        and not _scattered(tokens.where(bad), difference[bad], tolerance)
    ):
        inner = _inside(tokens.where(bad), claim, tolerance)
        return Finding(
            Verdict.SOME_EPISODES,
            inner.params,
            inner.orders,
            inner.shift,
            detail=f"in these: {inner.verdict}",
            clues=inner.clues,
            episodes=tuple(episodes.bad),
        )
    if opening.sum() >= FEW and later.sum() >= FEW and tolerance.allows(difference[opening]):
        return _later(tokens, claim, difference, later, tolerance, mixed=mixed)
    return None


def _scattered(tokens: Compared, difference: Floats, tolerance: Tolerance) -> bool:
    """Whether most unsure tokens agree exactly even in turns that do not: no fault of episodes."""
    turns = uneven(tokens, difference, tokens.run, tolerance, few=8)
    claimed = tokens.recorded - difference
    unsure = np.isin(tokens.run, turns.bad) & (claimed < -0.05)
    return bool(unsure.any() and (np.abs(difference[unsure]) < 1e-3).mean() > 0.3)


def _inside(tokens: Compared, claim: Claim, tolerance: Tolerance) -> Finding:
    """The fault of a part by itself."""
    claimed, _ = claimed_values(tokens, claim)
    if int(np.isfinite(claimed).sum()) < FEW:
        return Finding(Verdict.UNEXPLAINED)
    cause = explain(tokens, claim, claimed, tolerance)
    return Finding(Verdict.UNEXPLAINED) if cause is None else _named(cause, claim)


def _later(
    tokens: Compared,
    claim: Claim,
    difference: Floats,
    later: Bools,
    tolerance: Tolerance,
    *,
    mixed: bool,
) -> Finding | None:
    """First turns agree, later ones do not."""
    inner = _inside(tokens.where(later), claim, tolerance)
    if inner.verdict is not Verdict.UNEXPLAINED:
        return replace(inner, clues=(*inner.clues, "in later turns; first turns agree"))
    begun = mean_abs(difference[tokens.opening])
    gone_on = mean_abs(difference[later])
    turns = uneven(tokens.where(later), difference[later], tokens.run[later], tolerance, few=8)
    most = len(turns.good) <= 0.05 * (len(turns.good) + len(turns.bad) + len(turns.between))
    reasons = [] if most else ["some later turns agree"]
    if mixed:
        reasons.append("several policy versions are in the sample")
    reasons += unlike(tokens.where(later), claim, difference[later])
    if gone_on > 6.0 * begun and not reasons:
        return Finding(Verdict.TEMPLATE)
    if gone_on > 3.0 * begun:
        return Finding(
            Verdict.UNEXPLAINED, clues=("first turns agree and later ones do not", *reasons)
        )
    return None


def _of_residue(
    tokens: Compared,
    claim: Claim,
    difference: Floats,
    clues: tuple[str, ...],
    tolerance: Tolerance,
) -> Finding:
    """What is left: other weights, another tokenizer, or nothing that can be named."""
    known = limited(difference)
    if float(known.mean()) > 2.0 and correlation(tokens) < 0.3:
        at = np.isfinite(difference)
        early = mean_abs(difference[at & (tokens.offset < np.median(tokens.offset))])
        late = mean_abs(difference[at & (tokens.offset >= np.median(tokens.offset))])
        if late > 0.8 * early:
            return Finding(Verdict.TOKENIZER)
        clue = "the ids make less and less trouble along each turn: the prompts may be others"
        return Finding(Verdict.UNEXPLAINED, clues=(clue, *clues))
    found = objections(tokens, claim, difference, tolerance)
    if correlation(tokens) < 0.5:
        found.append("recorded and rescored values are hardly correlated")
    if found or clues:
        return Finding(Verdict.UNEXPLAINED, clues=(*clues, *found))
    return Finding(Verdict.WEIGHTS)


def correlation(tokens: Compared) -> float:
    """Of recorded and rescored values; 0 where one of them is constant."""
    recorded = np.clip(tokens.recorded, -50.0, None)
    rescored = np.clip(tokens.rescored, -50.0, None)
    if min(recorded.std(), rescored.std()) < 1e-12:
        return 0.0
    return float(np.corrcoef(recorded, rescored)[0, 1])
