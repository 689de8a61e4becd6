"""The HTTP application: authentication, JSON in, JSON or Arrow out, errors by the contract."""

from __future__ import annotations

import hmac
import json
import logging
import time
from functools import cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from catalog_ext.conf.home import id_of
from catalog_ext.metastore.errors import (
    AlreadyExistsError,
    CatalogExtError,
    ConflictError,
    IndexUnavailableError,
    InvalidConfigurationError,
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
from catalog_ext.metastore.runtime.users import acting_for
from catalog_ext.service import sign_of_life
from catalog_ext.service.arrow_stream import ArrowStream
from catalog_ext.service.connections import HAS_TOKEN
from catalog_ext.service.handlers.events import EventOperations
from catalog_ext.service.handlers.namespaces import NamespaceOperations
from catalog_ext.service.handlers.partitions import PartitionOperations
from catalog_ext.service.handlers.paths import PathOperations
from catalog_ext.service.handlers.procedures import ProcedureOperations
from catalog_ext.service.handlers.statistics import StatisticsOperations
from catalog_ext.service.handlers.tables import TableOperations
from catalog_ext.service.handlers.views import ViewOperations
from catalog_ext.service.handlers.writes import WriteOperations
from catalog_ext.service.messages.core import Request
from catalog_ext.service.monitoring import METRICS_PATH, OPEN_PATHS
from catalog_ext.service.observation import OTHER, PREFIX, Observation, operation_of
from catalog_ext.service.read_access import READS_ONLY, require_readable
from catalog_ext.service.rows_response import RowsResponse
from catalog_ext.service.threads import kind_of, kind_of_rest
from catalog_ext.service.under_way import OpenWrites

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Mapping, Sequence
    from typing import Any

    from starlette.requests import Request as HttpRequest
    from starlette.types import ASGIApp, Receive, Scope, Send

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index import Index
    from catalog_ext.service.monitoring import Monitoring
    from catalog_ext.service.threads import Threads
    from catalog_ext.service.under_way import UnderWay

logger = logging.getLogger(__name__)

ARROW_STREAM = "application/vnd.apache.arrow.stream"
CONTRACT = 2
CONTRACT_HEADER = "X-Catalog-Ext-Contract"
"""Names the contract that a client was made for."""

INDEX_HEADER = "X-Catalog-Ext-Index"
"""In a request of a client of several services: the id of the index that it goes on with, `?` as long as it knows none.
In the answer: the id of the service's index."""

USER_HEADER = "X-Catalog-Ext-User"
"""Names the user on whose behalf a request is made: for the history, nothing is decided by it."""

_SHORT, _FEW_PARTS = 2**16, 4
"""Bytes and parts of an Arrow stream that is sent as a whole."""

MAX_BODY_BYTES = 64 * 1024 * 1024
_UNKNOWN = "?"
_MISDIRECTED = 421
"""Says that nothing was done, and that another service may (RFC 9110)."""
_STATUSES: tuple[tuple[int, tuple[type[CatalogExtError], ...]], ...] = (
    (400, (InvalidInputError, TableLayoutError, SchemaConflictError, SchemaMismatchError, RepairRefusedError)),
    (401, (UnauthorizedError,)),
    (403, (StorageAccessDeniedError, LocationNotAllowedError, ReadOnlyTokenError)),
    (404, (NotFoundError,)),
    (409, (AlreadyExistsError, NamespaceNotEmptyError, ConflictError, TransactionStateError, VersionExpiredError)),
    (503, (IndexUnavailableError, StorageUnavailableError, MetastoreUnavailableError)),
)


class _Json(JSONResponse):
    """JSON in ASCII: a name may hold half a surrogate pair, which UTF-8 has no bytes for, and JSON an escape."""

    def render(self, content: Any) -> bytes:  # noqa: ANN401 -- as its base class has it
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_response(error: CatalogExtError, status: int | None = None) -> JSONResponse:
    """Return the answer that carries an error, by the contract."""
    status = status or next((code for code, kinds in _STATUSES if isinstance(error, kinds)), 500)
    body = {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "kind": str(error.kind),
        "sqlstate": error.sqlstate,
        "parameters": error.parameters,
    }
    return _Json({"error": body}, status)


class _Authentication:
    """Lets only requests through that carry a token; the comparison takes the same time for every wrong one.

    Args:
        app: Answers them.
        token: What they must carry.
        others: The tokens, instead, of single paths.
        open_paths: The paths that ask for none.
        read_token: Opens the operations that only read; None for none.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str,
        others: Mapping[str, Sequence[str]],
        open_paths: Collection[str],
        read_token: str | None = None,
    ) -> None:
        self._app = app
        self._expected = _headers((token,))
        self._reading = _headers(() if read_token is None else (read_token,))
        self._others = {path: _headers(tokens) for path, tokens in others.items()}
        self._open = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in self._open:
            given = dict(scope["headers"]).get(b"authorization", b"")
            expected = self._others.get(scope["path"], self._expected)
            whole, reads = (sum(hmac.compare_digest(given, each) for each in of) for of in (expected, self._reading))
            if whole or reads:
                # In the scope of the connection, which keeps it while the answer is sent.
                scope[HAS_TOKEN] = True
            scope = {**scope, READS_ONLY: not whole}
            if not whole and not (reads and scope["path"].startswith(PREFIX)):
                refusal = UnauthorizedError("The request does not carry the service's token.")
                await error_response(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _headers(tokens: Sequence[str]) -> list[bytes]:
    return [f"Bearer {token}".encode() for token in tokens]


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


def encode_stream(stream: ArrowStream) -> Generator[bytes, None, None]:
    """Yield the Arrow IPC stream, batch by batch; a failure on the way leaves it without its end marker."""
    sink = _Sink()
    writer = pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), stream.schema)
    try:
        for batch in stream.batches:
            writer.write_batch(batch)
            yield sink.take()
    finally:
        # A reader that nobody reads to its end holds a connection to the database.
        stream.close()
    writer.close()
    yield sink.take()


def operations_of(
    catalog: Catalog, open_writes: OpenWrites | None = None
) -> Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]]:
    """Return what answers each operation on a catalog, by the contract's names.

    Args:
        catalog: The catalog.
        open_writes: Is told of the transactions that begin and end; None where nobody asks.
    """
    writes = WriteOperations(catalog, open_writes or OpenWrites(catalog.index.transactions.state_of))
    return {
        "ping": _ping,
        **NamespaceOperations(catalog).handlers,
        **TableOperations(catalog).handlers,
        **PartitionOperations(catalog).handlers,
        **StatisticsOperations(catalog).handlers,
        **writes.handlers,
        **ViewOperations(catalog).handlers,
        **PathOperations(catalog).handlers,
        **ProcedureOperations(catalog).handlers,
        **EventOperations(catalog).handlers,
    }


def _ping(request: Request) -> dict[str, Any]:
    request.finish()
    return {"service": "catalog-ext", "contract": CONTRACT, "version": version("catalog-ext")}


class _Identity:
    """Which index the service is of, so that a client of several services does not go on with another's.

    Args:
        index: The index.
    """

    def __init__(self, index: Index) -> None:
        self._index = index

    @cached_property
    def id(self) -> str:
        """The index's id, which it has from now on."""
        return id_of(self._index)

    def refusal(self, theirs: str) -> Response | None:
        """Return the answer to a client that goes on from a service of another index; None for others."""
        if theirs in (_UNKNOWN, self.id):
            return None
        error = InvalidConfigurationError(
            f"The driver goes on from a service of the index {theirs[:40]!r}, and this service is of the index "
            f"{self._index.public_url} ({self.id!r}). Addresses that the catalog's option 'uri' gives together are "
            "of services of one index: correct 'uri', or start this service on that index. Where the index was "
            "replaced for good, start the driver anew."
        )
        return error_response(error, _MISDIRECTED)


def build_application(
    catalog: Catalog, token: str, monitoring: Monitoring, under_way: UnderWay, open_writes: OpenWrites, *,
    metrics_token: str | None = None, read_token: str | None = None,
) -> ASGIApp:  # fmt: skip
    """Return the application that serves a catalog to whoever has the token, and says how it is.

    Args:
        catalog: The catalog.
        token: What requests must carry.
        monitoring: Answers ``/health``, ``/ready`` and ``/metrics``.
        under_way: Is told of the calls that run.
        open_writes: Is told of the transactions that begin and end.
        metrics_token: What opens ``/metrics`` besides the token, and nothing else.
        read_token: What opens the operations that only read (``read_access``), and nothing else.
    """
    operations = operations_of(catalog, open_writes)
    identity = _Identity(catalog.index)
    metrics, threads = monitoring.metrics, monitoring.threads
    metrics.expect((*operations, OTHER), ())

    async def handle(http: HttpRequest) -> Response:
        try:
            seconds = sign_of_life.asked_for(http.headers)
        except InvalidInputError as error:
            metrics.refused(operation_of(http.url.path, operations), error.code)
            return error_response(error)
        made = respond(http, seconds)
        return await made if seconds is None else await sign_of_life.answer_in_time(made, seconds)

    async def respond(http: HttpRequest, seconds: float | None) -> Response:
        name = http.path_params["operation"]
        started = time.monotonic()
        try:
            _check_contract(http.headers.get(CONTRACT_HEADER))
            body, user = await _body(http), unquote(http.headers.get(USER_HEADER, "")) or None
            theirs, reads_only = http.headers.get(INDEX_HEADER), http.scope[READS_ONLY]

            def answered() -> Response:
                if theirs is None:
                    return _answer(operations, name, body, seconds, user, threads, reads_only=reads_only)
                refusal = identity.refusal(theirs)
                if refusal is not None:
                    return refusal
                made = _answer(operations, name, body, seconds, user, threads, reads_only=reads_only)
                made.headers[INDEX_HEADER] = identity.id
                return made

            answer = await threads.run(kind_of(name), under_way.run, answered)
            logger.debug("%s took %.0f ms", name, (time.monotonic() - started) * 1000)
            return answer
        except CatalogExtError as error:
            logger.debug("%s was refused with %s: %s", name, error.code, error.message)
            metrics.refused(operation_of(http.url.path, operations), error.code)
            return error_response(error)
        except Exception as error:  # the boundary: everything that is not ours is logged and translated
            logger.exception("The operation %s failed unexpectedly", name)
            metrics.refused(operation_of(http.url.path, operations), CatalogExtError.code)
            return error_response(
                CatalogExtError(f"The operation {name} failed unexpectedly: {type(error).__name__}: {error}")
            )

    app = Starlette(
        routes=[Route(f"{PREFIX}{{operation:path}}", handle, methods=["POST"]), *monitoring.routes],
        exception_handlers={HTTPException: _no_route},
    )
    # It would send to whatever host a request has named.
    app.router.redirect_slashes = False
    opens = {METRICS_PATH: (token, metrics_token)} if metrics_token else {}
    return Observation(_Authentication(app, token, opens, OPEN_PATHS, read_token), operations, metrics)


async def _no_route(http: HttpRequest, _: Exception) -> Response:
    """Return the answer to what is no POST of a known path, in the form of every other error."""
    asked = f"{http.method} {http.url.path}"
    return error_response(
        NotFoundError(f"There is no operation {asked[:80]!r}. Every operation is POST /v1/<operation>, see service.md.")
    )


def _check_contract(theirs: str | None) -> None:
    """Return if the client says nothing, or that it was made for this contract.

    Raises:
        InvalidInputError: It was made for another.
    """
    if theirs is not None and theirs != str(CONTRACT):
        raise InvalidInputError(
            f"The client was made for version {theirs[:20]!r} of the service's contract, and this service, catalog-ext "
            f"{version('catalog-ext')}, has version {CONTRACT}. Give Spark the connector's jar of the release that "
            "the service is of, or install one release on both sides."
        )


async def _body(http: HttpRequest) -> bytes:
    """Return the request's body; what is longer than the limit is not kept."""
    parts: list[bytes] = []
    size = 0
    async for part in http.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
    if size > MAX_BODY_BYTES:
        raise InvalidInputError(f"The request has {size} bytes; at most {MAX_BODY_BYTES} are taken.")
    return b"".join(parts)


def _answer(
    operations: Mapping[str, Callable[[Request], dict[str, Any] | ArrowStream]],
    name: str,
    body: bytes,
    seconds: float | None,
    user: str | None,
    threads: Threads,
    *,
    reads_only: bool,
) -> Response:
    handler = operations.get(name)
    if handler is None:
        raise NotFoundError(f"There is no operation {name[:80]!r}. See docs/spec/service.md.")
    try:
        with acting_for(user):
            parsed = _parsed(body)
            if reads_only:
                require_readable(name, parsed)
            answer = handler(Request(parsed))
    except RecursionError as error:
        raise InvalidInputError(
            "The request is nested too deeply. Write long chains of AND or OR as one list."
        ) from error
    if not isinstance(answer, ArrowStream):
        return _Json(answer)
    # The first batches are made before the status is sent, so that a query that fails at once is an error answer. What
    # is short is sent as a whole: each part of a stream takes turns of two threads, together more than most plans take.
    chunks = encode_stream(answer)
    begun = [next(chunks)]
    while len(begun) <= _FEW_PARTS and sum(map(len, begun)) <= _SHORT:
        more = next(chunks, None)
        if more is None:
            return Response(b"".join(begun), media_type=ARROW_STREAM)
        begun.append(more)
    run = partial(threads.run, kind_of_rest(name))
    sent = sign_of_life.send_batches(b"".join(begun), chunks, answer.schema, seconds, run)
    return RowsResponse(sent, headers=sign_of_life.UNBUFFERED, media_type=ARROW_STREAM)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body or b"{}")
    except ValueError as error:
        raise InvalidInputError(f"The body of the request is not JSON: {error}") from error
