"""Are differences those of another model's distribution, or of something else?

Tokens x drawn from p and scored by q obey E[q(x)/p(x)] = 1 in every context; values that are no
log-probabilities of the sampler (clipped, shuffled, noisy, another model's) break it.
"""

import math

import numpy as np

from wmo_distill.scorers.compared import Claim, Compared
from wmo_distill.scorers.filters import Bools, Floats
from wmo_distill.scorers.fit import best_order, drawable, fit_records
from wmo_distill.scorers.parts import uneven
from wmo_distill.scorers.tolerance import FEW, Tolerance, limited, mean_abs, step_of

# Below this share of the mass of most tokens, candidates rule out no temperature.
_ENOUGH = 0.01


def objections(
    tokens: Compared, claim: Claim, difference: Floats, tolerance: Tolerance
) -> list[str]:
    """Why the differences may be no change of weights; empty: nothing speaks against it."""
    found = []
    if not tokens.top.shape[1]:
        found.append("no candidates are listed: temperatures and filters are not ruled out")
    elif listed_share(tokens) < 0.5:
        found.append("the listed candidates hold too little mass to rule out a temperature")
    else:
        fit = fit_records(tokens, claim.params)
        if fit is not None and not fit.params.plain and fit.left < 0.5 * mean_abs(difference):
            found.append(f"{fit.params} explains a part of it")
    if step_of(tokens.recorded) == 1.0:
        found.append("the recorded values are whole numbers")
    found += unlike(tokens, claim, difference)
    early, late = _ends(tokens, difference)
    if late < 0.8 * early:
        found.append(
            "differences shrink along the sequences: the sampler may have seen another beginning, "
            "such as a BOS token or a system prompt that is not recorded"
        )
    first = tokens.turn == 0
    if first.sum() >= FEW and (~first).sum() >= FEW:
        begun, gone_on = mean_abs(difference[first]), mean_abs(difference[~first])
        if begun < 0.4 * gone_on:
            found.append("later turns differ more than first ones")
    episodes = uneven(tokens, difference, tokens.episode, tolerance, few=8)
    if len(episodes.good) > 0.3 * (len(episodes.bad) + len(episodes.between)):
        found.append("a part of the episodes agrees")
    return found


def unlike(tokens: Compared, claim: Claim, difference: Floats) -> list[str]:
    """Why the recorded values may be no other distribution's from which the tokens were drawn."""
    found = []
    known = np.isfinite(difference)
    if known.sum() < FEW:
        return ["too few tokens"]
    ratio = np.exp(-np.clip(difference, -5.0, 5.0))
    slack = 0.005
    if not claim.processed and not claim.params.plain:
        slack = 0.1  # drawn after filters, recorded before: only about 1
        ratio = ratio ** (1.0 / claim.params.temperature)
    if claim.processed and claim.params.filters:
        slack = 0.15  # the two filters need not keep the same tokens
        order = best_order(tokens, claim.params)[0].order
        ratio = np.where(drawable(tokens, claim.params, order), ratio, 0.0)
    groups = [known, *_by_sureness(tokens, known)]
    far = [_far(ratio[group] - 1.0, 4.5 if at else 3.0, slack) for at, group in enumerate(groups)]
    if any(far):
        found.append(
            "probability ratios do not average to 1, as they do for tokens drawn from the recorded "
            "probabilities"
        )
    if limited(difference).mean() < -0.01:
        found.append("the recorded values are lower than the rescored")
    if any(
        _lower(difference[known & seen], difference[known & ~seen])
        for seen in (tokens.seen, tokens.repeats > 0)
    ) or _by_repeats(tokens, known, difference):
        found.append(
            "repeated tokens were recorded as less likely than others: a repetition, presence or "
            "frequency penalty"
        )
    sure, doubtful = known & (tokens.rescored > -0.3), known & (tokens.rescored < -2.0)
    filters = claim.processed and claim.params.filters
    if min(sure.sum(), doubtful.sum()) >= FEW and not filters:
        alike = mean_abs(difference[sure]) > 0.65 * mean_abs(difference[doubtful])
        found += ["sure tokens differ as much as others do: noise in the values"] if alike else []
    unsure = known & (tokens.recorded - difference < -0.5)
    same = np.abs(difference[unsure]) < 0.02 * np.abs(difference[unsure]).mean()
    if unsure.sum() >= FEW and same.mean() > 0.15:
        found.append(f"{same.mean():.0%} of the unsure tokens agree exactly")
    zeros = (tokens.recorded == 0.0) & (difference > 0.1)
    # After a filter a token may be the only one left, by one model and not by the other.
    if zeros.mean() > 0.02 and not (claim.processed and claim.params.filters):
        found.append(f"{zeros.mean():.0%} of the recorded values are 0 where the model is not sure")
    return found


def _by_repeats(tokens: Compared, known: Bools, difference: Floats) -> bool:
    """Whether new tokens differ where repeated ones could have come, and hardly elsewhere.

    A penalty takes mass from repeated candidates: what it gives to the others grows with that.
    """
    mass = (np.exp(tokens.top) * tokens.top_seen).sum(axis=1)
    new = known & ~tokens.seen
    few, much = difference[new & (mass < 0.02)], difference[new & (mass > 0.1)]
    return min(few.size, much.size) >= 10 and mean_abs(few) < 0.4 * mean_abs(much)


def _lower(some: Floats, others: Floats) -> bool:
    """Whether some values are surely lower than others on average."""
    if some.size < 10 or others.size < 10:
        return False
    error = math.sqrt(some.var() / some.size + others.var() / others.size + 1e-18)
    return bool(some.mean() - others.mean() < -3.0 * error)


def listed_share(tokens: Compared) -> float:
    """Share of the tokens whose listed candidates hold nearly all mass."""
    if not tokens.top.shape[1] or not len(tokens):
        return 0.0
    return float((np.exp(tokens.top).sum(axis=1) > 1.0 - _ENOUGH).mean())


def _far(values: Floats, errors: float, slack: float) -> bool:
    if values.size < FEW:
        return False
    error = values.std() / math.sqrt(values.size)
    return bool(abs(values.mean()) > errors * error + slack)


def _by_sureness(tokens: Compared, known: Bools) -> list[Bools]:
    """Thirds of the tokens by how sure the model is in their context, whatever the token."""
    if not tokens.top.shape[1] or known.sum() < 10 * FEW:
        return []
    sure = tokens.top[:, 0]
    edges = np.quantile(sure[known], (1 / 3, 2 / 3))
    part = np.digitize(sure, edges)
    return [known & (part == one) for one in range(3)]


def _ends(tokens: Compared, difference: Floats) -> tuple[float, float]:
    """Mean absolute difference in the first and the last third of the positions."""
    known = np.isfinite(difference)
    edges = np.quantile(tokens.position[known], (1 / 3, 2 / 3))
    early = difference[known & (tokens.position <= edges[0])]
    late = difference[known & (tokens.position >= edges[1])]
    return mean_abs(early), mean_abs(late)
