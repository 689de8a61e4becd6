"""Measures a service's requests, and exports their trace spans as OpenTelemetry's environment variables say."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    CatalogExtError,
    EnvironmentSetupError,
    InvalidConfigurationError,
    UnauthorizedError,
)
from catalog_ext.metastore.runtime.tracing import serving

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from catalog_ext.service.metrics import ServiceMetrics


PREFIX = "/v1/"
"""The start of the paths of all operations."""

OTHER = "other"
"""The label of all unknown operations: a label per name would let any client create new time series."""


def operation_of(path: str, operations: Collection[str]) -> str:
    """Return the operation in a path; ``other`` for an unknown one."""
    name = path.removeprefix(PREFIX)
    return name if path.startswith(PREFIX) and name in operations else OTHER


class RequestMetrics:
    """ASGI middleware that measures each operation of the contract, from the request's head to the answer's end."""

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
                # Count a request without a valid token as refused; the application never sees it.
                if message["type"] == "http.response.start" and message["status"] == HTTPStatus.UNAUTHORIZED:
                    self._metrics.refused(operation, UnauthorizedError.code)
                await send(message)

            try:
                await self._app(scope, receive, noted)
            except Exception as error:
                # The answer broke off after a status of success, so no error response counts this failure: count it
                # here.
                self._metrics.refused(operation, getattr(error, "code", CatalogExtError.code))
                raise
            finally:
                self._metrics.answered(operation, time.monotonic() - started)


logger = logging.getLogger(__name__)

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment configures an exporter of spans, by OpenTelemetry's specification.

    Raises:
        InvalidConfigurationError: The environment names an exporter that is not supported.
    """
    exporter = environment.get(_EXPORTER, "").strip().lower()
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    if exporter not in ("", "otlp"):
        raise InvalidConfigurationError(
            f"{_EXPORTER} cannot be {exporter[:40]!r}: give 'otlp' or 'none'.", {"key": _EXPORTER}
        )
    return bool(exporter) or any(environment.get(name) for name in _ENDPOINTS)


@contextmanager
def sent(environment: Mapping[str, str]) -> Iterator[None]:
    """Export trace spans within the context, if the environment asks for them; flush the last spans at its end.

    Raises:
        InvalidConfigurationError: The environment names an exporter that is not supported.
        EnvironmentSetupError: The extra ``otel`` is not installed.
    """
    if not are_wanted(environment):
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise EnvironmentSetupError(
            f"The environment asks for traces ({_EXPORTER} or {_ENDPOINTS[1]}), and OpenTelemetry is not installed "
            f"({error}). Run: pip install 'catalog-ext[otel]', or unset the variables."
        ) from error
    # The service name in the environment takes precedence over the default.
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: environment.get("OTEL_SERVICE_NAME", "catalog-ext")})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
