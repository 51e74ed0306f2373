"""Seeds: recorders' files from fixtures/, and trials of Harbor's with few tokens."""

import json
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
ANSWERS = ("expected.json", "case.json", "cells.json", "reference.json")
"""Files next to trials that no reader knows."""
_LISTS = ("prompt_token_ids", "completion_token_ids", "logprobs")


def files_of(run: str) -> dict[str, bytes]:
    """The files of a directory of fixtures, by POSIX path relative to it."""
    source = FIXTURES / run
    paths = sorted(p for p in source.rglob("*") if p.is_file() and p.name not in ANSWERS)
    return {p.relative_to(source).as_posix(): p.read_bytes() for p in paths}


def harbor_job(trial: str) -> dict[str, bytes]:
    """A job with one trial as Harbor wrote them, all texts and token lists cut to a few."""
    (job,) = (FIXTURES / "trials" / trial / "jobs").iterdir()
    files = {}
    for path in sorted(p for p in job.rglob("*") if p.is_file()):
        data = path.read_bytes()
        if path.suffix == ".json":
            data = json.dumps(_short(json.loads(data), {})).encode()
        files[path.relative_to(job.parent).as_posix()] = data[:4000]
    (root,) = {Path(name).parents[-3].as_posix() for name in files if name.count("/") > 1}
    files[f"{root}/verifier/reward.json"] = b'{"reward": 1.0, "format": 0.5}'
    files[f"{root}/agent/wmo-run.json"] = b'{"stop_reason": "submitted"}'
    return files


def _short(value: Any, turns: dict[str, int]) -> Any:
    """The same document of fewer words; `turns` counts the lists of each key that came before."""
    if isinstance(value, list):
        return [_short(one, turns) for one in value[:6]]
    if isinstance(value, str):
        return value[:48]
    if not isinstance(value, dict):
        return value
    short = {}
    for key, one in value.items():
        if key not in _LISTS or not isinstance(one, list):
            short[key] = _short(one, turns)
        elif one and isinstance(one[0], list):
            short[key] = [_turn(key, i) for i in range(min(5, len(one)))]
        else:
            short[key] = _turn(key, turns.get(key, 0))
            turns[key] = turns.get(key, 0) + 1
    return short


def _turn(key: str, number: int) -> list[Any]:
    """One list of turn `number` of a chat in which every prompt extends the one before."""
    if key == "prompt_token_ids":
        return list(range(100264, 100264 + 4 + 5 * number))
    first = 100264 + 4 + 5 * number
    if key == "completion_token_ids":
        return list(range(first, first + 3))
    return [-0.25 - number, -1e-05, -0.14723186194896698]


def chat_with_extras() -> bytes:
    """A result whose entry has extras, large ones and texts among them."""
    turns = range(3)
    entry = {key: [_turn(key, i) for i in turns] for key in _LISTS}
    extra = {
        "stop_reason": [None, "stop", "length"],
        "routed_experts": [[[[1, 2], [3, 4]]] * 3 for _ in turns],
        "logprobs": [[{"token": "a\u2028", "top": [1, 2.5]}] for _ in turns],
    }
    helper = {key: [_turn(key, 7)] for key in _LISTS}
    agent = {"rollout_details": [{**entry, "extra": extra}, helper], "metadata": {"n_episodes": 3}}
    result = {"id": "7", "task_name": "t", "trial_name": "a__t1", "agent_result": agent}
    return json.dumps(result, ensure_ascii=False).encode()
