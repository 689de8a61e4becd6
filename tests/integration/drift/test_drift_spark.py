"""``CALL lake.system.drift`` and ``mend_drift`` in Spark, on a real metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.thrift.connect import connect

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveMetastore


def test_found_and_mended_by_call(driver: Driver, hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    with driver.catalog(
        warehouse=f"file://{tmp_path}/warehouse", index=f"sqlite:///{tmp_path}/index.db", metastore=hive_metastore.uri
    ) as spark:
        spark.sql("CREATE NAMESPACE lake.called")
        spark.sql("CREATE TABLE lake.called.t (x INT, k INT) USING parquet PARTITIONED BY (k)")
        spark.sql("INSERT INTO lake.called.t VALUES (1, 1), (2, 2)")
        assert spark.sql("CALL lake.system.drift(table => 'called.t')").collect() == []
        client = connect(hive_metastore.uri)
        client.drop_partitions("called", "t", ["k=1"])
        (row,) = spark.sql("CALL lake.system.drift(table => 'called.t')").collect()
        assert (row["kind"], row["subject"], row["metastore"]) == ("partition", "k=1", "missing")
        mend = "CALL lake.system.mend_drift(table => 'called.t', source => 'index'"
        spark.sql(f"{mend}, dry_run => true)").collect()
        assert list(client.partition_names("called", "t")) == ["k=2"]
        assert [row["done"] for row in spark.sql(f"{mend})").collect()] == [True]
        assert sorted(client.partition_names("called", "t")) == ["k=1", "k=2"]
        client.drop_partitions("called", "t", ["k=2"])
        spark.sql("CALL lake.system.mend_drift(table => 'called.t', source => 'metastore', drop => true)").collect()
        assert [tuple(row) for row in spark.sql("SELECT x, k FROM lake.called.t").collect()] == [(1, 1)]
        client.close()
