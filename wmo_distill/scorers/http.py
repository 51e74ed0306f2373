"""Scorers behind HTTP: vLLM, SGLang, and servers that echo a prompt with its log-probabilities."""

import math
import threading
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import numpy as np
import orjson

from wmo_distill.arrays import Ids
from wmo_distill.datums.topk import Candidates
from wmo_distill.errors import UsageError
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault, number

_ANSWER_BYTES = 2_000_000_000


class Endpoint:
    """POSTs JSON to one server over kept connections.

    A call ends after `timeout` seconds, however slowly bytes drip in.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = 600.0, connections: int = 8
    ) -> None:
        try:
            import urllib3
        except ImportError:
            raise UsageError(
                "scoring over HTTP: expected urllib3, found none; "
                "install it with: pip install 'wmo-distill[score]'"
            ) from None
        self.url, self.timeout = url.rstrip("/"), timeout
        self._pool = urllib3.PoolManager(maxsize=connections, retries=False, block=False)
        self._closed = threading.Event()
        self._errors = urllib3.exceptions.HTTPError
        self._headers = {"content-type": "application/json"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON value of the answer; ScoreError where there is none."""
        # No time-out of a socket bounds a call whose headers drip: it is left alone in its thread.
        found: list[Any] = []
        done = threading.Event()

        def call() -> None:
            try:
                found.append(self._post(path, body))
            except BaseException as error:  # raised below, where somebody waits for it
                found.append(error)
            done.set()

        deadline = time.monotonic() + self.timeout
        threading.Thread(target=call, daemon=True).start()
        while not done.wait(min(0.2, max(0.0, deadline - time.monotonic()))):
            if self._closed.is_set():
                raise ScoreError(ScoreFault.UNAVAILABLE, "given up")
            if time.monotonic() >= deadline:
                raise ScoreError(ScoreFault.UNAVAILABLE, f"no whole answer in {self.timeout:g} s")
        (answer,) = found
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        """End the calls that are under way, and let no other begin."""
        self._closed.set()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        deadline = time.monotonic() + self.timeout
        if self._closed.is_set():
            raise ScoreError(ScoreFault.UNAVAILABLE, "given up")
        try:
            response = self._pool.request(
                "POST",
                self.url + path,
                body=orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY),
                headers=self._headers,
                timeout=self.timeout,
                preload_content=False,
                redirect=False,
            )
            try:
                data = self._read(response, deadline)
            finally:
                response.release_conn()
        except self._errors as error:
            found = f"{type(error).__name__}: {error}"
            raise ScoreError(ScoreFault.UNAVAILABLE, found) from None
        self._raise_for(response.status, data, response.headers.get("retry-after"))
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            raise ScoreError(ScoreFault.UNREADABLE, f"no JSON: {data[:80]!r}") from None

    def _read(self, response: Any, deadline: float) -> bytes:
        pieces = []
        size = 0
        while piece := response.read1(1 << 20):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > deadline:
                response.close()
                raise ScoreError(ScoreFault.UNAVAILABLE, f"no whole answer in {self.timeout:g} s")
            if size > _ANSWER_BYTES:
                response.close()
                raise ScoreError(ScoreFault.UNREADABLE, f"an answer of over {_ANSWER_BYTES} bytes")
        return b"".join(pieces)

    @staticmethod
    def _raise_for(status: int, data: bytes, after: str | None) -> None:
        if status == 200:
            return
        found = f"HTTP {status}: {data[:200].decode('utf-8', 'replace')}"
        if status in (408, 409, 425, 429) or status >= 500:
            raise ScoreError(ScoreFault.UNAVAILABLE, found, after=_seconds(after))
        raise ScoreError(ScoreFault.REFUSED, found)


def _seconds(after: str | None) -> float | None:
    """What a Retry-After header asks for, in seconds from now."""
    if after is None:
        return None
    try:
        return max(0.0, float(after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except ValueError:
        return None


class VllmScorer:
    """vLLM's `prompt_logprobs` on its OpenAI-compatible completions endpoint."""

    def __init__(self, endpoint: Endpoint, model: str, tokenizer: str | None = None) -> None:
        self._endpoint, self._model, self.tokenizer = endpoint, model, tokenizer

    def score(self, token_ids: Ids, top_k: int) -> Score:
        answer = self._endpoint.post(
            "/v1/completions",
            {
                "model": self._model,
                "prompt": token_ids.tolist(),
                "max_tokens": 1,
                "temperature": 0.0,
                "prompt_logprobs": top_k,
                "add_special_tokens": False,
            },
        )
        return read_vllm(answer, token_ids, top_k)

    def close(self) -> None:
        self._endpoint.close()


def read_vllm(answer: Any, token_ids: Ids, top_k: int) -> Score:
    """The score that an answer with `prompt_logprobs` holds."""
    rows = _at(answer, "choices", 0, "prompt_logprobs")
    if not isinstance(rows, list):
        raise ScoreError(ScoreFault.UNREADABLE, "no prompt_logprobs in the answer")
    _same_length(rows, token_ids)
    logprobs = np.full(token_ids.size, math.nan)
    top: list[Candidates | None] = [None] * token_ids.size
    for i in range(1, token_ids.size):
        row = rows[i]
        token = str(token_ids[i])
        if row is None:  # a fault where the token is trained, which `checked` finds
            continue
        if not isinstance(row, dict):
            raise ScoreError(ScoreFault.UNREADABLE, f"no candidates at position {i}")
        if token not in row:
            raise ScoreError(ScoreFault.OTHER_TOKENS, f"no id {token} at position {i}")
        logprobs[i] = number(_at(row, token, "logprob"))
        # The token itself is listed beside the likeliest, whatever its own rank.
        ranked = [(_id(key), number(_at(value, "logprob"))) for key, value in row.items()]
        top[i] = sorted(ranked, key=lambda one: (-one[1], one[0]))[:top_k]
    return Score(logprobs, top if top_k else None)


class SglangScorer:
    """SGLang's `/generate` with `return_logprob` from the first token on."""

    def __init__(self, endpoint: Endpoint, tokenizer: str | None = None) -> None:
        self._endpoint, self.tokenizer = endpoint, tokenizer

    def score(self, token_ids: Ids, top_k: int) -> Score:
        answer = self._endpoint.post(
            "/generate",
            {
                "input_ids": token_ids.tolist(),
                "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
                "return_logprob": True,
                "logprob_start_len": 0,
                "top_logprobs_num": top_k,
            },
        )
        rows = _at(answer, "meta_info", "input_token_logprobs")
        if not isinstance(rows, list):
            raise ScoreError(ScoreFault.UNREADABLE, "no input_token_logprobs in the answer")
        _same_length(rows, token_ids)
        logprobs = np.full(token_ids.size, math.nan)
        for i, row in enumerate(rows):
            if _at(row, 1) != token_ids[i]:
                raise ScoreError(ScoreFault.OTHER_TOKENS, f"another id at position {i}")
            if i:
                logprobs[i] = number(_at(row, 0))
        if not top_k:
            return Score(logprobs)
        listed = _at(answer, "meta_info", "input_top_logprobs")
        if not isinstance(listed, list):
            raise ScoreError(ScoreFault.UNREADABLE, "no input_top_logprobs in the answer")
        top = [
            None if not row else [(_id(_at(one, 1)), number(_at(one, 0))) for one in row]
            for row in listed
        ]
        return Score(logprobs, [None, *top[1:]] if top else top)

    def close(self) -> None:
        self._endpoint.close()


class EchoScorer:
    """The completions endpoint that echoes its prompt (`echo`, `logprobs`), as other servers do.

    The echo names tokens as text, so only their number can be checked, not the ids.
    """

    def __init__(self, endpoint: Endpoint, model: str, tokenizer: str | None = None) -> None:
        self._endpoint, self._model, self.tokenizer = endpoint, model, tokenizer

    def score(self, token_ids: Ids, top_k: int) -> Score:
        if top_k:
            raise ScoreError(ScoreFault.REFUSED, "an echo has no ids for the likeliest tokens")
        answer = self._endpoint.post(
            "/v1/completions",
            {
                "model": self._model,
                "prompt": token_ids.tolist(),
                "max_tokens": 0,
                "temperature": 0.0,
                "echo": True,
                "logprobs": 1,
            },
        )
        rows = _at(answer, "choices", 0, "logprobs", "token_logprobs")
        if not isinstance(rows, list):
            raise ScoreError(ScoreFault.UNREADABLE, "no token_logprobs in the answer")
        _same_length(rows, token_ids)
        return Score(np.array([number(row) for row in rows], np.float64))

    def close(self) -> None:
        self._endpoint.close()


def _same_length(rows: list[Any], token_ids: Ids) -> None:
    if len(rows) != token_ids.size:
        raise ScoreError(ScoreFault.WRONG_LENGTH, f"{len(rows)} values for {token_ids.size} tokens")


def _id(value: Any) -> int:
    """A token id, written as a number or, as a key, in digits."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ScoreError(ScoreFault.UNREADABLE, f"no token id: {value!r:.40}")
    return value


def _at(value: Any, *path: str | int) -> Any:
    """What lies at a path of keys and indices; ScoreError where the answer has another form."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise ScoreError(ScoreFault.UNREADABLE, f"no {step!r} in the answer") from None
    return value
