"""Files as recorders write them: sessions of calls, each of which repeats what came before."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

AT_ONCE = 4
"""Sessions that run at a time: a store has their calls in order of time."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a session looks like; all but `calls` are tokens."""

    calls: int = 30
    first: int = 2000
    answer: int = 300
    added: int = 500


SHORT = Shape()


@dataclass(frozen=True, slots=True)
class Asked:
    """One call of a session."""

    session: int
    turn: int
    is_last: bool
    number: int
    prompt: list[int]
    answer: list[int]
    logprobs: list[float]
    tokens: list[str]
    """The texts of the answer's ids."""
    messages: list[dict[str, str]]
    said: dict[str, str]


def calls(shape: Shape = SHORT) -> Iterator[Asked]:
    random, number = Random(1), 0
    letters = "etaoinshrdlu"
    words = [" " + "".join(random.choices(letters, k=random.randrange(1, 8))) for _ in range(4000)]
    words += ["\n", "\n\n", '"', "/", "-", "_", ".", " é", " ✓"] * 40

    def ids(n: int) -> list[int]:
        return [random.randrange(150_000) for _ in range(n)]

    def text(n: int) -> list[str]:
        return random.choices(words, k=n)

    while True:
        prompt = ids(shape.first)
        messages = [{"role": "user", "content": "".join(text(shape.first))}]
        for turn in range(shape.calls):
            answer, tokens = ids(shape.answer), text(shape.answer)
            said = {"role": "assistant", "content": "".join(tokens)}
            yield Asked(
                session=number // shape.calls,
                turn=turn,
                is_last=turn == shape.calls - 1,
                number=number,
                prompt=prompt,
                answer=answer,
                logprobs=[-random.random() for _ in answer],
                tokens=tokens,
                messages=messages,
                said=said,
            )
            prompt = prompt + answer + ids(shape.added)
            result = {"role": "user", "content": "".join(text(shape.added))}
            messages = [*messages, said, result]
            number += 1


def _sessions(
    size: int, text: Callable[[Asked], str], shape: Shape = SHORT
) -> Iterator[tuple[Asked, str]]:
    """Whole sessions one after another, until there is that much text."""
    written = 0
    for call in calls(shape):
        if not call.turn and written >= size:
            return
        written += len(one := text(call))
        yield call, one


def _in_time(
    size: int, text: Callable[[Asked], str], shape: Shape = SHORT
) -> Iterator[tuple[Asked, str]]:
    """The same of sessions that run at once, in the order of their calls."""
    written = _sessions(size, text, shape)
    while some := list(islice(written, AT_ONCE * shape.calls)):
        yield from sorted(some, key=lambda one: one[0].turn)


def answer_of(call: Asked) -> dict[str, Any]:
    """What vLLM answers where log-probabilities and token ids are asked for."""
    content = [
        {"token": token, "logprob": x, "bytes": list(token.encode()), "top_logprobs": []}
        for token, x in zip(call.tokens, call.logprobs, strict=True)
    ]
    message = {
        **call.said, "refusal": None, "annotations": None, "audio": None, "function_call": None,
        "tool_calls": [], "reasoning_content": None,
    }  # fmt: skip
    choice = {
        "index": 0, "message": message, "logprobs": {"content": content}, "finish_reason": "stop",
        "stop_reason": None, "token_ids": call.answer,
    }  # fmt: skip
    usage = {
        "prompt_tokens": len(call.prompt), "completion_tokens": len(call.answer),
        "total_tokens": len(call.prompt) + len(call.answer), "prompt_tokens_details": None,
    }  # fmt: skip
    return {
        "id": f"chatcmpl-{call.number:032x}", "object": "chat.completion", "created": 1_700_000_000,
        "model": "m", "choices": [choice], "service_tier": None, "system_fingerprint": None,
        "usage": usage, "prompt_logprobs": None, "prompt_token_ids": call.prompt,
        "kv_transfer_params": None,
    }  # fmt: skip


def request_of(call: Asked) -> dict[str, Any]:
    return {
        "model": "m", "messages": call.messages, "temperature": 1.0, "logprobs": True,
        "return_token_ids": True,
    }  # fmt: skip


def trace_of(call: Asked) -> dict[str, Any]:
    """What rLLM's gateway (wheel 0.1.0) makes of a request and its answer."""
    answer = answer_of(call)
    (choice,) = answer["choices"]
    usage = answer["usage"]
    return {
        "trace_id": _trace_id(call), "session_id": _task(call), "model": "m",
        "messages": call.messages, "prompt_token_ids": call.prompt,
        "response_message": choice["message"], "completion_token_ids": call.answer,
        "logprobs": call.logprobs, "finish_reason": "stop", "latency_ms": 1234.5678,
        "token_counts": {
            "prompt": usage["prompt_tokens"], "completion": usage["completion_tokens"],
        },
        "timestamp": 1.7e9 + call.number, "metadata": {}, "raw_request": request_of(call),
        "raw_response": answer,
    }  # fmt: skip


def _trace_id(call: Asked) -> str:
    return str(UUID(int=Random(call.number).getrandbits(128), version=4))


def _task(call: Asked) -> str:
    return f"task{call.session // 4}:{call.session % 4}"


GATEWAY = """
    CREATE TABLE traces(
        trace_id TEXT PRIMARY KEY, data TEXT NOT NULL, created_at REAL NOT NULL);
    CREATE TABLE trace_sessions(
        trace_id TEXT NOT NULL, session_id TEXT NOT NULL, created_at REAL NOT NULL,
        PRIMARY KEY (trace_id, session_id),
        FOREIGN KEY (trace_id) REFERENCES traces(trace_id) ON DELETE CASCADE);
    CREATE INDEX idx_ts_session ON trace_sessions(session_id);
    CREATE INDEX idx_ts_session_time ON trace_sessions(session_id, created_at ASC);
    CREATE INDEX idx_traces_time ON traces(created_at);
"""


def write_gateway(place: Path, size: int, shape: Shape = SHORT) -> None:
    """A store of rLLM's gateway with the tables and indices of its wheel 0.1.0."""
    with closing(sqlite3.connect(place / "gateway.db")) as db:
        db.executescript(GATEWAY)
        for call, data in _in_time(size, lambda call: json.dumps(trace_of(call)), shape):
            trace_id, at = _trace_id(call), 1.7e9 + call.number
            db.execute("INSERT INTO traces VALUES (?, ?, ?)", (trace_id, data, at))
            db.execute("INSERT INTO trace_sessions VALUES (?, ?, ?)", (trace_id, _task(call), at))
        db.commit()


def tinker_record(call: Asked) -> dict[str, Any]:
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


def write_tinker_lines(place: Path, size: int, shape: Shape = SHORT) -> None:
    (place / "capture").mkdir()
    with (place / "capture" / "sample.jsonl").open("w") as file:
        for _, line in _in_time(size, lambda call: json.dumps(tinker_record(call)), shape):
            file.write(line + "\n")


WIRE = """
    CREATE TABLE seq(value INTEGER NOT NULL);
    INSERT INTO seq VALUES (0);
    CREATE TABLE wire_rows(
        cursor INTEGER PRIMARY KEY, run_id TEXT NOT NULL, run_attempt INTEGER, split TEXT,
        iteration INTEGER, group_idx INTEGER, traj_idx INTEGER, purpose TEXT,
        sampling_session_id TEXT, seq_id INTEGER, sample_idx INTEGER, policy_version TEXT,
        created_at REAL, prompt_tokens TEXT, sampled_tokens TEXT, logprobs TEXT, metadata TEXT);
    CREATE UNIQUE INDEX wire_rows_dedupe ON wire_rows(sampling_session_id, seq_id, sample_idx);
    CREATE INDEX wire_rows_run ON wire_rows(run_id, cursor);
    CREATE TABLE annotations(
        cursor INTEGER PRIMARY KEY, event_id TEXT NOT NULL UNIQUE, run_id TEXT NOT NULL,
        kind TEXT, payload TEXT, created_at REAL);
    CREATE INDEX annotations_run ON annotations(run_id, cursor);
"""


ELSEWHERE = (
    "kind", "scope", "samples", "sampling_session_id", "seq_id", "created_at", "prompt_tokens",
)  # fmt: skip
"""What of a record has columns of its own, or none."""


def write_tinker_store(place: Path, size: int, shape: Shape = SHORT) -> None:
    """A store of tinker-cookbook 0.6.1, which keeps a write-ahead log while it is open."""
    with closing(sqlite3.connect(place / "capture.sqlite")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.executescript(WIRE)
        written = _in_time(size, lambda call: json.dumps(call.prompt), shape)
        for cursor, (call, prompt) in enumerate(written, 1):
            record = tinker_record(call)
            about = {k: v for k, v in record.items() if k not in ELSEWHERE} | {
                "stop_reason": "stop"
            }
            where = cursor, "run", 0, "train", 0, call.session // 4, call.session % 4, None
            which = "s", call.number, 0, "tinker://run/sampler_weights/000007", 1.7e9 + call.number
            lists = prompt, json.dumps(call.answer), json.dumps(call.logprobs), json.dumps(about)
            row = *where, *which, *lists
            db.execute(f"INSERT INTO wire_rows VALUES ({', '.join('?' * len(row))})", row)
        db.commit()


def write_gym(place: Path, size: int, shape: Shape = SHORT) -> None:
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

    for call, line in _sessions(size, text, shape):
        with (place / f"0-{call.session}.tokens.jsonl").open("a") as file:
            file.write(line + "\n")


def write_gym_rows(place: Path, size: int, shape: Shape = SHORT) -> None:
    """A rollout a line, as the collector writes it: each answer is an item with its prompt."""

    def item(call: Asked) -> str:
        return json.dumps(
            {
                "type": "message", **call.said, "prompt_token_ids": call.prompt,
                "generation_token_ids": call.answer, "generation_log_probs": call.logprobs,
            }
        )  # fmt: skip

    items: list[str] = []
    with (place / "rollouts.jsonl").open("w") as file:
        for call, text in _sessions(size, item, shape):
            items.append(text)
            if call.is_last:
                place_of = f'"_ng_task_index":{call.session},"_ng_rollout_index":0,"reward":1.0'
                output = ",".join(items)
                items.clear()
                file.write(
                    f'{{"responses_create_params":{{"input":[]}},{place_of},'
                    f'"response":{{"model":"m","output":[{output}]}}}}\n'
                )


def write_openenv(place: Path, size: int, shape: Shape = SHORT) -> None:
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
        for call, text in _sessions(size, turn, shape):
            turns.append(text)
            if call.is_last:
                head = json.dumps(
                    {
                        "task_id": "t", "harness": "h", "trial_name": f"trial-{call.session}",
                        "session_id": f"s{call.session:024x}", "n_turns": shape.calls,
                        "reward": 1.0,
                    }
                )  # fmt: skip
                file.write(f'{", " if call.session else "["}{head[:-1]}, "turns": [')
                file.write(", ".join(turns) + "]}")
                turns.clear()
        file.write("]")


def write_events(place: Path, size: int, shape: Shape = SHORT) -> None:
    """Events of Agent Lightning, a file a rollout."""

    def event(call: Asked) -> str:
        data = {
            "model": "m", "model_version": 7, "request": request_of(call),
            "response": answer_of(call),
        }  # fmt: skip
        return json.dumps(
            {
                "event_type": "model_request", "rollout_id": f"ro-{call.session}",
                "attempt_id": "0", "timestamp": 1.7e9 + call.number, "data": data,
            }
        )  # fmt: skip

    for call, text in _sessions(size, event, shape):
        with (place / f"ro-{call.session}.events.json").open("a") as file:
            file.write(f"{', ' if call.turn else '['}{text}{']' * call.is_last}")
