"""Size and time of the files that a build may read for a trial: how a second run knows a change."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wmo_distill.files import TrialFiles
from wmo_distill.sources.discovery import FoundTrial
from wmo_distill.sources.sink import sink_path

_ROOT_FILES = ("result.json", "config.json", "wmo-run.json")
_VERIFIER_FILES = ("reward.txt", "reward.json", "ctrf.json")
_DEEPEST_STEP = 8


class TrialState(NamedTuple):
    """Sum of the sizes and newest modification time; zeros where there is no file."""

    bytes: int
    mtime_ns: int


NO_STATE = TrialState(0, 0)


def trial_state(found: FoundTrial, sinks: Path | None = None) -> TrialState:
    """The state of the trial's own files and of its sinks; the job's files are not among them."""
    size = newest = 0
    for file in _states(found, sinks):
        if stat.S_ISREG(file.st_mode):
            size += file.st_size
            newest = max(newest, file.st_mtime_ns)
    return TrialState(size, newest)


def unused_sinks(sinks: Path, trial_names: set[str]) -> int:
    """How many sink files belong to no trial of these names."""
    files = TrialFiles(sinks)
    unused = 0
    for name in files.names():
        if name.endswith(".jsonl") and files.stat(name) is not None:
            unused += name.removesuffix(".jsonl") not in trial_names
        elif name not in trial_names:
            steps = [step for step in files.names(name) if step.endswith(".jsonl")]
            unused += sum(files.stat(f"{name}/{step}") is not None for step in steps)
    return unused


def _states(found: FoundTrial, sinks: Path | None) -> Iterator[os.stat_result]:
    root = os.fspath(found.root)
    yield from _named(root, _ROOT_FILES)
    yield from _agent_and_verifier(root)
    yield from _steps(os.path.join(root, "steps"), _DEEPEST_STEP)
    if sinks is not None:
        # A result that turns out to be unreadable leaves the directory's name.
        for name in dict.fromkeys((found.trial_name, found.root.name)):
            yield from _sinks(TrialFiles(sinks), sink_path(name))


def _sinks(files: TrialFiles, whole: str | None) -> Iterator[os.stat_result]:
    """The sink of a trial, and those of its steps."""
    if whole is None:
        return
    folder = whole.removesuffix(".jsonl")
    steps = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(".jsonl")]
    for name in (whole, *steps):
        state = files.stat(name)
        if state is not None:
            yield state


def _agent_and_verifier(root: str) -> Iterator[os.stat_result]:
    # A trajectory may be continued in any file beside it.
    for entry in _entries(os.path.join(root, "agent")):
        if entry.name.endswith(".json"):
            yield from _named(entry.path, ("",))
    verifier = os.path.join(root, "verifier")
    if _is_folder(verifier):
        yield from _named(verifier, _VERIFIER_FILES)


def _steps(folder: str, depth: int) -> Iterator[os.stat_result]:
    """The files of every step; the name of a step may hold slashes."""
    for entry in _entries(folder):
        if depth and entry.name not in ("agent", "verifier") and _is_folder(entry.path):
            yield from _named(entry.path, ("wmo-run.json",))
            yield from _agent_and_verifier(entry.path)
            yield from _steps(entry.path, depth - 1)


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    if not _is_folder(folder):
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _named(folder: str, names: tuple[str, ...]) -> Iterator[os.stat_result]:
    for name in names:
        try:
            yield os.lstat(f"{folder}/{name}" if name else folder)
        except (OSError, ValueError):
            continue


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
