"""A Spark session with the service's token for reading: it selects, and is refused every change by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.catalog import connect
from catalog_ext.service.server import Service, new_token

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

CHANGES = (
    "INSERT INTO lake.s.t VALUES (3, 'c')",
    "INSERT OVERWRITE lake.s.t VALUES (3, 'a')",
    "DELETE FROM lake.s.t WHERE k = 'a'",
    "TRUNCATE TABLE lake.s.t",
    "ALTER TABLE lake.s.t SET TBLPROPERTIES ('p' = '1')",
    "ALTER TABLE lake.s.t ADD COLUMNS (y INT)",
    "ALTER TABLE lake.s.t DROP PARTITION (k = 'a')",
    "ALTER TABLE lake.s.t ADD PARTITION (k = 'z')",
    "MSCK REPAIR TABLE lake.s.t",
    "ANALYZE TABLE lake.s.t COMPUTE STATISTICS",
    "CREATE TABLE lake.s.u (x INT)",
    "CREATE TABLE lake.s.u AS SELECT 1 AS x",
    "CREATE VIEW lake.s.w AS SELECT 1 AS x",
    "DROP TABLE lake.s.t",
    "CREATE NAMESPACE lake.n",
    "DROP NAMESPACE lake.s CASCADE",
    "CALL lake.system.repair_partitions(table => 's.t')",
    "CALL lake.system.vacuum(table => 's.t')",
)


def test_session_with_the_token_for_reading_selects_and_changes_nothing(driver: Driver, tmp_path: Path) -> None:
    token = new_token()
    index, warehouse = str(tmp_path / "index.db"), str(tmp_path / "wh")
    with connect(index=index, warehouse=warehouse, metastore=None) as catalog:
        with Service(catalog, read_token=token) as service:
            with driver.connected(service.uri, service.token) as spark:
                spark.sql("CREATE NAMESPACE lake.s")
                spark.sql("CREATE TABLE lake.s.t (x INT, k STRING) PARTITIONED BY (k)")
                spark.sql("INSERT INTO lake.s.t VALUES (1, 'a'), (2, 'b')")
                spark.sql("CREATE VIEW lake.s.v AS SELECT k, count(*) AS n FROM lake.s.t GROUP BY k")
            before = catalog.load_table("s.t")
            with driver.connected(service.uri, token) as spark:
                for _ in range(2):
                    assert [tuple(r) for r in spark.sql("SELECT * FROM lake.s.t ORDER BY x").collect()] == [
                        (1, "a"), (2, "b"),
                    ]  # fmt: skip
                    assert [tuple(r) for r in spark.sql("SELECT count(*), max(k) FROM lake.s.t").collect()] == [
                        (2, "b")
                    ]
                    assert spark.sql("SELECT * FROM lake.s.v").count() == 2
                assert spark.sql("SHOW PARTITIONS lake.s.t").count() == 2
                assert spark.sql("SELECT * FROM lake.s.t.history").count() == before.version + 1
                assert spark.sql("CALL lake.system.status()").count() == 0
                spark.sql("DESCRIBE EXTENDED lake.s.t").collect()
                refused = {}
                for statement in CHANGES:
                    with pytest.raises(PySparkException) as error:
                        spark.sql(statement).collect()
                    refused[statement] = error.value.getCondition()
                assert refused == dict.fromkeys(CHANGES, "CATALOG_EXT_READ_ONLY_TOKEN")
                assert "the session has the service's token for reading" in str(error.value)
        assert catalog.load_table("s.t") == before
        assert catalog.list_tables("s") == ["t"]
