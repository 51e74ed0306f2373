"""Reward files are cross-checks: what cannot be read is an issue, never a reward."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmo_distill.files import TrialFiles
from wmo_distill.issues import Issue
from wmo_distill.sources.evidence import RewardFiles
from wmo_distill.sources.harbor.rewards import read_rewards
from wmo_distill.trials.grade import disagrees


def read(folder: Path, **data: bytes) -> RewardFiles:
    (folder / "verifier").mkdir(exist_ok=True)
    for suffix, content in data.items():
        (folder / "verifier" / f"reward.{suffix}").write_bytes(content)
    return read_rewards(TrialFiles(folder), "verifier")


@given(txt=st.binary(max_size=40), data=st.binary(max_size=40))
def test_any_bytes_give_files_or_issues(
    txt: bytes, data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    got = read(tmp_path_factory.mktemp("trial"), txt=txt, json=data)
    assert len(got.found) + len(got.issues) == 2
    assert set(got.issues) <= {Issue.REWARD_FILE_UNREADABLE}


@given(rewards=st.dictionaries(st.text(max_size=3), st.floats() | st.integers(), max_size=4))
def test_a_file_never_disagrees_with_the_result_harbor_writes_from_it(
    rewards: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = read(tmp_path_factory.mktemp("trial"), json=json.dumps(rewards).encode()).found[0]
    # a number that is not finite becomes null in a result
    result = {k: v if isinstance(v, int) or math.isfinite(v) else None for k, v in rewards.items()}
    assert not disagrees(file, result)
    assert disagrees(file, {**result, "another": 1.0})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"1", 1.0),
        (b"1.0 \r\n", 1.0),
        (b"\n0.7333\n", 0.7333),
        (b"\xef\xbb\xbf0.5", 0.5),
        (b"1e400", math.inf),
        (b"-inf", -math.inf),
        (b".5", 0.5),
    ],
)
def test_reward_text(text: bytes, expected: float, tmp_path: Path) -> None:
    assert read(tmp_path, txt=text).rewards == {"reward": expected}


def test_reward_text_nan_agrees_with_null_alone(tmp_path: Path) -> None:
    file = read(tmp_path, txt=b"nan\n").found[0]
    assert math.isnan(file.rewards["reward"])
    assert not disagrees(file, {"reward": None})
    assert disagrees(file, {"reward": 0.0})


@pytest.mark.parametrize(
    "text",
    [b"", b" \n", b"1_0", b"0x1", b"true", b"1.0 0.0", "\u0661".encode(), b"\xff", b"0" * 5000],
)
def test_reward_text_that_is_no_number(text: bytes, tmp_path: Path) -> None:
    assert read(tmp_path, txt=text) == RewardFiles((), (Issue.REWARD_FILE_UNREADABLE,))


@pytest.mark.parametrize("data", [b"", b"1", b'{"reward": 1', b"[1]", b"null", b'{"a": "\xe9"}'])
def test_reward_json_that_is_no_object(data: bytes, tmp_path: Path) -> None:
    assert read(tmp_path, json=data) == RewardFiles((), (Issue.REWARD_FILE_UNREADABLE,))


def test_of_duplicate_keys_the_last_wins(tmp_path: Path) -> None:
    assert read(tmp_path, json=b'{"reward": 0, "reward": 1}').rewards == {"reward": 1}


def test_json_is_preferred_and_text_is_used_without_it(tmp_path: Path) -> None:
    assert read(tmp_path, txt=b"0", json=b'{"reward": 1}').rewards == {"reward": 1}
    got = read(tmp_path, txt=b"0", json=b'{"reward":')
    assert got.rewards == {"reward": 0.0}
    assert got.issues == (Issue.REWARD_FILE_UNREADABLE,)


def test_missing_files_are_no_issue_and_links_are_not_followed(tmp_path: Path) -> None:
    assert read_rewards(TrialFiles(tmp_path), "verifier") == RewardFiles()
    outside = tmp_path / "outside"
    outside.write_text("1")
    (tmp_path / "verifier").mkdir()
    (tmp_path / "verifier" / "reward.txt").symlink_to(outside)
    got = read_rewards(TrialFiles(tmp_path), "verifier")
    assert got == RewardFiles((), (Issue.REWARD_FILE_UNREADABLE,))


@pytest.mark.parametrize(
    ("file", "result", "differs"),
    [
        ('{"reward": 1}', {"reward": 1.0}, False),
        ('{"reward": true}', {"reward": 1.0}, True),
        ('{"reward": "1"}', {"reward": "1"}, False),
        ('{"reward": 1, "extra": 0}', {"reward": 1}, True),
        ('{"extra": ' + "[" * 400 + "]" * 400 + "}", {"extra": [1]}, False),
    ],
)
def test_what_a_json_file_must_agree_in(
    file: str, result: dict[str, Any], differs: bool, tmp_path: Path
) -> None:
    assert disagrees(read(tmp_path, json=file.encode()).found[0], result) is differs


def test_text_speaks_for_one_key_alone(tmp_path: Path) -> None:
    file = read(tmp_path, txt=b"0.5").found[0]
    assert not disagrees(file, {"reward": 0.5, "tests_passed": 2})
    assert disagrees(file, {"accuracy": 0.5})
