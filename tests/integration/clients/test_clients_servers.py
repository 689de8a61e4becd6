"""The Thrift server and the Spark Connect server, two drivers that share one standing service, and their clients."""

from __future__ import annotations

import re
import secrets
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from impala.dbapi import connect
from impala.error import OperationalError
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as F
from pyspark.sql.connect.session import SparkSession

from catalog_ext.connector.build import connector_jar
from catalog_ext.spark.session import SESSION_CATALOG, SESSION_CATALOG_CLASS
from tests.integration.client_servers import connect_server, thrift_server
from tests.integration.standing_service import conf_folder, program, run
from tests.integration.waiting import until
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from impala.hiveserver2 import HiveServer2Cursor

    from tests.integration.client_servers import SparkServer
    from tests.integration.standing_service import StandingService

pytestmark = pytest.mark.spark

_FOREVER = "SELECT id, ds FROM lake.s.days CROSS JOIN (SELECT count(*) FROM range(100000000000) WHERE hash(id) = 0)"


@pytest.fixture(scope="module")
def servers(
    standing_service: StandingService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[SparkServer, SparkServer]]:
    session = f"spark.sql.catalog.{SESSION_CATALOG}"
    both = {
        session: SESSION_CATALOG_CLASS,
        f"{session}.uri": standing_service.uri,
        f"{session}.token-file": str(standing_service.token_file),
        f"{session}.retry-timeout": "2s",
        "spark.sql.catalog.lake.retry-timeout": "2s",
        "spark.driver.extraClassPath": str(connector_jar()),
    }
    conf, folder = conf_folder(standing_service, both), tmp_path_factory.mktemp("servers")
    # Both start at once.
    thrift, connected = thrift_server(conf, folder), connect_server(conf, folder)
    try:
        thrift.wait()
        connected.wait()
        yield thrift, connected
    finally:
        thrift.stop()
        connected.stop()


@contextmanager
def thrift_session(server: SparkServer) -> Iterator[HiveServer2Cursor]:
    connection = connect(host="127.0.0.1", port=server.port, auth_mechanism="PLAIN", user="ada", password="unused")
    # Each cursor of impyla's is a session.
    with connection.cursor() as cursor:
        yield cursor
    connection.close()


@pytest.fixture
def thrift(servers: tuple[SparkServer, SparkServer], tables: None) -> Iterator[HiveServer2Cursor]:
    """A session of the Thrift server."""
    with thrift_session(servers[0]) as cursor:
        yield cursor


@pytest.fixture(scope="module")
def spark(servers: tuple[SparkServer, SparkServer]) -> Iterator[SparkSession]:
    """A session of the Spark Connect server."""
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{servers[1].port}").create()
    yield session
    session.stop()


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lake.s")
    spark.sql(
        "CREATE TABLE lake.s.days (id BIGINT, ds STRING) PARTITIONED BY (ds) "
        "TBLPROPERTIES ('partition-columns' = 'virtual')"
    )
    spark.sql("INSERT INTO lake.s.days VALUES (1, 'a'), (2, 'b')")


def rows(cursor: HiveServer2Cursor, sql: str) -> list[tuple[Any, ...]]:
    cursor.execute(sql)
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return found


def test_statements_through_hiveserver2s_protocol(thrift: HiveServer2Cursor) -> None:
    thrift.execute("CREATE TABLE lake.s.sold (id BIGINT, ds DATE) PARTITIONED BY (ds)")
    thrift.execute("INSERT INTO lake.s.sold VALUES (1, DATE '2025-01-01'), (2, DATE '2025-01-02')")
    assert rows(thrift, "SELECT ds, sum(id) FROM lake.s.sold WHERE ds > '2025-01-01' GROUP BY ds") == [
        (date(2025, 1, 2), 2)
    ]
    assert [row[0] for row in rows(thrift, "SHOW PARTITIONS lake.s.sold")] == ["ds=2025-01-01", "ds=2025-01-02"]
    thrift.execute("MSCK REPAIR TABLE lake.s.sold")
    thrift.execute("CALL lake.system.repair_partitions(table => 's.sold', dry_run => true)")
    assert [column[:2] for column in thrift.description][:3] == [
        ("action", "STRING"), ("partition", "STRING"), ("path", "STRING"),
    ]  # fmt: skip
    assert thrift.fetchall() == []
    thrift.execute("DROP TABLE lake.s.sold")


def test_sessions_of_the_thrift_server_are_apart(
    servers: tuple[SparkServer, SparkServer], thrift: HiveServer2Cursor
) -> None:
    with thrift_session(servers[0]) as other:
        thrift.execute("USE lake.s")
        thrift.execute("SET use_hive_partitioning = 0")
        with pytest.raises(OperationalError, match=r"\[UNRESOLVED_COLUMN"):
            thrift.execute("SELECT ds FROM days")
        assert rows(other, "SELECT id, ds FROM lake.s.days WHERE ds = 'a'") == [(1, "a")]
        with pytest.raises(OperationalError, match=r"\[TABLE_OR_VIEW_NOT_FOUND\]"):
            other.execute("SELECT * FROM days")
        assert rows(thrift, "SELECT id FROM days WHERE id = 1") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("CALL lake.system.repair_partitions('s.days', 'add', 'x = 1')", "[CATALOG_EXT_INVALID_PREDICATE] 'x'"),
        ("INSERT INTO lake.s.days PARTITION (nope = 1) VALUES (1)", "[NON_PARTITION_COLUMN]"),
        ("SELEC 1", "[PARSE_SYNTAX_ERROR]"),
    ],
)  # fmt: skip
def test_errors_of_the_thrift_server(thrift: HiveServer2Cursor, sql: str, words: str) -> None:
    with pytest.raises(OperationalError) as caught:
        thrift.execute(sql)
    assert words in str(caught.value).partition("\n\tat ")[0]
    assert rows(thrift, "SELECT 1") == [(1,)]


def test_a_cancelled_statement_ends_and_writes_nothing(
    servers: tuple[SparkServer, SparkServer], thrift: HiveServer2Cursor
) -> None:
    before = servers[0].jobs_started()
    thrift.execute_async(f"INSERT INTO lake.s.days {_FOREVER}")
    # A statement that runs has no job yet, and one that Spark starts while it is cancelled goes on for ever.
    until(lambda: servers[0].jobs_started() > before, "the statement's job")
    thrift.cancel_operation()
    assert rows(thrift, "SELECT id, ds FROM lake.s.days ORDER BY id") == [(1, "a"), (2, "b")]


def test_metadata_calls_answer_for_sparks_own_catalog(thrift: HiveServer2Cursor) -> None:
    thrift.get_databases()
    assert "default" in [row[0] for row in thrift.fetchall()]
    # Spark's server asks its session catalog alone: tables of lake are found by SHOW.
    thrift.get_tables(database_name="s")
    assert thrift.fetchall() == []
    assert rows(thrift, "SHOW TABLES IN lake.s") == [("s", "days", False)]
    assert rows(thrift, "SHOW COLUMNS IN lake.s.days") == [("id",), ("ds",)]


def test_sparks_own_catalog_has_the_tables_as_well(thrift: HiveServer2Cursor, spark: SparkSession) -> None:
    assert rows(thrift, "SELECT id, ds FROM s.days WHERE ds = 'b'") == [(2, "b")]
    assert rows(thrift, "SHOW TABLES IN s") == [("s", "days", False)]
    thrift.execute("CREATE TABLE plain USING parquet AS SELECT 1 AS id")
    assert rows(thrift, "SELECT p.id, ds FROM plain p JOIN s.days d ON p.id = d.id") == [(1, "a")]
    thrift.execute("DROP TABLE plain")
    assert spark.table("s.days").where("ds = 'a'").select("id").collect() == [(1,)]


def test_beeline(servers: tuple[SparkServer, SparkServer], tables: None, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "USE lake.s;\nSELECT *, ds FROM days ORDER BY id;\nSET use_hive_partitioning = 0;\nSELECT ds FROM days;\n"
        "SELECT count(*) FROM days;\n"
    )
    command = [program("bin/beeline"), "-u", f"jdbc:hive2://127.0.0.1:{servers[0].port}/default", "-n", "ada"]
    options = ["--showHeader=false", "--outputformat=tsv2", "--force=true", "-f", str(script)]
    done = run([*command, *options], None, tmp_path)
    printed = re.sub(r"\d+: jdbc:\S+> ", "", done.stdout)
    assert printed.split() == ["1", "a", "2", "b", "use_hive_partitioning", "0", "2"], done.stderr
    assert "[UNRESOLVED_COLUMN.WITH_SUGGESTION]" in done.stderr


def test_frames_and_statements_through_spark_connect(spark: SparkSession, tables: None) -> None:
    spark.range(4).select("id", (F.col("id") % 2).alias("k")).writeTo("lake.s.frames").partitionedBy("k").create()
    spark.range(1).selectExpr("10 AS id", "1L AS k").writeTo("lake.s.frames").append()
    frame = spark.table("lake.s.frames")
    assert frame.where(F.col("k") == 1).agg(F.sum("id")).collect() == [(14,)]
    spark.range(1).selectExpr("20 AS id", "1L AS k").writeTo("lake.s.frames").overwritePartitions()
    assert sorted(tuple(row) for row in frame.collect()) == [(0, 0), (2, 0), (20, 1)]
    days = spark.table("lake.s.days")
    assert days.columns == ["id"]
    for distinct in (days.dropDuplicates(), days.dropDuplicates(["id"]), days.distinct()):
        assert distinct.count() == 2
        with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
            distinct.select("id", "ds").collect()
    assert [row.ds for row in days.select("ds").orderBy("ds").collect()] == ["a", "b"]
    # Before 4.2 PySpark's client looks for what is behind the point, or in brackets, in the list of columns.
    ds, again = (days.ds, days["ds"]) if SPARK >= (4, 2) else (F.col("ds"), F.col("ds"))
    assert days.where(ds == "b").select("id", again).collect() == [(2, "b")]
    assert [row[0] for row in spark.sql("SHOW PARTITIONS lake.s.frames").collect()] == ["k=0", "k=1"]
    assert spark.sql("MSCK REPAIR TABLE lake.s.frames").collect() == []
    assert spark.sql("CALL lake.system.repair_partitions('s.frames', 'sync')").collect() == []
    assert spark.sql("SELECT id FROM lake.s.days WHERE ds = :day", {"day": "a"}).collect() == [(1,)]
    assert "frames" in [table.name for table in spark.catalog.listTables("lake.s")]
    spark.sql("DROP TABLE lake.s.frames")


def test_adhoc_paths_through_both_servers(
    standing_service: StandingService, spark: SparkSession, thrift: HiveServer2Cursor
) -> None:
    pattern = f"{standing_service.folder}/warehouse/s.db/days/ds=*/*.parquet"
    query = f"SELECT id, ds FROM lake.files('{pattern}') WHERE ds = 'b'"
    assert spark.sql(query).collect() == rows(thrift, query) == [(2, "b")]
    assert spark.table(f"lake.`{pattern}`").where("ds = 'b'").select("id").collect() == [(2,)]


@pytest.mark.requirement(
    "Flink.TemporaryTables",
    differs="Spark has no temporary tables. A temporary view can read partitioned tables and paths; "
    "it cannot be written.",
)
def test_a_temporary_view_prunes(spark: SparkSession, tables: None) -> None:
    spark.sql("CREATE TEMPORARY VIEW recent AS SELECT *, ds FROM lake.s.days WHERE ds >= 'b'")
    assert spark.sql("SELECT id FROM recent WHERE ds = 'b'").collect() == [(2,)]
    assert spark.sql("SELECT id FROM recent WHERE ds = 'a'").collect() == []


def test_errors_reach_a_connect_client_with_their_class(spark: SparkSession, tables: None) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.sql("CALL lake.system.repair_partitions(table => 's.days', mode => 'mend')").collect()
    assert type(caught.value).__name__ == "AnalysisException"
    assert caught.value.getCondition() == "CATALOG_EXT_INVALID_INPUT"
    assert caught.value.getSqlState() == "22023"
    assert "'mend' is not a repair mode" in str(caught.value)


def test_one_drivers_writes_are_the_others_next_answer(spark: SparkSession, thrift: HiveServer2Cursor) -> None:
    frame = spark.table("lake.s.days").where("ds = 'shared'")
    assert frame.count() == 0
    thrift.execute("INSERT INTO lake.s.days VALUES (7, 'shared')")
    assert frame.count() == 1, "a frame that was made before is planned anew"
    spark.sql("DELETE FROM lake.s.days WHERE ds = 'shared'")
    assert rows(thrift, "SELECT count(*) FROM lake.s.days WHERE ds = 'shared'") == [(0,)]


def test_the_history_names_the_clients(
    servers: tuple[SparkServer, SparkServer], spark: SparkSession, thrift: HiveServer2Cursor
) -> None:
    """All of them write by one service, which runs as another user."""
    thrift.execute("INSERT INTO lake.s.days VALUES (8, 'users')")
    remote = f"sc://127.0.0.1:{servers[1].port}/;user_id=grace%20h"
    session = SparkSession.builder.remote(remote).create()
    try:
        session.sql("DELETE FROM lake.s.days WHERE ds = 'users'")
        session.sql("SELECT 9 AS id, 'users' AS ds").writeTo("lake.s.days").append()
        session.sql("ALTER TABLE lake.s.days DROP PARTITION (ds = 'users')")
    finally:
        session.stop()
    newest = spark.sql("SELECT user FROM lake.s.days.history ORDER BY version DESC LIMIT 4").collect()
    assert [row.user for row in newest] == ["grace h", "grace h", "grace h", "ada"]


def test_drivers_go_on_when_the_service_comes_again_with_another_token(
    standing_service: StandingService, spark: SparkSession, thrift: HiveServer2Cursor
) -> None:
    query = "SELECT id FROM lake.s.days WHERE ds = 'a'"
    assert spark.sql(query).collect() == rows(thrift, query) == [(1,)]
    standing_service.stop()
    with pytest.raises(PySparkException, match="catalog-ext serve") as caught:
        spark.sql(query).collect()
    assert caught.value.getCondition() == "CATALOG_EXT_SERVICE_UNAVAILABLE"
    with pytest.raises(OperationalError, match=r"\[CATALOG_EXT_SERVICE_UNAVAILABLE\]"):
        thrift.execute(query)
    standing_service.token_file.write_text(secrets.token_urlsafe(32))
    standing_service.start()
    assert spark.sql(query).collect() == rows(thrift, query) == [(1,)]
