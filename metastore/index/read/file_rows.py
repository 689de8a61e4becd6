"""The metadata table ``files``: every file that readers of the table see, with what the index knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from catalog_ext.metastore.index.read.reader import detailed_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index.database.database import Database
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
])  # fmt: skip
"""One row a file; ``path`` is absolute, ``version`` added it, ``statistics`` are JSON by column (min, max, nulls)."""

_ROWS = 4096
"""Of one batch: statistics of wide tables are large, and a batch becomes a task of the reader."""


def file_rows(database: Database, table: Table, predicate: Predicate | None) -> pa.RecordBatchReader:
    """Yield the files of the partitions that a bound predicate leaves, at the table's version, in bounded memory.

    Raises:
        TableNotFoundError: The table has been dropped.
    """
    root = table.definition.location

    def batches() -> Iterator[pa.RecordBatch]:
        with detailed_files(database, table, predicate) as found:
            for batch in found:
                for start in range(0, batch.num_rows, _ROWS):
                    yield _rows(batch.slice(start, _ROWS), root)

    return pa.RecordBatchReader.from_batches(FILE_ROWS_SCHEMA, batches())


def _rows(batch: pa.RecordBatch, root: str) -> pa.RecordBatch:
    columns = {
        "partition": batch.column("partition"),
        "path": pc.binary_join_element_wise(directories(batch, root), batch.column("path"), "/"),
        **{name: batch.column(name) for name in ("size", "rows", "version", "statistics")},
        "modified_at": batch.column("modified_ms").cast(FILE_ROWS_SCHEMA.field("modified_at").type),
    }
    return pa.RecordBatch.from_pydict(columns, schema=FILE_ROWS_SCHEMA)


def directories(batch: pa.RecordBatch, root: str) -> pa.Array:
    """Return the absolute locations of the partitions whose names and own locations a batch has.

    Args:
        batch: With the columns ``partition`` and ``location``.
        root: The table's location.
    """
    names = batch.column("partition")
    default = pc.if_else(pc.equal(names, ""), root, pc.binary_join_element_wise(pa.scalar(root), names, "/"))
    return pc.coalesce(batch.column("location"), default)
