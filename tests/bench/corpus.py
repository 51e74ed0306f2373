"""Corpora of trials, written as Harbor writes them, from the ids and texts of the real fixtures.

python -m tests.bench.corpus OUT --trials 8 --turns 40
"""

import argparse
import json
import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures/trials"


@dataclass(frozen=True)
class Shape:
    """What a corpus looks like; token counts are for one turn."""

    trials: int = 1
    turns: int = 10
    first_prompt: int = 900
    observed: int = 800
    sampled: int = 200
    history: str = "extends"
    """`extends`; `edited`: now and then an earlier id changes; `nothing`: the sixth id always."""


class Source:
    """Real token ids and real log-probabilities."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        for path in sorted(FIXTURES.glob("*/jobs/*/*/result.json")):
            try:
                details = json.loads(path.read_text())["agent_result"]["rollout_details"]
            except (ValueError, KeyError, TypeError):
                continue
            for entry in details or ():
                self.ids += entry["prompt_token_ids"][-1]
                rows = entry.get("logprobs", [])
                self.logprobs += [x for row in rows for x in row if x is not None]

    def take(self, n: int) -> list[int]:
        """Ids drawn one by one: as frequent as in real text, but harder to compress than text."""
        return self.random.choices(self.ids, k=n)

    def take_logprobs(self, n: int) -> list[float]:
        return [self.random.choice(self.logprobs) for _ in range(n)]


def rollout(shape: Shape, source: Source) -> dict[str, list[Any]]:
    """The lists of one `rollout_details` entry."""
    prompts: list[list[int]] = []
    completions: list[list[int]] = []
    logprobs: list[list[float]] = []
    prompt = source.take(shape.first_prompt)
    for turn in range(shape.turns):
        if shape.history == "nothing":
            prompt[5] = 1000 + turn
        elif shape.history == "edited" and turn % 5 == 4:
            prompt[source.random.randrange(len(prompt))] = 7
        completion = source.take(shape.sampled)
        prompts.append(list(prompt))
        completions.append(completion)
        logprobs.append(source.take_logprobs(shape.sampled))
        prompt += completion + source.take(shape.observed)
    return {
        "prompt_token_ids": prompts,
        "completion_token_ids": completions,
        "logprobs": logprobs,
    }


def write_corpus(out: Path, shape: Shape, seed: int = 0) -> Path:
    """A job directory of trials; gives its path."""
    source = Source(seed)
    job = out / "job"
    for number in range(shape.trials):
        write_trial(job, number, shape, source)
    (job / "config.json").write_text(json.dumps({"job_name": "job", "n_attempts": 4}))
    stats = {"id": "job", "n_total_trials": shape.trials, "stats": {}}
    (job / "result.json").write_text(json.dumps(stats))
    return job


def write_trial(job: Path, number: int, shape: Shape, source: Source) -> None:
    lists = rollout(shape, source)
    task = f"task-{number // 4:05d}"
    name = f"{task}__{number:07d}"
    config = {
        "task": {"path": f"tasks/{task}"},
        "trial_name": name,
        "agent": {
            "name": "terminus-2",
            "model_name": "hosted_vllm/m",
            "kwargs": {"temperature": 1.0, "collect_rollout_details": True},
        },
        "job_id": "00000000-0000-0000-0000-000000000000",
    }
    result = {
        "id": str(uuid.UUID(int=source.random.getrandbits(128), version=4)),
        "task_name": f"bench/{task}",
        "trial_name": name,
        "task_checksum": "0",
        "source": None,
        "config": config,
        "agent_info": {
            "name": "terminus-2",
            "version": "2.0.0",
            "model_info": {"name": "m", "provider": "hosted_vllm"},
        },
        "agent_result": {
            "rollout_details": [{**lists, "extra": {"stop_reason": [None] * shape.turns}}],
            "metadata": {"n_episodes": shape.turns, "summarization_count": 0},
        },
        "verifier_result": {"rewards": {"reward": 1.0}},
        "exception_info": None,
        "started_at": "2026-01-01T00:00:00Z",
        "finished_at": "2026-01-01T00:10:00Z",
    }
    trial = job / name
    (trial / "agent").mkdir(parents=True)
    (trial / "verifier").mkdir()
    (trial / "config.json").write_text(json.dumps(config, indent=4))
    (trial / "verifier/reward.txt").write_text("1\n")
    with open(trial / "agent/trajectory.json", "w") as file:
        file.writelines(trajectory_text(lists))
    with open(trial / "result.json", "w") as file:
        json.dump(result, file, indent=4)


def trajectory_text(lists: dict[str, list[Any]]) -> Iterator[str]:
    """ATIF as Harbor writes it: indented by two, each list of numbers on one line."""
    yield '{\n  "schema_version": "ATIF-v1.8",\n  "agent": {"name": "terminus-2", "version": "2"}'
    yield ",\n"
    yield '  "steps": [\n    {"step_id": 1, "source": "user", "message": "' + "x" * 3000 + '"}'
    turns = len(lists["prompt_token_ids"])
    for k in range(turns):
        tool = "mark_task_complete" if k >= turns - 2 else "bash_command"
        metrics = {key: rows[k] for key, rows in lists.items()}
        step = {
            "step_id": k + 2,
            "source": "agent",
            "message": "Analysis: go on\nPlan: go on",
            "tool_calls": [{"tool_call_id": "c", "function_name": tool, "arguments": {}}],
            "observation": {"results": [{"content": "y" * 3000}]},
            "metrics": metrics,
        }
        yield ",\n    " + json.dumps(step)
    yield "\n  ]\n}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    for name, default in vars(Shape()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    args = vars(parser.parse_args())
    out = args.pop("out")
    print(write_corpus(out, Shape(**args)))  # noqa: T201


if __name__ == "__main__":
    main()
