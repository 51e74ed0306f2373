"""Forms that Harbor and others give a result: what is read fast, and what is left unread."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.sources.test_documents import check
from wmo_distill.files import Absent, TrialFiles
from wmo_distill.sources.harbor import documents
from wmo_distill.tokenjson import numbers
from wmo_distill.tokenjson.rows import UNREAD_IDS, UNREAD_LOGPROBS, whole_row

LISTS = '"prompt_token_ids": %s, "completion_token_ids": [[3]], "logprobs": [[-0.5]]'


RESULT = '{"agent_result": {"rollout_details": [{' + LISTS + "}]}}"


@pytest.mark.parametrize(
    "prompts",
    [
        "[[1, 2], [1, 23]]",  # the shared text ends inside a number
        "[[1, 2], [1, 2.0]]",
        "[[1, 2], [1, 2e1]]",
        "[[1, 2], [1, 2 3]]",  # no comma
        "[[1, 2], [1, 2,]]",
        "[[1, 2], [1, 2,,3]]",
        "[[1, , 2]]",
        "[[1, 2], [1, 2, , 3]]",
        "[[ , 1]]",
        "[[1, 2], [1,\t2]]",  # the same ids, other white space
        "[[1, 2] , [1, 2 ] ]",
        "[[1, 2][1, 2]]",
        "[[1, 2], [01, 2]]",
        "[[1, 0], [1, 0, 00]]",
        "[[], [1], [], [1, 2]]",
        "[[1, 2], null, [1, 2]]",
        "[[1, 2], [1, [2]]]",
        "[[1, 2], [1, -0]]",
        "[[-1, 2], [-1, 2, 3]]",
        "[[2147483647, 2], [2147483648, 2]]",
        "[[99999999999999999999, 2], [1]]",
        '[[1, 2], ["]", 2]]',
        "[1, 2]",
        "[]",
        "[[1 2]]",
        "[[1,\n  2,\n  3], [1,\n  2,\n 3]]",
    ],
)
@pytest.mark.parametrize("window", [32, 64, 1 << 16])
def test_prompts(prompts: str, window: int, tmp_path: Path) -> None:
    check((RESULT % prompts).encode(), "result", tmp_path, window)


@pytest.mark.parametrize(
    "text",
    [
        # the last of duplicate keys wins
        RESULT[:-4] % "[[1]]" + ', "prompt_token_ids": [[7]]}]}}',
        '{"agent_result": {"rollout_details": [{}]}, "agent_result": {"rollout_details": []}}',
        # keys inside strings and as values
        RESULT % '"\\"prompt_token_ids\\": [[1]]"',
        '{"a": "prompt_token_ids", "b": ["logprobs", [1]]}',
        '{"\\"prompt_token_ids": [[1]]}',
        '{"prompt\\u005ftoken_ids": [[1]]}',
        RESULT.replace("prompt_token", "prompt\\u005ftoken") % "[[1]]",
    ],
)
def test_keys(text: str, tmp_path: Path) -> None:
    check(text.encode(), "result", tmp_path)


def test_harbor_form_is_read_fast(tmp_path: Path) -> None:
    """Documents as Harbor writes them never take the plain path."""
    rows = [list(range(n)) for n in (3, 50, 400)]
    entry = {
        "prompt_token_ids": rows,
        "completion_token_ids": [[1], [2], [3]],
        "logprobs": [[-0.5], [-1e-5], [float("nan")]],
    }
    result = json.dumps({"agent_result": {"rollout_details": [entry]}}, indent=4)
    assert check(result.encode(), "result", tmp_path, 64)
    metrics = [
        {"prompt_token_ids": row, "completion_token_ids": [1], "logprobs": [-1]} for row in rows
    ]
    trajectory = json.dumps({"steps": [{"metrics": m} for m in metrics]}, indent=2)
    assert check(trajectory.encode(), "trajectory", tmp_path, 64)


def test_a_list_may_begin_anywhere_in_the_window(tmp_path: Path) -> None:
    """What is at the window's edge makes no document slow."""
    entry = {"prompt_token_ids": [[1, 2], [1, 2, 3]], "completion_token_ids": [[3], [4]]}
    entry["logprobs"] = [[-0.5], [-1.5]]
    result = json.dumps({"agent_result": {"rollout_details": [entry]}}, indent=4).encode()
    metrics = [{key: rows[k] for key, rows in entry.items()} for k in range(2)]
    trajectory = json.dumps({"steps": [{"metrics": m} for m in metrics]}).encode()
    for window in range(32, 160):
        assert check(result, "result", tmp_path, window)
        assert check(trajectory, "trajectory", tmp_path, window)


@pytest.mark.skipif(numbers.simdjson is None, reason="needs simdjson")
def test_numbers_that_are_not_asked_for_stay_unread(tmp_path: Path) -> None:
    """But for the first prompt, which tells whose chat it is."""
    rows = [[5, 6], [5, 6, 7], [5, 6, 7, 8]]
    metrics = [
        {"prompt_token_ids": row, "completion_token_ids": [1], "logprobs": [-1.0]} for row in rows
    ]
    (tmp_path / "x.json").write_text(json.dumps({"steps": [{"metrics": m} for m in metrics]}))
    read = documents.read_trajectory_file(TrialFiles(tmp_path), "x.json", unread=True)
    assert not isinstance(read, Absent)
    steps = [step["metrics"] for step in read.value["steps"]]
    assert whole_row(steps[0]["prompt_token_ids"]).tolist() == [5, 6]
    assert all(step["prompt_token_ids"] is UNREAD_IDS for step in steps[1:])
    assert all(step["completion_token_ids"] is UNREAD_IDS for step in steps)
    assert all(step["logprobs"] is UNREAD_LOGPROBS for step in steps)


def test_shared_ids_are_not_parsed_again(tmp_path: Path) -> None:
    """A row holds what is new, not the history."""
    rows = [list(range(n)) for n in (5, 9, 9)]
    data = json.dumps({"agent_result": {"rollout_details": [{"prompt_token_ids": rows}]}}, indent=4)
    (tmp_path / "x.json").write_text(data)
    read = documents.read_result(TrialFiles(tmp_path), "x.json")
    assert not isinstance(read, Absent)
    got = read.value["agent_result"]["rollout_details"][0]["prompt_token_ids"]
    assert [(row.shared, row.delta.tolist()) for row in got] == [
        (0, [0, 1, 2, 3, 4]),
        (5, [5, 6, 7, 8]),
        (9, []),
    ]
    assert np.array_equal(whole_row(got[2]), np.arange(9))
