"""Reads a table at one version, and partitions of it at later ones, as one answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


def read_moved(
    index: Index,
    table: Table,
    moved: Mapping[str, int],
    read: Callable[[Table, Sequence[int] | None], pa.RecordBatchReader],
) -> pa.RecordBatchReader:
    """Return what ``read`` gives of the table, and of the partitions that have moved what it gives at their versions.

    Args:
        index: Knows the numbers of the partitions.
        table: The table, at the version of the others.
        moved: Versions by the names of partitions.
        read: Reads the table at its version, maybe only the partitions of some numbers; the rows have a column
            ``partition``, and those of one partition lie together.
    """
    by_version: dict[int, list[str]] = {}
    for name, version in moved.items():
        by_version.setdefault(version, []).append(name)
    first = read(table, None)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from _chosen(first, list(moved), kept=False)
        for version, names in sorted(by_version.items()):
            at = replace(table, version=version)
            found = index.partitions.named(at, names)
            if ids := [number for batch in found for number in batch.column("partition_id").to_pylist()]:
                yield from _chosen(read(at, ids), names, kept=True)

    return pa.RecordBatchReader.from_batches(first.schema, batches())


def _chosen(reader: pa.RecordBatchReader, names: Collection[str], *, kept: bool) -> Iterator[pa.RecordBatch]:
    values = pa.array(names, pa.string())
    with reader:
        for batch in reader:
            among = pc.is_in(batch.column("partition"), value_set=values)
            yield batch.filter(among if kept else pc.invert(among))
