"""The spans of one test, although OpenTelemetry allows one provider per process."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def _provider() -> TracerProvider:
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    return provider


@contextmanager
def recorded_spans() -> Iterator[InMemorySpanExporter]:
    """What takes the spans that end in the context, whatever thread they are of."""
    exporter = InMemorySpanExporter()
    _provider().add_span_processor(SimpleSpanProcessor(exporter))
    try:
        yield exporter
    finally:
        exporter.shutdown()
