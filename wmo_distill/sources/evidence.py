"""What the files of one episode say, typed and frozen: all that `trials/` decides from.

A source fills it and never raises on content. None and empty mean "not recorded".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from wmo_distill.files import FilesState
from wmo_distill.issues import Issue
from wmo_distill.records import (
    Completeness,
    Completion,
    GradedTests,
    SegmentInfo,
    SpanSource,
    StopReason,
)
from wmo_distill.sources.recorded import Call, Listed, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose episode this is; the columns of the same names."""

    trial_id: str | None = None
    trial_name: str = ""
    artifact_dir: str = ""
    """The path in the ledger."""
    step_name: str | None = None
    step_index: int | None = None
    """None for an episode that is a whole trial."""
    task_id: str | None = None
    task_checksum: str | None = None
    source: str | None = None
    job: str | None = None
    attempt: int | None = None
    group_id: str = ""
    """Names the rollouts to compare: of `values.group_id`, or any text, of which an id is made.
    An empty one leaves the trial in a group of its own."""
    group_expected: int | None = None
    regrade_of: str | None = None
    agent_name: str | None = None
    agent_version: str | None = None
    model_name: str | None = None
    model_provider: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When the episode ran, what it took in seconds, and what it cost."""

    started_at: datetime | None = None
    finished_at: datetime | None = None
    agent_seconds: float | None = None
    verifier_seconds: float | None = None
    setup_seconds: float | None = None
    cost_usd: float | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingEvidence:
    """Recorded arguments of the model's calls; what a column takes is decided in `trials/`."""

    in_calls: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """The distinct values recorded with the calls, by column; they win."""
    asked: Mapping[str, object] = field(default_factory=dict)
    """Arguments that the configuration sends with each call."""
    built: Mapping[str, object] = field(default_factory=dict)
    """Of `asked`, those that the agent was made with: it may report others in `ran`."""
    ran: Mapping[str, object] = field(default_factory=dict)
    """Arguments that the agent reports to have run with."""
    no_temperature: bool = False
    """Whether the agent is known to send no temperature where none is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exceptional:
    """A recorded exception, and what shows in which phase it was raised."""

    type: str | None
    """None for one whose type is not recorded as a string."""
    occurred_at: datetime | None = None
    verifier_started_at: datetime | None = None
    agent_ran: bool = True
    """An agent_execution is recorded, or the rollout was copied from another trial."""
    agent_result: bool = True
    """The result holds what the agent did."""
    reward_valid: bool | None = None
    """The exception's own policy: whether a reward counts all the same."""


@dataclass(frozen=True, slots=True)
class RunTrace:
    """The stop reason that a recorder wrote down.

    `word` is from the first file that holds one; the reference looks at the first file only.
    """

    word: str | None = None
    reference_word: str | None = None
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndingEvidence:
    """All that the endings are decided from."""

    stated: StopReason | None = None
    """The ending by the format's own words; None leaves it to what follows."""
    otherwise: StopReason | None = None
    """The same, where no exception decides it."""
    completion: Completion | None = None
    """As stated; None leaves it to the steps."""
    readable: bool = True
    """Whether a result could be read."""
    exception: Exceptional | None = None
    n_episodes: int | None = None
    cap: int | None = None
    """Turns allowed; None: no cap, or an unknown one."""
    cap_known: bool = True
    steps: Sequence[Step] = ()
    steps_complete: bool = True
    """Whether the last step is the agent's last."""
    reference_submitted: bool = False
    """Whether the reference's reader sees a declared completion in the last step."""
    recorded_turns: int = 0
    """Calls that the token lists of the main chat hold."""
    trace: RunTrace | None = None
    compactions: tuple[int, ...] = ()
    """call_index of the first call after each compaction."""


@dataclass(frozen=True, slots=True)
class RewardFile:
    """One readable reward file; `whole` says that it speaks for every reward of the trial."""

    rewards: Mapping[str, object]
    whole: bool


@dataclass(frozen=True, slots=True)
class RewardFiles:
    """The readable reward files, the preferred one first; an issue for each unreadable one."""

    found: tuple[RewardFile, ...] = ()
    issues: tuple[Issue, ...] = ()

    @property
    def rewards(self) -> Mapping[str, object]:
        """The rewards of the first file that holds any."""
        return next((file.rewards for file in self.found if file.rewards), {})


@dataclass(frozen=True, slots=True)
class TestsReport:
    """The verdicts of a test report, None where it gave none, and what was wrong with it."""

    __test__ = False  # not a test class

    tests: GradedTests | None = None
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeEvidence:
    """What the files of one trial, or of one of its steps, say about its grade."""

    rewards: Mapping[str, object] = field(default_factory=dict)
    """By name, of the result; a value may be of any type."""
    reward_issues: tuple[Issue, ...] = ()
    """Why the result has no rewards."""
    exceptions: Sequence[Exceptional] = ()
    """Those that concern this grade."""
    recorded_valid: bool | None = None
    """The harness's own `reward_valid`, always None for a step."""
    readable: bool = True
    """Whether a result could be read."""
    reward_files: RewardFiles = field(default_factory=RewardFiles)
    tests: TestsReport = field(default_factory=TestsReport)
    has_total: bool = False
    """Whether `total` is the reward, unless a caller asks for one of `rewards` by name."""
    total: float | None = None
    """What the format makes of all rewards; None where one of them is not there."""
    note: str | None = None
    """The note by the format's own words; None leaves it to the exceptions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCounters:
    """What else is recorded about how many calls there were, and when."""

    declared: Completeness = Completeness.SILENT
    """What the format itself says of this episode's calls."""
    answers_marked: bool = False
    """Whether the format says which answers in prompts were sampled: then no witness is needed."""
    lost: int = 0
    """Calls that the format knows to be sampled, and of which it holds no record."""
    n_episodes: int | None = None
    """Turns of the agent as the harness counted them."""
    summaries: int = 0
    """Compactions that the harness began, those that failed among them."""
    requests: int | None = None
    """Answers that the harness counted, those of summarizers among them."""
    began: datetime | None = None
    ended: datetime | None = None
    """The recorded ends of the agent's run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One episode: its calls as `calls`, or as `listed` where lists of them are recorded."""

    identity: Identity
    calls: Sequence[Call] = ()
    listed: Listed | None = None
    call_source: SpanSource = SpanSource.NONE
    """What the spans of `calls` are said to be from."""
    call_issues: tuple[Issue, ...] = ()
    """What is odd about the record of `calls` as a whole."""
    lineages: Mapping[str, SegmentInfo] = field(default_factory=dict)
    """The declared chats by name, the main one first; calls without a name are it if none is."""
    unreadable_calls: int = 0
    """Calls found and not to be read; `issues` holds a code for each."""
    counters: CallCounters = CallCounters()
    sampling: SamplingEvidence = field(default_factory=SamplingEvidence)
    ending: EndingEvidence = field(default_factory=EndingEvidence)
    grade: GradeEvidence = field(default_factory=GradeEvidence)
    trial_grade: GradeEvidence | None = None
    """Of the whole trial, for an episode that is one of its steps."""
    times: Times = field(default_factory=Times)
    issues: tuple[Issue, ...] = ()
    slow_reads: int = 0
    """Documents that the fast reader left to the plain one."""
    state: FilesState | None = None
    """By what was read, of a source whose `exact_state` is another than its `state`."""
