"""What the connector makes of statements about partitions: one request each, or an error that says what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, ParseException

from tests.integration.fake_service import PARTITIONS_SCHEMA, ipc_bytes
from tests.integration.lake import rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.integration.fake_service import FakeService, FakeTable

pytestmark = pytest.mark.spark

NAMES = ["k=__HIVE_DEFAULT_PARTITION__/r=z", "k=01/r=a%2Fb", "k=1/r=a%2Fb", "k=2/r=x", "k=10/r=x"]


@pytest.fixture(scope="module")
def tables(fake_service: FakeService, tmp_path_factory: pytest.TempPathFactory) -> dict[str, FakeTable]:
    """``sales.trips`` with five partitions of (k INT, r STRING), ``sales.days`` and ``sales.plain``."""
    root = tmp_path_factory.mktemp("tables")
    for name in NAMES:
        (root / "t" / name).mkdir(parents=True)
        (root / "t" / name / "f.csv").write_text("1\n")
    for name in ("days", "plain", "trips2"):
        (root / name).mkdir()
    columns, keys = {"id": "bigint"}, {"k": "int", "r": "string"}
    days = {"ds": "date", "at": "timestamp", "c": "char(4)", "ok": "boolean"}
    add = fake_service.add_table
    return {
        "trips": add("trips", root / "t", columns, keys, file_format="csv"),
        "trips2": add("trips2", root / "trips2", columns, keys, file_format="csv", mode="declared"),
        "days": add("days", root / "days", columns, days, mode="declared"),
        "plain": add("plain", root / "plain", columns, {}),
    }


@pytest.fixture
def service(fake_service: FakeService, tables: dict[str, FakeTable]) -> FakeService:
    fake_service.reset()
    return fake_service


@pytest.fixture(scope="module")
def spark(spark_with_connector: SparkSession) -> SparkSession:
    return spark_with_connector


def refusal(spark: SparkSession, sql: str) -> AnalysisException:
    with pytest.raises(AnalysisException) as caught:
        spark.sql(sql).collect()
    return caught.value


def sent(service: FakeService, operation: str) -> dict[str, Any]:
    """The fields of the one request that a statement made, beside loading its tables."""
    assert {name: n for name, n in service.requests.items() if name != "tables/load"} == {operation: 1}
    body = dict(service.last(operation))
    assert body.pop("version") == 1
    assert body.pop("table_id") > 0
    assert set(body.pop("session")) == {"zone", "case_sensitive"}
    return body


def clauses(service: FakeService) -> list[list[tuple[str, str, list[str | None]]]]:
    """The comparisons of each PARTITION clause that the one request of a DROP has."""
    return [
        [(each["column"], each["op"], each["values"]) for each in clause["comparisons"]]
        for clause in sent(service, "partitions/drop")["clauses"]
    ]


class TestRequests:
    def test_add(self, spark: SparkSession, service: FakeService) -> None:
        spark.sql("ALTER TABLE lake.sales.trips ADD PARTITION (r = 'a/b', k = '07') LOCATION '/data/x y'")
        assert sent(service, "partitions/add") == {
            "partitions": [{"spec": {"k": "07", "r": "a/b"}, "location": "/data/x y"}],
            "if_not_exists": False,
        }
        assert service.requests["tables/load"] == 1

    def test_add_several_as_spark_and_as_flink_write_it(self, spark: SparkSession, service: FakeService) -> None:
        for separator in (" ", ", "):
            service.reset()
            clauses = separator.join(f"PARTITION (k = {k}, r = 'x')" for k in (1, 2, 3))
            spark.sql(f"ALTER TABLE lake.sales.trips ADD IF NOT EXISTS {clauses}")
            assert sent(service, "partitions/add") == {
                "partitions": [{"spec": {"k": str(k), "r": "x"}, "location": None} for k in (1, 2, 3)],
                "if_not_exists": True,
            }

    def test_literals_are_sent_as_the_statement_has_them(self, spark: SparkSession, service: FakeService) -> None:
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
        self, spark: SparkSession, service: FakeService, null: str, literal: str | None
    ) -> None:
        spark.sql(f"ALTER TABLE lake.sales.trips DROP PARTITION (k = {null})")
        assert clauses(service) == [[("k", "=", [literal])]]

    def test_drop_by_a_partial_spec(self, spark: SparkSession, service: FakeService) -> None:
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
        self, spark: SparkSession, service: FakeService, clause: str, comparisons: list[Any]
    ) -> None:
        spark.sql(f"ALTER TABLE lake.sales.trips DROP PARTITION ({clause}), PARTITION (k > 7)")
        assert clauses(service) == [comparisons, [("k", ">", ["7"])]]
        request = sent(service, "partitions/drop")
        assert (request["predicates"], request["if_exists"], request["purge"]) == ([], False, False)

    def test_rename_and_set_location(self, spark: SparkSession, service: FakeService) -> None:
        spark.sql("ALTER TABLE lake.sales.trips PARTITION (k=1, r='a/b') RENAME TO PARTITION (r='c', k=2)")
        assert sent(service, "partitions/rename") == {"from": {"k": "1", "r": "a/b"}, "to": {"k": "2", "r": "c"}}
        service.reset()
        spark.sql("ALTER TABLE lake.sales.trips PARTITION (k=1, r='a/b') SET LOCATION 's3a://b/100%'")
        assert sent(service, "partitions/relocate") == {"spec": {"k": "1", "r": "a/b"}, "location": "s3a://b/100%"}

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
        self, spark: SparkSession, service: FakeService, tables: dict[str, FakeTable], clause: str, specs: list[Any]
    ) -> None:
        spark.sql(f"ALTER TABLE lake.sales.trips EXCHANGE PARTITION {clause} WITH TABLE lake.sales.trips2")
        assert sent(service, "partitions/exchange") == {
            "source_id": tables["trips2"].table_id, "source_version": 1, "specs": specs,
        }  # fmt: skip
        assert service.requests["tables/load"] == 2

    @pytest.mark.parametrize("sensitive", ["true", "false"])
    def test_case_of_names(self, spark: SparkSession, service: FakeService, sensitive: str) -> None:
        spark.sql(f"SET spark.sql.caseSensitive = {sensitive}")
        try:
            spark.sql("ALTER TABLE lake.sales.trips DROP PARTITION (K = 1)")
        finally:
            spark.sql("RESET spark.sql.caseSensitive")
        assert service.last("partitions/drop")["session"]["case_sensitive"] is (sensitive == "true")
        assert clauses(service) == [[("K", "=", ["1"])]]

    def test_parameters_and_variables(self, spark: SparkSession, service: FakeService) -> None:
        spark.sql("ALTER TABLE lake.sales.trips DROP PARTITION (k < :most, r = :r)", {"most": 3, "r": "it's"})
        assert clauses(service) == [[("k", "<", ["3"]), ("r", "=", ["it's"])]]
        service.reset()
        spark.sql("ALTER TABLE lake.sales.trips DROP PARTITION (k > ?, k < ?)", [5, 7])
        assert clauses(service) == [[("k", ">", ["5"]), ("k", "<", ["7"])]]
        service.reset()
        spark.sql("EXECUTE IMMEDIATE 'ALTER TABLE lake.sales.trips DROP PARTITION (k > 5)'")
        assert clauses(service) == [[("k", ">", ["5"])]]


class TestRefusals:
    @pytest.mark.parametrize(
        "statement",
        [
            "SHOW PARTITIONS lake.sales.plain",
            "SHOW PARTITIONS lake.sales.plain LIMIT 3",
            "TRUNCATE TABLE lake.sales.plain PARTITION (k = 1)",
        ],
    )
    def test_a_table_without_partitions(self, spark: SparkSession, service: FakeService, statement: str) -> None:
        assert refusal(spark, statement).getCondition() == "CATALOG_EXT_INVALID_PARTITION_SPEC"

    def test_a_metadata_table_and_a_table_of_another_catalog(
        self, spark: SparkSession, service: FakeService, tmp_path: Path
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
        self, spark: SparkSession, service: FakeService, statement: str, line: int, position: int, words: str
    ) -> None:
        error = refusal(spark, statement)
        assert isinstance(error, ParseException)
        assert error.getCondition() == "PARSE_SYNTAX_ERROR"
        assert words in str(error)
        assert f"(line {line}, pos {position})" in str(error)
        assert service.requests == {}

    def test_errors_of_the_service_arrive_as_they_are(self, spark: SparkSession, service: FakeService) -> None:
        from tests.integration.fake_service import Refusal

        def refuse() -> None:
            raise Refusal(409, "PARTITION_ALREADY_EXISTS", "there is k=1")

        service.faults["partitions/add"] = refuse
        try:
            error = refusal(spark, "ALTER TABLE lake.sales.trips ADD PARTITION (k = 1, r = 'x')")
        finally:
            service.faults.clear()
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
    def test_clauses_of_hive(self, spark: SparkSession, service: FakeService, clauses: str, names: list[str]) -> None:
        for prune in (True, False):
            service.prune = prune
            service.reset()
            frame = spark.sql(f"SHOW PARTITIONS lake.sales.trips {clauses}")
            assert frame.columns == ["partition"]
            shown = [row[0] for row in frame.collect()]
            # Equal values: which of the two directories comes is not said.
            assert [name.replace("k=01", "k=1") for name in shown] == [name.replace("k=01", "k=1") for name in names]
            assert service.requests["partitions/list"] <= 1
        service.prune = True

    def test_the_condition_goes_to_the_service(self, spark: SparkSession, service: FakeService) -> None:
        rows(spark, "SHOW PARTITIONS lake.sales.days WHERE ds >= '2024-01-02' AND ok LIMIT 1")
        predicate = service.last("partitions/list")["predicate"]
        assert {"op": ">=", "column": "ds", "value": "2024-01-02"} in predicate["args"]
        assert {"op": "=", "column": "ok", "value": "true"} in predicate["args"]

    @pytest.mark.parametrize("clauses", ["LIMIT 2", "PARTITION (r = 'x') LIMIT 1", "WHERE k > 0 LIMIT 2"])
    def test_a_limit_reads_no_further(self, spark: SparkSession, service: FakeService, clauses: str) -> None:
        """The answer is cut off after its first batch, which nobody notices who needs no more."""
        import pyarrow as pa

        first = pa.table(
            [[1, 2, 3], ["k=1/r=x", "k=2/r=x", "k=3/r=x"], [None] * 3, [1] * 3, [1] * 3, [None] * 3, [0] * 3],
            schema=PARTITIONS_SCHEMA,
        )
        whole = ipc_bytes(pa.concat_tables([first, first]))
        service.faults["partitions/list"] = lambda: whole[: len(whole) * 2 // 3]
        try:
            shown = rows(spark, f"SHOW PARTITIONS lake.sales.trips {clauses}")
            assert shown == [("k=1/r=x",), ("k=2/r=x",)][: int(clauses[-1])]
            with pytest.raises(Exception, match="broke off"):
                rows(spark, "SHOW PARTITIONS lake.sales.trips")
        finally:
            service.faults.clear()

    def test_parameters(self, spark: SparkSession, service: FakeService) -> None:
        statement = "SHOW PARTITIONS lake.sales.trips WHERE k >= :least LIMIT :most"
        assert rows(spark, statement, least=2, most=1) == [("k=2/r=x",)]

    def test_an_unknown_column(self, spark: SparkSession, service: FakeService) -> None:
        error = refusal(spark, "SHOW PARTITIONS lake.sales.trips WHERE id = 1")
        assert error.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        assert "pos 39" in str(error)

    def test_explain(self, spark: SparkSession, service: FakeService) -> None:
        ((plan,),) = rows(spark, "EXPLAIN EXTENDED SHOW PARTITIONS lake.sales.trips WHERE k > 1 LIMIT 1")
        assert "partitions of lake.sales.trips" in plan
        ((plan,),) = rows(spark, "EXPLAIN ALTER TABLE lake.sales.trips DROP PARTITION (k < 1)")
        assert "DropAction" in plan
        assert service.requests["partitions/drop"] == 0
