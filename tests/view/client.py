"""A client of the web server that need not keep to the rules of browsers."""

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit


class Client:
    """Asks a server as a program does that need not keep to the rules of browsers."""

    def __init__(self, address: str) -> None:
        self.address = urlsplit(address)
        self.base = self.address.path

    def ask(
        self, path: str, method: str = "GET", host: str | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        assert self.address.port is not None
        connection = http.client.HTTPConnection("127.0.0.1", self.address.port, timeout=300)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", self.address.netloc if host is None else host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer, answer.read()

    def api(self, question: str, **query: object) -> Any:
        _, body = self.ask(f"{self.base}api/{question}?{query_text(query)}")
        return json.loads(body)


def query_text(query: dict[str, object]) -> str:
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
