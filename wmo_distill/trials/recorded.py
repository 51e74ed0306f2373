"""The spans of one episode from its token sink."""

from wmo_distill.files import plain_text
from wmo_distill.issues import Issue
from wmo_distill.records import SpanSource
from wmo_distill.sources.sink import Sink, SinkCall, SinkState
from wmo_distill.tokenjson.extras import json_text
from wmo_distill.trials.calls import Call, SpanChain, prompt_fault, usable
from wmo_distill.trials.spans import Spans


def sink_spans(sink: Sink, *, salvage: bool = True, extra: bool = True) -> Spans | None:
    """Spans of a sink that could be read; None where the trial's own tokens stand in."""
    if sink.state is not SinkState.READ:
        return None
    n = len(sink.calls)
    if not any(call.sampled.size or _damaged(call) for call in sink.calls):
        issues = [Issue.NO_COMPLETION_IDS] + [Issue.CALL_WITHOUT_EVIDENCE] * n
        return Spans(issues=(*sink.issues, *issues), calls_found=n, main_calls=n)
    calls = [
        Call(
            call.call_index,
            call.prompt,
            call.sampled,
            call.logprobs,
            json_text(call.extra) if extra and call.extra else None,
            None if call.finish_reason is None else plain_text(call.finish_reason),
        )
        for call in sink.calls
    ]
    if not salvage and (_torn_or_unordered(sink) or any(map(_faulty, calls))):
        issues = [Issue.CALL_NOT_SALVAGED] * n
        return Spans(issues=(*sink.issues, *issues), calls_found=n, main_calls=n)
    chain = SpanChain(0)
    for call in calls:
        chain.add(call)
    source = SpanSource.SINK if chain.spans else SpanSource.NONE
    return Spans(
        tuple(chain.spans),
        source=source,
        issues=(*sink.issues, *chain.issues),
        calls_found=n,
        main_calls=n,
    )


def _damaged(call: SinkCall) -> bool:
    return call.sampled.delta is None and not call.sampled.missing


def _torn_or_unordered(sink: Sink) -> bool:
    return not {Issue.SINK_TORN_LINE, Issue.SINK_OUT_OF_ORDER}.isdisjoint(sink.issues)


def _faulty(call: Call) -> bool:
    """Whether the reference refuses this call; a log-probability that is NaN it takes."""
    sampled, logprobs, _ = usable(call)
    return (
        prompt_fault(call.prompt) not in (None, Issue.PROMPT_EMPTY)
        or sampled is None
        or (logprobs is None and bool(sampled.size))
        or bool(call.logprobs.nulls)
    )
