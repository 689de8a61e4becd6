"""Spark sessions whose catalog is a service at some address."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog_ext.connector.build import connector_jar
from tests.integration.spark_sessions import fresh_session, small_builder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


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
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.spark.sql.catalogext.CatalogExtExtensions",
        prefix: "org.apache.spark.sql.catalogext.CatalogExtCatalog",
        f"{prefix}.uri": uri,
        f"{prefix}.token": token,
        **(conf or {}),
    }
    builder = small_builder(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with fresh_session(builder) as session:
        yield session
