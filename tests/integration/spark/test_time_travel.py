"""Queries of earlier versions of a table: VERSION AS OF, TIMESTAMP AS OF and the reader's options."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

TABLE = "lake.w.t"
STATES = [[], [(1, "a")], [(1, "a"), (2, "b")], [(1, "a"), (3, "b")], [(3, "b")]]
"""The rows of each version."""


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with local_lake(driver, tmp_path_factory.mktemp("time-travel")) as lake:
        lake.sql(
            f"CREATE TABLE {TABLE} (id INT, ds STRING) PARTITIONED BY (ds) "
            "TBLPROPERTIES ('overwrite-mode' = 'relocate')",
            f"INSERT INTO {TABLE} VALUES (1, 'a')",
            f"INSERT INTO {TABLE} VALUES (2, 'b')",
            f"INSERT OVERWRITE {TABLE} PARTITION (ds = 'b') VALUES (3)",
            f"DELETE FROM {TABLE} WHERE ds = 'a'",
        )
        yield lake


@pytest.mark.parametrize("kind", ["parquet", "orc", "csv"])
def test_each_version_has_the_columns_of_its_time(lake: Lake, kind: str) -> None:
    name = f"lake.w.altered_{kind}"
    lake.sql(
        f"CREATE TABLE {name} (id INT, v STRING, ds STRING) USING {kind} PARTITIONED BY (ds)",
        f"INSERT INTO {name} VALUES (1, 'x', 'a')",
        f"ALTER TABLE {name} ADD COLUMN n INT",
        f"INSERT INTO {name} (id, v, n, ds) VALUES (2, 'y', 7, 'b')",
        f"ALTER TABLE {name} ALTER COLUMN id TYPE BIGINT",
        f"ALTER TABLE {name} SET TBLPROPERTIES ('a' = 'b')",
    )
    columns = {
        1: "id INT, v STRING", 2: "id INT, v STRING, n INT", 3: "id INT, v STRING, n INT",
        4: "id BIGINT, v STRING, n INT",
    }  # fmt: skip
    rows = {1: [(1, "x")], 2: [(1, "x", None)], 3: [(1, "x", None), (2, "y", 7)], 4: [(1, "x", None), (2, "y", 7)]}
    if kind != "csv":
        lake.sql(f"ALTER TABLE {name} RENAME COLUMN v TO w", f"ALTER TABLE {name} DROP COLUMN n")
        columns |= {5: "id BIGINT, w STRING, n INT", 6: "id BIGINT, w STRING"}
        rows |= {5: [(1, None, None), (2, None, 7)], 6: [(1, None), (2, None)]}
    for version, names in columns.items():
        read = lake.spark.read.option("versionAsOf", version).table(name)
        found = ", ".join(f"{field.name} {field.dataType.simpleString().upper()}" for field in read.schema)
        assert found == names
        assert sorted(map(tuple, read.collect())) == rows[version]
        assert lake.rows(f"SELECT * FROM {name} VERSION AS OF {version} ORDER BY id") == rows[version]
        assert lake.rows(f"SELECT id FROM {name} VERSION AS OF {version} WHERE id = 1") == [(1,)]
    operations = lake.rows(f"SELECT operation FROM {name}.history ORDER BY version")
    assert [operation for (operation,) in operations].count("ALTER TABLE") == (2 if kind == "csv" else 4)
    assert lake.condition(f"SELECT n FROM {name} VERSION AS OF 1") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert lake.rows(f"SELECT old.v, new.id FROM {name} VERSION AS OF 1 old JOIN {name} new ON old.id = new.id") == [
        ("x", 1)
    ]


def test_unpartitioned_table_is_read_at_its_earlier_location(lake: Lake, tmp_path: Path) -> None:
    lake.sql(
        f"CREATE TABLE lake.w.moved (id INT) USING parquet LOCATION '{tmp_path}/one'",
        "INSERT INTO lake.w.moved VALUES (1)",
        f"CREATE TABLE lake.w.there (id INT) USING parquet LOCATION '{tmp_path}/two'",
        "INSERT INTO lake.w.there VALUES (2)",
        "DROP TABLE lake.w.there",
        f"ALTER TABLE lake.w.moved SET LOCATION '{tmp_path}/two'",
    )
    assert lake.rows("SELECT id FROM lake.w.moved") == [(2,)]
    assert lake.rows("SELECT id FROM lake.w.moved VERSION AS OF 1") == [(1,)]


def test_stream_goes_on_after_columns_were_added(lake: Lake, tmp_path: Path) -> None:
    lake.sql("CREATE TABLE lake.w.streamed (id INT)", "INSERT INTO lake.w.streamed VALUES (1)")

    def run() -> list[tuple[int, ...]]:
        writer = lake.spark.readStream.table("lake.w.streamed").select("id").writeStream
        made = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True)
        made.toTable("lake.w.copied").awaitTermination()
        return lake.rows("SELECT id FROM lake.w.copied ORDER BY id")

    assert run() == [(1,)]
    lake.sql("ALTER TABLE lake.w.streamed ADD COLUMN n INT")
    assert run() == [(1,)]
    lake.sql("INSERT INTO lake.w.streamed VALUES (2, 3)")
    assert run() == [(1,), (2,)]


@pytest.mark.parametrize("version", range(5))
def test_each_version_has_its_rows(lake: Lake, version: int) -> None:
    expected, spark = STATES[version], lake.spark
    old = f"{TABLE} VERSION AS OF {version}"
    assert lake.rows(f"SELECT id, ds FROM {old} ORDER BY id") == expected
    assert lake.rows(f"SELECT id FROM {old} WHERE ds = 'b'") == [(id_,) for id_, ds in expected if ds == "b"]
    assert lake.rows(f"SELECT count(*), max(ds) FROM {old}") == [
        (len(expected), max((ds for _, ds in expected), default=None))
    ]
    assert lake.rows(f"SELECT DISTINCT ds FROM {old} ORDER BY ds") == sorted({(ds,) for _, ds in expected})
    read = spark.read.option("versionAsOf", version).table(TABLE)
    assert sorted(map(tuple, read.collect())) == expected
    committed = lake.rows(f"SELECT CAST(committed_at AS STRING) FROM {TABLE}.history WHERE version = {version}")[0][0]
    assert lake.rows(f"SELECT id, ds FROM {TABLE} TIMESTAMP AS OF '{committed}' ORDER BY id") == expected
    plan = lake.rows(f"EXPLAIN EXTENDED SELECT * FROM {old}")[0][0]
    assert f"Version: {version}" in plan


def test_two_versions_meet_in_one_query(lake: Lake) -> None:
    query = f"SELECT o.id, n.id FROM {TABLE} VERSION AS OF 2 o JOIN {TABLE} n ON o.ds = n.ds"
    assert lake.rows(query) == [(2, 3)]
    old, new = lake.spark.read.option("versionAsOf", 2).table(TABLE), lake.spark.table(TABLE)
    assert [tuple(row) for row in old.join(new, "ds").select(old.id, new.id).collect()] == [(2, 3)]
    old.cache()
    try:
        assert (old.count(), new.count(), lake.spark.table(TABLE).count()) == (2, 1, 1)
    finally:
        old.unpersist()


def test_partition_is_written_back_from_an_old_version(lake: Lake) -> None:
    """The statement reads a version of its own target; commits after this version are no conflict."""
    lake.sql(
        "CREATE TABLE lake.w.back (id INT, ds STRING) PARTITIONED BY (ds) TBLPROPERTIES ('overwrite-mode' = 'relocate')",
        "INSERT INTO lake.w.back VALUES (1, 'a')",
        "INSERT OVERWRITE lake.w.back PARTITION (ds = 'a') VALUES (2)",
        "INSERT OVERWRITE lake.w.back SELECT * FROM lake.w.back VERSION AS OF 1 WHERE ds = 'a'",
    )
    assert lake.rows("SELECT * FROM lake.w.back") == [(1, "a")]


def test_versions_that_are_not_there_are_refused(lake: Lake) -> None:
    for version in ("5", "'x'", "-1"):
        error = lake.error(f"SELECT * FROM {TABLE} VERSION AS OF {version}")
        assert error.getCondition() in ("CATALOG_EXT_VERSION_NOT_FOUND", "PARSE_SYNTAX_ERROR"), version
    created = lake.rows(f"SELECT min(committed_at) FROM {TABLE}.history")[0][0] - timedelta(days=1)
    assert lake.condition(f"SELECT * FROM {TABLE} TIMESTAMP AS OF '{created}'") == "CATALOG_EXT_VERSION_NOT_FOUND"
    assert lake.condition("SELECT * FROM lake.w.nothing VERSION AS OF 1") == "TABLE_OR_VIEW_NOT_FOUND"
    for table in (f"{TABLE}.files", f"{TABLE}.history"):
        assert lake.condition(f"SELECT * FROM {table} VERSION AS OF 1") == "CATALOG_EXT_NOT_SUPPORTED"


def test_streams_and_writes_take_no_version(lake: Lake, tmp_path: Path) -> None:
    stream = lake.spark.readStream.option("versionAsOf", 1)
    with pytest.raises(PySparkException, match=r"(?i)version|time travel"):
        writer = stream.table(TABLE).writeStream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.format("noop").start().awaitTermination()
    with pytest.raises(PySparkException, match=r"(?i)time travel|version"):
        lake.spark.range(1).select(F.col("id").cast("int"), F.lit("a").alias("ds")).writeTo(TABLE).option(
            "versionAsOf", "1"
        ).append()
