"""Sends the spans of a standing service where OpenTelemetry's own variables say."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import EnvironmentSetupError, InvalidConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

logger = logging.getLogger(__name__)

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def are_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a place where spans go, as OpenTelemetry's specification has it.

    Raises:
        InvalidConfigurationError: It wants an exporter that we do not have.
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
    """Send the spans of the context, if they are wanted; those that are left are sent at its end.

    Raises:
        InvalidConfigurationError: The environment wants an exporter that we do not have.
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
    # The environment's own name goes before ours.
    provider = TracerProvider(
        resource=Resource.create({SERVICE_NAME: environment.get("OTEL_SERVICE_NAME", "catalog-ext")})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
