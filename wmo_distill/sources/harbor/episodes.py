"""Which episodes a trial holds, and where each one's evidence is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.evidence import RewardFiles, TestsReport
from wmo_distill.sources.harbor.ctrf import read_tests
from wmo_distill.sources.harbor.documents import has_known_form, known_version, read_result
from wmo_distill.sources.harbor.rewards import read_rewards
from wmo_distill.sources.harbor.trajectory import Trajectory, read_trajectory
from wmo_distill.sources.values import at


@dataclass(frozen=True, slots=True)
class TrialDocuments:
    """What the trial's own documents say, before any episode is looked at."""

    files: TrialFiles
    result: dict[str, Any] | None
    config: dict[str, Any] | None
    name: str
    issues: tuple[Issue, ...]
    slow_reads: int


@dataclass(frozen=True, slots=True)
class EpisodePlace:
    """One episode's place in the result and in the directory."""

    recorded: Any
    """The result itself, or an element of step_results."""
    step_name: str | None = None
    step_index: int | None = None
    root: str = ""
    """Directory of its agent/ and verifier/, relative to the trial's."""
    exceptions: tuple[Any, ...] = ()

    def directory(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root else name


class WhatFilesSay(NamedTuple):
    """What the files in the directory of an episode say."""

    trajectory: Trajectory
    rewards: RewardFiles
    tests: TestsReport


@dataclass(frozen=True, slots=True)
class EpisodeFiles:
    """The same by place: of a directory that several steps name it is read once and kept."""

    files: TrialFiles
    named: Mapping[str, int]
    known: dict[str, WhatFilesSay] = field(default_factory=dict)

    def at(self, place: EpisodePlace) -> WhatFilesSay:
        found = self.known.get(place.root)
        if found is None:
            verifier = place.directory("verifier")
            found = WhatFilesSay(
                read_trajectory(self.files, place.directory("agent"), unread=True),
                read_rewards(self.files, verifier),
                read_tests(self.files, verifier),
            )
            if self.named[place.root] > 1:
                self.known[place.root] = found
        return found


def read_documents(files: TrialFiles, *, extra: bool) -> TrialDocuments:
    """The documents of a trial, with the text of large extras where they are wanted."""
    read = read_result(files, extra=extra)
    issues: list[Issue] = []
    result: dict[str, Any] | None = None
    slow = 0
    if isinstance(read, Absent):
        missing = read is Absent.MISSING
        issues.append(Issue.RESULT_MISSING if missing else Issue.RESULT_UNREADABLE)
    elif not isinstance(read.value, dict) or "trial_name" not in read.value:
        issues.append(Issue.RESULT_UNREADABLE)
    elif not has_known_form(read.value):
        issues.append(Issue.RESULT_VERSION_UNKNOWN)
    else:
        result, slow = read.value, read.slow
        if result.get("finished_at") is None:
            issues.append(Issue.RESULT_UNFINISHED)
    config = at(result, "config")
    if not isinstance(config, dict):
        config = files.read_json("config.json")
        if not known_version(config):
            config = None
            if Issue.RESULT_VERSION_UNKNOWN not in issues:
                issues.append(Issue.RESULT_VERSION_UNKNOWN)
    if not isinstance(config, dict):
        config = None
        issues.append(Issue.CONFIG_UNREADABLE)
    names = [at(document, "trial_name") for document in (result, config)]
    name = next((x for x in names if isinstance(x, str) and x), files.root.name)
    return TrialDocuments(files, result, config, name, tuple(issues), int(slow))


def step_root(step_name: str | None) -> str:
    """Where the files of a step are, relative to its trial; those of a whole trial at its root."""
    return "" if step_name is None else f"steps/{step_name}"


def episode_places(trial: TrialDocuments) -> list[EpisodePlace]:
    """The episodes in recorded order; one without a step where no step is recorded."""
    result = trial.result
    steps = at(result, "step_results")
    recorded = [s for s in steps if isinstance(s, dict)] if isinstance(steps, list) else []
    whole = EpisodePlace(result, exceptions=(at(result, "exception_info"),))
    if not recorded or isinstance(at(result, "agent_result"), dict):
        return [whole]
    episodes = []
    for index, step in enumerate(recorded):
        name = step.get("step_name")
        name = name if isinstance(name, str) and name else None
        root = step_root(name)
        exceptions = [step.get("exception_info")]
        if _is_interrupted(step) and index == len(recorded) - 1:
            exceptions.append(at(result, "exception_info"))
            if not trial.files.is_dir(f"{root}/agent") and trial.files.is_dir("agent"):
                root = ""
        episodes.append(EpisodePlace(step, name, index, root, tuple(exceptions)))
    return episodes


def place_issues(trial: TrialDocuments, episode: EpisodePlace) -> list[Issue]:
    """What is wrong with the way the episodes are recorded; stated once a trial."""
    if episode.step_index not in (None, 0):
        return []
    steps = at(trial.result, "step_results")
    issues = []
    if isinstance(steps, list):
        issues += [Issue.STEP_DAMAGED for step in steps if not isinstance(step, dict)]
        if steps and isinstance(at(trial.result, "agent_result"), dict):
            issues.append(Issue.AGENT_RESULT_BESIDE_STEPS)
    elif steps is not None:
        issues.append(Issue.STEP_DAMAGED)
    if episode.step_index is not None and _cut_short(trial.result):
        issues.append(Issue.STEPS_CUT_SHORT)
    if episode.step_index is None and trial.files.is_dir("steps"):
        issues.append(Issue.STEPS_NOT_RECORDED)
    return issues


def _is_interrupted(step: Mapping[str, Any]) -> bool:
    """Whether the trial's exception belongs to this step, if it is the last."""
    return not step.get("exception_info") and step.get("verifier_result") is None


def _cut_short(result: Any) -> bool:
    """Whether an exception ended the trial between two steps, or after the last recorded one."""
    raised = at(result, "exception_info", "exception_type")
    recorded = [step for step in at(result, "step_results") or () if isinstance(step, dict)]
    return isinstance(raised, str) and bool(recorded) and not _is_interrupted(recorded[-1])
