"""Filters on typed keys through the real service and the connector, against Spark's own answer on the same values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from catalog_ext.metastore.model.batches import batched
from tests.integration.spark_driver import INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.integration.spark_driver import Driver


pytestmark = [pytest.mark.spark, pytest.mark.slow]

DEFAULT = "__HIVE_DEFAULT_PARTITION__"
CASES: dict[str, tuple[list[str], list[str]]] = {
    "int": (["01", "1", "-2", DEFAULT, "", "+3", "10", "2147483647"],
            ["1", "-2", "3", "0", "3000000000", "-3000000000", "1.5"]),
    "bigint": (["9", "10", "-0", "0"], ["9", "0", "10"]),
    "tinyint": (["1", "-5"], ["-5", "300", "-300", "0.5"]),
    "decimal(5,2)": (["1.5", "1.50", "10", "-3"], ["1.5", "1.50", "10", "0", "1.505", "1000", "-1e30BD"]),
    "boolean": (["true", "false", DEFAULT], ["true", "false"]),
    "date": (["2025-01-02", "2024-12-31", DEFAULT, "0001-01-01"],
             ["'2025-01-02'", "'2024-12-31'", "'1900-01-01'", "date'+10000-01-01'",
         "date'0000-12-31'", "date'-0044-03-15'"]),
    "string": (
        ["B", "a", "", DEFAULT, "a%20b", "a b", "%zz", "été", "Z", "_x", "a%25", "100"],
        ["'a'", "''", "'B'", "'a b'", "'a%'", "'é'", "'%zz'"],
    ),
    "varchar(5)": (
        ["a", "abc", "abc ", "", "abcde", "abcde "],
        ["'abcde'", "'abcde '", "'a'", "'ab'", "'abc'", "'abc      '", "'abcdef'", "'zzzzzzzz'"],
    ),
    "char(3)": (["a", "abc", "a  ", "ab "], ["'a'", "'abc'", "'a '", "'abc   '", "'abcd'", "'zzzz'"]),
    "double": (["-0.0", "0.0", "2.5", "NaN", "1e3", "-Infinity"], ["0", "2.5", "double('NaN')", "1000"]),
    "float": (["1.1", "2"], ["1.1", "float('1.1')"]),
    "timestamp": (
        ["2025-03-09 01%3A30%3A00", "2025-03-09 02%3A45%3A00", "2025-03-09 03%3A30%3A00", "2025-11-02 01%3A30%3A00",
         "2025-06-01 00%3A00%3A00", "2025-06-01 10%3A00%3A00.5", DEFAULT],
        ["timestamp'2025-06-01 00:00:00'", "timestamp'2025-03-09 03:40:00'", "timestamp'2025-06-01 10:00:00.5'",
         "timestamp'+10000-01-01 00:00:00'", "timestamp'0000-06-01 00:00:00'"],
    ),
    "timestamp_ntz": (["2025-03-09 02%3A45%3A00", "2025-06-01"], ["timestamp_ntz'2025-06-01 00:00:00'",
                      "timestamp_ntz'+10000-01-01 00:00:00'", "timestamp_ntz'-0044-03-15 12:00:00'"]),
}  # fmt: skip
TEXT_CONDITIONS = (
    "k LIKE 'a%'", "k LIKE '%b'", "k LIKE '%b%'", "k LIKE 'a_b'", r"k LIKE '%\\%%'", "startswith(k, '')",
    "contains(k, '%')", "lower(k) = 'b'", "k NOT LIKE 'a%'", "upper(k) IN ('A', 'B')",
    "k RLIKE '^[a-z]+$'", "k NOT RLIKE 'b'", "substr(k, 1, 1) = 'a'", "length(k) > 2", "k LIKE '_'", "k NOT LIKE '_%'",
    "try_cast(k AS INT) > 5", "k || 'x' <=> 'ax'", "coalesce(k, 'none') = 'none'", "k LIKE '%' || k",
)  # fmt: skip
MORE_CONDITIONS = {
    "date": ("year(k) = 2025", "date_format(k, 'MM') = '12'", "k + 1 > date'2025-01-02'",
             "coalesce(k, current_date()) < k", "cast(k AS STRING) LIKE '20%'", "k IS NULL OR day(k) = 2"),
    "int": ("k % 2 = 0", "abs(k) = 2", "cast(k AS STRING) = '1'", "k + 0.5 > 1", "coalesce(k, 7) = 7"),
    "double": ("cast(k AS STRING) = '-0.0'", "isnan(k)", "k * 2 = 5"),
    "timestamp": ("hour(k) = 1", "date(k) = date'2025-06-01'", "cast(k AS STRING) LIKE '%00:00'"),
}  # fmt: skip
"""Of those that no predicate of the service says."""


@pytest.fixture(scope="module")
def spark(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in a zone with clock changes, with the real service on a SQLite index and no metastore."""
    folder = tmp_path_factory.mktemp("real")
    with driver.catalog(
        INTERPRETED, warehouse=str(folder / "warehouse"), index=f"sqlite:///{folder}/index.db", metastore=None
    ) as session:
        session.sql("CREATE NAMESPACE lake.typed")
        yield session


def conditions(kind: str, literals: list[str]) -> list[str]:
    compared = [f"k {op} {literal}" for op in ("=", "!=", "<", "<=", ">", ">=", "<=>") for literal in literals]
    first = literals[0]
    others = [
        f"k IN ({', '.join(literals)})", f"k NOT IN ({first})", f"k IN ({first}, NULL)", f"NOT (k > {first})",
        f"NOT (k = {first} OR k IS NULL)", "k IS NULL", "k IS NOT NULL",
    ]  # fmt: skip
    others += MORE_CONDITIONS.get(kind, ())
    return compared + others + (list(TEXT_CONDITIONS) if kind.startswith(("string", "varchar", "char")) else [])


def answer(spark: SparkSession, query: str) -> object:
    """The query's number, or the condition of its error: an error must be the same error."""
    try:
        return spark.sql(query).collect()[0][0]
    except PySparkException as error:
        return error.getCondition()


def counted_by(spark: SparkSession, table: str, conditions: list[str]) -> dict[str, object]:
    """How many rows each condition chooses. One job is for many: each has its own scan, and so its own filters."""
    found: dict[str, object] = {}
    for some in batched(conditions, 20):
        asked = " UNION ALL ".join(f"SELECT {i} AS i, count(*) AS n FROM {table} WHERE {c}" for i, c in enumerate(some))
        try:
            found |= {some[row.i]: row.n for row in spark.sql(asked).collect()}
        except PySparkException:
            found |= {c: answer(spark, f"SELECT count(*) FROM {table} WHERE {c}") for c in some}
    return found


def truth(spark: SparkSession, conditions: list[str]) -> dict[str, object]:
    """The answers of Spark's own rows, by one query unless one of the conditions is an error."""
    try:
        counts = spark.sql(f"SELECT {', '.join(f'count_if({c})' for c in conditions)} FROM truth").collect()[0]
    except PySparkException:
        return {c: answer(spark, f"SELECT count(*) FROM truth WHERE {c}") for c in conditions}
    return dict(zip(conditions, counts, strict=True))


def registered(spark: SparkSession, tmp_path: Path, kind: str) -> str:
    """A table with a key `k` of this type, as its texts are, and with its rows as the view ``truth``."""
    texts, _ = CASES[kind]
    spark.range(1).coalesce(1).write.parquet(str(tmp_path / "one"))
    content = next((tmp_path / "one").glob("*.parquet")).read_bytes()
    for text in texts:
        (tmp_path / "t" / f"k={text}").mkdir(parents=True)
        (tmp_path / "t" / f"k={text}" / "f.parquet").write_bytes(content)
    table = f"typed.{tmp_path.name}_" + "".join(filter(str.isalnum, kind))
    spark.sql(
        f"CALL lake.system.register_table(table => '{table}', location => '{tmp_path}/t', "
        f"partition_columns => map('k', '{kind}'))"
    )
    report = spark.sql(f"CALL lake.system.repair_partitions(table => '{table}')").collect()
    assert [row.action for row in report] == ["add"] * len(texts)
    # The same values with nothing left to push a filter to.
    spark.sql(f"SELECT k FROM lake.{table}").localCheckpoint().createOrReplaceTempView("truth")
    return table


@pytest.mark.parametrize("kind", CASES)
def test_filters_answer_as_spark_does(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    texts, literals = CASES[kind]
    table = registered(spark, tmp_path, kind)
    every = conditions(kind, literals)
    assert counted_by(spark, f"lake.{table}", every) == truth(spark, every)
    shown = [row[0] for row in spark.sql(f"SHOW PARTITIONS lake.{table}").collect()]
    assert sorted(shown) == sorted(f"k={text}" for text in texts)


OF_KEYS = (
    "SELECT count(*), count(k), min(k), max(k), count(DISTINCT k) FROM {t} WHERE {c}",
    "SELECT k, count(*), count(k) FROM {t} WHERE {c} GROUP BY k",
    "SELECT DISTINCT k FROM {t} WHERE {c}",
    "SELECT max(k) FROM {t} WHERE {c}",
)


@pytest.mark.parametrize("kind", CASES)
def test_aggregations_of_a_key_answer_as_spark_does(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """By the index wherever equal values are plainly equal: spellings of one value are counted together."""
    literals = CASES[kind][1]
    table = registered(spark, tmp_path, kind)
    spark.sql(f"ANALYZE TABLE lake.{table} COMPUTE STATISTICS")
    by_index = set()
    for question in OF_KEYS:
        for condition in ("true", f"k >= {literals[0]}", f"k <> {literals[-1]} OR k IS NULL", f"k < {literals[0]}"):
            frame = spark.sql(question.format(t=f"lake.{table}", c=condition))
            by_index.add(answered(frame))
            assert gathered(frame) == gathered(spark.sql(question.format(t="truth", c=condition))), (
                question,
                condition,
            )
    assert by_index == ({False} if kind in ("double", "float") else {True})


DELETED = (
    "k = 'a'", "k LIKE 'a%'", "k LIKE '_'", "k NOT LIKE '%b%'", "k > 'a' AND k <= 'b'", "k IN ('a', 'ab', NULL)",
    "k IS NULL", "NOT (k = 'a')", "substr(k, 1, 1) = 'a'", "k RLIKE 'b'", "k <=> NULL OR k = 'b'", "length(k) = 2",
)  # fmt: skip


def deletion(spark: SparkSession, table: str, condition: str) -> str | None:
    """The condition of the error of a DELETE, if there is one."""
    try:
        spark.sql(f"DELETE FROM {table} WHERE {condition}")
    except PySparkException as error:
        return str(error.getCondition())
    return None


def test_what_is_deleted_is_what_spark_selects(spark: SparkSession) -> None:
    """A DELETE is refused, or takes the very rows of a SELECT with its condition."""
    values = "VALUES (1, 'a'), (2, 'ab'), (3, 'b'), (4, CAST(NULL AS STRING)), (5, 'c%') AS v(id, k)"
    done = 0
    for number, condition in enumerate(DELETED):
        table = f"lake.typed.deleted_{number}"
        spark.sql(f"CREATE TABLE {table} PARTITIONED BY (k) AS SELECT * FROM {values}")
        kept = spark.sql(f"SELECT id FROM {values} WHERE NOT coalesce({condition}, false)").collect()
        refused = deletion(spark, table, condition)
        assert refused in (None, "CATALOG_EXT_NOT_SUPPORTED")
        if refused:
            kept = spark.sql(f"SELECT id FROM {values}").collect()
        done += not refused
        assert sorted(spark.table(table).select("id").collect()) == sorted(kept), condition
    assert done >= 7


DELETED_PADDED = (
    "k LIKE 'a %'", "endswith(k, ' ')", "endswith(k, 'b')", "contains(k, ' ')", "NOT startswith(k, 'a ')",
    "startswith(k, 'a')", "contains(k, 'b')", "k = 'a'", "k IN ('ab', 'abc ')",
)  # fmt: skip


def test_what_is_deleted_by_a_padded_key_is_what_spark_selects(spark: SparkSession) -> None:
    """The index has CHAR values without their blanks: it is not asked where these are looked into."""
    table, done = "lake.typed.deleted_padded", 0
    spark.sql(f"CREATE TABLE {table} (id INT, k CHAR(3)) PARTITIONED BY (k)")
    for condition in DELETED_PADDED:
        spark.sql(f"INSERT OVERWRITE {table} VALUES (1, 'a'), (2, 'ab'), (3, 'abc'), (4, NULL)")
        kept = spark.sql(f"SELECT id FROM {table} WHERE NOT coalesce({condition}, false)").collect()
        refused = deletion(spark, table, condition)
        assert refused in (None, "CATALOG_EXT_NOT_SUPPORTED")
        done += not refused
        left = spark.table(table).select("id").collect()
        assert sorted(left) == (sorted(kept) if not refused else [(1,), (2,), (3,), (4,)]), condition
    assert done >= 4


ROWS = (
    "(1, date'2025-01-01', 'eu', 1), (2, date'2025-01-01', 'eu', 2), (3, date'2025-01-02', 'us', 1), "
    "(4, date'2024-12-31', CAST(NULL AS STRING), 3), (5, CAST(NULL AS DATE), 'us', 4), "
    "(6, date'2025-02-01', 'x y', NULL), "
    "(7, date'2025-02-01', 'x y', 12), (8, date'2025-02-01', 'eu', -3), (9, date'2024-12-31', 'Ü', 12)"
)
CHOICES = (
    "true", "d >= date'2025-01-02'", "s IS NULL", "s LIKE '_u'", "n % 2 = 0", "year(d) = 2025 AND s = 'eu'",
    "s IN ('us', 'Ü')", "d = date'1999-01-01'", "concat(s, n) = 'eu1'", "n > 5 OR d IS NULL", "d > date'2025-03-01'",
)  # fmt: skip
QUESTIONS = (
    "SELECT count(*) FROM {t} WHERE {c}",
    "SELECT count(*), count(d), count(s), count(n), min(d), max(d), min(s), max(s), min(n), max(n) FROM {t} WHERE {c}",
    "SELECT d, count(*), count(s) FROM {t} WHERE {c} GROUP BY d",
    "SELECT DISTINCT s, n FROM {t} WHERE {c}",
    "SELECT s AS k, max(d), min(n) FROM {t} WHERE {c} GROUP BY s HAVING count(*) > 1",
    "SELECT min(d), max(d) FROM {t} WHERE {c}",
    "SELECT max(s) FROM {t} WHERE {c}",
    "SELECT count(DISTINCT d) FROM {t} WHERE {c}",
)


def answered(frame: DataFrame) -> bool:
    """Whether no scan is left, so that no file can be opened."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert ("BatchScan" in plan) != ("LocalTableScan" in plan or "no rows" in plan or "LocalRelation" in plan), plan
    return "BatchScan" not in plan


def gathered(frame: DataFrame) -> list[str]:
    return sorted(str(tuple(row)) for row in frame.collect())


@pytest.fixture(scope="module", params=["virtual", "declared"])
def counted(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """A table whose rows are all known, with files and partitions without rows; its rows are the view ``truth``."""
    table = f"lake.typed.counted_{request.param}"
    spark.sql(
        f"CREATE TABLE {table} (id INT, d DATE, s STRING, n INT) PARTITIONED BY (d, s, n) "
        f"TBLPROPERTIES ('partition-columns' = '{request.param}')"
    )
    spark.sql(f"INSERT INTO {table} (id, d, s, n) VALUES {ROWS}")
    spark.sql(f"ALTER TABLE {table} ADD PARTITION (d = '2030-01-01', s = 'zz', n = 99)")
    # A file without rows: greater, less and other than every value that there is.
    location = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()[0][1]
    spark.sql("SELECT 1 AS id WHERE false").coalesce(1).write.parquet(f"{location}/d=1990-01-01/s=a/n=-99")
    spark.sql(f"MSCK REPAIR TABLE {table}")
    spark.sql(f"ANALYZE TABLE {table} COMPUTE STATISTICS")
    scanned = spark.sql(f"SELECT id, d, s, n FROM {table} WITH ('index-answers' = 'false')").localCheckpoint()
    scanned.createOrReplaceTempView("truth")
    assert scanned.count() == 9
    return table


@pytest.mark.parametrize("question", QUESTIONS)
def test_what_the_index_answers_is_what_spark_finds_in_the_files(
    spark: SparkSession, counted: str, question: str
) -> None:
    for condition in CHOICES:
        frame = spark.sql(question.format(t=counted, c=condition))
        assert answered(frame), (question, condition)
        assert gathered(frame) == gathered(spark.sql(question.format(t="truth", c=condition))), condition


COUNTS = (
    "count(DISTINCT 1)", "count(DISTINCT 1), count(DISTINCT d), count(*)", "count(DISTINCT 'x') + count(DISTINCT 5)",
    "count(DISTINCT CAST(NULL AS INT)), count(NULL), count(1)", "count(DISTINCT 1, 2)", "count(DISTINCT 2 + 3)",
    "count(DISTINCT d), count(DISTINCT s), count(DISTINCT n)", "count(DISTINCT d, s)", "sum(DISTINCT 1)", "sum(1)",
    "count(DISTINCT 1) FILTER (WHERE n > 1), count(DISTINCT d) FILTER (WHERE s = 'eu')", "min(1), max('x')",
    "approx_count_distinct(1), approx_count_distinct(s)", "count_if(true), count(DISTINCT true)", "avg(DISTINCT n)",
    "min(DISTINCT d), max(DISTINCT n)", "any_value(1), every(true)",
)  # fmt: skip


@pytest.mark.parametrize("count", COUNTS)
def test_counts_of_constants_and_of_distinct_values_are_those_of_the_files(
    spark: SparkSession, counted: str, count: str
) -> None:
    for question in ("SELECT {f} FROM {t}", "SELECT {f}, s FROM {t} GROUP BY s", "SELECT {f} FROM {t} WHERE n > 1000"):
        found = gathered(spark.sql(question.format(f=count, t=counted)))
        assert found == gathered(spark.sql(question.format(f=count, t="truth"))), question


def test_one_constant_is_counted_by_the_index(spark: SparkSession, counted: str) -> None:
    assert answered(spark.sql(f"SELECT count(DISTINCT 1), max(d) FROM {counted}"))
    assert gathered(spark.sql(f"SELECT count(DISTINCT x) FROM (SELECT 7 AS x, d FROM {counted})")) == ["(1,)"]


def test_a_filter_is_not_asked_of_what_the_one_before_it_leaves_out(spark: SparkSession) -> None:
    spark.sql(
        "CREATE TABLE lake.typed.kinds PARTITIONED BY (kind, code) AS SELECT * FROM "
        "VALUES (1, 'num', '7'), (2, 'num', '3'), (3, 'txt', 'abc') AS v(id, kind, code)"
    )
    chosen = "FROM lake.typed.kinds WHERE upper(kind) = 'NUM' AND CAST(code AS INT) > 5"
    assert gathered(spark.sql(f"SELECT id {chosen}")) == ["(1,)"]
    assert gathered(spark.sql(f"SELECT code, count(*) {chosen} GROUP BY code")) == ["('7', 1)"]
    both = "concat(kind, code) LIKE 'num%' AND CAST(code AS INT) > 5 AND CAST(code AS INT) + length(kind) > 6"
    assert gathered(spark.sql(f"SELECT id FROM lake.typed.kinds WHERE {both}")) == ["(1,)"]
    failing = "SELECT id FROM lake.typed.kinds WHERE CAST(code AS INT) > 5"
    assert answer(spark, failing) == "CAST_INVALID_INPUT"


@pytest.mark.parametrize(
    ("query", "by_index"),
    [
        ("SELECT count(*) FROM {t} WITH ('index-answers' = 'false')", False),
        ("SELECT count(*) FROM {t} WITH ('missing-files' = 'skip')", False),
        ("SELECT count(*) FROM {t} WITH ('modifiedAfter' = '2020-01-01')", False),
        ("SELECT count(*) FROM {t} WHERE id > 0", False),
        ("SELECT count(id) FROM {t}", True),
        ("SELECT count(*) FILTER (WHERE n > 1) FROM {t}", False),
        ("SELECT max(`$path`) IS NULL, count(*) FROM {t}", False),
        ("SELECT count(*) FROM {t} WHERE `$file_size` > 0", False),
        ("SELECT sum(n) FROM {t}", False),
        ("SELECT count(*) FROM (SELECT d FROM {t} WHERE s = 'eu' LIMIT 1)", False),
        ("SELECT max(x) FROM (SELECT d AS x FROM {t})", True),
        ("SELECT count(*) FROM {t} HAVING max(d) > date'2025-01-01'", True),
        ("SELECT max(d) + INTERVAL 1 DAY, count(*) * 2 FROM {t}", True),
        ("WITH w AS (SELECT * FROM {t}) SELECT count(*) FROM w", True),
    ],
)
def test_what_only_files_can_say_is_scanned(spark: SparkSession, counted: str, query: str, by_index: bool) -> None:
    frame = spark.sql(query.format(t=counted))
    assert answered(frame) == by_index
    optionless = query.split(" WITH (")[0]
    if "$" not in query:
        assert gathered(frame) == gathered(spark.sql(optionless.format(t="truth")))


def test_uncounted_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    for kind in ("parquet", "csv"):
        for k in (1, 2):
            spark.range(k).coalesce(1).write.format(kind).save(str(tmp_path / kind / f"k={k}"))
        spark.sql(
            f"CALL lake.system.register_table(table => 'typed.raw_{kind}', location => '{tmp_path}/{kind}', "
            f"format => '{kind}', partition_columns => map('k', 'int'), schema => 'id BIGINT')"
        )
        spark.sql(f"CALL lake.system.repair_partitions(table => 'typed.raw_{kind}')")
        questions = [f"SELECT {what} FROM lake.typed.raw_{kind}" for what in ("count(*)", "max(k)", "DISTINCT k")]
        expected = [["(3,)"], ["(2,)"], ["(1,)", "(2,)"]]
        assert [answered(spark.sql(q)) for q in questions] == [False] * 3, "EXPLAIN reads no footer"
        assert [gathered(spark.sql(q)) for q in questions] == expected
        spark.sql(f"ANALYZE TABLE lake.typed.raw_{kind} COMPUTE STATISTICS")
        assert [answered(spark.sql(q)) for q in questions] == [kind == "parquet"] * 3
        assert [gathered(spark.sql(q)) for q in questions] == expected


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_only_the_footers_of_few_uncounted_files_are_read(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    def put(k: int, rows: int) -> None:
        spark.range(rows).coalesce(1).write.format(kind).mode("append").save(str(tmp_path / f"k={k}"))

    def files() -> set[Path]:
        return set(tmp_path.rglob(f"part-*.{kind}"))

    table = f"lake.typed.few_{kind}"
    for k in (1, 2, 3):
        put(k, k)
    spark.sql(
        f"CALL lake.system.register_table(table => 'typed.few_{kind}', location => '{tmp_path}', format => '{kind}', "
        "partition_columns => map('k', 'int'), schema => 'id BIGINT')"
    )
    for statement in (f"MSCK REPAIR TABLE {table}", f"ANALYZE TABLE {table} COMPUTE STATISTICS"):
        spark.sql(statement)
    known = files()
    put(2, 10)
    put(4, 20)
    spark.sql(f"MSCK REPAIR TABLE {table} SYNC PARTITIONS")
    for file in known:  # Who opened one of these would fail.
        file.write_bytes(b"\0" * file.stat().st_size)
    expected = {
        "SELECT count(*) FROM {t}": ["(36,)"],
        "SELECT k, count(*) FROM {t} GROUP BY k": ["(1, 1)", "(2, 12)", "(3, 3)", "(4, 20)"],
        "SELECT count(*), max(k) FROM {t} WHERE k BETWEEN 2 AND 3": ["(15, 3)"],
        "SELECT count(*), count(k), min(k) FROM {t} WHERE k + 1 > 3": ["(23, 23, 3)"],
        "SELECT max(k) FROM {t}": ["(4,)"],
        "SELECT DISTINCT k FROM {t} WHERE k <> 1": ["(2,)", "(3,)", "(4,)"],
    }
    for number, (query, rows) in enumerate(expected.items()):
        frame = spark.sql(query.format(t=table))
        assert (answered(frame), gathered(frame)) == (number > 0, rows), query
    put(5, 100)
    spark.sql(f"MSCK REPAIR TABLE {table}")
    assert gathered(spark.sql(f"SELECT count(*) FROM {table}")) == ["(136,)"]
    for file in files():
        file.unlink()
    assert gathered(spark.sql(f"SELECT count(*) FROM {table}")) == ["(136,)"], "the index has what was counted once"


def test_footers_of_many_and_of_broken_files_are_read_when_a_query_runs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "k=1").mkdir()
    for number in range(101):
        pq.write_table(pa.table({"id": [number]}), tmp_path / "k=1" / f"{number}.parquet")
    spark.range(1).coalesce(1).write.parquet(str(tmp_path / "k=2"))
    (tmp_path / "k=3").mkdir()
    (tmp_path / "k=3" / "part-0.parquet").write_bytes(b"no footer")
    spark.sql(
        f"CALL lake.system.register_table(table => 'typed.many', location => '{tmp_path}', format => 'parquet', "
        "partition_columns => map('k', 'int'), schema => 'id BIGINT')"
    )
    spark.sql("MSCK REPAIR TABLE lake.typed.many")
    counts = {k: spark.sql(f"SELECT count(*) FROM lake.typed.many WHERE k = {k}") for k in (1, 2, 3)}
    assert not any(answered(count) for count in counts.values())
    assert [gathered(counts[k]) for k in (1, 2)] == [["(101,)"], ["(1,)"]]
    with pytest.raises(Exception, match=r"part-0\.parquet"):
        counts[3].collect()


def test_an_answer_is_of_the_version_that_the_statement_reads(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lake.typed.grows PARTITIONED BY (k) AS SELECT 1 AS id, 1 AS k")
    held = spark.sql("SELECT count(*), max(k) FROM lake.typed.grows")
    spark.sql("INSERT INTO lake.typed.grows VALUES (2, 2)")
    assert gathered(held) == ["(2, 2)"]
    both = "SELECT (SELECT max(k) FROM lake.typed.grows), (SELECT sum(id) FROM lake.typed.grows)"
    assert gathered(spark.sql(both)) == ["(2, 3)"]
    spark.sql("DELETE FROM lake.typed.grows WHERE k = 2")
    assert gathered(spark.sql("SELECT count(*), max(k) FROM lake.typed.grows")) == ["(1, 1)"]
    spark.sql("TRUNCATE TABLE lake.typed.grows")
    assert gathered(spark.sql("SELECT count(*), max(k) FROM lake.typed.grows")) == ["(0, None)"]


def test_strict_mode_refuses_what_the_index_could_answer(spark: SparkSession, counted: str) -> None:
    strict = "WITH ('hive.mapred.mode' = 'strict')"
    assert answer(spark, f"SELECT count(*) FROM {counted} {strict}") == "CATALOG_EXT_PARTITION_PREDICATE_REQUIRED"
    frame = spark.sql(f"SELECT count(*) FROM {counted} {strict} WHERE s = 'eu'")
    assert answered(frame)
    assert gathered(frame) == ["(3,)"]


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT id FROM {t} LIMIT 1", 1),
        ("SELECT id, d FROM {t} WHERE s = 'eu' LIMIT 2", 2),
        ("SELECT id FROM {t} WHERE s = 'eu' LIMIT 100", 3),
        ("SELECT id FROM {t} WHERE n % 2 = 0 LIMIT 1", 4),
        ("SELECT id FROM {t} WHERE s = 'eu' ORDER BY id LIMIT 1", 3),
        ("SELECT id FROM {t} WITH ('index-answers' = 'false') WHERE s = 'eu' LIMIT 1", 3),
        ("SELECT id FROM {t} WHERE s = 'eu' AND id > 1 LIMIT 1", 2),
    ],
)
def test_a_limit_plans_as_few_files_as_hold_the_rows(spark: SparkSession, counted: str, query: str, files: int) -> None:
    frame = spark.sql(query.format(t=counted))
    found = len(frame.collect())
    assert found == min(int(query.rsplit(" ", 1)[1]), 3 if "eu" in query else 9)
    chosen = re.search(r"Files: (\d+) of", frame._jdf.queryExecution().executedPlan().toString())
    assert chosen is not None
    # The file without rows may come first.
    assert int(chosen[1]) - files in ((0, 1) if files == 1 else (0,))
