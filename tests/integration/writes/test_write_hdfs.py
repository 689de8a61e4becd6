"""Tables on a real HDFS: written by Spark through staged files, listed by repair, with nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.spark.session import active_catalog
from tests.integration import lake
from tests.kit.promotion_cases import files_below

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.hdfs import HdfsServer


pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def spark(driver: Driver, hdfs_server: HdfsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder: Path = tmp_path_factory.mktemp("hdfs-writes")
    with driver.catalog(
        {"spark.hadoop.dfs.replication": "1"}, warehouse=f"{hdfs_server.uri}/warehouse",
        index=f"sqlite:///{folder / 'index.db'}", metastore=None,
    ) as session:  # fmt: skip
        session.sql("CREATE NAMESPACE lake.sales")
        yield session


@pytest.fixture
def catalog(spark: SparkSession) -> Catalog:
    return active_catalog("lake")


def rows(spark: SparkSession, table: str) -> list[tuple[object, ...]]:
    return sorted(lake.rows(spark, f"SELECT x, ds FROM {table}"))


def hosts(frame: DataFrame) -> set[str]:
    """Where the tasks of a frame had best run."""
    rdd = frame._jdf.queryExecution().toRdd()
    return {str(rdd.preferredLocations(partition)) for partition in rdd.partitions()}


def directories_of_files(catalog: Catalog, root: Location) -> list[str]:
    return [name.rpartition("/")[0] for name in files_below(catalog.storage, root)]


@pytest.mark.requirement("Doris.Storage", statement="CREATE TABLE")
@pytest.mark.requirement(
    "Doris.HDFS.Partitioned",
    statement="INSERT OVERWRITE",
    differs="The commit renames files one by one, and no directories, so that a directory never "
    "disappears for a reader of the index.",
)
def test_writes_on_hdfs(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE lake.sales.t (x BIGINT, ds STRING) PARTITIONED BY (ds)")
    table = catalog.load_table("sales.t")
    root = Location.parse(table.definition.location)
    assert root.scheme == "hdfs"

    spark.sql("INSERT INTO lake.sales.t VALUES (1, 'a'), (2, 'b'), (3, 'x:y/z')")
    spark.sql("INSERT INTO lake.sales.t VALUES (4, 'a')")
    assert rows(spark, "lake.sales.t") == [(1, "a"), (2, "b"), (3, "x:y/z"), (4, "a")]
    assert [name.split("/")[0] for name in files_below(catalog.storage, root)] == [
        "ds=a",
        "ds=a",
        "ds=b",
        "ds=x%3Ay%2Fz",
    ]
    # A reader that knows nothing of the index finds the same.
    plain = spark.read.parquet(str(root)).select("x", "ds")
    assert sorted(tuple(row) for row in plain.collect()) == rows(spark, "lake.sales.t")
    assert hosts(spark.table("lake.sales.t").select("x", "ds")) == hosts(plain)
    assert len(catalog.repair_partitions("sales.t")) == 0

    spark.sql("INSERT OVERWRITE lake.sales.t VALUES (5, 'a')")
    spark.sql("DELETE FROM lake.sales.t WHERE ds = 'b'")
    assert rows(spark, "lake.sales.t") == [(3, "x:y/z"), (5, "a")]
    assert directories_of_files(catalog, root) == ["ds=a", "ds=x%3Ay%2Fz"]

    with pytest.raises(PySparkException):
        spark.sql("INSERT INTO lake.sales.t SELECT CAST(raise_error('no') AS BIGINT), 'c' FROM range(3)")
    assert sorted(entry.location.name for entry in catalog.storage.list_directory(root)) == ["ds=a", "ds=x%3Ay%2Fz"]


@pytest.mark.requirement(
    "Doris.HDFS.Staging",
    statement="INSERT INTO",
    differs="Temporary files are in a hidden folder of the table (`staging-dir`), so that renames are cheap.",
)
@pytest.mark.requirement(
    "Doris.HDFS.Unpartitioned",
    statement="INSERT OVERWRITE",
    differs="The commit renames files one by one, and never the table's directory.",
)
def test_an_unpartitioned_table_on_hdfs(spark: SparkSession, catalog: Catalog) -> None:
    spark.sql("CREATE TABLE lake.sales.whole (x BIGINT)")
    root = Location.parse(catalog.load_table("sales.whole").definition.location)
    seen: list[list[str]] = []
    with armed("reserve.before", lambda _: seen.append(files_below(catalog.storage, root))):
        spark.sql("INSERT INTO lake.sales.whole VALUES (1), (2)")
    (staged,) = seen
    assert {name.split("/")[0] for name in staged} == {"_catalog_ext_staging"}
    first = files_below(catalog.storage, root)
    assert first
    spark.sql("INSERT INTO lake.sales.whole VALUES (3)")
    assert set(first) < set(files_below(catalog.storage, root))
    spark.sql("INSERT OVERWRITE lake.sales.whole VALUES (4)")
    assert [tuple(row) for row in spark.sql("SELECT x FROM lake.sales.whole").collect()] == [(4,)]
    assert len(files_below(catalog.storage, root)) == 1


@pytest.mark.requirement(
    "RQ.HivePartitioning.TableEngines.HDFS",
    statement="SELECT x",
    differs="Registration takes the keys from the paths, or with types from its arguments; there is "
    "no PARTITION BY clause.",
)
def test_tables_that_others_wrote_on_hdfs(spark: SparkSession, catalog: Catalog, hdfs_server: HdfsServer) -> None:
    location = f"{hdfs_server.uri}/others/sales"
    spark.range(4).selectExpr("id AS x", "CONCAT('2025-01-0', id % 2 + 1) AS `date`").write.partitionBy("date").parquet(
        location
    )
    catalog.register_table("sales.others", location=location, partition_columns={"date": "DATE"})
    catalog.repair_partitions("sales.others")
    query = "SELECT x, `date` FROM lake.sales.others WHERE `date` = DATE '2025-01-02' ORDER BY x"
    assert [(row[0], str(row[1])) for row in spark.sql(query).collect()] == [(1, "2025-01-02"), (3, "2025-01-02")]
