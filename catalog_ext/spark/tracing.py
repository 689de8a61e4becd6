"""Passes the OpenTelemetry trace of a driver's program through Spark to the service."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.runtime.tracing import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PROPERTY = "catalog-ext.traceparent"
"""The local property of Spark that the connector sends as the header ``traceparent``."""


@contextmanager
def traced(spark: SparkSession) -> Iterator[None]:
    """In this context, make requests to the service children of this thread's current span.

    The property is set for this thread, as Spark's job groups are. Without a span, or without OpenTelemetry, nothing is
    set.

    Args:
        spark: A session of PySpark's classic API: a client of Spark Connect has no local properties.
    """
    context: Any = spark.sparkContext  # Any: by its annotation a property is a str, but None removes it
    before = context.getLocalProperty(PROPERTY)
    context.setLocalProperty(PROPERTY, current_traceparent())
    try:
        yield
    finally:
        context.setLocalProperty(PROPERTY, before)
