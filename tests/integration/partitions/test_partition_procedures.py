"""The procedures that keep partitions in order, as Spark calls them, and what its statements see of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from catalog_ext.spark.session import active_catalog
from tests.integration.lake import rows
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver


pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("procedures")
    with driver.catalog(warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=None) as session:
        session.sql("CREATE NAMESPACE lake.s")
        session.sql("USE lake.s")
        yield session


def test_dropping_by_a_condition_and_by_age(spark: SparkSession) -> None:
    now = datetime.now(timezone.utc)
    old, young = ((now - timedelta(days=days)).date().isoformat() for days in (100, 2))
    spark.sql("CREATE TABLE aged (id INT, ds DATE) USING parquet PARTITIONED BY (ds)")
    spark.sql(f"INSERT INTO aged VALUES (1, DATE'{old}'), (2, DATE'{young}'), (3, NULL), (4, DATE'2001-02-03')")
    where = "ds < '2010-01-01'"
    preview = rows(spark, f'CALL lake.system.drop_partitions(table => "s.aged", where => "{where}", dry_run => true)')
    assert [(row[0], row[1], row[3], row[5]) for row in preview] == [("drop", "ds=2001-02-03", 1, "dropped")]
    assert rows(spark, f'CALL lake.system.drop_partitions(table => "s.aged", where => "{where}")') == preview
    assert rows(spark, "SELECT id FROM aged ORDER BY id") == [(1,), (2,), (3,)]
    spark.sql("ALTER TABLE aged SET TBLPROPERTIES ('partition.retention.period' = '30d')")
    (gone,) = rows(spark, "CALL lake.system.expire_partitions(table => 's.aged')")
    assert (gone[1], "longer ago than 30d" in str(gone[5])) == (f"ds={old}", True)
    assert rows(spark, "SELECT id FROM aged ORDER BY id") == [(2,), (3,)]


def test_other_types_and_modes_of_partition_columns(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE typed (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO typed VALUES (1, '9'), (2, '10')")
    assert rows(spark, "SELECT max(k) FROM typed") == [("9",)]
    before = spark.table("typed")
    assert before.schema["k"].dataType.simpleString() == "string"
    (changed,) = rows(spark, "CALL lake.system.set_partition_columns(table => 's.typed', types => map('k', 'int'))")
    assert changed == ("s.typed", "k INT", "declared")
    assert rows(spark, "SELECT max(k) FROM typed") == [(10,)]
    assert rows(spark, "SELECT id FROM typed WHERE k < 10") == [(1,)]
    spark.sql("INSERT INTO typed VALUES (3, 11)")
    assert rows(spark, "SHOW PARTITIONS typed") == [("k=9",), ("k=10",), ("k=11",)]
    spark.sql("CALL lake.system.set_partition_columns(table => 's.typed', mode => 'virtual')")
    assert spark.table("typed").columns == ["id"]
    assert rows(spark, "SELECT id, k FROM typed WHERE k > 9 ORDER BY k") == [(2, 10), (3, 11)]
    with pytest.raises(Exception, match="CATALOG_EXT_INVALID_VALUE"):
        spark.sql("CALL lake.system.set_partition_columns(table => 's.typed', types => map('k', 'date'))")


@pytest.mark.requirement("Flink.AddPartition", statement="ALTER TABLE moved ADD")
@pytest.mark.requirement("Flink.DropPartition", statement="ALTER TABLE moved DROP")
@pytest.mark.requirement("Flink.ExchangePartition", statement="ALTER TABLE moved EXCHANGE")
def test_statements_move_files_and_rows(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE moved (id INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("CREATE TABLE staged (id INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO moved VALUES (1, 1), (2, 2)")
    spark.sql("INSERT INTO staged VALUES (5, 5), (6, 6), (7, 7)")
    spark.sql("CACHE TABLE moved")
    spark.sql("ALTER TABLE moved EXCHANGE PARTITION (k = 5) WITH TABLE staged")
    assert rows(spark, "SELECT id, k FROM moved ORDER BY id") == [(1, 1), (2, 2), (5, 5)]
    assert rows(spark, "SELECT id, k FROM staged ORDER BY id") == [(6, 6), (7, 7)]
    spark.sql("ALTER TABLE moved PARTITION (k = 1) RENAME TO PARTITION (k = 9)")
    spark.sql("ALTER TABLE moved DROP PARTITION (k < 5)")
    assert rows(spark, "SELECT id, k FROM moved ORDER BY k") == [(5, 5), (1, 9)]
    spark.range(3).selectExpr("CAST(id AS INT) id").write.parquet(f"{tmp_path}/own")
    spark.sql(f"ALTER TABLE moved ADD PARTITION (k = 3) LOCATION 'file://{tmp_path}/own' PARTITION (k = 4)")
    assert rows(spark, "SELECT k, count(*) FROM moved GROUP BY k ORDER BY k") == [(3, 3), (5, 1), (9, 1)]
    assert rows(spark, "SHOW PARTITIONS moved") == [("k=3",), ("k=4",), ("k=5",), ("k=9",)]
    spark.sql("ALTER TABLE moved PARTITION (k = 5) SET LOCATION 'fresh'")
    assert rows(spark, "SELECT k, count(*) FROM moved GROUP BY k ORDER BY k") == [(3, 3), (9, 1)]
    assert rows(spark, "CALL lake.system.recover(older_than => '0s')") == []


def test_calls_refresh_what_is_cached_of_every_table_that_they_touch(spark: SparkSession) -> None:
    for name in ("target", "source"):
        spark.sql(f"CREATE TABLE {name} (id INT, k INT) USING parquet PARTITIONED BY (k)")
    spark.sql("INSERT INTO source VALUES (1, 1), (2, 2)")
    for name in ("target", "source"):
        spark.sql(f"CACHE TABLE {name}")
    spark.sql(
        "CALL lake.system.exchange_partitions("
        "table => 's.target', source => 'lake.s.source', partition => map('k', '1'))"
    )
    assert rows(spark, "SELECT id FROM target") == [(1,)]
    assert rows(spark, "SELECT id FROM source") == [(2,)]
    catalog = active_catalog("lake")
    spark.sql("CREATE TABLE dead (x INT, ds STRING) USING csv PARTITIONED BY (ds)")
    spark.sql("CACHE TABLE dead")
    crash_at("reserve.after", lambda: insert(catalog, "ds=a", table="s.dead"))
    assert rows(spark, "SELECT ds FROM dead") == []
    assert len(rows(spark, "CALL lake.system.recover(older_than => '0s')")) == 1
    assert rows(spark, "SELECT ds FROM dead") == [("a",)]
    spark.catalog.clearCache()


@pytest.mark.parametrize("name", ["my-db.t", "`my-db`.t", "lake.my-db.t"])
def test_a_call_refreshes_a_table_with_a_name_in_backticks(spark: SparkSession, name: str) -> None:
    """The service accepts such a name without backticks, which Spark's parser refuses."""
    spark.sql("CREATE NAMESPACE lake.`my-db`")
    try:
        spark.sql("CREATE TABLE lake.`my-db`.t (id INT, k INT) USING parquet PARTITIONED BY (k)")
        spark.sql("INSERT INTO lake.`my-db`.t VALUES (1, 1), (2, 2)")
        spark.sql("CACHE TABLE lake.`my-db`.t")
        assert rows(spark, "SELECT id FROM lake.`my-db`.t ORDER BY id") == [(1,), (2,)]
        rows(spark, f"CALL lake.system.drop_partitions(table => '{name}', where => 'k = 1')")
        assert rows(spark, "SELECT id FROM lake.`my-db`.t") == [(2,)]
    finally:
        spark.catalog.clearCache()
        spark.sql("DROP NAMESPACE lake.`my-db` CASCADE")
