"""Writes through Spark as Hive sees them: rows, partitions and statistics, and a metastore that is away meanwhile."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.spark import session as sessions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver
    from tests.servers.hive import HiveCli, HiveMetastore


pytestmark = pytest.mark.spark

NAMESPACE = "written"
DELIVERED_WITHIN_SECONDS = 90.0


@pytest.fixture(scope="module")
def spark(
    driver: Driver, hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    root = tmp_path_factory.mktemp("writes_hive")
    with driver.catalog(
        warehouse=str(root), index=f"sqlite:///{root}/index.db", metastore=hive_metastore.uri
    ) as session:
        session.sql(f"CREATE NAMESPACE lake.{NAMESPACE}")
        session.sql(f"USE lake.{NAMESPACE}")
        yield session


@pytest.fixture
def catalog(spark: SparkSession) -> Catalog:
    assert spark
    return sessions.active_catalog(f"lake.{NAMESPACE}.any")


COLUMNS = "(id INT, name STRING, ds STRING) PARTITIONED BY (ds)"
STATEMENTS = {
    "inserted": (
        f"CREATE TABLE inserted {COLUMNS}",
        "INSERT INTO inserted VALUES (1, 'a', 'x'), (2, 'b', 'y/z')",
        "INSERT INTO inserted PARTITION (ds = 'x') VALUES (3, 'c'), (4, NULL)",
        "INSERT INTO inserted VALUES (5, 'e', NULL)",
    ),
    "overwritten": (
        f"CREATE TABLE overwritten {COLUMNS}",
        "INSERT INTO overwritten VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')",
        "INSERT OVERWRITE overwritten VALUES (9, 'new', 'x')",
    ),
    "moved": (
        f"CREATE TABLE moved {COLUMNS} TBLPROPERTIES ('overwrite-mode' = 'relocate')",
        "INSERT INTO moved VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')",
        "INSERT OVERWRITE moved VALUES (9, 'new', 'x')",
        "INSERT INTO moved VALUES (10, 'more', 'x')",
    ),
    "deleted": (
        f"CREATE TABLE deleted {COLUMNS}",
        "INSERT INTO deleted VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')",
        "DELETE FROM deleted WHERE ds > 'x' AND ds < 'z'",
    ),
    "truncated": (
        f"CREATE TABLE truncated {COLUMNS}",
        "INSERT INTO truncated VALUES (1, 'a', 'x'), (2, 'b', 'y')",
        "TRUNCATE TABLE truncated",
    ),
    "selected": (
        "CREATE TABLE selected USING orc PARTITIONED BY (ds) AS SELECT id, name, ds FROM inserted",
    ),
    "replaced": (
        "CREATE TABLE replaced (other DOUBLE, ds STRING) PARTITIONED BY (ds)",
        "INSERT INTO replaced VALUES (1.5, 'old')",
        "CREATE OR REPLACE TABLE replaced USING parquet PARTITIONED BY (ds) AS SELECT id, name, ds FROM inserted",
    ),
    "flat": (
        "CREATE TABLE flat (id INT, name STRING)",
        "INSERT INTO flat VALUES (1, 'a')",
        "INSERT INTO flat VALUES (2, 'b'), (3, NULL)",
    ),
    "flat_overwritten": (
        "CREATE TABLE flat_overwritten (id INT, name STRING) USING orc",
        "INSERT INTO flat_overwritten VALUES (1, 'a'), (2, 'b')",
        "INSERT OVERWRITE flat_overwritten VALUES (3, 'c')",
    ),
    "evolved_parquet": (
        "CREATE TABLE evolving_parquet (id INT, old STRING, ds STRING) USING parquet PARTITIONED BY (ds)",
        "INSERT INTO evolving_parquet VALUES (1, 'a', 'x')",
        "ALTER TABLE evolving_parquet ADD COLUMN name STRING",
        "ALTER TABLE evolving_parquet DROP COLUMN old",
        "ALTER TABLE evolving_parquet ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE evolving_parquet RENAME TO evolved_parquet",
        "INSERT INTO evolved_parquet VALUES (2, 'b', 'x'), (3, NULL, 'y')",
    ),
    "evolved_orc": (
        # Hive 2.3 finds columns of ORC by their names, as the property says.
        "CREATE TABLE evolving_orc (id INT, old STRING, ds STRING) USING orc PARTITIONED BY (ds) "
        "TBLPROPERTIES ('orc.force.positional.evolution' = 'false')",
        "INSERT INTO evolving_orc VALUES (1, 'a', 'x')",
        "ALTER TABLE evolving_orc ADD COLUMN name STRING",
        "ALTER TABLE evolving_orc DROP COLUMN old",
        "ALTER TABLE evolving_orc ALTER COLUMN id TYPE BIGINT",
        "ALTER TABLE evolving_orc RENAME TO evolved_orc",
        "INSERT INTO evolved_orc VALUES (2, 'b', 'x'), (3, NULL, 'y')",
    ),
}  # fmt: skip
ALL = [(1, "a", "x"), (2, "b", "y/z"), (3, "c", "x"), (4, None, "x"), (5, "e", None)]
EXPECTED: dict[str, list[tuple[object, ...]]] = {
    "inserted": ALL,
    "overwritten": [(9, "new", "x"), (3, "c", "y")],
    "moved": [(9, "new", "x"), (10, "more", "x"), (3, "c", "y")],
    "deleted": [(1, "a", "x"), (3, "c", "z")],
    "truncated": [],
    "selected": ALL,
    "replaced": ALL,
    "evolved_parquet": [(1, None, "x"), (2, "b", "x"), (3, None, "y")],
    "evolved_orc": [(1, None, "x"), (2, "b", "x"), (3, None, "y")],
    "flat": [(1, "a"), (2, "b"), (3, None)],
    "flat_overwritten": [(3, "c")],
}
FLAT = {"flat", "flat_overwritten"}


@pytest.fixture(scope="module")
def written(spark: SparkSession) -> SparkSession:
    for statements in STATEMENTS.values():
        for statement in statements:
            spark.sql(statement)
    return spark


@pytest.mark.requirement("HiveDP.Design.Metastore", statement="INSERT")
def test_hive_sees_exactly_the_new_state(
    written: SparkSession, catalog: Catalog, hive_cli: HiveCli, hive_metastore: HiveMetastore
) -> None:
    assert deliveries(catalog) == []
    described = f"DESCRIBE FORMATTED {NAMESPACE}.moved PARTITION (ds = 'x')"
    *answers, description = hive_cli.run([*(f"SELECT * FROM {NAMESPACE}.{table}" for table in EXPECTED), described])
    client = connect(hive_metastore.uri)
    for (table, expected), rows in zip(EXPECTED.items(), answers, strict=True):
        # To Hive 2.3 the NULL of a STRING key is this text.
        found = [tuple(v.replace("__HIVE_DEFAULT_PARTITION__", "NULL") for v in row) for row in rows]
        assert sorted(found) == sorted(tuple("NULL" if v is None else str(v) for v in row) for row in expected), table
        by_key = Counter(row[-1] or "__HIVE_DEFAULT_PARTITION__" for row in expected)
        if table in FLAT:
            there = client.get_table(NAMESPACE, table)
            assert statistics(there.parameters) == on_disk(there.location, len(expected)), table
            continue
        partitions = {p.values[0]: p for p in client.partitions(NAMESPACE, table)}
        assert set(partitions) == (by_key.keys() or {"x", "y"}), table
        for key, partition in partitions.items():
            assert statistics(partition.parameters) == on_disk(partition.location, by_key[key]), (table, key)
            relocated = (table, key) == ("moved", "x")
            assert ("_catalog_ext_data" in partition.location) is relocated
    client.close()
    assert ["numRows", "2"] in [[value.strip() for value in line[1:]] for line in description]


def statistics(parameters: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in parameters.items() if key in ("numFiles", "totalSize", "numRows")}


def on_disk(location: str, rows: int) -> dict[str, str]:
    """What a reader that lists the directory finds there, and the rows that are expected in it."""
    files = [
        f for f in Path(location.removeprefix("file:")).iterdir() if not f.name.startswith(("_", ".")) and f.is_file()
    ]
    return {"numFiles": str(len(files)), "totalSize": str(sum(f.stat().st_size for f in files)), "numRows": str(rows)}


def deliveries(catalog: Catalog) -> list[str]:
    return [entry.detail for entry in catalog.status() if entry.kind == "delivery"]


def test_a_metastore_that_is_away_gets_it_later(
    written: SparkSession, catalog: Catalog, hive_metastore: HiveMetastore
) -> None:
    written.sql(f"CREATE TABLE late {COLUMNS}")
    hive_metastore.stop()
    try:
        written.sql("INSERT INTO late VALUES (1, 'a', 'x'), (2, 'b', 'y')")
        written.sql("INSERT OVERWRITE late VALUES (3, 'c', 'x')")
        table = catalog.load_table(f"{NAMESPACE}.late")
        condition = Comparison(Operator.EQ, "ds", "y")
        outcome = catalog.writes.delete(table.table_id, table.version, condition, truncate=False)
        assert outcome.pending_deliveries == len(deliveries(catalog)) == 3
        assert [r.id for r in written.table("late").collect()] == [3]
    finally:
        hive_metastore.start()
    deadline = time.monotonic() + DELIVERED_WITHIN_SECONDS
    while deliveries(catalog) and time.monotonic() < deadline:
        catalog.deliver()
        time.sleep(0.2)
    assert deliveries(catalog) == []
    client = connect(hive_metastore.uri)
    (partition,) = client.partitions(NAMESPACE, "late")
    client.close()
    assert partition.values == ("x",)
    assert statistics(partition.parameters) == on_disk(partition.location, 1)


def test_what_hive_inserts_is_found_and_disturbs_nothing(
    written: SparkSession, catalog: Catalog, hive_cli: HiveCli, hive_metastore: HiveMetastore
) -> None:
    written.sql(f"CREATE TABLE shared {COLUMNS}")
    written.sql("INSERT INTO shared VALUES (1, 'a', 'x'), (2, 'b', 'y')")
    table = f"{NAMESPACE}.shared"
    hive_cli.run(
        [
            f"INSERT INTO {table} PARTITION (ds = 'x') VALUES (10, 'hive')",
            f"INSERT INTO {table} PARTITION (ds = 'z') VALUES (11, 'hive')",
        ]
    )
    # Before repair: a partition that Hive has changed, and one that Hive has added and the index does not know.
    written.sql("INSERT INTO shared VALUES (3, 'c', 'x'), (4, 'd', 'z')")
    assert deliveries(catalog) == []
    report = catalog_ext.repair_partitions(f"lake.{table}", mode="sync")
    assert (len(report.added), len(report.changed)) == (0, 2)
    assert sorted(r.id for r in written.table("shared").collect()) == [1, 2, 3, 4, 10, 11]
    client = connect(hive_metastore.uri)
    found = {p.values[0]: p for p in client.partitions(NAMESPACE, "shared")}
    client.close()
    for key, partition in found.items():
        wanted = on_disk(partition.location, 1)
        if key != "y":
            del wanted["numRows"]  # Hive's files are not counted
        assert statistics(partition.parameters) == wanted, key
    (rows,) = hive_cli.run([f"SELECT id FROM {table}"])
    assert sorted(int(row[0]) for row in rows) == [1, 2, 3, 4, 10, 11]
