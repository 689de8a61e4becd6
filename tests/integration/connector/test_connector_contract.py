"""The connector and the service, with a recorder between: what is asked, how often, and what comes out."""

from __future__ import annotations

import datetime
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.errors import (
    CommitStateUnknownError,
    ConflictError,
    IndexUnavailableError,
    ServiceError,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.runtime.processes import this_host
from catalog_ext.metastore.transactions.steps.run import state_unknown
from catalog_ext.service.server import Service
from tests.integration.lake import rows
from tests.integration.scans import files_read
from tests.integration.waiting import until
from tests.kit.service_client import END_MARKER
from tests.servers.recorder import (
    Recorder,
    changing,
    hanging_up,
    in_small_batches,
    late,
    losing,
    proxy_saying,
    refusing,
    saying,
    unpruned,
    with_signs_of_life,
    without_end,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.metastore.model.tables import Table
    from tests.kit.service_client import Answer
    from tests.servers.recorded_service import RecordedService
    from tests.servers.recorder import Reply

pytestmark = pytest.mark.spark

TRIPS = {"id": "bigint", "fare": "decimal(10,2)"}
KEYS = {"ds": "date", "region": "string"}


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory, spark_with_connector: SparkSession) -> Path:
    """60 rows in ten days and two regions, one of which needs escaping."""
    path = tmp_path_factory.mktemp("trips") / "data"
    spark_with_connector.range(60).selectExpr(
        "id",
        "cast(id as decimal(10,2)) fare",
        "date_add(date'2025-01-01', cast(id % 10 as int)) ds",
        "if(id % 2 = 0, 'eu:west', 'us') region",
    ).repartition(1).write.partitionBy("ds", "region").parquet(str(path))
    return path


@pytest.fixture(scope="module")
def tables(trips: Path, recorded_service: RecordedService) -> None:
    # One test's counts would spare another one's requests.
    unlearned = {"statistics.learn": "false"}
    recorded_service.add_table("trips", trips, TRIPS, KEYS, properties=unlearned)
    shutil.copytree(trips, trips.with_name("declared"))
    recorded_service.add_table(
        "declared", trips.with_name("declared"), TRIPS, KEYS, mode="declared", properties=unlearned
    )


@pytest.fixture
def service(tables: None, recorded_service: RecordedService) -> RecordedService:
    """The service, with the tables and nothing counted."""
    recorded_service.reset()
    return recorded_service


@pytest.fixture
def spark(spark_with_connector: SparkSession) -> Iterator[SparkSession]:
    yield spark_with_connector
    for key in (
        "use_hive_partitioning", "spark.sql.caseSensitive", "spark.sql.catalog.lake.missing-files",
        "spark.sql.files.maxPartitionBytes",
    ):  # fmt: skip
        spark_with_connector.conf.unset(key)
    spark_with_connector.conf.set("spark.sql.session.timeZone", "UTC")


def refused(spark: SparkSession, sql: str, kind: type[AnalysisException] = AnalysisException) -> str:
    """The condition of the error that the statement ends with."""
    with pytest.raises(kind) as caught:
        spark.sql(sql).collect()
    condition = caught.value.getCondition()
    assert f"[{condition}]" in str(caught.value)
    return str(condition)


class TestVirtualColumns:
    def test_star_leaves_them_out_and_naming_them_works(self, spark: SparkSession, service: RecordedService) -> None:
        assert spark.table("lake.sales.trips").columns == ["id", "fare"]
        assert rows(spark, "SELECT *, ds, t.region FROM lake.sales.trips t WHERE ds = '2025-01-03' AND id < 5") == [
            (2, Decimal("2.00"), datetime.date(2025, 1, 3), "eu:west")
        ]

    def test_declared_ones_follow_the_data_columns(self, spark: SparkSession, service: RecordedService) -> None:
        assert spark.table("lake.sales.declared").columns == ["id", "fare", "ds", "region"]
        assert rows(spark, "SELECT * FROM lake.sales.declared WHERE id = 1") == [
            (1, Decimal("1.00"), datetime.date(2025, 1, 2), "us")
        ]

    def test_group_join_and_order_by_a_virtual_column(self, spark: SparkSession, service: RecordedService) -> None:
        assert rows(spark, "SELECT region, count(*) FROM lake.sales.trips GROUP BY region ORDER BY region DESC") == [
            ("us", 30),
            ("eu:west", 30),
        ]
        joined = "SELECT count(*) FROM lake.sales.trips a JOIN lake.sales.declared b ON a.id = b.id AND a.ds = b.ds"
        assert rows(spark, joined) == [(60,)]

    @pytest.mark.parametrize("value", ["0", "false"])
    def test_a_session_can_switch_them_off(self, spark: SparkSession, service: RecordedService, value: str) -> None:
        spark.sql(f"SET use_hive_partitioning = {value}")
        assert refused(spark, "SELECT ds FROM lake.sales.trips") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert rows(spark, "SELECT count(ds) FROM lake.sales.declared") == [(60,)]
        spark.sql("SET use_hive_partitioning = true")
        assert rows(spark, "SELECT count(ds) FROM lake.sales.trips") == [(60,)]

    def test_a_wrong_value_of_the_switch_is_named(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("SET use_hive_partitioning = maybe")
        assert refused(spark, "SELECT 1 FROM lake.sales.trips") == "CATALOG_EXT_INVALID_CONFIGURATION"

    def test_a_data_column_of_the_same_name_wins(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql("SELECT 'inside' AS Region, 7 AS id").write.parquet(str(tmp_path / "t" / "region=outside"))
        service.add_table("clash", tmp_path / "t", {"Region": "string", "id": "int"}, {"region": "string"})
        assert rows(spark, "SELECT *, region FROM lake.sales.clash WHERE region = 'inside'") == [
            ("inside", 7, "inside")
        ]
        assert rows(spark, "SELECT * FROM lake.sales.clash WHERE region = 'outside'") == []
        service.add_table("clash", tmp_path / "t", {"id": "int"}, {"region": "string"})
        assert rows(spark, "SELECT *, region FROM lake.sales.clash") == [(7, "outside")]

    def test_names_resolve_by_sparks_case_sensitivity(self, spark: SparkSession, service: RecordedService) -> None:
        assert rows(spark, "SELECT count(DS) FROM lake.sales.trips WHERE Ds = '2025-01-01'") == [(6,)]
        spark.conf.set("spark.sql.caseSensitive", "true")
        assert refused(spark, "SELECT DS FROM lake.sales.trips").startswith("UNRESOLVED_COLUMN")


class TestPlanning:
    def test_a_load_before_and_after_analysis_and_one_plan_a_table_reference(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        rows(spark, "SELECT count(*) FROM lake.sales.trips WHERE ds > '2025-01-04' AND upper(region) = 'US'")
        # The index is asked for the count, but the files are not counted; then for the files, to count them.
        assert service.requests == {"tables/load": 2, "partitions/groups": 1, "tables/plan": 1}

    def test_settings_over_those_of_the_table_are_one_request_more(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        query = "SELECT sum(id) FROM lake.sales.trips WITH ('hive.mapred.mode' = 'nonstrict', 'other' = 'secret')"
        for _ in range(2):
            rows(spark, query)
        assert service.requests == {"tables/load": 4, "settings/resolve": 1, "tables/plan": 2}
        asked = next(body for name, body in service.bodies if name == "settings/resolve")
        assert (asked["options"], asked["session"]) == ({"hive.mapred.mode": "nonstrict"}, {})
        assert asked["other_options"] == ["other"]

    def test_a_misspelt_option_is_refused_and_those_of_formats_pass(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        read = "SELECT sum(id) FROM lake.sales.trips WITH ('%s' = 'false')"
        assert refused(spark, read % "file-skiping") == "CATALOG_EXT_INVALID_CONFIGURATION"
        rows(spark, read % "mergeSchema")
        written = spark.sql("SELECT * FROM lake.sales.declared").limit(1)
        with pytest.raises(AnalysisException, match="Did you mean 'txn-version'"):
            written.writeTo("lake.sales.declared").option("txnVersion", "7").append()

    def test_references_of_one_table_see_one_version(self, spark: SparkSession, service: RecordedService) -> None:
        rows(
            spark,
            "SELECT (SELECT max(ds) FROM lake.sales.trips), count(*) FROM lake.sales.trips WHERE ds = '2025-01-02'",
        )
        plans = [body for name, body in service.bodies if name == "tables/plan"]
        assert {body["version"] for body in plans} == {service.table("trips").version}
        # The files are not counted: the index is asked for the answers, too, and has none.
        assert service.requests == {"tables/load": 2, "partitions/groups": 2, "tables/plan": 2}
        assert {body["version"] for name, body in service.bodies if name != "tables/load"} == {plans[0]["version"]}

    def test_references_that_read_the_same_ask_once_and_hold_it_together(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        day = "(SELECT id FROM lake.sales.trips WHERE ds = '2025-01-02' AND region = 'us')"
        assert rows(spark, f"SELECT count(*) FROM {day} a JOIN {day} b ON a.id = b.id") == [(6,)]
        assert service.requests["tables/plan"] == 1
        service.reset()
        rows(spark, "SELECT sum(id) FROM lake.sales.trips UNION ALL SELECT max(id) FROM lake.sales.trips")
        assert service.requests["tables/plan"] == 1

    def test_each_part_of_a_large_file_is_read_once(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        for compression in ("none", "gzip"):
            numbers = spark.range(3000).coalesce(1).write.option("compression", compression)
            numbers.csv(str(tmp_path / "t" / f"kind={compression}"))
        service.add_table("parts", tmp_path / "t", {"id": "bigint"}, {"kind": "string"}, file_format="csv")
        service.reset()
        found = (
            "SELECT kind, count(*), sum(id), count(DISTINCT id), count(DISTINCT _metadata.file_block_start) > 1 "
            "FROM lake.sales.parts GROUP BY kind ORDER BY kind"
        )
        spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
        frame = spark.sql(found)
        expected = [("gzip", 3000, 4498500, 3000, False), ("none", 3000, 4498500, 3000, True)]
        # A plan that is run again reads the same; so does one with what was cached gone.
        for _ in range(2):
            assert [tuple(row) for row in frame.collect()] == expected
        held = spark.table("lake.sales.parts").cache()
        assert [held.count(), held.unpersist().count()] == [6000, 6000]

    def test_the_version_is_that_of_the_execution(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.range(2).write.parquet(str(tmp_path / "t" / "k=1"))
        version = service.add_table("newer", tmp_path / "t", {"id": "bigint"}, {"k": "int"}).version
        frame = spark.table("lake.sales.newer")
        spark.range(3).write.parquet(str(tmp_path / "t" / "k=2"))
        service.catalog.repair_partitions("sales.newer")
        assert frame.count() == 5
        assert service.last("tables/plan")["version"] == service.table("newer").version > version

    def test_the_files_of_a_partition_may_come_in_several_batches(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.range(20).selectExpr("id", "cast(id >= 4 AS INT) k").repartition(5, "id").write.partitionBy("k").parquet(
            str(tmp_path / "t")
        )
        table = service.add_table("batches", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        assert table.totals.files > 5
        with service.answering(in_small_batches, "tables/plan"):
            assert rows(spark, "SELECT k, count(*) FROM lake.sales.batches GROUP BY k ORDER BY k") == [(0, 4), (1, 16)]

    def test_filters_are_evaluated_exactly_whatever_the_service_returns(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        query = "SELECT count(*), min(id) FROM lake.sales.trips WHERE ds BETWEEN '2025-01-03' AND '2025-01-04' AND {}"
        with service.answering(unpruned, "tables/plan"):
            assert rows(spark, query.format("region IN ('us', 'x')")) == [(6, 3)]
            assert rows(spark, query.format("length(region) = 2")) == [(6, 3)]
            assert rows(spark, query.format("region = 'us' OR id = 2")) == [(7, 2)]

    def test_a_filter_by_a_python_function(self, spark: SparkSession, service: RecordedService) -> None:
        from pyspark.sql.functions import udf

        is_us = udf(lambda region: region == "us", "boolean")
        frame = spark.table("lake.sales.trips")
        assert frame.where(is_us(frame["region"]) & (frame["id"] < 10)).count() == 5

    @pytest.mark.parametrize(
        ("condition", "predicate"),
        [
            ("ds = '2025-01-02'", {"op": "=", "column": "ds", "value": "2025-01-02"}),
            ("'2025-01-02' < ds", {"op": ">", "column": "ds", "value": "2025-01-02"}),
            ("ds <=> NULL", {"op": "is_null", "column": "ds"}),
            ("region IN ('us', 'eu')", {"op": "in", "column": "region", "values": ["us", "eu"]}),
            ("region LIKE 'eu%'", {"op": "starts_with", "column": "region", "value": "eu"}),
            ("region LIKE '%st'", {"op": "ends_with", "column": "region", "value": "st"}),
            ("region LIKE '%u%'", {"op": "contains", "column": "region", "value": "u"}),
            (
                "NOT (region = 'us')",
                {"op": "not", "arg": {"op": "=", "column": "region", "value": "us"}},
            ),
            (
                "region = 'us' OR ds > '2025-01-08'",
                {
                    "op": "or",
                    "args": [
                        {"op": "=", "column": "region", "value": "us"},
                        {"op": ">", "column": "ds", "value": "2025-01-08"},
                    ],
                },
            ),
            # Only the part of an AND that has a translation is sent, and nothing of an OR.
            ("region LIKE 'e_:%t'", {"op": "like", "column": "region", "value": "e_:%t"}),
            ("region = 'us' AND year(ds) = 2025", {"op": "=", "column": "region", "value": "us"}),
            ("region = 'us' OR year(ds) = 2024", None),
            ("try_cast(region AS INT) = 1", None),
            # JSON has no text of bytes that are none.
            ("region = CAST(X'ff' AS STRING)", None),
            ("region <> CAST(X'ff' AS STRING) AND region = 'us'", {"op": "=", "column": "region", "value": "us"}),
        ],
    )
    def test_what_is_sent_of_a_filter(
        self, spark: SparkSession, service: RecordedService, condition: str, predicate: dict[str, Any] | None
    ) -> None:
        rows(spark, f"SELECT id FROM lake.sales.trips WHERE {condition}")
        assert without_not_null(service.last("tables/plan")["predicate"]) == predicate

    def test_a_long_or_stays_flat(self, spark: SparkSession, service: RecordedService) -> None:
        condition = " OR ".join(f"(ds = date'2025-01-01' + {i} AND region = 'us')" for i in range(300))
        rows(spark, f"SELECT id FROM lake.sales.trips WHERE {condition}")
        assert depth(service.last("tables/plan")["predicate"]) < 10

    def test_a_joins_filter_is_part_of_the_only_request(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        days = spark.range(10).selectExpr("date_add(date'2025-01-01', cast(id AS INT)) AS day", "id AS n")
        days.write.parquet(str(tmp_path / "days"))
        spark.read.parquet(str(tmp_path / "days")).createOrReplaceTempView("days")
        query = (
            "SELECT /*+ BROADCAST(days) */ count(*) FROM lake.sales.trips t JOIN days ON t.ds = days.day "
            "WHERE days.n IN (4, 7)"
        )
        assert rows(spark, query) == [(12,)]
        assert service.requests == {"tables/load": 2, "tables/plan": 1}
        predicate = without_not_null(service.last("tables/plan")["predicate"])
        assert predicate is not None
        assert (predicate["op"], predicate["column"]) == ("in", "ds")
        assert sorted(predicate["values"]) == ["2025-01-05", "2025-01-08"]
        service.reset()
        assert rows(spark, query + " AND t.region = 'us'") == [(6,)]
        assert service.requests == {"tables/load": 2, "tables/plan": 1}

    @pytest.mark.parametrize("adaptive", ["true", "false"])
    def test_a_subquery_of_a_key_prunes_before_planning(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, adaptive: str
    ) -> None:
        spark.sql("SELECT date'2025-01-04' AS day").write.parquet(str(tmp_path / "days"))
        spark.read.parquet(str(tmp_path / "days")).createOrReplaceTempView("days")
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        try:
            assert rows(spark, "SELECT count(*) FROM lake.sales.trips WHERE ds = (SELECT max(day) FROM days)") == [(6,)]
        finally:
            spark.conf.unset("spark.sql.adaptive.enabled")
        assert service.requests == {"tables/load": 2, "tables/plan": 1}
        assert without_not_null(service.last("tables/plan")["predicate"]) == {
            "op": "=",
            "column": "ds",
            "value": "2025-01-04",
        }

    @pytest.mark.parametrize(
        ("condition", "files", "values", "ids"),
        [
            ("year(ds) = 2025 AND day(ds) = 3", 1, {"ds": 1}, None),
            ("date_format(ds, 'MM-dd') IN ('01-03', '01-04')", 2, {"ds": 2}, None),
            ("region RLIKE '^u' AND day(ds) < 5", 2, {"ds": 4, "region": 1}, None),
            ("substr(region, 1, 2) = 'us' AND ds < '2025-01-03'", 1, {"region": 1}, None),
            ("concat(region, ds) = 'us2025-01-04'", 1, {}, 1),
            ("concat(region, ds) <> 'us2025-01-04'", 9, {}, None),
            ("year(ds) = 2025", 10, {}, None),
            ("year(ds) = 2024", 0, {"ds": 0}, None),
        ],
    )
    def test_only_the_files_of_partitions_that_hold_are_fetched(
        self,
        spark: SparkSession,
        service: RecordedService,
        condition: str,
        files: int,
        values: dict[str, int],
        ids: int | None,
    ) -> None:
        frame = spark.sql(f"SELECT sum(id) FROM lake.sales.trips WHERE {condition}")
        frame.collect()
        assert files_read(frame) == files
        assert service.requests["tables/plan"] == 1
        among = service.last("tables/plan")["among"] or {"values": [], "partition_ids": None}
        assert {each["key"]: len(each["partitions"]) for each in among["values"]} == values
        assert (None if among["partition_ids"] is None else len(among["partition_ids"])) == ids

    @pytest.mark.parametrize(
        ("join", "files"),
        [
            ("WHERE t.ds >= (SELECT max(day) FROM days) AND t.id >= 0", 7),
            ("WHERE t.ds > (SELECT max(day) FROM days) - INTERVAL 1 DAY", 7),
            ("WHERE t.ds BETWEEN (SELECT min(day) FROM days) AND (SELECT max(day) FROM days)", 1),
            ("WHERE date_format(t.ds, 'yyyy-MM-dd') = (SELECT max(text) FROM days)", 1),
            ("JOIN days ON cast(t.ds AS STRING) = days.text WHERE days.n = 1", 1),
            ("JOIN days ON day(t.ds) = days.n + 3 WHERE days.n = 1", 1),
        ],
    )
    def test_values_of_joins_and_subqueries_prune_partitions(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, join: str, files: int
    ) -> None:
        spark.sql("SELECT date'2025-01-04' AS day, '2025-01-04' AS text, 1 AS n").write.parquet(str(tmp_path / "days"))
        spark.read.parquet(str(tmp_path / "days")).createOrReplaceTempView("days")
        frame = spark.sql(f"SELECT /*+ BROADCAST(days) */ count(t.id) FROM lake.sales.trips t {join}")
        assert frame.collect()[0][0] == 6 * files
        assert files_read(frame) == files

    def test_a_subquery_that_fails_on_a_partition_keeps_it(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        for text in ("2024", "2025", "none"):
            spark.sql("SELECT 1L AS id").write.parquet(str(tmp_path / "t" / f"year={text}"))
        service.add_table("years", tmp_path / "t", {"id": "bigint"}, {"year": "string"})
        spark.sql("SELECT 2025 AS y").write.parquet(str(tmp_path / "y"))
        spark.read.parquet(str(tmp_path / "y")).createOrReplaceTempView("y")
        condition = "year RLIKE '^[0-9]+$' AND cast(year AS INT) = (SELECT max(y) FROM y)"
        assert rows(spark, f"SELECT year FROM lake.sales.years WHERE {condition}") == [("2025",)]
        frame = spark.sql("SELECT id FROM lake.sales.years WHERE try_cast(year AS INT) = (SELECT max(y) FROM y)")
        assert len(frame.collect()) == files_read(frame) == 1

    def test_a_joins_filter_concerns_its_own_side_only(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql("SELECT date'2025-01-04' AS day, 1 AS n").write.parquet(str(tmp_path / "days"))
        spark.read.parquet(str(tmp_path / "days")).createOrReplaceTempView("days")
        query = (
            "SELECT /*+ BROADCAST(days) */ count(DISTINCT a.id), count(DISTINCT b.ds) FROM lake.sales.trips a "
            "JOIN days ON a.ds = days.day AND days.n = 1 JOIN lake.sales.trips b ON a.region = b.region"
        )
        assert rows(spark, query) == [(6, 5)]
        assert service.requests["tables/plan"] == 2

    def test_statistics_need_no_listing_without_a_filter(self, spark: SparkSession, service: RecordedService) -> None:
        plan = spark.table("lake.sales.trips")._jdf.queryExecution().optimizedPlan()
        total = service.table("trips").totals.bytes
        assert 0 < int(plan.stats().sizeInBytes()) < 2 * total
        assert "tables/plan" not in service.requests
        filtered = spark.table("lake.sales.trips").where("ds = '2025-01-01'")._jdf.queryExecution().optimizedPlan()
        assert int(filtered.stats().sizeInBytes()) < int(plan.stats().sizeInBytes()) / 2


class TestReuse:
    def test_an_equal_query_uses_what_is_cached(self, spark: SparkSession, service: RecordedService) -> None:
        frame = spark.table("lake.sales.trips").cache()
        frame.count()
        service.reset()
        assert spark.table("lake.sales.trips").where("id > 1").count() == 58
        assert "tables/plan" not in service.requests
        frame.unpersist()

    def test_equal_exchanges_run_once(self, spark: SparkSession, service: RecordedService) -> None:
        frame = spark.sql(
            "WITH x AS (SELECT region, count(*) c FROM lake.sales.trips WHERE ds > '2025-01-03' GROUP BY region) "
            "SELECT * FROM x a JOIN x b ON a.region = b.region"
        )
        assert len(frame.collect()) == 2
        assert "ReusedExchange" in frame._jdf.queryExecution().executedPlan().toString()

    @pytest.mark.parametrize(
        "repair",
        [
            "MSCK REPAIR TABLE lake.sales.grows SYNC PARTITIONS",
            "CALL lake.system.repair_partitions(table => 'sales.grows', mode => 'sync')",
        ],
    )
    def test_a_repair_refreshes_a_cached_table(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, repair: str
    ) -> None:
        spark.range(1).write.parquet(str(tmp_path / "t" / "k=1"))
        service.add_table("grows", tmp_path / "t", {"id": "bigint"}, {"k": "int"}, mode="declared")
        spark.sql("CACHE TABLE lake.sales.grows")
        spark.range(1).write.parquet(str(tmp_path / "t" / "k=2"))
        assert rows(spark, "SELECT count(*) FROM lake.sales.grows") == [(1,)]
        rows(spark, repair)
        assert rows(spark, "SELECT count(*) FROM lake.sales.grows") == [(2,)]
        spark.sql("UNCACHE TABLE lake.sales.grows")


class TestFailures:
    def test_an_answer_without_its_end_is_refused(self, spark: SparkSession, service: RecordedService) -> None:
        for condition, count in (("ds > '2025-01-04'", 36), ("ds > '2026-01-01'", 0)):
            query = f"SELECT count(id) FROM lake.sales.trips WHERE {condition}"
            with service.answering(without_end, "tables/plan"):
                assert refused(spark, query, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"
            assert rows(spark, query) == [(count,)]
            assert service.last_answer("tables/plan").body.endswith(END_MARKER)

    @pytest.mark.parametrize(
        "reply", [hanging_up, without_end, refusing(IndexUnavailableError("busy")), proxy_saying(502)],
        ids=["cut", "broken off", "retryable", "proxy"],
    )  # fmt: skip
    def test_what_only_reads_is_asked_again(self, spark: SparkSession, service: RecordedService, reply: Reply) -> None:
        query = "SELECT count(*) FROM lake.sales.trips WHERE ds > '2025-01-04'"
        with service.answering(losing(reply), "tables/plan"):
            assert rows(spark, query) == [(36,)]
        assert service.requests["tables/plan"] == 2
        with service.answering(losing(reply if reply is not without_end else hanging_up), "tables/load"):
            assert rows(spark, query) == [(36,)]

    def test_an_answer_that_cannot_be_read_is_not_asked_again(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        query = "SELECT count(*) FROM lake.sales.trips WHERE ds > '2025-01-04'"
        assert rows(spark, query) == [(36,)]
        for operation, body in (("tables/plan", b"\xff\xff\xff\xff\x08\0\0\0garbage!"), ("tables/load", b"{")):
            service.reset()
            with service.answering(saying(body), operation):
                assert refused(spark, query, SparkRuntimeException) == "CATALOG_EXT_SERVICE_ANSWER"
            assert service.requests[operation] == 1

    def test_who_waits_for_rows_asks_for_signs_of_life(self, spark: SparkSession, service: RecordedService) -> None:
        spark.conf.set("spark.sql.catalog.rows", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.rows.uri", service.uri)
        spark.conf.set("spark.sql.catalog.rows.token", service.token)
        spark.conf.set("spark.sql.catalog.rows.request-timeout", "1500ms")
        query = "SELECT count(*) FROM rows.sales.trips WHERE ds > '2025-01-04'"
        with service.answering(with_signs_of_life(30), "tables/plan"):
            assert rows(spark, query) == [(36,)]
        asked = {operation for operation, header in service.waits if header is not None}
        assert asked == {"tables/plan", "partitions/groups"}

    def test_what_may_have_acted_is_not_asked_again(self, spark: SparkSession, service: RecordedService) -> None:
        statement = "ALTER TABLE lake.sales.declared ADD PARTITION (ds = '2030-01-01', region = 'x')"
        with service.answering(losing(hanging_up), "partitions/add"):
            assert refused(spark, statement, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"
        assert service.requests["partitions/add"] == 1
        spark.sql("ALTER TABLE lake.sales.declared DROP PARTITION (ds = '2030-01-01')")

    def test_a_long_call_may_take_long_and_a_silent_one_ends(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        # A slow host has time for the patient one between two blanks, and none may be in time for the hasty one.
        for name, timeout in (("patient", "6s"), ("hasty", "1500ms")):
            spark.conf.set(f"spark.sql.catalog.{name}", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
            spark.conf.set(f"spark.sql.catalog.{name}.uri", service.uri)
            spark.conf.set(f"spark.sql.catalog.{name}.token", service.token)
            spark.conf.set(f"spark.sql.catalog.{name}.request-timeout", timeout)
        call = "CALL {}.system.repair_partitions(table => 'sales.trips', dry_run => true)"
        patient, hasty = call.format("patient"), call.format("hasty")
        assert rows(spark, patient) == []
        with service.answering(late(4), "procedures/call"):
            assert refused(spark, hasty, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"
        with service.answering(with_signs_of_life(90), "procedures/call"):
            assert rows(spark, patient) == []
        conflict = with_signs_of_life(1, refusing(ConflictError("another was first")))
        with service.answering(conflict, "procedures/call"):
            assert refused(spark, patient) == "CATALOG_EXT_CONFLICT"
        with service.answering(with_signs_of_life(1, silent_for=4), "procedures/call"):
            assert refused(spark, hasty, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"

    def test_what_waits_for_a_store_or_the_metastore_has_no_time_limit(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        """DROP TABLE deletes every file of a managed table, and ALTER may wait for Hive's locks."""
        spark.conf.set("spark.sql.catalog.unhurried", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.unhurried.uri", service.uri)
        spark.conf.set("spark.sql.catalog.unhurried.token", service.token)
        spark.conf.set("spark.sql.catalog.unhurried.request-timeout", "5s")
        spark.sql("CREATE NAMESPACE unhurried.made")
        spark.sql("ALTER NAMESPACE unhurried.made SET PROPERTIES (k = 'v')")
        location = (tmp_path / "slow").as_uri()
        spark.sql(f"CREATE TABLE unhurried.made.t (id BIGINT, ds DATE) PARTITIONED BY (ds) LOCATION '{location}'")
        spark.sql("INSERT INTO unhurried.made.t VALUES (1, DATE'2025-01-01')")
        spark.sql("ANALYZE TABLE unhurried.made.t COMPUTE STATISTICS FOR ALL COLUMNS")
        spark.sql("ALTER TABLE unhurried.made.t SET TBLPROPERTIES ('k' = 'v')")
        spark.sql("ALTER TABLE unhurried.made.t SET SERDEPROPERTIES ('k' = 'v')")
        spark.sql("ALTER TABLE unhurried.made.t RENAME TO made.u")
        spark.sql("CREATE VIEW unhurried.made.v AS SELECT * FROM unhurried.made.u")
        spark.sql("ALTER VIEW unhurried.made.v RENAME TO made.w")
        spark.sql("DROP VIEW unhurried.made.w")
        with service.answering(with_signs_of_life(70), "tables/drop"):
            spark.sql("DROP TABLE unhurried.made.u")
        spark.sql("DROP NAMESPACE unhurried.made CASCADE")
        limited = {operation for operation, header in service.waits if header is None}
        assert not limited & {
            "namespaces/create", "namespaces/alter", "namespaces/drop", "tables/create", "tables/alter",
            "tables/set_serde", "tables/rename", "tables/drop", "statistics/put", "views/put", "views/rename",
            "views/drop", "writes/begin", "writes/commit",
        }  # fmt: skip
        assert {"tables/drop", "tables/set_serde", "namespaces/drop", "views/rename", "statistics/put"} <= set(
            service.requests
        )

    def test_unknown_names_are_sparks_own_errors(self, spark: SparkSession, service: RecordedService) -> None:
        assert refused(spark, "SELECT * FROM lake.sales.nothing") == "TABLE_OR_VIEW_NOT_FOUND"
        assert refused(spark, "SELECT * FROM lake.nowhere.trips") == "TABLE_OR_VIEW_NOT_FOUND"
        assert refused(spark, "SELECT * FROM lake.a.b.c") == "TABLE_OR_VIEW_NOT_FOUND"
        assert refused(spark, "SELECT nothing FROM lake.sales.trips").startswith("UNRESOLVED_COLUMN")
        assert refused(spark, "SELECT * FROM lake.sales.`a/b`") == "TABLE_OR_VIEW_NOT_FOUND"

    def test_a_wrong_token_is_said(self, spark: SparkSession, service: RecordedService) -> None:
        spark.conf.set("spark.sql.catalog.unauthorized", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.unauthorized.uri", service.uri)
        spark.conf.set("spark.sql.catalog.unauthorized.token", "another")
        assert refused(spark, "SHOW TABLES IN unauthorized.sales", SparkRuntimeException) == "CATALOG_EXT_UNAUTHORIZED"

    def test_a_service_that_is_gone_is_said(self, spark: SparkSession, service: RecordedService) -> None:
        spark.conf.set("spark.sql.catalog.gone", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.gone.uri", "http://127.0.0.1:9")
        spark.conf.set("spark.sql.catalog.gone.token", "x")
        with pytest.raises(
            SparkRuntimeException, match=r"The catalog-ext service at http://127\.0\.0\.1:9 does not answer"
        ):
            spark.sql("SELECT * FROM gone.sales.trips")

    def test_addresses_of_version_6_stand_in_brackets_and_between_commas(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        try:
            standing = Service(service.catalog, host="::1")
        except ServiceError:
            # A kernel without version 6: that a list with brackets is taken is seen by who answers of it.
            standing = Service(service.catalog)
        with standing:
            for name, value in {"uri": f"http://[::1]:9, {standing.uri}/", "token": standing.token}.items():
                spark.conf.set(f"spark.sql.catalog.sixth.{name}", value)
            spark.conf.set("spark.sql.catalog.sixth", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
            assert ("sales", "trips", False) in rows(spark, "SHOW TABLES IN sixth.sales")

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("uri", None),
            ("uri", "ftp://x"),
            ("uri", "http://::1:8765"),
            ("token-file", "/nowhere"),
            ("request-timeout", "soon"),
        ],
    )
    def test_a_wrong_option_is_named(
        self,
        spark: SparkSession,
        service: RecordedService,
        option: str,
        value: str | None,
        request: pytest.FixtureRequest,
    ) -> None:
        catalog = f"wrong{abs(hash(request.node.name))}"
        settings = {"uri": service.uri, "request-timeout": "5s", option: value}
        if option != "token-file":
            settings["token"] = service.token
        spark.conf.set(f"spark.sql.catalog.{catalog}", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        for key, setting in settings.items():
            if setting is not None:
                spark.conf.set(f"spark.sql.catalog.{catalog}.{key}", setting)
        with pytest.raises(AnalysisException, match=f"spark.sql.catalog.{catalog}.{option} ") as caught:
            spark.sql(f"SHOW TABLES IN {catalog}.sales")
        assert caught.value.getCondition() == "CATALOG_EXT_INVALID_CONFIGURATION"

    def test_the_token_may_lie_in_a_file(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        (tmp_path / "token").write_text(f"{service.token}\n")
        spark.conf.set("spark.sql.catalog.filed", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.filed.uri", f"{service.uri}/")
        spark.conf.set("spark.sql.catalog.filed.token-file", str(tmp_path / "token"))
        assert ("sales", "trips", False) in rows(spark, "SHOW TABLES IN filed.sales")

    def test_idle_connections_are_closed_before_a_proxy_closes_them(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        """Java's own time is 20 minutes before Java 21; it has no other place for it, and reads it once."""
        spark.sql("SHOW TABLES IN lake.sales")
        jvm: Any = spark._jvm
        assert jvm.java.lang.System.getProperty("jdk.httpclient.keepalive.timeout") == "30"

    def test_a_slow_answer_ends_at_the_timeout(self, spark: SparkSession, service: RecordedService) -> None:
        spark.conf.set("spark.sql.catalog.slow", "org.apache.spark.sql.catalogext.CatalogExtCatalog")
        spark.conf.set("spark.sql.catalog.slow.uri", service.uri)
        spark.conf.set("spark.sql.catalog.slow.token", service.token)
        spark.conf.set("spark.sql.catalog.slow.request-timeout", "300ms")
        with (
            service.answering(late(1), "tables/load"),
            pytest.raises(SparkRuntimeException, match="did not answer 'tables/load'"),
        ):
            spark.sql("SELECT * FROM slow.sales.trips")


class TestWrites:
    @pytest.fixture
    def written(self, service: RecordedService, tmp_path: Path) -> Table:
        (tmp_path / "written").mkdir()
        return service.add_table("written", tmp_path / "written", {"id": "bigint"}, {"ds": "date"}, mode="declared")

    def test_what_a_write_asks_for(self, spark: SparkSession, service: RecordedService, written: Table) -> None:
        spark.sql("INSERT INTO lake.sales.written VALUES (1, DATE'2025-01-01'), (2, DATE'2025-01-02')")
        calls = [name for name, _ in service.bodies if name.startswith("writes/")]
        assert calls == ["writes/begin", "writes/commit"], "what is small comes with the commit"
        begin = service.last("writes/begin")
        assert set(begin) == {
            "transaction", "table_id", "version", "kind", "operation", "owner", "predicate", "app_id", "app_version",
            "options", "session", "definition", "clauses", "clause_session", "planned",
        }  # fmt: skip
        assert begin["planned"] == {"format": "parquet", "options": {}}
        assert (begin["table_id"], begin["version"], begin["kind"]) == (written.table_id, written.version, "append")
        assert (begin["operation"], begin["definition"], begin["predicate"]) == ("INSERT", None, None)
        assert begin["owner"].rpartition("@")[2].rpartition(":")[0] == this_host()
        assert not {"uri", "token", "token-file", "request-timeout"} & set(begin["session"])
        transaction = service.last_answer("writes/begin").json["transaction"]
        commit = service.last("writes/commit")
        staged = {f["partition"]: f for f in commit.pop("files")}
        assert set(staged) == {"ds=2025-01-01", "ds=2025-01-02"}
        for file in staged.values():
            assert transaction in file["name"]
            assert (file["rows"], file["upload"]) == (1, None)
            assert file["statistics"]["id"]["nulls"] == 0
        assert commit == {
            "transaction": transaction, "staged": 0, "keep": None, "watermark_ms": None, "final": False, "again": False,
        }  # fmt: skip
        service.reset()
        spark.sql("INSERT OVERWRITE lake.sales.written VALUES (3, DATE'2025-01-02')")
        assert service.last("writes/begin")["kind"] == "overwrite_partitions"
        assert rows(spark, "SELECT id FROM lake.sales.written ORDER BY id") == [(1,), (3,)]

    def test_many_files_are_sent_before_the_commit_and_the_last_with_it(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        (tmp_path / "written").mkdir()
        # Of 1,001 files: each takes a fraction of the time that Parquet takes.
        kept = {"columns": {"id": "bigint"}, "keys": {"ds": "date"}, "mode": "declared"}
        service.add_table("written", tmp_path / "written", file_format="csv", **kept)
        many = "SELECT id, date_add(DATE'2000-01-01', CAST(id AS INT)) FROM range(0, 1001, 1, 1)"
        spark.sql(f"INSERT INTO lake.sales.written {many}")
        assert [name for name, _ in service.bodies if name.startswith("writes/")] == [
            "writes/begin", "writes/stage", "writes/commit",
        ]  # fmt: skip
        staged, commit = service.last("writes/stage"), service.last("writes/commit")
        assert [(len(sent["files"]), sent["staged"]) for sent in (staged, commit)] == [(1000, 0), (1, 1000)]
        assert rows(spark, "SELECT count(*), count(DISTINCT ds) FROM lake.sales.written") == [(1001, 1001)]

    def test_locations_are_asked_for_together(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("catalog_ext.metastore.transactions.begin.LOCATIONS_IN_PLAN", 2)
        (tmp_path / "located").mkdir()
        keys = {"k": "int"}
        table = service.add_table("located", tmp_path / "located", {"id": "bigint"}, keys, mode="declared")
        places = {k: tmp_path / "away" / str(k) for k in range(16) if k != 3}
        for place in places.values():
            place.mkdir(parents=True)
        added = [AddPartition(f"k={k}", (), location=f"file://{place}") for k, place in places.items()]
        service.catalog.index.commits.apply_changes(table.table_id, added, operation="x", deliver=False)
        with service.answering(late(0.3), "writes/locations"):
            spark.range(32).repartition(8).selectExpr("id", "cast(id % 16 as int) k").writeTo(
                "lake.sales.located"
            ).append()
        asked = [body["partitions"] for name, body in service.bodies if name == "writes/locations"]
        assert sorted(name for names in asked for name in names) == sorted(f"k={k}" for k in range(16))
        assert rows(spark, "SELECT count(*), sum(id) FROM lake.sales.located") == [(32, sum(range(32)))]
        assert all(list(place.glob("*.parquet")) for place in places.values())
        assert list((tmp_path / "located" / "k=3").glob("*.parquet"))

    def test_a_begin_that_is_asked_again_begins_one_transaction(
        self, spark: SparkSession, service: RecordedService, written: Table
    ) -> None:
        with service.answering(losing(hanging_up), "writes/begin"):
            spark.sql("INSERT INTO lake.sales.written VALUES (5, DATE'2025-01-05')")
        asked = [body["transaction"] for name, body in service.bodies if name == "writes/begin"]
        assert len(asked) == 2
        assert len({*asked, service.last("writes/commit")["transaction"]}) == 1
        assert rows(spark, "SELECT id FROM lake.sales.written") == [(5,)]

    def test_a_proxy_that_refuses_a_commit_ends_it_at_once(
        self, spark: SparkSession, service: RecordedService, written: Table
    ) -> None:
        insert = "INSERT INTO lake.sales.written VALUES (8, DATE'2025-01-08')"
        with service.answering(proxy_saying(403), "writes/commit"):
            assert refused(spark, insert, SparkRuntimeException) == "CATALOG_EXT_COMMIT_STATE_UNKNOWN"
        assert (service.requests["writes/commit"], service.requests["writes/abort"]) == (1, 0)

    @pytest.mark.parametrize(
        "reply",
        [refusing(CommitStateUnknownError("not known yet")), hanging_up, proxy_saying(502)],
        ids=["unknown", "cut", "proxy"],
    )
    def test_an_answer_that_is_lost_is_asked_for_again_and_never_aborted(
        self, spark: SparkSession, service: RecordedService, written: Table, reply: Reply
    ) -> None:
        with service.answering(losing(reply), "writes/commit"):
            spark.sql("INSERT INTO lake.sales.written VALUES (7, DATE'2025-01-07')")
        assert service.requests["writes/commit"] == 2
        assert service.requests["writes/abort"] == 0
        assert rows(spark, "SELECT id FROM lake.sales.written") == [(7,)]

    @pytest.mark.parametrize("reply", [hanging_up, proxy_saying(502)], ids=["cut", "proxy"])
    def test_copies_stay_while_the_service_may_still_load_them(
        self, spark: SparkSession, service: RecordedService, written: Table, tmp_path: Path, reply: Reply
    ) -> None:
        """The answer to LOAD DATA LOCAL is lost after the reservation, before the service moves the copies."""
        spark.range(9, 10).coalesce(1).write.parquet(str(tmp_path / "in"))
        load = f"LOAD DATA LOCAL INPATH '{tmp_path}/in' INTO TABLE lake.sales.written PARTITION (ds = '2025-01-09')"
        reserved, ended = Event(), Event()
        loading: list[Future[Answer]] = []

        def pause(_: str) -> None:
            reserved.set()
            assert ended.wait(60)

        def begun(body: dict[str, Any], ask: Callable[[dict[str, Any]], Answer]) -> Answer:
            loading.append(pool.submit(ask, body))
            assert reserved.wait(60)
            return reply(body, ask)

        with ThreadPoolExecutor(1) as pool, armed("promote.before", pause):
            try:
                with service.answering(begun, "writes/load"):
                    assert refused(spark, load, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"
            finally:
                ended.set()
            assert loading[0].result(60).status == 200
        assert rows(spark, "SELECT id FROM lake.sales.written") == [(9,)]
        service.catalog.vacuum("sales.written", retention=0, allow_short_retention=True)
        assert not [p for p in (tmp_path / "written" / "_catalog_ext_staging").rglob("*") if p.is_file()]

    def test_copies_are_deleted_when_the_service_refuses_them(
        self, spark: SparkSession, service: RecordedService, written: Table, tmp_path: Path
    ) -> None:
        spark.range(9, 10).coalesce(1).write.parquet(str(tmp_path / "in"))
        load = f"LOAD DATA LOCAL INPATH '{tmp_path}/in' INTO TABLE lake.sales.written PARTITION (ds = '2025-01-09')"
        with service.answering(refusing(ConflictError("another writer was first")), "writes/load"):
            assert refused(spark, load) == "CATALOG_EXT_CONFLICT"
        assert not [p for p in (tmp_path / "written").rglob("*") if p.is_file()]

    def test_what_asking_again_does_not_change_ends_at_once(
        self, spark: SparkSession, service: RecordedService, written: Table
    ) -> None:
        settled = state_unknown("f" * 32, "sales.written", "the store refuses the file", ask_again=False)
        statement = "INSERT INTO lake.sales.written VALUES (1, DATE'2025-01-01')"
        with service.answering(refusing(settled), "writes/commit"), pytest.raises(SparkRuntimeException) as caught:
            spark.sql(statement)
        assert caught.value.getCondition() == "CATALOG_EXT_COMMIT_STATE_UNKNOWN"
        assert "the store refuses the file" in str(caught.value)
        assert (service.requests["writes/commit"], service.requests["writes/abort"]) == (1, 0)

    def test_a_job_that_fails_aborts_and_one_that_is_refused_does_not(
        self, spark: SparkSession, service: RecordedService, written: Table
    ) -> None:
        with pytest.raises(SparkRuntimeException):
            spark.sql("INSERT INTO lake.sales.written SELECT raise_error('no'), DATE'2025-01-01'").collect()
        assert (service.requests["writes/commit"], service.requests["writes/abort"]) == (0, 1)
        assert service.last("writes/abort")["reason"]
        service.reset()
        statement = "INSERT INTO lake.sales.written VALUES (1, DATE'2025-01-01')"
        with service.answering(refusing(ConflictError("another writer was first")), "writes/commit"):
            assert refused(spark, statement) == "CATALOG_EXT_CONFLICT"
        assert (service.requests["writes/commit"], service.requests["writes/abort"]) == (1, 0)

    def test_replace_that_cannot_send_its_commit_ends_its_transaction(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        """Heartbeats would keep it alive until the driver ends, and recovery would never undo it."""
        with Service(service.catalog) as standing, Recorder(standing) as recorder:
            prefix = "spark.sql.catalog.leaving"
            for name, value in {"uri": recorder.uri, "token": recorder.token, "retry-timeout": "1s"}.items():
                spark.conf.set(f"{prefix}.{name}", value)
            spark.conf.set(prefix, "org.apache.spark.sql.catalogext.CatalogExtCatalog")
            spark.sql("CREATE TABLE leaving.sales.replaced (id INT) USING parquet")
            replace = "REPLACE TABLE leaving.sales.replaced (id BIGINT) USING parquet"
            with recorder.answering(recorder.leaving, "writes/begin"):
                assert refused(spark, replace, SparkRuntimeException) == "CATALOG_EXT_SERVICE_UNAVAILABLE"
            assert recorder.requests["writes/commit"] == 0, "the commit was never sent"
            heartbeat = f"catalog-ext-heartbeat-{recorder.last_answer('writes/begin').json['transaction']}"
        jvm: Any = spark._jvm
        until(lambda: heartbeat not in {t.getName() for t in jvm.Thread.getAllStackTraces().keySet()}, "the heartbeat")
        service.catalog.drop_table("sales.replaced")

    def test_a_batch_that_is_committed_already_writes_nothing(
        self, spark: SparkSession, service: RecordedService, written: Table
    ) -> None:
        frame = spark.sql("SELECT 1L id, DATE'2025-01-01' ds")
        for _ in range(2):
            service.reset()
            frame.writeTo("lake.sales.written").option("txn-app-id", "a").option("txn-version", "3").append()
        begin = service.last("writes/begin")
        assert (begin["app_id"], begin["app_version"]) == ("a", 3)
        assert [name for name in service.requests if name.startswith("writes/")] == ["writes/begin"]
        assert rows(spark, "SELECT id FROM lake.sales.written") == [(1,)]

    def test_an_owner_gives_signs_of_life(self, spark: SparkSession, service: RecordedService, written: Table) -> None:
        slow = "SELECT id, DATE'2025-01-01' FROM range(3) WHERE reflect('java.lang.Thread', 'sleep', 100L) IS NULL"
        with service.answering(changing(lease_ms=60), "writes/begin"):
            spark.sql(f"INSERT INTO lake.sales.written {slow}")
        beats = [body for name, body in service.bodies if name == "writes/heartbeat"]
        assert beats
        begun = service.last_answer("writes/begin").json["transaction"]
        assert {body["transaction"] for body in beats} == {begun}


def without_not_null(predicate: dict[str, Any] | None) -> dict[str, Any] | None:
    """The predicate without the IS NOT NULL that Spark adds to comparisons."""
    if predicate is None or predicate["op"] == "is_not_null":
        return None
    if predicate["op"] != "and":
        return predicate
    rest = [arg for arg in predicate["args"] if arg["op"] != "is_not_null"]
    return None if not rest else rest[0] if len(rest) == 1 else {"op": "and", "args": rest}


def depth(predicate: dict[str, Any]) -> int:
    return 1 + max((depth(arg) for arg in predicate.get("args", [])), default=0)
