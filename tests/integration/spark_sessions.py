"""Spark sessions of the test modules. Each has a JVM of its own: jars and extensions are settled when a JVM starts."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Iterator


def small_builder(master: str = "local[2]") -> SparkSession.Builder:
    """A builder with what keeps a test's session small and quiet."""
    # Spark would start its workers with whatever python3 the PATH has; they need this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


@contextmanager
def fresh_session(builder: SparkSession.Builder) -> Iterator[SparkSession]:
    """The session that the builder makes, in a new JVM that ends with it."""
    end_jvm()
    session = builder.getOrCreate()
    # What a test expects to fail is not to fill its output.
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        end_jvm()


def end_jvm() -> None:
    """End PySpark's JVM, if one runs."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.kill()
    process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    SparkContext._active_spark_context = None
