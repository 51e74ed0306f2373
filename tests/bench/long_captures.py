"""Documents of n elements, as recorders in front of a model write them."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.bench.long_documents import CHATS, HARBOR, Turn, harbor, short

TIME = 1790000000


def _lines(path: Path, values: Iterator[Any] | list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(value) + "\n" for value in values))


def sink(folder: Path, turns: list[Turn]) -> None:
    harbor(folder, {})
    _lines(folder / "sinks" / "t.jsonl", [
        {"call_index": k, "prompt_token_ids": t.prompt, "sampled_token_ids": t.sampled,
         "sampled_logprobs": t.logprobs, "temperature": k} for k, t in enumerate(turns)
    ])  # fmt: skip


def nemo_gym(folder: Path, turns: list[Turn], key: str = "c{}") -> None:
    _lines(folder / "run" / "token_capture" / "0-0.tokens.jsonl", [
        {"created_at": TIME + k, "generation_log_probs": t.logprobs, "schema_version": 1,
         "generation_token_ids": t.sampled, "model": "m", "model_call_id": key.format(k),
         "prompt_token_ids": t.prompt, "rollout_id": "0-0"} for k, t in enumerate(turns)
    ])  # fmt: skip


def gym_row(folder: Path, turns: list[Turn]) -> None:
    """A row whose answers are none of its capture's."""
    nemo_gym(folder, turns)
    output = [{"type": "message", "prompt_token_ids": t.prompt, "generation_token_ids": [1, 2],
               "generation_log_probs": [-1, -1]} for t in turns]  # fmt: skip
    _lines(folder / "run" / "rollouts.jsonl", [
        {"responses_create_params": {}, "response": {"object": "response", "output": output},
         "reward": 1.0, "_ng_task_index": 0, "_ng_rollout_index": 0}
    ])  # fmt: skip


def tinker(folder: Path, turns: list[Turn], *, samples: int = 1, traj: int | None = 0) -> None:
    scope = {} if traj is None else {"run_id": "r", "group_idx": 0, "traj_idx": traj}
    _lines(folder / "run" / "capture" / "sample.jsonl", [
        {"kind": "sample", "scope": scope, "created_at": TIME + k, "num_samples": samples,
         "sampling_session_id": "s", "seq_id": k, "model_path": f"w/{k}", "base_model": "b",
         "prompt_tokens": t.prompt, "prompt_length": len(t.prompt),
         "samples": samples * [{"tokens": t.sampled, "logprobs": t.logprobs}],
         "status": "ok"} for k, t in enumerate(turns)
    ])  # fmt: skip


def rllm(folder: Path, turns: list[Turn], *, session: str | None = "s") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "gateway_traces.db")) as store, store:
        store.execute("CREATE TABLE traces (trace_id TEXT PRIMARY KEY, data TEXT, created_at REAL)")
        store.execute("CREATE TABLE trace_sessions (trace_id TEXT, session_id TEXT)")
        for k, t in enumerate(turns):
            trace = {"trace_id": f"t{k}", "model": "m", "prompt_token_ids": t.prompt,
                     "completion_token_ids": t.sampled, "logprobs": t.logprobs,
                     "finish_reason": "stop", "timestamp": TIME + k}  # fmt: skip
            store.execute("INSERT INTO traces VALUES (?, ?, 0)", (f"t{k}", json.dumps(trace)))
            if session is not None:
                store.execute("INSERT INTO trace_sessions VALUES (?, ?)", (f"t{k}", session))


def lightning(folder: Path, turns: list[Turn]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    events = [
        {"event_type": "model_request", "rollout_id": "ro-0", "attempt_id": "0", "timestamp": TIME,
         "data": {"model": "m", "request": {}, "response": {
             "prompt_token_ids": t.prompt, "id": f"c{k}", "choices": [
                 {"index": 0, "finish_reason": "stop", "token_ids": t.sampled}]}}}
        for k, t in enumerate(turns)
    ]  # fmt: skip
    (folder / "ro-0.events.json").write_text(json.dumps(events))


def openenv(folder: Path, turns: list[Turn]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s.rollout.json").write_text(json.dumps({
        "session_id": "s", "metadata": {}, "budget_stop_count": 0, "capture_level": "tokens",
        "turns": [{"node_id": f"n{k}", "index": k, "root_id": f"n{k}", "n_sampled": len(t.sampled),
                   "n_prompt": len(t.prompt), "sampled_logprobs": t.logprobs, "discarded": False}
                  for k, t in enumerate(turns)],
        "sequences": [{"role": "agent", "root_id": f"n{k}", "node_ids": [f"n{k}"],
                       "input_ids": [*t.prompt, *t.sampled]} for k, t in enumerate(turns)],
    }))  # fmt: skip


def openenv_path(folder: Path, n: int) -> None:
    """One sequence that all calls are on: the document holds each id once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "s.rollout.json").write_text(json.dumps({
        "session_id": "s", "metadata": {}, "budget_stop_count": 0, "capture_level": "tokens",
        "turns": [{"node_id": f"n{k}", "index": k, "root_id": "n0", "n_sampled": 2,
                   "n_prompt": 4 * k + 2, "sampled_logprobs": [-1, -1]} for k in range(n)],
        "sequences": [{"role": "agent", "root_id": "n0", "input_ids": list(range(4 * n)),
                       "node_ids": [f"n{k}" for k in range(n)]}],
    }))  # fmt: skip


def verifiers(folder: Path, nodes: list[dict[str, Any]], traces: int = 1) -> None:
    _lines(folder / "run" / "traces.jsonl", [
        {"id": "e", "traces": [{"id": f"t{k}", "version": 1, "nodes": nodes}
                               for k in range(traces)]}
    ])  # fmt: skip


def node(k: int, parent: int | None, *, sampled: bool, **more: Any) -> dict[str, Any]:
    up = {} if parent is None else {"parent": parent}
    answer = {"mask": [sampled, sampled], "logprobs": [-1, -1] if sampled else None}
    return {"token_ids": [k, 5], "sampled": sampled, "message": {"role": "user"}, **answer, **up,
            **more}  # fmt: skip


def chain(n: int, **more: Any) -> list[dict[str, Any]]:
    """One path of questions and answers."""
    return [node(k, k - 1 if k else None, sampled=k % 2 == 1, **more) for k in range(n)]


def star(n: int) -> list[dict[str, Any]]:
    """Half of the nodes are a path, the others answers to its end."""
    path = [node(k, k - 1 if k else None, sampled=False) for k in range(n // 2)]
    return path + [node(k, n // 2 - 1, sampled=True) for k in range(n // 2)]


def comb(n: int) -> list[dict[str, Any]]:
    """Half of the nodes are a path, the others answers, in turn to its start and its end."""
    path = [node(k, k - 1 if k else None, sampled=False) for k in range(n // 2)]
    return path + [node(k, (n // 2 - 1) * (k % 2), sampled=True) for k in range(n // 2)]


OTHERS: dict[str, Callable[[Path, int], None]] = {
    f"{source.__name__}, {name}": lambda f, n, source=source, chat=chat: source(f, chat(n))
    for source in (sink, nemo_gym, tinker, rllm, lightning, openenv)
    for name, chat in CHATS.items()
} | {
    "nemo_gym, one key": lambda f, n: nemo_gym(f, short(n), "c"),
    "nemo_gym, a row of other answers": lambda f, n: gym_row(f, short(n)),
    "tinker, two answers each": lambda f, n: tinker(f, short(n), samples=2),
    "tinker, n answers": lambda f, n: tinker(f, [Turn([1], [2])], samples=n),
    "tinker, no coordinates": lambda f, n: tinker(f, CHATS["clean"](n), traj=None),
    "rllm, no session": lambda f, n: rllm(f, CHATS["clean"](n), session=None),
    "openenv, one path": openenv_path,
    "verifiers, a chain": lambda f, n: verifiers(f, chain(n)),
    "verifiers, a star": lambda f, n: verifiers(f, star(n)),
    "verifiers, a comb": lambda f, n: verifiers(f, comb(n)),
    "verifiers, roots": lambda f, n: verifiers(
        f, [node(k, None, sampled=True) for k in range(n)]
    ),
    "verifiers, links": lambda f, n: verifiers(f, chain(
        n, semantic_parents=[{"node": 0, "type": "subagent_return"}])
    ),
    "verifiers, traces": lambda f, n: verifiers(f, chain(3), n),
    "verifiers, errors": lambda f, n: _lines(f / "run" / "traces.jsonl", [
        {"id": "e", "traces": [{"id": "t", "nodes": [], "errors": [{"type": "x"}] * n}]}]),
    "verifiers, lines": lambda f, n: _lines(f / "run" / "traces.jsonl", [
        {"id": f"t{k}", "nodes": []} for k in range(n)]),
    "verifiers, lines of one id": lambda f, n: _lines(f / "run" / "traces.jsonl", [
        {"id": "t", "nodes": []} for k in range(n)]),
}  # fmt: skip
DOCUMENTS = HARBOR | OTHERS
