"""The web server: 127.0.0.1 alone, read-only, for who has the token in the address."""

import asyncio
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from aiohttp import web

from wmo_distill.errors import DistillError, UsageError, fault_of
from wmo_distill.view.answers import Answers, NotFound
from wmo_distill.view.trial_files import Piece
from wmo_distill.visible import visible

ADDRESS = "127.0.0.1"
MOST_CONNECTIONS = 64
"""At once; a browser has 6."""
MOST_LINE = 1 << 16
"""Bytes of a question: an episode may be named by a path of 4 kB, written with three for one."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Server": "wmo-distill",
}
_TYPES = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Serving(NamedTuple):
    """Where a server listens, and the secret part of its address."""

    port: int
    token: str
    once: str
    """Leads to the address one time: the browser that is opened is given its address in a list of
    processes, which all users of a machine can read."""

    def address(self, fragment: str = "", *, once: bool = False) -> str:
        """What a browser opens; `fragment` is a state of the page."""
        key = self.once if once else self.token
        return f"http://{ADDRESS}:{self.port}/{key}/{fragment and '#' + fragment}"


class Answer(NamedTuple):
    """What a question gets."""

    status: int
    body: bytes
    kind: str = "application/json"
    headers: Mapping[str, str] = {}


def application(answers: Answers, serving: Serving) -> web.Application:
    """Answers to GET below `/TOKEN/`; 403 without a word to whatever else is asked."""
    app = web.Application(middlewares=[_guard(serving)])
    app.on_response_prepare.append(_with_headers)
    base = f"/{serving.token}"

    def get(path: str, handler: _Handler) -> None:
        app.router.add_get(base + path, handler, allow_head=False)

    for name, (kind, data) in _static().items():
        get(f"/{name}", _fixed(kind, data))
        if name == "index.html":
            get("/", _fixed(kind, data))
    get("/api/state", _json(lambda asked: answers.state()))
    get("/api/start", _json(lambda asked: answers.start()))
    get("/api/episodes", _json(answers.episodes))
    get("/api/episode", _json(lambda asked: answers.episode(asked.get("id", ""))))
    get("/api/tokens", _json(lambda asked: answers.tokens(asked.get("id", ""), asked)))
    get(
        "/api/difference",
        _json(lambda asked: answers.difference(asked.get("a", ""), asked.get("b", ""))),
    )
    get("/api/files", _json(lambda asked: answers.files(asked.get("id", ""))))
    get("/api/file", _plain(lambda asked: answers.file(asked.get("id", ""), asked)))
    get("/api/stats", _json(answers.stats))
    return app


def serve(answers: Answers, port: int, ready: Callable[[Serving], None]) -> None:
    """Serve until an exception such as a signal's is raised here; UsageError for a taken port.

    The server's loop has a thread of its own, so that a signal ends this one at once.
    """
    listening = _listening(port)
    token, once = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    serving = Serving(listening.getsockname()[1], token, once)
    ended = threading.Event()
    fault: list[BaseException] = []
    started = threading.Event()

    def run() -> None:
        try:
            asyncio.run(_serve(application(answers, serving), listening, started))
        except BaseException as error:
            fault.append(error)
        finally:
            started.set()
            ended.set()

    threading.Thread(target=run, daemon=True).start()
    started.wait()
    if not fault:
        ready(serving)
    while not ended.wait(0.5):  # a signal may reach another thread, which does not wake this one
        pass
    raise fault[0]


async def _serve(app: web.Application, listening: socket.socket, started: threading.Event) -> None:
    # What a connection has wrong ends that one, and is no news to who looks at the data.
    silent = logging.Logger("wmo-distill view")
    silent.disabled = True
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    runner = web.AppRunner(app, access_log=None, logger=silent, max_line_size=MOST_LINE)
    await runner.setup()
    server = runner.server
    assert server is not None

    def connected() -> asyncio.Protocol:
        for transport in _oldest(server):
            transport.abort()
        return server()

    await loop.create_server(connected, sock=listening, backlog=MOST_CONNECTIONS)
    started.set()
    await asyncio.Event().wait()


def _oldest(server: web.Server) -> list[asyncio.Transport]:
    """The connections that one more is too many for: idle or not, none is kept for ever."""
    transports = [connection.transport for connection in server.connections]
    open_ones = [one for one in transports if one is not None and not one.is_closing()]
    return open_ones[: max(0, len(open_ones) - MOST_CONNECTIONS + 1)]


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((ADDRESS, port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"--port: expected a port that is free, found {port}: {error.strerror}; "
            "give another, or none"
        ) from None
    return listening


def _static() -> dict[str, tuple[str, bytes]]:
    """The page's own files, read once: (type, bytes) by name."""
    return {
        entry.name: (_TYPES[entry.name.rpartition(".")[2]], entry.read_bytes())
        for entry in files("wmo_distill.view").joinpath("static").iterdir()
        if entry.name.rpartition(".")[2] in _TYPES
    }


def _guard(serving: Serving) -> Any:
    hosts = {f"{name}:{serving.port}" for name in (ADDRESS, "localhost")}
    token = serving.token.encode()
    once = [serving.once.encode()]

    @web.middleware
    async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
        # Of the raw path, which no decoding can make into another.
        given = request.raw_path.split("/")[1:2]
        key = given[0].encode("utf-8", "replace") if given else b""
        if request.headers.getall("Host", []) not in [[host] for host in hosts]:
            return web.Response(status=403)
        if once and hmac.compare_digest(key, once[0]):
            once.clear()
            return web.Response(status=303, headers={"Location": f"/{serving.token}/"})
        if not hmac.compare_digest(key, token):
            return web.Response(status=403)
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            return web.Response(status=405, headers={"Allow": "GET"})
        except web.HTTPException as error:
            return web.Response(status=error.status)

    return guard


async def _with_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _fixed(kind: str, data: bytes) -> _Handler:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(body=data, content_type=kind, charset="utf-8")

    return handler


def _plain(answer: Callable[[Mapping[str, str]], Piece]) -> _Handler:
    def encoded(asked: Mapping[str, str]) -> Answer:
        piece = answer(asked)
        about = {"X-File-Size": str(piece.size), "X-File-Next": str(piece.next)}
        return Answer(200, piece.text.encode(), "text/plain", about)

    return _handler(encoded)


def _json(answer: Callable[[Mapping[str, str]], Any]) -> _Handler:
    def encoded(asked: Mapping[str, str]) -> Answer:
        return Answer(200, orjson.dumps(answer(asked), option=orjson.OPT_SERIALIZE_NUMPY))

    return _handler(encoded)


def _handler(encoded: Callable[[Mapping[str, str]], Answer]) -> _Handler:
    """In a thread, so that a long answer keeps no other waiting."""

    async def handler(request: web.Request) -> web.Response:
        found = await asyncio.to_thread(_answered, encoded, dict(request.query))
        return web.Response(
            status=found.status,
            body=found.body,
            content_type=found.kind,
            charset="utf-8",
            headers=found.headers,
        )

    return handler


def _answered(encoded: Callable[[Mapping[str, str]], Answer], asked: Mapping[str, str]) -> Answer:
    """The answer; a fault is a message for the page, never the end of the server."""
    try:
        return encoded(asked)
    except NotFound as error:
        status, said = 404, str(error)
    except UsageError as error:
        status, said = 400, str(error)
    except DistillError as error:
        status, said = 500, str(error)
    except BaseException as error:
        fault = fault_of(error)
        status, said = 500, f"unexpected {type(fault).__name__}: {fault}"
    return Answer(status, orjson.dumps({"error": visible(said)}))


def fragment(where: str) -> str:
    """The state of the page with a list that an expression chooses from."""
    return f"/?where={quote(where)}" if where else ""
