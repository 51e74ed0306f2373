"""Advantages from a teacher: the reverse KL of the student to it, token by token."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.datum import TrainDatum

Answer = Sequence[float | None] | NDArray[np.float64]


class AdvantageStats(BaseModel):
    """Over kept datums, after clip and centring; mean and population deviation of loss tokens."""

    model_config = ConfigDict(frozen=True)

    datums: int = 0
    mismatch_drops: int = 0
    """Datums without a teacher's answer that fits: wrong length, or a loss token not scored."""
    not_finite_drops: int = 0
    """Datums with a log-probability, the teacher's or the sampled one, that is not finite or not
    above `IMPLAUSIBLE_LOGPROB` at a loss token."""
    clipped_tokens: int = 0
    loss_tokens: int = 0
    context_tokens: int = 0
    advantage_mean: float | None = None
    advantage_std: float | None = None
    reward_mean: float | None = None
    """Of the reward's part, before clip and centring; null where no datum brought one."""
    teacher_mean: float | None = None
    """Of the teacher's part, beta and discount in it."""


class Mismatch(StrEnum):
    """Why a teacher's answer gives no advantages."""

    FIT = "mismatch"
    NOT_FINITE = "not_finite"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRule:
    """advantage = own, if any, + beta x (teacher - sampled), limited to +-clip."""

    beta: float = 1.0
    clip: float | None = None
    discount: float = 0.0
    """Of the loss tokens after each, whose teacher part it takes in."""


@dataclass(slots=True)
class AdvantageSums:
    """Counts and moments as datums are kept; `shift` is what centring takes off."""

    shift: float = 0.0
    datums: int = 0
    mismatches: int = 0
    not_finite: int = 0
    clipped: int = 0
    tokens: int = 0
    loss_tokens: int = 0
    reward: float = 0.0
    reward_tokens: int = 0
    teacher: float = 0.0
    _values: list[tuple[int, float, float]] = field(default_factory=list)

    def drop(self, reason: Mismatch) -> None:
        if reason is Mismatch.NOT_FINITE:
            self.not_finite += 1
        else:
            self.mismatches += 1

    def keep(self, datum: TrainDatum, part: NDArray[np.float64]) -> None:
        """`part` is the value at the loss tokens, before centring."""
        self.datums += 1
        self.tokens += datum.token_ids.size
        self.loss_tokens += part.size
        mean = float(part.mean()) if part.size else 0.0
        spread = float(((part - mean) ** 2).sum())
        self._values.append((part.size, mean, spread))

    @property
    def mean(self) -> float | None:
        """Of all kept values, before centring."""
        if not self.loss_tokens:
            return None
        return math.fsum(n * mean for n, mean, _ in self._values) / self.loss_tokens

    def stats(self) -> AdvantageStats:
        mean = self.mean
        spread = math.fsum(
            spread + n * (own - (mean or 0.0)) ** 2 for n, own, spread in self._values
        )
        n = self.loss_tokens
        return AdvantageStats(
            datums=self.datums,
            mismatch_drops=self.mismatches,
            not_finite_drops=self.not_finite,
            clipped_tokens=self.clipped,
            loss_tokens=n,
            context_tokens=self.tokens - n,
            advantage_mean=None if mean is None else mean - self.shift,
            advantage_std=math.sqrt(spread / n) if n else None,
            reward_mean=self.reward / self.reward_tokens if self.reward_tokens else None,
            teacher_mean=self.teacher / n if n else None,
        )


def attach_advantages(
    datums: Sequence[TrainDatum],
    teacher_logprobs: Sequence[Answer],
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
    rule = TeacherRule(beta=beta, clip=clip, discount=discount)
    sums = AdvantageSums()
    kept: list[tuple[TrainDatum, NDArray[np.float64]]] = []
    for datum, answer in zip(datums, teacher_logprobs, strict=True):
        part = teacher_part(datum, answer, rule, sums)
        if part is not None:
            kept.append((datum, part))
    sums.shift = (sums.mean or 0.0) if center else 0.0
    return [with_advantages(datum, part - sums.shift) for datum, part in kept], sums.stats()


def teacher_part(
    datum: TrainDatum, answer: Answer | None, rule: TeacherRule, sums: AdvantageSums
) -> NDArray[np.float64] | None:
    """The advantages of the loss tokens before centring, None where the answer gives none."""
    mask = datum.loss_mask
    if answer is None or len(answer) != mask.size:
        sums.drop(Mismatch.FIT)
        return None
    if isinstance(answer, np.ndarray):
        teacher = answer[mask].astype(np.float64)
        if mask.size and mask[0]:
            # Nothing comes before the first token: it cannot be scored, and gets no advantage.
            teacher[0] = datum.sampled_logprobs[0]
        if np.isnan(teacher).any():
            sums.drop(Mismatch.FIT)
            return None
    else:
        chosen = [answer[i] for i in np.flatnonzero(mask).tolist()]
        if None in chosen:
            sums.drop(Mismatch.FIT)
            return None
        teacher = np.array(chosen, np.float64)
    sampled = datum.sampled_logprobs[mask]
    part: NDArray[np.float64] = rule.beta * (teacher - sampled)
    usable = np.isfinite(part) & (np.minimum(teacher, sampled) > IMPLAUSIBLE_LOGPROB)
    if not usable.all():
        sums.drop(Mismatch.NOT_FINITE)
        return None
    if rule.discount:
        part = _discounted(part, rule.discount)
    sums.teacher += float(part.sum())
    if datum.advantages is not None:
        own = datum.advantages[mask]
        sums.reward += float(own.sum())
        sums.reward_tokens += own.size
        part = part + own
    if rule.clip is not None:
        limited = np.clip(part, -rule.clip, rule.clip)
        sums.clipped += int(np.count_nonzero(limited != part))
        part = limited
    sums.keep(datum, part)
    return part


def _discounted(part: NDArray[np.float64], discount: float) -> NDArray[np.float64]:
    total = 0.0
    summed = np.empty_like(part)
    for i in range(part.size - 1, -1, -1):
        total = part[i] + discount * total
        summed[i] = total
    return summed


def with_advantages(datum: TrainDatum, part: NDArray[np.float64]) -> TrainDatum:
    """The datum with `part` at its loss tokens, 0 elsewhere."""
    advantages = np.zeros(datum.loss_mask.size, np.float64)
    advantages[datum.loss_mask] = part
    return replace(datum, advantages=advantages)
