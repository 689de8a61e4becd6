"""The metadata table ``partitions``: those that readers see, and those whose files wait to be due."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.index.read.file_rows import columns_of, directories
from catalog_ext.metastore.index.read.partitions import Partitions
from catalog_ext.metastore.index.write.waiting_files import WaitingLists
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.number_predicates import NumberPredicate
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

PARTITION_STATES_SCHEMA = pa.schema([
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string(), nullable=False),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("created_at", pa.timestamp("ms", tz="UTC")),
    pa.field("state", pa.string(), nullable=False),
])  # fmt: skip
"""One row a partition and state: ``committed``, or ``waiting`` for what streaming epochs have kept back."""

_READ = {"created_at": "created_ms"}
"""Columns that have another name where they come from."""

COMMITTED = "committed"
WAITING = "waiting"


class PartitionStates:
    """The metadata table partitions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Yield partitions at the table's version by their values, then those that wait (``PARTITION_STATES_SCHEMA``).

        Args:
            table: The table.
            predicate: A bound predicate that limits both; None for all.
            columns: Those that are wanted, None for all. Without ``partition`` and ``location`` the rows have no order.
            numbers: A condition on the rows, None for all.

        Raises:
            TableNotFoundError: The table has been dropped.
        """
        root = table.definition.location
        has_locations = columns is None or "location" in columns
        located = Partitions(self._database).located(table) if has_locations else {}
        schema = columns_of(PARTITION_STATES_SCHEMA, columns)
        only = None if numbers is None else numbers.clause
        by_values = columns is None or "partition" in columns or "location" in columns

        def batches() -> Iterator[pa.RecordBatch]:
            if by_values:
                found = Partitions(self._database).all(table, predicate, only)
            else:
                found = Partitions(self._database).unordered(
                    table, predicate, [_READ.get(n, n) for n in schema.names], only
                )
            with found as committed:
                for batch in committed:
                    yield _committed(batch, root, schema)
            yield pa.RecordBatch.from_pylist(self.waiting_rows(table, predicate, located, numbers), schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def waiting_rows(
        self,
        table: Table,
        predicate: Predicate | None,
        located: Mapping[str, str],
        numbers: NumberPredicate | None = None,
    ) -> list[dict[str, Any]]:
        """Return the partitions that wait and satisfy both predicates; see ``rows``."""
        rows = self._waiting(table.table_id, table.definition.location, located)
        rows = [row for row in rows if numbers is None or numbers.matches(row)]
        if predicate is None:
            return rows
        keys = table.definition.keys
        evaluator = Evaluator(predicate, keys)
        return [row for row in rows if evaluator.matches(typed_values(row["partition"], keys))]

    def _waiting(self, table_id: int, root: str, located: Mapping[str, str]) -> list[dict[str, Any]]:
        files: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for document in WaitingLists(self._database).all(table_id, None):
            files[document.partition].extend((file.size, file.rows) for file in document.files)
        return [
            {
                "partition": name,
                "location": located.get(name, f"{root}/{name}"),
                "files": len(found),
                "bytes": sum(size for size, _ in found),
                "rows": None if any(rows is None for _, rows in found) else sum(rows or 0 for _, rows in found),
                "created_at": None,
                "state": WAITING,
            }
            for name, found in sorted(files.items())
        ]


def _committed(batch: pa.RecordBatch, root: str, schema: pa.Schema) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "location":
                return directories(batch, root)
            case "state":
                return pa.repeat(pa.scalar(COMMITTED), batch.num_rows)
            case name:
                return batch.column(_READ.get(name, name)).cast(field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)
