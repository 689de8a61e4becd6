"""Writes by Spark to a local disk, through the real service: what files there are, and what of failed writes is not."""

from __future__ import annotations

import datetime
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.orc
import pyarrow.parquet
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.partition_names import format_partition_name
from catalog_ext.metastore.transactions.begin import LOCATIONS_IN_PLAN
from tests.integration.lake import Lake, local_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver


pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = "id BIGINT, name STRING, price DECIMAL(10,2), seen TIMESTAMP"
ROWS = (
    "SELECT id, IF(id % 5 = 0, NULL, concat('n', id)) name, CAST(id / 4 AS DECIMAL(10,2)) price, "
    "timestamp'2025-03-01 10:00:00.125' + make_interval(0, 0, 0, 0, 0, 0, id) seen, "
    "CAST(id % 3 AS INT) k FROM range(60)"
)


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp("writes")
    # A task may fail twice before its job does.
    with local_lake(driver, folder, master="local[2,3]") as lake:
        yield lake


def new_table(lake: Lake, columns: str = COLUMNS + ", k INT", keys: str = "k", **more: str) -> str:
    """A table of a new name; ``more``: its format, and clauses."""
    name = f"t{secrets.token_hex(4)}"
    lake.sql(
        f"CREATE TABLE lake.w.{name} ({columns}) USING {more.get('format', 'parquet')} "
        + (f"PARTITIONED BY ({keys}) " if keys else "")
        + more.get("clauses", "")
    )
    return name


@pytest.mark.parametrize(
    ("fmt", "option", "suffix"),
    [
        ("parquet", "gzip", ".gz.parquet"),
        ("parquet", "", ".snappy.parquet"),
        ("orc", "zlib", ".zlib.orc"),
        ("orc", "", ".snappy.orc"),
        ("csv", "gzip", ".csv.gz"),
        ("json", "", ".json"),
    ],
)
@pytest.mark.requirement("Flink.FileSystemConnector", statement="INSERT INTO lake.w.{table}")
def test_formats_round_trip(lake: Lake, fmt: str, option: str, suffix: str) -> None:
    clauses = f"OPTIONS (compression '{option}')" if option else ""
    table = new_table(lake, format=fmt, clauses=clauses)
    for _ in range(2):
        lake.sql(f"INSERT INTO lake.w.{table} {ROWS}")
    expected = sorted(lake.rows(f"{ROWS} UNION ALL {ROWS}"))
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}"), key=repr) == sorted(expected, key=repr)
    assert all(path.endswith(suffix) for path in lake.on_disk(table))
    totals = lake.catalog.load_table(f"w.{table}").totals
    assert (totals.partitions, totals.files, totals.rows) == (3, len(lake.on_disk(table)), 120)
    assert totals.bytes == sum((lake.location(table) / path).stat().st_size for path in lake.on_disk(table))
    lake.check_clean(table)

    lake.spark.sql(ROWS).where("k = 1").writeTo(f"lake.w.{table}").option("compression", "none").overwritePartitions()
    plain = [path for path in lake.on_disk(table) if path.startswith("k=1/")]
    assert plain
    assert not any(path.endswith(suffix) for path in plain) or suffix == ".json"
    assert lake.rows(f"SELECT k, count(*) FROM lake.w.{table} GROUP BY k ORDER BY k") == [(0, 40), (1, 20), (2, 40)]
    lake.check_clean(table)


def test_text_and_no_keys(lake: Lake) -> None:
    table = new_table(lake, "line STRING", "", format="text")
    lake.sql(f"INSERT INTO lake.w.{table} VALUES ('one'), (''), ('ü')")
    lake.sql(f"INSERT OVERWRITE lake.w.{table} VALUES ('two'), ('')")
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [("",), ("two",)]
    lake.check_clean(table)


@pytest.mark.requirement("HiveDP.Issues.DirectoryName", statement="frame.writeTo(")
def test_names_are_hives(lake: Lake) -> None:
    texts: list[str | None] = ["a/b", "50%", "x=y", "t:1", "été ", " ", "a+b", "#1?2", "\x01\x7f", "[{^}]", None, ""]
    table = new_table(lake, "x INT, s STRING, d DATE, t TIMESTAMP, b BOOLEAN, f DOUBLE", "s, d, t, b, f")
    data = [(i, text, -0.0 if i % 2 else 0.0) for i, text in enumerate(texts)]
    frame = lake.spark.createDataFrame(data, "x INT, s STRING, f DOUBLE").selectExpr(
        "x", "s", "date'2024-02-29' d", "timestamp'2025-03-09 01:30:00.12' t", "true b", "f"
    )
    frame.writeTo(f"lake.w.{table}").append()
    expected = {
        format_partition_name(list("sdtbf"), [text, "2024-02-29", "2025-03-09 01:30:00.12", "true", "0.0"])
        for text in texts
    }
    assert {str(Path(path).parent) for path in lake.on_disk(table)} == expected
    assert {row[1] for row in lake.rows(f"SELECT x, s FROM lake.w.{table}")} == {t or None for t in texts}
    assert lake.rows(f"SELECT DISTINCT d, CAST(t AS STRING), b, f FROM lake.w.{table}") == [
        (datetime.date(2024, 2, 29), "2025-03-09 01:30:00.12", True, 0.0)
    ]
    lake.check_clean(table)
    assert lake.rows(f"CALL lake.system.repair_partitions(table => 'w.{table}', mode => 'sync')") == []

    # A TIMESTAMP key is the local time of the write's zone.
    frame.where("x = 0").writeTo(f"lake.w.{table}").option("timeZone", "UTC").append()
    assert any("t=2025-03-09 06%3A30%3A00.12" in path for path in lake.on_disk(table))


@pytest.mark.parametrize(
    ("value", "clauses", "words"),
    [
        ("'__HIVE_DEFAULT_PARTITION__'", "", "stands for NULL"),
        ("repeat('v', 1024)", "", "less than 1024"),
        ("repeat('é', 130)", "", "255"),
        ("'a{b'", "TBLPROPERTIES (partition_strategy = 'hive')", "special character"),
    ],
)
def test_values_that_no_directory_can_have(lake: Lake, value: str, clauses: str, words: str) -> None:
    key = "k STRING NOT NULL" if clauses else "k STRING"
    table = new_table(lake, f"x BIGINT, {key}", clauses=clauses)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 'fine')")
    with pytest.raises(PySparkException, match=words) as caught:
        # One task: another one could write into the staging directory after the failure has removed it.
        lake.sql(f"INSERT INTO lake.w.{table} SELECT id, IF(id = 99, {value}, 'fine') FROM range(0, 100, 1, 1)")
    assert caught.value.getCondition() == "CATALOG_EXT_INVALID_VALUE"
    assert "'k'" in str(caught.value)
    assert lake.rows(f"SELECT * FROM lake.w.{table}") == [(1, "fine")]
    lake.check_clean(table)


@pytest.mark.requirement("HiveDP.Design.Move", statement="INSERT INTO lake.w.{table}")
def test_failing_and_retried_tasks(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")

    def failing(x: int, failures: int) -> int:
        context = TaskContext.get()
        assert context is not None
        if x == 900 and context.attemptNumber() < failures:
            raise ValueError("this attempt fails")
        return x

    lake.spark.udf.register("failing", failing, "bigint")
    source = "SELECT failing(id, {}) AS x, id % 4 AS k FROM range(1000)"
    with pytest.raises(PySparkException, match="this attempt fails"):
        lake.sql(f"INSERT INTO lake.w.{table} {source.format(99)}")
    assert lake.on_disk(table) == []
    lake.check_clean(table)
    lake.sql(f"INSERT INTO lake.w.{table} {source.format(1)}")
    assert lake.rows(f"SELECT count(*), count(DISTINCT x), sum(x) FROM lake.w.{table}") == [(1000, 1000, 499500)]
    lake.check_clean(table)
    (newest, failed) = lake.rows(f"SELECT state, operation FROM lake.w.{table}.transactions")
    assert (newest, failed) == (("finished", "INSERT"), ("aborted", "INSERT"))


@pytest.mark.requirement(
    "Doris.Parameters.OpenPartitions",
    statement="frame.writeTo",
    differs="The setting is `write.max-open-writers`. Without it, Spark sorts the rows and a task has one open file.",
)
@pytest.mark.requirement(
    "Doris.Parameters.Scaling",
    statement="frame.writeTo",
    differs="Spark decides the number of tasks. `write.distribution-mode` decides whether a shuffle "
    "brings all rows of a partition to one task.",
)
@pytest.mark.parametrize(
    ("options", "files"),
    [
        ({"write.distribution-mode": "hash"}, {1}),
        ({"write.distribution-mode": "none"}, {2}),
        ({"write.max-open-writers": "2"}, {2}),
        ({"write.max-open-writers": "100"}, {2}),
        ({"maxRecordsPerFile": "10"}, {6}),
    ],
)
def test_writers(lake: Lake, options: dict[str, str], files: set[int]) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT, j STRING", "k, j")
    frame = lake.sql("SELECT id x, id % 5 k, concat('j', id % 2) j FROM range(0, 500, 1, 2)")
    writer = frame.writeTo(f"lake.w.{table}")
    for key, value in options.items():
        writer = writer.option(key, value)
    writer.append()
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == sorted(map(tuple, frame.collect()))
    counts: dict[str, int] = {}
    for path in lake.on_disk(table):
        counts[str(Path(path).parent)] = counts.get(str(Path(path).parent), 0) + 1
    assert len(counts) == 10
    assert set(counts.values()) == files
    lake.check_clean(table)


@pytest.mark.parametrize("mode", ["hash", "none"])
def test_keys_of_any_name(lake: Lake, mode: str) -> None:
    table = new_table(lake, "x INT, `my key.1` INT", "`my key.1`")
    frame = lake.sql("SELECT 1 x, 2 `my key.1` UNION ALL SELECT 3, 4")
    frame.writeTo(f"lake.w.{table}").option("write.distribution-mode", mode).append()
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(1, 2), (3, 4)]
    assert {str(Path(path).parent) for path in lake.on_disk(table)} == {"my key.1=2", "my key.1=4"}


@pytest.mark.requirement("Doris.Parameters.FileSize", statement="TBLPROPERTIES (hive_sink_max_file_size")
@pytest.mark.parametrize("fmt", ["parquet", "orc", "csv"])
def test_a_file_has_a_greatest_size(lake: Lake, fmt: str) -> None:
    table = new_table(
        lake, "x BIGINT, u STRING", "", format=fmt, clauses="TBLPROPERTIES (hive_sink_max_file_size = '256k')"
    )
    lake.sql(f"INSERT INTO lake.w.{table} SELECT /*+ REPARTITION(1) */ id, concat(uuid(), uuid()) FROM range(30000)")
    sizes = [(lake.location(table) / path).stat().st_size for path in lake.on_disk(table)]
    assert len(sizes) >= 3
    assert max(sizes) < 1_000_000
    assert lake.rows(f"SELECT count(*), count(DISTINCT x) FROM lake.w.{table}") == [(30000, 30000)]


def test_statistics_come_from_the_writers(lake: Lake) -> None:
    columns = (
        "a BIGINT, b STRING, c DECIMAL(20,3), d DATE, e DOUBLE, f BOOLEAN, g TIMESTAMP, h ARRAY<INT>, i TINYINT, "
        "j DOUBLE, l STRING, n TIMESTAMP_NTZ, o STRING"
    )
    values = (
        "SELECT id, IF(id = 3, NULL, concat('é', id)), CAST(id - 5 AS DECIMAL(20,3)) / 4, "
        "date_add(date'2024-02-27', CAST(id AS INT)), id / 8 - 0.5, id = 7, timestamp'2025-01-01 00:00:00', "
        "array(1), CAST(-id AS TINYINT), IF(id = 4, CAST('NaN' AS DOUBLE), id), repeat('x', 300 + CAST(id AS INT)), "
        "timestamp_ntz'2025-01-01 10:00:00.5', CAST(NULL AS STRING) FROM range(0, 10, 1, 1)"
    )

    def bounds(minimum: Any, maximum: Any, nulls: int = 0) -> dict[str, Any]:
        return {"min": minimum, "max": maximum, "nulls": nulls}

    expected = {
        "a": bounds("0", "9"), "b": bounds("é0", "é9", 1), "c": bounds("-1.250", "1.000"),
        "d": bounds("2024-02-27", "2024-03-07"), "e": bounds("-0.5", "0.625"), "f": bounds("false", "true"),
        "g": bounds(None, None), "i": bounds("-9", "0"), "j": bounds(None, None), "l": bounds(None, None),
        "n": bounds("2025-01-01 10:00:00.5", "2025-01-01 10:00:00.5"), "o": bounds(None, None, 10),
    }  # fmt: skip
    for fmt in ("parquet", "orc"):
        table = new_table(lake, columns, "", format=fmt)
        lake.sql(f"INSERT INTO lake.w.{table} {values}")
        (found,) = lake.statistics(table)
        if fmt == "orc":
            expected["n"] = bounds(None, None)
        assert found == expected, fmt


@pytest.mark.parametrize("fmt", ["parquet", "orc"])
def test_the_first_columns_have_statistics_and_no_more(lake: Lake, fmt: str) -> None:
    names = [f"c{number:03d}" for number in range(150)]
    table = new_table(lake, ", ".join(f"{name} INT" for name in names), "", format=fmt)
    row = lake.sql(f"SELECT {', '.join(f'{number} AS {name}' for number, name in enumerate(names))}")

    def written(**options: str) -> list[str]:
        row.writeTo(f"lake.w.{table}").options(**options).append()
        return sorted(lake.statistics(table)[-1])

    assert written() == names[:100]
    assert written(**{"write.statistics-columns": "all"}) == names
    lake.sql(f"ALTER TABLE lake.w.{table} SET TBLPROPERTIES ('write.statistics-columns' = '3')")
    assert written() == names[:3]
    lake.spark.conf.set("spark.sql.catalog.lake.write.statistics-columns", "7")
    try:
        assert written() == names[:7]
    finally:
        lake.spark.conf.unset("spark.sql.catalog.lake.write.statistics-columns")
    # Of a file without statistics nothing is kept: the last one is the one before.
    assert written(**{"write.statistics-columns": "0"}) == names[:7]
    assert lake.rows(f"SELECT count(*), max(c149) FROM lake.w.{table}") == [(5, 149)]
    # A file of another writer gets its statistics from ANALYZE.
    written_here = next(path for path in lake.on_disk(table) if "part-" in path)
    (lake.location(table) / f"new.{fmt}").write_bytes((lake.location(table) / written_here).read_bytes())
    (lake.location(table) / f".new.{fmt}.crc").unlink(missing_ok=True)
    lake.sql(f"CALL lake.system.repair_partitions('w.{table}')", f"ANALYZE TABLE lake.w.{table} COMPUTE STATISTICS")
    assert sorted(lake.statistics(table)[-1]) == names[:3]
    wrong = lake.error(f"ALTER TABLE lake.w.{table} SET TBLPROPERTIES ('write.statistics-columns' = 'x')")
    assert "a whole number from 0 to 1000000, or 'all'" in str(wrong)


def test_the_driver_holds_reports_packed_and_parses_one_after_the_other(lake: Lake) -> None:
    """200 files of 100 columns: a tenth of their text; what comes later is not looked at before it is asked for."""
    jvm = lake.spark._jvm
    staged = jvm.org.apache.spark.sql.catalogext.write.StagedFiles  # type: ignore[union-attr]
    mapper = jvm.org.apache.spark.sql.catalogext.service.Json.mapper()  # type: ignore[union-attr]
    columns = {f"c{number}": {"min": str(number), "max": str(number * 1000), "nulls": 0} for number in range(100)}
    files = [{"partition": f"k={n}", "name": f"part-{n}", "size": n, "statistics": columns} for n in range(200)]
    text = json.dumps(files)
    message = staged.message(mapper.readTree(text))
    assert len(message.commitMsg().obj()) * 10 < len(text)
    messages = jvm.java.util.ArrayList()  # type: ignore[union-attr]
    for each in (message, None, staged.message(mapper.readTree("[]")), message, "no message of ours"):
        messages.add(each)
    read = staged.read(jvm.org.apache.spark.api.python.PythonUtils.toSeq(messages))  # type: ignore[union-attr]
    names = [read.next().get("name").asText() for _ in range(400)]
    assert names == [file["name"] for file in files] * 2
    with pytest.raises(Py4JJavaError, match="ClassCastException"):
        read.hasNext()


def test_partitions_at_locations_of_their_own_are_written_there(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    for k in range(3):
        (lake.folder / table / f"own-{k}").mkdir(parents=True)
    added = " ".join(f"PARTITION (k = {k}) LOCATION '{lake.folder}/{table}/own-{k}'" for k in range(3))
    lake.sql(
        f"ALTER TABLE lake.w.{table} ADD {added}",
        f"INSERT INTO lake.w.{table} SELECT id, id % 4 FROM range(0, 8, 1, 2)",
        f"INSERT INTO lake.w.{table} PARTITION (k = 1) SELECT 100",
        f"INSERT OVERWRITE lake.w.{table} PARTITION (k = 2) SELECT 200",
    )
    found = lake.rows(f"SELECT k, sum(x), first(_metadata.file_path) FROM lake.w.{table} GROUP BY k ORDER BY k")
    assert [(k, total) for k, total, _ in found] == [(0, 4), (1, 106), (2, 200), (3, 10)]
    own = [path.split(f"/{table}/")[1].split("/")[0] for _, _, path in found]
    assert own == ["own-0", "own-1", "own-2", "k=3"]


def test_more_locations_than_a_plan_holds_are_asked_for(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    there = lake.catalog.load_table(f"w.{table}")
    own = lake.folder / f"{table}-own"
    added = [AddPartition(f"k={k}", (), location=f"file://{own}/{k}") for k in range(LOCATIONS_IN_PLAN + 1)]
    lake.catalog.index.commits.apply_changes(there.table_id, added, operation="repair", deliver=False)
    lake.sql(
        f"REFRESH TABLE lake.w.{table}",
        f"INSERT INTO lake.w.{table} SELECT id, id % 3 + 1000 FROM range(0, 12, 1, 2)",
        f"INSERT OVERWRITE lake.w.{table} SELECT 100, 1000 + id FROM range(2, 4)",
    )
    found = lake.rows(f"SELECT k, sum(x), min(_metadata.file_path) FROM lake.w.{table} GROUP BY k ORDER BY k")
    assert [(k, total) for k, total, _ in found] == [(1000, 18), (1001, 22), (1002, 100), (1003, 100)]
    places = [path.removeprefix("file:").removeprefix(str(lake.folder)) for _, _, path in found]
    assert [place.split("/")[1:3] for place in places[:1]] == [[f"{table}-own", "1000"]]
    assert all(f"/{table}/k=100" in place for place in places[1:])
    left = [p for p in (*own.rglob("*"), *lake.location(table).rglob("*")) if "_catalog_ext_staging" in str(p)]
    assert [p for p in left if p.is_file()] == []


def test_files_that_hive_reads(lake: Lake) -> None:
    for fmt in ("parquet", "orc"):
        tables = {
            wanted: new_table(
                lake, "Id BIGINT, Price DECIMAL(10,2)", "", format=fmt,
                clauses=f"TBLPROPERTIES ('hive-compatible' = '{wanted}')",
            )
            for wanted in ("true", "false")
        }  # fmt: skip
        found = {}
        for wanted, table in tables.items():
            lake.sql(f"INSERT INTO lake.w.{table} SELECT 1, CAST(1.5 AS DECIMAL(10,2))")
            assert lake.rows(f"SELECT ID, price FROM lake.w.{table}")[0][0] == 1
            (path,) = lake.on_disk(table)
            file = lake.location(table) / path
            if fmt == "parquet":
                found[wanted] = pyarrow.parquet.ParquetFile(file).schema.column(1).physical_type
            else:
                found[wanted] = pyarrow.orc.ORCFile(file).schema.names[0]
        assert found == (
            {"true": "FIXED_LEN_BYTE_ARRAY", "false": "INT64"} if fmt == "parquet" else {"true": "id", "false": "Id"}
        )
    assert lake.spark.conf.get("spark.sql.parquet.writeLegacyFormat") == "false"


def test_keys_in_the_files(lake: Lake) -> None:
    properties = "TBLPROPERTIES (partition_strategy = 'hive', partition_columns_in_data_file = 'true')"
    table = new_table(lake, "x INT, k INT NOT NULL", clauses=properties)
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 7)")
    (path,) = lake.on_disk(table)
    assert pyarrow.parquet.ParquetFile(lake.location(table) / path).schema_arrow.names == ["x", "k"]
    assert lake.rows(f"SELECT * FROM lake.w.{table}") == [(1, 7)]


def test_limits_on_dynamic_partitions(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    insert = f"INSERT INTO lake.w.{table} SELECT id, id FROM range(0, 10, 1, 2)"
    for setting, limit, count in (("", 7, "10"), (".pernode", 3, "4")):
        key = f"hive.exec.max.dynamic.partitions{setting}"
        lake.spark.conf.set(key, str(limit))
        try:
            with pytest.raises(PySparkException, match=f"makes {count} dynamic.*allows {limit}") as caught:
                lake.sql(insert)
        finally:
            lake.spark.conf.unset(key)
        assert caught.value.getCondition() == "CATALOG_EXT_TOO_MANY_PARTITIONS"
        assert lake.on_disk(table) == []
    lake.sql(insert)
    lake.sql(f"ALTER TABLE lake.w.{table} SET TBLPROPERTIES ('hive.exec.max.dynamic.partitions' = '1')")
    lake.sql(f"INSERT INTO lake.w.{table} PARTITION (k = 77) SELECT id FROM range(5)")
    assert lake.rows(f"SELECT count(*) FROM lake.w.{table}") == [(15,)]
    lake.check_clean(table)


def test_a_batch_is_written_once(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    frame = lake.sql("SELECT id x, id k FROM range(3)")
    for version in ("1", "1", "0", "2"):
        frame.writeTo(f"lake.w.{table}").option("txn-app-id", "job").option("txn-version", version).append()
    assert lake.rows(f"SELECT count(*) FROM lake.w.{table}") == [(6,)]
    with pytest.raises(AnalysisException, match="txn-version"):
        frame.writeTo(f"lake.w.{table}").option("txn-app-id", "job").append()
    lake.check_clean(table)


@pytest.mark.requirement(
    "Flink.CatalogProperties",
    statement="INSERT OVERWRITE lake.w.{table}",
    differs="A partition can have its own location; its format and SerDe are those of the table.",
)
def test_partitions_at_their_own_location(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT", clauses="TBLPROPERTIES ('overwrite-mode' = 'relocate')")
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 1), (2, 2)")
    lake.sql(f"INSERT OVERWRITE lake.w.{table} VALUES (3, 1)")
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (4, 1)")
    assert sorted(lake.rows(f"SELECT * FROM lake.w.{table}")) == [(2, 2), (3, 1), (4, 1)]
    moved = [path for path in lake.indexed(table) if path.startswith("_catalog_ext_data/")]
    assert len(moved) == 2
    assert len({str(Path(path).parent) for path in moved}) == 1


def test_metrics_and_explain(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    lake.sql(f"EXPLAIN INSERT INTO lake.w.{table} SELECT id, id % 2 FROM range(10)").collect()
    assert lake.rows(f"SELECT * FROM lake.w.{table}.transactions") == []
    lake.sql(f"INSERT INTO lake.w.{table} SELECT id, id % 2 FROM range(0, 10, 1, 1)")
    jvm: Any = lake.spark._jvm
    lake.spark._jsc.sc().listenerBus().waitUntilEmpty()
    store = lake.spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    (execution,) = [
        e
        for e in (executions.apply(i) for i in range(executions.size()))
        if "AppendData" in e.physicalPlanDescription() and table in e.physicalPlanDescription()
    ][-1:]
    values = store.executionMetrics(execution.executionId())
    names = jvm.scala.jdk.javaapi.CollectionConverters.asJava(execution.metrics())
    found = {m.name(): values.get(m.accumulatorId()) for m in names}
    shown = {name: value.get() for name, value in found.items() if value.isDefined()}
    assert shown["number of files written"] == "2"
    assert shown["number of partitions added or changed"] == "2"
    assert shown["number of rows written"] == "10"
    assert int(shown["bytes written"].replace(",", "")) > 500
    assert "commit time in milliseconds" in shown


def test_a_read_only_directory(lake: Lake) -> None:
    table = new_table(lake, "x BIGINT, k BIGINT")
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (1, 1)")
    blocked = lake.location(table) / "_catalog_ext_staging"
    # A file where the directory would be: permissions do not stop a test that runs as root.
    blocked.write_text("in the way")
    with pytest.raises(PySparkException, match="cannot be written") as caught:
        lake.sql(f"INSERT INTO lake.w.{table} VALUES (2, 1)")
    assert str(caught.value.getCondition()).startswith("CATALOG_EXT_")
    blocked.unlink()
    lake.sql(f"INSERT INTO lake.w.{table} VALUES (3, 1)")
    assert sorted(lake.rows(f"SELECT x FROM lake.w.{table}")) == [(1,), (3,)]
    lake.check_clean(table)
