"""Whether every call that was sampled is recorded, as far as counters and times can tell.

Harbor declares no episode complete: an answer cut off at the output cap is asked for again within
its episode and is in no counter and no list. So agreement says nothing (`silent`), and only a
difference speaks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from wmo_distill.issues import Issue
from wmo_distill.predicates import cut_at_cap
from wmo_distill.records import Completeness
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.recorded import Call, Step
from wmo_distill.trials.placing import Spans

# A summary of terminus-2 is three calls, and one more where those fail.
_CALLS_PER_SUMMARY = 4
# Clocks of recorder and harness may differ a little.
_TOLERANCE = timedelta(seconds=2)
# A call of the main chat is not in the spans, or its answer is not: what the policy wrote there
# is context in later prompts. `call_without_evidence` costs a whole chat and leaves none.
_HOLES = frozenset((
    Issue.PROMPT_MISSING, Issue.PROMPT_EMPTY, Issue.PROMPT_DAMAGED, Issue.CALL_UNPLACED,
    Issue.CALL_NOT_SALVAGED, Issue.COMPLETION_DAMAGED, Issue.SINK_TORN_LINE,
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class CallAccount:
    """The verdict, and the calls that were sampled and are recorded nowhere."""

    completeness: Completeness = Completeness.SILENT
    lost: int = 0
    issues: tuple[Issue, ...] = field(default=())


def account_of(evidence: Evidence, spans: Spans) -> CallAccount:
    """What declarations, counters, turns and times say of the recorded calls.

    Silent without any span.
    """
    counters = evidence.counters
    if not spans.spans:
        return CallAccount(counters.declared, counters.lost, (Issue.CALL_LOST,) * counters.lost)
    lost = max(counters.lost, _lost(evidence, spans), spans.holes)
    issues = [
        *[Issue.CALL_LOST] * lost,
        *[Issue.CALLS_BEYOND_TURNS] * _beyond(evidence, spans),
        *_outside(evidence),
    ]
    verdict = counters.declared
    if issues or _has_hole(evidence.ending.steps, spans):
        verdict = Completeness.INCOMPLETE
    return CallAccount(verdict, lost, tuple(issues))


def _has_hole(steps: Sequence[Step], spans: Spans) -> bool:
    """Whether a call of the main chat, or what it answered, is not in the spans.

    Harbor leaves out the ids of an answer of no tokens as it leaves out unknown ones; the count of
    tokens next to them tells the two apart.
    """
    issues = spans.issues
    empty = sum(step.completion.missing and step.billed == 0 for step in steps)
    return not _HOLES.isdisjoint(issues) or issues.count(Issue.COMPLETION_MISSING) > empty


def _lost(evidence: Evidence, spans: Spans) -> int:
    """Answers that were counted, or that a turn was made of, and are in no list.

    Five answers were timed and four calls are recorded: one is lost. So it is where a step of the
    trajectory has no recorded call.
    """
    counters = evidence.counters
    requests = counters.requests or 0
    if evidence.listed is None:
        if counters.n_episodes is None:  # another harness: its steps need not be calls
            return 0
        # A recorder need not see the summarizers.
        requests -= _CALLS_PER_SUMMARY * counters.summaries
    counted = counters.n_episodes is not None
    answered = sum(_answered(step, counted) for step in evidence.ending.steps)
    return max(0, requests - spans.calls_found, answered - spans.main_calls)


def _answered(step: Step, counted: bool) -> bool:
    """Whether a model's answer made this step; terminus-2 goes on without one when all else fails.

    `counted`: the harness counts episodes, so that a reply that parses is an answer.
    """
    return step.has_ids or (step.billed or 0) > 0 or (counted and not step.parse_error)


def _beyond(evidence: Evidence, spans: Spans) -> int:
    """Calls for which the turns leave no room.

    A turn is one call. A sink may rightly hold more: the calls of summarizers, an answer that was
    cut off and asked for again, and the same prompt sent twice.
    """
    n = evidence.counters.n_episodes
    if n is None or n < 0:
        return 0
    if evidence.listed is not None:
        return max(0, spans.main_calls - n)
    calls = evidence.calls
    again = sum(cut_at_cap(call.finish_reason) is True for call in calls) + _repeated(calls)
    return max(0, len(calls) - again - n - _CALLS_PER_SUMMARY * evidence.counters.summaries)


def _repeated(calls: Sequence[Call]) -> int:
    """Calls whose prompt an earlier call had; compared with the call before alone."""
    return sum(
        after.prompt.size == before.prompt.size
        and after.prompt.delta is not None
        and after.prompt.before is before.prompt
        and after.prompt.shared == before.prompt.size
        for before, after in pairwise(calls)
    )


def _outside(evidence: Evidence) -> list[Issue]:
    """An issue for each call from before the agent began or after it had ended."""
    recorded = evidence.calls if evidence.listed is None else evidence.ending.steps
    times = [one.at for one in recorded]
    began, ended = evidence.counters.began, evidence.counters.ended
    early = sum(_later(began, time) for time in times)
    late = sum(_later(time, ended) for time in times)
    return [Issue.CALL_BEFORE_START] * early + [Issue.CALL_AFTER_END] * late


def _later(time: datetime | None, than: datetime | None) -> bool:
    """False where one of them is not known, or names its zone and the other does not."""
    if time is None or than is None or (time.tzinfo is None) is not (than.tzinfo is None):
        return False
    return time - than > _TOLERANCE
