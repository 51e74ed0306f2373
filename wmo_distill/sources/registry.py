"""Every source by name: a new one is a line here."""

from collections.abc import Callable
from pathlib import Path

from wmo_distill.sources.agentlightning.source import AgentLightning
from wmo_distill.sources.base import FoundTrial, Source
from wmo_distill.sources.harbor.source import Harbor
from wmo_distill.sources.nemo_gym.source import NemoGym
from wmo_distill.sources.openenv.source import OpenEnv
from wmo_distill.sources.rllm.source import RllmGateway
from wmo_distill.sources.tinker.source import TinkerCapture
from wmo_distill.sources.verifiers.source import Verifiers

# In this order a directory is shown to them; `verifiers` takes a run's directory for itself.
SOURCES: dict[str, Callable[[], Source]] = {
    "harbor": Harbor,
    "nemo_gym": NemoGym,
    "openenv": OpenEnv,
    "agentlightning": AgentLightning,
    "rllm_gateway": RllmGateway,
    "tinker_capture": TinkerCapture,
    "verifiers": Verifiers,
}


def new_sources() -> tuple[Source, ...]:
    """One of each, for one search: a source may remember what it saw."""
    return tuple(make() for make in SOURCES.values())


def source_of(kind: str) -> Source:
    """The source of this name, to read what it found."""
    return SOURCES[kind]()


def named_trial(root: Path, path: str) -> FoundTrial:
    """A directory that somebody names and no source knows: a trial of Harbor, its files lost."""
    return Harbor().named(root, path)
