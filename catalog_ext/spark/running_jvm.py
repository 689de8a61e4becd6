"""The connector in a JVM that runs already, where ``spark.jars`` comes too late for the driver."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from pathlib import Path


_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Where a script of spark-submit finds the JVM that has started it."""


def jvm_runs() -> bool:
    """Return whether the driver's JVM has been started already."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or _GATEWAY in os.environ


def add_to_running_jvm(jar: Path) -> None:
    """Let the driver's JVM load the connector, if it has been started already.

    ``spark-submit`` starts the JVM before the script, and a session that was stopped leaves its own. Jars of a new
    session's settings reach the executors of such a JVM, but not the class loader that catalogs and extensions
    come from.

    Raises:
        EnvironmentSetupError: The JVM does not take the jar.
    """
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    if not jvm_runs():
        return
    SparkContext._ensure_initialized()
    jvm = SparkContext._jvm
    assert jvm is not None
    try:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        loader.addURL(jvm.java.net.URL(jar.as_uri()))
    except Py4JError as error:
        raise EnvironmentSetupError(
            f"The running JVM does not take the connector {jar}: {error}. "
            f"Give it at the start: spark-submit --jars {jar}.",
            {"jar": str(jar)},
        ) from error
