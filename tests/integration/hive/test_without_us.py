"""Everything that a session of ours puts into a metastore is read by a Spark without our jar, and by Hive.

Each kind of object is made through `lake` and through the session catalog. A second Spark, in a JVM of its own that has
neither our jar nor our extensions, reads all of them, and so does Hive's command line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.spark import session as sessions
from tests.integration.lake import rows
from tests.integration.spark_driver import HIVE as HIVE_SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveCli, HiveMetastore

pytestmark = pytest.mark.spark

NAMESPACE = "without_us"
OURS = "org.apache.spark.sql.catalogext"

TABLES = {
    "plain": "(id INT, s STRING) USING parquet",
    "keyed": (
        "(id INT, c CHAR(3), ds DATE, k INT) USING parquet PARTITIONED BY (ds, k) COMMENT 'c' TBLPROPERTIES ('a'='b')"
    ),
    "orced": "(id INT, s STRING, ds STRING) USING orc OPTIONS ('orc.create.index' 'false') PARTITIONED BY (ds)",
    "separated": "(id INT, s STRING, ds STRING) USING csv OPTIONS ('sep' '|', 'nullValue' 'NIL') PARTITIONED BY (ds)",
    "documents": "(id INT, s STRUCT<a: INT, b: ARRAY<STRING>>, ds STRING) USING json PARTITIONED BY (ds)",
    "lines": "(line STRING, ds STRING) USING text PARTITIONED BY (ds)",
    "defaulted": "(id INT, n INT DEFAULT 7, ds STRING) USING parquet PARTITIONED BY (ds)",
}
ROWS = {
    "plain": "(1, 'a'), (2, NULL)",
    "keyed": "(1, 'x', DATE '2025-01-01', 1), (2, 'yy', DATE '2025-01-02', NULL)",
    "orced": "(1, 'a', 'x'), (2, 'b', 'a b')",
    "separated": "(1, 'a,b', 'x'), (2, NULL, 'y')",
    "documents": "(1, named_struct('a', 1, 'b', array('q')), 'x')",
    "lines": "('one', 'x'), ('two', 'y')",
    "defaulted": "(1, DEFAULT, 'x'), (2, 3, 'y')",
}

IN_SESSION = [
    f"CREATE TABLE {NAMESPACE}.made USING catalog_ext OPTIONS ('format' = 'orc') PARTITIONED BY (ds) AS "
    "SELECT 1 AS id, 'x' AS ds",
    f"CREATE TABLE {NAMESPACE}.sparks USING parquet AS SELECT id, ds FROM {NAMESPACE}.made",
    f"CREATE TABLE {NAMESPACE}.alike LIKE {NAMESPACE}.made",
    f"CREATE VIEW {NAMESPACE}.viewed AS SELECT id, ds FROM {NAMESPACE}.keyed WHERE k = 1",
    f"CREATE VIEW {NAMESPACE}.atop AS SELECT id FROM {NAMESPACE}.viewed",
    f"CREATE VIEW {NAMESPACE}.replaced AS SELECT 1 AS one",
    f"CREATE OR REPLACE VIEW {NAMESPACE}.replaced AS SELECT id FROM {NAMESPACE}.orced",
    f"CREATE VIEW {NAMESPACE}.altered AS SELECT 1 AS one",
    f"ALTER VIEW {NAMESPACE}.altered AS SELECT s FROM {NAMESPACE}.plain",
    f"CREATE VIEW {NAMESPACE}.following WITH SCHEMA EVOLUTION AS SELECT * FROM {NAMESPACE}.plain",
    f"CREATE VIEW {NAMESPACE}.bound AS SELECT id FROM {NAMESPACE}.plain",
    f"ALTER VIEW {NAMESPACE}.bound WITH SCHEMA COMPENSATION",
    # What an early build stored, which the same statement takes out.
    f"ALTER VIEW {NAMESPACE}.viewed SET TBLPROPERTIES ('view.sqlConfig.spark.sql.catalog.spark_catalog' = '{OURS}.X')",
    f"CREATE FUNCTION {NAMESPACE}.twice(x INT) RETURNS INT RETURN x * 2",
    f"CREATE FUNCTION {NAMESPACE}.ids() RETURNS TABLE (id INT) RETURN SELECT id FROM {NAMESPACE}.plain",
    f"ANALYZE TABLE {NAMESPACE}.keyed COMPUTE STATISTICS FOR ALL COLUMNS",
    f"ANALYZE TABLE {NAMESPACE}.orced PARTITION (ds) COMPUTE STATISTICS",
]
IN_LAKE = [
    f"CREATE VIEW lake.{NAMESPACE}.ours AS SELECT id, k FROM lake.{NAMESPACE}.keyed",
    f"CREATE VIEW lake.{NAMESPACE}.parted PARTITIONED ON (ds) AS SELECT id, ds FROM lake.{NAMESPACE}.orced",
    f"ALTER VIEW lake.{NAMESPACE}.parted ADD PARTITION (ds = 'x')",
]
"""Views of ours, whose text says `lake`: the metastore gets it in Hive's dialect."""

READ_BY_SPARK = [
    *TABLES,
    "made",
    "sparks",
    "alike",
    "viewed",
    "atop",
    "replaced",
    "altered",
    "following",
    "bound",
    "ours",
    "parted",
]
READ_BY_HIVE = ["plain", "keyed", "orced", "lines", "defaulted", "made", "sparks", "viewed", "atop", "altered", "ours"]


@pytest.fixture(scope="module")
def spark(
    driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session with `lake` and our session catalog on one index, its default catalog `lake`, and all objects made."""
    folder = tmp_path_factory.mktemp("without-us")
    warehouse = str(folder / "warehouse")
    hive = {"spark.hadoop.hive.metastore.uris": hive_metastore.uri, "spark.sql.warehouse.dir": warehouse}
    with driver.catalog(
        {**HIVE_SUPPORT, **hive}, catalog="spark_catalog", warehouse=warehouse, index=str(folder / "index.db"),
        metastore=hive_metastore.uri,
    ) as spark:  # fmt: skip
        spark.conf.set("spark.sql.catalog.lake", sessions.CATALOG_CLASS)
        for key in ("uri", "token-file"):
            spark.conf.set(
                f"spark.sql.catalog.lake.{key}", spark.conf.get(f"spark.sql.catalog.spark_catalog.{key}") or ""
            )
        spark.sql(f"CREATE DATABASE lake.{NAMESPACE}")
        for name, definition in TABLES.items():
            spark.sql(f"CREATE TABLE lake.{NAMESPACE}.{name} {definition}")
            spark.sql(f"INSERT INTO lake.{NAMESPACE}.{name} VALUES {ROWS[name]}")
        # Captured as well, if it is set.
        spark.conf.set("spark.sql.defaultCatalog", "lake")
        spark.sql("USE spark_catalog.default")
        for statement in [*IN_SESSION, *IN_LAKE]:
            spark.sql(statement)
        yield spark
        spark.sql(f"DROP DATABASE IF EXISTS lake.{NAMESPACE} CASCADE")
        spark.sql(f"DROP DATABASE IF EXISTS spark_catalog.{NAMESPACE} CASCADE")


def query(name: str) -> str:
    return f"SELECT * FROM {NAMESPACE}.{name}"


def test_metastore_has_nothing_that_only_a_session_of_ours_can_load(
    spark: SparkSession, hive_metastore: HiveMetastore
) -> None:
    shared: Any = spark._jsparkSession.sharedState()
    client = shared.externalCatalog().unwrapped().client()
    names = client.listTables(NAMESPACE)
    found = {names.apply(i) for i in range(names.size())}
    assert found >= set(READ_BY_SPARK)
    for name in sorted(found):
        raw = str(client.getRawHiveTableOption(NAMESPACE, name).get().rawTable().getTTable())
        assert f"tableName:{name}" in raw
        assert [word for word in (OURS, "provider=catalog_ext", "defaultCatalog") if word in raw] == [], name
    for name in ("twice", "ids"):
        assert OURS not in str(client.getFunction(NAMESPACE, name)), name


def test_spark_without_us_reads_everything(spark: SparkSession, hive_metastore: HiveMetastore, tmp_path: Path) -> None:
    queries = {name: query(name) for name in READ_BY_SPARK}
    queries |= {"twice": f"SELECT {NAMESPACE}.twice(21)", "ids": f"SELECT * FROM {NAMESPACE}.ids()"}
    expected = {
        name: sorted([str(value) for value in row] for row in rows(spark, text)) for name, text in queries.items()
    }
    more = {f"described {name}": f"DESCRIBE EXTENDED {NAMESPACE}.{name}" for name in READ_BY_SPARK}
    environment = {k: v for k, v in os.environ.items() if k not in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS")}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("plain_reader.py")), hive_metastore.uri, str(tmp_path)],
        input=json.dumps(queries | more), capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert {name: found[name] for name in queries} == expected
    assert [name for name in more if isinstance(found[name], str)] == []


def test_hive_reads_the_tables_and_views(spark: SparkSession, hive_cli: HiveCli) -> None:
    expected = {name: rows(spark, query(name)) for name in READ_BY_HIVE if name != "ours"}
    expected["ours"] = rows(spark, f"SELECT * FROM lake.{NAMESPACE}.ours")
    found = hive_cli.run([query(name) for name in READ_BY_HIVE])
    for name, its_rows in zip(READ_BY_HIVE, found, strict=True):
        wanted = sorted(tuple("NULL" if v is None else str(v) for v in row) for row in expected[name])
        assert sorted(its_rows) == wanted, name
