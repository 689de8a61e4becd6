"""Filters on typed keys through the real service and the connector, against Spark's own answer on the same values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

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
    "varchar(5)": (["a", "abc", "abc ", ""], ["'a'", "'ab'", "'abc'", "'abc      '", "'abcdef'", "'zzzzzzzz'"]),
    "char(3)": (["a", "abc"], ["'a'", "'abc'", "'a '", "'abc   '", "'abcd'", "'zzzz'"]),
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
        warehouse=str(folder / "warehouse"), index=f"sqlite:///{folder}/index.db", metastore=None
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


def truth(spark: SparkSession, conditions: list[str]) -> dict[str, object]:
    """The answers of Spark's own rows, by one query unless one of the conditions is an error."""
    try:
        counts = spark.sql(f"SELECT {', '.join(f'count_if({c})' for c in conditions)} FROM truth").collect()[0]
    except PySparkException:
        return {c: answer(spark, f"SELECT count(*) FROM truth WHERE {c}") for c in conditions}
    return dict(zip(conditions, counts, strict=True))


@pytest.mark.parametrize("kind", CASES)
def test_filters_answer_as_spark_does(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    texts, literals = CASES[kind]
    spark.range(1).coalesce(1).write.parquet(str(tmp_path / "one"))
    content = next((tmp_path / "one").glob("*.parquet")).read_bytes()
    for text in texts:
        (tmp_path / "t" / f"k={text}").mkdir(parents=True)
        (tmp_path / "t" / f"k={text}" / "f.parquet").write_bytes(content)
    table = "typed.t_" + "".join(filter(str.isalnum, kind))
    spark.sql(
        f"CALL lake.system.register_table(table => '{table}', location => '{tmp_path}/t', "
        f"partition_columns => map('k', '{kind}'))"
    )
    report = spark.sql(f"CALL lake.system.repair_partitions(table => '{table}')").collect()
    assert [row.action for row in report] == ["add"] * len(texts)
    # The same values with nothing left to push a filter to.
    spark.sql(f"SELECT k FROM lake.{table}").localCheckpoint().createOrReplaceTempView("truth")
    found = {c: answer(spark, f"SELECT count(*) FROM lake.{table} WHERE {c}") for c in conditions(kind, literals)}
    assert found == truth(spark, conditions(kind, literals))
    shown = [row[0] for row in spark.sql(f"SHOW PARTITIONS lake.{table}").collect()]
    assert sorted(shown) == sorted(f"k={text}" for text in texts)


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
