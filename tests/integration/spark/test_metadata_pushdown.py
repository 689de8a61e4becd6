"""Queries of `t.partitions` and `t.files` against the same queries of copies of their rows: nothing is pushed there."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import ArithmeticException

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from tests.integration.lake import external, local_lake
from tests.integration.spark_driver import INTERPRETED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver

pytestmark = pytest.mark.spark

KEYS = {
    "s": ("STRING", ("'eu'", "'a b'", "'ü/%'", "NULL", "'xy'")),
    "c": ("CHAR(4)", ("'ab'", "'ab'", "'b'", "NULL")),
    "m": ("DECIMAL(10,2)", ("1.50", "-2.00", "NULL")),
    "at": ("TIMESTAMP", ("timestamp'2025-01-01 10:00:00.5'", "timestamp'2025-10-26 02:30:00'", "NULL")),
    "ds": ("DATE", ("date'2025-01-01'", "date'0001-01-01'", "NULL")),
    "i": ("INT", ("1", "-7", "NULL")),
    "x": ("DOUBLE", ("0.5", "double('-0.0')", "double('NaN')", "NULL")),
    "b": ("BOOLEAN", ("true", "false", "NULL")),
    "tiny": ("TINYINT", ("1", "NULL")),
}
"""More than the index has columns for."""

NUMBERS = {"partitions": ("files", "bytes", "rows"), "files": ("size", "rows", "version")}
CONDITIONS = (
    "true",
    "s = 'eu'",
    "s IS NULL OR i > 0",
    "c = 'ab'",
    "c = 'ab  '",
    "values.m < 1.5",
    "at >= timestamp'2025-01-01'",
    "at > timestamp'2025-10-26 02:00:00'",
    "ds IN (date'2025-01-01', date'2025-01-02') AND NOT b",
    "x = 0",
    "x > 1",
    "tiny = 1 AND s LIKE 'x%'",
    "rows > 1",
    "rows IS NULL AND i = 1",
    "NOT (rows <= 1 OR rows IN (3, 5)) AND rows <=> 2",
    "rows NOT IN (1, NULL)",
    "rows <=> NULL OR rows > -9223372036854775808",
    "rows > 1.5 OR i = 1",
    "rows = 4 OR rows IS NULL",
    "i + 1 = 2",
    "values.s = s",
    "false",
)


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """With `k`: partitions of keys of many types, some of them empty, and files that are not counted."""
    with local_lake(driver, tmp_path_factory.mktemp("pushdown"), conf=INTERPRETED) as lake:
        declared = ", ".join(f"{name} {of}" for name, (of, _) in KEYS.items())
        lake.sql(f"CREATE TABLE lake.w.k (id INT, {declared}) PARTITIONED BY ({', '.join(KEYS)})")
        rows = [
            f"SELECT {n}, " + ", ".join(of[n * at % len(of)] for at, (_, of) in enumerate(KEYS.values(), 1))
            for n in range(24)
        ]  # fmt: skip
        lake.sql(f"INSERT INTO lake.w.k {' UNION ALL '.join(rows)}")
        lake.sql(f"INSERT INTO lake.w.k {' UNION ALL '.join(rows[::3])}")
        spec = "s = 'none', c = 'e', m = 3, at = timestamp'2025-01-01 00:00:00', ds = date'2025-01-05', i = 9, x = 2.5"
        lake.sql(f"ALTER TABLE lake.w.k ADD PARTITION ({spec}, b = true, tiny = 2)")
        name = lake.rows("SELECT partition FROM lake.w.k.partitions WHERE s = 'none'")[0][0]
        uncounted = AddPartition(str(name).replace("s=none", "s=some"), (DataFile("a", 10, 0), DataFile("b", 9, 0, 4)))
        table = lake.catalog.load_table("w.k")
        lake.catalog.index.commits.apply_changes(table.table_id, [uncounted], operation="test", deliver=False)
        for what in NUMBERS:
            found = lake.sql(f"SELECT *, {', '.join(KEYS)} FROM lake.w.k.{what}")
            copied = lake.spark.createDataFrame(found.collect(), found.schema)
            assert copied.count() > 20
            copied.createOrReplaceTempView(f"copy_{what}")
        yield lake


def same(lake: Lake, what: str, query: str) -> None:
    """The query, with `{t}` for the table, says of it what it says of the copy."""
    found, expected = (
        sorted(lake.rows(query.format(t=table)), key=repr) for table in (f"lake.w.k.{what}", f"copy_{what}")
    )
    assert [repr(row) for row in found] == [repr(row) for row in expected], query


def explained(lake: Lake, query: str) -> str:
    text: str = lake.spark._jvm.PythonSQLUtils.explainString(lake.sql(query)._jdf.queryExecution(), "simple")
    return text


@pytest.mark.parametrize(("what", "condition"), list(product(NUMBERS, CONDITIONS)))
def test_filters_columns_and_aggregates(lake: Lake, what: str, condition: str) -> None:
    one, two, _ = NUMBERS[what]
    numbers = ", ".join(f"{f}({n})" for n in NUMBERS[what] for f in ("sum", "min", "max", "count", "avg"))
    where = f"FROM {{t}} WHERE {condition}"
    same(lake, what, f"SELECT count(*) {where}")
    same(lake, what, f"SELECT count(*), {numbers} {where}")
    same(lake, what, f"SELECT partition, {two}, values.m, at {where}")
    same(lake, what, f"SELECT s, c, count(*), sum({one}) {where} GROUP BY s, c")


@pytest.mark.parametrize("what", NUMBERS)
def test_groups(lake: Lake, what: str) -> None:
    one, two, _ = NUMBERS[what]
    for key in KEYS:
        same(lake, what, f"SELECT {key}, count(*), sum({two}), min({one}) FROM {{t}} GROUP BY {key}")
        same(lake, what, f"SELECT values.{key} AS k, sum({two} + 1), count({key}) FROM {{t}} GROUP BY values.{key}")
        same(lake, what, f"SELECT min({key}), max({key}) FROM {{t}}")
        same(lake, what, f"SELECT min({key}), max({key}), count(*) FROM {{t}} WHERE i = 100")
        same(lake, what, f"SELECT i, max({key}), count(*) FROM {{t}} WHERE s <=> null GROUP BY i")
    same(lake, what, f"SELECT partition, count(*), max({two}) FROM {{t}} GROUP BY partition")
    same(lake, what, "SELECT DISTINCT ds, m FROM {t}")
    same(lake, what, f"SELECT count(DISTINCT ds), sum(DISTINCT {two}) FROM {{t}}")
    same(lake, what, "SELECT ds, count(*) FILTER (WHERE i > 0) FROM {t} GROUP BY ds")
    same(lake, what, f"SELECT ds, m, i, sum({one}) FROM {{t}} GROUP BY ROLLUP (ds, m, i)")
    same(lake, what, "SELECT month(ds), count(*) FROM {t} GROUP BY month(ds) HAVING count(*) > 2")
    same(lake, what, "SELECT count(*) FROM (SELECT ds FROM {t} WHERE i = 1 LIMIT 2)")


def test_what_the_index_answers(lake: Lake) -> None:
    for query in (
        "SELECT ds, count(*), sum(bytes), max(rows) FROM lake.w.k.partitions GROUP BY ds",
        "SELECT values.ds, s, count(*), sum(size) FROM lake.w.k.files GROUP BY values.ds, s",
        "SELECT count(*), min(rows) FROM lake.w.k.files WHERE ds = '2025-01-01' AND i > 0",
        "SELECT partition, count(*) FROM lake.w.k.files GROUP BY partition",
        "SELECT ds, count(*) FROM lake.w.k.partitions WHERE rows > 1 AND i = 1 GROUP BY ds",
    ):
        assert "grouped by the index" in explained(lake, query), query
    for query in (
        "SELECT c, count(*) FROM lake.w.k.files WHERE c = 'ab' GROUP BY c",
        "SELECT count(*) FROM lake.w.k.files WHERE x = 0",
        "SELECT count(*) FROM lake.w.k.partitions WHERE rows > 1.5D",
        "SELECT count(*) FROM lake.w.k.partitions WHERE rows > 1 OR i = 1",
        "SELECT state, count(*) FROM lake.w.k.partitions GROUP BY state",
    ):
        assert "grouped by the index" not in explained(lake, query), query


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ('s = "it\'s" AND rows > 1', "[(s IS NOT NULL), (s = 'it\\'s'), (rows IS NOT NULL), (rows > '1')]"),
        ("ds IN ('2025-01-01', NULL) OR i <=> 1", "[((ds IN ('2025-01-01', NULL)) OR (i <=> '1'))]"),
        ("NOT b AND s LIKE 'a%b_'", "[(b IS NOT NULL), (s IS NOT NULL), (NOT (b = 'true')), (s LIKE 'a%b_')]"),
        ("s LIKE 'a%'", "[(s IS NOT NULL), startswith(s, 'a')]"),
    ],
)
def test_explain_shows_what_the_index_filters_as_sql(lake: Lake, condition: str, shown: str) -> None:
    for what in ("partitions", "files"):
        assert f"lake.w.k.{what} PushedFilters: {shown}" in explained(
            lake, f"SELECT s FROM lake.w.k.{what} WHERE {condition}"
        )


def test_sums_beyond_64_bits(lake: Lake) -> None:
    table = external(lake, "huge", {"k": "int"})
    # The index has sums of sizes itself, but none of the rows of files of which some are not counted.
    files = tuple(DataFile(str(i), 1, 0, rows) for i, rows in enumerate((2**63 - 1, 2**63 - 1, 5, None)))
    lake.catalog.index.commits.apply_changes(
        lake.catalog.load_table("w.huge").table_id, [AddPartition("k=1", files)], operation="test", deliver=False
    )
    query = f"SELECT k, sum(rows), count(*), count(rows) FROM {table}.files GROUP BY k"
    assert "grouped by the index" in explained(lake, query)
    with pytest.raises(ArithmeticException):
        lake.rows(query)
    assert lake.rows(query.replace("sum", "try_sum")) == [(1, None, 4, 3)]
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert lake.rows(query) == [(1, 3, 4, 3)]
    finally:
        lake.spark.conf.unset("spark.sql.ansi.enabled")


def test_no_partition_counts_nothing(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.empty (id INT, k INT) PARTITIONED BY (k)", "CREATE TABLE lake.w.plain (id INT)")
    for table, what in product(("empty", "plain"), NUMBERS):
        one, *_ = NUMBERS[what]
        assert lake.rows(f"SELECT count(*), count({one}), sum({one}) FROM lake.w.{table}.{what}") == [(0, 0, None)]
    assert lake.rows("SELECT k, count(*) FROM lake.w.empty.files GROUP BY k") == []
    lake.sql("INSERT INTO lake.w.plain VALUES (1)")
    assert lake.rows("SELECT count(*), sum(rows) FROM lake.w.plain.files") == [(1, 1)]
    assert lake.rows("SELECT partition, count(*) FROM lake.w.plain.files GROUP BY partition") == [("", 1)]


@pytest.mark.parametrize("what", NUMBERS)
def test_constants_and_keys_in_another_case(lake: Lake, what: str) -> None:
    same(lake, what, "SELECT count(DISTINCT 1), count(*) FROM {t}")
    same(lake, what, "SELECT ds, count(DISTINCT 'x') FROM {t} GROUP BY ds")
    same(
        lake, what, "SELECT (SELECT count(DISTINCT 1) FROM {t}), count(DISTINCT 1), count(DISTINCT partition) FROM {t}"
    )
    same(lake, what, "SELECT count(*) FROM {t} WHERE values.DS >= '2025-01-01' AND Values.I > 0")
    same(lake, what, "SELECT s, max(ds) FROM {t} GROUP BY CUBE (s)")


def test_keys_whose_names_have_dots_and_the_name_of_sparks_own_column(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.dots (id INT, k STRING, `values.k` STRING, _metadata INT) "
             "PARTITIONED BY (k, `values.k`, _metadata)")  # fmt: skip
    lake.sql("INSERT INTO lake.w.dots VALUES (1, 'x', 'y', 7), (2, 'y', 'x', 8)")
    for table in ("files", "partitions"):
        found = lake.rows(f"SELECT partition FROM lake.w.dots.{table} WHERE values.k = 'x'")
        assert found == [("k=x/values.k=y/_metadata=7",)]
        assert lake.rows(f"SELECT count(*), max(k) FROM lake.w.dots.{table} WHERE `values.k` = 'x'") == [(1, "y")]
    assert lake.rows("SELECT id, _metadata FROM lake.w.dots WHERE _metadata > 7") == [(2, 8)]
    assert lake.rows("SELECT id FROM lake.w.dots WHERE k = 'x'") == [(1,)]
    lake.sql("CALL lake.system.set_partition_columns(table => 'w.dots', mode => 'virtual')")
    assert lake.rows("SELECT id, _metadata FROM lake.w.dots WHERE _metadata > 7") == [(2, 8)]
    assert lake.rows("SELECT id FROM lake.w.dots WHERE `values.k` = 'x'") == [(2,)]
