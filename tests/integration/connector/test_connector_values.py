"""Partition values, paths, formats and files, as the connector reads them through Spark's own readers."""

from __future__ import annotations

import datetime
import shutil
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq
from pyspark.errors import AnalysisException, SparkRuntimeException

from tests.integration.lake import rows
from tests.servers.recorder import PRUNED, changing, unpruned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.servers.recorded_service import RecordedService

pytestmark = pytest.mark.spark

DEFAULT = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture(params=[True, False], ids=["pruned by the service", "pruned by the connector"])
def service(recorded_service: RecordedService, request: pytest.FixtureRequest) -> Iterator[RecordedService]:
    with recorded_service.answering(unpruned, *(() if request.param else PRUNED)):
        yield recorded_service


@pytest.fixture
def spark(spark_with_connector: SparkSession) -> Iterator[SparkSession]:
    yield spark_with_connector
    spark_with_connector.conf.unset("spark.sql.catalog.lake.missing-files")
    spark_with_connector.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory, spark_with_connector: SparkSession) -> bytes:
    """A Parquet file of one row, ``id = 1``."""
    path = tmp_path_factory.mktemp("part") / "p"
    spark_with_connector.range(1, 2).coalesce(1).write.parquet(str(path))
    return next(path.glob("*.parquet")).read_bytes()


def directories(root: Path, names: list[str], part: bytes) -> Path:
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "f.parquet").write_bytes(part)
    return root


class TestTypedKeys:
    @pytest.mark.parametrize(
        ("kind", "texts", "values", "condition", "count"),
        [
            ("int", ["01", "1", "-2", DEFAULT, ""], [None, None, -2, 1, 1], "k = 1", 2),
            ("bigint", ["9", "10"], [9, 10], "k > 9", 1),
            ("decimal(5,2)", ["1.5", "1.50", "10"], [Decimal("1.50"), Decimal("1.50"), Decimal(10)], "k = 1.5", 2),
            ("boolean", ["true", "false"], [False, True], "k", 1),
            (
                "date",
                ["2025-01-02", "2024-12-31"],
                [datetime.date(2024, 12, 31), datetime.date(2025, 1, 2)],
                "k > '2025'",
                1,
            ),
            ("string", ["B", "a", "", DEFAULT], [None, "", "B", "a"], "k = ''", 1),
            ("varchar(3)", ["a", "abc"], ["a", "abc"], "k = 'a'", 1),
            ("char(3)", ["a", "abc"], ["a", "abc"], "k = 'a'", 1),
            ("string", ["1", "2"], ["1", "2"], "k = 1", 1),
            ("double", ["-0.0", "0.0", "2.5"], [0.0, 0.0, 2.5], "k = 0", 2),
        ],
    )
    def test_values_and_filters(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes,
        kind: str, texts: list[str], values: list[Any], condition: str, count: int,
    ) -> None:  # fmt: skip
        root = directories(tmp_path / "t", [f"k={text}" for text in texts], part)
        service.add_table("typed", root, {"id": "bigint"}, {"k": kind})
        assert [row[0] for row in rows(spark, "SELECT k FROM lake.sales.typed ORDER BY k NULLS FIRST")] == values
        assert rows(spark, f"SELECT count(*) FROM lake.sales.typed WHERE {condition}") == [(count,)]

    def test_null_and_its_directory(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        root = directories(tmp_path / "t", [f"k={DEFAULT}", "k=x"], part)
        service.add_table("nulls", root, {"id": "bigint"}, {"k": "string"})
        query = "SELECT count(*) FROM lake.sales.nulls WHERE "
        assert rows(spark, query + "k IS NULL") == [(1,)]
        assert rows(spark, query + "k <=> NULL") == [(1,)]
        assert rows(spark, query + "k != 'x'") == [(0,)]
        assert rows(spark, query + "k NOT IN ('y')") == [(1,)]
        assert rows(spark, query + f"k = '{DEFAULT}'") == [(0,)]

    def test_timestamps_are_local_to_the_session(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        root = directories(tmp_path / "t", ["ts=2025-01-01 10%3A00%3A00", "ts=2025-01-01 11%3A30%3A00.5"], part)
        service.add_table("times", root, {"id": "bigint"}, {"ts": "timestamp"})
        for zone in ("UTC", "America/New_York"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            query = "SELECT date_format(ts, 'HH:mm') FROM lake.sales.times WHERE ts >= '2025-01-01 10:30:00'"
            assert rows(spark, query) == [("11:30",)]

    @pytest.mark.parametrize("clock", ["01:30:00", "01:40:00", "02:45:00", "03:40:00"])
    def test_timestamps_near_a_clock_change(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes, clock: str
    ) -> None:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        texts = [f"2025-{day} {hour}" for day in ("03-09", "11-02") for hour in ("01:30:00", "02:45:00", "03:30:00")]
        root = directories(tmp_path / "t", [f"ts={text.replace(':', '%3A')}" for text in texts], part)
        service.add_table("changes", root, {"id": "bigint"}, {"ts": "timestamp"})
        for day in ("03-09", "11-02"):
            bound = f"timestamp'2025-{day} {clock}'"
            expected = rows(spark, f"SELECT count_if(cast(t AS timestamp) > {bound}) FROM VALUES "
                            + ", ".join(f"('{text}')" for text in texts) + " AS x(t)")  # fmt: skip
            assert rows(spark, f"SELECT count(*) FROM lake.sales.changes WHERE ts > {bound}") == expected

    def test_a_value_that_does_not_fit_is_named(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        service.add_table("odd", directories(tmp_path / "t", ["k=x"], part), {"id": "bigint"}, {"k": "string"})
        key = {"name": "k", "type": "int", "nullable": True, "comment": None}
        with (
            service.answering(changing(partition_columns=[key]), "tables/load"),
            pytest.raises(SparkRuntimeException, match="The value 'x' of partition 'k=x' is no INT") as caught,
        ):
            spark.sql("SELECT * FROM lake.sales.odd").collect()
        assert caught.value.getCondition() == "CATALOG_EXT_INVALID_VALUE"


class TestPaths:
    NAMES = (
        "k=a b", "k=a%20b", "k=50%25", "k=x%3Dy", "k=a%2Fb", "k=été", "k=日本", "k=a+b", "k=%zz", "k=t:1",
        "k=#1?2", "k=[x]{y}", "k='q'", "k=\\",
    )  # fmt: skip
    VALUES = frozenset({"a b", "50%", "x=y", "a/b", "été", "日本", "a+b", "%zz", "t:1", "#1?2", "[x]{y}", "'q'", "\\"})

    def test_names_are_read_and_shown_as_they_are(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        root = directories(tmp_path / "a table % of:many", list(self.NAMES), part)
        service.add_table("odd_names", root, {"id": "bigint"}, {"k": "string"})
        found = rows(spark, "SELECT id, k FROM lake.sales.odd_names")
        assert len(found) == len(self.NAMES)
        assert {key for _, key in found} == self.VALUES
        shown = [row[0] for row in rows(spark, "SHOW PARTITIONS lake.sales.odd_names")]
        assert sorted(shown) == sorted(self.NAMES)
        assert rows(spark, "SHOW PARTITIONS lake.sales.odd_names PARTITION (k = '50%')") == [("k=50%25",)]

    def test_odd_file_names_and_a_location_of_its_own(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        elsewhere = tmp_path / "some where"
        (tmp_path / "t").mkdir()
        elsewhere.mkdir()
        for name in ("a b.parquet", "c%20d=é.parquet"):
            (elsewhere / name).write_bytes(part)
        service.add_table("moved", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        service.catalog.partition_commands.add("sales.moved", [({"k": "7"}, f"file://{elsewhere}")])
        assert rows(spark, "SELECT id, k FROM lake.sales.moved") == [(1, 7), (1, 7)]

    def test_mixed_case_keys_keep_their_directories(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        root = directories(tmp_path / "t", ["Country=NL/dAy=1"], part)
        service.add_table("mixed", root, {"id": "bigint"}, {"Country": "string", "dAy": "int"})
        assert rows(spark, "SELECT country, DAY FROM lake.sales.mixed WHERE COUNTRY = 'NL'") == [("NL", 1)]
        assert rows(spark, "SHOW PARTITIONS lake.sales.mixed") == [("Country=NL/dAy=1",)]

    def test_an_unpartitioned_table(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, part: bytes
    ) -> None:
        (tmp_path / "t").mkdir()
        (tmp_path / "t" / "f.parquet").write_bytes(part)
        service.add_table("flat", tmp_path / "t", {"id": "bigint"}, {})
        assert rows(spark, "SELECT * FROM lake.sales.flat WHERE id = 1") == [(1,)]


class TestFormats:
    @pytest.mark.parametrize("file_format", ["parquet", "orc", "csv", "json"])
    def test_rows_and_file_metadata(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, file_format: str
    ) -> None:
        data = spark.range(6).selectExpr("id", "concat('n', id) AS name", "cast(id % 2 AS INT) AS k")
        data.write.format(file_format).option("header", "true").partitionBy("k").save(str(tmp_path / "t"))
        service.add_table(
            "rows", tmp_path / "t", {"id": "bigint", "name": "string"}, {"k": "int"},
            file_format=file_format, options={"header": "true"} if file_format == "csv" else {},
        )  # fmt: skip
        assert rows(spark, "SELECT *, k FROM lake.sales.rows WHERE k = 1 AND id > 1 ORDER BY id") == [
            (3, "n3", 1),
            (5, "n5", 1),
        ]
        assert rows(spark, "SELECT count(*) FROM lake.sales.rows") == [(6,)]
        fields = "_metadata.file_name, _metadata.file_size, input_file_name() LIKE '%/k=0/%', k"
        (file,) = {row[:4] for row in rows(spark, f"SELECT {fields} FROM lake.sales.rows WHERE id = 2")}
        on_disk = next(path for path in (tmp_path / "t" / "k=0").iterdir() if path.name == file[0])
        assert file == (on_disk.name, on_disk.stat().st_size, True, 0)

    def test_file_metadata_equals_sparks_own(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.range(4).selectExpr("id", "id % 2 AS k").write.partitionBy("k").parquet(str(tmp_path / "t"))
        service.add_table("meta", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        fields = (
            "file_path",
            "file_name",
            "file_size",
            "file_block_start",
            "file_block_length",
            "file_modification_time",
        )
        columns = ["id", *(f"_metadata.{field}" for field in fields)]
        plain = spark.read.parquet(str(tmp_path / "t")).select(*columns).orderBy("id").collect()
        assert spark.table("lake.sales.meta").select(*columns).orderBy("id").collect() == plain
        assert rows(spark, "SELECT id FROM lake.sales.meta WHERE _metadata.file_name = 'none' OR id = 3") == [(3,)]

    def test_text(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        (tmp_path / "t" / "k=1").mkdir(parents=True)
        (tmp_path / "t" / "k=1" / "f.txt").write_text("one\ntwo\n")
        service.add_table("lines", tmp_path / "t", {"value": "string"}, {"k": "int"}, file_format="text")
        assert rows(spark, "SELECT value, k FROM lake.sales.lines ORDER BY 1") == [("one", 1), ("two", 1)]

    def test_an_option_of_the_read_goes_before_the_tables(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        (tmp_path / "t" / "k=1").mkdir(parents=True)
        (tmp_path / "t" / "k=1" / "f.csv").write_text("a;b\n1;2\n")
        service.add_table(
            "csv", tmp_path / "t", {"a": "string", "b": "string"}, {"k": "int"},
            file_format="csv", options={"header": "true", "sep": ";"},
        )  # fmt: skip
        assert rows(spark, "SELECT * FROM lake.sales.csv") == [("1", "2")]
        assert rows(spark, "SELECT * FROM lake.sales.csv WITH ('header' = 'false')") == [("a", "b"), ("1", "2")]
        by_position = spark.read.option("sep", "|").option("enforceSchema", "true")
        assert by_position.table("lake.sales.csv").collect()[0][0] == "1;2"

    def test_columns_match_by_name_and_missing_ones_are_null(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql("SELECT 1L AS id, 'x' AS name").write.parquet(str(tmp_path / "t" / "k=1"))
        spark.sql("SELECT 9 AS extra, 'y' AS name").write.parquet(str(tmp_path / "t" / "k=2"))
        service.add_table("evolved", tmp_path / "t", {"id": "bigint", "name": "string"}, {"k": "int"})
        assert rows(spark, "SELECT id, name, k FROM lake.sales.evolved ORDER BY k") == [(1, "x", 1), (None, "y", 2)]

    def test_a_key_inside_the_files_gives_way_to_the_path(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.sql("SELECT 1L AS id, 'inside' AS k").write.parquet(str(tmp_path / "t" / "k=path"))
        service.add_table("inside", tmp_path / "t", {"id": "bigint"}, {"k": "string"})
        assert rows(spark, "SELECT id, k FROM lake.sales.inside WHERE k = 'path'") == [(1, "path")]

    def test_parquet_keeps_vectors_and_push_down(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.range(4).write.parquet(str(tmp_path / "t" / "k=1"))
        service.add_table("vectors", tmp_path / "t", {"id": "bigint"}, {"k": "int"})
        plan = (
            spark.sql("SELECT id FROM lake.sales.vectors WHERE id > 2")._jdf.queryExecution().executedPlan().toString()
        )
        assert "ColumnarToRow" in plan
        assert "PushedFilters: [IsNotNull(id), GreaterThan(id,2)]" in plan


class TestMissingFiles:
    @pytest.fixture
    def holey(self, service: RecordedService, tmp_path: Path, part: bytes) -> RecordedService:
        """A table of three files, one of which has gone since."""
        root = directories(tmp_path / "t", ["k=a b", "k=c", "k=d"], part)
        service.add_table("holey", root, {"id": "bigint"}, {"k": "string"})
        (root / "k=a b" / "f.parquet").unlink()
        return service

    def test_the_error_names_file_partition_and_repair(self, spark: SparkSession, holey: RecordedService) -> None:
        with pytest.raises(SparkRuntimeException) as caught:
            spark.sql("SELECT sum(id) FROM lake.sales.holey").collect()
        message = str(caught.value)
        assert caught.value.getCondition() == "CATALOG_EXT_FILE_MISSING"
        for part in ("/k=a b/f.parquet", "partition 'k=a b'", "lake.sales.holey",
                     "CALL lake.system.repair_partitions(table => 'sales.holey', mode => 'sync')"):  # fmt: skip
            assert part in message

    def test_other_partitions_are_not_touched(self, spark: SparkSession, holey: RecordedService) -> None:
        assert rows(spark, "SELECT sum(id) FROM lake.sales.holey WHERE k = 'c'") == [(1,)]

    def test_skip_as_option_conf_or_property(self, spark: SparkSession, holey: RecordedService) -> None:
        query = "SELECT sum(id) FROM lake.sales.holey"
        assert rows(spark, query + " WITH ('missing-files' = 'skip')") == [(2,)]
        spark.conf.set("spark.sql.catalog.lake.missing-files", "skip")
        assert rows(spark, query) == [(2,)]
        with pytest.raises(SparkRuntimeException):
            spark.sql(query + " WITH ('missing-files' = 'error')").collect()
        spark.conf.unset("spark.sql.catalog.lake.missing-files")
        holey.catalog.alter_table_properties("sales.holey", {"missing-files": "skip"})
        assert rows(spark, query) == [(2,)]
        spark.conf.set("spark.sql.catalog.lake.missing-files", "error")
        with pytest.raises(SparkRuntimeException):
            spark.sql(query).collect()

    def test_another_value_is_refused(self, spark: SparkSession, holey: RecordedService) -> None:
        with pytest.raises(AnalysisException, match="'ignore' is no value of the option 'missing-files'"):
            spark.sql("SELECT * FROM lake.sales.holey WITH ('missing-files' = 'ignore')").collect()


UNREADABLE = "CATALOG_EXT_FILE_UNREADABLE"


class TestUnreadableFiles:
    """A file that is there, under a good partition, and cannot be read as what the table says."""

    def broken(self, spark: SparkSession, service: RecordedService, root: Path, form: str, *, codec: str = "") -> str:
        """Cut one of two files after it was registered, and give the path of it."""
        for k in ("a b", "c"):
            writer = spark.range(100).select("id").coalesce(1).write
            (writer.option("compression", codec) if codec else writer).format(form).save(str(root / f"k={k}"))
        whole = next(path for path in (root / "k=a b").iterdir() if path.name.startswith("part-"))
        whole.write_bytes(whole.read_bytes()[:-20])
        (whole.parent / f".{whole.name}.crc").unlink(missing_ok=True)
        service.add_table("broken", root, {"id": "bigint"}, {"k": "string"}, file_format=form)
        return str(whole)

    @pytest.mark.parametrize(("form", "codec"), [("parquet", ""), ("orc", ""), ("csv", "gzip"), ("json", "gzip")])
    def test_the_error_names_file_partition_and_remedy(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, form: str, codec: str
    ) -> None:
        path = self.broken(spark, service, tmp_path / "t", form, codec=codec)
        with pytest.raises(SparkRuntimeException) as caught:
            spark.sql("SELECT sum(id) FROM lake.sales.broken").collect()
        message = str(caught.value)
        assert caught.value.getCondition() == UNREADABLE
        for part in (path, "partition 'k=a b'", "lake.sales.broken", f"cannot be read as {form}: ",
                     "CALL lake.system.repair_partitions(table => 'sales.broken', mode => 'sync', verify => 'all')",
                     "spark.sql.files.ignoreCorruptFiles"):  # fmt: skip
            assert part in message
        assert rows(spark, "SELECT count(*), sum(id) FROM lake.sales.broken WHERE k = 'c'") == [(100, 4950)]
        assert rows(spark, "SELECT sum(id) FROM lake.sales.broken WITH (ignoreCorruptFiles = 'true') WHERE k = 'c'")

    def test_repair_with_verify_says_which_and_a_whole_file_mends_it(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        path = self.broken(spark, service, tmp_path / "t", "parquet")
        shutil.copy(next((tmp_path / "t" / "k=c").glob("*.parquet")), f"{path}.new.parquet")
        Path(f"{path[:-8]}-cut.parquet").write_bytes(b"PAR1")
        call = "CALL lake.system.repair_partitions(table => 'sales.broken', verify => true)"
        found = {row.path: row for row in spark.sql(call).collect()}
        assert [row.action for row in found.values()] == ["skip", "change"]
        assert "cannot be read as parquet" in found[f"k=a b/{Path(path).name[:-8]}-cut.parquet"].reason
        Path(f"{path}.new.parquet").replace(path)
        spark.sql(call)
        assert rows(spark, "SELECT count(*) FROM lake.sales.broken") == [(200,)]

    def test_a_column_of_another_type_in_the_file_is_said_to_be_one(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path
    ) -> None:
        spark.range(3).write.parquet(str(tmp_path / "t" / "k=1"))
        service.add_table("typed", tmp_path / "t", {"id": "date"}, {"k": "string"})
        with pytest.raises(SparkRuntimeException, match="a column has another type in it than in the table") as caught:
            spark.sql("SELECT max(id) FROM lake.sales.typed").collect()
        assert caught.value.getCondition() == UNREADABLE
        assert "[id]" in str(caught.value)
        assert "nanoseconds" not in str(caught.value)

    def test_nanoseconds_have_a_remedy(self, spark: SparkSession, service: RecordedService, tmp_path: Path) -> None:
        (tmp_path / "t" / "k=1").mkdir(parents=True)
        pq.write_table(pa.table({"ts": pa.array([1], pa.timestamp("ns"))}), tmp_path / "t" / "k=1" / "pandas.parquet")
        service.add_table("nanos", tmp_path / "t", {"ts": "timestamp_ntz"}, {"k": "string"})
        with pytest.raises(SparkRuntimeException, match="coerce_timestamps='us'"):
            spark.sql("SELECT ts FROM lake.sales.nanos").collect()

    @pytest.mark.parametrize("form", ["parquet", "orc"])
    def test_analyze_names_it_too(
        self, spark: SparkSession, service: RecordedService, tmp_path: Path, form: str
    ) -> None:
        path = self.broken(spark, service, tmp_path / "t", form)
        with pytest.raises(SparkRuntimeException) as caught:
            spark.sql("ANALYZE TABLE lake.sales.broken COMPUTE STATISTICS")
        assert caught.value.getCondition() == UNREADABLE
        assert path.removeprefix("/") in str(caught.value)
        assert "partition 'k=a b'" in str(caught.value)
