"""The contenders without Spark: DuckLake, and DuckDB with a glob."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from tests.benchmarks.peers.contender import NoSuchThingError

if TYPE_CHECKING:
    from tests.benchmarks.peers.contender import Contender, Task
    from tests.benchmarks.peers.table import Partition

_SCANNED = re.compile(r"Scanning Files:[\s│]*(?P<files>\d+)/\d+")


def start(task: Task) -> Contender:
    """The contender that the task names."""
    return Lake(task) if task.contender == "ducklake" else Glob(task)


class Lake:
    """DuckLake with its catalogue in a DuckDB file."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
        self._connection.execute(f"LOAD '{_extension()}'")
        data = task.folder / "ducklake-data"
        # Without inlining a row that is inserted makes a file, as in the other contenders.
        self._connection.execute(
            f"ATTACH 'ducklake:{task.folder / 'catalogue.ducklake'}' AS lake "
            f"(DATA_PATH '{data}', DATA_INLINING_ROW_LIMIT 0)"
        )
        loaded = "SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'ducklake'"
        self.version = f"DuckLake ({_one(self._connection, loaded)}) in DuckDB {duckdb.__version__}"

    def first(self) -> None:
        self._connection.execute("CREATE TABLE lake.t (x BIGINT, ds DATE, region VARCHAR, hour INT)")
        self._connection.execute("ALTER TABLE lake.t SET PARTITIONED BY (ds, region, hour)")
        self._connection.execute(
            f"CALL ducklake_add_data_files('lake', 't', '{_files(self.task)}', hive_partitioning => true)"
        )

    def rows(self) -> None:
        raise NoSuchThingError("the first registration has read every footer")

    def plan(self, condition: str) -> int | None:
        if condition:
            raise NoSuchThingError("it lists its files while the query runs, see “run one”")
        found = _one(self._connection, "SELECT count(*) FROM ducklake_list_files('lake', 't')")
        return int(str(found))

    def value(self, expression: str, condition: str = "") -> object:
        return _one(self._connection, _sql(expression, "lake.t", condition))

    def unchanged(self) -> None:
        raise NoSuchThingError(
            "it does not compare its list with a tree of files; a file that is added twice counts twice"
        )

    def commit(self, partition: Partition) -> None:
        self._connection.execute(
            f"INSERT INTO lake.t VALUES (1, DATE '{partition.ds}', '{partition.region}', {partition.hour})"
        )

    def close(self) -> None:
        self._connection.close()


class Glob:
    """DuckDB over the tree: every query lists it."""

    def __init__(self, task: Task) -> None:
        self._connection = duckdb.connect()
        self._table = f"read_parquet('{_files(task)}', hive_partitioning = true)"
        self.version = f"DuckDB {duckdb.__version__}, glob"

    def first(self) -> None:
        raise NoSuchThingError("there is nothing to register, because every query lists the tree")

    def rows(self) -> None:
        raise NoSuchThingError("it stores nothing between queries")

    def plan(self, condition: str) -> int | None:
        sql = f"EXPLAIN {_sql('sum(x)', self._table, condition)}"
        row = self._connection.execute(sql).fetchone()
        found = _SCANNED.search(row[1]) if row else None
        return int(found["files"]) if found else None

    def value(self, expression: str, condition: str = "") -> object:
        return _one(self._connection, _sql(expression, self._table, condition))

    def unchanged(self) -> None:
        raise NoSuchThingError("there is nothing to repair, because every query lists the tree")

    def commit(self, partition: Partition) -> None:
        raise NoSuchThingError(
            "it has no commits: queries read a file as soon as its name exists, even an incomplete one"
        )

    def close(self) -> None:
        self._connection.close()


def _extension() -> Path:
    spec = find_spec("duckdb_extension_ducklake")
    if spec is None or spec.origin is None:
        raise AssertionError("the package duckdb-extension-ducklake is not in this environment")
    return next(Path(spec.origin).parent.rglob("ducklake.duckdb_extension"))


def _files(task: Task) -> str:
    return f"{task.root}/*/*/*/*.parquet"


def _sql(expression: str, table: str, condition: str) -> str:
    return f"SELECT {expression} FROM {table}" + (f" WHERE {condition}" if condition else "")


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> object:
    row = connection.execute(sql).fetchone()
    return row[0] if row else None
