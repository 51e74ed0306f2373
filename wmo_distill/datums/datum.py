"""One training sequence, and the account of a build of them."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from wmo_distill.arrays import Ids, Logprobs


class BreakCause(StrEnum):
    """Why a prompt does not extend all that came before it."""

    REWRITTEN_HISTORY = "rewritten_history"
    DROPPED_COMPLETION = "dropped_completion"
    RETOKENIZED = "retokenized"
    PAST_STOP = "past_stop"
    SUMMARIZED = "summarized"
    TRUNCATED_TURN = "truncated_turn"
    UNKNOWN = "unknown"


class Drop(StrEnum):
    """Why a record, or some of its sampled tokens, are not trained; see `DROPS`."""

    STOP_REASON = "stop_reason"
    SPANLESS = "spanless"
    SILENT = "silent"
    SUBAGENT = "subagent"
    OVERFLOW = "overflow"
    OVERLONG = "overlong"
    NO_LOGPROBS = "no_logprobs"
    LOGPROB_NOT_FINITE = "logprob_not_finite"
    LOGPROB_IMPLAUSIBLE = "logprob_implausible"
    SUPERSEDED = "superseded"
    NOT_TRAINABLE = "not_trainable"
    STALE = "stale"
    STEP_UNKNOWN = "step_unknown"
    INCOMPLETE = "incomplete"
    SECRET = "secret"


DROPS = {
    Drop.STOP_REASON: "the record ended with a `--drop-stop-reason`",
    Drop.SPANLESS: "the record has no calls",
    Drop.SILENT: "no token of the record is left to train",
    Drop.SUBAGENT: "sampled in another chat than the main one, without `--subagents`",
    Drop.OVERFLOW: "the prompt is over `--context-budget`",
    Drop.OVERLONG: "the sequence is over `--max-datum-tokens`",
    Drop.NO_LOGPROBS: "a call without log-probabilities, with `--purpose rl`",
    Drop.LOGPROB_NOT_FINITE: "a token whose log-probability was not recorded",
    Drop.LOGPROB_IMPLAUSIBLE: "a token whose log-probability is -1000 or lower",
    Drop.SUPERSEDED: "an answer that the agent did not go on from",
    Drop.NOT_TRAINABLE: "a chat that the source does not let be trained",
    Drop.STALE: "sampled more than `--max-staleness` training steps ago",
    Drop.STEP_UNKNOWN: "with `--max-staleness`: sampled at a step that nobody recorded",
    Drop.INCOMPLETE: "a call of the episode is known to be missing, without `--allow-incomplete`",
    Drop.SECRET: "a token of a secret, in a dataset of `build --on-secret mask`",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainDatum:
    """An unshifted sequence: entry i of every per-token array is that of token i.

    `loss_mask` is True at trained tokens; `sampled_logprobs` is 0.0 where it is False, and NaN at
    a trained token only in a supervised build, where none was recorded.
    """

    trial_name: str
    step_name: str | None
    episode_id: str
    segment: int
    fragment_index: int
    token_ids: Ids
    loss_mask: NDArray[np.bool_]
    sampled_logprobs: Logprobs
    call_starts: tuple[int, ...] = ()
    call_lengths: tuple[int, ...] = ()
    """Where each sampled run is, trained or not."""
    finish_reasons: tuple[str | None, ...] = ()
    """Why each of these calls ended, as the provider said; None where that was not recorded."""
    versions: tuple[tuple[str, int], ...] | None = None
    """Runs of one policy version: (version, position of its first sampled token); None: the
    record's `policy_version` is that of all, or of some it is not known."""
    ends_chat: bool = False
    """Whether the last recorded call of the episode's main chat is in it."""
    break_cause: BreakCause | None = None
    """Why this fragment is not the one before, gone on."""
    break_position: int | None = None
    """How many leading ids its first prompt shares with what came before."""
    advantages: NDArray[np.float64] | None = None
    teacher_logprobs: Logprobs | None = None
    """A teacher's log-probability of each token, NaN where it was not scored."""
    rescored_logprobs: Logprobs | None = None
    """The student's own log-probability of each token, asked again; NaN where it was not scored."""
    routed_experts: NDArray[Any] | None = None
    """[tokens - 1, layers, experts per token]: the last token was never fed in."""
    target_ids: Ids | None = None
    target_weights: NDArray[np.float64] | None = None

    @property
    def loss_tokens(self) -> int:
        return int(np.count_nonzero(self.loss_mask))


class DatumStats(BaseModel):
    """Sums over a build; tokens are sampled ones unless they say otherwise.

    kept records + dropped_records of each reason == records.
    """

    model_config = ConfigDict(frozen=True)

    records: int = 0
    datums: int = 0
    fragments: int = 0
    """Datums beyond the first of each kept record."""
    overflow_drops: int = 0
    overlong_drops: int = 0
    loss_tokens: int = 0
    context_tokens: int = 0
    dropped_records: dict[Drop, int] = Field(default_factory=dict)
    dropped_tokens: dict[Drop, int] = Field(default_factory=dict)
    breaks: dict[BreakCause, int] = Field(default_factory=dict)
    with_routed_experts: int = 0
    """Datums that hold them."""
    ties: int = 0
    """Prompts that `reopen` found to extend several fragments of one length."""

    @property
    def fragmentation_rate(self) -> float:
        """fragments / datums, 0.0 without datums."""
        return self.fragments / self.datums if self.datums else 0.0


@dataclass(slots=True)
class Account:
    """Counts as they grow during a build."""

    records: int = 0
    datums: int = 0
    fragments: int = 0
    loss_tokens: int = 0
    context_tokens: int = 0
    dropped_records: dict[Drop, int] = field(default_factory=dict)
    dropped_tokens: dict[Drop, int] = field(default_factory=dict)
    breaks: dict[BreakCause, int] = field(default_factory=dict)
    with_routed_experts: int = 0
    ties: int = 0

    def drop_record(self, reason: Drop, tokens: int = 0) -> None:
        self.dropped_records[reason] = self.dropped_records.get(reason, 0) + 1
        self.drop_tokens(reason, tokens)

    def drop_tokens(self, reason: Drop, tokens: int) -> None:
        if tokens:
            self.dropped_tokens[reason] = self.dropped_tokens.get(reason, 0) + tokens

    def keep(self, datums: list[TrainDatum]) -> None:
        self.datums += len(datums)
        self.fragments += len(datums) - 1
        for datum in datums:
            trained = datum.loss_tokens
            self.loss_tokens += trained
            self.context_tokens += datum.token_ids.size - trained
            self.with_routed_experts += datum.routed_experts is not None
            if datum.break_cause is not None:
                self.breaks[datum.break_cause] = self.breaks.get(datum.break_cause, 0) + 1

    def stats(self) -> DatumStats:
        return DatumStats(
            records=self.records,
            datums=self.datums,
            fragments=self.fragments,
            overflow_drops=self.dropped_records.get(Drop.OVERFLOW, 0),
            overlong_drops=self.dropped_records.get(Drop.OVERLONG, 0),
            loss_tokens=self.loss_tokens,
            context_tokens=self.context_tokens,
            dropped_records=self.dropped_records,
            dropped_tokens=self.dropped_tokens,
            breaks=self.breaks,
            with_routed_experts=self.with_routed_experts,
            ties=self.ties,
        )
