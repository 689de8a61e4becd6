"""The HTTP application: authentication, JSON in, JSON or Arrow out, errors by the contract."""

from __future__ import annotations

import hmac
import json
import logging
from typing import TYPE_CHECKING

import pyarrow as pa
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from catalog_ext.service.messages import Request
from catalog_ext.service.operations import ArrowStream, Operations
from metastore.errors import (
    AlreadyExistsError,
    CatalogExtError,
    ConflictError,
    IndexUnavailableError,
    InvalidInputError,
    MetastoreUnavailableError,
    NamespaceNotEmptyError,
    NotFoundError,
    RepairRefusedError,
    SchemaConflictError,
    StorageAccessDeniedError,
    StorageUnavailableError,
    TableLayoutError,
    UnauthorizedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request as HttpRequest
    from starlette.types import ASGIApp, Receive, Scope, Send

    from catalog_ext.catalog import Catalog

logger = logging.getLogger(__name__)

ARROW_STREAM = "application/vnd.apache.arrow.stream"
MAX_BODY_BYTES = 64 * 1024 * 1024
_STATUSES: tuple[tuple[int, tuple[type[CatalogExtError], ...]], ...] = (
    (400, (InvalidInputError, TableLayoutError, SchemaConflictError, RepairRefusedError)),
    (401, (UnauthorizedError,)),
    (403, (StorageAccessDeniedError,)),
    (404, (NotFoundError,)),
    (409, (AlreadyExistsError, NamespaceNotEmptyError, ConflictError)),
    (503, (IndexUnavailableError, StorageUnavailableError, MetastoreUnavailableError)),
)


def error_response(error: CatalogExtError) -> JSONResponse:
    """The answer that tells an error, by the contract."""
    status = next((code for code, kinds in _STATUSES if isinstance(error, kinds)), 500)
    body = {"code": error.code, "message": error.message, "retryable": error.retryable, "parameters": error.parameters}
    return JSONResponse({"error": body}, status)


class _Authentication:
    """Lets only requests through that carry the token; the comparison takes the same time for every wrong one."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                refusal = UnauthorizedError("The request does not carry the service's token.")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


class _Sink:
    """A file for Arrow's stream writer whose contents are taken out as they come."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def take(self) -> bytes:
        data = b"".join(self._parts)
        self._parts.clear()
        return data


def encode_stream(stream: ArrowStream) -> Iterator[bytes]:
    """The Arrow IPC stream, batch by batch; a failure on the way leaves it without its end marker."""
    sink = _Sink()
    writer = pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), stream.schema)
    for batch in stream.batches:
        writer.write_batch(batch)
        yield sink.take()
    writer.close()
    yield sink.take()


def build_application(catalog: Catalog, token: str) -> ASGIApp:
    """The application that serves a catalog to whoever has the token."""
    operations = Operations(catalog)

    async def handle(http: HttpRequest) -> Response:
        name = http.path_params["operation"]
        try:
            body = await http.body()
            return await run_in_threadpool(_answer, operations, name, body)
        except CatalogExtError as error:
            return error_response(error)
        except Exception as error:  # the boundary: everything that is not ours is logged and translated
            logger.exception("The operation %s failed unexpectedly", name)
            return error_response(
                CatalogExtError(f"The operation {name} failed unexpectedly: {type(error).__name__}: {error}")
            )

    app = Starlette(routes=[Route("/v1/{operation:path}", handle, methods=["POST"])])
    return _Authentication(app, token)


def _answer(operations: Operations, name: str, body: bytes) -> Response:
    handler = operations.handlers.get(name)
    if handler is None:
        raise NotFoundError(f"There is no operation {name[:80]!r}. See docs/spec/service.md.")
    if len(body) > MAX_BODY_BYTES:
        raise InvalidInputError(f"The request has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken.")
    try:
        parsed = json.loads(body or b"{}")
    except ValueError as error:
        raise InvalidInputError(f"The body of the request is not JSON: {error}") from error
    answer = handler(Request(parsed))
    if not isinstance(answer, ArrowStream):
        return JSONResponse(answer)
    # The first batch is made before the status is sent, so that a query that fails at once is an error answer.
    chunks = encode_stream(answer)
    first = next(chunks)
    return StreamingResponse(_chain(first, chunks), media_type=ARROW_STREAM)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
