"""What tests of SQL speak to: a session, and behind it a catalog over a SQLite index without a metastore."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from catalog_ext.spark import session as sessions
from tests.integration.spark_driver import LOCAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from catalog_ext.catalog import Catalog
    from tests.integration.spark_driver import Driver


def rows(spark: SparkSession, query: str, **parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a query's result."""
    return [tuple(row) for row in spark.sql(query, parameters or None).collect()]


@dataclass(frozen=True)
class Sql:
    """A session that is spoken to in SQL."""

    spark: SparkSession

    def sql(self, *statements: str) -> DataFrame:
        """The result of the last of the statements."""
        *before, last = statements
        for statement in before:
            self.spark.sql(statement)
        return self.spark.sql(last)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return rows(self.spark, query)

    def error(self, statement: str) -> PySparkException:
        """The error that a statement gets."""
        with pytest.raises(PySparkException) as caught:
            self.rows(statement)
        return caught.value

    def condition(self, statement: str) -> str | None:
        """The condition of the error that a statement gets."""
        return self.error(statement).getCondition()

    @contextmanager
    def logged(self, name: str) -> Iterator[Callable[[], list[str]]]:
        """Yields what a class of the connector, named with its sub-package, logs within the block."""
        jvm: Any = self.spark._jvm
        log4j = jvm.org.apache.logging.log4j
        logger = log4j.LogManager.getLogger(f"org.apache.spark.sql.catalogext.{name}")
        text = jvm.java.io.StringWriter()
        appender = log4j.core.appender.WriterAppender.createAppender(None, None, text, name, False, True)
        appender.start()
        logger.addAppender(appender)
        level = logger.getLevel()
        logger.setLevel(log4j.Level.INFO)
        try:
            yield lambda: text.toString().splitlines()
        finally:
            logger.setLevel(level)
            logger.removeAppender(appender)


@dataclass(frozen=True)
class Lake(Sql):
    """A session with the catalog ``lake``, and a namespace of it whose index and tables are in a folder."""

    catalog: Catalog
    folder: Path
    namespace: str = "w"

    @property
    def index(self) -> Path:
        return self.folder / "index.db"

    def location(self, table: str) -> Path:
        """The directory of a table on the local disk."""
        location = self.catalog.load_table(f"{self.namespace}.{table}").definition.location
        return Path(location.removeprefix("file://"))

    def partitions(self, table: str) -> list[str]:
        return [str(row[0]) for row in self.rows(f"SHOW PARTITIONS lake.{self.namespace}.{table}")]

    def on_disk(self, table: str) -> list[str]:
        """Every file below the table's directory, hidden ones too, but for Hadoop's checksums."""
        root = self.location(table)
        found = (p for p in root.rglob("*") if p.is_file() and not p.name.endswith(".crc"))
        return sorted(str(p.relative_to(root)) for p in found)

    def indexed(self, table: str) -> list[str]:
        """The paths, below the table's directory, of the files that the index has now."""
        query = f"SELECT DISTINCT _metadata.file_path FROM lake.{self.namespace}.{table}"
        names = {Path(str(path)).name for (path,) in self.rows(query)}
        return [path for path in self.on_disk(table) if Path(path).name in names]

    def check_clean(self, table: str) -> None:
        """The directory has the index's files and nothing else, and no transaction is in flight."""
        assert self.on_disk(table) == self.indexed(table)
        staging = [p for p in self.location(table).rglob("_catalog_ext_staging") if any(p.rglob("*"))]
        assert staging == []
        states = {state for (state,) in self.rows(f"SELECT state FROM lake.{self.namespace}.{table}.transactions")}
        assert states <= {"finished", "aborted"}

    def statistics(self, table: str) -> list[dict[str, Any]]:
        """The statistics of the table's files in the index, by partition and file."""
        table_id = self.catalog.load_table(f"{self.namespace}.{table}").table_id
        query = (
            "SELECT statistics FROM file_statistics s JOIN partitions p ON p.partition_id = s.partition_id "
            "WHERE p.table_id = ? ORDER BY p.partition_id, s.file_id"
        )
        with closing(sqlite3.connect(self.index)) as connection:
            return [json.loads(row[0]) for row in connection.execute(query, (table_id,))]


@contextmanager
def local_lake(
    driver: Driver, folder: Path, namespace: str = "w", conf: Mapping[str, str] | None = None, *, master: str = LOCAL
) -> Iterator[Lake]:
    """A lake with an empty namespace."""
    with driver.catalog(
        conf, master=master, warehouse=str(folder / "warehouse"), index=str(folder / "index.db"), metastore=None
    ) as spark:
        catalog = sessions.active_catalog("lake")
        catalog.create_namespace(namespace)
        yield Lake(spark, catalog, folder, namespace)


def external(
    lake: Lake, name: str, keys: Mapping[str, str], schema: str = "id INT, v STRING", **properties: str
) -> str:
    """Register an empty folder as a table with virtual keys, and give its name in SQL."""
    location = lake.folder / name
    location.mkdir()
    lake.catalog.register_table(
        f"{lake.namespace}.{name}", location=str(location), partition_columns=dict(keys), schema=schema,
        properties=properties,
    )  # fmt: skip
    return f"lake.{lake.namespace}.{name}"
