"""The reward files that a verifier leaves: `reward.json`, a map of rewards, and `reward.txt`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_LONGEST_TEXT = 4096


@dataclass(frozen=True, slots=True)
class RewardFile:
    """One readable reward file; `whole` says that it speaks for every reward of the trial."""

    rewards: Mapping[str, Any]
    whole: bool


@dataclass(frozen=True, slots=True)
class RewardFiles:
    """The readable reward files, the one that Harbor prefers first; an issue an unreadable one."""

    found: tuple[RewardFile, ...] = ()
    issues: tuple[Issue, ...] = ()

    @property
    def rewards(self) -> Mapping[str, Any]:
        """The rewards of the first file that holds any."""
        return next((file.rewards for file in self.found if file.rewards), {})


def read_rewards(files: TrialFiles, verifier_dir: str) -> RewardFiles:
    """The reward files in a verifier's directory, as cross-checks of the result."""
    found = []
    issues = []
    for read in (
        _read_json(files, f"{verifier_dir}/reward.json"),
        _read_text(files, f"{verifier_dir}/reward.txt"),
    ):
        if isinstance(read, RewardFile):
            found.append(read)
        elif read is Absent.UNREADABLE:
            issues.append(Issue.REWARD_FILE_UNREADABLE)
    return RewardFiles(tuple(found), tuple(issues))


def disagrees(file: RewardFile, recorded: Mapping[str, Any]) -> bool:
    """Whether a file says other rewards than were recorded in the result."""
    if file.whole and file.rewards.keys() != recorded.keys():
        return True
    return any(
        name not in recorded or not _same(value, recorded[name])
        for name, value in file.rewards.items()
    )


def is_number(value: object) -> bool:
    """Whether a value is a JSON number; true and "1" are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _read_json(files: TrialFiles, relative: str) -> RewardFile | Absent:
    value = files.read_json(relative)
    if isinstance(value, Absent):
        return value
    return RewardFile(value, whole=True) if isinstance(value, dict) else Absent.UNREADABLE


def _read_text(files: TrialFiles, relative: str) -> RewardFile | Absent:
    data = files.read(relative, _LONGEST_TEXT + 1)
    if isinstance(data, Absent):
        return data
    if len(data) > _LONGEST_TEXT:
        return Absent.UNREADABLE
    try:
        text = data.decode("utf-8").removeprefix("\ufeff").strip()
    except UnicodeDecodeError:
        return Absent.UNREADABLE
    if not _NUMBER.fullmatch(text):
        return Absent.UNREADABLE
    return RewardFile({"reward": float(text)}, whole=False)


def _same(told: Any, recorded: Any) -> bool:
    """Equal as JSON values; a number that is not finite is written as null in a result."""
    if is_number(told) and is_number(recorded):
        return bool(told == recorded) or (told != told and recorded != recorded)
    if is_number(told) and recorded is None:
        return not abs(told) < float("inf")
    if isinstance(told, (dict, list)):  # no reward; comparing what nests deep could overflow
        return type(told) is type(recorded)
    return type(told) is type(recorded) and bool(told == recorded)
