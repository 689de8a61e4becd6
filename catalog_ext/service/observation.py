"""Watches the requests of a service: how long they take, what they fail with, and the span of each."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, UnauthorizedError
from catalog_ext.metastore.runtime.tracing import serving

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from catalog_ext.service.metrics import ServiceMetrics

PREFIX = "/v1/"
"""How the paths of operations begin."""

OTHER = "other"
"""The name of every operation that there is not: whoever asks for some makes no new time series."""


def operation_of(path: str, operations: Collection[str]) -> str:
    """Return the operation that a path names, ``other`` where there is none of that name."""
    name = path.removeprefix(PREFIX)
    return name if path.startswith(PREFIX) and name in operations else OTHER


class Observation:
    """Measures every request of operations from its head to the end of its answer; pages are none of them."""

    def __init__(self, app: ASGIApp, operations: Collection[str], metrics: ServiceMetrics) -> None:
        self._app = app
        self._operations = operations
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and measure it."""
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        operation = operation_of(scope["path"], self._operations)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        started = time.monotonic()
        with self._metrics.in_progress.track_inprogress(), serving(operation, headers, operation=operation):

            async def noted(message: Message) -> None:
                # Whoever has no token comes no further than to the door.
                if message["type"] == "http.response.start" and message["status"] == HTTPStatus.UNAUTHORIZED:
                    self._metrics.refused(operation, UnauthorizedError.code)
                await send(message)

            try:
                await self._app(scope, receive, noted)
            except Exception as error:
                # An answer that broke off after its head: its status said that all was well.
                self._metrics.refused(operation, getattr(error, "code", CatalogExtError.code))
                raise
            finally:
                self._metrics.answered(operation, time.monotonic() - started)
