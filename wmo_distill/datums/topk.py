"""Cross-entropy to a teacher's k likeliest tokens, as k weighted copies of each datum."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from pydantic import BaseModel, ConfigDict

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.datum import TrainDatum

Candidates = Sequence[tuple[int, float]]
"""(token id, log-probability) of the teacher's likeliest tokens at one position."""


# What bfloat16 makes of a log-probability of -12 is off by up to 0.03: servers list the realised
# token with the likeliest ones, at times rounded in another way.
_SAME = 0.05


class TopkStats(BaseModel):
    """Loss and context tokens are those of the source datums that were kept."""

    model_config = ConfigDict(frozen=True)

    source_datums: int
    datums: int
    mismatch_drops: int
    loss_tokens: int
    context_tokens: int


def build_topk_ce_datums(
    datums: Sequence[TrainDatum], rows: Sequence[Sequence[Candidates | None]], k: int
) -> tuple[list[TrainDatum], TopkStats]:
    """k copies a datum, in source order, then by rank.

    Copy r takes the candidate of rank r at every loss position, weighted by the softmax over
    those given; a missing rank is the realised token at weight 0, as is every other position.
    An id that is listed twice is one candidate, also where rounding makes the second value
    another (by at most 0.05). An id with two log-probabilities that differ by more names two
    outcomes of the teacher, such as tokens of another tokenizer: their probabilities add up. A
    row without one candidate above `IMPLAUSIBLE_LOGPROB` at a loss position does not fit.
    ValueError for k < 1, another number of rows than of datums, or more than k candidates.
    """
    if k < 1:
        raise ValueError(f"k: expected at least 1, found {k}")
    if len(rows) != len(datums):
        raise ValueError(f"rows: expected {len(datums)}, one a datum, found {len(rows)}")
    for number, row in enumerate(rows):
        longest = max((len(candidates) for candidates in row if candidates), default=0)
        if longest > k:
            raise ValueError(f"rows[{number}]: expected at most {k} candidates, found {longest}")
    copies: list[TrainDatum] = []
    kept: list[TrainDatum] = []
    for datum, row in zip(datums, rows, strict=True):
        made = _copies(datum, row, k)
        if made is not None:
            kept.append(datum)
            copies += made
    loss = sum(datum.loss_tokens for datum in kept)
    return copies, TopkStats(
        source_datums=len(kept),
        datums=len(copies),
        mismatch_drops=len(datums) - len(kept),
        loss_tokens=loss,
        context_tokens=sum(datum.token_ids.size for datum in kept) - loss,
    )


def _copies(datum: TrainDatum, row: Sequence[Candidates | None], k: int) -> list[TrainDatum] | None:
    """The copies of one datum, None where its row does not fit it."""
    n = datum.token_ids.size
    if len(row) != n:
        return None
    ids = np.tile(datum.token_ids, (k, 1))
    weights = np.zeros((k, n), np.float64)
    for at in np.flatnonzero(datum.loss_mask).tolist():
        ranked = _distinct(row[at] or ())
        shares = _softmax([logprob for _, logprob in ranked])
        if not shares:
            return None
        for rank, ((token, _), share) in enumerate(zip(ranked, shares, strict=True)):
            ids[rank, at] = token
            weights[rank, at] = share
    return [replace(datum, target_ids=ids[r], target_weights=weights[r]) for r in range(k)]


def _distinct(candidates: Candidates) -> list[tuple[int, float]]:
    """The likeliest first, without one that repeats an id at the same log-probability.

    [(7, -0.5), (7, -0.5001), (8, -1.0)] are [(7, -0.5), (8, -1.0)].
    """
    ranked = sorted(
        {(token, float(logprob)) for token, logprob in candidates}, key=lambda c: (-c[1], c[0])
    )
    kept: list[tuple[int, float]] = []
    last: dict[int, float] = {}
    for token, logprob in ranked:
        if token not in last or not last[token] - logprob <= _SAME:
            kept.append((token, logprob))
            last[token] = logprob
    return kept


def _softmax(logprobs: Sequence[float]) -> list[float]:
    """Weights that sum to 1; none where no candidate is possible or one is no number."""
    highest = max(logprobs, default=-math.inf)
    if any(map(math.isnan, logprobs)) or not IMPLAUSIBLE_LOGPROB < highest < math.inf:
        return []
    shares = [math.exp(x - highest) for x in logprobs]
    total = math.fsum(shares)
    return [share / total for share in shares]
