"""Scorers behind HTTP: vLLM, SGLang, and servers that echo a prompt with its log-probabilities."""

import asyncio
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import orjson

from wmo_distill.arrays import Ids
from wmo_distill.datums.topk import Candidates
from wmo_distill.errors import UsageError
from wmo_distill.scorers.scorer import (
    Score,
    ScoreError,
    ScoreFault,
    number,
    token_id,
    without_key,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession

is_key = re.compile("[!-~]+").fullmatch
"""An API key is sent as it is: anything else would be refused, or altered, on the way."""
_is_server = re.compile(
    r"https?://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:[0-9]{1,4}|:[1-5][0-9]{4}|:6[0-5][0-9]{3})?(/[\w./~%+-]*)?"
).fullmatch


class Endpoint:
    """POSTs JSON to one server, and to no other: redirects are not followed, and proxies, `.netrc`
    and cookies not used. A call ends after `timeout` seconds, however slowly bytes drip in.
    """

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 600.0) -> None:
        """UsageError, which shows neither key nor password, for what cannot be asked."""
        try:
            import aiohttp
        except ImportError:
            raise UsageError(
                "scoring over HTTP: expected aiohttp, found none; "
                "install it with: pip install 'wmo-distill[score]'"
            ) from None
        if "@" in url:
            raise UsageError("url: expected no user or password, found one; give an API key")
        if not _is_server(url):
            raise UsageError(
                f"url: expected the server, such as http://localhost:8000, "
                f"found {url.partition('?')[0]!r}"
            )
        if api_key and not is_key(api_key):
            raise UsageError("api_key: expected visible ASCII characters, found others")
        self._url, self._timeout, self._key = url.rstrip("/"), timeout, api_key or ""
        self._aiohttp = aiohttp
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, ClientSession] = (
            WeakKeyDictionary()
        )
        self._headers = {"content-type": "application/json", "accept-encoding": "gzip"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"

    async def post(self, path: str, body: Mapping[str, Any], most: int) -> Any:
        """The JSON value of an answer of at most so many bytes; ScoreError where there is none."""
        data = bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._session().post(
                    self._url + path,
                    data=orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY),
                    allow_redirects=False,
                ) as response,
            ):
                async for piece in response.content.iter_any():  # unpacked, in bounded pieces
                    data += piece
                    if len(data) > most:
                        break
            said = without_key(data[:1000].decode("utf-8", "replace"), self._key)
            self._raise_for(response.status, said, response.headers.get("retry-after"))
            if len(data) > most:
                raise ScoreError(ScoreFault.ANSWER_TOO_LARGE, f"over {most:,} bytes")
            return orjson.loads(data)
        except TimeoutError:
            found = f"no whole answer in {self._timeout:g} s"
            raise ScoreError(ScoreFault.UNAVAILABLE, found) from None
        except orjson.JSONDecodeError:
            raise ScoreError(ScoreFault.UNREADABLE, f"no JSON: {said}") from None
        except (self._aiohttp.ClientError, OSError) as error:
            found = without_key(f"{type(error).__name__}: {error}", self._key)
            raise ScoreError(ScoreFault.UNAVAILABLE, found) from None
        finally:
            data.clear()  # a frame of an error may be kept until the collector comes

    async def close(self) -> None:
        """End this event loop's connections; the next call opens others."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def _session(self) -> "ClientSession":
        """This event loop's: several runs, each with a loop of its own, may share an endpoint."""
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = self._aiohttp.ClientSession(
                headers=self._headers,
                connector=self._aiohttp.TCPConnector(limit=0),
                cookie_jar=self._aiohttp.DummyCookieJar(),
                timeout=self._aiohttp.ClientTimeout(),
                trust_env=False,
            )
        return self._sessions[loop]

    @staticmethod
    def _raise_for(status: int, said: str, after: str | None) -> None:
        if status == 200:
            return
        if 300 <= status < 400:
            said = "a redirect, which is not followed"
        found = f"HTTP {status}: {said}"
        if status in (408, 409, 425, 429) or status >= 500:
            raise ScoreError(ScoreFault.UNAVAILABLE, found, after=_seconds(after))
        raise ScoreError(ScoreFault.REFUSED, found)


def answer_bytes(tokens: int, top_k: int) -> int:
    """The most bytes that an answer is read to: 64 kB, and 1 kB for each token and candidate."""
    return 64_000 + 1_000 * tokens * (1 + top_k)


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
    except (ValueError, OverflowError):
        return None


@dataclass(slots=True)
class _Served:
    endpoint: Endpoint

    async def close(self) -> None:
        await self.endpoint.close()


@dataclass(slots=True)
class VllmScorer(_Served):
    """vLLM's `prompt_logprobs` on its OpenAI-compatible completions endpoint."""

    model: str
    tokenizer: str | None = None

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        body = {
            "model": self.model,
            "prompt": token_ids.tolist(),
            "max_tokens": 1,
            "temperature": 0.0,
            "prompt_logprobs": top_k,
            "add_special_tokens": False,
        }
        most = answer_bytes(token_ids.size, top_k)
        return read_vllm(await self.endpoint.post("/v1/completions", body, most), token_ids, top_k)


def read_vllm(answer: Any, token_ids: Ids, top_k: int) -> Score:
    """The score that an answer with `prompt_logprobs` holds."""
    rows = _rows(answer, token_ids, "choices", 0, "prompt_logprobs")
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
        # The token itself is listed with the likeliest, whatever its own rank.
        ranked = [(token_id(key), number(_at(value, "logprob"))) for key, value in row.items()]
        # No number comes first, for `checked` to find it.
        ranked.sort(key=lambda one: (not math.isnan(one[1]), -one[1], one[0]))
        top[i] = ranked[:top_k]
    return Score(logprobs, top if top_k else None)


@dataclass(slots=True)
class SglangScorer(_Served):
    """SGLang's `/generate` with `return_logprob` from the first token on."""

    tokenizer: str | None = None

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        body = {
            "input_ids": token_ids.tolist(),
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "logprob_start_len": 0,
            "top_logprobs_num": top_k,
        }
        most = answer_bytes(token_ids.size, top_k)
        return read_sglang(await self.endpoint.post("/generate", body, most), token_ids, top_k)


def read_sglang(answer: Any, token_ids: Ids, top_k: int) -> Score:
    """The score that an answer with `input_token_logprobs` holds."""
    rows = _rows(answer, token_ids, "meta_info", "input_token_logprobs")
    for i, row in enumerate(rows):
        if token_id(_at(row, 1)) != token_ids[i]:
            raise ScoreError(ScoreFault.OTHER_TOKENS, f"another id at position {i}")
    logprobs = np.array([number(_at(row, 0)) for row in rows], np.float64)
    logprobs[:1] = math.nan
    if not top_k:
        return Score(logprobs)
    top: list[Candidates | None] = [None]
    for row in _rows(answer, token_ids, "meta_info", "input_top_logprobs")[1:]:
        if not isinstance(row, list | None):
            raise ScoreError(ScoreFault.UNREADABLE, "no list of candidates at a position")
        found = [(token_id(_at(one, 1)), number(_at(one, 0))) for one in row or []]
        top.append(found[:top_k] or None)
    return Score(logprobs, top)


@dataclass(slots=True)
class EchoScorer(_Served):
    """The completions endpoint that echoes its prompt (`echo`, `logprobs`), as other servers do.

    The echo names tokens as text, so only their number can be checked, not the ids.
    """

    model: str
    tokenizer: str | None = None

    async def score(self, token_ids: Ids, top_k: int) -> Score:
        if top_k:
            raise ScoreError(ScoreFault.REFUSED, "an echo has no ids for the likeliest tokens")
        body = {
            "model": self.model,
            "prompt": token_ids.tolist(),
            "max_tokens": 0,
            "temperature": 0.0,
            "echo": True,
            "logprobs": 1,
        }
        most = answer_bytes(token_ids.size, 1)
        return read_echo(await self.endpoint.post("/v1/completions", body, most), token_ids)


def read_echo(answer: Any, token_ids: Ids) -> Score:
    """The score that an answer with the prompt's `token_logprobs` holds."""
    rows = _rows(answer, token_ids, "choices", 0, "logprobs", "token_logprobs")
    return Score(np.array([number(row) for row in rows], np.float64))


def _rows(answer: Any, token_ids: Ids, *path: str | int) -> list[Any]:
    """The list at a path, if it has one element for each token."""
    rows = _at(answer, *path)
    if not isinstance(rows, list):
        raise ScoreError(ScoreFault.UNREADABLE, f"no {path[-1]} in the answer")
    if len(rows) != token_ids.size:
        found = f"{len(rows)} values for {token_ids.size} tokens"
        raise ScoreError(ScoreFault.WRONG_LENGTH, found)
    return rows


def _at(value: Any, *path: str | int) -> Any:
    """The value at a path of keys and indices; ScoreError where the answer has another form."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            raise ScoreError(ScoreFault.UNREADABLE, f"no {step!r} in the answer") from None
    return value
