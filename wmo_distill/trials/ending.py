"""Why an episode ended: two pure functions over one set of evidence."""

from collections.abc import Sequence
from dataclasses import dataclass

from wmo_distill.issues import Issue
from wmo_distill.records import Completion, StopReason
from wmo_distill.sources.evidence import EndingEvidence, Exceptional
from wmo_distill.sources.recorded import Step
from wmo_distill.trials.exceptions import Phase, meaning

# Exceptions of these kinds are also raised before the agent starts.
_ANY_TIME = (StopReason.PROVIDER_ERROR, StopReason.CANCELLED)


@dataclass(frozen=True, slots=True)
class Ending:
    stop_reason: StopReason
    completion: Completion
    issues: tuple[Issue, ...] = ()


def stop_reason(evidence: EndingEvidence) -> Ending:
    """Why the agent's episode ended; the earliest decisive evidence wins."""
    completion = evidence.completion or completion_of(evidence.steps)
    if evidence.stated is not None:
        return Ending(evidence.stated, completion)
    trace = evidence.trace
    if trace is not None and trace.word is not None:
        word = _word(trace.word)
        issues: tuple[Issue, ...] = () if word else (Issue.STOP_WORD_UNKNOWN,)
        return Ending(word or StopReason.UNKNOWN, completion, issues)
    raised = _raised(evidence.exception, completion)
    if evidence.readable and raised is not None:
        return Ending(raised, completion)
    if evidence.otherwise is not None:
        return Ending(evidence.otherwise, completion)
    if completion is Completion.CONFIRMED:
        return Ending(StopReason.SUBMITTED, completion, _miscounted(evidence))
    reason, issues = _unconfirmed(evidence)
    return Ending(reason, completion, issues)


def reference_stop_reason(evidence: EndingEvidence) -> str | None:
    """The word that the reference's published rules give."""
    if evidence.trace is not None:
        return evidence.trace.reference_word
    if not evidence.readable or evidence.stated or evidence.otherwise:
        return None
    if evidence.exception is not None and evidence.exception.type is not None:
        known = {"AgentTimeoutError": "budget", "ContextLengthExceededError": "provider_error"}
        return known.get(evidence.exception.type, "error")
    if evidence.n_episodes is None:
        return None
    if evidence.cap is not None and evidence.n_episodes >= evidence.cap:
        return "max_turns"
    return "submitted" if evidence.reference_submitted else "error"


def completion_of(steps: Sequence[Step]) -> Completion:
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


def _raised(exception: Exceptional | None, completion: Completion) -> StopReason | None:
    """The stop reason an exception gives, None if it says nothing about the agent."""
    if exception is None or exception.type is None:
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


def _unconfirmed(evidence: EndingEvidence) -> tuple[StopReason, tuple[Issue, ...]]:
    """The ending of a loop that no exception and no confirmed completion left."""
    if not evidence.readable:
        return StopReason.UNKNOWN, ()
    n = evidence.n_episodes
    if n is None:
        return StopReason.UNKNOWN, (Issue.EPISODES_MISSING,)
    if evidence.cap is not None and n >= evidence.cap:
        return StopReason.MAX_TURNS, ()
    if not evidence.steps_complete:
        # The last turn may have confirmed; its own issue says what is missing.
        return StopReason.UNKNOWN, ()
    steps, recorded = len(evidence.steps), evidence.recorded_turns
    # A turn that did not parse is written with the next one, so the token lists may know more.
    if (steps == n - 1 and recorded != n) or (steps < n and recorded == n - 1):
        return StopReason.SESSION_DIED, ()
    if steps == n and not evidence.cap_known:
        return StopReason.UNKNOWN, ()
    return StopReason.UNKNOWN, (Issue.TURNS_DISAGREE,)


def _miscounted(evidence: EndingEvidence) -> tuple[Issue, ...]:
    """What is odd about a confirmed episode."""
    if not evidence.readable:
        return ()
    n = evidence.n_episodes
    if n is None:
        return (Issue.EPISODES_MISSING,)
    return () if n == len(evidence.steps) else (Issue.TURNS_DISAGREE,)
