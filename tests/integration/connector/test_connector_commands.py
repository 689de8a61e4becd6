"""SQL commands on the connector's catalog: namespaces, tables, partitions, procedures, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from catalog_ext.procedures.registry import PROCEDURES
from catalog_ext.repair.report import NEW
from tests.integration.lake import rows
from tests.kit.sparks import SPARK
from tests.servers.recorder import PRUNED, changing, unpruned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark

NAMES = ["k=__HIVE_DEFAULT_PARTITION__/r=z", "k=01/r=a%2Fb", "k=1/r=a%2Fb", "k=2/r=x", "k=10/r=x"]


@pytest.fixture
def service(recorded_service: RecordedService, tmp_path: Path) -> Iterator[RecordedService]:
    """The service with an empty namespace ``default`` and the table ``sales.trips`` of five partitions."""
    for name in NAMES:
        (tmp_path / "t" / name).mkdir(parents=True)
        (tmp_path / "t" / name / "f.csv").write_text("1\n")
    recorded_service.add_table(
        "trips", tmp_path / "t", {"id": "bigint"}, {"k": "int", "r": "string"}, file_format="csv",
        options={"sep": ";"}, properties={"team": "ours"},
    )  # fmt: skip
    recorded_service.reset()
    yield recorded_service
    catalog = recorded_service.catalog
    for namespace in ("default", "sales"):
        for name in catalog.list_tables(namespace):
            catalog.drop_table(f"{namespace}.{name}")


@pytest.fixture
def spark(spark_with_connector: SparkSession) -> SparkSession:
    return spark_with_connector


def condition(spark: SparkSession, sql: str) -> str | None:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql).collect()
    return caught.value.getCondition()


class TestNamespaces:
    def test_the_life_of_a_namespace(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE NAMESPACE lake.fresh COMMENT 'new' LOCATION '/data/fresh' WITH DBPROPERTIES ('a' = 'b')")
        assert service.last("namespaces/create")["properties"].items() >= {"comment": "new", "a": "b"}.items()
        fresh = service.catalog.load_namespace("fresh")
        assert (fresh.comment, fresh.location, fresh.properties["a"]) == ("new", "file:///data/fresh", "b")
        assert ("fresh",) in rows(spark, "SHOW NAMESPACES IN lake")
        spark.sql("ALTER NAMESPACE lake.fresh SET DBPROPERTIES ('c' = 'd')")
        spark.sql("COMMENT ON NAMESPACE lake.fresh IS 'newer'")
        described = dict(rows(spark, "DESCRIBE NAMESPACE EXTENDED lake.fresh"))
        assert described["Comment"] == "newer"
        assert "(c,d)" in described["Properties"]
        assert condition(spark, "CREATE NAMESPACE lake.fresh") == "SCHEMA_ALREADY_EXISTS"
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.fresh")
        spark.sql("DROP NAMESPACE lake.fresh")
        assert "fresh" not in service.catalog.list_namespaces()

    def test_what_is_not_there_or_not_empty(self, spark: SparkSession, service: RecordedService) -> None:
        assert condition(spark, "DROP NAMESPACE lake.sales RESTRICT") == "SCHEMA_NOT_EMPTY"
        assert condition(spark, "DROP NAMESPACE lake.nowhere") == "SCHEMA_NOT_FOUND"
        assert condition(spark, "SHOW TABLES IN lake.nowhere") == "SCHEMA_NOT_FOUND"
        assert condition(spark, "SHOW TABLES IN lake") == "CATALOG_EXT_INVALID_IDENTIFIER"
        assert condition(spark, "CREATE NAMESPACE lake.a.b") == "CATALOG_EXT_INVALID_IDENTIFIER"

    def test_use_and_short_names(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("USE lake.sales")
        try:
            assert rows(spark, "SELECT count(*) FROM trips") == [(5,)]
            assert rows(spark, "SHOW TABLES") == [("sales", "trips", False)]
            assert rows(spark, "CALL system.repair_partitions('sales.trips')") == []
        finally:
            spark.sql("USE spark_catalog.default")


class TestTables:
    def test_a_list_of_tables_loads_none(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE TABLE lake.sales.another (x INT)")
        service.reset()
        assert rows(spark, "SHOW TABLES IN lake.sales LIKE '*r*'") == [
            ("sales", "another", False), ("sales", "trips", False),
        ]  # fmt: skip
        assert service.requests["tables/list"] == 1
        assert service.requests["tables/load"] == 0

    def test_analyze_tables_goes_on_after_a_dropped_table(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE TABLE lake.sales.another (x INT)")
        service.reset()
        with service.answering(changing(tables=["another", "dropped", "trips"]), "tables/list"):
            spark.sql("ANALYZE TABLES IN lake.sales COMPUTE STATISTICS NOSCAN")
        assert service.requests["statistics/put"] == 2
        assert service.last("statistics/put")["table_id"] == service.table("trips").table_id

    @pytest.mark.requirement("Flink.CreateDDL", statement="CREATE TABLE lake.sales.made")
    def test_create_declares_the_partition_columns(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql(
            "CREATE TABLE lake.sales.made (id BIGINT COMMENT 'number', c CHAR(3), s STRUCT<A: INT, b: ARRAY<STRING>>, "
            "ds DATE) USING json OPTIONS ('multiline' = 'true') PARTITIONED BY (ds) LOCATION '/data/made' "
            "COMMENT 'rides' TBLPROPERTIES ('team' = 'ours')"
        )
        body = service.last("tables/create")
        assert body["table_type"] == "EXTERNAL"
        assert body["format"] == "json"
        assert body["location"].endswith("/data/made")
        assert [(c["name"], c["type"], c["comment"]) for c in body["columns"]] == [
            ("id", "bigint", "number"),
            ("c", "char(3)", None),
            ("s", "struct<A:int,b:array<string>>", None),
        ]
        assert [(c["name"], c["type"]) for c in body["partition_columns"]] == [("ds", "date")]
        assert body["options"] == {"multiline": "true"}
        assert body["properties"] == {"team": "ours"}
        assert body["comment"] == "rides"
        assert spark.table("lake.sales.made").columns == ["id", "c", "s", "ds"]
        shown = rows(spark, "SHOW CREATE TABLE lake.sales.made")[0][0]
        for part in ("USING json", "PARTITIONED BY (ds)", "COMMENT 'rides'", "'team' = 'ours'", "'multiline' = 'true'"):
            assert part in shown

    def test_create_managed_by_default_as_parquet(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE TABLE lake.sales.made (id INT)")
        body = service.last("tables/create")
        assert (body["table_type"], body["format"], body["location"]) == ("MANAGED", None, None)
        assert (body["storage"], body["default_format"]) == (None, "parquet")
        assert service.catalog.load_table("sales.made").definition.format == "parquet"
        assert service.requests["tables/load"] <= 2

    def test_create_as_hive_writes_it(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE TABLE lake.sales.made (id INT) PARTITIONED BY (ds DATE) STORED AS ORC LOCATION '/data/made'")
        body = service.last("tables/create")
        assert (body["format"], body["table_type"]) == (None, "EXTERNAL")
        assert body["storage"] == {"stored_as": "ORC", "serde": None, "input_format": None, "output_format": None}
        assert service.catalog.load_table("sales.made").definition.format == "orc"
        assert [(c["name"], c["type"]) for c in body["partition_columns"]] == [("ds", "date")]
        assert body["properties"] == {}

    def test_create_refuses(self, spark: SparkSession, service: RecordedService) -> None:
        assert condition(spark, "CREATE TABLE lake.sales.trips (id INT)") == "TABLE_OR_VIEW_ALREADY_EXISTS"
        assert condition(spark, "CREATE TABLE lake.nowhere.t (id INT)") == "SCHEMA_NOT_FOUND"
        bucketed = "CREATE TABLE lake.sales.b (id INT) PARTITIONED BY (bucket(4, id))"
        assert condition(spark, bucketed) == "CATALOG_EXT_NOT_SUPPORTED"
        assert condition(spark, "CREATE TABLE lake.sales.b (ts TIMESTAMP) PARTITIONED BY (days(ts))") is not None
        spark.sql("CREATE TABLE IF NOT EXISTS lake.sales.trips (id INT)")
        assert "b" not in service.catalog.list_tables("sales")

    def test_a_metadata_table_costs_one_load_and_one_read(self, spark: SparkSession, service: RecordedService) -> None:
        assert len(rows(spark, "SELECT partition FROM lake.sales.trips.partitions")) == len(NAMES)
        assert service.requests == {"tables/load": 1, "tables/metadata": 1}
        assert service.last("tables/load")["metadata"] == "partitions"
        service.reset()
        unknown = "SELECT * FROM lake.sales.trips.nope"
        assert condition(spark, unknown) == "CATALOG_EXT_METADATA_TABLE_NOT_FOUND"
        assert service.requests == {"tables/load": 1}

    def test_drop_and_purge(self, spark: SparkSession, service: RecordedService) -> None:
        for purge in ("", " PURGE"):
            spark.sql("CREATE TABLE lake.sales.made (id INT)")
            spark.sql(f"DROP TABLE lake.sales.made{purge}")
            assert service.last("tables/drop")["purge"] is bool(purge)
        assert condition(spark, "DROP TABLE lake.sales.made") == "TABLE_OR_VIEW_NOT_FOUND"
        spark.sql("DROP TABLE IF EXISTS lake.sales.made")

    def test_properties(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("ALTER TABLE lake.sales.trips SET TBLPROPERTIES ('partition-columns' = 'declared')")
        assert spark.table("lake.sales.trips").columns == ["id", "k", "r"]
        spark.sql("ALTER TABLE lake.sales.trips SET TBLPROPERTIES ('partition-columns' = 'virtual')")
        spark.sql("ALTER TABLE lake.sales.trips UNSET TBLPROPERTIES ('partition-columns')")
        assert spark.table("lake.sales.trips").columns == ["id"]
        assert ("team", "ours") in rows(spark, "SHOW TBLPROPERTIES lake.sales.trips")
        spark.sql("COMMENT ON TABLE lake.sales.trips IS 'rides'")
        assert ("Comment", "rides", "") in rows(spark, "DESCRIBE EXTENDED lake.sales.trips")

    def test_changes_of_columns_are_sent_as_they_were_said(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        for name in ("altered", "elsewhere"):
            (tmp_path / name).mkdir()
        sent: list[dict[str, Any]] = []
        for change in (
            "ADD COLUMNS (a INT COMMENT 'c' FIRST, b DECIMAL(5) DEFAULT 1 + 1 AFTER id)", "RENAME COLUMN id TO key",
            "DROP COLUMN IF EXISTS gone", "DROP COLUMN id", "ALTER COLUMN id COMMENT 'n'",
            "ALTER COLUMN id SET DEFAULT 7", "ALTER COLUMN id DROP DEFAULT",
            f"SET LOCATION 'file:{tmp_path}/elsewhere'",
        ):  # fmt: skip
            service.add_table("altered", tmp_path / "altered", {"id": "bigint", "n": "int"}, {"k": "int"})
            spark.sql(f"ALTER TABLE lake.sales.altered {change}")
            sent.append(service.last("tables/alter"))
        plain = {"first": None, "after": None}
        assert [{**plain, **c} for body in sent for c in body["changes"]][:2] == [
            {"change": "add", "path": ["a"], "type": "int", "nullable": True, "comment": "c", "first": True,
             "after": None},
            {"change": "add", "path": ["b"], "type": "decimal(5,0)", "nullable": True, "comment": None,
             "default": "1 + 1", "existing_default": sent[0]["changes"][1]["existing_default"], "first": None,
             "after": "id"},
        ]  # fmt: skip
        assert sent[0]["changes"][1]["existing_default"].startswith(("2", "CAST(2"))
        assert [body["changes"] for body in sent[1:4]] == [
            [{"change": "rename", "path": ["id"], "name": "key"}], [],
            [{"change": "drop", "path": ["id"], "if_exists": False}],
        ]  # fmt: skip
        defaults = [body["changes"][0] for body in sent[5:7]]
        assert [(c["change"], c["path"], c["default"]) for c in defaults] == [
            ("default", ["id"], "7"), ("default", ["id"], None),
        ]  # fmt: skip
        place = f"file:{tmp_path}/elsewhere"
        assert (sent[-1]["location"], sent[-1]["changes"], sent[-1]["set"]) == (place, [], {})
        assert service.table("altered").definition.location == f"file://{tmp_path}/elsewhere"

    def test_rename(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("CREATE TABLE lake.sales.one (id INT)")
        for statement, to in (
            ("ALTER TABLE lake.sales.one RENAME TO two", ("sales", "two")),
            ("ALTER TABLE lake.sales.two RENAME TO default.two", ("default", "two")),
            ("ALTER TABLE lake.default.two RENAME TO lake.sales.three", ("sales", "three")),
        ):
            spark.sql(statement)
            body = service.last("tables/rename")
            assert (body["to_namespace"], body["to_name"]) == to
        assert condition(spark, "ALTER TABLE lake.sales.three RENAME TO sales.trips") == "TABLE_OR_VIEW_ALREADY_EXISTS"
        assert condition(spark, "ALTER TABLE lake.sales.three RENAME TO nowhere.t") == "SCHEMA_NOT_FOUND"
        assert condition(spark, "ALTER TABLE lake.sales.three RENAME TO a.b.c") == "CATALOG_EXT_INVALID_IDENTIFIER"
        assert condition(spark, "ALTER TABLE lake.sales.gone RENAME TO sales.t") == "TABLE_OR_VIEW_NOT_FOUND"

    def test_describe(self, spark: SparkSession, service: RecordedService) -> None:
        # A table has an owner that came from Hive.
        trips = service.table("trips").identifier
        service.catalog.index.alterations.alter(trips, lambda found: replace(found, owner="ada"), deliver=False)
        hidden = "hidden: SELECT * leaves it out"
        keys = [("k", "int", hidden), ("r", "string", hidden)]
        partitioned = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        assert rows(spark, "DESCRIBE lake.sales.trips") == [("id", "bigint", None), *keys, *partitioned, *keys]
        assert rows(spark, "SHOW COLUMNS IN lake.sales.trips") == [("id",), ("k",), ("r",)]
        assert ("comment", hidden) in rows(spark, "DESCRIBE lake.sales.trips k")
        spark.sql("SET use_hive_partitioning = 0")
        try:
            assert rows(spark, "DESCRIBE lake.sales.trips") == [("id", "bigint", None)]
            assert rows(spark, "SHOW COLUMNS IN lake.sales.trips") == [("id",)]
        finally:
            spark.conf.unset("use_hive_partitioning")
        extended = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED lake.sales.trips")}
        assert extended["Type"] == "EXTERNAL"
        assert extended["Provider"] == "csv"
        assert extended["Owner"] == "ada"
        assert extended["k"] == "int"
        assert extended["_metadata"].startswith("struct<file_path")
        (shown,) = rows(spark, "SHOW TABLE EXTENDED IN lake.sales LIKE 'tri*'")
        assert "Provider: csv" in shown[3]


class TestPartitions:
    @pytest.mark.requirement("Flink.ShowPartitions", statement="SHOW PARTITIONS")
    def test_show_prints_what_is_on_the_store_in_typed_order(
        self, spark: SparkSession, service: RecordedService
    ) -> None:
        assert [row[0] for row in rows(spark, "SHOW PARTITIONS lake.sales.trips")] == NAMES
        assert service.requests == {"tables/load": 1, "partitions/list": 1}

    @pytest.mark.parametrize(
        ("spec", "names"),
        [
            ("k = 1", ["k=01/r=a%2Fb", "k=1/r=a%2Fb"]),
            ("r = 'x'", ["k=2/r=x", "k=10/r=x"]),
            ("r = 'a/b', k = '01'", ["k=01/r=a%2Fb", "k=1/r=a%2Fb"]),
            ("k = NULL", ["k=__HIVE_DEFAULT_PARTITION__/r=z"]),
            ("k = 77", []),
        ],
    )
    @pytest.mark.requirement("Flink.ShowPartitionsOf", statement="SHOW PARTITIONS lake.sales.trips PARTITION")
    def test_show_some(self, spark: SparkSession, service: RecordedService, spec: str, names: list[str]) -> None:
        statement = f"SHOW PARTITIONS lake.sales.trips PARTITION ({spec})"
        assert [row[0] for row in rows(spark, statement)] == names
        with service.answering(unpruned, *PRUNED):
            assert [row[0] for row in rows(spark, statement)] == names

    def test_show_of_an_unknown_key(self, spark: SparkSession, service: RecordedService) -> None:
        assert condition(spark, "SHOW PARTITIONS lake.sales.trips PARTITION (nothing = 1)") == (
            "CATALOG_EXT_INVALID_PARTITION_SPEC"
        )

    def test_describe_one(self, spark: SparkSession, service: RecordedService) -> None:
        described = rows(spark, "DESCRIBE EXTENDED lake.sales.trips PARTITION (k = 2, r = 'x')")
        details = {row[0]: row[1] for row in described}
        assert details["Partition Values"] == "[k=2, r=x]"
        assert details["Files"] == "1"
        assert any(row[1].endswith("/k=2/r=x") for row in described)
        (shown,) = rows(spark, "SHOW TABLE EXTENDED IN lake.sales LIKE 'trips' PARTITION (k = 2, r = 'x')")
        assert "Files: 1" in shown[3]
        missing = "DESCRIBE lake.sales.trips PARTITION (k = 3, r = 'x')"
        assert condition(spark, missing) == "CATALOG_EXT_PARTITION_NOT_FOUND"


class TestRepair:
    @pytest.mark.parametrize(
        ("statement", "mode"),
        [
            ("MSCK REPAIR TABLE lake.sales.trips", "add"),
            ("MSCK REPAIR TABLE lake.sales.trips ADD PARTITIONS", "add"),
            ("MSCK REPAIR TABLE lake.sales.trips DROP PARTITIONS", "drop"),
            ("MSCK REPAIR TABLE lake.sales.trips SYNC PARTITIONS", "sync"),
            ("ALTER TABLE lake.sales.trips RECOVER PARTITIONS", "add"),
        ],
    )
    def test_commands_of_hive(self, spark: SparkSession, service: RecordedService, statement: str, mode: str) -> None:
        assert rows(spark, statement) == []
        assert service.last("procedures/call") == {
            "procedure": "repair_partitions",
            "arguments": {"table": "sales.trips", "mode": mode},
        }

    @pytest.mark.usefixtures("service")
    def test_the_commands_of_hive_show_what_they_did_and_skipped(self, spark: SparkSession, tmp_path: Path) -> None:
        (tmp_path / "t" / "k=3" / "r=y").mkdir(parents=True)
        (tmp_path / "t" / "stray").write_text("x")
        shown = spark.sql("MSCK REPAIR TABLE lake.sales.trips")
        assert shown.columns == ["action", "partition", "path", "files", "bytes", "reason"]
        assert [tuple(row) for row in shown.collect()] == [
            ("skip", "", "stray", 1, 1, "the file lies above the partition directories"),
            ("add", "k=3/r=y", "k=3/r=y", 0, 0, NEW),
        ]
        recovered = spark.sql("ALTER TABLE lake.sales.trips RECOVER PARTITIONS")
        assert [row.action for row in recovered.collect()] == ["skip"]

    def test_call_by_name_and_by_position(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        (tmp_path / "t" / "k=3" / "r=y").mkdir(parents=True)
        (tmp_path / "t" / "k=3" / "r=y" / "f.csv").write_text("1\n")
        report = spark.sql("CALL lake.system.repair_partitions('lake.sales.trips', 'sync', where => 'k > 1')")
        assert report.columns == ["action", "partition", "path", "files", "bytes", "reason"]
        assert [tuple(row) for row in report.collect()] == [("add", "k=3/r=y", "k=3/r=y", 1, 2, NEW)]
        assert service.last("procedures/call")["arguments"] == {
            "table": "lake.sales.trips", "mode": "sync", "where": "k > 1", "dry_run": False, "strict": False,
            "allow_mass_drop": False, "verify": "none",
        }  # fmt: skip

    def test_map_arguments(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        place = tmp_path / "x"
        place.mkdir()
        call = (
            f"CALL lake.system.register_table(table => 'sales.x', location => '{place}', schema => 'id BIGINT', "
            "partition_columns => map('ds', 'DATE', 'r', 'STRING'))"
        )
        assert rows(spark, call) == [
            ("sales.x", f"file://{place}", "parquet", "ds DATE, r STRING", "virtual", 1, "none")
        ]
        assert service.last("procedures/call")["arguments"] == {
            "table": "sales.x", "location": str(place), "format": "parquet", "schema": "id BIGINT",
            "partition_columns": {"ds": "DATE", "r": "STRING"}, "if_not_exists": False,
        }  # fmt: skip

    def test_errors_of_a_procedure(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        (tmp_path / "t" / "k=it's" / "r=y").mkdir(parents=True)
        (tmp_path / "t" / "k=it's" / "r=y" / "f.csv").write_text("1\n")
        refused = "CALL lake.system.repair_partitions(table => 'sales.trips', strict => true)"
        assert condition(spark, refused) == "CATALOG_EXT_REPAIR_REFUSED"
        gone = "CALL lake.system.repair_partitions(table => 'sales.gone')"
        assert condition(spark, gone) == "CATALOG_EXT_TABLE_NOT_FOUND"
        assert condition(spark, "CALL lake.system.nothing()") == "CATALOG_EXT_PROCEDURE_NOT_FOUND"
        assert condition(spark, "CALL lake.system.repair_partitions()") == "REQUIRED_PARAMETER_NOT_FOUND"
        null = "CALL lake.system.repair_partitions(table => 'sales.trips', mode => NULL)"
        assert condition(spark, null) == "CATALOG_EXT_INVALID_INPUT"
        assert rows(spark, "CALL lake.system.repair_partitions(table => 'sales.trips', where => NULL, dry_run => true)")
        wrong = "CALL lake.system.repair_partitions(table => 'sales.trips', nothing => 1)"
        assert condition(spark, wrong) == "UNRECOGNIZED_PARAMETER_NAME"

    def test_show_and_describe_procedures(self, spark: SparkSession, service: RecordedService) -> None:
        shown = spark.sql("SHOW PROCEDURES IN lake").collect()
        assert shown == spark.sql("SHOW PROCEDURES IN lake.system").collect()
        signatures = {(row.catalog, row.procedure_name): row.parameters for row in shown}
        assert set(signatures) == {("lake", procedure.name) for procedure in PROCEDURES}
        assert signatures["lake", "repair_partitions"].startswith("table STRING, mode STRING DEFAULT 'sync', ")
        describe = "DESCRIBE PROCEDURE lake.system.repair_partitions"
        if SPARK < (4, 1):
            assert condition(spark, describe) == "CATALOG_EXT_NEWER_SPARK_NEEDED"
            return
        described = " ".join(row[0] for row in rows(spark, describe))
        assert "Brings the index, and then the metastore, in sync with a table's files" in described
