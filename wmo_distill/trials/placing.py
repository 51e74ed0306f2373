"""The recorded calls of one episode to spans: each kept in its place, or counted with a reason."""

from collections.abc import Sequence

from wmo_distill.issues import Issue
from wmo_distill.records import SpanSource
from wmo_distill.sources.evidence import Evidence
from wmo_distill.sources.recorded import Call
from wmo_distill.trials.calls import SpanChain, prompt_fault, usable
from wmo_distill.trials.spans import Spans, listed_spans


def placed_spans(evidence: Evidence, *, salvage: bool = True, extra: bool = True) -> Spans:
    """The spans of an episode and the account of its calls."""
    if evidence.listed is not None:
        return listed_spans(evidence.listed, salvage=salvage, extra=extra)
    return _call_spans(evidence, salvage)


def _call_spans(evidence: Evidence, salvage: bool) -> Spans:
    """Spans of calls that are recorded one by one."""
    calls, said = evidence.calls, evidence.call_issues
    n = len(calls)
    if not any(call.completion.size or _damaged(call) for call in calls):
        issues = [Issue.NO_COMPLETION_IDS] + [Issue.CALL_WITHOUT_EVIDENCE] * n
        return Spans(issues=(*said, *issues), calls_found=n, main_calls=n)
    if not salvage and (_torn_or_unordered(said) or any(map(_faulty, calls))):
        issues = [Issue.CALL_NOT_SALVAGED] * n
        return Spans(issues=(*said, *issues), calls_found=n, main_calls=n)
    chain = SpanChain(0)
    for call in calls:
        chain.add(call)
    return Spans(
        tuple(chain.spans),
        source=evidence.call_source if chain.spans else SpanSource.NONE,
        issues=(*said, *chain.issues),
        calls_found=n,
        main_calls=n,
    )


def _damaged(call: Call) -> bool:
    return call.completion.delta is None and not call.completion.missing


def _torn_or_unordered(issues: Sequence[Issue]) -> bool:
    return not {Issue.SINK_TORN_LINE, Issue.SINK_OUT_OF_ORDER}.isdisjoint(issues)


def _faulty(call: Call) -> bool:
    """Whether the reference refuses this call; a log-probability that is NaN it takes."""
    sampled, logprobs, _ = usable(call)
    return (
        prompt_fault(call.prompt) not in (None, Issue.PROMPT_EMPTY)
        or sampled is None
        or (logprobs is None and bool(sampled.size))
        or bool(call.logprobs.nulls)
    )
