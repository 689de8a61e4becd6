"""Spark sessions with the connector, each in a JVM of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

from catalog_ext.connector.build import connector_jar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def connector_session(
    uri: str,
    token: str,
    *,
    catalog: str = "lake",
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session whose catalog ``catalog`` is the service at ``uri``; it and its JVM end with the block."""
    prefix = f"spark.sql.catalog.{catalog}"
    settings = {
        "spark.jars": str(connector_jar()),
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.spark.sql.catalogext.CatalogExtExtensions",
        prefix: "org.apache.spark.sql.catalogext.CatalogExtCatalog",
        f"{prefix}.uri": uri,
        f"{prefix}.token": token,
        **(conf or {}),
    }
    builder = SparkSession.builder.master(master).appName("connector tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        stop_session(session)


def stop_session(session: SparkSession) -> None:
    """Stops the session and its JVM: another session's jars are on the class path of a new JVM only."""
    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
    SparkContext._gateway = None
    SparkContext._jvm = None
