"""Whether every call that was sampled is recorded, as far as counters and times can tell.

Harbor declares no episode complete: an answer cut off at the output cap is asked for again within
its episode and is in no counter and no list. So agreement says nothing (`silent`), and only a
difference speaks. What the tokens prove is not looked at here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from wmo_distill.issues import Issue
from wmo_distill.predicates import cut_at_cap
from wmo_distill.records import Completeness, SpanSource
from wmo_distill.sources.harbor.trajectory import AgentStep
from wmo_distill.sources.sink import SinkCall
from wmo_distill.trials.ending import recorded_time
from wmo_distill.trials.spans import Spans
from wmo_distill.trials.values import at

# A summary of terminus-2 is three calls, and one more where those fail.
_CALLS_PER_SUMMARY = 4
# Clocks of recorder and harness may differ a little.
_TOLERANCE = timedelta(seconds=2)
_TIME_KEYS = (
    "time", "at", "timestamp", "created_at", "created", "ts",
    "finished_at", "completed_at", "end_time", "started_at", "start_time", "request_time",
)  # fmt: skip
_EPOCH = (10**9, 10**11)
"""Seconds from 2001 to 5138."""
# A call of the main chat is not in the spans, or its answer is not: what the policy wrote there
# is context in later prompts. `call_without_evidence` costs a whole chat and leaves none.
_HOLES = frozenset((
    Issue.PROMPT_MISSING, Issue.PROMPT_EMPTY, Issue.PROMPT_DAMAGED, Issue.CALL_UNPLACED,
    Issue.CALL_NOT_SALVAGED, Issue.COMPLETION_DAMAGED, Issue.SINK_TORN_LINE,
))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEvidence:
    """What else an episode records about its calls."""

    spans: Spans
    steps: Sequence[AgentStep] = ()
    sink_calls: Sequence[SinkCall] = ()
    """The calls of the sink, where the spans are its own."""
    n_episodes: int | None = None
    summaries: int = 0
    requests: int | None = None
    """Answers that the harness counted, those of summarizers among them."""
    phase: Any = None
    """The recorded agent_execution."""


@dataclass(frozen=True, slots=True)
class CallAccount:
    """The verdict, and the calls that were sampled and are recorded nowhere."""

    completeness: Completeness = Completeness.SILENT
    lost: int = 0
    issues: tuple[Issue, ...] = field(default=())


def account_of(evidence: CallEvidence) -> CallAccount:
    """What counters, turns and times say of the recorded calls; silent without any span."""
    spans = evidence.spans
    if not spans.spans:
        return CallAccount()
    lost = _lost(evidence)
    issues = [
        *[Issue.CALL_LOST] * lost,
        *[Issue.CALLS_BEYOND_TURNS] * _beyond(evidence),
        *_outside(evidence),
    ]
    verdict = Completeness.INCOMPLETE if issues or _has_hole(evidence) else Completeness.SILENT
    return CallAccount(verdict, lost, tuple(issues))


def summaries_of(agent_result: Any, seen: int = 0) -> int:
    """How many compactions the harness began, those that failed among them.

    Not every version counts them: at least those that the trajectory shows, `seen`.
    """
    recorded = at(agent_result, "metadata", "summarization_count")
    return max(seen, recorded if type(recorded) is int else 0)


def requests_of(agent_result: Any) -> int | None:
    """How many answers the harness timed; None where it kept no list."""
    times = at(agent_result, "metadata", "api_request_times_msec")
    return len(times) if isinstance(times, list) else None


def _has_hole(evidence: CallEvidence) -> bool:
    """Whether a call of the main chat, or what it answered, is not in the spans.

    Harbor leaves out the ids of an answer of no tokens as it leaves out unknown ones; the count of
    tokens beside them tells the two apart.
    """
    issues = evidence.spans.issues
    empty = sum(step.completion.missing and step.billed == 0 for step in evidence.steps)
    return not _HOLES.isdisjoint(issues) or issues.count(Issue.COMPLETION_MISSING) > empty


def _lost(evidence: CallEvidence) -> int:
    """Answers that were counted, or that a turn was made of, and are in no list.

    Five answers were timed and four calls are recorded: one is lost. So it is where a step of the
    trajectory has no recorded call.
    """
    spans, requests = evidence.spans, evidence.requests or 0
    if spans.source is SpanSource.SINK:
        if evidence.n_episodes is None:  # another harness: its steps need not be calls
            return 0
        # A recorder need not see the summarizers.
        requests -= _CALLS_PER_SUMMARY * evidence.summaries
    answered = sum(_answered(step, evidence.n_episodes is not None) for step in evidence.steps)
    return max(0, requests - spans.calls_found, answered - spans.main_calls)


def _answered(step: AgentStep, counted: bool) -> bool:
    """Whether a model's answer made this step; terminus-2 goes on without one when all else fails.

    `counted`: the harness counts episodes, so that a reply that parses is an answer.
    """
    return step.has_ids or (step.billed or 0) > 0 or (counted and not step.parse_error)


def _beyond(evidence: CallEvidence) -> int:
    """Calls for which the turns leave no room.

    A turn is one call. A sink may rightly hold more: the calls of summarizers, an answer that was
    cut off and asked for again, and the same prompt sent twice.
    """
    n = evidence.n_episodes
    if n is None or n < 0:
        return 0
    if evidence.spans.source is not SpanSource.SINK:
        return max(0, evidence.spans.main_calls - n)
    calls = evidence.sink_calls
    again = sum(cut_at_cap(call.finish_reason) is True for call in calls) + _repeated(calls)
    return max(0, len(calls) - again - n - _CALLS_PER_SUMMARY * evidence.summaries)


def _repeated(calls: Sequence[SinkCall]) -> int:
    """Calls whose prompt an earlier call had; compared with the call before alone."""
    return sum(
        after.prompt.size == before.prompt.size
        and after.prompt.delta is not None
        and after.prompt.before is before.prompt
        and after.prompt.shared == before.prompt.size
        for before, after in pairwise(calls)
    )


def _outside(evidence: CallEvidence) -> list[Issue]:
    """An issue for each call from before the agent began or after it had ended."""
    if evidence.spans.source is SpanSource.SINK:
        times = [_time_of(call.extra) for call in evidence.sink_calls]
    else:
        times = [_time(step.timestamp) for step in evidence.steps]
    began = _time(at(evidence.phase, "started_at"))
    ended = _time(at(evidence.phase, "finished_at"))
    early = sum(_later(began, time) for time in times)
    late = sum(_later(time, ended) for time in times)
    return [Issue.CALL_BEFORE_START] * early + [Issue.CALL_AFTER_END] * late


def _later(time: datetime | None, than: datetime | None) -> bool:
    """False where one of them is not known, or names its zone and the other does not."""
    if time is None or than is None or (time.tzinfo is None) is not (than.tzinfo is None):
        return False
    return time - than > _TOLERANCE


def _time_of(recorded: Any) -> datetime | None:
    """The first readable time of a sink line, in the order of `_TIME_KEYS`."""
    found = (_time(recorded.get(key)) for key in _TIME_KEYS)
    return next((time for time in found if time is not None), None)


def _time(value: Any) -> datetime | None:
    """An ISO 8601 time, or seconds, milli-, micro- or nanoseconds since 1970."""
    if isinstance(value, str):
        return recorded_time(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    for scale in (1, 1000, 1_000_000, 1_000_000_000):
        if _EPOCH[0] * scale <= value < _EPOCH[1] * scale:
            return datetime.fromtimestamp(value / scale, UTC)
    return None
