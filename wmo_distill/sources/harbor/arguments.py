"""The sampling arguments that Harbor records: in a trial's config, and in its trajectory."""

from collections.abc import Mapping, Sequence
from typing import Any

from wmo_distill.sources.evidence import SamplingEvidence
from wmo_distill.sources.values import at

PLACES = ("llm_kwargs", "llm_call_kwargs")
"""Where agent kwargs hold arguments for the model; each, and kwargs itself, has an extra_body."""


def sampling_evidence(
    config: Any, in_sink: Mapping[str, Sequence[object]], agent: Any
) -> SamplingEvidence:
    """What config, sink and the trajectory's `agent` record of how the model was asked.

    terminus-2 reports its constructor's arguments; those of a single call are in the config alone.
    """
    kwargs = at(config, "agent", "kwargs")
    return SamplingEvidence(
        in_calls=in_sink,
        asked=_arguments(kwargs, PLACES),
        built=_arguments(kwargs, PLACES[:1]),
        ran=_arguments(at(agent, "extra"), PLACES),
        no_temperature=_sends_no_temperature(config, agent),
    )


def _arguments(kwargs: Any, places: Sequence[str]) -> dict[str, object]:
    """All recorded arguments; what is later wins, an extra_body over its parent."""
    merged: dict[str, Any] = {}
    for place in (kwargs, *(at(kwargs, name) for name in places)):
        for holder in (place, at(place, "extra_body")):
            if isinstance(holder, dict):
                merged.update({k: v for k, v in holder.items() if v is not None})
    return merged


def _sends_no_temperature(config: Any, agent: Any) -> bool:
    """Whether the agent is known to send no temperature where none is recorded.

    terminus-2 writes the temperature that it uses into its trajectory's `agent.extra`: in
    Harbor 0.1 and 0.2 always (0.7 by default), later where one is set. Its tinker backend has a
    default of its own.
    """
    kwargs = at(config, "agent", "kwargs")
    return (
        isinstance(at(config, "agent"), dict)
        and (kwargs is None or isinstance(kwargs, dict))
        and at(kwargs, "llm_backend") in (None, "litellm")
        and at(agent, "name") == "terminus-2"
        and isinstance(at(agent, "extra"), dict)
    )
