"""A server on loopback that answers with any bytes, well formed or not."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from socketserver import BaseRequestHandler, ThreadingTCPServer


@dataclass
class Wire:
    """A running server and the heads of the requests that it has got."""

    url: str = ""
    heads: list[str] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)
    """Set once a client has gone away while an answer was being sent."""


@contextmanager
def wire(answer: Callable[[socket.socket], None]) -> Iterator[Wire]:
    """`answer` is called with each connection, once its request is read."""
    found = Wire()

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            data = b""
            while b"\r\n\r\n" not in data:
                data += self.request.recv(65536)
            head, _, body = data.partition(b"\r\n\r\n")
            found.heads.append(head.decode("latin-1"))
            size = int(head.lower().partition(b"content-length:")[2].split()[0])
            while len(body) < size:
                body += self.request.recv(65536)
            try:
                answer(self.request)
            except OSError:
                found.left.set()

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


def response(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def sends(*pieces: bytes) -> Callable[[socket.socket], None]:
    """An answer of these bytes."""
    return lambda connection: connection.sendall(b"".join(pieces))


def endlessly(head: bytes, piece: bytes, pause: float = 0.0) -> Callable[[socket.socket], None]:
    """An answer that ends only when the client goes away."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        wait = threading.Event()
        while not wait.wait(pause):
            connection.sendall(piece)

    return answer
