"""Every source by name: a new one is a line here."""

from collections.abc import Callable, Mapping
from functools import cache
from pkgutil import resolve_name

from wmo_distill.sources.base import Source

# In this order a directory is shown to them; `verifiers` takes a run's directory for itself.
SOURCES: dict[str, str] = {
    "harbor": "wmo_distill.sources.harbor.source:Harbor",
    "nemo_gym": "wmo_distill.sources.nemo_gym.source:NemoGym",
    "openenv": "wmo_distill.sources.openenv.source:OpenEnv",
    "agentlightning": "wmo_distill.sources.agentlightning.source:AgentLightning",
    "rllm_gateway": "wmo_distill.sources.rllm.source:RllmGateway",
    "tinker_capture": "wmo_distill.sources.tinker.source:TinkerCapture",
    "verifiers": "wmo_distill.sources.verifiers.source:Verifiers",
}

_TOTALS = {"verifiers": "wmo_distill.sources.verifiers.grading:total_of"}
Total = Callable[[Mapping[str, float]], float | None]


def source_of(kind: str) -> Source:
    """A new source of this name, loaded now."""
    source: Source = resolve_name(SOURCES[kind])()
    return source


def other_sources() -> tuple[Source, ...]:
    """All but Harbor, for one search: a source may remember what it saw."""
    return tuple(source_of(kind) for kind in SOURCES if kind != "harbor")


@cache
def total_of(kind: str) -> Total | None:
    """What a format makes of all rewards where none is asked for by name; None: nothing."""
    total: Total | None = resolve_name(_TOTALS[kind]) if kind in _TOTALS else None
    return total
