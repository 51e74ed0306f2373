"""What a run says of all its rollouts: its configuration, and its name."""

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.values import at

_EVAL = "configs/resolved/eval.json"


def config_of(file: Path) -> dict[str, Any]:
    """The configuration of the run that wrote a file, by the names of whichever version."""
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


def expected_rollouts(config: dict[str, Any]) -> Any:
    """How many rollouts each task was to have."""
    asked = config.get("num_rollouts")
    return config.get("rollouts_per_example") if asked is None else asked


def source_name(config: dict[str, Any]) -> Any:
    """The environment, where only the run names it."""
    return at(config, "taskset", "id") or config.get("env_id")


def job_of(file: Path) -> str:
    """The run directory's name; of prime-rl's, the directory that holds `rollouts`."""
    above = file.parents
    for k, folder in enumerate(above[:6]):
        if folder.name == "rollouts" and k and k + 1 < len(above):
            return above[k + 1].name
    return file.parent.name
