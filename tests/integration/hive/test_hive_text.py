"""Text of Hive's tables: a real Hive 2.3 and this catalog read the same values, for every type, also of our writes."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.spark_driver import HIVE
from tests.kit.hive_text_cases import LAZY, OPEN_CSV, RESULTS, TABLES, expected
from tests.servers.hive import HiveCli, HiveMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

DB = "texts"
ALL = (
    "a INT, b STRING, c DOUBLE, d DECIMAL(6,2), e DATE, f TIMESTAMP, g BOOLEAN, h BINARY, i BIGINT, j FLOAT, "
    "k CHAR(3), l VARCHAR(3), m ARRAY<STRING>, n MAP<STRING,INT>, o STRUCT<x:INT,y:STRING>"
)
SHOWN = (
    "a, hex(b), cast(c as string), cast(d as double), cast(e as string), cast(f as string), CASE WHEN g THEN 't' "
    "WHEN NOT g THEN 'f' END, hex(h), i, cast(cast(j as double) as string), rtrim(k), l, size(m), hex(m[0]), "
    "hex(m[1]), n['k'], n['l'], o.x, hex(o.y)"
)
ROWS = (
    "(1, 'plain', 1.5, 12.34, DATE'2021-01-02', TIMESTAMP'2021-01-02 03:04:05.678', true, X'00FF0A', "
    "9223372036854775807, CAST(0.1 AS FLOAT), 'ab', 'é', array('x', 'y'), map('k', 1, 'l', 2), "
    "named_struct('x', 7, 'y', 's'))",
    "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(-1, '', CAST('NaN' AS DOUBLE), -0.01, DATE'0001-01-01', TIMESTAMP'1969-12-31 23:59:59', false, X'', 0, "
    "CAST('-Infinity' AS FLOAT), '', '', array(), map(), named_struct('x', NULL, 'y', ''))",
)  # fmt: skip


@pytest.fixture(scope="module")
def hive(logged_hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory) -> HiveCli:
    return HiveCli(tmp_path_factory.mktemp("hive") / "cli", logged_hive_metastore.uri)


@pytest.fixture(scope="module")
def spark(
    driver: Driver, logged_hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("texts")
    conf = {
        **HIVE,
        # An element that an array does not have is NULL, as in Hive.
        "spark.sql.ansi.enabled": "false",
        "spark.hadoop.hive.metastore.uris": logged_hive_metastore.uri,
    }
    with driver.catalog(
        conf, warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=logged_hive_metastore.uri
    ) as session:
        yield session


@pytest.fixture
def catalog(spark: SparkSession) -> Catalog:
    assert spark
    return sessions.active_catalog("lake.any.any")


def rows(spark: SparkSession, query: str) -> list[list[str]]:
    """Rows of Spark as Hive prints them."""
    found = spark.sql(query).collect()
    return [["NULL" if v is None else str(v).lower() if isinstance(v, bool) else str(v) for v in row] for row in found]


def test_each_text_is_the_value_that_hive_reads(
    spark: SparkSession, catalog: Catalog, hive: HiveCli, tmp_path: Path
) -> None:
    made = [table.create(DB, tmp_path) for table in TABLES]
    asked = [table.query(f"{DB}.{table.name}") for table in TABLES]
    answers = hive.run([f"CREATE DATABASE IF NOT EXISTS {DB}", *made, *asked])[-len(TABLES) :]
    theirs = {
        table.name: [
            [value.removesuffix(".0") if "TIMESTAMP" in table.columns else value for value in row] for row in found
        ]
        for table, found in zip(TABLES, answers, strict=True)
    }
    if os.environ.get("CATALOG_EXT_RECORD") == "1":
        RESULTS.write_text(json.dumps(theirs, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert theirs == expected()
    imported = {entry.table: entry for entry in catalog.import_tables(DB)}
    refused = {name: entry.reason for name, entry in imported.items() if entry.action == "refused"}
    assert refused == {}
    ours = {table.name: rows(spark, table.query(f"lake.{DB}.{table.name}")) for table in TABLES}
    differing = {
        f"{name} {number}": (mine, hives)
        for name, found in theirs.items()
        for number, (mine, hives) in enumerate(zip(ours[name], found, strict=False))
        if mine != hives
    }
    assert differing == {}
    assert {name: len(found) for name, found in ours.items()} == {name: len(found) for name, found in theirs.items()}
    counted = {table.name: rows(spark, f"SELECT count(*) FROM lake.{DB}.{table.name}")[0] for table in TABLES}
    assert counted == {name: [str(len(found))] for name, found in theirs.items()}
    assert not list(catalog.drift(f"{DB}.quoted_types"))


def test_hive_and_we_read_what_we_write(
    spark: SparkSession, catalog: Catalog, hive: HiveCli, logged_hive_metastore: HiveMetastore
) -> None:
    for name, row_format in (
        ("plain", "STORED AS TEXTFILE"),
        ("piped", "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' ESCAPED BY '\\\\' COLLECTION ITEMS TERMINATED BY ','"),
        (
            "headed",
            f"ROW FORMAT SERDE '{LAZY}' WITH SERDEPROPERTIES ('field.delim' = '|') "
            "TBLPROPERTIES ('skip.header.line.count' = '2')",
        ),
    ):
        table = f"{DB}.w_{name}"
        spark.sql(f"CREATE DATABASE IF NOT EXISTS lake.{DB}")
        spark.sql(f"CREATE TABLE lake.{table} ({ALL}) {row_format}")
        spark.sql(f"INSERT INTO lake.{table} VALUES {', '.join(ROWS)}")
    spark.sql(f"INSERT INTO lake.{DB}.w_piped (a, b) VALUES (9, 'x|y\\\\z,')")
    quoted = f"{DB}.w_quoted"
    spark.sql(f"CREATE TABLE lake.{quoted} (a STRING, b STRING) ROW FORMAT SERDE '{OPEN_CSV}'")
    spark.sql(f"INSERT INTO lake.{quoted} VALUES ('a,\"b\"', ''), ('\\\\', 'é')")
    assert catalog.deliver().pending == 0
    names = ["w_plain", "w_piped", "w_headed"]
    asked = [*(f"SELECT {SHOWN} FROM {DB}.{name}" for name in names), f"SELECT hex(a), hex(b) FROM {quoted}"]
    ours = [sorted(rows(spark, query.replace(f"FROM {DB}", f"FROM lake.{DB}"))) for query in asked]
    theirs = [sorted(map(list, found)) for found in hive.run(asked)]
    assert ours == theirs
    assert len(ours[0]) == 3
    for table, values, why in (
        ("w_plain", "(1, 'a\\u0001b')", "Hive would read it as 'a'"),
        ("w_plain", "(1, '\\\\N')", "Hive would read it as NULL"),
        ("w_piped", "(1, 'a\\nb')", "it holds the end of a line"),
    ):
        with pytest.raises(PySparkException, match=why):
            spark.sql(f"INSERT INTO lake.{DB}.{table} (a, b) VALUES {values}")
    with pytest.raises(PySparkException, match="NULL of column 'b'"):
        spark.sql(f"INSERT INTO lake.{quoted} VALUES ('a', NULL)")
