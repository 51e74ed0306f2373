"""The web server: who gets an answer, which answers there are, and what none of them can do."""

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.shards.generated import lawful, write_dataset
from tests.view import data
from tests.view.client import Client, query_text
from wmo_distill.view.answers import Answers
from wmo_distill.view.server import MOST_CONNECTIONS, Serving, serve
from wmo_distill.visible import visible


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("view")


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[Client]:
    out, tokenizer = data.odd(place)
    with data.serving(out, "--tokenizer", tokenizer) as address:
        yield Client(address)


@pytest.mark.parametrize(
    "path",
    ["/", "", "//", "/x/", "/index.html", "/api/state", "/x/api/state", "/favicon.ico", "/%2e%2e/"],
)
def test_without_the_key_there_is_nothing(client: Client, path: str) -> None:
    for wanted in (path, path + client.base[1:-2] + "/"):
        answer, body = client.ask(wanted or "*")
        assert (answer.status, body) in {(403, b""), (400, body)}
    answer, body = client.ask("/")
    assert (answer.status, body) == (403, b"")


def test_the_address_of_a_browser_that_is_opened_is_good_once(tmp_path: Path) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    ready: list[Serving] = []
    answers = Answers(tmp_path / "out")
    run = threading.Thread(target=serve, args=(answers, 0, ready.append), daemon=True)
    run.start()
    while not ready:
        time.sleep(0.01)
    client = Client(ready[0].address())
    once = urlsplit(ready[0].address("/stats", once=True))
    assert (once.fragment, once.path != client.base) == ("/stats", True)
    answer, body = client.ask(once.path)
    assert (answer.status, answer.headers["Location"], body) == (303, client.base, b"")
    answer, body = client.ask(once.path)
    assert (answer.status, body) == (403, b"")
    assert client.ask(client.base)[0].status == 200


def test_a_key_is_compared_as_a_whole(client: Client) -> None:
    for wrong in (client.base[:-2] + "/", client.base[:-1] + "x/", client.base.upper()):
        answer, body = client.ask(wrong + "api/state")
        assert (answer.status, body) == (403, b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "", "127.0.0.1", "127.0.0.1:1"]
)
def test_another_host_is_refused(client: Client, host: str) -> None:
    answer, body = client.ask(client.base, host=host)
    assert (answer.status, body) == (403, b"")
    assert client.ask(client.base, host=f"localhost:{client.address.port}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"])
def test_questions_alone_are_answered(client: Client, method: str) -> None:
    for path in ("", "api/state", "app.js", "nowhere"):
        answer, body = client.ask(client.base + path, method)
        assert (answer.status, body) == (404 if path == "nowhere" else 405, b"")


@pytest.mark.parametrize("path", ["", "app.js", "api/state", "api/episode?id=none", "nowhere"])
def test_every_answer_has_the_headers(client: Client, path: str) -> None:
    for asked in (client.base + path, "/" + path):
        answer, _ = client.ask(asked)
        policy = answer.headers["Content-Security-Policy"]
        assert policy == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
            "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Server"] == "wmo-distill"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_the_page_names_nothing_elsewhere() -> None:
    static = data.ROOT / "wmo_distill/view/static"
    for file in static.iterdir():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        for word in ("http:", "https:", "//cdn", "@import", "innerHTML", "eval(", 'style="'):
            assert word not in text, file.name
        assert text.count("\n") < 300, file.name


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd", "/etc/passwd", "link", "folder/passwd", ".", "..", "agent", "none.txt",
        "agent/../../../odd/manifest.json", "..%2f..%2fetc/passwd", "\x00", "agent/long.txt/x",
        "\\x2e\\x2e/\\x2e\\x2e/odd/manifest.json",
    ],
)  # fmt: skip
def test_no_file_outside_of_the_trial(client: Client, path: str) -> None:
    episode = client.api("episodes", sort="order")["rows"][0]["episode_id"]
    assert "expected a file" in client.api("file", id=episode, path=path)["error"]


def test_a_trial_s_files(client: Client) -> None:
    episode = client.api("episodes")["rows"][0]["episode_id"]
    listed = client.api("files", id=episode)["files"]
    assert [one["path"] for one in listed] == ["<script>window.harmed=1<", "agent/long.txt"]
    pieces, at = [], 0
    while at < listed[1]["bytes"]:
        question = query_text({"id": episode, "path": "agent/long.txt", "start": at})
        answer, body = client.ask(f"{client.base}api/file?{question}")
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert len(body) < 200_000
        pieces.append(body.decode())
        at = int(answer.headers["X-File-Next"])
    text = "".join(pieces)
    assert data.ODD[0] in text
    assert "x" * 1_000_000 in text
    assert "\\x1b[2J" in text
    assert text.endswith("\\xed\\xa0\\x80\\xff")
    assert not any(mark in text for mark in "\x1b\u202e\u2066")


def test_what_is_behind_the_end_is_empty(client: Client) -> None:
    episode = client.api("episodes")["rows"][0]["episode_id"]
    tokens = client.api("tokens", id=episode, start=10**17)
    assert (tokens["start"], tokens["stop"], tokens["ids"]) == (25, 25, [])
    question = query_text({"id": episode, "path": "agent/long.txt", "start": 10**17})
    answer, body = client.ask(f"{client.base}api/file?{question}")
    assert (answer.status, body) == (200, b"")
    assert answer.headers["X-File-Next"] == answer.headers["X-File-Size"]


def test_a_long_question_is_answered(client: Client) -> None:
    where = f"n_calls > 0 OR n_calls IN ({', '.join(map(str, range(5_000)))})"
    assert client.api("episodes", where=where)["found"] == len(data.ODD)


def test_connections_that_ask_nothing_keep_nobody_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_dataset(tmp_path / "out", [[lawful("one")]])
    with data.server(tmp_path / "out") as (address, pid):
        client = Client(address)
        held = []
        for _ in range(3 * MOST_CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", client.address.port or 0), 60))
            held[-1].sendall(b"GET /")
        assert client.api("state")["committed"]
        assert len(os.listdir(f"/proc/{pid}/fd")) < 3 * MOST_CONNECTIONS
        for one in held:
            one.close()
        for wrong in (b"\x16\x03\x01\r\n\r\n", b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", client.address.port or 0), 60) as one:
                one.sendall(wrong)
                assert one.recv(1 << 16).startswith(b"HTTP/1.0 400 ")
        assert client.api("state")["committed"]
    said = capfd.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in said] == ["wmo-distill"] * len(said)


def test_a_panic_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panic = type("PanicException", (BaseException,), {})

    def state(self: Answers) -> None:
        raise panic("index out of range")

    write_dataset(tmp_path / "out", [[lawful("one")]])
    monkeypatch.setattr(Answers, "state", state)
    ready: list[Serving] = []
    answers = Answers(tmp_path / "out")
    threading.Thread(target=serve, args=(answers, 0, ready.append), daemon=True).start()
    while not ready:
        time.sleep(0.01)
    client = Client(ready[0].address())
    assert "a panic: index out of range" in client.api("state")["error"]
    assert client.api("episodes")["found"] == 1


def test_odd_text_is_made_visible(client: Client) -> None:
    _, body = client.ask(f"{client.base}api/episodes")
    rows = json.loads(body)["rows"]
    for row, text in zip(rows, data.ODD, strict=True):
        shown = json.dumps({**row, "episode_id": ""}, ensure_ascii=False)
        assert not any(mark in shown for mark in "\x1b\u202e\u2066")
        assert len(shown) < 3000
        task = client.api("episode", id=row["episode_id"])["record"]["task_id"]
        assert task == visible(text[:4000]) + "…" * (len(text) > 4000)
        tokens = client.api("tokens", id=row["episode_id"])
        texts = tokens["text"]
        assert texts[0] == data.ODD[0]
        assert texts[8:10] == ["é", None]
        assert texts[6].endswith("x…")
        assert tokens["kind"][7] == 2
        assert tokens["kind"][11] == 1


def test_where_it_cannot_be_read_a_message_says_so(client: Client) -> None:
    assert "expected a condition" in client.api("episodes", where="no_column = 1")["error"]
    assert "expected a condition" in client.api("episodes", where="DROP TABLE x")["error"]
    assert "expected a condition" in client.api("episodes", where="CAST(note AS INT) = 1")["error"]
    assert "expected a condition" in client.api("stats", where="no_column = 1")["error"]
    assert "expected training sequences" in client.api("stats", of="datums")["error"]
    assert "expected an episode" in client.api("episode", id="nobody")["error"]
    assert "expected a whole number" in client.api("tokens", id="nobody", start="x")["error"]
    for odd in ("nan", "1e3", "1_000", "\u0663", "9" * 19, "9" * 5000, "--1"):
        assert "expected a whole number" in client.api("episodes", start=odd)["error"]
    assert client.api("episodes", start=10**17)["rows"] == []
    assert client.api("episodes", start=-5, n=10**9)["found"] == len(data.ODD)


def test_many_ask_at_once(client: Client) -> None:
    wanted = client.api("episodes")
    found: list[Any] = []
    asked = [
        threading.Thread(target=lambda: found.append(client.api("episodes"))) for _ in range(30)
    ]
    for one in asked:
        one.start()
    for one in asked:
        one.join()
    assert found == [wanted] * 30
