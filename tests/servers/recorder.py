"""An HTTP server between a client and the service: it notes what passes, and answers itself where a test says so."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.service.answers import ARROW_STREAM, error_response
from catalog_ext.service.keepalive import HEADER
from tests.kit.service_client import Answer
from tests.servers.loopback import LoopbackServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.service.server import Service

Body = dict[str, Any]
Ask = Callable[[Body], Answer]
"""Asks the service, with the request as it came or another one of the same operation."""
Reply = Callable[[Body, Ask], Answer]
"""Makes the answer to a request."""

PRUNED = ("tables/plan", "partitions/list")
"""The operations that take a predicate for a hint."""
_TIMEOUT_S = 120
_PAUSE_S = 0.1


class HangUpError(Exception):
    """Raised by a reply to close the connection without an answer."""


class Recorder(LoopbackServer):
    """The service at another address, which notes requests and answers; as a context, it answers within.

    Attributes:
        bodies: The requests, by operation, in the order in which they came.
        answers: What they got, in the order in which it was given.
        waits: How long who asks waits for a keepalive, as the header has it, by operation; None for the answer.
    """

    def __init__(self, service: Service) -> None:
        self.token = service.token
        self.bodies: list[tuple[str, Body]] = []
        self.answers: list[tuple[str, Answer]] = []
        self.waits: list[tuple[str, str | None]] = []
        self._upstream = (service.host, service.port)
        self._replies: dict[str, Reply] = {}
        self._left = False
        super().__init__(self._handler(), poll_s=0.02)
        self.uri = self.endpoint

    @property
    def requests(self) -> Counter[str]:
        """How many requests of each operation have come."""
        return Counter(operation for operation, _ in self.bodies)

    def reset(self) -> None:
        """Forget what has passed."""
        self.bodies.clear()
        self.answers.clear()
        self.waits.clear()

    def last(self, operation: str) -> Body:
        """Return the body of the latest request of an operation."""
        return next(body for name, body in reversed(self.bodies) if name == operation)

    def last_answer(self, operation: str) -> Answer:
        """Return the latest answer to an operation."""
        return next(answer for name, answer in reversed(self.answers) if name == operation)

    @contextlib.contextmanager
    def answering(self, reply: Reply, *operations: str) -> Iterator[None]:
        """Answer requests of these operations by ``reply`` within the block."""
        before = dict(self._replies)
        self._replies |= dict.fromkeys(operations, reply)
        try:
            yield
        finally:
            self._replies = before

    def leaving(self, body: Body, ask: Ask) -> Answer:
        """Give the service's answer as the last one: later connections are refused."""
        answer = ask(body)
        self._left = True
        self._server.shutdown()
        self._server.server_close()
        return answer

    def _answer(self, path: str, authorization: str, content: bytes) -> Answer:
        operation, body = path.removeprefix("/v1/"), json.loads(content)
        self.bodies.append((operation, body))

        def ask(changed: Body) -> Answer:
            sent = content if changed == body else json.dumps(changed).encode()
            return self._send(path, authorization, sent)

        reply = self._replies.get(operation)
        answer = ask(body) if reply is None else reply(body, ask)
        self.answers.append((operation, answer))
        return answer

    def _send(self, path: str, authorization: str, content: bytes) -> Answer:
        connection = http.client.HTTPConnection(*self._upstream, timeout=_TIMEOUT_S)
        try:
            headers = {"Content-Type": "application/json", "Authorization": authorization}
            connection.request("POST", path, content, headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers.get_content_type(), answer.read())
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                recorder.waits.append((self.path.removeprefix("/v1/"), self.headers.get(HEADER)))
                # A client that no longer waits is gone: what a late answer is there to show.
                with contextlib.suppress(HangUpError, BrokenPipeError, ConnectionResetError):
                    self._give(recorder._answer(self.path, self.headers.get("Authorization", ""), content))
                    return
                self.close_connection = True

            def _give(self, answer: Answer) -> None:
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.type)
                if recorder._left:
                    self.send_header("Connection", "close")
                self.send_header("Content-Length", str(answer.blanks + len(answer.body)))
                self.end_headers()
                for _ in range(answer.blanks):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(_PAUSE_S)
                time.sleep(answer.silent_for)
                self.wfile.write(answer.body)

        return Handler


def refusing(error: CatalogExtError) -> Reply:
    """Return the reply that is an error of the service, which is not asked."""
    response = error_response(error)
    answer = Answer(response.status_code, "application/json", bytes(response.body))
    return lambda body, ask: answer


def saying(body: bytes) -> Reply:
    """Return the reply that has these bytes, whole."""
    return lambda _, ask: Answer(200, ARROW_STREAM, body)


def losing(reply: Reply) -> Reply:
    """Return what answers the first request by ``reply`` once the service has done it, and leaves it those after."""
    left = [reply]

    def answer(body: Body, ask: Ask) -> Answer:
        done = ask(body)
        return left.pop()(body, ask) if left else done

    return answer


def hanging_up(body: Body, ask: Ask) -> Answer:
    """Close the connection, without an answer."""
    raise HangUpError


def late(seconds: float) -> Reply:
    """Return the reply that the service's answer comes so much later."""

    def answer(body: Body, ask: Ask) -> Answer:
        time.sleep(seconds)
        return ask(body)

    return answer


def with_signs_of_life(blanks: int, reply: Reply | None = None, *, silent_for: float = 0) -> Reply:
    """Return the reply that begins with so many blanks, a tenth of a second apart, and is silent before its body."""

    def answer(body: Body, ask: Ask) -> Answer:
        given = ask(body) if reply is None else reply(body, ask)
        return replace(given, status=200, blanks=blanks, silent_for=silent_for)

    return answer


def proxy_saying(status: int) -> Reply:
    """Return what a proxy answers in the service's place."""
    return lambda body, ask: Answer(status, "text/html", b"<html>no service here</html>")


def changing(**fields: object) -> Reply:
    """Return the reply that has other values in these fields of the service's answer."""

    def answer(body: Body, ask: Ask) -> Answer:
        given = ask(body)
        return replace(given, body=json.dumps({**given.json, **fields}).encode())

    return answer


def unpruned(body: Body, ask: Ask) -> Answer:
    """Answer as if there were no predicate."""
    return ask({**body, "predicate": None})


def without_end(body: Body, ask: Ask) -> Answer:
    """Leave out the end marker of an Arrow stream."""
    given = ask(body)
    return replace(given, body=given.body[:-8])


def in_small_batches(body: Body, ask: Ask) -> Answer:
    """Give the rows of an Arrow stream three at a time."""
    return arrow_answer(ask(body).table)


def arrow_answer(table: pa.Table, batch_rows: int = 3) -> Answer:
    """Return the answer that a table is, in batches of so many rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=batch_rows)
    return Answer(200, ARROW_STREAM, sink.getvalue().to_pybytes())
