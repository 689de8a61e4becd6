"""pandas, polars and DuckDB on the files that `catalog.files()` names, as docs/neighbours.md says, against Spark."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from pyarrow.fs import LocalFileSystem, S3FileSystem

from catalog_ext.spark import session as sessions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.stores import S3Server

pytestmark = pytest.mark.spark

Rows = list[tuple[date, "str | None", int, float]]

KEYS = pa.schema([("ds", pa.date32()), ("region", pa.string())])
HIVE = pads.partitioning(KEYS, flavor="hive")
ROWS = """VALUES (1, 1.5D, DATE'2025-01-01', 'north'), (2, 2.0D, DATE'2025-01-01', 'a b/c%41'),
(3, 4.0D, DATE'2025-01-02', NULL),
(4, 8.0D, DATE'2025-01-02', 'north'), (5, 0.5D, DATE'2025-01-02', 'é=1&x'), (6, 1.0D, DATE'2025-01-02', 'é=1&x')"""


@dataclass(frozen=True)
class Place:
    """A session whose table ``lake.s.trips`` has odd values in its keys, and how its store is reached otherwise."""

    spark: SparkSession
    catalog: Catalog
    store: FileSystem
    options: dict[str, str]

    def urls(self, where: str | None = None) -> list[str]:
        table = self.catalog.load_table("s.trips")
        return [
            f"{table.directory(row['partition'], row['location'])}/{row['path']}"
            for row in self.catalog.files("s.trips", where).to_pylist()
        ]

    def paths(self, where: str | None = None) -> list[str]:
        """The same as pyarrow's file systems take them: ``bucket/key``, or a path."""
        return [url.split("://", 1)[1] for url in self.urls(where)]

    def of_spark(self, where: str | None = None) -> Rows:
        found = self.spark.sql(
            "SELECT ds, region, count(*), sum(fare) FROM lake.s.trips "
            f"{'' if where is None else 'WHERE ' + where} GROUP BY ALL"
        )
        return in_order(found.collect())


def in_order(rows: Any) -> Rows:
    return sorted((tuple(row) for row in rows), key=lambda row: (row[0], row[1] is None, row[1] or ""))


def write(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lake.s")
    spark.sql("CREATE TABLE lake.s.trips (id INT, fare DOUBLE, ds DATE, region STRING) PARTITIONED BY (ds, region)")
    spark.sql(f"INSERT INTO lake.s.trips {ROWS}")
    # What is no longer in the table is still in its folder.
    spark.sql("INSERT OVERWRITE lake.s.trips VALUES (7, 3.25D, DATE'2025-01-01', 'north')")


@contextlib.contextmanager
def local(driver: Driver, folder: Path) -> Iterator[Place]:
    with driver.catalog(warehouse=str(folder / "wh"), index=str(folder / "index.db"), metastore=None) as spark:
        write(spark)
        yield Place(spark, sessions.active_catalog("lake"), LocalFileSystem(), {})


@contextlib.contextmanager
def on_s3(driver: Driver, folder: Path, server: S3Server) -> Iterator[Place]:
    bucket = server.make_bucket("dataframes")
    storage = {
        "endpoint": server.endpoint, "access_key": server.access_key, "secret_key": server.secret_key,
        "region": server.region, "path_style": "true",
    }  # fmt: skip
    index = str(folder / "index.db")
    with driver.catalog(warehouse=f"s3a://{bucket}/wh", index=index, metastore=None, storage=storage) as spark:
        write(spark)
        store = S3FileSystem(
            access_key=server.access_key, secret_key=server.secret_key, region=server.region,
            endpoint_override=server.endpoint,
        )  # fmt: skip
        options = {
            "aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key,
            "aws_region": server.region, "aws_endpoint_url": server.endpoint, "aws_allow_http": "true",
        }  # fmt: skip
        yield Place(spark, sessions.active_catalog("lake"), store, options)


def with_pandas(place: Place, where: str | None = None) -> Rows:
    frame = pd.read_parquet(place.paths(where), filesystem=place.store, partitioning=HIVE)
    frame["region"] = frame["region"].astype(object).where(frame["region"].notna(), None)
    grouped = frame.groupby(["ds", "region"], dropna=False)["fare"].agg(["size", "sum"]).reset_index()
    rows = [(d, None if pd.isna(r) else r, int(n), float(f)) for d, r, n, f in grouped.itertuples(index=False)]
    return in_order(rows)


def with_polars(place: Place, where: str | None = None) -> Rows:
    frame = pl.scan_parquet(
        # Of `file://` it takes `%2F` for a slash, which is a part of a directory's name here.
        [f"s3://{path}" if place.options else path for path in place.paths(where)],
        hive_partitioning=True, hive_schema={"ds": pl.Date, "region": pl.String}, storage_options=place.options or None,
    )  # fmt: skip
    return in_order(frame.group_by("ds", "region").agg(pl.len(), pl.sum("fare")).collect().rows())


def with_duckdb(place: Place, where: str | None = None) -> Rows:
    trips = pads.dataset(place.paths(where), format="parquet", partitioning=HIVE, filesystem=place.store)
    assert trips.schema.names == ["id", "fare", "ds", "region"]
    return in_order(duckdb.sql("SELECT ds, region, count(*), sum(fare) FROM trips GROUP BY ALL").fetchall())


def with_duckdbs_own_reader(place: Place, where: str | None = None) -> Rows:
    found = duckdb.sql(
        f"SELECT ds, region, count(*), sum(fare) FROM read_parquet({place.paths(where)!r}, hive_partitioning = true, "
        "hive_types = {'ds': DATE, 'region': VARCHAR}) GROUP BY ALL"
    )
    return in_order(found.fetchall())


def check(place: Place, read: Callable[..., Rows]) -> None:
    assert read(place) == place.of_spark()
    assert (date(2025, 1, 1), "north", 1, 3.25) in read(place)
    where = "ds = DATE '2025-01-02' AND region IS NOT NULL"
    assert read(place, where) == place.of_spark(where)
    assert len(read(place, where)) == 2


def test_the_same_rows_as_spark_on_a_disk(driver: Driver, tmp_path: Path) -> None:
    with local(driver, tmp_path) as place:
        for read in (with_pandas, with_polars, with_duckdb, with_duckdbs_own_reader):
            check(place, read)


def test_the_same_rows_as_spark_on_s3(driver: Driver, tmp_path: Path, s3_server: S3Server) -> None:
    """DuckDB's own reader of S3 is an extension that it fetches from its site."""
    with on_s3(driver, tmp_path, s3_server) as place:
        for read in (with_pandas, with_polars, with_duckdb):
            check(place, read)
