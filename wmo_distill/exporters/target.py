"""What an exporter is: one pure function from a datum to a trainer's row, and what it refuses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from wmo_distill.arrays import IMPLAUSIBLE_LOGPROB
from wmo_distill.datums.dataset import DatumRow
from wmo_distill.datums.versions import step_of
from wmo_distill.predicates import aborted, cut_at_cap, is_measured
from wmo_distill.records import StopReason


class Refusal(StrEnum):
    """Why a sequence is not exported."""

    TOO_SHORT = "too_short"
    NOTHING_TRAINED = "nothing_trained"
    NO_LOGPROBS = "no_logprobs"
    LOGPROB_IMPLAUSIBLE = "logprob_implausible"
    """A trained token's is at or below `IMPLAUSIBLE_LOGPROB`, in datums of a supervised build."""
    LOGPROB_MODE_UNKNOWN = "logprob_mode_unknown"
    NO_ADVANTAGES = "no_advantages"
    NO_REWARD = "no_reward"
    """The chosen reward is not measured."""
    NOT_SCORED = "not_scored"
    """Its datums have a teacher, who has not scored this one."""
    TEMPERATURE_UNKNOWN = "temperature_unknown"


class Grouping(StrEnum):
    """Which rows a trainer compares with each other."""

    NONE = "none"
    """None: it takes no rewards."""
    NAMED = "named"
    """Those that share a name, however many."""
    FIXED = "fixed"
    """Runs of a fixed number of rows."""
    PROMPT = "prompt"
    """Those whose prompts are the same ids."""


class SequenceEnd(StrEnum):
    """How the last sampled run of a sequence ended."""

    FINISHED = "finished"
    """By itself, or nothing says otherwise."""
    CUT = "cut"
    """By a token limit."""
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sequence is among the exported ones; all numbers count from 0 in their order."""

    index: int
    episode: int
    group: int
    step: int
    """Its number among the sequences of its episode, which are contiguous."""
    last: bool
    """Whether it is the last exported sequence of its episode."""
    sequences: int = 1
    """Number of exported sequences of its episode."""


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
    """Which of the columns that `offered` names its rows hold."""
    grouping: Grouping = Grouping.NONE
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
            if (datum.sampled_logprobs[datum.loss_mask] <= IMPLAUSIBLE_LOGPROB).any():
                return Refusal.LOGPROB_IMPLAUSIBLE
            if row.logprob_mode == "unknown" and not assume_mode:
                return Refusal.LOGPROB_MODE_UNKNOWN
        if self.needs_advantages and datum.advantages is None:
            return Refusal.NO_ADVANTAGES
        if self.needs_reward and measured_reward(row) is None:
            return Refusal.NO_REWARD
        if taught and "teacher_logprobs" in self.carries and datum.teacher_logprobs is None:
            return Refusal.NOT_SCORED
        processed = row.logprob_mode == "processed"
        if self.needs_temperature and processed and not row.temperature:
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
            ("rescored_logprobs", datum.rescored_logprobs is not None),
            ("weight", row.weight != 1.0),
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
    """The chosen reward where it is measured."""
    reward = row.reward
    if reward is None or not is_measured(reward, row.reward_valid):
        return None
    return float(reward)


def group_name(row: DatumRow) -> str:
    """What the episodes to compare with each other share."""
    step = row.datum.step_name
    return str(row.group_id) + (f"/{step}" if step else "")


def sequence_end(row: DatumRow) -> SequenceEnd:
    """How the last sampled run of this sequence ended.

    The provider's finish reason of that call says so. Where none was recorded, the episode's stop
    reason does, for the sequence with which its main chat ends: of three sequences of an
    `output_truncated` episode only the last was cut.
    """
    datum = row.datum
    reason = datum.finish_reasons[-1] if datum.finish_reasons else None
    if reason is None:
        limits = (StopReason.OUTPUT_TRUNCATED, StopReason.CONTEXT_OVERFLOW)
        cut = datum.ends_chat and row.stop_reason in limits
        return SequenceEnd.CUT if cut else SequenceEnd.FINISHED
    if cut_at_cap(reason):
        return SequenceEnd.CUT
    return SequenceEnd.ABORTED if aborted(reason) else SequenceEnd.FINISHED


def cut_off(row: DatumRow) -> bool:
    """Whether a token limit ended the last sampled run of this sequence."""
    return sequence_end(row) is SequenceEnd.CUT


def versions_of(row: DatumRow) -> list[str]:
    """The policy versions that sampled a sequence, each once, in the order of their use."""
    version = row.policy_version
    if row.datum.versions is None:
        return [] if version is None else [version]
    return list(dict.fromkeys(version for version, _ in row.datum.versions))


def steps_of(row: DatumRow) -> tuple[int | None, int | None]:
    """The train steps of the oldest and newest weights that sampled; None where not known."""
    step = row.train_step
    if step is not None:
        return step, step
    steps = [step_of(version) for version in versions_of(row)]
    known = [step for step in steps if step is not None]
    return (min(known), max(known)) if known and len(known) == len(steps) else (None, None)
