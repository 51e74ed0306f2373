"""The model behind a real HTTP server on loopback, which can be made to misbehave."""

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.proof.lm import LanguageModel

Fault = str | bytes | None
"""500, 429, 400, busy (for 300 s), stall, drip, close, garbage, short, nan, null, infinite,
positive, other_ids; or the bytes to answer with."""


@dataclass
class Served:
    """A running server; `requests` are the bodies that it has got."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0
    _now: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> int:
        with self._lock:
            self.requests.append(body)
            self.paths.append(path)
            self.headers.append(headers)
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            return len(self.requests)

    def leave(self) -> None:
        with self._lock:
            self._now -= 1


@contextmanager
def serve(
    model: LanguageModel,
    fault: Callable[[int, list[int]], Fault] = lambda number, ids: None,
    *,
    delay: float = 0.0,
) -> Iterator[Served]:
    """A server of `model`; `fault` is asked with the number of the request, from 1, and its ids."""
    served = Served("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one packet an answer, or the other side waits to acknowledge

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            number = served.enter(self.path, body, dict(self.headers))
            try:
                time.sleep(delay)
                ids = body.get("input_ids") or body["prompt"]
                self._answer(fault(number, ids), self.path, body, ids)
            finally:
                served.leave()

        def _answer(self, bad: Fault, path: str, body: dict[str, Any], ids: list[int]) -> None:
            if bad == "close":
                self.close_connection = True
                self.connection.close()
            elif isinstance(bad, bytes):
                self._send(200, bad)
            elif bad in ("500", "400", "429"):
                self._send(int(bad), b'{"error": "as asked"}', after=0)
            elif bad == "busy":
                self._send(503, b"", after=300)
            elif bad == "stall":
                time.sleep(60.0)  # in a thread that nobody waits for
                self.close_connection = True
            elif bad == "garbage":
                self._send(200, b"<html>busy</html>")
            else:
                seen = [t + 1 for t in ids] if bad == "other_ids" else ids
                values = damaged([*map(float, model.logprobs(ids))], bad)
                seen = seen[: len(values)]
                text = json.dumps(form(model, path, body, ids, seen, values)).encode()
                self._send(200, text, drip=bad == "drip")

        def _send(
            self, status: int, data: bytes, *, drip: bool = False, after: int | None = None
        ) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            if after is not None and status != 500:
                self.send_header("retry-after", str(after))
            self.end_headers()
            if not drip:
                self.wfile.write(data)
                return
            for at in range(0, len(data), 4):
                self.wfile.write(data[at : at + 4])
                self.wfile.flush()
                time.sleep(0.05)

        def log_message(self, *args: Any) -> None:
            pass

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client went away
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64  # a connection beyond it would try again after a second

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def damaged(values: list[float], bad: Fault) -> list[float | None]:
    """The values as a faulty server would send them."""
    told: list[float | None] = [None, *values[1:]]
    if bad == "short":
        return told[:-1]
    wrong = {"nan": math.nan, "null": None, "infinite": -math.inf, "positive": 0.5}
    if bad in wrong and len(told) > 1:
        told[len(told) // 2 or 1] = wrong[bad]
    return told


def form(
    model: LanguageModel,
    path: str,
    body: dict[str, Any],
    ids: list[int],
    seen: list[int],
    values: list[float | None],
) -> dict[str, Any]:
    """The answer as the server of that path writes it."""
    k = body.get("prompt_logprobs") or body.get("top_logprobs_num") or 0
    rows = model.rows(ids) if k else [None] * len(ids)
    likeliest = [
        [] if row is None else [(int(t), float(row[t])) for t in (-row).argsort(kind="stable")[:k]]
        for row in rows
    ][: len(values)]
    if path == "/generate":
        pairs = zip(values, seen, strict=True)
        meta: dict[str, Any] = {"input_token_logprobs": [[x, t, None] for x, t in pairs]}
        if k:
            meta["input_top_logprobs"] = [
                [[x, t, None] for t, x in row] or None for row in likeliest
            ]
        return {"text": "", "meta_info": meta}
    if body.get("echo"):
        told = {"tokens": [str(t) for t in seen], "token_logprobs": values}
        return {"choices": [{"index": 0, "text": "", "logprobs": told}]}
    prompt: list[Any] = [
        None
        if i == 0
        else {
            **{str(t): {"logprob": x, "rank": r} for r, (t, x) in enumerate(likeliest[i], 1)},
            str(seen[i]): {"logprob": values[i], "rank": 1},
        }
        for i in range(len(values))
    ]
    return {"choices": [{"index": 0, "text": "", "prompt_logprobs": prompt}]}
