"""The HTTP application: authentication, JSON requests, and JSON, Arrow or error responses by the contract."""

from __future__ import annotations

import json
import logging
import time
from functools import cached_property, partial
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from catalog_ext.identity.record import id_of
from catalog_ext.metastore.errors import (
    CatalogExtError,
    InvalidConfigurationError,
    InvalidInputError,
    NotFoundError,
)
from catalog_ext.metastore.runtime.users import acting_for
from catalog_ext.service import keepalive
from catalog_ext.service.answers import answer_response, error_response
from catalog_ext.service.authentication import READS_ONLY, Authentication, require_readable
from catalog_ext.service.in_flight import OpenWrites
from catalog_ext.service.messages.core import Request
from catalog_ext.service.monitoring import METRICS_PATH, OPEN_PATHS
from catalog_ext.service.operations import CONTRACT, operations_of
from catalog_ext.service.request_metrics import OTHER, PREFIX, RequestMetrics, operation_of
from catalog_ext.service.threads import kind_of

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index import Index
    from catalog_ext.service.in_flight import InFlightCalls, OpenWrites
    from catalog_ext.service.monitoring import Monitoring
    from catalog_ext.service.operations import Operations

logger = logging.getLogger(__name__)

CONTRACT_HEADER = "X-Catalog-Ext-Contract"
"""The request header with the version of the contract that the client was built for."""

INDEX_HEADER = "X-Catalog-Ext-Index"
"""In a request: the id of the index that a client of several services has used so far, `?` if it has used no index yet.
In the response: the id of the service's index."""

USER_HEADER = "X-Catalog-Ext-User"
"""The request header with the user for whom the client acts. It is recorded in the history, and grants no rights."""

MAX_BODY_BYTES = 64 * 1024 * 1024
_UNKNOWN = "?"
_MISDIRECTED = 421
"""The HTTP status for a request to a service of the wrong index. Nothing was done; another service may do it (RFC
9110)."""


class _Identity:
    """The id of the service's index. A client that has used another service sends that one's id, to be compared."""

    def __init__(self, index: Index) -> None:
        self._index = index

    @cached_property
    def id(self) -> str:
        """The index's id, which is created if the index has none."""
        return id_of(self._index)

    def refusal(self, theirs: str) -> Response | None:
        """Return the error response for a client that has used another index before; None for this index."""
        if theirs in (_UNKNOWN, self.id):
            return None
        error = InvalidConfigurationError(
            f"The driver goes on from a service of the index {theirs[:40]!r}, and this service is of the index "
            f"{self._index.public_url} ({self.id!r}). Addresses that the catalog's option 'uri' gives together are "
            "of services of one index: correct 'uri', or start this service on that index. Where the index was "
            "replaced for good, start the driver anew."
        )
        return error_response(error, _MISDIRECTED)


def _check_contract(theirs: str | None) -> None:
    """Check the version of the service's contract that the client names; a client may name none.

    Raises:
        InvalidInputError: The client was built for another version.
    """
    if theirs is not None and theirs != str(CONTRACT):
        raise InvalidInputError(
            f"The client was made for version {theirs[:20]!r} of the service's contract, and this service, catalog-ext "
            f"{version('catalog-ext')}, has version {CONTRACT}. Give Spark the connector's jar of the release that "
            "the service is of, or install one release on both sides."
        )


class _Endpoint:
    """Handles ``POST`` of every operation, in the service's limited threads."""

    def __init__(
        self, operations: Operations, identity: _Identity, monitoring: Monitoring, in_flight: InFlightCalls
    ) -> None:
        self._operations = operations
        self._identity = identity
        self._metrics, self._threads = monitoring.metrics, monitoring.threads
        self._in_flight = in_flight

    async def handle(self, http: HttpRequest) -> Response:
        """Return the response. If the client asks for keepalives, the response begins before the answer is ready."""
        try:
            seconds = keepalive.asked_for(http.headers)
        except InvalidInputError as error:
            return self._refusal(http, error)
        made = self._respond(http, seconds)
        return await made if seconds is None else await keepalive.answer_in_time(made, seconds)

    async def _respond(self, http: HttpRequest, seconds: float | None) -> Response:
        name = http.path_params["operation"]
        started = time.monotonic()
        try:
            _check_contract(http.headers.get(CONTRACT_HEADER))
            body = await _body(http)
            answered = partial(self._answer, http, body, seconds)
            answer = await self._threads.run(kind_of(name), self._in_flight.run, answered)
            logger.debug("%s took %.0f ms", name, (time.monotonic() - started) * 1000)
            return answer
        except CatalogExtError as error:
            logger.debug("%s was refused with %s: %s", name, error.code, error.message)
            return self._refusal(http, error)
        except Exception as error:  # log an unexpected error, and answer with a CatalogExtError
            logger.exception("The operation %s failed unexpectedly", name)
            return self._refusal(
                http, CatalogExtError(f"The operation {name} failed unexpectedly: {type(error).__name__}: {error}")
            )

    def _refusal(self, http: HttpRequest, error: CatalogExtError) -> Response:
        self._metrics.refused(operation_of(http.url.path, self._operations), error.code)
        return error_response(error)

    def _answer(self, http: HttpRequest, body: bytes, seconds: float | None) -> Response:
        """Run the operation's handler. Refuse a client of several services if this service has a different index."""
        theirs = http.headers.get(INDEX_HEADER)
        refusal = None if theirs is None else self._identity.refusal(theirs)
        if refusal is not None:
            return refusal
        made = self._run(http, body, seconds)
        if theirs is not None:
            made.headers[INDEX_HEADER] = self._identity.id
        return made

    def _run(self, http: HttpRequest, body: bytes, seconds: float | None) -> Response:
        name = http.path_params["operation"]
        handler = self._operations.get(name)
        if handler is None:
            raise NotFoundError(f"There is no operation {name[:80]!r}. See docs/spec/service.md.")
        try:
            with acting_for(unquote(http.headers.get(USER_HEADER, "")) or None):
                parsed = _parsed(body)
                if http.scope[READS_ONLY]:
                    require_readable(name, parsed)
                answer = handler(Request(parsed))
        except RecursionError as error:
            raise InvalidInputError(
                "The request is nested too deeply. Write long chains of AND or OR as one list."
            ) from error
        return answer_response(answer, name, seconds, self._threads)


def build_application(
    catalog: Catalog, token: str, monitoring: Monitoring, in_flight: InFlightCalls, open_writes: OpenWrites, *,
    metrics_token: str | None = None, read_token: str | None = None,
) -> ASGIApp:  # fmt: skip
    """Return the application that serves a catalog to holders of the token, with its health and metrics.

    ``metrics_token`` opens ``/metrics`` alone, ``read_token`` the operations that only read
    (``authentication.READABLE``).
    """
    operations = operations_of(catalog, open_writes)
    endpoint = _Endpoint(operations, _Identity(catalog.index), monitoring, in_flight)
    monitoring.metrics.expect((*operations, OTHER), ())
    app = Starlette(
        routes=[Route(f"{PREFIX}{{operation:path}}", endpoint.handle, methods=["POST"]), *monitoring.routes],
        exception_handlers={HTTPException: _no_route},
    )
    # A redirect would lead to the host in the request's headers, which the client chooses freely.
    app.router.redirect_slashes = False
    opens = {METRICS_PATH: (token, metrics_token)} if metrics_token else {}
    return RequestMetrics(Authentication(app, token, opens, OPEN_PATHS, read_token), operations, monitoring.metrics)


async def _no_route(http: HttpRequest, _: Exception) -> Response:
    """Return the error for a request that is not a POST to a known path, in the usual form of errors."""
    asked = f"{http.method} {http.url.path}"
    return error_response(
        NotFoundError(f"There is no operation {asked[:80]!r}. Every operation is POST /v1/<operation>, see service.md.")
    )


async def _body(http: HttpRequest) -> bytes:
    """Return the request's body. A body over the limit is discarded while it is read."""
    parts: list[bytes] = []
    size = 0
    async for part in http.stream():
        size += len(part)
        if size <= MAX_BODY_BYTES:
            parts.append(part)
    if size > MAX_BODY_BYTES:
        raise InvalidInputError(f"The request has {size} bytes; at most {MAX_BODY_BYTES} are taken.")
    return b"".join(parts)


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body or b"{}")
    except ValueError as error:
        raise InvalidInputError(f"The body of the request is not JSON: {error}") from error
