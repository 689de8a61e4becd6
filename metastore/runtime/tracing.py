"""OpenTelemetry spans, in a process that has loaded OpenTelemetry; in other processes the functions do nothing.

This module does not import OpenTelemetry. A process that wants tracing loads it and sets a provider: ``catalog-ext
serve`` from its environment variables, a program or an agent by its own code. In other processes a span costs only a
dictionary look-up.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TRACER = "catalog_ext"
TRACEPARENT = "traceparent"
"""The request header of W3C's trace context, https://www.w3.org/TR/trace-context/."""


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
    """Record the handling of a request as a span; its parent is the client's span, from the headers."""
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
    """Add attributes to the current span of this thread."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is not None:
        trace.get_current_span().set_attributes(_named(attributes))


def current_traceparent() -> str | None:
    """Return the ``traceparent`` header for this thread's current span; None if there is no span."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(TRACEPARENT)


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"catalog_ext.{key}": value for key, value in attributes.items()}
