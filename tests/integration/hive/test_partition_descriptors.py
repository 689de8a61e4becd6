"""Partitions to which a real Hive 2.3 has given another format, SerDe or columns than their table has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.spark import session as sessions
from tests.integration.spark_driver import HIVE
from tests.servers.hive import HiveCli, HiveMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

DB = "mixed"
LAZY = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
QUERIES = {
    # Hive 2.3 itself shows NULL for all that is in an ORC partition of a Parquet table.
    "parquet": (
        "SELECT k, a, b, c FROM {t} WHERE k <> 2", "SELECT a, b FROM {t} WHERE k = 3",
        "SELECT k, c FROM {t} WHERE k <> 2 AND a >= 2 AND b LIKE '%o%'",
        "SELECT k FROM {t} WHERE k > 2 AND c IS NOT NULL",
    ),
    "delimited": ("SELECT k, a, b FROM {t}", "SELECT b FROM {t} WHERE a = 1"),
    "grown": ("SELECT k, a, b FROM {t}", "SELECT k, a FROM {t} WHERE b IS NULL"),
    "cascaded": ("SELECT k, a, c FROM {t}", "SELECT k FROM {t} WHERE c = 2"),
    "widened": ("SELECT k, a, b FROM {t}", "SELECT k FROM {t} WHERE a > 5"),
    "as_text": ("SELECT k, a FROM {t}", "SELECT k FROM {t} WHERE a = '7'"),
    "retyped": ("SELECT k, a, v, concat('<', c, '>') FROM {t}", "SELECT k FROM {t} WHERE a = '7' AND v = 'abc'"),
}  # fmt: skip


@pytest.fixture(scope="module")
def hive(logged_hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> HiveCli:
    return HiveCli(tmp_path_factory.mktemp("hive") / "cli", logged_hive_metastore.uri)


@pytest.fixture(scope="module")
def spark(
    driver: Driver, logged_hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("descriptors")
    conf = {
        **HIVE,
        "spark.hadoop.hive.metastore.uris": logged_hive_metastore.uri,
        # Spark's own readers would take all partitions for the table's format.
        "spark.sql.hive.convertMetastoreParquet": "false",
        "spark.sql.hive.convertMetastoreOrc": "false",
    }
    with driver.catalog(
        conf, warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=logged_hive_metastore.uri
    ) as session:
        yield session


@pytest.fixture
def catalog(spark: SparkSession) -> Catalog:
    assert spark
    return sessions.active_catalog("lake.any.any")


def text(place: Path, *lines: str) -> str:
    place.mkdir(parents=True)
    (place / "rows").write_text("".join(f"{line}\n" for line in lines))
    return f"file://{place}"


def made(root: Path) -> list[str]:
    """The statements that make the tables."""
    piped = f"SET SERDE '{LAZY}' WITH SERDEPROPERTIES ('field.delim' = '|', 'serialization.null.format' = 'nil')"
    delimited = "ROW FORMAT DELIMITED FIELDS TERMINATED BY ','"
    return [
        f"CREATE DATABASE IF NOT EXISTS {DB}",
        f"USE {DB}",
        f"CREATE EXTERNAL TABLE o (a INT, b STRING, c DOUBLE) STORED AS ORC LOCATION 'file://{root}/orc'",
        "INSERT INTO o VALUES (2, 'orc', 0.5), (3, NULL, NULL)",
        "CREATE TABLE parquet (a INT, b STRING, c DOUBLE) PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO parquet PARTITION (k = 1) VALUES (1, 'own', 1.5), (9, 'o', 2.5)",
        f"ALTER TABLE parquet ADD PARTITION (k = 2) LOCATION 'file://{root}/orc'",
        "ALTER TABLE parquet PARTITION (k = 2) SET FILEFORMAT ORC",
        f"ALTER TABLE parquet ADD PARTITION (k = 3) LOCATION '{text(root / 'text', '4|four|4.5', '5|nil|nil')}'",
        "ALTER TABLE parquet PARTITION (k = 3) SET FILEFORMAT TEXTFILE",
        f"ALTER TABLE parquet PARTITION (k = 3) {piped}",
        f"CREATE TABLE delimited (a INT, b STRING) PARTITIONED BY (k INT) {delimited}",
        f"ALTER TABLE delimited ADD PARTITION (k = 1) LOCATION '{text(root / 'commas', '1,x|y', '2,z')}'",
        "ALTER TABLE delimited SET SERDEPROPERTIES ('field.delim' = '|', 'serialization.format' = '|')",
        f"ALTER TABLE delimited ADD PARTITION (k = 2) LOCATION '{text(root / 'pipes', '1|x,y', '3|w')}'",
        f"CREATE TABLE grown (a INT) PARTITIONED BY (k INT) {delimited}",
        f"ALTER TABLE grown ADD PARTITION (k = 1) LOCATION '{text(root / 'grown', '1,hidden', '2')}'",
        "ALTER TABLE grown ADD COLUMNS (b STRING)",
        f"ALTER TABLE grown ADD PARTITION (k = 2) LOCATION '{text(root / 'grown2', '1,b')}'",
        f"CREATE TABLE cascaded (a INT) PARTITIONED BY (k INT) {delimited}",
        f"ALTER TABLE cascaded ADD PARTITION (k = 1) LOCATION '{text(root / 'cascaded', '1,2', '2')}'",
        "ALTER TABLE cascaded ADD COLUMNS (c INT) CASCADE",
        f"CREATE TABLE widened (a INT, b FLOAT) PARTITIONED BY (k INT) {delimited}",
        f"ALTER TABLE widened ADD PARTITION (k = 1) LOCATION '{text(root / 'widened', '7,0.1')}'",
        "ALTER TABLE widened CHANGE COLUMN a a BIGINT",
        "ALTER TABLE widened CHANGE COLUMN b b DOUBLE",
        f"ALTER TABLE widened ADD PARTITION (k = 2) LOCATION '{text(root / 'widened2', '5000000000,0.25')}'",
        # Hive 2.3 cannot read what it has written of this one.
        "CREATE TABLE wider (a INT) PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO wider PARTITION (k = 1) VALUES (7)",
        "ALTER TABLE wider CHANGE COLUMN a a BIGINT",
        "CREATE TABLE as_text (a INT) PARTITIONED BY (k INT) STORED AS PARQUET",
        "INSERT INTO as_text PARTITION (k = 1) VALUES (7)",
        "ALTER TABLE as_text CHANGE COLUMN a a STRING",
        "INSERT INTO as_text PARTITION (k = 2) VALUES ('seven')",
        f"CREATE TABLE retyped (a INT, v VARCHAR(3), c CHAR(5)) PARTITIONED BY (k INT) {delimited}",
        f"ALTER TABLE retyped ADD PARTITION (k = 1) LOCATION '{text(root / 'retyped', '007,abcdef,ab   x', '8,é,b ')}'",
        *(f"ALTER TABLE retyped CHANGE COLUMN {name} {name} STRING" for name in "avc"),
        f"ALTER TABLE retyped ADD PARTITION (k = 2) LOCATION '{text(root / 'retyped2', '007,abcdef,b ')}'",
    ]  # fmt: skip


def shown(rows: list[tuple[object, ...]]) -> list[tuple[str, ...]]:
    """Rows of Spark as Hive prints them."""
    return [tuple("NULL" if value is None else str(value) for value in row) for row in rows]


def answers(spark: SparkSession, query: str) -> list[tuple[str, ...]]:
    return sorted(shown([tuple(row) for row in spark.sql(query).collect()]))


def test_each_partition_is_read_by_its_descriptor(
    spark: SparkSession, catalog: Catalog, hive: HiveCli, tmp_path: Path
) -> None:
    flat = [(table, query.format(t=table)) for table, queries in QUERIES.items() for query in queries]
    found = hive.run([*made(tmp_path), *(query for _, query in flat)])[-len(flat) :]
    for table in QUERIES:
        catalog.import_table(f"{DB}.{table}")
        spark.sql(f"ALTER TABLE lake.{DB}.{table} SET TBLPROPERTIES ('partition-columns' = 'declared')")
    formats = {
        table: [d.format for d in catalog.index.descriptors.of_table(catalog.load_table(f"{DB}.{table}")).values()]
        for table in QUERIES
    }
    assert formats == {
        "parquet": ["orc", "csv"], "delimited": ["csv"], "grown": ["csv"], "cascaded": [], "widened": ["csv"],
        "as_text": ["parquet"], "retyped": ["csv"],
    }  # fmt: skip
    wrong = []
    for (table, query), expected in zip(flat, found, strict=True):
        # Spark's Hive catalog cannot read numbers of Parquet as STRING, nor hide values behind a partition's columns,
        # and reads text by the table's types: 0.1 of a FLOAT is another DOUBLE in Hive.
        for catalog_name in (
            ("lake",) if table in ("as_text", "grown", "retyped", "widened") else ("lake", "spark_catalog")
        ):
            asked = query.replace(f"FROM {table}", f"FROM {catalog_name}.{DB}.{table}")
            got = answers(spark, asked)
            wrong += [(asked, got, sorted(expected))] if got != sorted(expected) else []
    assert wrong == []
    orc = f"SELECT a, b, c FROM {{}}.{DB}.parquet WHERE k = 2"
    assert answers(spark, orc.format("lake")) == [("2", "orc", "0.5"), ("3", "NULL", "NULL")]
    catalog.import_table(f"{DB}.wider")
    assert answers(spark, f"SELECT a FROM lake.{DB}.wider") == [("7",)]
    counted = f"SELECT k, count(*), count(c), max(a), min(c) FROM lake.{DB}.parquet GROUP BY k"
    assert answers(spark, counted) == [
        ("1", "2", "2", "9", "1.5"), ("2", "2", "1", "3", "0.5"), ("3", "2", "1", "5", "4.5"),
    ]  # fmt: skip
    assert answers(spark, f"SELECT count(*), max(a), min(c) FROM lake.{DB}.parquet") == [("6", "9", "0.5")]
    files = {
        row.f.rpartition("/")[0].rpartition("/")[2]
        for row in spark.sql(f"SELECT _metadata.file_path f FROM lake.{DB}.parquet").collect()
    }
    assert files == {"k=1", "orc", "text"}


def test_later_change_by_hive_is_imported_and_our_overwrite_wins(
    spark: SparkSession, catalog: Catalog, hive: HiveCli, logged_hive_metastore: HiveMetastore, tmp_path: Path
) -> None:
    table = f"{DB}.later"
    orc = (
        # Hive 2.3 finds no table by its database for some of these.
        f"USE {DB}",
        f"ALTER TABLE later ADD PARTITION (k = 2) LOCATION 'file://{tmp_path}/orc'",
        "ALTER TABLE later PARTITION (k = 2) SET FILEFORMAT ORC",
    )
    piped = "SET SERDEPROPERTIES ('field.delim' = '|', 'serialization.format' = '|')"
    hive.run([
        f"CREATE DATABASE IF NOT EXISTS {DB}",
        f"CREATE EXTERNAL TABLE {DB}.o2 (a INT, b STRING) STORED AS ORC LOCATION 'file://{tmp_path}/orc'",
        f"INSERT INTO {DB}.o2 VALUES (2, 'orc')",
        f"CREATE TABLE {table} (a INT, b STRING) PARTITIONED BY (k INT) "
        "ROW FORMAT DELIMITED FIELDS TERMINATED BY ','",
        f"ALTER TABLE {table} ADD PARTITION (k = 1) LOCATION '{text(tmp_path / 'one', '1,a|b', '3,c')}'",
    ])  # fmt: skip
    catalog.import_table(table)
    spark.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('partition-columns' = 'declared')")
    catalog.follower.look()
    rows = f"SELECT k, a, b FROM lake.{table}"
    assert answers(spark, rows) == [("1", "1", "a|b"), ("1", "3", "c")]
    hive.run([*orc, f"ALTER TABLE later PARTITION (k = 1) {piped}"])
    catalog.follower.look()
    assert answers(spark, rows) == [("1", "NULL", "NULL"), ("1", "NULL", "b"), ("2", "2", "orc")]
    assert answers(spark, f"SELECT count(*), max(a) FROM lake.{table}") == [("3", "2")]
    assert not list(catalog.drift(table))

    with pytest.raises(AnalysisException, match="CATALOG_EXT_PARTITION_DESCRIPTOR"):
        spark.sql(f"INSERT INTO lake.{table} PARTITION (k = 2) VALUES (9, 'nine')")
    spark.sql(f"INSERT OVERWRITE lake.{table} PARTITION (k = 2) VALUES (9, 'nine')")
    spark.sql(f"INSERT INTO lake.{table} PARTITION (k = 2) VALUES (10, 'ten')")
    spark.sql(f"ALTER TABLE lake.{table} ADD COLUMNS (c INT)")
    assert catalog.deliver().pending == 0
    catalog.follower.look()
    found = hive.run([f"SELECT k, a, b, c FROM {table}"])[0]
    ours = [("1", "NULL", "NULL"), ("1", "NULL", "b"), ("2", "10", "ten"), ("2", "9", "nine")]
    assert sorted(found) == answers(spark, f"SELECT k, a, b, c FROM lake.{table}") == [(*row, "NULL") for row in ours]
    client = connect(logged_hive_metastore.uri)
    one, two = client.partitions_by_names(DB, "later", ["k=1", "k=2"])
    client.close()
    assert one.storage is not None
    assert two.storage is not None
    assert (one.storage.serde_parameters["field.delim"], [c.name for c in one.columns]) == ("|", ["a", "b"])
    assert (two.storage.serde, [c.name for c in two.columns]) == (LAZY, ["a", "b", "c"])
    assert not list(catalog.drift(table))
