"""What tests look at after a write by Spark through the real service."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catalog_ext.catalog import Catalog


@dataclass(frozen=True)
class Lake:
    """A session with the catalog ``lake``, the namespace ``w``, and an index in a SQLite file."""

    spark: SparkSession
    catalog: Catalog
    index: Path

    def sql(self, query: str) -> DataFrame:
        return self.spark.sql(query)

    def rows(self, query: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in self.sql(query).collect()]

    def folder(self, table: str) -> Path:
        """The directory of the table ``w.<table>`` on the local disk."""
        return Path(self.catalog.load_table(f"w.{table}").definition.location.removeprefix("file://"))

    def on_disk(self, table: str) -> list[str]:
        """Every file below the table's directory, hidden ones too, but for Hadoop's checksums."""
        root = self.folder(table)
        found = (p for p in root.rglob("*") if p.is_file() and not p.name.endswith(".crc"))
        return sorted(str(p.relative_to(root)) for p in found)

    def indexed(self, table: str) -> list[str]:
        """The paths, below the table's directory, of the files that the index has now."""
        query = f"SELECT DISTINCT _metadata.file_path FROM lake.w.{table}"
        names = {Path(str(path)).name for (path,) in self.rows(query)}
        return [path for path in self.on_disk(table) if Path(path).name in names]

    def check_clean(self, table: str) -> None:
        """The directory has the index's files and nothing else, and no transaction is under way."""
        assert self.on_disk(table) == self.indexed(table)
        staging = [p for p in self.folder(table).rglob("_catalog_ext_staging") if any(p.rglob("*"))]
        assert staging == []
        states = {state for (state,) in self.rows(f"SELECT state FROM lake.w.{table}.transactions")}
        assert states <= {"finished", "aborted"}

    def statistics(self, table: str) -> list[dict[str, Any]]:
        """The statistics of the table's files in the index, by partition and file."""
        table_id = self.catalog.load_table(f"w.{table}").table_id
        query = (
            "SELECT statistics FROM file_statistics s JOIN partitions p ON p.partition_id = s.partition_id "
            "WHERE p.table_id = ? ORDER BY p.partition_id, s.file_id"
        )
        with closing(sqlite3.connect(self.index)) as connection:
            return [json.loads(row[0]) for row in connection.execute(query, (table_id,))]
