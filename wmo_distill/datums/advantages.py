"""Advantages from a teacher: the reverse KL of the student to it, token by token."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from wmo_distill.datums.datum import TrainDatum


class AdvantageStats(BaseModel):
    """Over kept datums, after clip and centring; mean and population deviation of loss tokens."""

    model_config = ConfigDict(frozen=True)

    datums: int
    mismatch_drops: int
    """Datums without a teacher's answer that fits: wrong length, or a loss token not scored."""
    not_finite_drops: int
    clipped_tokens: int
    loss_tokens: int
    context_tokens: int
    advantage_mean: float | None
    advantage_std: float | None


def attach_advantages(
    datums: Sequence[TrainDatum],
    teacher_logprobs: Sequence[Sequence[float | None] | NDArray[np.float64]],
    *,
    clip: float | None = None,
    center: bool = False,
    beta: float = 1.0,
    discount: float = 0.0,
) -> tuple[list[TrainDatum], AdvantageStats]:
    """Datums with advantage = own advantage, if any, + beta x (teacher - sampled).

    One teacher list a datum, in order, one value a token, None where it was not scored. With a
    `discount` each token's teacher part takes in those of the loss tokens after it. Then values
    are limited to +-clip, and centred over all loss tokens of all kept datums.
    ValueError for another number of lists than of datums.
    """
    if len(teacher_logprobs) != len(datums):
        raise ValueError(
            f"teacher_logprobs: expected {len(datums)} lists, one a datum, "
            f"found {len(teacher_logprobs)}"
        )
    kept: list[tuple[TrainDatum, NDArray[np.float64]]] = []
    mismatches = not_finite = clipped = 0
    for datum, answer in zip(datums, teacher_logprobs, strict=True):
        mask = datum.loss_mask
        if len(answer) != mask.size or any(
            answer[i] is None for i in np.flatnonzero(mask).tolist()
        ):
            mismatches += 1
            continue
        teacher = np.array([math.nan if x is None else x for x in answer], np.float64)[mask]
        part = beta * (teacher - datum.sampled_logprobs[mask])
        if not np.isfinite(part).all():
            not_finite += 1
            continue
        if discount:
            part = _discounted(part, discount)
        if datum.advantages is not None:
            part = part + datum.advantages[mask]
        if clip is not None:
            limited = np.clip(part, -clip, clip)
            clipped += int(np.count_nonzero(limited != part))
            part = limited
        kept.append((datum, part))
    values = np.concatenate([part for _, part in kept]) if kept else np.zeros(0)
    shift = float(values.mean()) if center and values.size else 0.0
    centred = values - shift
    scored = [_with(datum, part - shift) for datum, part in kept]
    tokens = sum(datum.token_ids.size for datum, _ in kept)
    return scored, AdvantageStats(
        datums=len(kept),
        mismatch_drops=mismatches,
        not_finite_drops=not_finite,
        clipped_tokens=clipped,
        loss_tokens=values.size,
        context_tokens=tokens - values.size,
        advantage_mean=float(centred.mean()) if values.size else None,
        advantage_std=float(centred.std()) if values.size else None,
    )


def _discounted(part: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    total = 0.0
    summed = np.empty_like(part)
    for i in range(part.size - 1, -1, -1):
        total = part[i] + discount * total
        summed[i] = total
    return summed


def _with(datum: TrainDatum, part: NDArray[np.float64]) -> TrainDatum:
    advantages = np.zeros(datum.loss_mask.size, np.float64)
    advantages[datum.loss_mask] = part
    return replace(datum, advantages=advantages)
