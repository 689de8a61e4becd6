"""pandas, polars and DuckDB on `catalog.dataset()`, as docs/neighbours.md says, against Spark."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from catalog_ext.spark import session as sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.stores import S3Server

pytestmark = pytest.mark.spark

Rows = list[tuple[Any, ...]]

OLDER = """(1, 1.5D, TIMESTAMP'2025-01-01 10:00:00', DATE'2025-01-01', 'north'),
(2, 2.0D, TIMESTAMP'1950-01-01 10:00:00.123456', DATE'2025-01-01', 'a b/c%41'), (3, 4.0D, NULL, DATE'2025-01-02', NULL),
(5, 0.5D, NULL, DATE'2025-01-02', 'é=1&x'), (6, 1.0D, NULL, DATE'2025-01-02', 'é=1&x')"""
NEWER = """(5000000000, 8.0D, TIMESTAMP'2200-01-01 10:00:00', DATE'2025-01-03', 'north', 'web'),
(8, NULL, NULL, DATE'2025-01-03', 'south', NULL)"""
COLUMNS = ["id", "fare", "at", "channel", "ds", "region"]


@dataclass(frozen=True)
class Place:
    """A session whose table ``lake.s.trips`` has odd values in its keys, and a column that came later."""

    spark: SparkSession
    catalog: Catalog

    def of_spark(self, table: str, where: str | None = None) -> Rows:
        condition = "" if where is None else f"WHERE {where}"
        # Spark's own timestamps are local times; as microseconds they are the same everywhere.
        found = self.spark.sql(
            f"SELECT id, fare, unix_micros(at), channel, ds, region FROM lake.s.{table} {condition} ORDER BY id"
        )
        return [tuple(row) for row in found.collect()]


def write(spark: SparkSession, file_format: str, table: str) -> None:
    spark.sql(
        f"CREATE TABLE lake.s.{table} (id INT, fare DOUBLE, at TIMESTAMP, ds DATE, region STRING) USING {file_format} "
        "PARTITIONED BY (ds, region)"
    )
    spark.sql(f"INSERT INTO lake.s.{table} VALUES {OLDER}")
    # What is no longer in the table is still in its folder.
    spark.sql(f"INSERT OVERWRITE lake.s.{table} VALUES (7, 3.25D, NULL, DATE'2025-01-01', 'north')")
    spark.sql(f"ALTER TABLE lake.s.{table} ADD COLUMNS (channel STRING)")
    spark.sql(f"ALTER TABLE lake.s.{table} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"INSERT INTO lake.s.{table} (id, fare, at, ds, region, channel) VALUES {NEWER}")


@contextlib.contextmanager
def place(driver: Driver, **arguments: Any) -> Iterator[Place]:
    with driver.catalog(metastore=None, **arguments) as spark:
        spark.sql("CREATE NAMESPACE lake.s")
        write(spark, "parquet", "trips")
        yield Place(spark, sessions.active_catalog("lake"))


def with_pandas(catalog: Catalog, table: str, where: str | None) -> pa.Table:
    frame = catalog.dataset(f"s.{table}", where).to_table().to_pandas(types_mapper=pd.ArrowDtype)
    return pa.Table.from_pandas(frame, preserve_index=False)


def with_polars(catalog: Catalog, table: str, where: str | None) -> pa.Table:
    return pl.scan_pyarrow_dataset(catalog.dataset(f"s.{table}", where)).collect().to_arrow()


def with_duckdb(catalog: Catalog, table: str, where: str | None) -> pa.Table:
    trips = catalog.dataset(f"s.{table}", where)
    assert trips.schema.names == COLUMNS
    return duckdb.sql("SELECT * FROM trips").to_arrow_table()


def rows(found: pa.Table) -> Rows:
    """The rows by id, timestamps as microseconds."""
    micros = found["at"].cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    columns = [micros if name == "at" else found[name] for name in COLUMNS]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=lambda row: row[0])


def check(place: Place, read: Callable[..., pa.Table], table: str = "trips") -> None:
    for where, count in ((None, 7), ("ds = DATE '2025-01-02' AND region IS NOT NULL", 2), ("region IS NULL", 1)):
        found = rows(read(place.catalog, table, where))
        assert found == place.of_spark(table, where)
        assert len(found) == count


def test_the_same_rows_as_spark_on_a_disk(driver: Driver, tmp_path: Path) -> None:
    """The session's zone is UTC, in which local times of ORC are instants."""
    with place(driver, warehouse=str(tmp_path / "wh"), index=str(tmp_path / "index.db")) as found:
        found.spark.conf.set("spark.sql.session.timeZone", "UTC")
        write(found.spark, "orc", "orcs")
        for read in (with_pandas, with_polars, with_duckdb):
            check(found, read)
            check(found, read, "orcs")


def test_the_same_rows_as_spark_on_s3(driver: Driver, tmp_path: Path, s3_server: S3Server) -> None:
    """The dataset has the store's settings from the catalog."""
    bucket = s3_server.make_bucket("dataframes")
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
    }  # fmt: skip
    index = str(tmp_path / "index.db")
    with place(driver, warehouse=f"s3a://{bucket}/wh", index=index, storage=storage) as found:
        for read in (with_pandas, with_polars, with_duckdb):
            check(found, read)
