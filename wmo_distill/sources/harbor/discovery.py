"""Which directories are trials of Harbor's, and which job each belongs to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from wmo_distill.errors import ReadFault
from wmo_distill.files import Absent, TrialFiles, path_text
from wmo_distill.limits import TooLarge
from wmo_distill.sources.base import Folder, FoundTrial, Here, listed
from wmo_distill.sources.harbor.documents import known_version, read_result
from wmo_distill.sources.harbor.serve import data_directory, read_retries, rollout_id
from wmo_distill.tokenjson.head import Head, head_from, read_head

_AGENT_FILES = ("wmo-run.json", "terminus_2.pane", "recording.cast")
_VERIFIER_FILES = ("ctrf.json", "test-stdout.txt")
_JOB_FILES = frozenset(("result.json", "config.json", "lock.json", "job.log"))
_INT32 = 2**31
_NO_HEAD = Head()


@dataclass(frozen=True, slots=True)
class Job:
    """The directory that trials share, known by the job config or job result in it."""

    name: str
    n_attempts: int | None = None
    fault: str = ""
    """What of its own files could not be read: then nobody knows whether it is one."""


@dataclass(frozen=True, slots=True)
class Served:
    """That `harbor serve` ran a trial; only its database says which attempt the trial repeats."""

    retry_of: str | None = None
    retries_known: bool = True
    """False without a readable database."""
    fault: str = ""
    """Why a database that is there could not be read."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is next to a trial's directory and belongs to it: its locator."""

    job: Job | None = None
    served: Served | None = None


def surroundings(found: FoundTrial) -> Surroundings:
    """The locator of a trial that this source found."""
    return found.locator if isinstance(found.locator, Surroundings) else Surroundings()


@dataclass(slots=True)
class _Look:
    """What one directory holds; a fault is what could not be read of a file."""

    result: Head = _NO_HEAD
    config: Head = _NO_HEAD
    is_trial: bool = False
    result_fault: str = ""
    config_fault: str = ""

    @property
    def is_job(self) -> bool:
        return self.result.is_job_result or self.config.is_job_config

    @property
    def fault(self) -> str:
        """What leaves open what the directory is, or the id and name of its trial."""
        return "" if self.is_job else self.result_fault or self.config_fault

    @property
    def job_fault(self) -> str:
        """What leaves open whether it is a job, and how many attempts that has."""
        return "" if self.config.is_job_config else self.config_fault or self.fault


@dataclass(slots=True)
class Discovery:
    """One search; what is shared by trials is read once."""

    _jobs: dict[Path, Job | None] = field(default_factory=dict)
    _retries: dict[Path, Served | dict[str, str]] = field(default_factory=dict)

    def find(self, folder: Folder) -> Here:
        """The directory as a trial; nothing below a trial is searched."""
        look = _look(folder)
        if look.is_trial:
            return Here((self.trial(folder.path, folder.relative, look),), whole=True)
        self._jobs[folder.path] = _job(folder.path, look)
        taken = _JOB_FILES if look.is_job else frozenset[str]()
        return Here(taken=taken, faults=(look.fault,) if look.fault else ())

    def trial(self, root: Path, path: str, look: _Look | None = None) -> FoundTrial:
        """The trial in a directory; without a `look` one that somebody names as a trial."""
        if look is None:
            folder = listed(root, path)
            look = _Look() if folder is None else _look(folder)
        name = look.result.text("trial_name") or look.config.text("trial_name")
        job, served = self._job_of(root.parent), self._served(root)
        near = [one.fault for one in (job, served) if one is not None]
        return FoundTrial(
            source="harbor",
            root=root,
            path=path,
            trial_id=look.result.text("id") if look.result.is_trial else None,
            trial_name=name or path_text(root.name),
            locator=Surroundings(job, served),
            fault=next(filter(None, [look.fault, *near]), ""),
        )

    def _served(self, root: Path) -> Served | None:
        rollout = rollout_id(root)
        if rollout is None or self._job_of(root.parent) is not None:
            return None
        data = data_directory(root)
        if data not in self._retries:
            self._retries[data] = _retries_in(data)
        retries = self._retries[data]
        return retries if isinstance(retries, Served) else Served(retries.get(rollout))

    def _job_of(self, directory: Path) -> Job | None:
        if directory not in self._jobs:
            # By the names alone: a directory above the PATHs may be one that cannot be listed.
            look = _look(Folder(directory, "", _JOB_FILES))
            self._jobs[directory] = _job(directory, look)
        return self._jobs[directory]


def _look(folder: Folder) -> _Look:
    look = _Look()
    files = TrialFiles(folder.path)
    look.result, look.result_fault = _head(files, folder, "result.json")
    look.is_trial = look.result.is_trial
    if look.result.text("trial_name") is None:
        look.config, look.config_fault = _head(files, folder, "config.json")
    try:
        if not (look.is_trial or look.is_job):
            look.is_trial = look.config.is_trial or _holds_trial_files(files, folder.folders)
        if not (look.is_trial or look.result.whole or look.result.is_job_result):
            look.result = _whole_head(files) if look.result.keys else look.result
            look.is_trial = look.result.is_trial
    except (ReadFault, TooLarge) as fault:
        look.result_fault = str(fault)
    return look


def _head(files: TrialFiles, folder: Folder, name: str) -> tuple[Head, str]:
    """(the head, what could not be read)."""
    if name not in folder.files:
        return _NO_HEAD, ""
    try:
        head = read_head(files, name)
    except ReadFault as fault:
        return _NO_HEAD, str(fault)
    return (_NO_HEAD if isinstance(head, Absent) else head), ""


def _retries_in(data: Path) -> Served | dict[str, str]:
    """The retries of a server, or what is said of all its trials without them."""
    try:
        retries = read_retries(data)
    except ReadFault as fault:
        return Served(retries_known=False, fault=str(fault))
    return Served(retries_known=False) if retries is None else retries


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
    fault = look.job_fault
    if not (look.is_job or fault):
        return None
    attempts = config = None
    if look.config.is_job_config:
        try:
            with suppress(TooLarge):
                config = TrialFiles(directory).read_json("config.json")
        except ReadFault as error:
            config, fault = None, str(error)
        known = config if isinstance(config, dict) and known_version(config) else {}
        recorded = known.get("n_attempts")
        if type(recorded) is int and 0 < recorded < _INT32:
            attempts = recorded
    return Job(path_text(directory.name), attempts, fault)
