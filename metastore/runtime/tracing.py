"""Spans of OpenTelemetry, in a process that has loaded it; nothing in any other.

A process with tracing loads OpenTelemetry and gives it a provider: ``catalog-ext serve`` by its variables, a program or
an agent by itself. So nothing is imported here, and without it a span costs a look-up.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TRACER = "catalog_ext"
TRACEPARENT = "traceparent"
"""The header of W3C's trace context, https://www.w3.org/TR/trace-context/."""


@contextmanager
def span(name: str, **attributes: str | int) -> Iterator[None]:
    """Measure the block as a span; an exception that leaves it marks the span as failed."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield
        return
    with trace.get_tracer(TRACER).start_as_current_span(name, attributes=_named(attributes)):
        yield


@contextmanager
def serving(name: str, headers: Mapping[str, str], **attributes: str | int) -> Iterator[None]:
    """Measure the answer to a request as a span below the client's, which its headers name."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        yield
        return
    from opentelemetry.propagate import extract

    with trace.get_tracer(TRACER).start_as_current_span(
        name, extract(headers), trace.SpanKind.SERVER, attributes=_named(attributes)
    ):
        yield


def annotate(**attributes: str | int) -> None:
    """Add attributes to the span that this thread is in."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        trace.get_current_span().set_attributes(_named(attributes))


def current_traceparent() -> str | None:
    """Return the header that names this thread's current span; None without one."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"catalog_ext.{key}": value for key, value in attributes.items()}
