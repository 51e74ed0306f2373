"""Which directories below the PATHs are trials, and which job each belongs to."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wmo_distill.files import Absent, TrialFiles, path_text, text_path
from wmo_distill.sources.harbor.documents import known_version, read_result
from wmo_distill.sources.harbor.serve import data_directory, read_retries, rollout_id
from wmo_distill.sources.places import common_parent, outermost, path_below, places_of, relative
from wmo_distill.tokenjson.head import Head, head_from, read_head

_AGENT_FILES = ("wmo-run.json", "terminus_2.pane", "recording.cast")
_VERIFIER_FILES = ("ctrf.json", "test-stdout.txt")
_INT32 = 2**31
_NO_HEAD = Head()


@dataclass(frozen=True, slots=True)
class Job:
    """The directory that trials share, told by the job config or job result in it."""

    name: str
    n_attempts: int | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """That `harbor serve` ran a trial; only its database says which attempt the trial repeats."""

    retry_of: str | None = None
    retries_known: bool = True
    """False without a readable database."""


@dataclass(frozen=True, slots=True)
class FoundTrial:
    """A trial directory; `path` is POSIX, relative to the parent of the PATHs.

    `trial_id` and `trial_name` are what the start of its documents says, before they are read.
    """

    root: Path
    path: str
    job: Job | None = None
    trial_id: str | None = None
    trial_name: str = ""
    served: Served | None = None

    @property
    def sort_key(self) -> bytes:
        """Paths compare as UTF-8 bytes."""
        return self.path.encode()


@dataclass(frozen=True, slots=True)
class Found:
    """The trials below the PATHs in order of path, and the directories that cannot be looked into.

    Those cannot be listed, or hold a result that cannot be opened and nothing else of a trial.
    """

    parent: Path
    trials: tuple[FoundTrial, ...]
    paths: tuple[str, ...]
    """The PATHs, relative to the parent."""
    unlisted: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        """Whether a trial's path lies under one of the PATHs, where everything could be seen."""
        return any(map(path_below, [path] * len(self.paths), self.paths)) and not any(
            path_below(path, unlisted) for unlisted in self.unlisted
        )


def discover(paths: Sequence[str | os.PathLike[str]], parent: Path | None = None) -> Found:
    """Find the trials below the PATHs; `parent` stands in for their deepest common parent.

    UsageError for a PATH that is no readable directory, or lies outside a given parent.
    """
    places = places_of(paths)
    base = common_parent(places) if parent is None else parent
    names = tuple(dict.fromkeys(relative(place, base) for place in places))
    walk = _Walk(base)
    for root in outermost(places):
        walk.search(root)
    ordered = sorted(walk.trials.values(), key=lambda trial: trial.sort_key)
    return Found(base, tuple(ordered), names, tuple(sorted(walk.unlisted)))


def found_at(root: Path, parent: Path) -> FoundTrial:
    """The trial in a directory that somebody names as one, whatever lies in it."""
    walk = _Walk(parent)
    look = walk.look(root)
    return walk.trial(root, look if look is not None else _Look())


def found_again(path: str, parent: Path, inputs: Sequence[str]) -> FoundTrial | None:
    """The trial that a search below the PATHs `inputs` finds at this path, None if there is none.

    Only the directories on the way are looked into.
    """
    walk = _Walk(parent)
    for above in inputs:
        if not path_below(path, above):
            continue
        at = "" if above == "." else above
        names = [name for name in path.removeprefix(at).split("/") if name not in ("", ".")]
        real = [str(text_path(name)) for name in names]
        if (trial := walk.descend(parent / text_path(above), real)) is not None:
            return trial
    return None


@dataclass(slots=True)
class _Look:
    """What lies in one directory."""

    folders: list[str] = field(default_factory=list)
    result: Head = _NO_HEAD
    config: Head = _NO_HEAD
    is_trial: bool = False
    is_closed: bool = False
    """Whether a file that may be a trial's result is there and cannot be opened."""

    @property
    def is_job(self) -> bool:
        return self.result.is_job_result or self.config.is_job_config


class _Walk:
    """One search; every directory is looked at once."""

    def __init__(self, parent: Path) -> None:
        self.parent = parent
        self.trials: dict[str, FoundTrial] = {}
        self.unlisted: list[str] = []
        self._jobs: dict[Path, Job | None] = {}
        self._retries: dict[Path, dict[str, str] | None] = {}

    def search(self, root: Path) -> None:
        waiting = [root]
        while waiting:
            directory = waiting.pop()
            look = self.look(directory)
            if look is None:
                self.unlisted.append(relative(directory, self.parent))
            elif look.is_trial:
                trial = self.trial(directory, look)
                self.trials[trial.path] = trial
            else:
                if look.is_closed and not look.is_job:
                    self.unlisted.append(relative(directory, self.parent))
                self._jobs[directory] = _job(directory, look)
                waiting += [directory / name for name in look.folders]

    def descend(self, directory: Path, names: Iterable[str]) -> FoundTrial | None:
        """The trial that `search` finds at the end of this way down from a PATH."""
        look = self.look(directory)
        for name in names:
            if look is None or look.is_trial or name not in look.folders:
                return None
            directory = directory / name
            look = self.look(directory)
        return None if look is None or not look.is_trial else self.trial(directory, look)

    def trial(self, root: Path, look: _Look) -> FoundTrial:
        path = relative(root, self.parent)
        name = look.result.text("trial_name") or look.config.text("trial_name")
        return FoundTrial(
            root=root,
            path=path,
            job=self._job_of(root.parent),
            trial_id=look.result.text("id") if look.result.is_trial else None,
            trial_name=name or path_text(root.name),
            served=self._served(root),
        )

    def _served(self, root: Path) -> Served | None:
        rollout = rollout_id(root)
        if rollout is None or self._job_of(root.parent) is not None:
            return None
        data = data_directory(root)
        if data not in self._retries:
            self._retries[data] = read_retries(data)
        retries = self._retries[data]
        return Served(retries_known=False) if retries is None else Served(retries.get(rollout))

    def look(self, directory: Path) -> _Look | None:
        """None where the directory cannot be listed."""
        look = _Look()
        try:
            with os.scandir(directory) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            return None
        look.folders = [name for name, is_folder in names.items() if is_folder]
        files = TrialFiles(directory)
        look.result = _head(files, names, "result.json")
        if look.result.is_trial:
            look.is_trial = True
            if look.result.text("trial_name") is None:
                look.config = _head(files, names, "config.json")
            return look
        look.config = _head(files, names, "config.json")
        if not look.is_job:
            look.is_trial = look.config.is_trial or _holds_trial_files(files, look.folders)
        if not (look.is_trial or look.result.whole or look.result.is_job_result):
            look.result = _whole_head(files) if look.result.keys else look.result
            look.is_trial = look.result.is_trial
        if not look.is_trial and names.get("result.json") is False:
            look.is_closed = files.cannot_open("result.json")
        return look

    def _job_of(self, directory: Path) -> Job | None:
        if directory not in self._jobs:
            look = self.look(directory)
            self._jobs[directory] = None if look is None else _job(directory, look)
        return self._jobs[directory]


def _head(files: TrialFiles, names: dict[str, bool], name: str) -> Head:
    if names.get(name) is not False:
        return _NO_HEAD
    head = read_head(files, name)
    return _NO_HEAD if isinstance(head, Absent) else head


def _whole_head(files: TrialFiles) -> Head:
    """The keys of the whole result: its first bytes did not show what it is."""
    read = read_result(files)
    if isinstance(read, Absent) or not isinstance(read.value, dict):
        return _NO_HEAD
    return head_from(read.value)


def _holds_trial_files(files: TrialFiles, folders: Sequence[str]) -> bool:
    """Whether an agent's or a verifier's directory holds a file that Harbor writes there."""
    for folder, known, starts in (
        ("agent", _AGENT_FILES, ("trajectory",)),
        ("verifier", _VERIFIER_FILES, ("reward.",)),
    ):
        if folder not in folders:
            continue
        for name in files.names(folder):
            place = f"{folder}/{name}"
            likely = name in known or name.startswith(starts)
            if folder == "agent" and name.startswith("trajectory") and not name.endswith(".json"):
                likely = False
            if likely and files.stat(place) is not None:
                return True
            if folder == "agent" and name.startswith("episode-") and files.is_dir(place):
                return True
    return False


def _job(directory: Path, look: _Look) -> Job | None:
    if not look.is_job:
        return None
    attempts = None
    if look.config.is_job_config:
        config = TrialFiles(directory).read_json("config.json")
        known = config if isinstance(config, dict) and known_version(config) else {}
        recorded = known.get("n_attempts")
        if type(recorded) is int and 0 < recorded < _INT32:
            attempts = recorded
    return Job(path_text(directory.name), attempts)
