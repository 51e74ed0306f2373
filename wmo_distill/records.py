"""The record of one episode and the vocabularies it uses. None means "not recorded"."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt

from wmo_distill.counts import TokenCounts, count_tokens
from wmo_distill.display import facts, html_page, html_table
from wmo_distill.endings import Completion as Completion
from wmo_distill.endings import StopReason as StopReason
from wmo_distill.files import FilesState
from wmo_distill.issues import Issue
from wmo_distill.predicates import is_measured
from wmo_distill.segment import Segment
from wmo_distill.tokens import TokenSpan, chats_of, in_order

# What a notebook shows of a record.
_SHOWN = (
    "episode_id", "task_id", "group_id", "attempt", "agent_name", "model_name", "reward", "passed",
    "reward_valid", "stop_reason", "completion", "span_source", "completeness", "issues",
    "agent_seconds", "artifact_dir",
)  # fmt: skip


class SpanSource(StrEnum):
    """Which file the spans of a record were read from; a capture is another recorder's."""

    RESULT = "result"
    TRAJECTORY = "trajectory"
    SINK = "sink"
    CAPTURE = "capture"
    NONE = "none"


class LogprobMode(StrEnum):
    """Raw: before temperature and filters. Processed: after."""

    RAW = "raw"
    PROCESSED = "processed"
    UNKNOWN = "unknown"


class Completeness(StrEnum):
    """Whether every call that was sampled is recorded."""

    COMPLETE = "complete"
    """The source declares that no call is missing."""
    INCOMPLETE = "incomplete"
    """A call is missing, or the recorded calls do not fit the other evidence."""
    SILENT = "silent"
    """The source declares nothing, and nothing shows that a call is missing."""


class SegmentKind(StrEnum):
    """Whose chat a segment is; segment 0 is the agent's main chat."""

    MAIN = "main"
    SUMMARIZER = "summarizer"
    """A compaction chat of the harness."""
    SUBAGENT = "subagent"


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One chat of an episode; agent and model where the source says."""

    kind: SegmentKind = SegmentKind.MAIN
    agent: str | None = None
    model: str | None = None
    trainable: bool = True
    """False where the source says that it is not to be trained."""


@dataclass(frozen=True, slots=True)
class Secret:
    """Where the text of token ids holds a secret, and by which rule; never the secret itself.

    `start` and `stop` count the ids of the call's prompt and completion as one sequence; the call
    is the first of its segment whose sequence holds all of it.
    """

    segment: int
    call_index: int
    rule: str
    start: int
    stop: int
    masked: bool = False
    """Whether its tokens are not to be trained."""


class GradedTests(BaseModel):
    """What a test report says: `passed` of `resolved` tests; `unresolved` gave no verdict."""

    model_config = ConfigDict(frozen=True)

    passed: int = Field(ge=0)
    resolved: int = Field(ge=0)
    unresolved: int = Field(ge=0)

    @property
    def score(self) -> float | None:
        """passed / resolved, None without a verdict."""
        return self.passed / self.resolved if self.resolved else None


class ScoreCell(BaseModel):
    """A caller's grade of one trial, or of one of its steps."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    task_id: str
    attempt: StrictInt
    reward: StrictFloat | StrictInt | None = None
    passed: StrictBool | None = None
    artifact_dir: str
    note: str = ""
    infra_failed: StrictBool | None = None
    tests: GradedTests | None = None
    step_name: str | None = None


@dataclass(frozen=True)
class Sampling:
    """How the tokens were sampled; a log-probability means nothing without it."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    logprob_mode: LogprobMode = LogprobMode.UNKNOWN
    policy_version: str | None = None
    """None where it varies within the episode, too."""
    policy_versions: tuple[str, ...] = ()
    """Each version once, in the order of use; where there is one alone, it is `policy_version`."""
    train_step: int | None = None
    tokenizer: str | None = None
    declared: tuple[str, ...] = ()
    sampling: str | None = None
    """Every recorded sampling argument, as JSON with sorted keys."""

    def __post_init__(self) -> None:
        if self.policy_version is not None:
            object.__setattr__(self, "policy_versions", (self.policy_version,))

    @property
    def temperature_not_sent(self) -> bool:
        """Whether the agent is known to have sent none, so that the server's own default applied.

        `sampling` then holds a `temperature` of null; without it a missing one is unknown.
        """
        sent = json.loads(self.sampling or "{}")
        return "temperature" in sent and sent["temperature"] is None


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One episode: a single-step trial, or one step of a multi-step trial."""

    # identity
    format: str = "harbor"
    episode_id: str = ""
    trial_id: str | None = None
    trial_name: str = ""
    step_name: str | None = None
    step_index: int | None = None
    task_id: str | None = None
    task_checksum: str | None = None
    source: str | None = None
    job: str | None = None
    attempt: int | None = None
    group_id: str = ""
    group_expected: int | None = None
    regrade_of: str | None = None
    artifact_dir: str = ""
    # who
    agent_name: str | None = None
    agent_version: str | None = None
    model_name: str | None = None
    model_provider: str | None = None
    # sampling
    sampled_with: Sampling = field(default_factory=Sampling)
    # grade
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    trial_reward: float | None = None
    trial_reward_valid: bool | None = None
    """As `reward_valid`, decided from all steps of the trial; None where no result can be read."""
    passed: bool | None = None
    reward_valid: bool | None = None
    infra_failed: bool = False
    tests: GradedTests | None = None
    note: str = ""
    # ending
    stop_reason: StopReason | str | None = StopReason.UNKNOWN
    reference_stop_reason: str | None = None
    completion: Completion = Completion.NONE
    exception_type: str | None = None
    n_episodes: int | None = None
    max_turns: int | None = None
    # tokens
    spans: tuple[TokenSpan, ...] = ()
    segments: tuple[SegmentInfo, ...] = ()
    span_source: SpanSource = SpanSource.NONE
    completeness: Completeness = Completeness.SILENT
    secrets: tuple[Secret, ...] = ()
    """Found with `--on-secret`; empty too where nobody looked."""
    # trace
    issues: tuple[Issue, ...] = ()
    """A code once for each occurrence, sorted."""
    compactions: tuple[int, ...] = ()
    """call_index of the first call after each compaction."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    agent_seconds: float | None = None
    verifier_seconds: float | None = None
    setup_seconds: float | None = None
    cost_usd: float | None = None
    cached_tokens: int | None = None

    @cached_property
    def chats(self) -> dict[int, Segment]:
        """The calls of each segment that has any, by its number."""
        return chats_of(self.spans)

    @cached_property
    def counts(self) -> TokenCounts:
        """Calls and tokens of the spans."""
        return count_tokens(self.chats)

    def __getstate__(self) -> dict[str, Any]:
        # Each chat once, not each span with its whole prompt.
        numbers = [span.segment for span in self.spans]
        own = {name: value for name, value in self.__dict__.items() if name != "chats"}
        return {**own, "spans": (numbers, self.chats)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, spans=in_order(*state["spans"]))

    def _repr_html_(self) -> str:
        """What a notebook shows: the facts, and the first calls."""
        rows = facts(self, _SHOWN)
        counts = self.counts
        rows.append(("tokens", f"{counts.input_tokens:,} fed in, {counts.output_tokens:,} sampled"))
        calls = [
            (number, *call)
            for number, chat in self.chats.items()
            for call in zip(
                chat.call_index.tolist(), chat.prompt_lens.tolist(),
                chat.sampled_token_ids.lengths.tolist(), chat.finish_reason, strict=True,
            )
        ]  # fmt: skip
        head = ("segment", "call", "prompt", "sampled", "finish reason")
        return html_page(
            f"Episode {self.trial_name}" + (f", step {self.step_name}" if self.step_name else ""),
            html_table(rows),
            html_table(calls, head),
        )

    @property
    def measured(self) -> bool:
        """Graded, and the grade counts."""
        return is_measured(
            self.reward, self.reward_valid, infra_failed=self.infra_failed, issues=self.issues
        )

    @property
    def graded_score(self) -> float | None:
        """Passed tests / resolved tests, None without a report."""
        return None if self.tests is None else self.tests.score


@dataclass(frozen=True, kw_only=True)
class ReadTrial:
    """What reading one trial directory gave: one record an episode, and the account of its calls.

    calls_found == spans over all records + calls_dropped, checked before anything is written.
    """

    records: tuple[TrialRecord, ...]
    calls_found: int
    slow_reads: int = 0
    """Documents that the fast reader left to the plain one."""
    state: FilesState | None = None
    """By what was read, where only reading tells it."""

    @property
    def calls_dropped(self) -> dict[str, int]:
        """Dropped calls by issue code."""
        dropped: dict[str, int] = {}
        for record in self.records:
            for issue in record.issues:
                if issue.drops_call:
                    dropped[issue.value] = dropped.get(issue.value, 0) + 1
        return dropped
