"""A proxy in front of an S3 server that answers some requests with an error of its own."""

from __future__ import annotations

import http.client
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.counting_proxy import S3Request, classify
from tests.servers.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Callable


HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


class FaultyStore(LoopbackServer):
    """Forwards to ``upstream``; ``fault(prefix)`` may give a status and an S3 error code for a LIST of ``prefix``.

    Attributes:
        endpoint: Its own URL.
        prefixes: The prefixes of all LIST requests that came in, refused ones included.
    """

    def __init__(self, upstream: str, fault: Callable[[str], tuple[int, str] | None]) -> None:
        self.prefixes: list[str] = []
        super().__init__(self._handler(urlsplit(upstream).netloc, fault))

    def _handler(self, upstream: str, fault: Callable[[str], tuple[int, str] | None]) -> type[BaseHTTPRequestHandler]:
        prefixes = self.prefixes

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                query = parse_qs(parts.query)
                listing = self.command == "GET" and "/" not in unquote(parts.path).strip("/")
                prefix = query.get("prefix", [""])[0]
                if listing:
                    prefixes.append(prefix)
                refused = fault(prefix) if listing else None
                if refused is None:
                    self._forward()
                else:
                    status, code = refused
                    self._answer(status, f"<Error><Code>{code}</Code><Message>made</Message></Error>".encode())

            do_HEAD = do_GET

            def _forward(self) -> None:
                connection = http.client.HTTPConnection(upstream, timeout=30)
                try:
                    # The signature covers the Host header, so it goes on as it came.
                    connection.request(self.command, self.path, headers=dict(self.headers))
                    response = connection.getresponse()
                    body = response.read()
                    self.send_response(response.status)
                    for name, value in response.getheaders():
                        if name.lower() not in HOP_BY_HOP:
                            self.send_header(name, value)
                    length = response.getheader("Content-Length") if self.command == "HEAD" else str(len(body))
                    self.send_header("Content-Length", length or "0")
                    self.end_headers()
                    self.wfile.write(body)
                finally:
                    connection.close()

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler


class BusyStore(LoopbackServer):
    """Forwards every request to ``upstream``, but answers those that ``refuses`` names with 503 SlowDown.

    Attributes:
        endpoint: Its own URL.
        refused: The requests that were refused so far.
    """

    def __init__(self, upstream: str, refuses: Callable[[S3Request], bool]) -> None:
        self.refused: list[S3Request] = []
        self.refuses = refuses
        self._upstream = urlsplit(upstream).netloc
        super().__init__(self._handler())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                content = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                request = classify(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
                if store.refuses(request):
                    store.refused.append(request)
                    self._answer(503, {}, b"<Error><Code>SlowDown</Code><Message>made</Message></Error>")
                    return
                connection = http.client.HTTPConnection(store._upstream, timeout=30)
                try:
                    connection.request(self.command, self.path, content or None, dict(self.headers))
                    answer = connection.getresponse()
                    body = answer.read()
                    kept = {k: v for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP}
                    length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                    self._answer(answer.status, kept, body, length)
                finally:
                    connection.close()

            do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

            def _answer(self, status: int, headers: dict[str, str], body: bytes, length: str | None = None) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        return Handler
