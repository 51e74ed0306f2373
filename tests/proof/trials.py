"""Chats written as Harbor writes trials, and as a token recorder writes sinks."""

import json
import uuid
from pathlib import Path
from typing import Any

from tests.proof.chats import Turn


def write_trial(job: Path, number: int, turns: list[Turn], **more: Any) -> Path:
    """A trial directory. A turn that sampled nothing leaves no entry, as Harbor has it."""
    name = f"task-{number // 4}__{number:07d}"
    trial = job / name
    (trial / "agent").mkdir(parents=True)
    agent = {"name": "terminus-2", "version": "2.0.0"}
    config = {
        "task": {"path": f"tasks/task-{number // 4}"},
        "trial_name": name,
        "agent": {**agent, "model_name": "lab/student", "kwargs": {"temperature": 1.0}},
    }
    said = [turn for turn in turns if turn.sampled]
    reward = float(number % 2)
    result = {
        "id": str(uuid.uuid5(uuid.NAMESPACE_URL, name)),
        "task_name": f"lab/task-{number // 4}",
        "trial_name": name,
        "task_checksum": "0",
        "config": config,
        "agent_info": {**agent, "model_info": {"name": "student", "provider": "lab"}},
        "agent_result": {
            "rollout_details": [
                {
                    "prompt_token_ids": [turn.prompt for turn in turns],
                    "completion_token_ids": [turn.sampled for turn in said],
                    "logprobs": [turn.logprobs for turn in said],
                    **more,
                }
            ],
            "metadata": {"n_episodes": len(turns)},
        },
        "verifier_result": {"rewards": {"reward": reward}},
        "exception_info": None,
        "started_at": f"2026-01-01T00:00:{number % 60:02d}Z",
        "finished_at": "2026-01-01T01:00:00Z",
        "step_results": None,
        "reward_valid": True,
    }
    _put(trial / "config.json", config)
    _put(trial / "agent/trajectory.json", _trajectory(turns))
    _put(trial / "result.json", result)
    return trial


def _trajectory(turns: list[Turn]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "begin"}]
    for number, turn in enumerate(turns):
        metrics: dict[str, Any] = {"prompt_token_ids": turn.prompt}
        metrics["completion_tokens"] = len(turn.sampled)
        if turn.sampled:
            metrics |= {"completion_token_ids": turn.sampled, "logprobs": turn.logprobs}
        steps.append(
            {
                "step_id": number + 2,
                "source": "agent",
                "message": "Analysis: said",
                "tool_calls": [],
                "observation": {"results": [{"content": "seen"}]},
                "metrics": metrics,
            }
        )
    return {"schema_version": "ATIF-v1.8", "session_id": "s", "agent": {}, "steps": steps}


def write_sink(sinks: Path, trial: Path, turns: list[Turn]) -> None:
    """One line a call, in a file named as the trial."""
    sinks.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "call_index": number,
            "prompt_token_ids": turn.prompt,
            "sampled_token_ids": turn.sampled,
            "sampled_logprobs": turn.logprobs,
        }
        for number, turn in enumerate(turns)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (sinks / f"{trial.name}.jsonl").write_text(text)


def _put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4))
