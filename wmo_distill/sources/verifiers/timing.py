"""When a rollout ran, what its phases took, and what its calls cost."""

from collections.abc import Mapping
from typing import Any

from wmo_distill.sources.evidence import Times
from wmo_distill.sources.values import at, moment, object_in
from wmo_distill.sources.verifiers.fields import number_in

_PHASES = ("boot", "setup", "agent", "generation", "finalize", "scoring")


def times_of(trace: Mapping[str, Any], entries: Mapping[int, Mapping[str, Any]]) -> Times:
    timing = object_in(trace.get("timing"))
    ends = [moment(at(timing, phase, "end")) for phase in _PHASES]
    setup = [seconds(trace, phase) for phase in ("boot", "setup")]
    usage = [u for entry in entries.values() if isinstance(u := entry.get("usage"), dict)]
    costs = [c for u in usage if (c := number_in(u.get("cost"))) is not None]
    cached = [c for u in usage if type(c := u.get("cached_input_tokens")) is int and c >= 0]
    total = sum(cached)
    return Times(
        started_at=moment(timing.get("start")),
        finished_at=max((end for end in ends if end is not None), default=None),
        agent_seconds=seconds(trace, "agent", "generation"),
        verifier_seconds=seconds(trace, "scoring"),
        setup_seconds=sum(known) if (known := [s for s in setup if s is not None]) else None,
        cost_usd=number_in(sum(costs)) if costs else None,
        cached_tokens=total if cached and total < 2**63 else None,
    )


def seconds(trace: Mapping[str, Any], *phases: str) -> float | None:
    """The length of the first of the phases that began and ended."""
    for phase in phases:
        span = object_in(at(trace.get("timing"), phase))
        start, end = number_in(span.get("start")), number_in(span.get("end"))
        if start and end and end >= start:
            return end - start
    return None


def began(trace: Mapping[str, Any]) -> bool:
    timing = object_in(trace.get("timing"))
    spans = [object_in(timing.get(name)) for name in ("agent", "generation")]
    return not timing or any(number_in(span.get("start")) for span in spans)
