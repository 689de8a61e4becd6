"""An S3 store that answers what a test says, in turn, and keeps the requests: for answers that no real store gives."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from email.message import Message


class Request(NamedTuple):
    """A request that came in."""

    method: str
    path: str
    headers: Message
    body: bytes


class ScriptedStore(LoopbackServer):
    """Gives each request the next of its answers, and the last one to all that follow.

    Attributes:
        answers: Status and body, in turn.
        requests: What came in.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, str]] = [(200, "")]
        self.requests: list[Request] = []
        super().__init__(self._handler())
        self.options = {"endpoint": self.endpoint, "access_key": "a", "secret_key": "s", "region": "us-east-1"}

    def script(self, answers: Sequence[tuple[int, str]]) -> None:
        """Give these answers from now on; forget the requests so far."""
        self.answers = list(answers)
        self.requests = []

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                store.requests.append(Request(self.command, self.path, self.headers, body))
                status, text = store.answers.pop(0) if len(store.answers) > 1 else store.answers[0]
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_PUT = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
