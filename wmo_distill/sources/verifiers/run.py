"""What a run says of all its rollouts: its configuration, and its name."""

import hashlib
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.values import at

_EVAL = "configs/resolved/eval.json"
_LEVELS = 32
"""Levels of a value; one of more is damaged, and could not be sent to another process."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All that rows hold of a run's configuration, as recorded; None is not recorded."""

    source: Any = None
    """The environment, where only the run names it."""
    rollouts: Any = None
    """How many each task was to have."""
    max_turns: Any = None
    model: Any = None
    """This and what follows: where no trace names its agent (before 0.2.1)."""
    sampling: Any = None
    harness: Any = None

    @property
    def digest(self) -> str:
        """Other rows come of another configuration; empty where the run says nothing."""
        said = repr([getattr(self, field.name) for field in fields(self)])
        return "" if self == NO_CONFIG else hashlib.sha256(said.encode()).hexdigest()


NO_CONFIG = RunConfig()


def config_of(file: Path) -> RunConfig:
    """The configuration of the run that wrote a file, by the names of whichever version."""
    config = _recorded(file)
    asked = config.get("num_rollouts")
    return RunConfig(
        source=_sound(at(config, "taskset", "id") or config.get("env_id")),
        rollouts=_sound(config.get("rollouts_per_example") if asked is None else asked),
        max_turns=_sound(config.get("max_turns")),
        model=_sound(config.get("model")),
        sampling=_sound(config.get("sampling_args", config.get("sampling"))),
        harness=_sound(at(config, "harness", "id")),
    )


def _sound(value: Any) -> Any:
    """The value, or an empty list, which is as wrong, for one of too many levels."""
    level = [value]
    for _ in range(_LEVELS):
        level = [inner for one in level for inner in _inner(one)]
        if not level:
            return value
    return []


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _recorded(file: Path) -> dict[str, Any]:
    files = TrialFiles(file.parent)
    for name in (_EVAL, "configs/eval.json", "metadata.json"):
        value = files.read_json(name)
        if isinstance(value, dict):
            return value
    data = files.read("config.toml")
    if not isinstance(data, Absent):
        with suppress(ValueError, RecursionError):
            return tomllib.loads(data.decode())
    return {}


def job_of(file: Path) -> str:
    """The run directory's name; of prime-rl's, the directory that holds `rollouts`."""
    above = file.parents
    for k, folder in enumerate(above[:6]):
        if folder.name == "rollouts" and k and k + 1 < len(above):
            return above[k + 1].name
    return file.parent.name
