"""Shows partitions with their keys as declared, whatever their case on the store; locations stay as they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from catalog_ext.metastore.model.partition_names import DeclaredNames

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.model.tables import Table

_PARTITION, _LOCATION = "partition", "location"


def declared_batches(table: Table, found: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Return the batches with declared names in the column ``partition``.

    A ``location`` that was the default one of a name that changes by that is written out.
    """
    names = [key.name for key in table.definition.partition_columns]
    if not names:
        return found

    def batches() -> Iterator[pa.RecordBatch]:
        with found:
            for batch in found:
                yield _declared(table, DeclaredNames(names), batch)

    return pa.RecordBatchReader.from_batches(found.schema, batches())


def _declared(table: Table, names: DeclaredNames, batch: pa.RecordBatch) -> pa.RecordBatch:
    stored = batch.column(_PARTITION)
    # A million names are looked at one by one only where that changes any.
    if pc.all(pc.match_substring_regex(stored, names.pattern), min_count=0).as_py():
        return batch
    shown = pa.array([names.of(name) for name in stored.to_pylist()], stored.type)
    if shown.equals(stored):
        return batch
    columns = {name: batch.column(name) for name in batch.schema.names} | {_PARTITION: shown}
    if _LOCATION in columns:
        there = pc.binary_join_element_wise(pa.scalar(table.definition.location), stored, "/")
        own = pc.if_else(pc.equal(shown, stored), pa.scalar(None, pa.string()), there)
        columns[_LOCATION] = pc.coalesce(columns[_LOCATION], own)
    return pa.RecordBatch.from_pydict(columns, schema=batch.schema)
