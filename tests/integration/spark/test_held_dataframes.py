"""DataFrames that are held while their table goes on: what they show, and what may be written from them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.functions import col, lit

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.spark.session import CATALOG_CLASS
from tests.integration.lake import local_lake
from tests.servers.recorded_service import serve_recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from catalog_ext.catalog import Catalog
    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def shared(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with local_lake(driver, tmp_path_factory.mktemp("held")) as lake:
        yield lake


@pytest.fixture
def lake(shared: Lake) -> Iterator[Lake]:
    shared.sql("CREATE TABLE lake.w.t (id INT, k INT) PARTITIONED BY (k)", "INSERT INTO lake.w.t VALUES (1, 1), (2, 2)")
    yield shared
    shared.spark.catalog.clearCache()
    shared.sql("DROP TABLE lake.w.t", "DROP TABLE IF EXISTS lake.w.u")


@pytest.fixture
def df(lake: Lake) -> DataFrame:
    """The table as a DataFrame, which has been executed once."""
    held = lake.spark.table("lake.w.t")
    assert held.count() == 2
    return held


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


def test_an_append_and_an_overwrite_are_seen(lake: Lake, df: DataFrame) -> None:
    lake.sql("INSERT INTO lake.w.t VALUES (3, 1)")
    assert (df.count(), ids(df.select("id"))) == (3, [1, 2, 3])
    lake.sql("INSERT OVERWRITE lake.w.t PARTITION (k = 1) VALUES (4)")
    assert (df.count(), ids(df.where("k = 1"))) == (2, [4])
    assert ids(df.join(df.select("k"), "k")) == [2, 4]


def test_columns_that_were_added_do_not_disturb_it(lake: Lake, df: DataFrame) -> None:
    lake.sql("ALTER TABLE lake.w.t ADD COLUMNS (note STRING)")
    lake.sql("INSERT INTO lake.w.t (id, note, k) VALUES (3, 'x', 3)")
    assert (df.columns, df.count()) == (["id", "k"], 3)


def test_a_table_of_the_same_name_is_not_the_same_table(lake: Lake, df: DataFrame) -> None:
    lake.sql("DROP TABLE lake.w.t")
    lake.sql("CREATE TABLE lake.w.t (id INT, k INT) PARTITIONED BY (k)")
    with pytest.raises(PySparkException) as refused:
        df.count()
    assert refused.value.getCondition() == "INCOMPATIBLE_TABLE_CHANGE_AFTER_ANALYSIS.TABLE_ID_MISMATCH"


def test_what_is_written_from_it_has_the_appends_since(lake: Lake, df: DataFrame) -> None:
    lake.sql("INSERT INTO lake.w.t VALUES (3, 1)")
    df.withColumn("id", col("id") + lit(10)).writeTo("lake.w.t").overwritePartitions()
    assert lake.rows("SELECT id, k FROM lake.w.t ORDER BY id") == [(11, 1), (12, 2), (13, 1)]


def cached_again(frame: DataFrame) -> DataFrame:
    again = frame.where("k = 1").cache()
    assert ids(again) == [1]
    return again


@pytest.mark.parametrize(
    "write",
    [
        lambda df: df.writeTo("lake.w.t").overwritePartitions(),
        lambda df: df.where("k = 1").writeTo("lake.w.t").overwrite(col("k") == 1),
        lambda df: df.createOrReplaceTempView("held") or df.sparkSession.sql(
            "INSERT OVERWRITE lake.w.t PARTITION (k = 1) SELECT id FROM held WHERE k = 1"),
        lambda df: df.createOrReplaceTempView("held") or df.sparkSession.sql(
            "INSERT OVERWRITE lake.w.t PARTITION (k = 1) SELECT 1 WHERE EXISTS (SELECT 1 FROM held WHERE id = 1)"),
        lambda df: cached_again(df).writeTo("lake.w.t").overwritePartitions(),
    ],
    ids=["dynamic", "by a condition", "SQL", "in a subquery", "a cache of a cache"],
)  # fmt: skip
def test_an_append_that_a_cached_one_does_not_have_is_a_conflict(lake: Lake, write: object) -> None:
    cached = lake.spark.table("lake.w.t").cache()
    assert ids(cached) == [1, 2]
    _commit_behind_the_cache(lake.catalog)
    assert ids(cached) == [1, 2], "that is what a cache is for"
    before = lake.catalog.load_table("w.t").version
    with pytest.raises(PySparkException) as refused:
        write(cached)  # type: ignore[operator]
    assert refused.value.getCondition() == "CATALOG_EXT_CONFLICT"
    assert lake.catalog.load_table("w.t").version == before
    cached.unpersist()


EMPTY = "lake.w.t WHERE k = 1 AND id > 5"


@pytest.mark.parametrize("broadcast", ["-1", "10485760"])
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT id FROM VALUES (3), (5) AS d(id) ANTI JOIN (SELECT id FROM {EMPTY}) USING (id)",
        f"SELECT id FROM VALUES (3), (5) AS d(id) WHERE id NOT IN (SELECT id FROM {EMPTY})",
        "SELECT d.id FROM VALUES (3), (5) AS d(id) "
        f"LEFT JOIN (SELECT DISTINCT id AS o FROM {EMPTY}) ON id = o WHERE o IS NULL",
        f"SELECT id FROM (SELECT id, count(*) FROM {EMPTY} GROUP BY id) UNION ALL SELECT 7",
        "SELECT id FROM lake.w.t JOIN (SELECT id AS o FROM lake.w.t WHERE id > 5) ON id = o WHERE k = 1",
    ],
)
def test_a_scan_that_spark_took_out_of_a_cached_plan_was_read(lake: Lake, query: str, broadcast: str) -> None:
    # Spark goes on with the version that it has cached a table of, whatever reads that table.
    table = lake.spark.table("lake.w.t").cache()
    assert ids(table) == [1, 2]
    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", broadcast)
    try:
        cached = lake.spark.sql(query).cache()
        cached.collect()
    finally:
        lake.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    _commit_behind_the_cache(lake.catalog)
    version = lake.catalog.load_table("w.t").version
    cached.createOrReplaceTempView("held")
    with pytest.raises(PySparkException) as refused:
        lake.spark.sql("INSERT OVERWRITE lake.w.t PARTITION (k = 1) SELECT id FROM held")
    assert refused.value.getCondition() == "CATALOG_EXT_CONFLICT"
    assert lake.catalog.load_table("w.t").version == version
    cached.unpersist()


@pytest.mark.parametrize(
    "query", ["SELECT max(k) AS id, 1 AS k FROM lake.w.t", "SELECT DISTINCT 7 AS id, k FROM lake.w.t"]
)
def test_what_the_index_answered_and_a_cache_kept_has_its_version(lake: Lake, query: str) -> None:
    answered = lake.spark.sql(query).cache()
    before = answered.collect()
    # Spark goes on with the version that it has cached a table of, whatever reads that table.
    table = lake.spark.table("lake.w.t").cache()
    assert ids(table) == [1, 2]
    _commit_behind_the_cache(lake.catalog)
    assert lake.spark.sql(query).collect() == before, "that is what a cache is for"
    version = lake.catalog.load_table("w.t").version
    answered.createOrReplaceTempView("held")
    with pytest.raises(PySparkException) as refused:
        lake.spark.sql("INSERT OVERWRITE lake.w.t PARTITION (k = 1) SELECT id FROM held")
    assert refused.value.getCondition() == "CATALOG_EXT_CONFLICT"
    assert lake.catalog.load_table("w.t").version == version


@pytest.mark.parametrize("statement", ["REPLACE TABLE", "CREATE OR REPLACE TABLE"])
def test_append_after_the_read_of_a_self_replacement_is_a_conflict(lake: Lake, statement: str) -> None:
    query = f"{statement} lake.w.t PARTITIONED BY (k) AS SELECT id + 1 AS id, k FROM lake.w.t"
    before = lake.catalog.load_table("w.t")
    with (
        armed("check.before", lambda _: _commit_behind_the_cache(lake.catalog)),
        pytest.raises(PySparkException) as refused,
    ):
        lake.sql(query)
    assert refused.value.getCondition() == "CATALOG_EXT_CONFLICT"
    after = lake.catalog.load_table("w.t")
    assert (after.table_id, after.version) == (before.table_id, before.version + 1), "the append is still there"


def _commit_behind_the_cache(catalog: Catalog) -> None:
    """Another driver's append to k=1: Spark has the caches of its own sessions read again after a write."""
    from tests.kit.writes import insert

    insert(catalog, "k=1", table="w.t")


def test_query_whose_files_were_replaced_reports_a_newer_version(lake: Lake, df: DataFrame) -> None:
    planned = df.select("id")
    assert ids(planned) == [1, 2]
    version = lake.catalog.load_table("w.t").version
    lake.sql("INSERT OVERWRITE lake.w.t PARTITION (k = 1) VALUES (4)")
    with pytest.raises(PySparkException) as gone:
        planned.collect()
    message = str(gone.value)
    assert f"belongs to version {version} of the table, and is no longer on the store" in message
    assert "it has moved on: run the query again, which reads the newest one" in message
    assert ids(df.select("id")) == [2, 4]


def test_deleted_file_is_repaired_as_the_error_says(lake: Lake, df: DataFrame) -> None:
    shutil.rmtree(lake.location("t") / "k=1")
    with pytest.raises(PySparkException) as gone:
        df.select("id").collect()
    assert gone.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
    lake.sql("CALL lake.system.repair_partitions(table => 'w.t', mode => 'sync')")
    assert ids(df.select("id")) == [2]


def test_statements_that_read_their_target_cause_no_conflict(lake: Lake) -> None:
    lake.sql("INSERT OVERWRITE lake.w.t SELECT id + 1, k FROM lake.w.t")
    lake.sql("INSERT INTO lake.w.t SELECT id + 10, k FROM lake.w.t")
    lake.sql("CREATE TABLE lake.w.u PARTITIONED BY (k) AS SELECT * FROM lake.w.t")
    lake.sql("CREATE OR REPLACE TABLE lake.w.u PARTITIONED BY (k) AS SELECT id + 100 AS id, k FROM lake.w.u")
    assert lake.rows("SELECT id, k FROM lake.w.u ORDER BY id") == [(102, 1), (103, 2), (112, 1), (113, 2)]


def test_tables_of_another_index_say_nothing_of_a_base_version(lake: Lake, tmp_path: Path) -> None:
    read = lake.catalog.load_table("w.t")
    with serve_recorded(tmp_path) as other:
        prefix = "spark.sql.catalog.other"
        for key, value in {"": CATALOG_CLASS, ".uri": other.uri, ".token": other.token}.items():
            lake.spark.conf.set(prefix + key, value)
        other.catalog.create_namespace("w")
        for number in range(1, read.table_id):
            (tmp_path / f"x{number}").mkdir()
            other.catalog.register_table(
                f"sales.x{number}",
                location=str(tmp_path / f"x{number}"),
                schema="id INT",
                partition_columns={"k": "int"},
            )
        lake.sql("CREATE TABLE other.w.t (id INT, k INT) PARTITIONED BY (k)", "INSERT INTO other.w.t VALUES (7, 1)")
        assert other.catalog.load_table("w.t").table_id == read.table_id
        lake.sql(*[f"INSERT INTO other.w.t VALUES ({i}, 1)" for i in range(2)])
        lake.sql("INSERT OVERWRITE other.w.t SELECT * FROM lake.w.t")
        assert lake.rows("SELECT id, k FROM other.w.t ORDER BY id") == [(1, 1), (2, 2)]
        lake.sql("CREATE OR REPLACE TABLE other.w.t PARTITIONED BY (k) AS SELECT id + 1 AS id, k FROM lake.w.t")
        assert lake.rows("SELECT id, k FROM other.w.t ORDER BY id") == [(2, 1), (3, 2)]


def test_a_write_whose_tasks_cannot_be_started_is_undone(lake: Lake) -> None:
    frame = lake.spark.createDataFrame([(5, 1)], "id INT, k INT")
    with pytest.raises((PySparkException, Py4JJavaError)):
        frame.writeTo("lake.w.t").option("compression", "no such codec").append()
    states = {state for (state,) in lake.rows("SELECT state FROM lake.w.t.transactions")}
    assert "open" not in states, states
