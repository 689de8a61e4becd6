"""A proxy in front of an S3 server that counts the requests, by operation, and changes nothing about them.

It copies bytes both ways as they come, so that signatures, ``Expect: 100-continue`` and streaming stay as they are, and
reads along in the client's direction only.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PIECE_BYTES = 256 * 1024
_KEPT_REQUESTS = 100_000
_START_TIMEOUT_SECONDS = 10.0
_POSTS = {"delete": "DELETE_MANY", "uploads": "CREATE_UPLOAD", "uploadId": "COMPLETE_UPLOAD"}


@dataclass(frozen=True, slots=True)
class S3Request:
    """One request as the proxy saw it; ``prefix`` is set for listings."""

    operation: str
    bucket: str
    key: str
    prefix: str = ""


def classify(method: str, target: str, headers: Mapping[str, str]) -> S3Request:
    """What a path-style S3 request asks for: LIST, GET, HEAD, PUT, COPY, DELETE, UPLOAD_PART and so on."""
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    bucket, _, key = unquote(parts.path).lstrip("/").partition("/")
    prefix = query.get("prefix", [""])[0]
    return S3Request(_operation(method, bucket, key, query, headers), bucket, key, prefix)


def _operation(method: str, bucket: str, key: str, query: Mapping[str, list[str]], headers: Mapping[str, str]) -> str:
    if method == "GET" and not key:
        return _bucket_read(bucket, query)
    if method == "GET" and "uploadId" in query:
        return "LIST_PARTS"
    if method == "PUT":
        if not key:
            return "PUT_BUCKET"
        if "partNumber" in query:
            return "UPLOAD_PART"
        return "COPY" if "x-amz-copy-source" in headers else "PUT"
    if method == "POST":
        for name, operation in (
            ("delete", "DELETE_MANY"),
            ("uploads", "CREATE_UPLOAD"),
            ("uploadId", "COMPLETE_UPLOAD"),
        ):
            if name in query:
                return operation
    if method == "DELETE" and "uploadId" in query:
        return "ABORT_UPLOAD"
    if method == "HEAD" and not key:
        return "HEAD_BUCKET"
    return method


def _bucket_read(bucket: str, query: Mapping[str, list[str]]) -> str:
    if not bucket:
        return "LIST_BUCKETS"
    if "uploads" in query:
        return "LIST_UPLOADS"
    listing = {"list-type", "prefix", "delimiter", "marker", "max-keys", "encoding-type", "versions"}
    return "LIST" if not query or listing & query.keys() else "GET_BUCKET"


class RequestReader:
    """Finds the requests in one connection's bytes, however these are cut into pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body_left = 0
        self._chunked = False

    def feed(self, piece: bytes) -> Iterator[S3Request]:
        """The requests whose headers are complete with ``piece``."""
        self._buffer += piece
        while self._buffer:
            if self._body_left:
                skipped = min(self._body_left, len(self._buffer))
                del self._buffer[:skipped]
                self._body_left -= skipped
            elif self._chunked:
                if not self._next_chunk():
                    return
            else:
                request = self._next_request()
                if request is None:
                    return
                yield request

    def _next_chunk(self) -> bool:
        line_end = self._buffer.find(b"\r\n")
        if line_end < 0:
            return False
        length = int(self._buffer[:line_end].split(b";")[0], 16)
        if length == 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            del self._buffer[: end + 4]
            self._chunked = False
            return True
        del self._buffer[: line_end + 2]
        self._body_left = length + 2
        return True

    def _next_request(self) -> S3Request | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, _, rest = first.partition(" ")
        self._body_left = int(headers.get("content-length", "0"))
        self._chunked = "chunked" in headers.get("transfer-encoding", "").lower()
        return classify(method, rest.rpartition(" ")[0], headers)


class CountingProxy:
    """A running proxy on a free loopback port in front of ``host:port``; a thread of this process.

    Args:
        host: The S3 server's host.
        port: The S3 server's port.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._requests: deque[S3Request] = deque(maxlen=_KEPT_REQUESTS)
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="counting-proxy", daemon=True)
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self._server = listening.result(_START_TIMEOUT_SECONDS)
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def endpoint(self) -> str:
        """The proxy's URL, to be used in the place of the server's."""
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> Counter[str]:
        """How many requests of each operation have passed so far; subtract two to count in between."""
        with self._guard:
            return Counter(self._counts)

    def list_requests(self) -> int:
        """How many listing requests have passed so far."""
        return self.counts()["LIST"]

    def requests(self) -> list[S3Request]:
        """The latest 100,000 requests, the oldest first."""
        with self._guard:
            return list(self._requests)

    def stop(self) -> None:
        """Every connection is closed and the thread is gone when this returns."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_START_TIMEOUT_SECONDS)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_PIECE_BYTES)

    async def _close(self) -> None:
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:  # pragma: no cover - a stream's callback always runs in a task
            return
        self._connections.add(task)
        up_writer = None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream, limit=_PIECE_BYTES)
            await asyncio.gather(
                self._copy(reader, up_writer, RequestReader()),
                self._copy(up_reader, writer, None),
            )
        except (OSError, asyncio.CancelledError):
            pass  # either side went away, or the proxy is stopping: the other side sees its connection closed
        finally:
            for side in (writer, up_writer):
                if side is not None:
                    side.close()
            self._connections.discard(task)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: RequestReader | None
    ) -> None:
        while piece := await reader.read(_PIECE_BYTES):
            if requests is not None:
                self._count(requests.feed(piece))
            writer.write(piece)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def _count(self, requests: Iterator[S3Request]) -> None:
        for request in requests:
            with self._guard:
                self._counts[request.operation] += 1
                self._requests.append(request)
