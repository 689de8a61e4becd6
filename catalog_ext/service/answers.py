"""Responses of the service: JSON, Arrow streams, and errors in the form of the contract (``docs/spec/service.md``)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from starlette.responses import JSONResponse, Response

from catalog_ext.metastore.errors import (
    AlreadyExistsError,
    CatalogExtError,
    ConflictError,
    IndexUnavailableError,
    InvalidInputError,
    LocationNotAllowedError,
    MetastoreUnavailableError,
    NamespaceNotEmptyError,
    NotFoundError,
    ReadOnlyTokenError,
    RepairRefusedError,
    SchemaConflictError,
    SchemaMismatchError,
    StorageAccessDeniedError,
    StorageUnavailableError,
    TableLayoutError,
    TransactionStateError,
    UnauthorizedError,
    VersionExpiredError,
)
from catalog_ext.service import keepalive
from catalog_ext.service.rows_response import ArrowStream, RowsResponse
from catalog_ext.service.threads import kind_of_rest

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from catalog_ext.service.threads import Threads

ARROW_STREAM = "application/vnd.apache.arrow.stream"
_SHORT, _FEW_PARTS = 2**16, 4
"""The largest Arrow stream, in bytes and in parts, that is sent in one piece instead of chunk by chunk."""
_STATUSES: tuple[tuple[int, tuple[type[CatalogExtError], ...]], ...] = (
    (400, (InvalidInputError, TableLayoutError, SchemaConflictError, SchemaMismatchError, RepairRefusedError)),
    (401, (UnauthorizedError,)),
    (403, (StorageAccessDeniedError, LocationNotAllowedError, ReadOnlyTokenError)),
    (404, (NotFoundError,)),
    (409, (AlreadyExistsError, NamespaceNotEmptyError, ConflictError, TransactionStateError, VersionExpiredError)),
    (503, (IndexUnavailableError, StorageUnavailableError, MetastoreUnavailableError)),
)


class _Json(JSONResponse):
    """JSON in ASCII. A name may hold half a surrogate pair, which UTF-8 cannot encode; JSON writes it as an escape."""

    def render(self, content: Any) -> bytes:  # noqa: ANN401 -- as its base class has it
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_response(error: CatalogExtError, status: int | None = None) -> JSONResponse:
    """Return the HTTP response for an error, in the form of the contract."""
    status = status or next((code for code, kinds in _STATUSES if isinstance(error, kinds)), 500)
    body = {
        "code": error.code, "message": error.message, "retryable": error.retryable, "kind": str(error.kind),
        "sqlstate": error.sqlstate, "parameters": error.parameters,
    }  # fmt: skip
    return _Json({"error": body}, status)


class _Sink:
    """A file object for Arrow's stream writer; it collects the written bytes until they are taken for sending."""

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


def encode_stream(stream: ArrowStream) -> Generator[bytes, None, None]:
    """Yield the bytes of an Arrow IPC stream, batch by batch.

    After a failure the stream has no end marker, so the client sees that it is incomplete.
    """
    sink = _Sink()
    writer = pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), stream.schema)
    try:
        for batch in stream.batches:
            writer.write_batch(batch)
            yield sink.take()
    finally:
        # An unfinished stream still holds a connection to the database; closing releases it.
        stream.close()
    writer.close()
    yield sink.take()


def answer_response(
    answer: dict[str, Any] | ArrowStream, operation: str, seconds: float | None, threads: Threads
) -> Response:
    """Return the response for an operation's result. A long stream is encoded while it is sent."""
    if not isinstance(answer, ArrowStream):
        return _Json(answer)
    # Encode the first batches before the status is sent, so that a query that fails at once gets an error response.
    # Send a short stream in one piece: each chunk switches between two threads, which would take longer than most
    # plans.
    chunks = encode_stream(answer)
    begun = [next(chunks)]
    while len(begun) <= _FEW_PARTS and sum(map(len, begun)) <= _SHORT:
        more = next(chunks, None)
        if more is None:
            return Response(b"".join(begun), media_type=ARROW_STREAM)
        begun.append(more)
    run = partial(threads.run, kind_of_rest(operation))
    sent = keepalive.send_batches(b"".join(begun), chunks, answer.schema, seconds, run)
    return RowsResponse(sent, headers=keepalive.UNBUFFERED, media_type=ARROW_STREAM)
