"""The main job, end to end: real S3 (SeaweedFS), a real Hive Metastore, PostgreSQL, Spark, and Hive's own engine.

The data is written by plain Spark, so that nothing of ours has a part in the layout.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

import catalog_ext
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient
from catalog_ext.metastore.index import Index
from catalog_ext.spark import session as sessions
from tests.integration.lake import Sql
from tests.integration.scans import files_read
from tests.integration.spark_driver import own_jvm, small_builder
from tests.kit.sparks import SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from catalog_ext.catalog import Catalog
    from tests.servers.databases import DatabaseServer
    from tests.servers.hive import HiveCli, HiveMetastore
    from tests.servers.stores import S3Server

ORIGINS, MONTHS, DAYS = ("EWR", "JFK", "LGA"), range(1, 5), range(1, 6)
# One to load the table by its name, one for the files of its one reference; since 4.1 Spark asks for the table again
# before it executes.
REQUESTS = 3 if SPARK >= (4, 1) else 2
PARTITIONS = len(ORIGINS) * len(MONTHS) * len(DAYS)


@dataclass(frozen=True)
class Lake(Sql):
    """The session and what stands behind it."""

    catalog: Catalog
    store: S3Server
    location: str
    metastore: HiveMetastore

    def expected(self) -> DataFrame:
        """The same table as plain Spark sees it."""
        keys = "flight INT, delay DOUBLE, origin STRING, month INT, day INT"
        return self.spark.read.schema(keys).parquet(self.location)


@pytest.fixture(scope="module")
def lake(s3_server: S3Server, hive_metastore: HiveMetastore, postgres_server: DatabaseServer) -> Iterator[Lake]:
    bucket = s3_server.make_bucket(f"main-job-{secrets.token_hex(4)}")
    storage = {
        "endpoint": s3_server.endpoint, "access_key": s3_server.access_key, "secret_key": s3_server.secret_key,
        "region": s3_server.region, "path_style": "true",
    }  # fmt: skip
    url = postgres_server.create_database()
    Index.open(url, migrate=True).close()
    builder = small_builder().enableHiveSupport().config("spark.hadoop.hive.metastore.uris", hive_metastore.uri)
    builder = catalog_ext.configure(
        builder, catalog="lake", warehouse=f"s3a://{bucket}/warehouse", index=url, storage=storage
    )
    with own_jvm(builder) as spark:
        location = f"s3a://{bucket}/flights"
        write_flights(spark, location)
        catalog = sessions.active_catalog("lake.sales.flights")
        catalog.create_namespace("sales")
        yield Lake(spark, catalog, s3_server, location, hive_metastore)
    sessions.stop("lake")
    postgres_server.drop_database(url)


def write_flights(spark: SparkSession, location: str) -> None:
    rows = [
        (100 * month + day, float(n), origin, month, day)
        for origin in ORIGINS for month in MONTHS for day in DAYS for n in range(3)
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "flight INT, delay DOUBLE, origin STRING, month INT, day INT")
    frame.repartition(1).write.partitionBy("origin", "month", "day").parquet(location)


@pytest.fixture(scope="module")
def flights(lake: Lake) -> Lake:
    """The table, registered by SQL and repaired by Python."""
    keys = "map('origin', 'STRING', 'month', 'INT', 'day', 'INT')"
    registered = lake.sql(
        "CALL lake.system.register_table(table => 'sales.flights', "
        f"location => '{lake.location}', partition_columns => {keys})"
    ).first()
    assert registered is not None
    assert (registered["columns"], registered["metastore"]) == (2, "in sync")
    report = catalog_ext.repair_partitions("lake.sales.flights")
    assert (len(report.added), len(report.skipped), report.pending_deliveries) == (PARTITIONS, 0, 0)
    # The first query of a session asks whether the index was restored.
    lake.catalog._context.counter.look_for_query()
    return lake


def test_rows_equal_those_of_plain_spark(flights: Lake) -> None:
    ours = flights.sql("SELECT *, origin, month, day FROM lake.sales.flights")
    assert ours.count() == PARTITIONS * 3
    assert ours.exceptAll(flights.expected()).isEmpty()
    assert flights.expected().exceptAll(ours).isEmpty()


def test_partition_columns_are_virtual(flights: Lake) -> None:
    table = flights.sql("SELECT * FROM lake.sales.flights")
    assert table.columns == ["flight", "delay"]
    assert flights.rows("SELECT DISTINCT origin FROM lake.sales.flights ORDER BY origin") == [(o,) for o in ORIGINS]
    assert flights.rows(
        "SELECT origin, count(*) FROM lake.sales.flights WHERE month = 2 GROUP BY origin ORDER BY 1"
    ) == [(origin, len(DAYS) * 3) for origin in ORIGINS]


def test_virtual_columns_can_be_switched_off(flights: Lake) -> None:
    flights.spark.conf.set("use_hive_partitioning", "0")
    try:
        with pytest.raises(AnalysisException) as caught:
            flights.sql("SELECT origin FROM lake.sales.flights")
        assert caught.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    finally:
        flights.spark.conf.unset("use_hive_partitioning")


@pytest.mark.parametrize(
    ("condition", "partitions"),
    [
        ("origin = 'JFK' AND month = 2 AND day = 3", 1),
        ("month BETWEEN 2 AND 3", 2 * len(ORIGINS) * len(DAYS)),
        ("origin IN ('EWR', 'LGA') AND day > 4", 2 * len(MONTHS)),
        ("origin LIKE 'J%'", len(MONTHS) * len(DAYS)),
        ("upper(origin) = 'JFK' AND day = 1", len(MONTHS)),
        ("origin IS NULL", 0),
        ("origin = 'JFK' OR month = 1", 20 + 10),
    ],
)
def test_queries_read_exactly_the_chosen_partitions(flights: Lake, condition: str, partitions: int) -> None:
    frame = flights.sql(f"SELECT flight, delay FROM lake.sales.flights WHERE {condition}")
    rows = frame.collect()
    assert files_read(frame) == partitions
    assert len(rows) == flights.expected().where(condition).count()


def test_planning_costs_one_query_and_no_listing(flights: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    call = MetastoreClient._call

    def counted(self: MetastoreClient, method: str, *arguments: Any, **named: Any) -> Any:
        calls.append(method)
        return call(self, method, *arguments, **named)

    monkeypatch.setattr(MetastoreClient, "_call", counted)
    queries, lists = flights.catalog.index.query_count, flights.store.list_requests()
    frame = flights.sql("SELECT sum(delay) FROM lake.sales.flights WHERE origin = 'JFK' AND month < 3")
    frame.collect()
    assert flights.catalog.index.query_count - queries == REQUESTS
    assert calls == []
    assert flights.store.list_requests() == lists
    flights.catalog.metastore.client().list_databases()
    assert calls == ["list_databases"], "a call would have been seen"


def test_a_join_prunes_while_it_runs(flights: Lake) -> None:
    # Spark prunes by a table that it reads, not by rows that it knows beforehand.
    rows = [(2, "hub"), (9, "hub"), (3, "other")]
    flights.spark.createDataFrame(rows, "month INT, kind STRING").write.parquet(f"{flights.location}-months")
    flights.spark.read.parquet(f"{flights.location}-months").createOrReplaceTempView("months")
    queries = flights.catalog.index.query_count
    frame = flights.sql(
        "SELECT f.flight, f.month FROM lake.sales.flights f JOIN months m ON f.month = m.month WHERE m.kind = 'hub'"
    )
    assert {row.month for row in frame.collect()} == {2}
    assert flights.catalog.index.query_count - queries == REQUESTS
    assert files_read(frame) == len(ORIGINS) * len(DAYS)


def test_what_happens_behind_the_catalogs_back(flights: Lake) -> None:
    spark, location = flights.spark, flights.location
    spark.range(4).selectExpr("CAST(id AS INT) flight", "1.0D delay").write.parquet(
        f"{location}/origin=EWR/month=1/day=31"
    )
    spark.range(1).selectExpr("CAST(id AS INT) flight", "1.0D delay").write.parquet(
        f"{location}/origin=EWR/month=1/day=first"
    )
    before = flights.catalog.load_table("sales.flights").version
    preview = flights.rows(
        "CALL lake.system.repair_partitions(table => 'sales.flights', mode => 'sync', dry_run => true)"
    )
    assert [(row[0], row[1] or row[2]) for row in preview] == [
        ("skip", "origin=EWR/month=1/day=first"), ("add", "origin=EWR/month=1/day=31"),
    ]  # fmt: skip
    assert "'first' does not fit the type INT" in str(preview[0][5])
    assert flights.catalog.load_table("sales.flights").version == before
    limited = catalog_ext.repair_partitions("lake.sales.flights", where="origin = 'LGA'")
    assert (len(limited.added), len(limited.skipped)) == (0, 0)
    flights.sql("MSCK REPAIR TABLE lake.sales.flights SYNC PARTITIONS")
    assert flights.rows("SELECT count(*) FROM lake.sales.flights WHERE day = 31") == [(4,)]
    assert flights.rows("SELECT count(*) FROM sales.flights WHERE day = 31") == [(4,)]
    flights.catalog.storage.delete_tree(f"{location}/origin=EWR/month=1/day=31")
    flights.catalog.storage.delete_tree(f"{location}/origin=EWR/month=1/day=first")
    report = catalog_ext.repair_partitions("lake.sales.flights", mode="drop")
    assert [entry.partition for entry in report.dropped] == ["origin=EWR/month=1/day=31"]
    assert flights.rows("SELECT count(*) FROM lake.sales.flights") == [(PARTITIONS * 3,)]


def test_sparks_own_hive_catalog_reads_the_same(flights: Lake) -> None:
    flights.sql("REFRESH TABLE sales.flights")
    condition = "WHERE origin = 'JFK' AND month >= 3"
    ours = flights.rows(f"SELECT flight, delay FROM lake.sales.flights {condition} ORDER BY ALL")
    theirs = flights.rows(f"SELECT flight, delay FROM spark_catalog.sales.flights {condition} ORDER BY ALL")
    assert ours == theirs
    assert len(ours) == 2 * len(DAYS) * 3


@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
def test_a_metastore_that_is_down_is_said_and_catches_up(flights: Lake) -> None:
    location = f"{flights.location}/origin=EWR"
    flights.metastore.stop()
    try:
        row = flights.sql(
            f"CALL lake.system.register_table(table => 'sales.newark', location => '{location}', "
            "partition_columns => map('month', 'INT', 'day', 'INT'))"
        ).first()
        assert row is not None
        assert "pending" in row["metastore"]
        report = catalog_ext.repair_partitions("lake.sales.newark")
        assert len(report.added) == 20
        assert report.pending_deliveries > 0
        assert report.delivery_error
        assert flights.rows("SELECT count(*) FROM lake.sales.newark") == [(60,)]
    finally:
        flights.metastore.start()
    deadline = 40
    while (delivery := flights.catalog.deliver()).pending and deadline:
        flights.spark._jvm.Thread.sleep(1000)
        deadline -= 1
    assert (delivery.pending, delivery.error) == (0, None)
    assert flights.rows("SELECT count(*) FROM spark_catalog.sales.newark") == [(60,)]


@pytest.mark.requirement(
    "RQ.HivePartitioning.TableEngines.Hive",
    statement="CALL lake.system.import_table",
    differs="A table is imported once. Afterwards queries read the index, which publishes changes to the metastore.",
)
def test_unregister_import_and_drop(flights: Lake) -> None:
    flights.rows("CALL lake.system.unregister_table(table => 'sales.flights')")
    with pytest.raises(AnalysisException) as caught:
        flights.sql("SELECT * FROM lake.sales.flights")
    assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert flights.rows("SELECT count(*) FROM spark_catalog.sales.flights") == [(PARTITIONS * 3,)]
    flights.rows("CALL lake.system.import_table(table => 'sales.flights')")
    assert flights.rows("SELECT count(*), count(DISTINCT origin) FROM lake.sales.flights WHERE month = 1") == [(45, 3)]
    report = catalog_ext.repair_partitions("lake.sales.flights")
    assert (len(report.added), len(report.changed), len(report.dropped)) == (0, 0, 0)


REPAIR = "repair_partitions(table => 'sales.flights', "
REGISTER = "register_table(table => 'sales.a', location => "


@pytest.mark.parametrize(
    ("call", "condition", "words"),
    [
        ("repair_partitions(table => 'sales.nope')", "TABLE_NOT_FOUND", "sales.nope"),
        (REPAIR + "where => 'nope = 1')", "INVALID_PREDICATE", "nope"),
        (REPAIR + "where => \"day = 'x'\")", "INVALID_VALUE", "day"),
        (REPAIR + "mode => 'mend')", "INVALID_INPUT", "mend"),
        (REGISTER + "'s3a://no-such-bucket/x')", "LOCATION_NOT_FOUND", "no-such-bucket"),
        (REGISTER + "'{location}', format => 'avroh')", "UNSUPPORTED_FORMAT", "avroh"),
        (REGISTER + "'{location}', partition_columns => map('x', 'INT'))", "TABLE_LAYOUT", "x=…"),
        (REGISTER + "'{location}/../x')", "INVALID_INPUT", ".."),
        ("register_table(table => 'sales.flights', location => '{location}')", "TABLE_ALREADY_EXISTS", "sales.flights"),
        ("register_table(table => 'nope.a', location => '{location}')", "NAMESPACE_NOT_FOUND", "nope"),
    ],
)
def test_bad_input_raises_sparks_own_exceptions(flights: Lake, call: str, condition: str, words: str) -> None:
    tables = flights.catalog.list_tables("sales")
    with pytest.raises(PySparkException) as caught:
        flights.sql("CALL lake.system." + call.replace("{location}", flights.location)).collect()
    assert isinstance(caught.value, AnalysisException)
    assert caught.value.getCondition() == f"CATALOG_EXT_{condition}"
    assert words in str(caught.value)
    assert flights.catalog.list_tables("sales") == tables


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
@pytest.mark.requirement("Flink.InHive", statement="SELECT id, name, place, part")
def test_hives_own_engine_reads_what_is_registered(
    flights: Lake, hive_cli: HiveCli, tmp_path: Path, file_format: str
) -> None:
    location = f"{tmp_path}/{file_format}"
    rows = [
        (n, f"v{n}", place, n % 2) for n, place in enumerate(["eu", None, "a b", "50%", "x=y", "über", "a/b", "q'd"])
    ]
    frame = flights.spark.createDataFrame(rows, "id BIGINT, name STRING, place STRING, part INT")
    # Spark's own choice for ORC is zstd, which Hive 2.3 cannot read.
    frame.write.partitionBy("place", "part").format(file_format).option("compression", "snappy").save(location)
    table = f"sales.places_{file_format}"
    flights.catalog.register_table(
        table, location=location, format=file_format, partition_columns={"place": "STRING", "part": "INT"}
    )
    report = flights.catalog.repair_partitions(table)
    assert (len(report.added), report.pending_deliveries) == (len(rows), 0)
    queries = [
        f"SELECT id, name, place, part FROM {table}",
        f"SELECT id FROM {table} WHERE place = 'a b'",
        f"SELECT id FROM {table} WHERE place = '__HIVE_DEFAULT_PARTITION__'",
        f"EXPLAIN DEPENDENCY SELECT id FROM {table} WHERE place = '50%'",
        f"SHOW PARTITIONS {table}",
    ]
    all_rows, chosen, null_rows, dependency, partitions = hive_cli.run(queries)
    ours = {_as_hive(row) for row in flights.rows(f"SELECT id, name, place, part FROM lake.{table}")}
    theirs = {tuple("NULL" if value == "__HIVE_DEFAULT_PARTITION__" else value for value in row) for row in all_rows}
    assert ours == theirs == {_as_hive(row) for row in rows}
    assert (chosen, null_rows) == ([("2",)], [("1",)])
    assert dependency[0][0].count("place=") == 1
    assert len(partitions) == len(rows)
    shutil.rmtree(location)


def _as_hive(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple("NULL" if value is None else str(value) for value in row)
