"""Small trials, made in a test's own directory."""

import json
import os
import uuid
from pathlib import Path
from typing import Any


def put(path: Path, value: Any) -> Path:
    """Write a file: text as it is, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def result(name: str, **changes: Any) -> dict[str, Any]:
    """A trial result of two calls, as Harbor writes it."""
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "task_name": name.partition("__")[0],
        "trial_name": name,
        "task_checksum": "0",
        "source": None,
        "config": {"trial_name": name, "agent": {"kwargs": {"max_turns": 5}}},
        "agent_info": {"name": "terminus-2", "version": "2.0.0"},
        "agent_result": {
            "rollout_details": [
                {
                    "prompt_token_ids": [[1, 2], [1, 2, 3, 4, 5]],
                    "completion_token_ids": [[3, 4], [6]],
                    "logprobs": [[-0.1, -0.2], [-0.3]],
                }
            ],
            "metadata": {"n_episodes": 2},
        },
        "verifier_result": {"rewards": {"reward": 1.0}},
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:01:00Z",
        **changes,
    }


def make_trial(root: Path, **changes: Any) -> Path:
    """A trial directory named as the trial."""
    put(root / "result.json", result(root.name, **changes))
    return root


def make_steps(root: Path, *names: str, **changes: Any) -> Path:
    """A trial of several steps."""
    whole = result(root.name)
    step = {key: whole.pop(key) for key in ("agent_result", "verifier_result")}
    steps = [{"step_name": name, **step} for name in names]
    put(
        root / "result.json",
        {**whole, "agent_result": None, "verifier_result": None, "step_results": steps, **changes},
    )
    return root


def make_job(root: Path, *names: str, n_attempts: int = 2) -> Path:
    """A job directory with its trials."""
    put(root / "config.json", {"job_name": root.name, "n_attempts": n_attempts, "agents": []})
    put(root / "result.json", {"id": "j", "n_total_trials": len(names), "stats": {}})
    for name in names:
        make_trial(root / name)
    return root


def touch(file: Path, *, later_ns: int = 1_000_000_000) -> None:
    """Make a file newer by its time alone."""
    state = file.stat()
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns + later_ns))


def snapshot(out: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of every file below a directory."""
    return {
        file.relative_to(out).as_posix(): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(out.rglob("*"))
        if file.is_file()
    }
