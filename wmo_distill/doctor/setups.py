"""How a trial was run, as its own config, lock and trajectory say; nothing needs its result."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.harbor.agents import AgentKind, agent_kind
from wmo_distill.sources.harbor.discovery import surroundings
from wmo_distill.sources.harbor.documents import known_version
from wmo_distill.sources.values import at

NOT_RECORDED = "not recorded"
_ATIF = re.compile(rb'"schema_version"\s*:\s*"(ATIF-v[0-9.]{1,8})"')


@dataclass(frozen=True, slots=True)
class Setup:
    """What a trial's own config says of how it was run; nothing of this needs its result."""

    harbor: str
    """Harbor's version, or the trajectory's where no lock states it."""
    agent: str
    model: str
    collects: bool | None
    """Whether the config asks for token ids; None where no config can be read."""
    kind: AgentKind
    job_id: str | None = None


# Other formats keep no config of ours to read; whatever they sampled they were there to record.
OTHER = Setup(NOT_RECORDED, NOT_RECORDED, NOT_RECORDED, None, AgentKind.RECORDS)


def setup_of(trial: FoundTrial, versions: dict[Path, str | None]) -> Setup:
    files = TrialFiles(trial.root)
    config = files.read_json("config.json")
    if not known_version(config):
        config = Absent.UNREADABLE
    job, near = trial.root.parent, surroundings(trial)
    if near.job is not None and job not in versions:
        versions[job] = _locked_version(TrialFiles(job))
    version = versions.get(job) or _locked_version(files) or _atif_version(files)
    collects = at(config, "agent", "kwargs", "collect_rollout_details")
    return Setup(
        harbor=version or NOT_RECORDED,
        agent=_name(at(config, "agent", "name")) or _name(at(config, "agent", "import_path")),
        model=_name(at(config, "agent", "model_name")),
        collects=collects is True if isinstance(config, dict) else None,
        kind=agent_kind(config),
        job_id=None if near.served is None else _name(at(config, "job_id")),
    )


def _locked_version(files: TrialFiles) -> str | None:
    version = at(files.read_json("lock.json"), "harbor", "version")
    return version if isinstance(version, str) and version else None


def _atif_version(files: TrialFiles) -> str | None:
    """The version of the trajectory's format, which shows the age of a Harbor without a lock."""
    steps = [f"steps/{name}/agent" for name in files.names("steps")]
    for directory in ("agent", *steps):
        opened = files.open(f"{directory}/trajectory.json")
        if isinstance(opened, Absent):
            continue
        with opened:
            match = _ATIF.search(opened.read(4096))
        if match:
            return f"no lock ({match[1].decode()})"
    return None


def _name(value: Any) -> str:
    return value if isinstance(value, str) and value else NOT_RECORDED
