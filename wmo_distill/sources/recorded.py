"""Recorded calls of the model: as rows of numbers, each read, missing or damaged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from wmo_distill.issues import Issue
from wmo_distill.tokenjson.extras import Written
from wmo_distill.tokenjson.rows import MISSING_IDS, MISSING_LOGPROBS, IdRow, LogprobRow


class CallStatus(StrEnum):
    """What became of a recorded call."""

    OK = "ok"
    FAILED = "failed"
    """No answer was sampled, or none was delivered."""
    CANCELLED = "cancelled"
    """The caller went away; the server may have sampled, and the agent never saw it."""
    CUT = "cut"
    """A broken stream: the tokens are real, and the agent got an error."""


class Call(NamedTuple):
    """One recorded call of the model; calls are given in the order in which they were recorded."""

    call_index: int
    """The recorded position in its lineage, from 0."""
    prompt: IdRow = MISSING_IDS
    completion: IdRow = MISSING_IDS
    logprobs: LogprobRow = MISSING_LOGPROBS
    extra: str | None = None
    """Provider extras as JSON text."""
    finish_reason: str | None = None
    key: str | None = None
    """The format's own identity of the call: equal keys and contents are one call."""
    at: datetime | None = None
    """When it was recorded, with a zone if that is known."""
    lineage: str | None = None
    """The name of its chat in `Evidence.lineages`; None leaves it to the tokens."""
    versions: tuple[tuple[str, int], ...] | None = None
    """Runs of one policy version over the sampled ids: (version, first position)."""
    sampling: str | None = None
    """JSON of its sampling parameters where they differ from the episode's."""
    status: CallStatus = CallStatus.OK
    used: bool | None = None
    """Whether the agent went on from this answer; None where the format does not say."""


class Turn(NamedTuple):
    """What a second record, such as a trajectory's step, says of a call."""

    prompt: IdRow = MISSING_IDS
    completion: IdRow = MISSING_IDS
    logprobs: LogprobRow = MISSING_LOGPROBS


@dataclass(slots=True)
class Lists:
    """One chat recorded as parallel lists, one element a call; an absent list is empty.

    Lists lose elements independently, so which element belongs to which call is a decision.
    """

    prompts: list[IdRow]
    completions: list[IdRow]
    logprobs: list[LogprobRow]
    extra: dict[str, list[object | Written]] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)

    @property
    def n_calls(self) -> int:
        return max(len(self.prompts), len(self.completions), len(self.logprobs))

    def aligned(self) -> bool:
        """Whether the lists that hold anything are of one length."""
        lengths = {len(self.prompts), len(self.completions)}
        if self.logprobs:
            lengths.add(len(self.logprobs))
        return len(lengths) == 1


@dataclass(frozen=True, slots=True)
class Witness:
    """A second record of the same calls: the turns with ids, and the summarizers' first prompts."""

    turns: Sequence[Turn] = ()
    summarizer_prompts: Sequence[IdRow] = ()
    summarizers: Sequence[Sequence[Turn]] = ()
    """The turns of each summarizer, given only where the lists hold none of them."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Calls recorded as parallel lists, a chat an entry, and a second record of them."""

    entries: Sequence[Lists] = ()
    absence: tuple[Issue, ...] = ()
    """Why there are no entries."""
    witness: Witness = Witness()


class Step(NamedTuple):
    """One turn of the agent as its harness recorded it, with the rows of its token lists."""

    claims: bool
    """Whether the turn declares the task complete."""
    parse_error: bool
    prompt: IdRow = MISSING_IDS
    completion: IdRow = MISSING_IDS
    logprobs: LogprobRow = MISSING_LOGPROBS
    billed: int | None = None
    """Sampled tokens that the provider counted, with or without ids; None where not recorded."""
    at: datetime | None = None
    """When the step was over."""

    @property
    def has_ids(self) -> bool:
        """Whether the step records token ids, sound or not."""
        return not (self.prompt.missing and self.completion.missing)
