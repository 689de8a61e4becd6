"""Files that are left out by what the index knows of their columns, and answers from it, against Spark's own rows."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from tests.integration.connector.test_connector_predicates import answered, counted_by, gathered, truth
from tests.integration.scans import files_read
from tests.integration.spark_driver import INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LONG = "z" * 300
COLUMNS: dict[str, tuple[list[str], list[str]]] = {
    "tiny": (["TINYINT", "1", "-5", "127", "NULL"], ["1Y", "-6Y", "127Y"]),
    "small": (["SMALLINT", "300", "-300", "7", "NULL"], ["300S", "301S"]),
    "num": (["INT", "1", "2", "30", "NULL"], ["2", "30", "31", "2147483647", "3000000000"]),
    "big": (["BIGINT", "9007199254740993", "-1", "5", "NULL"], ["9007199254740993", "9007199254740992", "0", "-1"]),
    "price": (["DECIMAL(12,2)", "1.50", "1000.25", "-0.01", "NULL"], ["1.5", "1.505", "-0.01", "1e9BD"]),
    "wide": (["DECIMAL(30,4)", "12345678901234567890.5", "0", "-7", "NULL"], ["12345678901234567890.5", "0", "-8"]),
    "day": (
        ["DATE", "'2025-01-02'", "'1999-12-31'", "'0001-01-01'", "NULL"],
        ["date'2025-01-02'", "date'0001-01-01'", "date'1500-01-01'", "date'+10000-01-01'"],
    ),
    "local": (
        ["TIMESTAMP_NTZ", "'2025-03-09 02:45:00'", "'1970-01-01 00:00:00'", "'2025-06-01 10:00:00.000001'", "NULL"],
        ["timestamp_ntz'2025-03-09 02:45:00'", "timestamp_ntz'2025-06-01 10:00:00'"],
    ),
    "at": (
        ["TIMESTAMP", "'2025-03-09 02:45:00'", "'1970-01-01 00:00:00'", "'2025-06-01 10:00:00'", "NULL"],
        ["timestamp'2025-03-09 03:45:00'", "timestamp'2025-06-01 10:00:00'"],
    ),
    "flag": (["BOOLEAN", "true", "false", "true", "NULL"], ["true", "false"]),
    "text": (["STRING", "'a'", "'été'", f"'{LONG}'", "NULL"], ["'a'", "''", "'b'", "'été'", f"'{LONG}'", "'z'"]),
    "short": (["VARCHAR(5)", "'a'", "'ab '", "'zz'", "NULL"], ["'a'", "'ab'", "'abcdefgh'"]),
    "fixed": (["CHAR(3)", "'a'", "'abc'", "'z'", "NULL"], ["'a'", "'abc  '", "'zzzz'"]),
    "ratio": (["DOUBLE", "-0.0", "2.5", "'NaN'", "NULL"], ["0", "2.5", "double('NaN')", "double('Infinity')"]),
    "part": (["FLOAT", "1.1", "0.0", "'NaN'", "NULL"], ["float('1.1')", "1.1", "float('NaN')"]),
}  # fmt: skip
"""By column the type, one value a file (the last but one stands beside a NULL) and literals to compare with."""
MORE = {
    "text": ("startswith(text, 'a')", "text LIKE 'é%'", "startswith(text, 'zz')", "text LIKE '%t%'",
             "startswith(text, '')"),
    "flag": ("flag", "NOT flag", "flag <=> NULL"),
    "ratio": ("isnan(ratio)", "NOT isnan(ratio)", "ratio > 1e300"),
    "num": ("num > 1 AND num < 30", "num = 1 OR big = 5", "num = 31 OR text = 'a'", "num % 2 = 0", "num + 1 > 30",
            "num > 2 AND (text = 'none' OR price < 0)", "CAST(num AS STRING) = '2'"),
}  # fmt: skip
KINDS = ("parquet", "orc")


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("skipping")
    with driver.catalog(
        INTERPRETED, warehouse=str(folder / "warehouse"), index=f"sqlite:///{folder}/index.db", metastore=None
    ) as session:
        session.sql("CREATE NAMESPACE lake.s")
        yield session


@pytest.fixture(scope="module", params=KINDS)
def kinds(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A table with a file for each value of `COLUMNS`, and one without rows."""
    table = f"lake.s.{request.param}"
    columns = ", ".join(f"{name} {values[0]}" for name, (values, _) in COLUMNS.items())
    spark.sql(f"CREATE TABLE {table} ({columns}, k INT) USING {request.param} PARTITIONED BY (k)")
    for number in range(4):
        rows = [[values[number + 1] for values, _ in COLUMNS.values()]]
        if number == 2:
            rows.append(["NULL"] * len(COLUMNS))
        literals = ", ".join(f"({', '.join(row)}, {number})" for row in rows)
        casts = ", ".join(f"CAST(c{i} AS {values[0]})" for i, (values, _) in enumerate(COLUMNS.values()))
        names = ", ".join(f"c{i}" for i in range(len(COLUMNS)))
        spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ {casts}, k FROM VALUES {literals} AS v({names}, k)")
    spark.sql(
        f"SELECT * FROM {table} WITH ('index-answers' = 'false', 'file-skipping' = 'false')"
    ).localCheckpoint().createOrReplaceTempView("truth")
    return table


def conditions(column: str, kind: str) -> list[str]:
    literals = COLUMNS[column][1]
    found = [f"{column} {op} {value}" for op in ("=", "!=", "<", "<=", ">", ">=") for value in literals]
    found += [f"{column} <=> {literals[0]}", f"{literals[0]} < {column}", f"{column} IN ({', '.join(literals)})"]
    found += [f"{column} NOT IN ({literals[0]})", f"{column} IS NULL"]
    # Spark's own filters of ORC fail at a NULL there.
    found += [f"{column} IN ({literals[-1]}, NULL)"] if kind == "parquet" else []
    return [*found, f"{column} IS NOT NULL", f"NOT ({column} > {literals[0]})", *MORE.get(column, ())]


@pytest.mark.parametrize("column", COLUMNS)
def test_filters_answer_as_spark_does(spark: SparkSession, kinds: str, column: str) -> None:
    every = conditions(column, kinds.rpartition(".")[2])
    assert counted_by(spark, kinds, every) == truth(spark, every)


@pytest.mark.parametrize("kinds", ["parquet"], indirect=True)
@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("num = 1", 1), ("num > 2", 1), ("num < 1", 0), ("num >= 1", 3), ("num IS NULL", 2), ("num IS NOT NULL", 3),
        ("num IN (2, 5, 31)", 1), ("num <> 1", 2), ("num = 1 OR big = 5", 2), ("num > 0 AND text = 'a'", 2),
        ("day >= date'2000-01-01'", 2), ("price < 0", 1), ("wide = 0", 1), ("NOT flag", 1), ("flag", 2),
        ("startswith(text, 'a')", 2), ("text = 'été'", 2), ("local = timestamp_ntz'1970-01-01 00:00:00'", 1),
        # Bounds of these are not kept, or NaN may be above them.
        ("at = timestamp'1970-01-01 00:00:00'", 4), ("ratio > 100", 3), ("ratio < -1", 1),
        ("num % 2 = 0", 3), ("k = 1 AND num = 1", 0), ("k = 1 OR num = 1", 4),
    ],
)  # fmt: skip
def test_only_files_that_may_hold_are_read(spark: SparkSession, kinds: str, condition: str, files: int) -> None:
    frame = spark.sql(f"SELECT text FROM {kinds} WHERE {condition}")
    frame.collect()
    assert files_read(frame) == files
    off = spark.sql(f"SELECT text FROM {kinds} WITH ('file-skipping' = 'false') WHERE {condition}")
    off.collect()
    assert files_read(off) == (1 if "k = 1 AND" in condition else 4)


@pytest.mark.parametrize("kinds", ["parquet"], indirect=True)
def test_a_filter_may_be_of_keys_and_of_columns(spark: SparkSession, kinds: str) -> None:
    condition = "(k = 0 AND num = 1) OR (k = 1 AND num = 30) OR (`$file_size` > 0 AND k = 2 AND num < 0)"
    assert files(spark.sql(f"SELECT text FROM {kinds} WHERE {condition}")) == (["('a',)"], 2)


def test_the_scan_says_what_it_left_out(spark: SparkSession, kinds: str) -> None:
    frame = spark.sql(f"SELECT text FROM {kinds} WHERE num = 1")
    frame.collect()
    assert "FilesSkipped: 3" in frame._jdf.queryExecution().executedPlan().toString()


QUESTIONS = (
    ("SELECT count(num), min(num), max(num), count(*) FROM {t}", True),
    ("SELECT max(day), min(local), max(price), min(wide), max(big) FROM {t}", None),
    ("SELECT count(text), count(ratio), count(flag), max(flag) FROM {t}", True),
    ("SELECT k, count(num), max(num), min(k) FROM {t} GROUP BY k", True),
    ("SELECT count(num), max(num) FROM {t} WHERE k IN (1, 2)", True),
    ("SELECT count(num), max(num) FROM {t} WHERE k % 2 = 0", True),
    ("SELECT max(num) FROM {t} WHERE k > 100", True),
    ("SELECT max(num) + 1, count(num) * 2 FROM {t} HAVING count(num) > 1", True),
    ("SELECT max(text) FROM {t}", False),
    ("SELECT max(ratio) FROM {t}", False),
    ("SELECT max(at) FROM {t}", False),
    ("SELECT max(fixed), min(short) FROM {t}", False),
    ("SELECT count(at) FROM {t}", False),
    ("SELECT max(num) FROM {t} WHERE num < 30", False),
    ("SELECT count(DISTINCT num) FROM {t}", False),
    ("SELECT sum(num) FROM {t}", False),
)


@pytest.mark.parametrize(("question", "by_index"), QUESTIONS)
def test_what_the_index_knows_of_columns_is_what_is_in_the_files(
    spark: SparkSession, kinds: str, question: str, by_index: bool | None
) -> None:
    frame = spark.sql(question.format(t=kinds))
    assert by_index is None or answered(frame) == by_index
    assert gathered(frame) == gathered(spark.sql(question.format(t="truth")))
    scanned = spark.sql(question.format(t=f"{kinds} WITH ('index-answers' = 'false')"))
    assert not answered(scanned)


def files(frame: DataFrame) -> tuple[list[str], int]:
    return gathered(frame), files_read(frame)


def test_what_others_wrote_is_left_out_only_where_that_is_safe(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Other writers leave NaN out of the bounds; files without known bounds are read."""
    # By the bounds in the file Spark's own reader would lose the NaN.
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.parquet.filterPushdown"))
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    for k, values in ((1, [1.0, float("nan")]), (2, [2.0, 3.0])):
        (tmp_path / f"k={k}").mkdir()
        pq.write_table(pa.table({"x": values, "n": [k, None]}), tmp_path / f"k={k}" / "f.parquet")
    spark.sql(
        f"CALL lake.system.register_table(table => 's.others', location => '{tmp_path}', "
        "partition_columns => map('k', 'int'), schema => 'x DOUBLE, n BIGINT')"
    )
    spark.sql("CALL lake.system.repair_partitions(table => 's.others')")
    for analyzed in (False, True):
        assert files(spark.sql("SELECT k FROM lake.s.others WHERE x > 5")) == (["(1,)"], 2)
        expected = (["(1,)"], 1) if analyzed else (["(1,)"], 2)
        assert files(spark.sql("SELECT k FROM lake.s.others WHERE n < 2")) == expected
        question = spark.sql("SELECT count(n), max(n) FROM lake.s.others")
        assert answered(question) == analyzed
        assert gathered(question) == ["(2, 2)"]
        if not analyzed:
            spark.sql("ANALYZE TABLE lake.s.others COMPUTE STATISTICS FOR ALL COLUMNS")


def test_columns_that_came_later(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lake.s.later PARTITIONED BY (k) AS SELECT 1 AS id, 1 AS k")
    spark.sql('ALTER TABLE lake.s.later ADD COLUMNS (c INT, `a "b` INT, `x.y` INT)')
    spark.sql('INSERT INTO lake.s.later (id, c, `a "b`, `x.y`, k) VALUES (2, 5, 6, 7, 2)')
    for column, value in (("c", 5), ('`a "b`', 6), ("`x.y`", 7)):
        assert gathered(spark.sql(f"SELECT id FROM lake.s.later WHERE {column} IS NULL")) == ["(1,)"]
        assert gathered(spark.sql(f"SELECT id FROM lake.s.later WHERE {column} = {value}")) == ["(2,)"]
        assert gathered(spark.sql(f"SELECT count({column}) FROM lake.s.later")) == ["(1,)"]


def test_reader_that_matches_columns_by_position_reads_everything(spark: SparkSession, kinds: str) -> None:
    for option in ("'orc.force.positional.evolution' = 'true'",) if kinds.endswith("orc") else ():
        frame = spark.sql(f"SELECT text FROM {kinds} WITH ({option}) WHERE num = 1")
        assert files(frame) == (["('a',)"], 4)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert files(spark.sql(f"SELECT text FROM {kinds} WHERE num = 1")) == (["('a',)"], 4)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_filter_beside_a_join_lists_nothing_before_the_join_says_what(spark: SparkSession, kinds: str) -> None:
    frame = spark.sql(
        f"SELECT t.text FROM {kinds} t JOIN (SELECT 0 AS k) d ON t.k = d.k AND d.k < (SELECT 5) WHERE t.num = 1"
    )
    assert gathered(frame) == ["('a',)"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_that_was_float_when_its_files_were_written(spark: SparkSession, kind: str) -> None:
    """The FLOAT 0.7 is the DOUBLE 0.699999988…, and not what its text says."""
    table = f"lake.s.was_float_{kind}"
    spark.sql(f"CREATE TABLE {table} USING {kind} PARTITIONED BY (k) AS SELECT CAST(0.7 AS FLOAT) AS x, 1 AS k")
    spark.sql(f"INSERT INTO {table} SELECT CAST(0.1 AS FLOAT), 2")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN x TYPE DOUBLE")
    found = {"x = CAST(CAST(0.7 AS FLOAT) AS DOUBLE)": 1, "x < 0.7D AND k = 1": 1, "x > 0.1D AND k = 2": 1,
             "x IN (CAST(CAST(0.1 AS FLOAT) AS DOUBLE), 5D)": 1}  # fmt: skip
    asked = ", ".join(f"(SELECT count(*) FROM {table} WHERE {condition})" for condition in found)
    assert gathered(spark.sql(f"SELECT {asked}")) == [str(tuple(found.values()))]
    assert files(spark.sql(f"SELECT k FROM {table} WHERE x < 0.5D")) == (["(2,)"], 1), "files are left out all the same"


OTHER_TYPES: dict[str, tuple[str, dict[str, pa.Array]]] = {
    "parquet": (
        "d DECIMAL(11,4), i DECIMAL(12,2), n TIMESTAMP_NTZ, u DECIMAL(20,0), b TINYINT",
        {
            "d": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(7, 2)),
            "i": pa.array([5, 6], pa.int32()),
            "n": pa.array([datetime(2025, 1, 1), datetime(2025, 1, 2)], pa.timestamp("ms")),
            "u": pa.array([1, 2**64 - 1], pa.uint64()),
            "b": pa.array([1, 300], pa.int32()),
        },
    ),
    "orc": (
        "d DECIMAL(9,2), i INT, s INT, b TINYINT",
        {
            "d": pa.array([Decimal("1.5050"), Decimal("1.5049")], pa.decimal128(9, 4)),
            "i": pa.array([5, 5000000000], pa.int64()),
            "s": pa.array(["7", "none"]),
            "b": pa.array([1, 2], pa.int32()),
        },
    ),
}
"""What others wrote, and a table's types to which Spark's readers convert it: by another rule than bounds are."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_readers_convert_has_no_bounds(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    schema, content = OTHER_TYPES[kind]
    (tmp_path / "k=1").mkdir()
    if kind == "orc":
        orc.write_table(pa.table(content), str(tmp_path / "k=1" / "f.orc"))
    else:
        pq.write_table(pa.table(content), tmp_path / "k=1" / "f.parquet", store_decimal_as_integer=True)
    spark.sql(
        f"CALL lake.system.register_table(table => 's.other_{kind}', location => '{tmp_path}', format => '{kind}', "
        f"partition_columns => map('k', 'int'), schema => '{schema}')"
    )
    spark.sql(f"CALL lake.system.repair_partitions(table => 's.other_{kind}')")
    name = f"lake.s.other_{kind}"
    spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS")
    scanned = spark.sql(f"SELECT * FROM {name} WITH ('index-answers' = 'false', 'file-skipping' = 'false')")
    values = scanned.collect()
    for column in scanned.columns:
        seen = [row[column] for row in values if row[column] is not None]
        question = spark.sql(f"SELECT min({column}), max({column}), count({column}) FROM {name}")
        assert [tuple(row) for row in question.collect()] == [(min(seen), max(seen), len(seen))], column
        # Of the others Spark's own filters do not find what its reader makes of them.
        for value in seen if column in "dinu" else ():
            literal = f"CAST('{value}' AS {scanned.schema[column].dataType.simpleString()})"
            assert spark.sql(f"SELECT {column} FROM {name} WHERE {column} = {literal}").count() == seen.count(value)


RETURNS = {
    "dropped": ["DROP COLUMN c", "ADD COLUMN c INT"],
    "renamed": ["RENAME COLUMN c TO old", "ADD COLUMN c INT"],
    "replaced": ["DROP COLUMN c", "REPLACE COLUMNS (k INT, c INT)"],
}


@pytest.mark.parametrize("how", RETURNS)
def test_a_column_that_came_back_with_another_type(spark: SparkSession, how: str) -> None:
    """ORC's readers make numbers of the texts in files that are there; those are in another order."""
    table = f"lake.s.returned_{how}"

    def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(query).collect()]

    # Spark's own filters of ORC files cannot be asked of a column that its reader converts.
    spark.conf.set("spark.sql.orc.filterPushdown", False)
    spark.sql(f"CREATE TABLE {table} (k INT, c STRING) USING orc")
    spark.sql(f"INSERT INTO {table} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, '10'), (2, '9'), (3, NULL)")
    for change in RETURNS[how]:
        spark.sql(f"ALTER TABLE {table} {change}")
    assert rows(f"SELECT min(c), max(c), count(c) FROM {table}") == [(9, 10, 2)]
    assert rows(f"SELECT k FROM {table} WHERE c = 10") == [(1,)]
    # What is written now, at the very version of the change, is known as of any other column.
    spark.sql(f"INSERT INTO {table} (k, c) SELECT /*+ COALESCE(1) */ * FROM VALUES (4, 100), (5, 20)")
    frame = spark.sql(f"SELECT k FROM {table} WHERE c = 11")
    assert frame.collect() == []
    assert files_read(frame) == 1
    assert rows(f"SELECT k FROM {table} WHERE c = 100") == [(4,)]
    spark.conf.unset("spark.sql.orc.filterPushdown")


def test_an_answer_that_is_not_known_stays_so(spark: SparkSession) -> None:
    """The producer of the groups stops then, so that not all of them are held."""
    jvm: Any = spark._jvm
    scan = jvm.org.apache.spark.sql.catalogext.scan
    nothing = jvm.scala.Option.empty()
    keys = jvm.org.apache.spark.sql.types.StructType()
    none = jvm.scala.jdk.javaapi.CollectionConverters.asScala(jvm.java.util.ArrayList()).toSeq()
    rows = scan.AnswerRows(keys, scan.PartitionFilter(keys, none), none, none, nothing, False)
    row = jvm.org.apache.spark.sql.catalyst.InternalRow.empty()

    def take(count: Any) -> bool:
        return bool(rows.take(scan.PartitionGroup(0, "", row, 1, 1, 10, count, nothing)))

    assert take(jvm.scala.Option.apply(1))
    assert not take(nothing)
    assert not take(jvm.scala.Option.apply(0))
    assert rows.answered().isEmpty()


def test_statistics_of_columns_fit_the_rows_of_a_part_of_the_table(spark: SparkSession) -> None:
    """5,000 of 100,000 rows are NULL, and 2,000 are read: more NULLs than rows would say that none is left."""
    spark.sql("CREATE TABLE lake.s.days (id INT, c INT, ds STRING) PARTITIONED BY (ds)")
    spark.sql(
        "INSERT INTO lake.s.days SELECT id, IF(id % 100 < 5, NULL, id), concat('d', id DIV 2000) FROM range(100000)"
    )
    spark.sql("ANALYZE TABLE lake.s.days COMPUTE STATISTICS FOR COLUMNS c, id, ds")
    spark.conf.set("spark.sql.cbo.enabled", "true")
    try:
        for condition, least, most in (
            ("ds = 'd1' AND c IS NOT NULL", 1800, 2000),
            ("ds = 'd1' AND c IS NULL", 50, 200),
            ("c IS NOT NULL", 90_000, 100_000),
        ):
            plan = spark.sql(f"EXPLAIN COST SELECT * FROM lake.s.days WHERE {condition}").collect()[0][0]
            rows = re.findall(r"rowCount=([0-9.E+]+)\)", plan)
            assert least <= float(rows[0]) <= most, plan
    finally:
        spark.conf.unset("spark.sql.cbo.enabled")
