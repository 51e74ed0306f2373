"""What an exporter is: one pure function from a datum to a trainer's row, and what it refuses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.datums.dataset import DatumRow
from wmo_distill.records import StopReason


class Refusal(StrEnum):
    """Why a sequence is not exported."""

    TOO_SHORT = "too_short"
    NOTHING_TRAINED = "nothing_trained"
    NO_LOGPROBS = "no_logprobs"
    LOGPROB_MODE_UNKNOWN = "logprob_mode_unknown"
    NO_ADVANTAGES = "no_advantages"
    NO_REWARD = "no_reward"
    NOT_SCORED = "not_scored"
    """Its datums have a teacher, who has not scored this one."""
    TEMPERATURE_UNKNOWN = "temperature_unknown"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sequence stands among the exported ones; all count from 0 in their order."""

    index: int
    episode: int
    group: int
    step: int
    """Among the sequences of its episode, which are contiguous."""
    last: bool
    """Whether it is the last of its episode's that are exported."""
    ends: bool = True
    """Whether the main chat ends with it."""


Convert = Callable[[DatumRow, Place], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A trainer's form.

    Every trainer predicts a token from those before it: a trained token at position 0 is lost, and
    counted. `convert` gives one row of NumPy arrays, lists, strings, numbers or None.
    """

    name: str
    about: str
    """One line for people."""
    convert: Convert
    purpose: Literal["rl", "sft"]
    """`rl` refuses sequences without log-probabilities, or of an unknown mode unless assumed."""
    carries: frozenset[str] = frozenset()
    """Which of advantages, teacher_logprobs, weight and routed_experts its rows hold."""
    schema: pa.Schema | None = None
    """Of the Parquet file that is written; JSON lines where there is none."""
    needs_advantages: bool = False
    needs_reward: bool = False
    needs_temperature: bool = False
    """Where log-probabilities are taken after it."""

    def refusal(
        self, row: DatumRow, *, assume_mode: bool = False, taught: bool = False
    ) -> Refusal | None:
        """Why this target cannot take a sequence, None where it can."""
        datum = row.datum
        if datum.token_ids.size < 2:
            return Refusal.TOO_SHORT
        if not trained(row).any():
            return Refusal.NOTHING_TRAINED
        if self.purpose == "rl":
            if np.isnan(datum.sampled_logprobs[datum.loss_mask]).any():
                return Refusal.NO_LOGPROBS
            if row.values["logprob_mode"] == "unknown" and not assume_mode:
                return Refusal.LOGPROB_MODE_UNKNOWN
        if self.needs_advantages and datum.advantages is None:
            return Refusal.NO_ADVANTAGES
        if self.needs_reward and measured_reward(row) is None:
            return Refusal.NO_REWARD
        if taught and "teacher_logprobs" in self.carries and datum.teacher_logprobs is None:
            return Refusal.NOT_SCORED
        processed = row.values["logprob_mode"] == "processed"
        if self.needs_temperature and processed and not row.values["temperature"]:
            return Refusal.TEMPERATURE_UNKNOWN
        return None


def offered(row: DatumRow) -> set[str]:
    """Which of the columns that not every target carries this row has something in."""
    datum = row.datum
    return {
        name
        for name, there in (
            ("advantages", datum.advantages is not None),
            ("teacher_logprobs", datum.teacher_logprobs is not None),
            ("weight", row.values["weight"] != 1.0),
            ("routed_experts", datum.routed_experts is not None),
        )
        if there
    }


def prompt_tokens(row: DatumRow) -> int:
    """Tokens of the prompt where a trainer splits a sequence in prompt and response.

    The response begins with the first sampled run. At least 1: nothing predicts the first token,
    so it is never trained.
    """
    starts = row.datum.call_starts
    return max(1, starts[0] if starts else int(row.datum.loss_mask.argmax()))


def trained(row: DatumRow) -> NDArray[np.bool_]:
    """The loss mask without position 0, for trainers that do not split a sequence."""
    mask = row.datum.loss_mask.copy()
    mask[0] = False
    return mask


def measured_reward(row: DatumRow) -> float | None:
    """The reward where it was graded and is valid."""
    reward = row.values["reward"]
    return float(reward) if reward is not None and row.values["reward_valid"] else None


def group_name(row: DatumRow) -> str:
    """What the episodes to compare with each other share."""
    step = row.values["step_name"]
    return str(row.values["group_id"]) + (f"/{step}" if step else "")


def cut_off(row: DatumRow, place: Place) -> bool:
    """Whether a token limit ended the last sampled run."""
    limits = (StopReason.OUTPUT_TRUNCATED, StopReason.CONTEXT_OVERFLOW)
    return place.ends and row.values["stop_reason"] in limits
