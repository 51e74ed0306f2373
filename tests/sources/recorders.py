"""One conversation written as each recorder writes it: from the formats, not from our readers."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

Ids = list[int]
HEADER, END = [151644, 77091, 198], 151645


@dataclass(frozen=True)
class Sampled:
    """One call of the policy; log-probabilities are those of a server: single precision."""

    prompt: Ids
    ids: Ids
    logprobs: list[float]
    goes_on: bool
    """Whether its prompt extends all that came before."""


def conversation(seed: int, turns: int = 5, rewritten: int | None = 3) -> list[Sampled]:
    """A toy policy's chat; at turn `rewritten` its history begins again after the first message."""
    random = Random(seed)

    def message(role: int) -> Ids:
        words = [random.randrange(1000, 150_000) for _ in range(random.randrange(3, 40))]
        return [151644, role, 198, *words, END, 198]

    opening = message(8948)
    context = [*opening, *message(872)]
    calls: list[Sampled] = []
    for turn in range(turns):
        if turn == rewritten:
            context = [*opening, *message(872)]
        ids = [random.randrange(1000, 150_000) for _ in range(random.randrange(1, 30))] + [END]
        logprobs = [float(np.float32(-random.expovariate(1))) for _ in ids]
        prompt = [*context, *HEADER]
        calls.append(Sampled(prompt, ids, logprobs, turn not in (0, rewritten)))
        context = [*prompt, *ids, 198, *message(872)]
    return calls


def harbor(calls: Sequence[Sampled], place: Path) -> Path:
    details = {
        "prompt_token_ids": [call.prompt for call in calls],
        "completion_token_ids": [call.ids for call in calls],
        "logprobs": [call.logprobs for call in calls],
    }
    return trial(place, [details])


def trial(place: Path, details: list[Any] | None) -> Path:
    result = {
        "id": "7f3c", "trial_name": "toy__1", "task_name": "toy", "task_checksum": "0",
        "config": {"trial_name": "toy__1", "agent": {"kwargs": {}}},
        "agent_info": {"name": "terminus-2", "version": "2"},
        "agent_result": {"rollout_details": details},
        "verifier_result": {"rewards": {"reward": 1.0}},
        "started_at": "2026-09-01T00:00:00Z", "finished_at": "2026-09-01T00:01:00Z",
    }  # fmt: skip
    return _put(place / "jobs/toy__1/result.json", json.dumps(result, indent=4)).parents[1]


def sink(calls: Sequence[Sampled], place: Path) -> Path:
    lines = [
        {
            "call_index": index, "prompt_token_ids": call.prompt, "sampled_token_ids": call.ids,
            "sampled_logprobs": call.logprobs, "delta_start": 0, "delta_messages": [],
        }
        for index, call in enumerate(calls)
    ]  # fmt: skip
    _put(place / "sinks/toy__1.jsonl", _lines(lines))
    return trial(place, None)


def verifiers(calls: Sequence[Sampled], place: Path) -> Path:
    """As 0.3 does: a node a message, log-probabilities in full."""
    nodes: list[dict[str, Any]] = []
    held: Ids = []
    for call in calls:
        if not call.goes_on:
            held = []
        new = call.prompt[len(held) : -len(HEADER)]
        scaffold = len(HEADER)
        text = {"token_ids": new, "mask": [False] * len(new), "sampled": False}
        answer = {
            "token_ids": [*HEADER, *call.ids],
            "mask": [False] * scaffold + [True] * len(call.ids),
            "logprobs": call.logprobs,
            "sampled": True,
        }
        for node, role in ((text, "user"), (answer, "assistant")):
            parent = {"parent": len(nodes) - 1} if held else {}
            nodes.append({**node, **parent, "message": {"role": role, "content": "w"}})
            held = [*held, *node["token_ids"]]
    trace = {
        "id": "ab" * 16, "version": 1, "verifiers": {"version": "0.3.1"}, "nodes": nodes,
        "task": {"type": "Toy", "data": {"idx": 0}}, "rewards": {"right": {"score": 1.0}},
        "ok": True, "errors": [], "is_completed": True, "stop_condition": "agent_completed",
        "calls": [{"node": i} for i, node in enumerate(nodes) if node["sampled"]],
    }  # fmt: skip
    episode = {"id": "e", "task": trace["task"], "ok": True, "errors": [], "traces": [trace]}
    return _put(place / "run/traces.jsonl", _lines([episode])).parent


def tinker(calls: Sequence[Sampled], place: Path) -> Path:
    scope = {"run_id": "r", "run_attempt": 0, "split": "train", "iteration": 0}
    lines = [
        {
            "kind": "sample", "scope": {**scope, "group_idx": 0, "traj_idx": 0},
            "created_at": 1.79e9 + index, "num_samples": 1, "sampling_session_id": "s",
            "seq_id": 10**18 - index, "prompt_tokens": call.prompt, "sampling_params": {},
            "samples": [{"tokens": call.ids, "logprobs": call.logprobs, "stop_reason": "stop"}],
            "status": "ok",
        }
        for index, call in enumerate(calls)
    ]  # fmt: skip
    return _put(place / "run/capture/sample.jsonl", _lines(lines)).parents[1]


def nemo_gym(calls: Sequence[Sampled], place: Path) -> Path:
    lines = [
        {
            "schema_version": 1, "rollout_id": "0-0", "model_call_id": f"{index:032x}",
            "model": "toy", "prompt_token_ids": call.prompt, "generation_token_ids": call.ids,
            "generation_log_probs": call.logprobs, "routed_experts": None, "output_items": [],
            "token_item_index": 0, "created_at": 1.79e9 + index,
        }
        for index, call in enumerate(calls)
    ]  # fmt: skip
    texts = [json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n" for line in lines]
    start = place / "run/token_capture/0-0.tokens"
    _put(Path(f"{start}.jsonl"), "".join(texts))
    _put(Path(f"{start}.intents"), "".join(f"{line['model_call_id']}\n" for line in lines))
    state = {
        "frozen": False, "retired": False, "incomplete": False, "snapshot_id": "", "version": 1,
        "indexed_size": sum(map(len, texts)),
        "entry_digests": {
            str(line["model_call_id"]): hashlib.sha256(text.rstrip().encode()).hexdigest()
            for line, text in zip(lines, texts, strict=True)
        },
    }  # fmt: skip
    _put(Path(f"{start}.state.json"), json.dumps(state))
    return place / "run"


def openenv(calls: Sequence[Sampled], place: Path) -> Path:
    """The document of a session: sequences from root to leaf, log-probabilities in the turns."""
    turns, sequences = [], []
    for index, call in enumerate(calls):
        root = f"{index:012x}" if not call.goes_on else turns[-1]["root_id"]
        turns.append(
            {
                "node_id": f"{index:012x}", "index": index, "root_id": root, "n_tools": 0,
                "n_sampled": len(call.ids), "n_prompt": len(call.prompt), "finish_reason": "stop",
                "sampling_params": {}, "sampled_logprobs": call.logprobs, "discarded": False,
            }
        )  # fmt: skip
        if not call.goes_on:
            sequences.append({"role": "agent", "root_id": root, "node_ids": [], "trainable": True})
        sequences[-1]["node_ids"].append(turns[-1]["node_id"])
        sequences[-1] |= {"input_ids": [*call.prompt, *call.ids], "validation": []}
    document = {
        "session_id": "s", "turns": turns, "sequences": sequences, "stats": {}, "validation": [],
        "trainable": True, "capture_level": "tokens", "rollout_type": "train",
    }  # fmt: skip
    return _put(place / "run/s.rollout.json", json.dumps(document)).parent


def rllm_gateway(calls: Sequence[Sampled], place: Path) -> Path:
    file = place / "run/gateway_traces.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE traces(trace_id TEXT PRIMARY KEY, data TEXT, created_at REAL)")
        db.execute("CREATE TABLE trace_sessions(trace_id TEXT, session_id TEXT, created_at REAL)")
        for index, call in enumerate(calls):
            trace = {
                "trace_id": f"t{index}", "session_id": "s", "model": "toy", "messages": [],
                "prompt_token_ids": call.prompt, "completion_token_ids": call.ids,
                "logprobs": call.logprobs, "finish_reason": "stop", "timestamp": 1.79e9 + index,
                "response_message": {"role": "assistant", "content": "w"}, "metadata": {},
                "raw_request": {}, "raw_response": None,
            }  # fmt: skip
            db.execute("INSERT INTO traces VALUES (?, ?, 0)", (f"t{index}", json.dumps(trace)))
            db.execute("INSERT INTO trace_sessions VALUES (?, 's', 0)", (f"t{index}",))
    return file.parent


def agentlightning(calls: Sequence[Sampled], place: Path) -> Path:
    events = [
        {
            "event_type": "model_request", "rollout_id": "ro-0", "attempt_id": "0",
            "timestamp": 1.79e9 + index,
            "data": {
                "model": "toy", "http_status": 200, "status": "ok", "request": {"messages": []},
                "response": {
                    "prompt_token_ids": call.prompt,
                    "choices": [
                        {
                            "index": 0, "finish_reason": "stop", "token_ids": call.ids,
                            "logprobs": {"content": [{"logprob": x} for x in call.logprobs]},
                            "message": {"role": "assistant", "content": "w"},
                        }
                    ],
                },
            },
        }
        for index, call in enumerate(calls)
    ]  # fmt: skip
    return _put(place / "run/ro-0.events.json", json.dumps(events)).parent


WRITERS: tuple[Callable[[Sequence[Sampled], Path], Path], ...] = (
    harbor, sink, verifiers, tinker, nemo_gym, openenv, rllm_gateway, agentlightning,
)  # fmt: skip


def _put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def _lines(values: Sequence[Any]) -> str:
    return "".join(f"{json.dumps(value)}\n" for value in values)
