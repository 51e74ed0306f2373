"""Servers that misbehave: memory, end, secrets and work of `score` and `check-logprobs`.

Against each the command ends by itself or within 10 s of Ctrl-C, at no more than 500 MB; shows no
key and no control characters; and what was scored before is still there.
"""

import gzip
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.proof.chats import chat, dataset, record
from tests.proof.lm import LanguageModel
from tests.proof.server import serve
from tests.scorers.wire import endlessly, response, sends, wire
from tests.torture.attack import LeftOut, Try, times
from tests.torture.strace import ROOT
from wmo_distill.datums.shards import build_datum_shards
from wmo_distill.scorers.cache import ScoreCache
from wmo_distill.scorers.verify import verify_scores

KEY = "sk-proj/9f8e7d6c5b4a3210+Zz=="
SCORED = 5
MOST_BYTES = 500_000_000
MOST_SECONDS = 10.0
PATIENCE = 20.0
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
CONTROLS = "\x1b[31m\u202egood\x07\u2066\x9b2J"
Answer = Callable[[socket.socket], None]


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _json(value: object) -> Answer:
    return sends(response(json.dumps(value).encode()))


def _vllm(prompt_logprobs: object) -> Answer:
    return _json({"choices": [{"index": 0, "text": "", "prompt_logprobs": prompt_logprobs}]})


def _refusal(body: str, status: str = "400 No", *headers: str) -> Answer:
    return sends(response(body.encode(), *headers, status=status))


def ways() -> dict[str, Answer]:
    """How a server misbehaves, by name."""
    bomb = gzip.compress(bytes(400_000_000), 1)
    digits = "1" * 5000
    deep = b"[" * 100_000 + b"]" * 100_000
    row = {"1": {"logprob": -1.0, "rank": 1}}
    return {
        "endless body": endlessly(OK + b"\r\n", b"0" * 65536),
        "endless chunks": endlessly(CHUNKED, b"10000\r\n" + b"0" * 65536 + b"\r\n"),
        "one chunk without end": endlessly(CHUNKED + b"fffffffff\r\n", b"0" * 65536),
        "endless header": endlessly(OK + b"x: ", b"0" * 65536),
        "endless headers": endlessly(OK, b"x: 0\r\n"),
        "endless interim answers": endlessly(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        "endless error body": endlessly(b"HTTP/1.1 500 No\r\n\r\n", b"0" * 65536),
        "gzip bomb": sends(response(bomb, "content-encoding: gzip")),
        "gzip bomb as an error": sends(response(bomb, "content-encoding: gzip", status="400 No")),
        "drip of a body": endlessly(OK + b"\r\n", b"0", 0.05),
        "drip of a header": endlessly(OK + b"x: ", b"0", 0.05),
        "silence": endlessly(b"", b"", 3600.0),
        "reset": _reset,
        "close": sends(b""),
        "cut": sends(OK + b"content-length: 9000\r\n\r\n[1"),
        "length of 5,000 digits": sends(OK + f"content-length: {digits}\r\n\r\n1".encode()),
        "status of 5,000 digits": sends(f"HTTP/1.1 {digits} OK\r\n\r\n".encode()),
        "other protocol": sends(b"SSH-2.0-OpenSSH_9.9\r\n"),
        "redirect elsewhere": _refusal("", "307 Go", "location: http://127.0.0.1:9/"),
        "redirect to a file": _refusal("", "302 Go", "location: file:///etc/passwd"),
        "redirect to itself": _refusal("", "308 Go", "location: /v1/completions"),
        "busy for ever": _refusal("", "503 Busy", "retry-after: 1000000000"),
        "busy until 5,000 digits": _refusal("", "429 Busy", f"retry-after: {digits}"),
        "busy until no time": _refusal("", "429 Busy", "retry-after: nan"),
        "nested JSON": sends(response(deep)),
        "key of 5,000 digits": _vllm([None, {digits: row["1"]}]),
        "integer of 5,000 digits": sends(response(b'{"choices": [' + digits.encode() + b"]}")),
        "null among candidates": _vllm([None, {"1": None}, None]),
        "too few": _vllm([None, row]),
        "too many": _vllm([None] + [row] * 3000),
        "no list": _vllm({"0": row}),
        "null": _json(None),
        "not UTF-8": sends(response(b'"\xff\xfe"')),
        "words for numbers": _vllm([None, *[{"1": {"logprob": "NaN"}}] * 40]),
        "the key": _refusal(json.dumps({"error": f"no such key: {KEY}"}), "401 No"),
        "the key, escaped": _refusal(json.dumps(KEY).replace("/", "\\/"), "403 No"),
        "the key, cut": _refusal("x" * 190 + KEY, "401 No"),
        "the key as an answer": sends(response(KEY.encode())),
        "control characters": _refusal(CONTROLS),
        "control characters in the status": sends(
            b"HTTP/1.1 400 " + CONTROLS.encode() + b"\r\ncontent-length: 0\r\n\r\n"
        ),
        "control characters as an answer": sends(response(CONTROLS.encode())),
    }


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    seconds: float
    """After Ctrl-C; 0.0 where none was needed."""
    peak: int
    said: str


def attack(effort: float, place: Path) -> Iterator[Try | LeftOut]:
    datums, scored = _prepared(place)
    plan = [
        (command, at_once, way)
        for at_once in (False, True)
        for command in ("score", "check-logprobs")
        for way in ways().items()
    ]
    step = max(1, len(plan) // times(len(plan), effort))
    for command, at_once, (name, answer) in plan[::step]:
        cache = place / "cache"
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(scored, cache)
        with wire(answer) as server:
            run = _command(command, datums, cache, server.url)
            ended = _ended(run, place, server.heads if at_once else [])
        fault = _fault(ended, cache)
        how = ", Ctrl-C at the first request" if at_once else ""
        yield Try(f"server: {command}", fault and f"{command}, {name}{how}: {fault}")


def _prepared(place: Path) -> tuple[Path, Path]:
    """Training sequences, and a cache in which the first few are scored."""
    rng = np.random.default_rng(3)
    records = [record(chat(LanguageModel(), rng), n) for n in range(12)]
    build_datum_shards(dataset(place / "shards", records), place / "datums")
    refusing = lambda number, ids: None if number <= SCORED else "400"  # noqa: E731
    with serve(LanguageModel(seed=5), refusing) as server:
        run = _command("score", place / "datums", place / "scored", server.url)
        subprocess.run(run, cwd=ROOT, check=True, capture_output=True, env=_env())
    assert len(ScoreCache(place / "scored")) == SCORED
    return place / "datums", place / "scored"


def _command(command: str, datums: Path, cache: Path, url: str) -> list[str]:
    keep = "--cache" if command == "score" else "--store"
    scorer = ["--scorer", "vllm", "--url", url, "--model", "t", "--api-key-env", "TORTURE_KEY"]
    bounds = ["--timeout", "3", "--attempts", "2", "--concurrency", "4"]
    return [sys.executable, "-m", "wmo_distill", command, str(datums), keep, str(cache), *scorer,
        *bounds]  # fmt: skip


def _env() -> dict[str, str]:
    return {**os.environ, "TORTURE_KEY": KEY}


def _ended(command: list[str], place: Path, stop: list[str]) -> Ended:
    """Run to the end; Ctrl-C as soon as there is something in `stop`, or when patience ends."""
    with ExitStack() as files, (place / "said").open("wb+") as said:
        process = subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=said, env=_env())
        files.callback(process.kill)
        began, stopped = time.monotonic(), 0.0
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            now = time.monotonic()
            if pid:
                break
            if not stopped and (stop or now - began > PATIENCE):
                process.send_signal(signal.SIGINT)
                stopped = now
            if stopped and now - stopped > 6 * MOST_SECONDS:
                process.kill()
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode("utf-8", "replace")
    scale = 1 if sys.platform == "darwin" else 1024
    seconds = now - stopped if stopped else 0.0
    return Ended(process.returncode, seconds, usage.ru_maxrss * scale, text)


def _fault(ended: Ended, cache: Path) -> str | None:
    odd = sorted({c for c in ended.said if not c.isprintable() and c != "\n"})
    held = [file.read_bytes() for file in cache.rglob("*") if file.is_file()]
    parts = [KEY[at : at + 8] for at in range(len(KEY) - 7)]
    kept = len(ScoreCache(cache))
    stopped = ended.code in (128 + signal.SIGINT, -signal.SIGINT)
    checks = {
        f"exit {ended.code}": ended.code in (0, 1) or stopped,
        f"ended {ended.seconds:.1f} s after Ctrl-C": ended.seconds <= MOST_SECONDS,
        f"peak memory of {ended.peak / 1e6:.0f} MB": ended.peak <= MOST_BYTES,
        "the key is shown": not any(part in ended.said for part in parts),
        "the key is kept": not any(part.encode() in data for data in held for part in parts),
        f"control characters {odd}": not odd,
        "a traceback": "Traceback" not in ended.said and "unexpected" not in ended.said,
        f"{kept} scores of {SCORED} are left": kept >= SCORED,
        "the cache is damaged": verify_scores(cache) == [],
    }
    found = [what for what, good in checks.items() if not good]
    return f"{'; '.join(found)}; {ended.said.strip()[-300:]!r}" if found else None
