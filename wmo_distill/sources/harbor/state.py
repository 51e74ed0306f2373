"""Size and time of the files that a build may read for a trial: how a second run knows a change."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from wmo_distill.disk import asked
from wmo_distill.files import FilesState, TrialFiles, path_text, sum_of
from wmo_distill.sources.base import FoundTrial
from wmo_distill.sources.sink import sink_path

_ROOT_FILES = ("result.json", "config.json", "wmo-run.json")
_VERIFIER_FILES = ("reward.txt", "reward.json", "ctrf.json")
_DEEPEST_STEP = 8


def trial_state(found: FoundTrial, sinks: Path | None = None) -> FilesState:
    """The state of the trial's own files and of its sinks; the job's files are not among them."""
    return sum_of(file for file in _files(found, sinks) if stat.S_ISREG(file.st_mode))


def unused_sinks(sinks: Path, trial_names: set[str]) -> Iterator[str]:
    """The sink files that belong to no trial of these names, relative to `sinks`, in order."""
    files = TrialFiles(sinks)
    for name in files.names():
        if name.endswith(".jsonl") and files.stat(name) is not None:
            if name.removesuffix(".jsonl") not in trial_names:
                yield path_text(name)
        elif name not in trial_names:
            for step in files.names(name):
                if step.endswith(".jsonl") and files.stat(f"{name}/{step}") is not None:
                    yield path_text(f"{name}/{step}")


def _files(found: FoundTrial, sinks: Path | None) -> Iterator[os.stat_result]:
    root = os.fspath(found.root)
    yield from _named(root, _ROOT_FILES)
    yield from _agent_and_verifier(root)
    yield from _steps(f"{root}/steps", _DEEPEST_STEP)
    if sinks is None:
        return
    # A result that turns out to be unreadable leaves the directory's name.
    for trial_name in dict.fromkeys((found.trial_name, found.root.name)):
        if (whole := sink_path(trial_name)) is not None:
            yield from _sinks(TrialFiles(sinks), whole)


def _sinks(files: TrialFiles, whole: str) -> Iterator[os.stat_result]:
    """The sink of a trial and those of its steps."""
    folder = whole.removesuffix(".jsonl")
    steps = [f"{folder}/{name}" for name in files.names(folder) if name.endswith(".jsonl")]
    for name in (whole, *steps):
        state = files.stat(name)
        if state is not None:
            yield state


def _agent_and_verifier(root: str) -> Iterator[os.stat_result]:
    # A trajectory may be continued in any file next to it.
    agent = f"{root}/agent"
    yield from _named(agent, [name for name in _names(agent) if name.endswith(".json")])
    verifier = f"{root}/verifier"
    if _is_folder(verifier):
        yield from _named(verifier, _VERIFIER_FILES)


def _steps(folder: str, depth: int) -> Iterator[os.stat_result]:
    """The files of every step; the name of a step may hold slashes."""
    for name in _names(folder) if depth else ():
        step = f"{folder}/{name}"
        if _is_folder(step) and _may_be_step(step, name, depth):
            yield from _named(step, ("wmo-run.json",))
            yield from _agent_and_verifier(step)
            yield from _steps(step, depth - 1)


def _may_be_step(folder: str, name: str, depth: int) -> bool:
    """Whether a folder is a step's; in a step `agent` is the agent's, unless it has its own."""
    if depth == _DEEPEST_STEP or name not in ("agent", "verifier"):
        return True
    return any(_is_folder(f"{folder}/{own}") for own in ("agent", "verifier"))


def _names(folder: str) -> list[str]:
    return (asked(os.listdir, folder) or []) if _is_folder(folder) else []


def _named(folder: str, names: Iterable[str]) -> Iterator[os.stat_result]:
    for name in names:
        state = asked(os.lstat, f"{folder}/{name}")
        if state is not None:
            yield state


def _is_folder(path: str) -> bool:
    state = asked(os.lstat, path)
    return state is not None and stat.S_ISDIR(state.st_mode)
