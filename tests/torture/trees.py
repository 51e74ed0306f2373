"""Small directories of trials, one for every source, that reading faults are put into."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
Tree = Callable[[Path], dict[str, Path]]
"""Makes a tree in a directory; gives options of the build."""
_SERVED = ("a0bd2fed-233a-4a3e-a5a8-49dfd1116d03", "b0bd2fed-233a-4a3e-a5a8-49dfd1116d03")


def _trial(name: str) -> Path:
    return next((FIXTURES / "trials" / name).glob("jobs/*/*__*"))


def _job(place: Path, *trials: str) -> None:
    job = place / "job"
    for name in trials:
        shutil.copytree(_trial(name), job / _trial(name).name)
    config = {"job_name": "job", "n_attempts": 4, "jobs_dir": "jobs"}
    (job / "config.json").write_text(json.dumps(config))
    (job / "result.json").write_text(json.dumps({"n_total_trials": len(trials), "stats": {}}))


def harbor(place: Path) -> dict[str, Path]:
    """A job with a summarized chat, one of several steps, and one without a result."""
    _job(place, "06b-summarize-reactive-context-error", "11e-multistep-step-timeout",
         "16c-killed-sigkill")  # fmt: skip
    return {}


def sinks(place: Path) -> dict[str, Path]:
    """A trial whose tokens are in a sink; sinks are outside the trials."""
    _job(place, "12-no-rollout-details")
    name = _trial("12-no-rollout-details").name
    line = {"call_index": 0, "prompt_token_ids": [1, 2], "sampled_token_ids": [3],
            "sampled_logprobs": [-0.5]}  # fmt: skip
    (place / "sinks").mkdir()
    (place / "sinks" / f"{name}.jsonl").write_text(json.dumps(line) + "\n")
    return {"sinks": place / "sinks"}


def cells(place: Path) -> dict[str, Path]:
    """Two trials, one of them graded by a cell."""
    _job(place, "01-solved", "13-env-start-error")
    cell = {"task_id": "t", "attempt": 1, "reward": 0.5, "passed": False,
            "artifact_dir": f"job/{_trial('01-solved').name}"}  # fmt: skip
    (place / "cells.json").write_text(json.dumps([cell]))
    return {"cells": place / "cells.json"}


def served(place: Path) -> dict[str, Path]:
    """An attempt and its retry of `harbor serve`, with the server's database."""
    for rollout in _SERVED:
        trial = place / "files" / "rollouts" / rollout / "t__1"
        shutil.copytree(_trial("13-env-start-error"), trial)
        result = json.loads((trial / "result.json").read_text())
        (trial / "result.json").write_text(json.dumps({**result, "id": rollout}))
    with closing(sqlite3.connect(place / "harbor.sqlite3")) as connection:
        connection.execute("CREATE TABLE internal_rollout (id TEXT, retry_of TEXT)")
        connection.execute("INSERT INTO internal_rollout VALUES (?, ?)", _SERVED[::-1])
        connection.commit()
    return {}


def _recorded(*runs: str) -> Tree:
    def make(place: Path) -> dict[str, Path]:
        for run in runs:
            to = place / run.replace("/", "-")
            source = FIXTURES / "recorders" / run
            shutil.copytree(source, to, ignore=shutil.ignore_patterns("expected.json"))
        return {}

    return make


TREES: dict[str, Tree] = {
    "harbor": harbor,
    "sinks": sinks,
    "cells": cells,
    "served": served,
    "verifiers": _recorded("verifiers/0.2.1-api", "verifiers/v0-errors"),
    "nemo_gym": _recorded("nemo-gym/failed", "nemo-gym/native"),
    "tinker": _recorded("tinker-capture/jsonl-group", "tinker-capture/store-samples"),
    "rllm": _recorded("rllm-gateway/git-version", "rllm-gateway/git-open"),
    "openenv": _recorded("openenv-capture/multi"),
    "agentlightning": _recorded("agentlightning-events/group"),
}
