"""Whatever a server sends: bounds of memory and time, where requests go, what is shown."""

import asyncio
import gc
import gzip
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.scorers.wire import endlessly, response, sends, wire
from wmo_distill.errors import UsageError
from wmo_distill.scorers.calls import Calls
from wmo_distill.scorers.http import Endpoint, VllmScorer, answer_bytes
from wmo_distill.scorers.scorer import Score, ScoreError, ScoreFault

MOST = 100_000
KEY = "sk-proj/9f8e7d6c5b4a3210+Zz=="


def post(url: str, **given: Any) -> Any:
    async def ask() -> Any:
        endpoint = Endpoint(url, **given)
        try:
            return await endpoint.post("/generate", {"input_ids": [1, 2]}, MOST)
        finally:
            await endpoint.close()

    return asyncio.run(ask())


def refusal(url: str, **given: Any) -> ScoreError:
    with pytest.raises(ScoreError) as caught:
        post(url, **given)
    return caught.value


def test_the_bound_is_that_of_the_manual() -> None:
    assert (answer_bytes(1, 0), answer_bytes(10, 4)) == (65_000, 114_000)
    manual = Path(__file__).parents[2] / "docs/training.md"
    assert "64 kB and 1 kB for each token and candidate" in manual.read_text()


def test_an_answer_of_the_bound_is_read_and_one_byte_more_is_not() -> None:
    body = b'"' + b"a" * (MOST - 2) + b'"'
    with wire(sends(response(body))) as server:
        assert post(server.url) == "a" * (MOST - 2)
    with wire(sends(response(body + b" "))) as server:
        assert refusal(server.url).fault is ScoreFault.ANSWER_TOO_LARGE


ENDLESS = b"HTTP/1.1 200 OK\r\n"
CHUNKED = ENDLESS + b"transfer-encoding: chunked\r\n\r\n"
BOMB = response(gzip.compress(bytes(200_000_000), 1), "content-encoding: gzip")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (sends(BOMB), ScoreFault.ANSWER_TOO_LARGE),
        (endlessly(ENDLESS + b"\r\n", b"0" * 65536), ScoreFault.ANSWER_TOO_LARGE),
        (endlessly(CHUNKED, b"10000\r\n" + b"0" * 65536 + b"\r\n"), ScoreFault.ANSWER_TOO_LARGE),
        (endlessly(ENDLESS, b"x: " + b"0" * 4000 + b"\r\n"), ScoreFault.UNAVAILABLE),
        (endlessly(ENDLESS, b"0" * 65536), ScoreFault.UNAVAILABLE),
        (endlessly(b"HTTP/1.1 500 No\r\n\r\n", b"0" * 65536), ScoreFault.UNAVAILABLE),
        (endlessly(b"HTTP/1.1 400 No\r\n\r\n", b"0" * 65536), ScoreFault.REFUSED),
        (sends(response(b"no gzip", "content-encoding: gzip")), ScoreFault.UNAVAILABLE),
        (sends(response(b"no br", "content-encoding: br")), ScoreFault.UNAVAILABLE),
        (sends(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1"), ScoreFault.UNAVAILABLE),
        (sends(b"SSH-2.0-OpenSSH\r\n"), ScoreFault.UNAVAILABLE),
        (sends(b""), ScoreFault.UNAVAILABLE),
    ],
)
def test_no_answer_takes_memory(answer: Any, fault: ScoreFault) -> None:
    """Each is refused for what it is, however long a busy machine takes."""
    with wire(answer) as server:
        tracemalloc.start()
        try:
            error = refusal(server.url, timeout=300.0)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert error.fault is fault
        assert peak < 10_000_000


@pytest.mark.parametrize("begin", [ENDLESS + b"\r\n", b""], ids=["body", "status"])
def test_no_answer_takes_time(begin: bytes) -> None:
    with wire(endlessly(begin, b"0", 0.01)) as server:
        assert refusal(server.url, timeout=2.0).fault is ScoreFault.UNAVAILABLE


@pytest.mark.parametrize("answer", [BOMB, response(b"?" * 600_000, "connection: close")])
def test_refused_answers_do_not_add_up(answer: bytes) -> None:
    """No frame of an error keeps an answer until the collector comes."""
    faults: list[ScoreFault] = []

    def take(key: int, answer: Score | ScoreError) -> None:
        assert isinstance(answer, ScoreError)
        faults.append(answer.fault)

    ids = np.arange(1000)
    gc.disable()
    tracemalloc.start()
    try:
        with wire(sends(answer)) as server:
            calls = Calls(VllmScorer(Endpoint(server.url), "m"), 2, attempts=2, wait=0.0)
            calls.make(((n, ids, None) for n in range(40)), 0, take)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert len(faults) == 40
    assert kept < 5_000_000


def test_an_answer_that_is_too_large_is_not_waited_for() -> None:
    with wire(endlessly(ENDLESS + b"\r\n", b"0" * 65536)) as server:
        refusal(server.url)
        assert server.left.wait(300.0)


def test_a_redirect_is_not_followed() -> None:
    with (
        wire(sends(response(b"{}"))) as other,
        wire(sends(response(b"", f"location: {other.url}/", status="307 Go"))) as server,
    ):
        error = refusal(server.url, api_key=KEY)
        assert error.fault is ScoreFault.REFUSED
        assert "HTTP 307: a redirect, which is not followed" in str(error)
        assert not other.heads


def test_proxies_netrc_and_cookies_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with (
        wire(sends(response(b"{}"))) as proxy,
        wire(sends(response(b"{}", "set-cookie: a=b", "connection: close"))) as server,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)

        async def twice() -> None:
            endpoint = Endpoint(server.url)
            await endpoint.post("/generate", {}, MOST)
            await endpoint.post("/generate", {}, MOST)
            await endpoint.close()

        asyncio.run(twice())
        assert not proxy.heads
        assert len(server.heads) == 2
        said = "\n".join(server.heads).lower()
        assert "authorization" not in said
        assert "cookie" not in said


@pytest.mark.parametrize(
    "body",
    [
        f"no such key: {KEY}",
        json.dumps({"key": KEY}) + ",",
        json.dumps({"key": KEY}).replace("/", "\\/") + ",",
        "cut: " + KEY[:16],
        "x" * 190 + KEY,
        "x" * 985 + KEY,
        KEY * 40,
    ],
)
@pytest.mark.parametrize("status", ["200 OK", "401 No", "500 No"])
def test_a_key_that_a_server_repeats_is_not_shown(
    body: str, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)
    with wire(sends(response(body.encode(), status=status))) as server:
        said = str(refusal(server.url, api_key=KEY))
        assert f"Bearer {KEY}" in server.heads[0]
    shown = said + caplog.text
    assert not any(KEY[at : at + 6] in shown for at in range(len(KEY) - 5))


@pytest.mark.parametrize("key", ["a\nb: c", "a\rb", "clé", "ключ", "a b", " a", "a\0", "a\ud800"])
def test_a_key_that_cannot_be_sent_is_refused_unseen(key: str) -> None:
    with pytest.raises(UsageError, match="api_key: expected visible ASCII") as caught:
        Endpoint("http://localhost", api_key=key)
    assert key not in str(caught.value)


@pytest.mark.parametrize("url", ["http://me:pass-word@host", "https://pass-word@host/v1"])
def test_a_password_in_the_url_is_refused_unseen(url: str) -> None:
    with pytest.raises(UsageError, match="expected no user or password") as caught:
        Endpoint(url)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host",
        "ftp://host",
        "http://",
        "http://host:99999",
        "http://[",
        "http://h?k=secret",
        "http://h\n",
    ],
)
def test_what_is_no_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="url: expected the server") as caught:
        Endpoint(url)
    assert "secret" not in str(caught.value)


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(UsageError, match=r"found none; install it with: pip install .*\[score\]"):
        Endpoint("http://localhost")


@pytest.mark.parametrize(
    "url", ["http://h", "https://h.example:65535/v1/", "http://[::1]:80", "http://bücher.example"]
)
def test_what_is_a_server_is_taken(url: str) -> None:
    Endpoint(url)


@pytest.mark.parametrize("status", ["200 OK", "400 No", "503 No"])
def test_what_a_server_says_is_one_printable_line(status: str) -> None:
    body = "a\nb\x1b[31m\u202eevil\x00\x9b\u2028".encode() + b"\xff" + b"x" * 5000
    with wire(sends(response(body, status=status))) as server:
        said = str(refusal(server.url))
    assert said.isprintable()
    assert "a\\nb\\x1b[31m\\u202eevil\\x00" in said
    assert len(said.partition(": ")[2]) == 200


def test_escapes_do_not_make_a_line_longer() -> None:
    assert len(str(ScoreError(ScoreFault.REFUSED, "\U000e0001" * 300)).partition(": ")[2]) == 200
    assert str(ScoreError(ScoreFault.REFUSED, "é" * 200)) == "refused: " + "é" * 200
