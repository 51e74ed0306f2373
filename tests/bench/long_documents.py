"""Documents of n elements, one kind each: what may cost more than in proportion to its size."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TRIAL = {"id": "t", "trial_name": "t", "task_name": "x/y", "finished_at": "2026-01-01T00:00:00Z"}


class Turn(NamedTuple):
    """One call: the ids of its prompt and of its answer."""

    prompt: list[int]
    sampled: list[int]

    @property
    def logprobs(self) -> list[float]:
        return [-0.5] * len(self.sampled)


def _ids(k: int, size: int) -> list[int]:
    """Ids that no other k has at the first place."""
    return [1000 + k, *range(1, size)]


CHATS: dict[str, Callable[[int], list[Turn]]] = {
    "clean": lambda n: [Turn(list(range(2 * k + 2)), [2 * k + 2]) for k in range(n)],
    "asked again": lambda n: [Turn([1, 2], [3 + k]) for k in range(n)],
    "empty answers": lambda n: [Turn([1, 2], []) for _ in range(n)],
    "fresh prompts": lambda n: [Turn(_ids(k, 8), [7, 8]) for k in range(n)],
    "rewritten ends": lambda n: [Turn([1, 2, 3, 4000 + k, 5], [7, 8]) for k in range(n)],
    "growing, all rewritten": lambda n: [Turn(_ids(k, k + 1), [7]) for k in range(n)],
    "growing, last ids rewritten": lambda n: [
        Turn([*range(1, k + 1), 9000 + k, 5, 6], [7]) for k in range(n)
    ],
    "shrinking": lambda n: [Turn(list(range(1, n - k + 2)), [3]) for k in range(n)],
    "up and down": lambda n: [
        Turn([*range(1, 50), 9000 + k] if k % 2 else [1, 8000 + k], [7]) for k in range(n)
    ],
}


def harbor(folder: Path, result: dict[str, Any], **files: Any) -> None:
    """One trial; `files` are other documents by name, with `__` for a slash."""
    for name, value in {"result": {**TRIAL, **result}, **files}.items():
        path = folder / "job" / "t" / f"{name.replace('__', '/')}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))


def details(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"agent_result": {"rollout_details": entries}}


def entry(turns: list[Turn]) -> dict[str, Any]:
    return {
        "prompt_token_ids": [t.prompt for t in turns],
        "completion_token_ids": [t.sampled for t in turns],
        "logprobs": [t.logprobs for t in turns],
    }


def step(turn: Turn | None = None, **more: Any) -> dict[str, Any]:
    """One agent step of a trajectory."""
    metrics = {} if turn is None else {
        "prompt_token_ids": turn.prompt,
        "completion_token_ids": turn.sampled,
        "logprobs": turn.logprobs,
    }  # fmt: skip
    return {"source": "agent", "message": "Analysis: x", "metrics": metrics, **more}


def trajectory(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema_version": "ATIF-v1.6", "agent": {"name": "terminus-2"}, "steps": steps}


def short(n: int) -> list[Turn]:
    return CHATS["fresh prompts"](n)


def _one_lost(lists: dict[str, Any]) -> dict[str, Any]:
    """The lists of an entry of which the completions lost their middle element."""
    del lists["completion_token_ids"][len(lists["completion_token_ids"]) // 2]
    return lists


def _continued(folder: Path, n: int) -> None:
    files = {"agent__trajectory": trajectory([step()])}
    files |= {f"agent__trajectory.cont-{k}": trajectory([step()]) for k in range(n)}
    for k, document in enumerate(files.values()):
        document["continued_trajectory_ref"] = f"trajectory.cont-{k}.json"
    harbor(folder, {}, **files)


HARBOR: dict[str, Callable[[Path, int], None]] = {
    f"result, {name}": lambda f, n, chat=chat: harbor(f, details([entry(chat(n))]))
    for name, chat in CHATS.items()
} | {
    "result, one completion lost": lambda f, n: harbor(
        f, details([_one_lost(entry(CHATS["clean"](n)))])
    ),
    "result, one empty completion lost": lambda f, n: harbor(
        f, details([_one_lost(entry(CHATS["empty answers"](n)))])
    ),
    "result, one of fresh lost": lambda f, n: harbor(f, details([_one_lost(entry(short(n)))])),
    "result, entries of one call": lambda f, n: harbor(f, details([entry([t]) for t in short(n)])),
    "result, empty entries": lambda f, n: harbor(f, details([{} for _ in range(n)])),
    "result, entries without completions": lambda f, n: harbor(
        f, details([{"prompt_token_ids": [[1]]} for _ in range(n)])
    ),
    "steps": lambda f, n: harbor(f, {"step_results": [{"step_name": f"s{k}"} for k in range(n)]}),
    "steps of one name": lambda f, n: harbor(
        f, {"step_results": [{"step_name": "s"} for _ in range(n)]}
    ),
    "steps, damaged": lambda f, n: harbor(f, {"step_results": [{}, *range(n)]}),
    "steps with a call": lambda f, n: harbor(
        f, {"step_results": [{"step_name": f"s{k}", **details([entry([t])])}
                             for k, t in enumerate(short(n))]}
    ),
    "trajectory": lambda f, n: harbor(f, {}, agent__trajectory=trajectory([step()] * n)),
    "trajectory with calls": lambda f, n: harbor(
        f, {}, agent__trajectory=trajectory([step(t) for t in short(n)])
    ),
    "trajectory against a result": lambda f, n: harbor(
        f, details([_one_lost(entry(short(n)))]),
        agent__trajectory=trajectory([step(t) for t in short(n)]),
    ),
    "trajectory, tool calls": lambda f, n: harbor(
        f, {}, agent__trajectory=trajectory([step(tool_calls=[{"function_name": "x"}] * n)])
    ),
    "trajectory, compactions": lambda f, n: harbor(
        f, {}, agent__trajectory=trajectory(
            [s for t in short(n) for s in (step(t), {
                "source": "system", "message": "Performed context summarization"})]
        ),
    ),
    "trajectory, observations": lambda f, n: harbor(
        f, {}, agent__trajectory=trajectory(
            [step(observation={"results": [{"content": [{"text": "x"}] * n}]})])
    ),
    "trajectory, a long message": lambda f, n: harbor(
        f, {}, agent__trajectory=trajectory([step(message='{"a": "' * n)])
    ),
    "trajectory, continued": _continued,
    "ctrf": lambda f, n: harbor(
        f, {"verifier_result": {"rewards": {"reward": 1.0}}}, verifier__ctrf={"results": {"tests": [
            {"name": f"t{k}", "status": "passed"} for k in range(n)]}},
    ),
    "ctrf, one name": lambda f, n: harbor(
        f, {}, verifier__ctrf={"results": {"tests": [
            {"name": "t", "status": "passed", "retries": 1} for _ in range(n)]}},
    ),
    "rewards": lambda f, n: harbor(
        f, {"verifier_result": {"rewards": {f"r{k}": 1.0 for k in range(n)}}}
    ),
}  # fmt: skip
