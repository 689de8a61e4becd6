"""What INSERT, CTAS, DELETE and TRUNCATE mean in SQL, and what the DataFrame writers do, on a real service."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import catalog_ext
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.writes.writes import Writes
from tests.integration import lake as lakes
from tests.kit.sparks import SPARK
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.spark_driver import Driver


OVERWRITE_MODE = "spark.sql.sources.partitionOverwriteMode"


class Lake(lakes.Lake):
    """Tables are named with their namespace."""

    def frame(self, rows: list[tuple[object, ...]], schema: str) -> DataFrame:
        return self.spark.createDataFrame(rows, schema)

    def partitions(self, table: str) -> list[str]:
        return [str(row[0]) for row in self.rows(f"SHOW PARTITIONS lake.{table}")]

    def version(self, table: str) -> int:
        return self.catalog.load_table(table).version

    def operations(self, table: str) -> list[str]:
        """The history's words, oldest first."""
        return [str(row[0]) for row in self.rows(f"SELECT operation FROM lake.{table}.history ORDER BY version")]

    def refusal(self, statement: str) -> AnalysisException:
        with pytest.raises(AnalysisException) as caught:
            self.sql(statement)
        return caught.value

    def check_files(self, table: str) -> None:
        """The directories hold the files of the index and nothing else that a Hive engine would see."""
        there = self.catalog.load_table(table).definition.location.removeprefix("file://")
        found = {
            os.path.relpath(os.path.join(folder, name), there)
            for folder, folders, names in os.walk(there)
            for name in names
            if not name.startswith((".", "_"))
            if not any(part.startswith("_") and "=" not in part for part in os.path.relpath(folder, there).split("/"))
        }
        files = self.catalog.files(table).to_pylist()
        assert found == {os.path.join(file["partition"], file["path"]) for file in files}
        staging = Path(there, "_catalog_ext_staging")
        assert not staging.exists() or not list(staging.iterdir())


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("writes-sql")
    with lakes.local_lake(driver, folder, "s") as lake:
        yield Lake(lake.spark, lake.catalog, folder, lake.namespace)


def register(lake: Lake, name: str, keys: dict[str, str], schema: str = "id INT, v STRING", **options: str) -> str:
    """An external table with virtual keys over an empty folder."""
    location = lake.folder / name
    location.mkdir()
    lake.catalog.register_table(
        f"s.{name}", location=str(location), partition_columns=keys, schema=schema, properties=options
    )
    return f"lake.s.{name}"


def create(lake: Lake, name: str, columns: str, keys: str = "", properties: str = "") -> str:
    lake.sql(
        f"CREATE TABLE lake.s.{name} ({columns}) {f'PARTITIONED BY ({keys})' if keys else ''} "
        f"{f'TBLPROPERTIES ({properties})' if properties else ''}"
    )
    return f"lake.s.{name}"


@pytest.mark.parametrize("kind", ["virtual", "declared"])
@pytest.mark.requirement("HiveDP.Terminology", statement="INSERT INTO {table} PARTITION (ds = 'd', h)")
@pytest.mark.requirement(
    "Flink.InSpark",
    statement="INSERT INTO {table} VALUES",
    differs="SELECT * shows declared partition columns and hides virtual ones.",
)
@pytest.mark.requirement("Flink.StaticInsert", statement="INSERT INTO {table} PARTITION (ds = 'c', h = 3)")
@pytest.mark.requirement("Flink.DynamicInsert", statement="INSERT INTO {table} VALUES")
@pytest.mark.requirement("Flink.PartialInsert", statement="INSERT INTO {table} PARTITION (ds = 'g')")
@pytest.mark.requirement("Flink.CreatedAutomatically", statement="INSERT INTO {table} VALUES")
def test_every_form_of_insert_into(lake: Lake, kind: str) -> None:
    name = f"forms_{kind}"
    if kind == "virtual":
        table = register(lake, name, {"ds": "STRING", "h": "INT"})
    else:
        table = create(lake, name, "id INT, v STRING, ds STRING, h INT", "ds, h")
    lake.sql("SELECT 10 AS h, 'f' AS ds, 6 AS id, 'six' AS v").createOrReplaceTempView("source")
    for statement in (
        f"INSERT INTO {table} VALUES (1, 'one', 'a', 1)",
        f"INSERT INTO {table} (ds, h, id) VALUES ('b', 2, 2)",
        f"INSERT INTO {table} PARTITION (ds = 'c', h = 3) VALUES (3, 'three')",
        f"INSERT INTO {table} PARTITION (ds = 'd', h) SELECT 4, 'four', 4",
        f"INSERT INTO {table} PARTITION (ds, h) SELECT 5, 'five', 'e', 5",
        f"INSERT INTO {table} BY NAME SELECT * FROM source",
        f"INSERT INTO {table} PARTITION (ds = 'g') (v, id, h) VALUES ('seven', 7, 7)",
        # A key that SELECT * omits must be in the list.
        f"INSERT INTO {table} (id) VALUES (8)"
        if kind == "declared"
        else f"INSERT INTO {table} (id, ds, h) VALUES (8, NULL, NULL)",
        f"INSERT INTO {table} PARTITION (ds = 'i j', h = NULL) VALUES (9, 'nine')",
        f"WITH c AS (SELECT 10, 'ten', 'a', 1) INSERT INTO {table} SELECT * FROM c",
    ):
        lake.sql(statement)
    frame = lake.frame([(11, "eleven", "k", 11)], "id INT, v STRING, ds STRING, h INT")
    frame.write.insertInto(table)
    frame.withColumn("id", F.lit(12)).select("h", "v", "id", "ds").writeTo(table).append()
    frame.withColumn("id", F.lit(13)).write.mode("append").saveAsTable(table)
    expected = [
        (1, "one", "a", 1), (2, None, "b", 2), (3, "three", "c", 3), (4, "four", "d", 4), (5, "five", "e", 5),
        (6, "six", "f", 10), (7, "seven", "g", 7), (8, None, None, None), (9, "nine", "i j", None),
        (10, "ten", "a", 1), (11, "eleven", "k", 11), (12, "eleven", "k", 11), (13, "eleven", "k", 11),
    ]  # fmt: skip
    assert lake.rows(f"SELECT id, v, ds, h FROM {table} ORDER BY id") == expected
    assert lake.sql(f"SELECT * FROM {table}").columns == (["id", "v"] if kind == "virtual" else ["id", "v", "ds", "h"])
    default = "__HIVE_DEFAULT_PARTITION__"
    assert lake.partitions(f"s.{name}") == [
        f"ds={default}/h={default}", "ds=a/h=1", "ds=b/h=2", "ds=c/h=3", "ds=d/h=4", "ds=e/h=5", "ds=f/h=10",
        "ds=g/h=7", f"ds=i j/h={default}", "ds=k/h=11",
    ]  # fmt: skip
    assert lake.operations(f"s.{name}")[-13:] == ["INSERT"] * 13
    lake.check_files(f"s.{name}")


@pytest.mark.requirement("HiveDP.Syntax.Mixed", statement="INSERT OVERWRITE {table} PARTITION (ds = 'a', h)")
@pytest.mark.requirement("HiveDP.Design.Overwrite", statement="INSERT OVERWRITE {table} VALUES")
@pytest.mark.requirement("Flink.DynamicOverwrite", statement="INSERT OVERWRITE {table} VALUES")
@pytest.mark.requirement("Flink.StaticWrite", statement="INSERT OVERWRITE {table} PARTITION (ds = 'a', h = 1)")
def test_insert_overwrite_replaces_what_receives_rows(lake: Lake) -> None:
    table = create(lake, "dynamic", "id INT, ds STRING, h INT", "ds, h")
    everything = f"SELECT id, ds, h FROM {table} ORDER BY id"

    def refill() -> None:
        lake.sql(f"DELETE FROM {table}")
        lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1)")

    for overwrite, expected in [
        (f"INSERT OVERWRITE {table} VALUES (4, 'a', 1)", [(2, "a", 2), (3, "b", 1), (4, "a", 1)]),
        (f"INSERT OVERWRITE {table} PARTITION (ds = 'a', h) VALUES (4, 2)", [(1, "a", 1), (3, "b", 1), (4, "a", 2)]),
        (f"INSERT OVERWRITE {table} PARTITION (ds = 'a') (h, id) VALUES (2, 4)",
         [(1, "a", 1), (3, "b", 1), (4, "a", 2)]),
        (f"INSERT OVERWRITE {table} BY NAME SELECT 1 AS h, 4 AS id, 'b' AS ds",
         [(1, "a", 1), (2, "a", 2), (4, "b", 1)]),
        (f"INSERT OVERWRITE {table} SELECT id + 10, ds, h FROM {table} WHERE ds = 'b'",
         [(1, "a", 1), (2, "a", 2), (13, "b", 1)]),
        (f"INSERT OVERWRITE {table} SELECT 1, 'a', 1 WHERE false", [(1, "a", 1), (2, "a", 2), (3, "b", 1)]),
        (f"INSERT OVERWRITE {table} PARTITION (ds = 'a', h = 1) VALUES (4)", [(2, "a", 2), (3, "b", 1), (4, "a", 1)]),
        (f"INSERT OVERWRITE {table} PARTITION (ds = 'a', h = 1) SELECT 1 WHERE false", [(2, "a", 2), (3, "b", 1)]),
    ]:  # fmt: skip
        refill()
        lake.sql(overwrite)
        assert lake.rows(everything) == expected, overwrite
        lake.check_files("s.dynamic")
    assert lake.partitions("s.dynamic") == ["ds=a/h=1", "ds=a/h=2", "ds=b/h=1"], "a fully static one stays registered"
    lake.sql(f"INSERT OVERWRITE {table} PARTITION (ds = 'n/w', h = '007') SELECT 1 WHERE false")
    assert lake.partitions("s.dynamic")[-1] == "ds=n%2Fw/h=7", "or becomes registered"
    refill()
    frame = lake.frame([(5, "b", 1)], "id INT, ds STRING, h INT")
    frame.write.insertInto(table, overwrite=True)
    assert lake.rows(everything) == [(1, "a", 1), (2, "a", 2), (5, "b", 1)]
    frame.withColumn("id", F.lit(6)).writeTo(table).overwritePartitions()
    assert lake.rows(everything) == [(1, "a", 1), (2, "a", 2), (6, "b", 1)]
    assert lake.operations("s.dynamic")[-1] == "INSERT OVERWRITE"
    assert lake.spark.conf.get(OVERWRITE_MODE) == "STATIC", "the session's setting is unchanged"


def test_an_empty_static_overwrite_names_its_partition_as_rows_would(lake: Lake) -> None:
    table = create(lake, "named", "id INT, d DOUBLE, c CHAR(4), s STRING", "d, c, s")
    lake.sql(f"INSERT OVERWRITE {table} PARTITION (d = '-0.0', c = 'ab ', s = 'a/b') SELECT 1 WHERE false")
    assert lake.partitions("s.named") == ["d=0.0/c=ab/s=a%2Fb"]
    lake.sql(f"INSERT INTO {table} SELECT 1, CAST('-0.0' AS DOUBLE), 'ab', 'a/b'")
    assert lake.partitions("s.named") == ["d=0.0/c=ab/s=a%2Fb"]


@pytest.mark.parametrize("query", ["SELECT 1", "SELECT count(*) FROM {table}"])
def test_if_not_exists_conflicts_with_a_partition_added_since(lake: Lake, query: str) -> None:
    """Another writer commits the partition after the statement has looked for it, before Spark resolves the target."""
    table = create(lake, f"unless_{len(query)}", "id INT, ds STRING", "ds")
    statement = f"INSERT OVERWRITE {table} PARTITION (ds = 'a') IF NOT EXISTS {query.format(table=table)}"
    session, sql = lake.spark._jsparkSession, lake.spark._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    looked = sql.catalogext.write.MarkInserts(session).apply(session.sessionState().sqlParser().parsePlan(statement))
    lake.sql(f"INSERT INTO {table} PARTITION (ds = 'a') SELECT 2")
    with pytest.raises(PySparkException) as caught:
        getattr(getattr(sql.classic, "Dataset$"), "MODULE$").ofRows(session, looked)
    assert caught.value.getCondition() == "CATALOG_EXT_CONFLICT"
    lake.sql(statement)
    assert lake.rows(f"SELECT * FROM {table}") == [(2, "a")]
    lake.sql(statement.replace("'a'", "'b'"))
    assert lake.partitions(table.removeprefix("lake.")) == ["ds=a", "ds=b"]
    missing = f"INSERT OVERWRITE lake.s.nothing PARTITION (ds = 'a') IF NOT EXISTS {query.format(table=table)}"
    assert lake.condition(missing) == "TABLE_OR_VIEW_NOT_FOUND"


def test_overwrites_and_deletes_select_timestamps_near_clock_changes(lake: Lake) -> None:
    table = create(lake, "changes", "id INT, at TIMESTAMP", "at")
    rows = f"SELECT id FROM {table} ORDER BY id"
    after_gap, repeated = "2025-03-30 03:30:00", "2025-10-26 02:30:00"
    noons = ("2025-03-30 12:00:00", "2025-10-26 12:00:00")
    lake.sql("SET TIME ZONE 'Europe/Berlin'")
    try:
        for number, at in enumerate((after_gap, repeated, *noons)):
            lake.sql(f"INSERT INTO {table} VALUES (0, timestamp'{at}')")
            lake.sql(f"INSERT OVERWRITE {table} PARTITION (at = '{at}') SELECT {number + 1}")
        assert lake.rows(rows) == [(1,), (2,), (3,), (4,)]
        lake.sql(f"INSERT INTO {table} REPLACE WHERE at = timestamp'{noons[0]}' SELECT 5, timestamp'{noons[0]}'")
        lake.frame([(6,)], "id INT").withColumn("at", F.expr(f"timestamp'{noons[1]}'")).writeTo(table).overwrite(
            F.expr(f"at = timestamp'{noons[1]}'")
        )
        assert lake.rows(rows) == [(1,), (2,), (5,), (6,)]
        lake.sql(f"DELETE FROM {table} WHERE at IN (timestamp'{noons[0]}', timestamp'{noons[1]}')")
        # The earlier one of the two instants is the key's value; the later one is that of no partition.
        assert (
            lake.condition(f"DELETE FROM {table} WHERE at = timestamp'{repeated}+01:00'") == "CATALOG_EXT_NOT_SUPPORTED"
        )
        assert lake.rows(f"SELECT id FROM {table} WHERE at = timestamp'{repeated}+01:00'") == []
        lake.sql(f"DELETE FROM {table} WHERE at = timestamp'{repeated}+02:00'")
        assert lake.rows(rows) == [(1,)]
        # A local time that the clocks omitted is the same instant as the one an hour later.
        lake.sql("SET TIME ZONE 'UTC'", f"INSERT INTO {table} VALUES (7, timestamp'2025-03-30 02:30:00')")
        lake.sql("SET TIME ZONE 'Europe/Berlin'")
        assert lake.rows(f"SELECT id FROM {table} WHERE at = timestamp'{after_gap}' ORDER BY id") == [(1,), (7,)]
        refused = lake.error(
            f"INSERT INTO {table} REPLACE WHERE at = timestamp'{after_gap}' SELECT 8, timestamp'{after_gap}'"
        )
        assert refused.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
        assert "An overwrite replaces whole partitions of table s.changes" in str(refused)
        assert "Nothing was written." in str(refused)
        assert lake.rows(rows) == [(1,), (7,)]
    finally:
        lake.spark.conf.unset("spark.sql.session.timeZone")


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_overwrites_and_deletes_select_numbers_that_are_not_finite(lake: Lake, kind: str) -> None:
    table = create(lake, f"infinite_{kind.lower()}", f"id INT, d {kind}", "d")
    values = ("NaN", "Infinity", "-Infinity", "1.5")
    for number, value in enumerate(values):
        lake.sql(f"INSERT INTO {table} VALUES (0, CAST('{value}' AS {kind}))")
        lake.sql(f"INSERT OVERWRITE {table} PARTITION (d = '{value}') SELECT {number}")
    assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(0,), (1,), (2,), (3,)]
    for number, value in enumerate(values):
        assert lake.rows(f"SELECT id FROM {table} WHERE d = CAST('{value}' AS {kind})") == [(number,)]
        lake.sql(f"DELETE FROM {table} WHERE d = CAST('{value}' AS {kind})")
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(left,) for left in range(number + 1, 4)]


def test_a_user_who_asks_for_static_gets_it(lake: Lake) -> None:
    table = create(lake, "static", "id INT, ds STRING, h INT", "ds, h")
    everything = f"SELECT id FROM {table} ORDER BY id"
    frame = lake.frame([(9, "a", 1)], "id INT, ds STRING, h INT")

    def refill() -> None:
        lake.sql(f"DELETE FROM {table}")
        lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1)")

    refill()
    lake.spark.conf.set(OVERWRITE_MODE, "static")
    try:
        lake.sql(f"INSERT OVERWRITE {table} PARTITION (ds = 'a') VALUES (4, 1)")
        assert lake.rows(everything) == [(3,), (4,)]
        refill()
        lake.sql(f"INSERT OVERWRITE {table} VALUES (4, 'a', 1)")
        assert lake.rows(everything) == [(4,)]
        refill()
        frame.write.option("partitionOverwriteMode", "dynamic").insertInto(table, overwrite=True)
        assert lake.rows(everything) == [(2,), (3,), (9,)]
    finally:
        lake.spark.conf.unset(OVERWRITE_MODE)
    refill()
    frame.write.option("partitionOverwriteMode", "static").insertInto(table, overwrite=True)
    assert lake.rows(everything) == [(9,)]
    lake.spark.conf.set(OVERWRITE_MODE, "dynamic")
    try:
        lake.sql(f"INSERT OVERWRITE {table} PARTITION (ds = 'a', h = 1) SELECT 1 WHERE false")
        assert lake.rows(everything) == []
        plain = create(lake, "plain_dynamic", "id INT")
        lake.sql(f"INSERT INTO {plain} VALUES (1)")
        lake.sql(f"INSERT OVERWRITE {plain} SELECT 1 WHERE false")
        assert lake.rows(f"SELECT * FROM {plain}") == []
    finally:
        lake.spark.conf.unset(OVERWRITE_MODE)


def test_an_unpartitioned_table_is_replaced(lake: Lake) -> None:
    table = create(lake, "plain", "id INT, v STRING")
    lake.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    lake.sql(f"INSERT OVERWRITE {table} SELECT id + 1, v FROM {table}")
    assert lake.rows(f"SELECT * FROM {table} ORDER BY id") == [(2, "a"), (3, "b")]
    lake.frame([(7, "c")], "id INT, v STRING").write.insertInto(table, overwrite=True)
    assert lake.rows(f"SELECT * FROM {table}") == [(7, "c")]
    lake.sql(f"INSERT OVERWRITE {table} SELECT 1, 'x' WHERE false")
    assert lake.rows(f"SELECT * FROM {table}") == []
    lake.check_files("s.plain")


def test_equal_values_in_two_directories_are_one_partition(lake: Lake) -> None:
    table = register(lake, "twins", {"k": "INT"})
    for folder in ("k=1", "k=01", "k=2"):
        lake.sql(f"SELECT 1 AS id, '{folder}' AS v").write.parquet(str(lake.folder / "twins" / folder))
    lake.catalog.repair_partitions("s.twins")
    lake.sql(f"INSERT OVERWRITE {table} PARTITION (k = 1) VALUES (9, 'new')")
    assert lake.rows(f"SELECT v, k FROM {table} ORDER BY k") == [("new", 1), ("k=2", 2)]
    lake.check_files("s.twins")


def test_replacing_by_a_condition(lake: Lake) -> None:
    table = create(lake, "conditions", "id INT, ds DATE, r STRING", "ds, r")
    day = "DATE'2025-01-0{}'"
    values = ", ".join(f"({i}, {day.format(i)}, '{'eu' if i % 2 else 'us'}')" for i in range(1, 7))
    lake.sql(f"INSERT INTO {table} VALUES {values}")
    ids = f"SELECT id FROM {table} ORDER BY id"
    lake.sql(f"INSERT INTO {table} REPLACE WHERE ds >= {day.format(5)} VALUES (50, {day.format(5)}, 'eu')")
    assert lake.rows(ids) == [(1,), (2,), (3,), (4,), (50,)]
    assert lake.operations("s.conditions")[-1] == "REPLACE WHERE"
    frame = lake.frame([(7, "us")], "id INT, r STRING").selectExpr("id", f"{day.format(7)} ds", "r")
    early = (F.col("r") == "us") & (F.col("ds") < F.lit("2025-01-03").cast("date"))
    frame.writeTo(table).option("replace-where-mismatch", "add").overwrite(early)
    assert lake.rows(ids) == [(1,), (3,), (4,), (7,), (50,)]
    frame.writeTo(table).overwrite(F.lit(True))
    assert lake.rows(ids) == [(7,)]
    assert lake.partitions("s.conditions") == ["ds=2025-01-07/r=us"], "emptied partitions are dropped"
    lake.sql(f"INSERT INTO {table} VALUES (1, {day.format(1)}, 'eu')")
    lake.sql(f"INSERT INTO {table} REPLACE WHERE true VALUES (7, {day.format(7)}, 'us')")
    assert lake.rows(ids) == [(7,)], "all of it, not the partitions that receive rows"
    for condition in ("id = 1", "upper(r) = 'US'", "ds = DATE'2025-01-07' OR id = 1"):
        with pytest.raises(AnalysisException):
            lake.sql(f"INSERT INTO {table} REPLACE WHERE {condition} VALUES (1, {day.format(1)}, 'eu')")
    rows = f"(8, {day.format(7)}, 'eu'), (9, {day.format(8)}, 'eu')"
    outside = f"INSERT INTO {table} REPLACE WHERE ds = {day.format(7)} VALUES {rows}"
    refused = lake.refusal(outside)
    assert refused.getCondition() == "CATALOG_EXT_INVALID_INPUT"
    assert "ds=2025-01-08/r=eu" in str(refused)
    assert lake.rows(ids) == [(7,)]
    with pytest.raises(AnalysisException, match="ds=2025-01-07/r=us"):
        frame.writeTo(table).overwrite(F.col("r") == "eu")
    frame.writeTo(table).option("replace-where-mismatch", "add").overwrite(F.col("r") == "eu")
    assert lake.rows(ids) == [(7,), (7,)]
    lake.spark.conf.set("spark.sql.catalog.lake.replace-where-mismatch", "add")
    try:
        lake.sql(outside)
    finally:
        lake.spark.conf.unset("spark.sql.catalog.lake.replace-where-mismatch")
    assert lake.rows(ids) == [(8,), (9,)]
    lake.check_files("s.conditions")


def test_a_name_without_a_namespace(lake: Lake) -> None:
    table = create(lake, "found", "id INT, ds STRING", "ds")
    lake.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    if SPARK >= (4, 2):
        lake.spark.conf.set("spark.sql.path.enabled", "true")
        lake.sql("SET PATH = system.builtin, spark_catalog.default, lake.s")
    else:
        lake.sql("USE lake.s")
    try:
        lake.sql("INSERT OVERWRITE found PARTITION (ds = 'a') SELECT 9 WHERE false")
        assert lake.operations("s.found")[-1] == "INSERT OVERWRITE"
        assert lake.partitions("s.found") == ["ds=a", "ds=b"], "emptied, not dropped"
        lake.sql("INSERT INTO found VALUES (4, 'c')", "INSERT OVERWRITE found VALUES (5, 'b')")
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == [(4,), (5,)]
        lake.sql("INSERT INTO found REPLACE WHERE true VALUES (7, 'b')")
        assert lake.rows(f"SELECT id FROM {table}") == [(7,)], "all of it, not the partitions that receive rows"
    finally:
        lake.spark.conf.unset("spark.sql.path.enabled")
        lake.sql("USE spark_catalog.default")


@pytest.mark.requirement("HiveDP.Syntax.StaticBelowDynamic", statement="INSERT INTO {table} PARTITION (a, b = 1)")
@pytest.mark.requirement("HiveDP.Issues.Order", statement="INSERT INTO {table} PARTITION (a, b = 1)")
def test_what_a_partition_clause_may_not_say(lake: Lake) -> None:
    table = create(lake, "clauses", "id INT, a STRING, b INT", "a, b")
    late = lake.refusal(f"INSERT INTO {table} PARTITION (a, b = 1) SELECT 1, 'x'")
    assert late.getCondition() == "CATALOG_EXT_INVALID_INPUT"
    assert "the static partition column 'b' comes after the dynamic one 'a'" in str(late)
    empty = lake.refusal(f"INSERT INTO {table} PARTITION (a = '', b = 1) VALUES (1)")
    assert empty.getCondition() == "CATALOG_EXT_INVALID_PARTITION_SPEC"
    assert "a = NULL" in str(empty)
    planned = lake.rows(f"EXPLAIN INSERT INTO {table} PARTITION (a = '', b = 1) VALUES (1)")
    assert "CATALOG_EXT_INVALID_PARTITION_SPEC" in str(planned), "before the query runs"
    wrong = lake.refusal(f"INSERT OVERWRITE {table} PARTITION (a = 'x', b = 'one') SELECT 1 WHERE false")
    assert wrong.getCondition() == "CATALOG_EXT_INVALID_VALUE"
    assert "'one' does not fit the type INT" in str(wrong)
    other = lake.refusal(f"INSERT INTO {table} PARTITION (id = 1) SELECT 'x', 1")
    assert other.getCondition() == "NON_PARTITION_COLUMN"
    lake.sql(f"INSERT INTO {table} PARTITION (a = '__HIVE_DEFAULT_PARTITION__', b = 1) VALUES (5)")
    assert lake.rows(f"SELECT * FROM {table}") == [(5, None, 1)]
    with pytest.raises(PySparkException, match="__HIVE_DEFAULT_PARTITION__"):
        lake.sql(f"INSERT INTO {table} VALUES (1, '__HIVE_DEFAULT_PARTITION__', 1)")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(1,)]
    lake.check_files("s.clauses")


def test_durations_mean_what_the_golden_file_says(lake: Lake) -> None:
    golden = json.loads((Path(__file__).parents[2] / "contract" / "settings.json").read_text(encoding="utf-8"))
    reader = lake.spark._jvm.org.apache.spark.sql.catalogext.catalog.DurationText  # type: ignore[union-attr]
    for text, value in golden["duration"].items():
        found = reader.seconds(text)
        assert (found.get() if found.isDefined() else None) == (value and pytest.approx(value)), text


def test_what_alter_table_takes_a_write_takes(lake: Lake) -> None:
    table = create(lake, "sizes", "id INT, k INT", "k")
    for text in ("1 g", "2 mb", "1gib", "1p"):
        for key in ("write.max-file-size", "Write.Max-File-Size"):
            lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{key}' = '{text}')")
            lake.sql(f"INSERT INTO {table} VALUES (1, 1)")
            lake.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('{key}')")
        frame = lake.frame([(1, 1)], "id INT, k INT").write
        frame.option("write.max-file-size", text).insertInto(table)
    for refused in ("0", "1 x", "8192p"):
        wrong = lake.refusal(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.max-file-size' = '{refused}')")
        assert wrong.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"
        with pytest.raises(AnalysisException, match="INVALID_CONFIGURATION"):
            lake.frame([(1, 1)], "id INT, k INT").write.option("write.max-file-size", refused).insertInto(table)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('Hive.Exec.Dynamic.Partition.Mode' = 'strict')")
    assert "is strict" in str(lake.refusal(f"INSERT INTO {table} VALUES (1, 1)"))


@pytest.mark.requirement(
    "HiveDP.Syntax.AllDynamic", statement="INSERT INTO {table} VALUES", differs="The default mode is nonstrict."
)
def test_hives_switches_for_dynamic_keys(lake: Lake) -> None:
    table = create(lake, "switches", "id INT, a STRING, b INT", "a, b")
    frame = lake.frame([(1, "x", 1)], "id INT, a STRING, b INT")
    strict, off = "hive.exec.dynamic.partition.mode", "hive.exec.dynamic.partition"
    lake.sql(f"SET {strict}=strict")
    try:
        error = lake.refusal(f"INSERT INTO {table} VALUES (1, 'x', 1)")
        assert f"{strict} is strict" in str(error)
        assert "(a, b)" in str(error)
        with pytest.raises(AnalysisException, match="is strict"):
            frame.write.insertInto(table)
        lake.sql(f"INSERT INTO {table} PARTITION (a = 'x', b) VALUES (1, 1)")
        lake.sql(f"SET {off}=false")
        assert f"{off} is false" in str(lake.refusal(f"INSERT INTO {table} PARTITION (a = 'x', b) VALUES (1, 1)"))
        lake.sql(f"INSERT INTO {table} PARTITION (a = 'x', b = 1) VALUES (2)")
    finally:
        lake.spark.conf.unset(strict)
        lake.spark.conf.unset(off)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{strict}' = 'strict')")
    assert "is strict" in str(lake.refusal(f"INSERT OVERWRITE {table} VALUES (1, 'x', 1)"))
    lake.sql(f"SET {strict}=nonstrict")
    try:
        lake.sql(f"INSERT OVERWRITE {table} VALUES (3, 'x', 1)")
    finally:
        lake.spark.conf.unset(strict)
    frame.withColumn("id", F.lit(4)).write.option(strict, "nonstrict").insertInto(table, overwrite=True)
    for key in (strict, off):
        lake.sql(f"SET {key}=lenient")
        try:
            wrong = lake.refusal(f"INSERT INTO {table} VALUES (1, 'x', 1)")
        finally:
            lake.spark.conf.unset(key)
        assert wrong.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"
    assert lake.rows(f"SELECT * FROM {table}") == [(4, "x", 1)]


def test_omitted_columns_get_their_defaults(lake: Lake) -> None:
    columns = "id INT, v STRING DEFAULT concat('n', 'one'), ds STRING DEFAULT 'today', h INT NOT NULL"
    table = create(lake, "defaults", columns, "ds, h")
    lake.sql(f"INSERT INTO {table} (id, h) VALUES (1, 1)")
    lake.sql(f"INSERT INTO {table} (h, ds, id) VALUES (1, DEFAULT, 2)")
    lake.sql(f"INSERT INTO {table} PARTITION (ds = 'x', h = 2) (id) VALUES (3)")
    assert lake.rows(f"SELECT * FROM {table} ORDER BY id") == [
        (1, "none", "today", 1), (2, "none", "today", 1), (3, "none", "x", 2),
    ]  # fmt: skip
    with pytest.raises(PySparkException, match=r"NULL|null"):
        lake.sql(f"INSERT INTO {table} (id, h) VALUES (4, CAST(NULL AS INT))")
    with pytest.raises(AnalysisException):
        lake.sql(f"INSERT INTO {table} (id) VALUES (5)")
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(3,)]
    assert "DEFAULT concat('n', 'one')" in str(lake.rows(f"SHOW CREATE TABLE {table}")[0][0])
    kept = {c.name: (c.default, c.nullable) for c in lake.catalog.load_table("s.defaults").definition.partition_columns}
    assert kept == {"ds": ("'today'", True), "h": (None, False)}
    lake.check_files("s.defaults")


OMITTING: dict[str, Callable[[SparkSession, str], object]] = {
    "append": lambda spark, table: spark.table(table).writeTo(table).append(),
    "overwrite": lambda spark, table: spark.table(table).writeTo(table).overwrite(F.col("ds") == "a"),
    "overwritePartitions": lambda spark, table: spark.table(table).writeTo(table).overwritePartitions(),
    "saveAsTable": lambda spark, table: spark.table(table).write.mode("append").saveAsTable(table),
    "by name": lambda spark, table: spark.sql(f"INSERT INTO {table} BY NAME SELECT * FROM {table}"),
    "overwrite by name": lambda spark, table: spark.sql(f"INSERT OVERWRITE {table} BY NAME SELECT * FROM {table}"),
    "some keys by name": lambda spark, table: spark.sql(f"INSERT INTO {table} BY NAME SELECT *, ds FROM {table}"),
    "constant by name": lambda spark, table: spark.sql(
        f"INSERT INTO {table} PARTITION (ds = 'a') BY NAME SELECT * FROM {table}"
    ),
    "list": lambda spark, table: spark.sql(f"INSERT INTO {table} (id, v) VALUES (2, DEFAULT)"),
    "list of a query": lambda spark, table: spark.sql(
        f"INSERT INTO {table} (v, id, DS) SELECT v, id, 'a' FROM {table}"
    ),
}


@pytest.mark.parametrize("write", OMITTING.values(), ids=OMITTING.keys())
def test_a_write_that_omits_a_virtual_key_is_refused(
    lake: Lake, write: Callable[[SparkSession, str], object], request: pytest.FixtureRequest
) -> None:
    """The result of ``SELECT *``, written back, would go to the default partition."""
    name = re.sub(r"\W", "_", request.node.callspec.id)
    table = register(lake, f"omitting_{name}", {"ds": "STRING", "h": "INT"})
    lake.sql(f"INSERT INTO {table} VALUES (1, 'x', 'a', 1)")
    with pytest.raises(AnalysisException, match=r"(?s)no value for.* h\b.*|CANNOT_FIND_DATA") as caught:
        write(lake.spark, table)
    if lake.spark.version >= "4.1":
        assert caught.value.getCondition() == "CATALOG_EXT_INVALID_INPUT"
    assert lake.rows(f"SELECT id, v, ds, h FROM {table}") == [(1, "x", "a", 1)]
    assert lake.version(f"s.omitting_{name}") == 1


def test_keys_that_a_write_gives_as_null_or_that_all_queries_show(lake: Lake) -> None:
    table = register(lake, "given_null", {"ds": "STRING"})
    lake.sql(f"INSERT INTO {table} BY NAME SELECT 'x' AS v, CAST(NULL AS STRING) AS DS, 1 AS id")
    lake.sql(f"INSERT INTO {table} (id, ds) VALUES (2, NULL)", f"INSERT INTO {table} (ds, id) VALUES (DEFAULT, 3)")
    lake.sql(f"INSERT INTO {table} PARTITION (ds = 'b') BY NAME SELECT 4 AS id")
    lake.frame([(5, "b")], "id INT, ds STRING").writeTo(table).append()
    assert lake.rows(f"SELECT id, v, ds FROM {table} ORDER BY id") == [
        (1, "x", None), (2, None, None), (3, None, None), (4, None, "b"), (5, None, "b"),
    ]  # fmt: skip
    shown = create(lake, "shown_key", "id INT, ds STRING", "ds")
    lake.sql(f"INSERT INTO {shown} (id) VALUES (1)")
    assert lake.rows(f"SELECT * FROM {shown}") == [(1, None)]


def test_a_key_that_a_data_column_hides_is_not_written(lake: Lake) -> None:
    table = register(lake, "clash", {"ds": "STRING"}, "id INT, ds STRING")
    error = lake.refusal(f"INSERT INTO {table} VALUES (1, 'a')")
    assert error.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
    assert "data column and a partition column of the name 'ds'" in str(error)


@pytest.mark.requirement(
    "HiveDP.Syntax.CTAS",
    statement="CREATE TABLE lake.s.ctas USING orc",
    differs="PARTITIONED BY has only the names of the partition columns; the query decides their types.",
)
@pytest.mark.requirement("HiveDP.Issues.Type", statement="CREATE TABLE lake.s.ctas USING orc")
@pytest.mark.requirement(
    "HiveDP.Issues.PartitionFunction",
    statement="CREATE TABLE lake.s.ctas USING orc",
    differs="There are no user-defined partition functions; an expression of the query computes the value.",
)
def test_create_table_as_select(lake: Lake) -> None:
    lake.sql(
        "CREATE TABLE lake.s.ctas USING orc PARTITIONED BY (ds) COMMENT 'made' TBLPROPERTIES ('x' = 'y') "
        "AS SELECT 'd' || id AS ds, id, CAST(id AS STRING) v FROM range(3)"
    )
    assert lake.rows("SELECT * FROM lake.s.ctas ORDER BY id") == [(0, "0", "d0"), (1, "1", "d1"), (2, "2", "d2")]
    definition = lake.catalog.load_table("s.ctas").definition
    assert (definition.format, definition.comment, definition.properties["x"]) == ("orc", "made", "y")
    assert lake.operations("s.ctas") == ["create", "CTAS"]
    lake.sql("CREATE TABLE lake.s.ctas_empty AS SELECT 1 AS id WHERE false")
    assert lake.rows("SELECT * FROM lake.s.ctas_empty") == []
    lake.sql("CREATE TABLE IF NOT EXISTS lake.s.ctas AS SELECT 1 AS other")
    assert (
        lake.refusal("CREATE TABLE lake.s.ctas AS SELECT 1 AS other").getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    )
    assert lake.refusal("CREATE TABLE lake.nowhere.t AS SELECT 1 AS a").getCondition() == "SCHEMA_NOT_FOUND"
    nested = lake.refusal("CREATE TABLE lake.s.nested PARTITIONED BY (k) AS SELECT 1 AS id, array(1) AS k")
    assert nested.getCondition() == "CATALOG_EXT_INVALID_TYPE"
    lake.frame([(1, "a")], "id INT, ds STRING").writeTo("lake.s.ctas_frame").partitionedBy(F.col("ds")).create()
    assert lake.partitions("s.ctas_frame") == ["ds=a"]
    for name in ("ctas", "ctas_empty", "ctas_frame"):
        lake.check_files(f"s.{name}")


def test_the_strategy_hive_wants_keys_of_every_row_that_makes_a_table(lake: Lake) -> None:
    clauses = "PARTITIONED BY (k) TBLPROPERTIES ('Partition_Strategy' = 'HIVE')"
    lake.sql(f"CREATE TABLE lake.s.strategic {clauses} AS SELECT 1 AS id, string(id) AS k FROM range(2)")
    definition = lake.catalog.load_table("s.strategic").definition
    assert [(column.name, column.nullable) for column in definition.partition_columns] == [("k", False)]
    query = "SELECT 1 AS id, IF(id = 1, NULL, 'a') AS k FROM range(2)"
    with pytest.raises(PySparkException, match=r"(?i)not.null"):
        lake.sql(f"CREATE TABLE lake.s.without_keys {clauses} AS {query}")
    assert not lake.spark.catalog.tableExists("lake.s.without_keys")
    lake.sql(f"CREATE TABLE lake.s.without_keys PARTITIONED BY (k) AS {query}")
    assert lake.partitions("s.without_keys") == ["k=__HIVE_DEFAULT_PARTITION__", "k=a"]


def test_a_creation_that_fails_leaves_nothing(lake: Lake) -> None:
    with pytest.raises(PySparkException, match="no luck"):
        lake.sql("CREATE TABLE lake.s.failed AS SELECT CAST(raise_error('no luck') AS INT) AS a FROM range(10)")
    assert not lake.spark.catalog.tableExists("lake.s.failed")
    warehouse = lake.folder / "warehouse" / "s.db"
    assert not (warehouse / "failed").exists()
    full = warehouse / "full"
    full.mkdir(parents=True)
    (full / "somebodys.parquet").write_bytes(b"data")
    for location in ("", f"LOCATION '{full}'"):
        with pytest.raises(AnalysisException, match="not empty"):
            lake.sql(f"CREATE TABLE lake.s.full {location} AS SELECT 1 AS a")
        assert not lake.spark.catalog.tableExists("lake.s.full")
    assert [file.name for file in full.iterdir()] == ["somebodys.parquet"]


@pytest.mark.requirement(
    "HiveDP.Syntax.CTASConstant",
    statement="CREATE OR REPLACE TABLE lake.s.replaced PARTITIONED BY",
    differs="PARTITIONED BY has only the names of the partition columns; the query decides their types.",
)
def test_replacing_a_table(lake: Lake) -> None:
    assert lake.refusal("REPLACE TABLE lake.s.replaced AS SELECT 1 AS a").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    lake.sql("CREATE OR REPLACE TABLE lake.s.replaced PARTITIONED BY (ds) AS SELECT 1 AS a, 'x' AS ds")
    first = lake.catalog.load_table("s.replaced").table_id
    with pytest.raises(PySparkException, match="no luck"):
        lake.sql(
            "CREATE OR REPLACE TABLE lake.s.replaced AS SELECT CAST(raise_error('no luck') AS INT) AS b FROM range(10)"
        )
    assert lake.rows("SELECT * FROM lake.s.replaced") == [(1, "x")]
    lake.check_files("s.replaced")
    lake.sql("REPLACE TABLE lake.s.replaced USING json AS SELECT a + 1 AS b, ds FROM lake.s.replaced")
    assert lake.rows("SELECT * FROM lake.s.replaced") == [(2, "x")]
    assert lake.catalog.load_table("s.replaced").table_id != first
    assert lake.operations("s.replaced") == ["create", "RTAS"], "the replaced table's history goes with it"
    lake.check_files("s.replaced")
    frame = lake.frame([(3, "z")], "c INT, ds STRING")
    frame.writeTo("lake.s.replaced").partitionedBy(F.col("ds")).createOrReplace()
    assert lake.rows("SELECT * FROM lake.s.replaced") == [(3, "z")]
    frame.withColumn("c", F.lit(4)).write.mode("overwrite").partitionBy("ds").saveAsTable("lake.s.replaced")
    assert lake.rows("SELECT * FROM lake.s.replaced") == [(4, "z")]
    lake.sql("CREATE OR REPLACE TABLE lake.s.replaced (d DATE)")
    assert lake.sql("SELECT * FROM lake.s.replaced").columns == ["d"]
    assert lake.rows("SELECT * FROM lake.s.replaced") == []
    assert lake.operations("s.replaced")[-1] == "REPLACE TABLE"
    lake.check_files("s.replaced")


def test_delete_deletes_whole_partitions(lake: Lake) -> None:
    table = register(lake, "deletes", {"ds": "DATE", "r": "STRING"})
    values = ", ".join(f"({i}, 'v', DATE'2025-01-0{i}', '{'eu' if i % 2 else 'us'}')" for i in range(1, 8))
    lake.sql(f"INSERT INTO {table} VALUES {values}, (8, 'v', NULL, 'x')")
    ids = f"SELECT id FROM {table} ORDER BY id"
    for condition, left in [
        ("ds = '2025-01-01'", [2, 3, 4, 5, 6, 7, 8]),
        ("ds IN (DATE'2025-01-02', DATE'2025-01-09') AND r = 'us'", [3, 4, 5, 6, 7, 8]),
        ("ds > '2025-01-06' OR r LIKE 'x%'", [3, 4, 5, 6]),
        ("NOT (ds < '2025-01-06')", [3, 4, 5]),
        ("ds = '2030-01-01'", [3, 4, 5]),
    ]:
        lake.sql(f"DELETE FROM {table} WHERE {condition}")
        assert lake.rows(ids) == [(i,) for i in left], condition
    for condition in ("id = 3", "upper(r) = 'EU'", "r IN (SELECT v FROM VALUES ('eu') AS t(v))"):
        error = lake.refusal(f"DELETE FROM {table} WHERE {condition}")
        assert error.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
        assert "Compare partition columns (ds, r) with constants" in str(error)
    merge = f"MERGE INTO {table} t USING (SELECT 3 AS i) s ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = 'x'"
    for statement in (f"UPDATE {table} SET v = 'x' WHERE ds = '2025-01-03'", f"UPDATE {table} SET v = 'x'", merge):
        error = lake.refusal(statement)
        assert error.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
        assert "INSERT OVERWRITE ... PARTITION" in str(error)
    assert lake.rows(ids) == [(3,), (4,), (5,)]
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('external.table.purge' = 'true')")
    lake.sql(f"DELETE FROM {table}")
    assert lake.partitions("s.deletes") == []
    lake.check_files("s.deletes")
    assert lake.operations("s.deletes")[-1].upper() == "DELETE"


def test_char_keys_are_padded_nowhere(lake: Lake) -> None:
    table = create(lake, "chars", "id INT, x CHAR(3), c CHAR(4)", "c")
    lake.sql(f"INSERT INTO {table} VALUES (1, 'p', 'ab'), (2, 'q', 'abcd'), (3, 'r', 'xy')")
    lake.sql(f"INSERT OVERWRITE {table} PARTITION (c = 'ab') VALUES (4, 's')")
    lake.sql(f"INSERT OVERWRITE {table} PARTITION (c = 'z') SELECT 1, 'p' WHERE false")
    assert lake.partitions("s.chars") == ["c=ab", "c=abcd", "c=xy", "c=z"]
    lake.sql(f"DELETE FROM {table} WHERE c = 'ab'")
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (c = 'xy')")
    assert lake.rows(f"SELECT id FROM {table}") == [(2,)]
    assert lake.partitions("s.chars") == ["c=abcd", "c=xy", "c=z"]
    lake.check_files("s.chars")


def test_truncate_keeps_partitions(lake: Lake) -> None:
    table = create(lake, "truncates", "id INT, a STRING, b INT", "a, b")
    lake.sql(f"INSERT INTO {table} VALUES (1, 'x', 1), (2, 'x', 2), (3, 'y', 1)")
    ids = f"SELECT id FROM {table} ORDER BY id"
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (a = 'x', b = 1)")
    assert lake.rows(ids) == [(2,), (3,)]
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (a = 'x')")
    assert lake.rows(ids) == [(3,)]
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (a = 'nowhere')")  # a part of the keys, as in Spark: nothing to do
    assert lake.rows(ids) == [(3,)]
    missing = lake.refusal(f"TRUNCATE TABLE {table} PARTITION (a = 'nowhere', b = 1)")
    assert missing.getCondition() == "CATALOG_EXT_PARTITION_NOT_FOUND"
    lake.sql(f"TRUNCATE TABLE {table}")
    assert lake.rows(ids) == []
    assert lake.partitions("s.truncates") == ["a=x/b=1", "a=x/b=2", "a=y/b=1"]
    lake.check_files("s.truncates")


def test_truncate_is_for_tables_that_own_their_files(lake: Lake) -> None:
    table = register(lake, "foreign", {"k": "INT"})
    lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', 2)")
    for statement in (
        f"TRUNCATE TABLE {table}",
        f"TRUNCATE TABLE {table} PARTITION (k = 1)",
        f"DELETE FROM {table}",
        f"DELETE FROM {table} WHERE 1 = 1",
        f"DELETE FROM {table} WHERE k IS NULL OR k IS NOT NULL",
    ):
        error = lake.refusal(statement)
        assert error.getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
        assert "DELETE FROM" in str(error)
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('external.table.purge' = 'true')")
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (k = 1)")
    assert lake.rows(f"SELECT id FROM {table}") == [(2,)]
    assert lake.partitions("s.foreign") == ["k=1", "k=2"]
    lake.check_files("s.foreign")
    lake.sql(f"DELETE FROM {table}")
    assert lake.partitions("s.foreign") == []
    lake.check_files("s.foreign")


@pytest.mark.requirement("HiveDP.Syntax.MultiTableInsert", statement="FROM (SELECT")
def test_one_query_into_several_tables(lake: Lake) -> None:
    tables = [create(lake, f"multi_{n}", "id BIGINT, p BIGINT", "p") for n in range(2)]
    lake.sql(
        f"FROM (SELECT id, id % 2 AS p FROM range(10)) INSERT INTO {tables[0]} SELECT id, p "
        f"INSERT OVERWRITE {tables[1]} PARTITION (p = 7) SELECT id WHERE id > 7"
    )
    assert lake.rows(f"SELECT p, count(*) FROM {tables[0]} GROUP BY p ORDER BY p") == [(0, 5), (1, 5)]
    assert lake.rows(f"SELECT id, p FROM {tables[1]} ORDER BY id") == [(8, 7), (9, 7)]
    assert [lake.operations(f"s.multi_{n}")[-1] for n in range(2)] == ["INSERT", "INSERT OVERWRITE"]


def test_a_write_refreshes_what_is_cached(lake: Lake) -> None:
    table = register(lake, "cached", {"k": "INT"})
    lake.sql(f"INSERT INTO {table} VALUES (1, 'a', 1)")
    query = f"SELECT id, k FROM {table} WHERE k < 10 ORDER BY id"
    lake.sql(f"CACHE TABLE {table}")
    frame = lake.sql(query).cache()
    assert [tuple(row) for row in frame.collect()] == [(1, 1)]
    lake.sql(f"INSERT INTO {table} VALUES (2, 'b', 2)")
    assert lake.rows(query) == [(1, 1), (2, 2)]
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(2,)]
    lake.sql(f"DELETE FROM {table} WHERE k = 1")
    assert lake.rows(query) == [(2, 2)]
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('external.table.purge' = 'true')")
    lake.sql(f"TRUNCATE TABLE {table} PARTITION (k = 2)")
    assert lake.rows(query) == []
    assert lake.rows(f"SELECT count(*) FROM {table}") == [(0,)]
    lake.sql(f"UNCACHE TABLE {table}")
    frame.unpersist()


def test_metadata_tables(lake: Lake) -> None:
    table = create(lake, "described", "id INT, k INT", "k")
    lake.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    lake.sql(f"INSERT OVERWRITE {table} VALUES (3, 2)")
    history = lake.sql(f"SELECT * FROM {table}.history").collect()
    newest = history[0].asDict()
    assert (newest["operation"], newest["files_added"], newest["files_removed"], newest["rows"]) == (
        "INSERT OVERWRITE", 1, 1, 1,
    )  # fmt: skip
    assert newest["version"] == lake.version("s.described")
    assert newest["committed_at"].year >= 2025
    transactions = lake.sql(f"SELECT * FROM {table}.transactions WHERE operation = 'INSERT'").collect()
    assert [(row["state"], row["version"]) for row in transactions] == [("finished", newest["version"] - 1)]
    joined = f"SELECT max(h.version) FROM {table}.history h JOIN {table}.transactions t USING (transaction)"
    assert lake.rows(joined) == [(newest["version"],)]
    lake.sql("USE lake.s")
    try:
        assert lake.rows("SELECT max(version) FROM described.history") == [(newest["version"],)]
        assert lake.refusal("SELECT * FROM nowhere.history").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
        lake.catalog.create_namespace("described")
        lake.sql("CREATE TABLE lake.described.history (own INT)")
        assert lake.sql("SELECT * FROM described.history").columns == ["own"]
    finally:
        lake.sql("USE spark_catalog.default")
    create(lake, "history", "id INT")
    assert lake.sql("SELECT * FROM lake.s.history").columns == ["id"]
    assert lake.refusal(f"INSERT INTO {table}.history VALUES (1)").getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
    assert lake.refusal("SELECT * FROM lake.s.nowhere.history").getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert lake.refusal(f"SELECT * FROM {table}.what").getCondition() == "CATALOG_EXT_METADATA_TABLE_NOT_FOUND"


def test_explain_begins_nothing(lake: Lake) -> None:
    table = create(lake, "explained", "id INT, k INT", "k")
    for statement in (
        f"INSERT INTO {table} VALUES (1, 1)",
        f"INSERT OVERWRITE {table} PARTITION (k = 1) VALUES (1)",
        f"DELETE FROM {table} WHERE k = 1",
        "CREATE TABLE lake.s.explained_ctas AS SELECT 1 AS a",
    ):
        lake.sql(f"EXPLAIN {statement}").collect()
    assert lake.rows(f"SELECT count(*) FROM {table}.transactions") == [(0,)]
    assert not lake.spark.catalog.tableExists("lake.s.explained_ctas")


def test_procedures_show_recover_and_vacuum(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.s.dead (x INT, ds STRING) USING csv PARTITIONED BY (ds)")
    crash_at("reserve.after", lambda: insert(lake.catalog, "ds=a", table="s.dead"))
    (under_way,) = lake.sql("CALL lake.system.status(table => 's.dead')").collect()
    assert (under_way.kind, under_way.table, under_way.state) == ("transaction", "s.dead", "reserved (live)")
    assert abs((datetime.now() - under_way.since).total_seconds()) < 3600 * 24
    assert lake.rows("SELECT * FROM lake.s.dead") == []
    (recovered,) = lake.sql("CALL lake.system.recover(older_than => '0s')").collect()
    assert (recovered.transaction, recovered.action, recovered.error) == (under_way.id, "finished", None)
    assert lake.rows("SELECT ds FROM lake.s.dead") == [("a",)]
    frame = lake.frame([(1, "a")], "x int, ds string")
    frame.writeTo("lake.s.dead").option("overwrite-mode", "relocate").overwritePartitions()
    assert lake.rows("SELECT x, ds FROM lake.s.dead") == [(1, "a")]
    (kept,) = lake.sql("CALL lake.system.vacuum(table => 's.dead')").collect()
    assert (kept.action, Path(kept.path).name) == ("kept", "ds=a")
    removed = lake.sql(
        "CALL lake.system.vacuum(table => 's.dead', retention => '0s', allow_short_retention => true)"
    ).collect()
    assert [Path(row.path).parent.name for row in removed if row.action == "delete"] == ["ds=a"]
    assert lake.rows("SELECT x, ds FROM lake.s.dead") == [(1, "a")]
    assert lake.sql("CALL lake.system.status(table => 's.dead')").collect() == []


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_decimal_keys_have_plain_names_by_every_way_of_writing(lake: Lake, ansi: str) -> None:
    name = f"decimals_{ansi}"
    lake.sql(f"SET spark.sql.ansi.enabled = {ansi}")
    try:
        lake.sql(f"CREATE TABLE lake.s.{name} (id INT, k DECIMAL(12, 8)) USING parquet PARTITIONED BY (k)")
        for statement in (
            "INSERT INTO {t} VALUES (1, 0), (1, 0.0000001BD)",
            "INSERT INTO {t} PARTITION (k = 0) VALUES (2)",
            "INSERT INTO {t} PARTITION (k = 0.0000001) VALUES (2)",
            "INSERT OVERWRITE {t} PARTITION (k = 0E-8) SELECT 3",
            "INSERT OVERWRITE {t} PARTITION (k = 1E-7) SELECT 3",
            "ALTER TABLE {t} ADD IF NOT EXISTS PARTITION (k = 0E-8) PARTITION (k = 1E-7)",
            "ALTER TABLE {t} ADD IF NOT EXISTS PARTITION (k = CAST(0 AS DECIMAL(12, 8)))",
        ):
            lake.sql(statement.format(t=f"lake.s.{name}"))
        lake.frame([(4, "0.00000000"), (4, "0.00000010")], "id INT, k STRING").selectExpr(
            "id", "CAST(k AS DECIMAL(12, 8)) AS k"
        ).writeTo(f"lake.s.{name}").append()
        assert lake.partitions(f"s.{name}") == ["k=0.00000000", "k=0.00000010"]
        table = f"lake.s.{name}"
        assert lake.rows(f"SELECT id FROM {table} WHERE k = 0 ORDER BY id") == [(3,), (4,)]
        assert lake.rows(f"SELECT id FROM {table} WHERE k IN (1E-7BD, 5) ORDER BY id") == [(3,), (4,)]
        lake.sql(f"ALTER TABLE {table} DROP PARTITION (k = 0E-8)", f"DELETE FROM {table} WHERE k = 1E-7BD")
        assert lake.partitions(f"s.{name}") == []
        assert {path.name for path in lake.location(name).iterdir() if "=" in path.name} <= {
            "k=0.00000000", "k=0.00000010",
        }  # fmt: skip
    finally:
        lake.spark.conf.unset("spark.sql.ansi.enabled")


def test_char_keys_compare_as_char_without_read_side_padding(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.s.padded (id INT, k CHAR(5), v VARCHAR(5)) USING parquet PARTITIONED BY (k, v)")
    lake.sql("INSERT INTO lake.s.padded VALUES (1, 'ab', 'ab'), (2, 'abcde', 'x'), (3, NULL, NULL)")
    queries = {
        "SELECT id FROM lake.s.padded WHERE k = 'ab'": [(1,)],
        "SELECT id FROM lake.s.padded WHERE k IN ('ab', 'abcde') ORDER BY id": [(1,), (2,)],
        "SELECT id FROM lake.s.padded WHERE k <> 'ab'": [(2,)],
        "SELECT id FROM lake.s.padded WHERE k < 'abc'": [(1,)],
        "SELECT a.id FROM lake.s.padded a JOIN lake.s.padded b ON a.k = b.k AND b.k = 'ab'": [(1,)],
        "SELECT length(k) FROM lake.s.padded WHERE id = 1": [(5,)],
        "SELECT length(v) FROM lake.s.padded WHERE id = 1": [(2,)],
        "SELECT id FROM lake.s.padded WHERE k IS NULL": [(3,)],
    }
    for padding in ("true", "false"):
        lake.sql(f"SET spark.sql.readSideCharPadding = {padding}")
        try:
            for query, expected in queries.items():
                assert lake.rows(query) == expected, (padding, query)
        finally:
            lake.spark.conf.unset("spark.sql.readSideCharPadding")


def test_a_key_that_is_no_text_is_refused(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.s.bytes (id INT, k STRING) USING parquet PARTITIONED BY (k)")
    with pytest.raises(PySparkException, match="no UTF-8"):
        lake.sql("INSERT INTO lake.s.bytes SELECT 1, CAST(X'61ff' AS STRING)")
    lake.sql("INSERT INTO lake.s.bytes VALUES (1, 'a\ufffd')")
    assert lake.rows("SELECT id FROM lake.s.bytes WHERE k = CAST(X'61ff' AS STRING)") == []
    assert lake.rows("SELECT id FROM lake.s.bytes WHERE k <> CAST(X'61ff' AS STRING)") == [(1,)]


def test_partition_statements_use_the_sessions_locks(lake: Lake) -> None:
    """There is no metastore to ask for them, and each statement says so."""
    table = create(lake, "locked", "id INT, k INT", "k")
    other = create(lake, "locked_other", "id INT, k INT", "k")
    lake.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
    loaded, place = lake.folder / "loaded.parquet", lake.folder / "elsewhere"
    lake.spark.range(1).selectExpr("CAST(id AS INT) AS id").coalesce(1).write.parquet(str(lake.folder / "made"))
    next((lake.folder / "made").glob("*.parquet")).rename(loaded)
    place.mkdir()
    key = "spark.sql.catalog.lake.hive-locks"
    lake.spark.conf.set(key, "strict")
    try:
        for statement in (
            f"INSERT INTO {table} VALUES (3, 3)",
            f"DELETE FROM {table} WHERE k = 1",
            f"TRUNCATE TABLE {table} PARTITION (k = 1)",
            f"ALTER TABLE {table} ADD PARTITION (k = 3)",
            f"ALTER TABLE {table} DROP PARTITION (k = 1)",
            f"ALTER TABLE {table} PARTITION (k = 1) RENAME TO PARTITION (k = 3)",
            f"ALTER TABLE {table} PARTITION (k = 1) SET LOCATION '{place}'",
            f"ALTER TABLE {other} EXCHANGE PARTITION (k = 1) WITH TABLE {table}",
            f"LOAD DATA LOCAL INPATH '{loaded}' INTO TABLE {table} PARTITION (k = 1)",
            f"MSCK REPAIR TABLE {table}",
            f"DROP TABLE {table}",
            f"DROP TABLE {table} PURGE",
            "CALL lake.system.repair_partitions(table => 's.locked')",
        ):
            assert "has no metastore to ask for locks" in str(lake.error(statement)), statement
        with pytest.raises(InvalidConfigurationError, match="has no metastore to ask for locks"):
            catalog_ext.repair_partitions("lake.s.locked")
    finally:
        lake.spark.conf.unset(key)
    assert lake.rows(f"SELECT id, k FROM {table} ORDER BY id") == [(1, 1), (2, 2)]


def test_a_write_that_was_planned_for_another_format_is_a_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.sql("CREATE TABLE lake.s.replanned (id INT, v STRING) USING csv OPTIONS (sep '|')")
    begin = Writes.begin

    def begin_later(self: Writes, *given: Any, **more: Any) -> object:
        monkeypatch.setattr(Writes, "begin", begin)
        identifier = lake.catalog.load_table("s.replanned").identifier
        lake.catalog.index.alterations.alter(identifier, lambda d: replace(d, options={"sep": ","}), deliver=False)
        return begin(self, *given, **more)

    monkeypatch.setattr(Writes, "begin", begin_later)
    error = lake.error("INSERT INTO lake.s.replanned VALUES (1, 'a')")
    assert error.getCondition() == "CATALOG_EXT_CONFLICT"
    assert "s.replanned has changed since this statement was planned" in str(error)
    lake.sql("INSERT INTO lake.s.replanned VALUES (1, 'a')")
    assert lake.rows("SELECT * FROM lake.s.replanned") == [(1, "a")]
