"""What the connector makes of statements about partitions: one request each, or an error that says what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, ParseException

from catalog_ext.metastore.errors import PartitionAlreadyExistsError
from catalog_ext.metastore.index.read.partitions import PARTITION_SCHEMA
from tests.integration.lake import rows
from tests.kit.repair_cases import write
from tests.servers.recorder import PRUNED, arrow_answer, refusing, unpruned

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from catalog_ext.metastore.model.tables import Table
    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark

NAMES = ["k=__HIVE_DEFAULT_PARTITION__/r=z", "k=01/r=a%2Fb", "k=1/r=a%2Fb", "k=2/r=x", "k=10/r=x"]


@pytest.fixture(scope="module")
def tables(recorded_service: RecordedService, tmp_path_factory: pytest.TempPathFactory) -> None:
    """``sales.trips`` with five partitions of (k INT, r STRING), ``sales.days`` and ``sales.plain``."""
    root = tmp_path_factory.mktemp("tables")
    write(root, "days/", "plain/")
    days = {"ds": "date", "at": "timestamp", "c": "char(4)", "ok": "boolean"}
    recorded_service.add_table("days", root / "days", {"id": "bigint"}, days, mode="declared")
    recorded_service.add_table("plain", root / "plain", {"id": "bigint"}, {})
    add_trips(recorded_service, "trips", root / "t", NAMES)


@pytest.fixture
def service(recorded_service: RecordedService, tables: None, tmp_path: Path) -> RecordedService:
    """The service with its tables as they were, and nothing counted."""
    there = recorded_service.catalog.partitions("sales.trips").column("partition").to_pylist()
    if sorted(there) != sorted(NAMES):
        add_trips(recorded_service, "trips", tmp_path / "t", NAMES)
    recorded_service.reset()
    return recorded_service


def add_trips(service: RecordedService, name: str, root: Path, partitions: list[str], mode: str | None = None) -> Table:
    """Register a table with a file in each of these partitions of (k INT, r STRING)."""
    write(root, *(f"{partition}/f.csv" for partition in partitions), content=b"1\n")
    columns, keys = {"id": "bigint"}, {"k": "int", "r": "string"}
    return service.add_table(name, root, columns, keys, file_format="csv", mode=mode)


@pytest.fixture(scope="module")
def spark(spark_with_connector: SparkSession) -> SparkSession:
    return spark_with_connector


def refusal(spark: SparkSession, sql: str) -> AnalysisException:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql).collect()
    return caught.value


def sent(service: RecordedService, operation: str) -> dict[str, Any]:
    """The fields of the one request that a statement made, beside loading its tables."""
    assert {name: n for name, n in service.requests.items() if name != "tables/load"} == {operation: 1}
    body = dict(service.last(operation))
    loaded = [answer.json for name, answer in service.answers if name == "tables/load"]
    assert (body.pop("table_id"), body.pop("version")) in [(table["table_id"], table["version"]) for table in loaded]
    assert set(body.pop("session")) == {"zone", "case_sensitive"}
    return body


def clauses(service: RecordedService) -> list[list[tuple[str, str, list[str | None]]]]:
    """The comparisons of each PARTITION clause that the one request of a DROP has."""
    return [
        [(each["column"], each["op"], each["values"]) for each in clause["comparisons"]]
        for clause in sent(service, "partitions/drop")["clauses"]
    ]


class TestRequests:
    def test_add(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        place = tmp_path / "x y"
        place.mkdir()
        spark.sql(f"ALTER TABLE lake.sales.trips ADD PARTITION (r = 'a/b', k = '07') LOCATION '{place}'")
        assert sent(service, "partitions/add") == {
            "partitions": [{"spec": {"k": "07", "r": "a/b"}, "location": str(place)}],
            "if_not_exists": False,
        }
        assert service.requests["tables/load"] == 1

    def test_add_several_as_spark_and_as_flink_write_it(self, spark: SparkSession, service: RecordedService) -> None:
        for separator in (" ", ", "):
            service.reset()
            clauses = separator.join(f"PARTITION (k = {k}, r = 'x')" for k in (1, 2, 3))
            spark.sql(f"ALTER TABLE lake.sales.trips ADD IF NOT EXISTS {clauses}")
            assert sent(service, "partitions/add") == {
                "partitions": [{"spec": {"k": str(k), "r": "x"}, "location": None} for k in (1, 2, 3)],
                "if_not_exists": True,
            }

    def test_literals_are_sent_as_the_statement_has_them(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("SET spark.sql.session.timeZone = America/New_York")
        spec = "ds = '2024-1-2', at = TIMESTAMP '2024-01-02 03:04:05.50', c = 'ab  ', ok = TRUE"
        try:
            spark.sql(f"ALTER TABLE lake.sales.days ADD PARTITION ({spec})")
        finally:
            spark.sql("SET spark.sql.session.timeZone = UTC")
        assert service.last("partitions/add")["session"] == {"zone": "America/New_York", "case_sensitive": False}
        assert sent(service, "partitions/add")["partitions"][0]["spec"] == {
            "ds": "2024-1-2", "at": "2024-01-02 03:04:05.5", "c": "ab  ", "ok": "true",
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("null", "literal"), [("NULL", None), ("'__HIVE_DEFAULT_PARTITION__'", "__HIVE_DEFAULT_PARTITION__")]
    )
    def test_null_and_the_default_partition(
        self, spark: SparkSession, service: RecordedService, null: str, literal: str | None
    ) -> None:
        spark.sql(f"ALTER TABLE lake.sales.trips DROP PARTITION (k = {null})")
        assert clauses(service) == [[("k", "=", [literal])]]

    def test_drop_by_a_partial_spec(self, spark: SparkSession, service: RecordedService) -> None:
        spark.sql("ALTER TABLE lake.sales.trips DROP IF EXISTS PARTITION (r = 'x'), PARTITION (k = 1) PURGE")
        assert clauses(service) == [[("r", "=", ["x"])], [("k", "=", ["1"])]]
        request = sent(service, "partitions/drop")
        assert (request["predicates"], request["if_exists"], request["purge"]) == ([], True, True)

    @pytest.mark.parametrize(
        ("clause", "comparisons"),
        [
            ("k < 10", [("k", "<", ["10"])]),
            ("k != '010'", [("k", "!=", ["010"])]),
            ("k <> NULL", [("k", "!=", [None])]),
            ("r IN ('a', 'b')", [("r", "in", ["a", "b"])]),
            ("r IN ('a', NULL)", [("r", "in", ["a", None])]),
            ("k >= 1, k <= -1 + 5, r == 'y'", [("k", ">=", ["1"]), ("k", "<=", ["4"]), ("r", "=", ["y"])]),
        ],
    )
    def test_drop_by_comparisons(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, clause: str, comparisons: list[Any]
    ) -> None:
        add_trips(service, "trips", tmp_path / "t", ["k=3/r=a", "k=3/r=y", "k=8/r=a"])
        spark.sql(f"ALTER TABLE lake.sales.trips DROP PARTITION ({clause}), PARTITION (k > 7)")
        assert clauses(service) == [comparisons, [("k", ">", ["7"])]]
        request = sent(service, "partitions/drop")
        assert (request["predicates"], request["if_exists"], request["purge"]) == ([], False, False)

    def test_rename_and_set_location(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        # Two directories of one value cannot be renamed.
        add_trips(service, "trips", tmp_path / "one", ["k=1/r=a%2Fb"])
        place = tmp_path / "100%"
        place.mkdir()
        spark.sql(f"ALTER TABLE lake.sales.trips PARTITION (k=1, r='a/b') SET LOCATION 'file:{place}'")
        assert sent(service, "partitions/relocate") == {"spec": {"k": "1", "r": "a/b"}, "location": f"file:{place}"}
        service.reset()
        spark.sql("ALTER TABLE lake.sales.trips PARTITION (k=1, r='a/b') RENAME TO PARTITION (r='c', k=2)")
        assert sent(service, "partitions/rename") == {"from": {"k": "1", "r": "a/b"}, "to": {"k": "2", "r": "c"}}

    @pytest.mark.parametrize(
        ("clause", "specs"),
        [
            ("(k = 1)", [{"k": "1"}]),
            ("(k = 1, r = 'x'), (r = 'y')", [{"k": "1", "r": "x"}, {"r": "y"}]),
            ("((k = 1), (k = 2))", [{"k": "1"}, {"k": "2"}]),
            ("(k = 1), PARTITION (k = 2)", [{"k": "1"}, {"k": "2"}]),
        ],
    )
    def test_exchange(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, clause: str, specs: list[Any]
    ) -> None:
        partitions = ["k=1/r=x", "k=1/r=y", "k=2/r=y"]
        source = add_trips(service, "trips2", tmp_path / "trips2", partitions, mode="declared")
        spark.sql(f"ALTER TABLE lake.sales.trips EXCHANGE PARTITION {clause} WITH TABLE lake.sales.trips2")
        assert sent(service, "partitions/exchange") == {
            "source_id": source.table_id, "source_version": source.version, "specs": specs,
        }  # fmt: skip
        assert service.requests["tables/load"] == 2

    @pytest.mark.parametrize("sensitive", ["true", "false"])
    def test_case_of_names(self, spark: SparkSession, service: RecordedService, sensitive: str) -> None:
        spark.sql(f"SET spark.sql.caseSensitive = {sensitive}")
        statement = "ALTER TABLE lake.sales.trips DROP PARTITION (K = 1)"
        try:
            if sensitive == "true":
                assert refusal(spark, statement).getCondition() == "CATALOG_EXT_INVALID_PARTITION_SPEC"
            else:
                spark.sql(statement)
        finally:
            spark.sql("RESET spark.sql.caseSensitive")
        assert service.last("partitions/drop")["session"]["case_sensitive"] is (sensitive == "true")
        assert clauses(service) == [[("K", "=", ["1"])]]

    def test_parameters_and_variables(self, spark: SparkSession, service: RecordedService) -> None:
        drop = "ALTER TABLE lake.sales.trips DROP IF EXISTS PARTITION"
        spark.sql(f"{drop} (k < :most, r = :r)", {"most": 3, "r": "it's"})
        assert clauses(service) == [[("k", "<", ["3"]), ("r", "=", ["it's"])]]
        service.reset()
        spark.sql(f"{drop} (k > ?, k < ?)", [5, 7])
        assert clauses(service) == [[("k", ">", ["5"]), ("k", "<", ["7"])]]
        service.reset()
        spark.sql(f"EXECUTE IMMEDIATE '{drop} (k > 5)'")
        assert clauses(service) == [[("k", ">", ["5"])]]

    def test_a_name_that_an_expression_gives(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql("DECLARE OR REPLACE VARIABLE named STRING DEFAULT 'lake.sales.trips'")
        table = "IDENTIFIER(lower(named))"
        add_trips(service, "trips", tmp_path / "one", ["k=1/r=x", "k=__HIVE_DEFAULT_PARTITION__/r=z"])
        assert rows(spark, f"SHOW PARTITIONS {table}") == rows(spark, "SHOW PARTITIONS lake.sales.trips")
        of_one = "PARTITION (k=1, r='x')"
        assert rows(spark, f"DESCRIBE {table} {of_one}") == rows(spark, f"DESCRIBE lake.sales.trips {of_one}")
        service.reset()
        place = tmp_path / "place"
        place.mkdir()
        spark.sql(f"ALTER TABLE {table} {of_one} SET LOCATION 'file:{place}'")
        assert sent(service, "partitions/relocate") == {"spec": {"k": "1", "r": "x"}, "location": f"file:{place}"}


class TestRefusals:
    @pytest.mark.parametrize(
        "statement",
        [
            "SHOW PARTITIONS lake.sales.plain",
            "SHOW PARTITIONS lake.sales.plain LIMIT 3",
            "TRUNCATE TABLE lake.sales.plain PARTITION (k = 1)",
        ],
    )
    def test_a_table_without_partitions(self, spark: SparkSession, service: RecordedService, statement: str) -> None:
        assert refusal(spark, statement).getCondition() == "CATALOG_EXT_INVALID_PARTITION_SPEC"

    def test_a_metadata_table_and_a_table_of_another_catalog(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql(f"CREATE TABLE session_table (a INT, k INT) USING csv PARTITIONED BY (k) LOCATION '{tmp_path}'")
        try:
            history = refusal(spark, "SHOW PARTITIONS lake.sales.trips.history LIMIT 1")
            assert "is a metadata table" in str(history)
            exchange = "ALTER TABLE lake.sales.trips EXCHANGE PARTITION (k = 1) WITH TABLE session_table"
            assert refusal(spark, exchange).getCondition() == "CATALOG_EXT_NOT_SUPPORTED"
            assert rows(spark, "SHOW PARTITIONS session_table") == []
            for statement, words in [
                ("ALTER TABLE session_table DROP PARTITION (k < 1)", "near '<'."),
                ("SHOW PARTITIONS session_table LIMIT 1", "near 'LIMIT'."),
                (
                    "ALTER TABLE session_table EXCHANGE PARTITION (k = 1) WITH TABLE lake.sales.trips",
                    "EXCHANGE PARTITION is not valid",
                ),
            ]:
                error = refusal(spark, statement)
                assert isinstance(error, ParseException)
                assert words in str(error)  # Spark's own, which expect nothing of ours
        finally:
            spark.sql("DROP TABLE session_table")

    @pytest.mark.parametrize(
        ("statement", "line", "position", "words"),
        [
            ("ALTER TABLE lake.sales.trips DROP PARTITION (k <)", 1, 48, "near ')': expected a constant"),
            ("ALTER TABLE lake.sales.trips DROP PARTITION (k < 1", 1, 50, "near end of input: expected ',' or ')'"),
            ("ALTER TABLE lake.sales.trips\nDROP PARTITION (k LIKE 'x')", 2, 18, "near 'LIKE': expected one of"),
            (
                "ALTER TABLE lake.sales.trips\n DROP PARTITION (k < upper('é'))",
                2,
                21,
                "near 'upper': expected a constant",
            ),
            ("ALTER TABLE lake.sales.trips\n DROP PARTITION (k < 1 +)", 2, 24, "near end of input"),
            ("ALTER TABLE lake.sales.trips DROP PARTITION (k < 1) TWICE", 1, 52, "expected the end of the statement"),
            ("ALTER TABLE lake.sales.trips EXCHANGE PARTITION (k = 1) TABLE x", 1, 56, "expected 'WITH'"),
            ("ALTER TABLE lake.sales.trips EXCHANGE PARTITION (k < 1) WITH TABLE x", 1, 51, "expected '='"),
            ("SHOW PARTITIONS lake.sales.trips ORDER k", 1, 39, "expected 'BY'"),
            ("SHOW PARTITIONS lake.sales.trips WHERE LIMIT 2", 1, 39, "expected a condition"),
            ("SHOW PARTITIONS lake.sales.trips WHERE k = :v", 1, 43, "parameter :v has no value"),
        ],
    )
    def test_parser_errors_point_at_the_place(
        self, spark: SparkSession, service: RecordedService, statement: str, line: int, position: int, words: str
    ) -> None:
        error = refusal(spark, statement)
        assert isinstance(error, ParseException)
        assert error.getCondition() == "PARSE_SYNTAX_ERROR"
        assert words in str(error)
        assert f"(line {line}, pos {position})" in str(error)
        assert service.requests == {}

    def test_errors_of_the_service_arrive_as_they_are(self, spark: SparkSession, service: RecordedService) -> None:
        with service.answering(refusing(PartitionAlreadyExistsError("there is k=1")), "partitions/add"):
            error = refusal(spark, "ALTER TABLE lake.sales.trips ADD PARTITION (k = 1, r = 'x')")
        assert error.getCondition() == "CATALOG_EXT_PARTITION_ALREADY_EXISTS"
        assert "there is k=1" in str(error)


class TestShow:
    @pytest.mark.parametrize(
        ("clauses", "names"),
        [
            ("WHERE k > 1", NAMES[3:]),
            ("WHERE k = 1 OR k IS NULL", NAMES[:3]),
            ("WHERE upper(r) = 'X' AND k % 3 = 1", NAMES[4:]),
            ("PARTITION (r = 'x') WHERE k < 5", NAMES[3:4]),
            ("PARTITION (k = NULL) LIMIT 5", NAMES[:1]),
            ("WHERE k IS NOT NULL ORDER BY r DESC, k DESC LIMIT 3", [NAMES[4], NAMES[3], NAMES[1]]),
            ("ORDER BY k NULLS LAST, r ASC LIMIT 1", NAMES[1:2]),
            ("LIMIT 2", NAMES[:2]),
            ("LIMIT 0", []),
        ],
    )
    def test_clauses_of_hive(
        self, spark: SparkSession, service: RecordedService, clauses: str, names: list[str]
    ) -> None:
        def check() -> None:
            service.reset()
            frame = spark.sql(f"SHOW PARTITIONS lake.sales.trips {clauses}")
            assert frame.columns == ["partition"]
            shown = [row[0] for row in frame.collect()]
            # Equal values: which of the two directories comes is not said.
            assert [name.replace("k=01", "k=1") for name in shown] == [name.replace("k=01", "k=1") for name in names]
            assert service.requests["partitions/list"] <= 1

        check()
        with service.answering(unpruned, *PRUNED):
            check()

    @pytest.mark.parametrize(
        ("statement", "operation"),
        [
            ("SHOW PARTITIONS lake.sales.trips PARTITION (K = '02')", "partitions/list"),
            ("SHOW PARTITIONS lake.sales.trips PARTITION (K = '02') LIMIT 1", "partitions/list"),
            ("ANALYZE TABLE lake.sales.trips PARTITION (K = '02', r) COMPUTE STATISTICS NOSCAN", "statistics/put"),
        ],
    )
    def test_a_clause_is_sent_as_the_statement_has_it(
        self, spark: SparkSession, service: RecordedService, statement: str, operation: str
    ) -> None:
        rows(spark, statement)
        (clause,) = sent(service, operation)["clauses"]
        assert clause["comparisons"][0] == {"column": "K", "op": "=", "values": ["02"]}
        assert clause["comparisons"][1:] in ([], [{"column": "r", "op": "any", "values": []}])

    def test_the_condition_goes_to_the_service(self, spark: SparkSession, service: RecordedService) -> None:
        rows(spark, "SHOW PARTITIONS lake.sales.days WHERE ds >= '2024-01-02' AND ok LIMIT 1")
        predicate = service.last("partitions/list")["predicate"]
        assert {"op": ">=", "column": "ds", "value": "2024-01-02"} in predicate["args"]
        assert {"op": "=", "column": "ok", "value": "true"} in predicate["args"]

    @pytest.mark.parametrize("clauses", ["LIMIT 2", "PARTITION (r = 'x') LIMIT 1", "WHERE k > 0 LIMIT 2"])
    def test_a_limit_reads_no_further(self, spark: SparkSession, service: RecordedService, clauses: str) -> None:
        """The answer is cut off after its first batch, which a reader that needs no more does not notice."""
        listed = [
            {"partition_id": k, "partition": f"k={k}/r=x", "files": 1, "bytes": 1, "created_ms": 0}
            for k in (1, 2, 3) * 2
        ]
        whole = arrow_answer(pa.Table.from_pylist(listed, schema=PARTITION_SCHEMA), batch_rows=3)
        broken = replace(whole, body=whole.body[: len(whole.body) * 2 // 3])
        with service.answering(lambda body, ask: broken, "partitions/list"):
            shown = rows(spark, f"SHOW PARTITIONS lake.sales.trips {clauses}")
            assert shown == [("k=1/r=x",), ("k=2/r=x",)][: int(clauses[-1])]
            with pytest.raises(Exception, match="broke off"):
                rows(spark, "SHOW PARTITIONS lake.sales.trips")

    def test_parameters(self, spark: SparkSession, service: RecordedService) -> None:
        statement = "SHOW PARTITIONS lake.sales.trips WHERE k >= :least LIMIT :most"
        assert rows(spark, statement, least=2, most=1) == [("k=2/r=x",)]

    def test_a_python_function_is_evaluated_by_spark(self, spark: SparkSession, service: RecordedService) -> None:
        spark.udf.register("is_x", lambda region: region == "x", "boolean")
        shown = rows(spark, "SHOW PARTITIONS lake.sales.trips WHERE is_x(r) AND k > 1 LIMIT 5")
        assert shown == [("k=2/r=x",), ("k=10/r=x",)]
        assert service.last("partitions/list")["predicate"] is not None

    def test_an_unknown_column(self, spark: SparkSession, service: RecordedService) -> None:
        error = refusal(spark, "SHOW PARTITIONS lake.sales.trips WHERE id = 1")
        assert error.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert "pos 39" in str(error)

    def test_explain(self, spark: SparkSession, service: RecordedService) -> None:
        ((plan,),) = rows(spark, "EXPLAIN EXTENDED SHOW PARTITIONS lake.sales.trips WHERE k > 1 LIMIT 1")
        assert "partitions of lake.sales.trips" in plan
        ((plan,),) = rows(spark, "EXPLAIN ALTER TABLE lake.sales.trips DROP PARTITION (k < 1)")
        assert "DropAction" in plan
        assert service.requests["partitions/drop"] == 0
