"""Episodes of the toy environment written as Harbor writes trials."""

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.train.toy import Episode, text

AGENT = {"name": "terminus-2", "version": "2.0.0"}
_JOB = uuid.NAMESPACE_URL


def write_job(job: Path, episodes: Sequence[Episode], attempts: int) -> None:
    """A job directory with a trial directory for each episode."""
    job.mkdir(parents=True)
    for episode in episodes:
        name = f"{episode.task.name}__{episode.attempt:07d}"
        _write_trial(job, name, episode)
    _put(job / "config.json", {"job_name": job.name, "n_attempts": attempts, "agents": [AGENT]})
    _put(
        job / "result.json",
        {"id": str(_id(job.name)), "n_total_trials": len(episodes), "stats": {}},
    )


def _write_trial(job: Path, name: str, episode: Episode) -> None:
    trial = job / name
    (trial / "agent").mkdir(parents=True)
    (trial / "verifier").mkdir()
    turns = len(episode.calls)
    config = {
        "task": {"path": f"tasks/{episode.task.name}"},
        "trial_name": name,
        "agent": {
            "name": AGENT["name"],
            "model_name": "toy/student",
            "kwargs": {
                "temperature": 1.0,
                "collect_rollout_details": True,
                "max_turns": turns,
            },
        },
        "job_id": str(_id(job.name)),
    }
    result = {
        "id": str(_id(f"{job.name}/{name}")),
        "task_name": f"toy/{episode.task.name}",
        "trial_name": name,
        "task_id": {"path": f"tasks/{episode.task.name}"},
        "source": None,
        "task_checksum": "0",
        "config": config,
        "agent_info": {**AGENT, "model_info": {"name": "student", "provider": "toy"}},
        "agent_result": {
            "n_output_tokens": episode.sampled_tokens,
            "rollout_details": [
                {
                    "prompt_token_ids": [call.prompt for call in episode.calls],
                    "completion_token_ids": [call.sampled.ids for call in episode.calls],
                    "logprobs": [call.sampled.logprobs for call in episode.calls],
                }
            ],
            "metadata": {"n_episodes": turns, "summarization_count": 0},
        },
        "verifier_result": {"rewards": {"reward": episode.reward}},
        "exception_info": None,
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:00:01Z",
        "step_results": None,
        "reward_valid": True,
    }
    _put(trial / "config.json", config)
    _put(trial / "agent/trajectory.json", _trajectory(name, episode))
    (trial / "verifier/reward.txt").write_text(f"{episode.reward}\n")
    _put(trial / "result.json", result)


def _trajectory(name: str, episode: Episode) -> dict[str, Any]:
    """ATIF: the first prompt, and then a step for each turn."""
    steps: list[dict[str, Any]] = [
        {"step_id": 1, "source": "user", "message": text(episode.calls[0].prompt)}
    ]
    for number, call in enumerate(episode.calls):
        said = {"keystrokes": text(call.sampled.ids), "duration": 0.1}
        seen = "RIGHT" if call.right else "WRONG"
        steps.append(
            {
                "step_id": number + 2,
                "source": "agent",
                "message": text(call.sampled.ids),
                "tool_calls": [
                    {
                        "tool_call_id": f"call_{number}_1",
                        "function_name": "bash_command",
                        "arguments": said,
                    }
                ],
                "observation": {"results": [{"content": seen}]},
                "metrics": {
                    "prompt_tokens": len(call.prompt),
                    "completion_tokens": len(call.sampled.ids),
                    "prompt_token_ids": call.prompt,
                    "completion_token_ids": call.sampled.ids,
                    "logprobs": call.sampled.logprobs,
                },
            }
        )
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": f"{name}__agent",
        "agent": {**AGENT, "model_name": "toy/student"},
        "steps": steps,
    }


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(_JOB, name)


def _put(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=4))
