"""Sampling parameters, and what servers make of a distribution with them: one order of steps each.

Pure functions over [N, K] arrays: the K likeliest log-probabilities of N tokens, falling, -inf
where there are fewer. Natural logarithms throughout.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

# A normaliser counts as known where the tokens that are not listed weigh no more than this share.
UNLISTED = 0.01
# More tokens than any tokenizer has: bounds what unlisted tokens weigh above temperature 1.
_VOCABULARY = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are drawn from a model's distribution; None: that filter is off."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None

    @property
    def plain(self) -> bool:
        return self == SamplingParams()

    @property
    def filters(self) -> int:
        """How many filters are on."""
        return sum(one is not None for one in (self.top_k, self.top_p, self.min_p))

    def unfiltered(self) -> "SamplingParams":
        return SamplingParams(temperature=self.temperature)

    def __str__(self) -> str:
        parts = [f"temperature {self.temperature:.3g}"]
        parts += [f"top_k {self.top_k}"] if self.top_k is not None else []
        parts += [f"top_p {self.top_p:.3g}"] if self.top_p is not None else []
        parts += [f"min_p {self.min_p:.3g}"] if self.min_p is not None else []
        return ", ".join(parts)


class FilterOrder(StrEnum):
    """In which order a server applies temperature and filters. "Of what is left": renormalised.

    Example: probabilities 0.4, 0.3, 0.2, 0.1 with top_k 2 and top_p 0.5. `top_k_first` makes
    0.57, 0.43 of the first two and keeps the first alone; `joint` keeps both, since the first
    alone is 0.4 of the whole.
    """

    TOP_K_FIRST = "top_k_first"
    """Temperature, min-p, top-k, top-p of what is left: vLLM (vllm/v1/sample/sampler.py,
    vllm/v1/sample/ops/topk_topp_sampler.py), FlashInfer by default (flashinfer/sampling.py)."""
    MIN_P_LAST = "min_p_last"
    """Temperature, top-k, top-p of what is left, min-p: transformers (src/transformers/generation/
    utils.py, `_get_logits_processor`), SGLang where min-p is set (srt/layers/sampler.py)."""
    JOINT = "joint"
    """Temperature, then each filter on the whole distribution: SGLang without min-p
    (srt/layers/sampler.py, `filter_apply_order="joint"`), and its PyTorch backend."""
    TEMPERATURE_LAST = "temperature_last"
    """top-k, top-p of what is left, min-p, then temperature: llama.cpp (common/common.h,
    `samplers`)."""
    JOINT_TEMPERATURE_LAST = "joint_temperature_last"
    """Each filter on the whole distribution, then temperature: mlx-lm (mlx_lm/sample_utils.py)."""

    @property
    def meaning(self) -> str:
        """In words, with the engines that do so."""
        return _MEANINGS[self]

    @property
    def temperature_last(self) -> bool:
        return self in (FilterOrder.TEMPERATURE_LAST, FilterOrder.JOINT_TEMPERATURE_LAST)

    @property
    def joint(self) -> bool:
        return self in (FilterOrder.JOINT, FilterOrder.JOINT_TEMPERATURE_LAST)


_MEANINGS = {
    FilterOrder.TOP_K_FIRST: "temperature, min-p, top-k, then top-p of what is left (vLLM)",
    FilterOrder.MIN_P_LAST: "temperature, top-k, top-p of what is left, then min-p (transformers)",
    FilterOrder.JOINT: "temperature, then each filter on the whole distribution (SGLang)",
    FilterOrder.TEMPERATURE_LAST: "top-k, top-p of what is left, min-p, then temperature "
    "(llama.cpp)",
    FilterOrder.JOINT_TEMPERATURE_LAST: "each filter on the whole distribution, then temperature "
    "(mlx-lm)",
}


def orders_of(params: SamplingParams) -> list[FilterOrder]:
    """The orders that can differ for these parameters; the first gives what those left out give."""
    orders = [FilterOrder.TOP_K_FIRST]
    if params.top_p is not None and params.min_p is not None:
        orders.append(FilterOrder.MIN_P_LAST)
    if params.top_p is not None and params.filters > 1:
        orders.append(FilterOrder.JOINT)
    if params.temperature != 1.0 and (params.top_p is not None or params.min_p is not None):
        orders.append(FilterOrder.TEMPERATURE_LAST)
        if FilterOrder.JOINT in orders:
            orders.append(FilterOrder.JOINT_TEMPERATURE_LAST)
    return orders


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """What a filter leaves of the listed tokens."""

    listed: Bools
    """[N, K] which of the listed tokens can be drawn."""
    whole: Bools
    """[N] whether no other token can."""
    sure: Bools
    """[N] whether unlisted tokens weigh too little to move the cut."""


def kept(top: Floats, params: SamplingParams, order: FilterOrder) -> Kept:
    """Which tokens can be drawn."""
    temperature = 1.0 if order.temperature_last else params.temperature
    listed = np.isfinite(top)
    scaled = top / temperature
    tail = unlisted(top, temperature)
    total = np.logaddexp(log_sum(scaled), tail)
    sure = np.ones(top.shape[0], np.bool_)
    whole = tail < -30.0 + total
    share = np.exp(scaled - total[:, None])

    def cut_min_p() -> None:
        nonlocal listed, whole
        assert params.min_p is not None
        floor = scaled[:, 0] + math.log(params.min_p)
        whole = whole | (np.where(np.isfinite(scaled), scaled, np.inf).min(axis=1) < floor)
        listed = listed & (scaled >= floor[:, None])

    def cut_top_k() -> None:
        nonlocal listed, whole
        assert params.top_k is not None
        listed = listed.copy()
        listed[:, params.top_k :] = False
        whole = whole | (params.top_k <= top.shape[1])

    def cut_top_p() -> None:
        nonlocal listed, whole, sure
        assert params.top_p is not None
        if order.joint:
            left, known = share, whole_before
        else:  # of what the filters before have left
            known = whole
            left = np.where(listed, share, 0.0)
            left = left / np.where(known, np.maximum(left.sum(axis=1), 1e-300), 1.0)[:, None]
        if temperature != 1.0 or (params.filters > 1 and not order.joint):
            sure = sure & (known | (tail - total < math.log(UNLISTED)))
        before = np.cumsum(left, axis=1) - left
        whole = whole | (left.sum(axis=1) >= params.top_p)
        listed = listed & (before < params.top_p)

    whole_before = whole
    min_p_last = order is FilterOrder.MIN_P_LAST or order.temperature_last
    if params.min_p is not None and not min_p_last:
        cut_min_p()
    if params.top_k is not None:
        cut_top_k()
    if params.top_p is not None:
        cut_top_p()
    if params.min_p is not None and min_p_last:
        cut_min_p()
    return Kept(listed, whole, sure)


def processed(logprobs: Floats, top: Floats, params: SamplingParams, order: FilterOrder) -> Floats:
    """[N] tokens' log-probabilities after `params`, NaN where too few tokens are listed."""
    if params.plain:
        return logprobs
    if not top.shape[1]:
        return np.full(logprobs.size, np.nan)
    left = kept(top, params, order)
    scaled = top / params.temperature
    inside = log_sum(np.where(left.listed, scaled, -np.inf))
    tail = unlisted(top, params.temperature)
    total = np.logaddexp(log_sum(scaled), tail)
    light = tail - total < math.log(UNLISTED)
    if params.filters == 0:
        normaliser, known = total, light | (params.temperature == 1.0)
    else:
        normaliser, known = inside, (left.whole | light) & left.sure
        # A nucleus that goes on past the list weighs about top_p, by its own rule.
        last = np.where(np.isfinite(scaled), scaled, np.inf).min(axis=1) - total
        if params.top_p is not None and params.filters == 1 and not order.temperature_last:
            reaches = ~left.whole & (last < math.log(UNLISTED))
            reaches &= light | (params.temperature == 1.0)
            normaliser = np.where(reaches, total + math.log(params.top_p), normaliser)
            known = known | reaches
    values: Floats = np.where(known, logprobs / params.temperature - normaliser, np.nan)
    return values


def unlisted(top: Floats, temperature: float) -> Floats:
    """[N] log of what all unlisted tokens weigh after a temperature; exact at 1, else at most.

    With mass m unlisted and a last listed probability l, the sum of p^(1/T) over the unlisted is
    at most m l^(1/T - 1) below T = 1, and at most V^(1 - 1/T) m^(1/T) above, for V tokens.
    """
    mass: Floats = np.log(np.clip(1.0 - np.exp(top).sum(axis=1), 1e-16, None))
    if temperature == 1.0:
        return mass
    power = 1.0 / temperature
    if temperature < 1.0:
        last = np.where(np.isfinite(top), top, np.inf).min(axis=1)
        least: Floats = mass + last * (power - 1.0)
        return least
    most: Floats = math.log(_VOCABULARY) * (1.0 - power) + mass * power
    return most


def log_sum(values: Floats) -> Floats:
    """[N] log of the sum of exponentials of each row; -inf for a row without any."""
    highest = np.maximum(values.max(axis=1), -1e300)
    with np.errstate(divide="ignore"):
        found: Floats = highest + np.log(np.exp(values - highest[:, None]).sum(axis=1))
    return found


def at_temperature(params: SamplingParams, temperature: float) -> SamplingParams:
    return replace(params, temperature=float(temperature))
