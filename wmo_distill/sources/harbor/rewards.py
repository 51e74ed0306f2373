"""The reward files that a verifier leaves: `reward.json`, a map of rewards, and `reward.txt`."""

import re

from wmo_distill.files import Absent, TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.evidence import RewardFile, RewardFiles

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_LONGEST_TEXT = 4096


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
