"""Files as recorders write them: sessions of 30 calls, each of which repeats what came before."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

CALLS = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a session."""

    session: int
    turn: int
    number: int
    prompt: list[int]
    answer: list[int]
    logprobs: list[float]
    messages: list[dict[str, str]]
    said: dict[str, str]


def calls() -> Iterator[Asked]:
    random, number = Random(1), 0

    def ids(n: int) -> list[int]:
        return [random.randrange(150_000) for _ in range(n)]

    while True:
        prompt, messages = ids(2000), [{"role": "user", "content": "word " * 2000}]
        for turn in range(CALLS):
            answer, logprobs = ids(300), [-random.random() for _ in range(300)]
            said = {"role": "assistant", "content": "word " * 300}
            yield Asked(number // CALLS, turn, number, prompt, answer, logprobs, messages, said)
            prompt = prompt + answer + ids(500)
            messages = [*messages, said, {"role": "user", "content": "word " * 500}]
            number += 1


def _sessions(size: int, text: Callable[[Asked], str]) -> Iterator[tuple[Asked, str]]:
    """Whole sessions, until there is that much text."""
    written = 0
    for call in calls():
        if not call.turn and written >= size:
            return
        written += len(one := text(call))
        yield call, one


def _gateway_text(call: Asked) -> str:
    request = {"messages": call.messages, "temperature": 1.0}
    content = [{"logprob": x} for x in call.logprobs]
    choice = {"token_ids": call.answer, "logprobs": {"content": content}, "message": call.said}
    return json.dumps(
        {
            "trace_id": f"{call.number:032x}", "session_id": _task(call), "model": "m",
            "messages": call.messages, "prompt_token_ids": call.prompt, "metadata": {},
            "response_message": call.said, "completion_token_ids": call.answer,
            "logprobs": call.logprobs, "finish_reason": "stop", "latency_ms": 1.0,
            "token_counts": {}, "timestamp": 1.7e9 + call.number, "raw_request": request,
            "raw_response": {"choices": [choice], "prompt_token_ids": call.prompt},
        }
    )  # fmt: skip


def _task(call: Asked) -> str:
    return f"task{call.session // 4}:{call.session % 4}"


def write_gateway(place: Path, size: int) -> None:
    with closing(sqlite3.connect(place / "gateway.db")) as db:
        db.execute("CREATE TABLE traces(trace_id TEXT PRIMARY KEY, data TEXT, created_at REAL)")
        db.execute("CREATE TABLE trace_sessions(trace_id TEXT, session_id TEXT, created_at REAL)")
        for call, data in _sessions(size, _gateway_text):
            db.execute("INSERT INTO traces VALUES (?, ?, 1)", (f"{call.number:032x}", data))
            row = f"{call.number:032x}", _task(call)
            db.execute("INSERT INTO trace_sessions VALUES (?, ?, 1)", row)
        db.commit()


def _tinker(call: Asked) -> dict[str, Any]:
    return {
        "kind": "sample",
        "scope": {
            "run_id": "run", "run_attempt": 0, "split": "train", "iteration": 0,
            "group_idx": call.session // 4, "traj_idx": call.session % 4,
        },
        "created_at": 1.7e9 + call.number, "num_samples": 1, "sampling_session_id": "s",
        "seq_id": call.number, "model_path": "tinker://run/sampler_weights/000007",
        "base_model": "m", "prompt_tokens": call.prompt, "prompt_length": len(call.prompt),
        "sampling_params": {"temperature": 1.0},
        "samples": [{"tokens": call.answer, "logprobs": call.logprobs, "stop_reason": "stop"}],
        "status": "ok", "error": None, "latency_sec": 0.1,
    }  # fmt: skip


def write_tinker_lines(place: Path, size: int) -> None:
    (place / "capture").mkdir()
    with (place / "capture" / "sample.jsonl").open("w") as file:
        for _, line in _sessions(size, lambda call: json.dumps(_tinker(call))):
            file.write(line + "\n")


WIRE = [
    "run_id",
    "run_attempt",
    "split",
    "iteration",
    "group_idx",
    "traj_idx",
    "purpose",
    "sampling_session_id",
    "seq_id",
    "sample_idx",
    "policy_version",
    "created_at",
    "prompt_tokens",
    "sampled_tokens",
    "logprobs",
    "metadata",
]


def write_tinker_store(place: Path, size: int) -> None:
    with closing(sqlite3.connect(place / "capture.sqlite")) as db:
        db.execute(f"CREATE TABLE wire_rows(cursor INTEGER PRIMARY KEY, {', '.join(WIRE)})")
        db.executescript(
            """CREATE TABLE seq(value INTEGER NOT NULL);
            CREATE UNIQUE INDEX wire_rows_dedupe
                ON wire_rows(sampling_session_id, seq_id, sample_idx);
            CREATE INDEX wire_rows_run ON wire_rows(run_id, cursor);
            CREATE TABLE annotations(cursor INTEGER PRIMARY KEY, event_id TEXT, run_id TEXT,
                kind TEXT, payload TEXT, created_at REAL)"""
        )
        insert = f"INSERT INTO wire_rows VALUES ({', '.join('?' * (len(WIRE) + 1))})"
        for call, prompt in _sessions(size, lambda call: json.dumps(call.prompt)):
            about = {"num_samples": 1, "status": "ok", "stop_reason": "stop"}
            lists = prompt, json.dumps(call.answer), json.dumps(call.logprobs)
            where = "run", 0, "train", 0, call.session // 4, call.session % 4, None
            version = "tinker://run/sampler_weights/000007"
            which = "s", call.number, 0, version, 1.7e9 + call.number
            db.execute(insert, (call.number + 1, *where, *which, *lists, json.dumps(about)))
        db.commit()


def write_gym(place: Path, size: int) -> None:
    def text(call: Asked) -> str:
        return json.dumps(
            {
                "created_at": 1.7e9 + call.number, "generation_log_probs": call.logprobs,
                "generation_token_ids": call.answer, "model": "m",
                "model_call_id": f"{call.number:032x}", "output_items": [call.said],
                "prompt_token_ids": call.prompt, "rollout_id": f"0-{call.session}",
                "routed_experts": None, "schema_version": 1, "token_item_index": 0,
            }
        )  # fmt: skip

    for call, line in _sessions(size, text):
        with (place / f"0-{call.session}.tokens.jsonl").open("a") as file:
            file.write(line + "\n")


def write_openenv(place: Path, size: int) -> None:
    """Results of a file each, as `openenv harbor` would leave one a run."""

    def turn(call: Asked) -> str:
        return json.dumps(
            {
                "turn": call.turn, "role": "agent", "finish_reason": "stop",
                "prompt_token_ids": call.prompt, "completion_token_ids": call.answer,
                "per_token_logps": call.logprobs, "node_id": f"{call.number:012x}",
                "loss_mask": [0] * len(call.prompt) + [1] * len(call.answer),
                "trainable": True, "sampling_params": {"temperature": 1.0},
                "request_messages": call.messages,
            }
        )  # fmt: skip

    turns: list[str] = []
    with (place / "results.json").open("w") as file:
        for call, text in _sessions(size, turn):
            turns.append(text)
            if call.turn == CALLS - 1:
                head = json.dumps(
                    {
                        "task_id": "t", "harness": "h", "trial_name": f"trial-{call.session}",
                        "session_id": f"s{call.session:024x}", "reward": 1.0, "n_turns": CALLS,
                    }
                )  # fmt: skip
                file.write(f'{", " if call.session else "["}{head[:-1]}, "turns": [')
                file.write(", ".join(turns) + "]}")
                turns.clear()
        file.write("]")


def write_events(place: Path, size: int) -> None:
    """Events of Agent Lightning, a file a rollout."""

    def event(call: Asked) -> str:
        content = [{"token": "t", "logprob": x, "bytes": None} for x in call.logprobs]
        choice = {
            "index": 0, "finish_reason": "stop", "logprobs": {"content": content},
            "message": call.said, "token_ids": call.answer,
        }  # fmt: skip
        answer = {"id": f"c{call.number}", "choices": [choice], "prompt_token_ids": call.prompt}
        request = {"model": "m", "messages": call.messages, "temperature": 1.0}
        data = {"model": "m", "model_version": 7, "request": request, "response": answer}
        return json.dumps(
            {
                "event_type": "model_request", "rollout_id": f"ro-{call.session}",
                "attempt_id": "0", "timestamp": 1.7e9 + call.number, "data": data,
            }
        )  # fmt: skip

    for call, text in _sessions(size, event):
        with (place / f"ro-{call.session}.events.json").open("a") as file:
            file.write(f"{', ' if call.turn else '['}{text}{']' * (call.turn == CALLS - 1)}")
