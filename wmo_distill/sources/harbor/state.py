"""Size and time of the files that a build may read for a trial: how a second run knows a change."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from wmo_distill.files import FilesState, TrialFiles
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.sink import sink_path

_ROOT_FILES = ("result.json", "config.json", "wmo-run.json")
_VERIFIER_FILES = ("reward.txt", "reward.json", "ctrf.json")
_DEEPEST_STEP = 8


_File = tuple[str, os.stat_result]


def trial_state(
    found: FoundTrial, sinks: Path | None = None, *, openable: bool = False
) -> FilesState:
    """The state of the trial's own files and of its sinks; the job's files are not among them.

    With `openable` only of those that this process may read.
    """
    size = newest = 0
    for path, file in _files(found, sinks):
        if stat.S_ISREG(file.st_mode) and not (openable and not os.access(path, os.R_OK)):
            size += file.st_size
            newest = max(newest, file.st_mtime_ns)
    return FilesState(size, newest)


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


def _files(found: FoundTrial, sinks: Path | None) -> Iterator[_File]:
    root = os.fspath(found.root)
    yield from _named(root, _ROOT_FILES)
    yield from _agent_and_verifier(root)
    yield from _steps(os.path.join(root, "steps"), _DEEPEST_STEP)
    if sinks is None:
        return
    # A result that turns out to be unreadable leaves the directory's name.
    for trial_name in dict.fromkeys((found.trial_name, found.root.name)):
        if (whole := sink_path(trial_name)) is not None:
            yield from _sinks(TrialFiles(sinks), whole)


def _sinks(files: TrialFiles, whole: str) -> Iterator[_File]:
    """The sink of a trial and those of its steps."""
    folder = whole.removesuffix(".jsonl")
    steps = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(".jsonl")]
    for name in (whole, *steps):
        state = files.stat(name)
        if state is not None:
            yield f"{os.fspath(files.root)}/{name}", state


def _agent_and_verifier(root: str) -> Iterator[_File]:
    # A trajectory may be continued in any file next to it.
    for entry in _entries(os.path.join(root, "agent")):
        if entry.name.endswith(".json"):
            yield from _named(entry.path, ("",))
    verifier = os.path.join(root, "verifier")
    if _is_folder(verifier):
        yield from _named(verifier, _VERIFIER_FILES)


def _steps(folder: str, depth: int) -> Iterator[_File]:
    """The files of every step; the name of a step may hold slashes."""
    for entry in _entries(folder):
        if depth and _is_folder(entry.path) and _may_be_step(entry, depth):
            yield from _named(entry.path, ("wmo-run.json",))
            yield from _agent_and_verifier(entry.path)
            yield from _steps(entry.path, depth - 1)


def _may_be_step(entry: "os.DirEntry[str]", depth: int) -> bool:
    """Whether a folder is a step's; in a step `agent` is the agent's, unless it has its own."""
    if depth == _DEEPEST_STEP or entry.name not in ("agent", "verifier"):
        return True
    return any(_is_folder(os.path.join(entry.path, own)) for own in ("agent", "verifier"))


def _entries(folder: str) -> list["os.DirEntry[str]"]:
    if not _is_folder(folder):
        return []
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _named(folder: str, names: tuple[str, ...]) -> Iterator[_File]:
    for name in names:
        path = f"{folder}/{name}" if name else folder
        try:
            yield path, os.lstat(path)
        except (OSError, ValueError):
            continue


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
