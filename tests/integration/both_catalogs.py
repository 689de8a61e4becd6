"""A session with tables of the index in its session catalog, and in the catalog ``lake`` as well."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.spark import session as sessions
from tests.integration.lake import Lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.spark_driver import Driver


@dataclass(frozen=True)
class Place:
    """The namespace ``w`` of one of the two catalogs; the two have the same tables.

    Attributes:
        catalog: The name of the catalog.
        namespace: As statements write it.
    """

    catalog: str
    namespace: str

    def __str__(self) -> str:
        return self.catalog

    def table(self, name: str) -> str:
        """The name of a table as statements write it: another table in each place."""
        return f"{self.namespace}.{self.short(name)}"

    def short(self, name: str) -> str:
        """The name of a table without its namespace."""
        return f"{name}_{self.catalog[0]}"


PLACES = [Place("lake", "lake.w"), Place("spark_catalog", "w")]


@contextmanager
def both_catalogs(driver: Driver, folder: Path) -> Iterator[Lake]:
    """The session, whose session catalog makes a table of ours for each format."""
    with driver.catalog(
        {"spark.sql.catalog.spark_catalog.create.formats": "*"},
        catalog="spark_catalog",
        warehouse=str(folder / "ours"),
        index=str(folder / "index.db"),
        metastore=None,
    ) as spark:
        prefix = "spark.sql.catalog."
        spark.conf.set(f"{prefix}lake", sessions.CATALOG_CLASS)
        for option in ("uri", "token-file"):
            spark.conf.set(f"{prefix}lake.{option}", spark.conf.get(f"{prefix}spark_catalog.{option}"))
        spark.sql("CREATE DATABASE w")
        # The first table makes the namespace in the index.
        spark.sql("CREATE TABLE w.first (i INT) USING parquet")
        yield Lake(spark, sessions.active_catalog("spark_catalog"), folder)
