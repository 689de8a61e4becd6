"""The metadata table ``files``: every file that readers of the table see, with what the index knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.read.planned_files import PlannedFiles

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.number_predicates import NumberPredicate
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

FILE_ROWS_SCHEMA = pa.schema([
    pa.field("partition", pa.string(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified_at", pa.timestamp("ms", tz="UTC"), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("version", pa.int64(), nullable=False),
    pa.field("statistics", pa.string()),
    pa.field("file_path", pa.string(), nullable=False),
])  # fmt: skip
"""One row a file; ``path`` is absolute, ``version`` added it, ``statistics`` are JSON by column (min, max, nulls).

``file_path`` is the same text here: the connector writes it as Spark writes ``_metadata.file_path``, percent-encoded.
"""

_DETAILS = frozenset({"version", "statistics"})
_LONG = frozenset({"path", "file_path", "statistics"})
_ROWS = 4096
"""Of one batch with these: statistics of wide tables are large, and a batch becomes a task of the reader."""


def columns_of(schema: pa.Schema, columns: Collection[str] | None) -> pa.Schema:
    """Return the fields of those names, in the schema's order; all of them for None."""
    return schema if columns is None else pa.schema([field for field in schema if field.name in columns])


class FileRows:
    """The metadata table files."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Yield the files of the partitions that a bound predicate leaves, at the table's version, in bounded memory.

        Args:
            table: The table.
            predicate: Over the partition columns, None for all.
            columns: Those that are wanted, None for all.
            numbers: A condition on the rows, None for all.

        Raises:
            TableNotFoundError: The table has been dropped.
        """
        root = table.definition.location
        schema = columns_of(FILE_ROWS_SCHEMA, columns)
        detailed, only = bool(_DETAILS & set(schema.names)), None if numbers is None else numbers.clause
        rows = _ROWS if _LONG & set(schema.names) else arrow_rows.BATCH_ROWS

        def batches() -> Iterator[pa.RecordBatch]:
            with PlannedFiles(self._database).detailed(table, predicate, detailed=detailed, only=only) as found:
                for batch in found:
                    for start in range(0, batch.num_rows, rows):
                        yield _rows(batch.slice(start, rows), root, schema)

        return pa.RecordBatchReader.from_batches(schema, batches())


def _rows(batch: pa.RecordBatch, root: str, schema: pa.Schema) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "path" | "file_path":
                return pc.binary_join_element_wise(directories(batch, root), batch.column("path"), "/")
            case "modified_at":
                return batch.column("modified_ms").cast(field.type)
            case name:
                return batch.column(name)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def directories(batch: pa.RecordBatch, root: str) -> pa.Array:
    """Return the absolute locations of the partitions whose names and own locations a batch has.

    Args:
        batch: With the columns ``partition`` and ``location``.
        root: The table's location.
    """
    names = batch.column("partition")
    default = pc.if_else(pc.equal(names, ""), root, pc.binary_join_element_wise(pa.scalar(root), names, "/"))
    return pc.coalesce(batch.column("location"), default)
