"""Statistics that a file does not have, or has falsely, are unknown: they leave no file out and answer no query."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.lake import Lake, local_lake
from tests.kit.statistics_cases import ORC, PARQUET, RANDOM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CASES = {"parquet": (*PARQUET, *RANDOM["parquet"]), "orc": (*ORC, *RANDOM["orc"])}
AS_SPARK = "WITH ('index-answers' = 'false', 'file-skipping' = 'false')"
FILTERS = (
    "x = 2", "x < 1", "x > 8", "x IS NULL", "x IS NOT NULL", "x <=> NULL", "x IN (2, 99)", "x <> 2", "y = 'a2'",
    "y IS NULL", "y IS NOT NULL", "startswith(y, 'a')", "z = 20", "z IS NULL", "z IS NOT NULL", "z >= 90", "d = 3.5",
    "d > 10", "d IS NULL", "d IS NOT NULL", "x = 2 OR y IS NULL",
)  # fmt: skip
AGGREGATES = "count(*), count(x), min(x), max(x), count(y), count(z), min(z), max(z), count(d), min(d), max(d)"


@pytest.fixture(scope="module")
def lake(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    # Spark's own filters of row groups believe what these footers say.
    conf = {f"spark.sql.{kind}.filterPushdown": "false" for kind in CASES}
    with local_lake(driver, tmp_path_factory.mktemp("unknown"), conf=conf) as lake:
        yield lake


@pytest.fixture(scope="module", params=CASES)
def kind(lake: Lake, request: pytest.FixtureRequest) -> str:
    """A format: the table of its name has a partition for each case, found by repair and measured by ANALYZE."""
    location = lake.folder / request.param
    for number, case in enumerate(CASES[request.param]):
        (location / f"c={number}").mkdir(parents=True)
        case.write(location / f"c={number}" / f"f.{request.param}")
    lake.catalog.register_table(
        f"w.{request.param}", location=str(location), partition_columns={"c": "int"}, format=request.param,
        schema="x INT, y STRING, z BIGINT, d DECIMAL(9,2)",
    )  # fmt: skip
    lake.catalog.repair_partitions(f"w.{request.param}")
    lake.sql(f"ANALYZE TABLE lake.w.{request.param} COMPUTE STATISTICS")
    return str(request.param)


def test_the_index_keeps_what_is_certain(lake: Lake, kind: str) -> None:
    """As the metadata table `files` shows it; that nothing is known is an empty map, because ANALYZE has looked."""
    found = {
        str(CASES[kind][c]): {name: tuple(column) for name, column in statistics.items()}
        for c, statistics in lake.rows(f"SELECT values.c, statistics FROM lake.w.{kind}.files")
    }
    assert {str(case): found[str(case)] for case in CASES[kind] if case not in RANDOM[kind]} == {
        str(case): {name: column for name, column in case.known.items() if column != (None, None, None)}
        for case in CASES[kind]
        if case not in RANDOM[kind]
    }
    assert lake.rows(f"SELECT DISTINCT rows FROM lake.w.{kind}.files") == [(10,)]


def test_filters_find_what_spark_finds(lake: Lake, kind: str) -> None:
    def found(options: str) -> list[tuple[Any, ...]]:
        counts = " UNION ALL ".join(
            f"SELECT {number}, c, count(*) FROM lake.w.{kind} {options} WHERE {condition} GROUP BY c"
            for number, condition in enumerate(FILTERS)
        )
        return sorted((FILTERS[number], str(CASES[kind][c]), rows) for number, c, rows in lake.rows(counts))

    assert found("") == found(AS_SPARK)


def test_aggregates_are_those_of_the_rows(lake: Lake, kind: str) -> None:
    def found(options: str) -> dict[str, Any]:
        each = " UNION ALL ".join(
            f"SELECT {number}, {AGGREGATES} FROM lake.w.{kind} {options} WHERE c = {number}"
            for number in range(len(CASES[kind]))
        )
        return {str(CASES[kind][number]): rest for number, *rest in lake.rows(each)}

    assert found("") == found(AS_SPARK)


@pytest.mark.parametrize("setting", [("orc.create.index", "false"), ("orc.row.index.stride", "0")], ids=str)
def test_orc_files_without_statistics_keep_their_rows(lake: Lake, setting: tuple[str, str]) -> None:
    """Written with a table's option, a write's option and Hadoop's setting."""
    name, value = setting
    t, other = (f"lake.w.{name.replace('.', '_')}{number}" for number in (1, 2))
    rows = "id, concat('a', id), id, 1 FROM range(0, 10, 1, 1)"
    columns = "(x INT, y STRING, z BIGINT, p INT) USING orc"
    lake.sql(f"CREATE TABLE {t} {columns} OPTIONS ('{name}' '{value}') PARTITIONED BY (p)")
    lake.sql(f"INSERT INTO {t} SELECT {rows}")
    lake.sql(f"CREATE TABLE {other} {columns} PARTITIONED BY (p)")
    lake.spark.sql(f"SELECT {rows} AS p").toDF("x", "y", "z", "p").writeTo(other).option(name, value).append()
    lake.spark.conf.set(name, value)
    lake.sql(f"INSERT INTO {other} SELECT id, concat('a', id), id, 2 FROM range(0, 10, 1, 1)")
    lake.spark.conf.unset(name)
    for table, p in ((t, 1), (other, 1), (other, 2)):
        where = f"FROM {table} WHERE p = {p}"
        assert lake.rows(f"SELECT x, y {where} AND x = 2") == [(2, "a2")]
        assert lake.rows(f"SELECT count(x), min(x), max(z), count(y) {where}") == [(10, 0, 9, 10)]
        assert lake.rows(f"SELECT x {where} AND x IS NULL") == []
        assert lake.rows(f"SELECT max(rows), max(statistics['x'].nulls) FROM {table}.files") == [(10, None)]


def both(lake: Lake, table: str) -> str:
    """A table with one file that has statistics and one that has none, of ten rows each."""
    name = f"lake.w.{table}"
    lake.sql(f"CREATE TABLE {name} (x INT, p INT) USING orc PARTITIONED BY (p)")
    lake.sql(f"INSERT INTO {name} SELECT id, 1 FROM range(0, 10, 1, 1)")
    lake.sql(f"INSERT INTO {name} WITH ('orc.create.index' = 'false') SELECT id + 10, 1 FROM range(0, 10, 1, 1)")
    assert lake.rows(f"SELECT count(*) FROM {name}.files") == [(2,)]
    return name


@pytest.mark.parametrize(
    "rewrite",
    [
        "INSERT OVERWRITE {t} SELECT x, p FROM {t} WHERE x IS NOT NULL",
        "INSERT OVERWRITE {t} PARTITION (p = 1) SELECT x FROM {t} WHERE x >= 0",
        "INSERT INTO {t} REPLACE WHERE p = 1 SELECT x, p FROM {t} WHERE x IS NOT NULL",
    ],
    ids=["dynamic", "static", "replace-where"],
)
def test_a_table_rewritten_from_itself_keeps_all_rows(lake: Lake, rewrite: str, request: pytest.FixtureRequest) -> None:
    table = both(lake, f"own_{request.node.callspec.id.replace('-', '_')}")
    lake.sql(rewrite.format(t=table))
    assert lake.rows(f"SELECT count(*), count(DISTINCT x), min(x), max(x) FROM {table}") == [(20, 20, 0, 19)]


def test_parquet_columns_without_statistics_are_unknown(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.partly (x INT, y STRING, p INT) USING parquet PARTITIONED BY (p)")
    lake.sql(
        "INSERT INTO lake.w.partly WITH ('parquet.column.statistics.enabled#x' = 'false') "
        "SELECT id, if(id < 5, NULL, 'a'), 1 FROM range(0, 10, 1, 1)"
    )
    assert lake.rows("SELECT count(x), min(x), max(x), count(y) FROM lake.w.partly") == [(10, 0, 9, 5)]
    assert lake.rows("SELECT count(*) FROM lake.w.partly WHERE x = 2") == [(1,)]
    (statistics,) = lake.statistics("partly")
    assert statistics == {"y": {"min": "a", "max": "a", "nulls": 5}}


def test_analyze_measures_files_without_statistics(lake: Lake) -> None:
    lake.sql("CREATE TABLE lake.w.forgotten (x INT, p INT) USING orc PARTITIONED BY (p)")
    lake.sql("INSERT INTO lake.w.forgotten SELECT id, 1 FROM range(0, 10, 1, 1)")
    (before,) = lake.statistics("forgotten")
    table_id = lake.catalog.load_table("w.forgotten").table_id
    with closing(sqlite3.connect(lake.index)) as connection, connection:
        mine = "SELECT partition_id FROM partitions WHERE table_id = ?"
        connection.execute(f"DELETE FROM file_statistics WHERE partition_id IN ({mine})", (table_id,))
    assert lake.statistics("forgotten") == []
    lake.sql("ANALYZE TABLE lake.w.forgotten COMPUTE STATISTICS")
    assert lake.statistics("forgotten") == [before]
