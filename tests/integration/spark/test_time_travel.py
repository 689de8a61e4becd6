"""Queries of earlier versions of a table: VERSION AS OF, TIMESTAMP AS OF and the reader's options."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyarrow import parquet as pq
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

from catalog_ext.metastore.errors import FilesLostError
from tests.integration.lake import local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql.streaming import DataStreamReader

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
        assert found == f"{names}, ds STRING"
        with_key = [(*row, {1: "a", 2: "b"}[row[0]]) for row in rows[version]]
        assert sorted(map(tuple, read.collect())) == with_key
        assert lake.rows(f"SELECT * FROM {name} VERSION AS OF {version} ORDER BY id") == with_key
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


def test_views_and_caches_keep_the_version(lake: Lake) -> None:
    lake.sql(f"CREATE OR REPLACE TEMPORARY VIEW was AS SELECT id, ds FROM {TABLE} VERSION AS OF 2")
    lake.sql(f"CACHE TABLE held AS SELECT id, ds FROM {TABLE} VERSION AS OF 1")
    try:
        assert lake.rows("SELECT * FROM was ORDER BY id") == STATES[2]
        assert lake.rows("SELECT * FROM held") == STATES[1]
        assert lake.rows(f"SELECT id, ds FROM {TABLE} VERSION AS OF 1") == STATES[1]
        assert lake.rows(f"SELECT id, ds FROM {TABLE}") == STATES[-1]
    finally:
        lake.sql("UNCACHE TABLE held", "DROP VIEW held", "DROP VIEW was")


def test_partition_is_written_back_from_an_old_version(lake: Lake) -> None:
    """The statement reads a version of its own target; commits after this version are no conflict."""
    lake.sql(
        "CREATE TABLE lake.w.back (id INT, ds STRING) PARTITIONED BY (ds) "
        "TBLPROPERTIES ('overwrite-mode' = 'relocate')",
        "INSERT INTO lake.w.back VALUES (1, 'a')",
        "INSERT OVERWRITE lake.w.back PARTITION (ds = 'a') VALUES (2)",
        "INSERT OVERWRITE lake.w.back SELECT * FROM lake.w.back VERSION AS OF 1 WHERE ds = 'a'",
    )
    assert lake.rows("SELECT * FROM lake.w.back") == [(1, "a")]


def test_virtual_columns_are_there_at_each_version(lake: Lake) -> None:
    location = f"{lake.folder}/virtual"
    lake.spark.sql("SELECT 1 AS id, 'a' AS ds").write.partitionBy("ds").parquet(location)
    lake.catalog.register_table("w.virtual", location=location, format="parquet", partition_columns={"ds": "string"})
    lake.catalog.repair_partitions("w.virtual")
    lake.sql("INSERT INTO lake.w.virtual PARTITION (ds = 'b') VALUES (2)")
    newest = lake.rows("SELECT max(version) FROM lake.w.virtual.history")[0][0]
    for version, expected in ((newest - 1, [(1, "a")]), (newest, [(1, "a"), (2, "b")])):
        old = f"lake.w.virtual VERSION AS OF {version}"
        assert lake.sql(f"SELECT * FROM {old}").columns == ["id"]
        assert lake.rows(f"SELECT id, ds FROM {old} ORDER BY id") == expected
        assert lake.rows(f"SELECT ds, `$partition` FROM {old} WHERE ds = 'b'") == [
            (ds, f"ds={ds}") for _, ds in expected if ds == "b"
        ]


def test_version_whose_files_are_gone_says_so(lake: Lake) -> None:
    """An overwrite in place deletes the replaced files; the other partitions of the version are still there."""
    lake.sql(
        "CREATE TABLE lake.w.replaced (id INT, ds STRING) PARTITIONED BY (ds) "
        "TBLPROPERTIES ('overwrite-mode' = 'in-place')",
        "INSERT INTO lake.w.replaced VALUES (1, 'a'), (2, 'b')",
        "INSERT OVERWRITE lake.w.replaced PARTITION (ds = 'a') VALUES (3)",
    )
    old = "SELECT id FROM lake.w.replaced VERSION AS OF 1"
    assert lake.rows(f"{old} WHERE ds = 'b'") == [(2,)]
    error = lake.error(old)
    assert error.getCondition() == "CATALOG_EXT_FILES_LOST"
    assert "belongs to version 1 of the table, which the query names" in str(error)
    assert "`overwrite-mode` = relocate" in str(error)


def test_file_that_was_written_again_is_not_read_as_the_old_one(lake: Lake) -> None:
    """Hive's INSERT OVERWRITE gives its files the names of the files that it replaces: 000000_0, 000001_0."""
    table, file = "lake.w.rewritten", lake.folder / "rewritten/ds=a/000000_0"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int32())}), file)
    lake.catalog.register_table(
        "w.rewritten", location=str(lake.folder / "rewritten"), format="parquet", partition_columns={"ds": "string"}
    )
    lake.catalog.repair_partitions("w.rewritten")
    old = f"{table} VERSION AS OF {lake.rows(f'SELECT max(version) FROM {table}.history')[0][0]}"
    assert lake.rows(f"SELECT count(*), sum(id) FROM {old}") == [(3, 6)]
    pq.write_table(pa.table({"id": pa.array([7, 8], pa.int32())}), file)
    lake.catalog.repair_partitions("w.rewritten", mode="sync")
    assert lake.rows(f"SELECT count(*), sum(id) FROM {table}") == [(2, 15)]
    for query in (f"SELECT id FROM {old}", f"SELECT count(id) FROM {old} WHERE id > 0"):
        error = lake.error(query)
        assert error.getCondition() == "CATALOG_EXT_FILES_LOST", query
        assert "was written again since version" in str(error)
    with pytest.raises(FilesLostError, match="was written again"):
        lake.catalog.dataset("w.rewritten", version=1)


def test_versions_that_are_not_there_are_refused(lake: Lake) -> None:
    for version in ("5", "'x'"):
        assert lake.condition(f"SELECT * FROM {TABLE} VERSION AS OF {version}") == "CATALOG_EXT_VERSION_NOT_FOUND"
    assert lake.condition(f"SELECT * FROM {TABLE} VERSION AS OF -1") == "PARSE_SYNTAX_ERROR"
    created = lake.rows(f"SELECT min(committed_at) FROM {TABLE}.history")[0][0] - timedelta(days=1)
    assert lake.condition(f"SELECT * FROM {TABLE} TIMESTAMP AS OF '{created}'") == "CATALOG_EXT_VERSION_NOT_FOUND"
    assert lake.condition("SELECT * FROM lake.w.nothing VERSION AS OF 1") == "TABLE_OR_VIEW_NOT_FOUND"


@pytest.mark.parametrize("version", range(5))
def test_files_and_partitions_are_those_of_the_version(lake: Lake, version: int) -> None:
    expected = STATES[version]
    files, partitions = (f"{TABLE}.{name} VERSION AS OF {version}" for name in ("files", "partitions"))
    names = sorted({f"ds={ds}" for _, ds in expected})
    assert lake.rows(f"SELECT partition FROM {partitions} ORDER BY partition") == [(name,) for name in names]
    assert lake.rows(f"SELECT count(*), sum(rows) FROM {files}") == [(len(expected), len(expected) or None)]
    assert lake.rows(f"SELECT count(*) FROM {partitions} WHERE ds = 'b'") == [(names.count("ds=b"),)]
    assert lake.rows(f"SELECT ds, count(*) FROM {files} GROUP BY ds ORDER BY ds") == [
        (name.removeprefix("ds="), sum(ds in name[3:] for _, ds in expected)) for name in names
    ]
    read_files = lake.rows(f"SELECT DISTINCT _metadata.file_path FROM {TABLE} VERSION AS OF {version}")
    assert sorted(lake.rows(f"SELECT file_path FROM {files}")) == sorted(read_files)
    read = lake.spark.read.option("versionAsOf", version).table(f"{TABLE}.partitions")
    assert read.count() == len(names)
    lake.sql("USE lake.w")
    try:
        assert lake.rows(f"SELECT count(*) FROM t.files VERSION AS OF {version}") == [(len(expected),)]
    finally:
        lake.sql("USE spark_catalog.default")


def test_states_of_a_partition_are_listed(lake: Lake) -> None:
    history = f"{TABLE}.partition_history"
    states = f"SELECT version, until_version, operation, files, rows FROM {history}"
    b = [(2, 3, "INSERT", 1, 1), (3, None, "INSERT OVERWRITE", 1, 1)]
    for condition in ("ds = 'b'", "partition = 'ds=b'", "values.ds = 'b'"):
        assert lake.rows(f"{states} WHERE {condition} ORDER BY version") == b
    assert lake.rows(f"{states} WHERE ds = 'a'") == [(1, 4, "INSERT", 1, 1)]
    assert lake.rows(f"SELECT count(*), max(version) FROM {history}") == [(3, 3)]
    assert lake.rows(f"SELECT ds, count(*) FROM {history} GROUP BY ds ORDER BY ds") == [("a", 1), ("b", 2)]
    assert lake.rows(f"SELECT count(*) FROM {history} WHERE rows > 1") == [(0,)]
    (place,) = lake.rows(f"SELECT location FROM {history} WHERE until_version IS NULL")[0]
    assert lake.rows(f"SELECT DISTINCT `$path` LIKE '{place}/%' FROM {TABLE}") == [(True,)]
    of_commits = f"SELECT version FROM {history} JOIN {TABLE}.history USING (version, committed_at) ORDER BY version"
    assert lake.rows(of_commits) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    "name",
    [f"{TABLE}.history", f"{TABLE}.partition_history", f"{TABLE}.transactions", "lake.`{location}`"],
)
def test_names_without_versions_are_refused(lake: Lake, name: str) -> None:
    named = name.format(location=lake.location("t"))
    for query in (f"SELECT * FROM {named} VERSION AS OF 1", f"SELECT * FROM {named} TIMESTAMP AS OF '2025-01-01'"):
        assert lake.condition(query) == "CATALOG_EXT_NOT_SUPPORTED"
    for option in (("versionAsOf", "1"), ("timestampAsOf", "2025-01-01")):
        read = lake.spark.read.option(*option)
        with pytest.raises(AnalysisException, match="CATALOG_EXT_NOT_SUPPORTED"):
            read.table(named)


def test_version_that_vacuum_removed_has_expired(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE lake.w.short (id INT, ds STRING) PARTITIONED BY (ds) "
        "TBLPROPERTIES ('overwrite-mode' = 'relocate')",
        "INSERT INTO lake.w.short VALUES (1, 'a')",
        "INSERT OVERWRITE lake.w.short PARTITION (ds = 'a') VALUES (2)",
        "CALL lake.system.vacuum(table => 'w.short', retention => '0s', allow_short_retention => true)",
    )
    assert lake.condition("SELECT * FROM lake.w.short VERSION AS OF 1") == "CATALOG_EXT_VERSION_EXPIRED"
    assert lake.rows("SELECT * FROM lake.w.short VERSION AS OF 2") == [(2, "a")]


def test_streams_and_writes_take_no_version(lake: Lake, tmp_path: Path) -> None:
    """Spark itself refuses a write and, but for 4.0, a stream."""
    stream = lake.spark.readStream.option("versionAsOf", 1)
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)as of version|time travel"):
        _run(stream, str(tmp_path))
    rows = lake.spark.range(1).select(F.col("id").cast("int"), F.lit("a").alias("ds"))
    with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)time travel|version"):
        rows.writeTo(TABLE).option("versionAsOf", "1").append()
    assert lake.rows(f"SELECT id, ds FROM {TABLE}") == STATES[-1]


def _run(stream: DataStreamReader, checkpoint: str) -> None:
    writer = stream.table(TABLE).writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.format("noop").start().awaitTermination()
