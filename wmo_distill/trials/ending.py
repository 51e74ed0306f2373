"""Why an episode ended: two pure functions over one set of evidence."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.records import Completion, StopReason
from wmo_distill.sources.harbor.documents import read_result
from wmo_distill.sources.harbor.trajectory import AgentStep, Trajectory, read_trajectory
from wmo_distill.sources.run_trace import RunTrace, read_run_trace
from wmo_distill.trials.exceptions import Phase, meaning

# Exceptions of these kinds are also raised before the agent starts.
_ANY_TIME = (StopReason.PROVIDER_ERROR, StopReason.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedException:
    """A recorded exception, and what tells in which phase it was raised."""

    type: str
    occurred_at: datetime | None = None
    verifier_started_at: datetime | None = None
    agent_ran: bool = True
    """An agent_execution is recorded, or the rollout was copied from another trial."""
    agent_result: bool = True
    """The result holds what the agent did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeEvidence:
    """All that the endings are decided from."""

    readable: bool = True
    exception: RaisedException | None = None
    n_episodes: int | None = None
    cap: int | None = None
    """Turns allowed; None: no cap, or an unknown one."""
    cap_known: bool = True
    trajectory: Trajectory = field(default_factory=lambda: Trajectory(absent=Absent.MISSING))
    recorded_turns: int = 0
    """Calls that the token lists of the main chat hold."""
    trace: RunTrace | None = None
    """The recorder's run trace, where sinks are in use."""


@dataclass(frozen=True, slots=True)
class Ending:
    stop_reason: StopReason
    completion: Completion
    issues: tuple[Issue, ...] = ()


def stop_reason(evidence: EpisodeEvidence) -> Ending:
    """Why the agent's episode ended; the earliest decisive evidence wins."""
    completion = completion_of(evidence.trajectory.steps)
    trace = evidence.trace
    if trace is not None and trace.word is not None:
        word = _word(trace.word)
        issues: tuple[Issue, ...] = () if word else (Issue.STOP_WORD_UNKNOWN,)
        return Ending(word or StopReason.UNKNOWN, completion, issues)
    raised = _raised(evidence.exception, completion)
    if evidence.readable and raised is not None:
        return Ending(raised, completion)
    if completion is Completion.CONFIRMED:
        return Ending(StopReason.SUBMITTED, completion, _miscounted(evidence))
    reason, issues = _unconfirmed(evidence)
    return Ending(reason, completion, issues)


def reference_stop_reason(evidence: EpisodeEvidence) -> str | None:
    """The word that the reference's published rules give."""
    if evidence.trace is not None:
        return evidence.trace.reference_word
    if not evidence.readable:
        return None
    if evidence.exception is not None:
        known = {"AgentTimeoutError": "budget", "ContextLengthExceededError": "provider_error"}
        return known.get(evidence.exception.type, "error")
    if evidence.n_episodes is None:
        return None
    if evidence.cap is not None and evidence.n_episodes >= evidence.cap:
        return "max_turns"
    return "submitted" if evidence.trajectory.reference_submitted else "error"


def completion_of(steps: Sequence[AgentStep]) -> Completion:
    """How far the agent got; a reply that did not parse leaves a pending claim pending."""
    state = Completion.NONE
    for step in steps:
        if step.parse_error:
            continue
        if not step.claims:
            state = Completion.NONE
        elif state is Completion.NONE:
            state = Completion.CLAIMED
        else:
            state = Completion.CONFIRMED
    return state


def _word(text: str) -> StopReason | None:
    try:
        return StopReason(text)
    except ValueError:
        return None


def _raised(exception: RaisedException | None, completion: Completion) -> StopReason | None:
    """The stop reason an exception gives, None if it says nothing about the agent."""
    if exception is None:
        return None
    known = meaning(exception.type)
    if known is None:
        if not exception.agent_ran:
            return StopReason.NOT_RUN
        raised, verifying = exception.occurred_at, exception.verifier_started_at
        if raised is not None and verifying is not None and raised >= verifying:
            return None
        return StopReason.ERROR
    phase, reason = known
    if phase is Phase.VERIFIER:
        return None
    if reason is StopReason.CANCELLED and completion is Completion.CONFIRMED:
        return StopReason.SUBMITTED
    if reason in _ANY_TIME and not (exception.agent_ran or exception.agent_result):
        return StopReason.NOT_RUN
    return reason


def _unconfirmed(evidence: EpisodeEvidence) -> tuple[StopReason, tuple[Issue, ...]]:
    """The ending of a loop that no exception and no confirmed completion left."""
    if not evidence.readable:
        return StopReason.UNKNOWN, ()
    n = evidence.n_episodes
    if n is None:
        return StopReason.UNKNOWN, (Issue.EPISODES_MISSING,)
    if evidence.cap is not None and n >= evidence.cap:
        return StopReason.MAX_TURNS, ()
    if not evidence.trajectory.complete:
        # The last turn may have confirmed; its own issue says what is missing.
        return StopReason.UNKNOWN, ()
    steps, recorded = len(evidence.trajectory.steps), evidence.recorded_turns
    # A turn that did not parse is written with the next one, so the token lists may know more.
    if (steps == n - 1 and recorded != n) or (steps < n and recorded == n - 1):
        return StopReason.SESSION_DIED, ()
    if steps == n and not evidence.cap_known:
        return StopReason.UNKNOWN, ()
    return StopReason.UNKNOWN, (Issue.TURNS_DISAGREE,)


def _miscounted(evidence: EpisodeEvidence) -> tuple[Issue, ...]:
    """What is odd about a confirmed episode."""
    if not evidence.readable:
        return ()
    n = evidence.n_episodes
    if n is None:
        return (Issue.EPISODES_MISSING,)
    return () if n == len(evidence.trajectory.steps) else (Issue.TURNS_DISAGREE,)


def raised_exception(
    info: Any, timings: Any, *, agent_result: bool, copied: bool
) -> RaisedException | None:
    """From an `exception_info`; None without a type that is a string.

    `timings` is the trial or step that holds the phases; `copied`: the rollout is another trial's.
    """
    kind = info.get("exception_type") if isinstance(info, dict) else None
    if not isinstance(kind, str):
        return None
    timings = timings if isinstance(timings, dict) else {}
    verifier = timings.get("verifier")
    return RaisedException(
        type=kind,
        occurred_at=zoned_time(info.get("occurred_at")),
        verifier_started_at=zoned_time(
            verifier.get("started_at") if isinstance(verifier, dict) else None
        ),
        agent_ran=copied or isinstance(timings.get("agent_execution"), dict),
        agent_result=agent_result,
    )


def zoned_time(value: Any) -> datetime | None:
    """An ISO 8601 time that names its zone; None for any other value."""
    time = recorded_time(value)
    return None if time is None or time.tzinfo is None else time


def recorded_time(value: Any) -> datetime | None:
    """An ISO 8601 date and time of day, with or without a zone; None for any other value."""
    if not isinstance(value, str):
        return None
    with suppress(ValueError):
        date.fromisoformat(value)
        return None  # a date alone, which `datetime` would read as its midnight
    with suppress(ValueError):
        return datetime.fromisoformat(value)
    return None


def turn_cap(config: Any) -> tuple[int | None, bool]:
    """(cap, whether it is known) from a trial's config; (None, True): it ran without a cap."""
    if not isinstance(config, dict):
        return None, False
    for key in ("agent", "kwargs"):
        config = config.get(key)
        if not isinstance(config, dict):
            return None, config is None
    for key in ("max_turns", "max_episodes", "episodes"):
        value = config.get(key)
        if value is not None:
            return (value, True) if type(value) is int else (None, False)
    return None, True


def episode_count(agent_result: Any) -> int | None:
    """metadata.n_episodes, None unless it is an integer."""
    metadata = agent_result.get("metadata") if isinstance(agent_result, dict) else None
    value = metadata.get("n_episodes") if isinstance(metadata, dict) else None
    return value if type(value) is int else None


def reference_terminus_stop_reason(files: TrialFiles, max_turns: int) -> str | None:
    """`reference_stop_reason` of a single-step trial directory, under the caller's cap."""
    read = read_result(files)
    if isinstance(read, Absent) or not isinstance(read.value, dict):
        return None
    result = read.value
    return reference_stop_reason(
        EpisodeEvidence(
            exception=raised_exception(
                result.get("exception_info"), result, agent_result=True, copied=False
            ),
            n_episodes=episode_count(result.get("agent_result")),
            cap=max_turns,
            trajectory=read_trajectory(files, "agent"),
        )
    )


def reference_run_stop_reason(files: TrialFiles) -> str | None:
    """The run trace's word as the reference reads it."""
    return read_run_trace(files, "").reference_word
