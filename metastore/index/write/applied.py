"""The counts of an ``Applier``, and the changes that it is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.index.database.rows import partition_of
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.partition_rows import LIVING_NAMED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index.database.prepared import Prepared
    from catalog_ext.metastore.index.write.partition_sums import PartitionSums
    from catalog_ext.metastore.model.tables import DataFile, Partition


@dataclass(slots=True)
class Sums:
    """How the table's totals change, and its sums by the first key."""

    parts: PartitionSums
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    uncounted: int = 0

    def add(self, partition: Partition, sign: int) -> None:
        """Count a partition in (1) or out (-1)."""
        self.parts.add(partition, sign)
        self.partitions += sign
        self.files += sign * partition.files
        self.bytes += sign * partition.bytes
        self.rows += sign * (partition.rows or 0)
        self.uncounted += sign * (partition.rows is None)

    def end_everything(self, n_partitions: int, n_files: int, n_bytes: int, n_rows: int, uncounted: int) -> None:
        """Count out so much of the totals, and all of the sums by the first key."""
        self.parts.end_everything()
        self.partitions -= n_partitions
        self.files -= n_files
        self.bytes -= n_bytes
        self.rows -= n_rows
        self.uncounted -= uncounted


@dataclass(slots=True)
class Volume:
    """What files hold that come or go; ``rows`` is None where one of them is not counted."""

    bytes: int = 0
    rows: int | None = 0

    def add(self, n_bytes: int, n_rows: int | None) -> None:
        """Count files in."""
        self.bytes += n_bytes
        self.rows = None if self.rows is None or n_rows is None else self.rows + n_rows


def emptied(partition: Partition) -> Partition:
    """Return the partition without files."""
    return partition._replace(files=0, bytes=0, rows=0)


def holding(partition: Partition, added: Sequence[DataFile]) -> Partition:
    """Return the partition with more files."""
    counts = [f.rows for f in added if f.rows is not None]
    known = partition.rows is not None and len(counts) == len(added)
    n_rows = (partition.rows or 0) + sum(counts) if known else None
    return partition._replace(
        files=partition.files + len(added), bytes=partition.bytes + sum(f.size for f in added), rows=n_rows
    )


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A living partition gets files; ``clear`` ends those that it has.

    Attributes:
        location: Where it moves to; None when it stays where it is, or (``moved``) comes to its default location.
    """

    partition: Partition
    added: Sequence[DataFile] = ()
    clear: bool = False
    location: str | None = None
    moved: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether the write replaces files of another format than the table's by files of the table's format."""
        return self.clear and not self.moved and self.partition.descriptor is not None


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    """The living partitions of some names, which a commit asks for while it takes its locks.

    Attributes:
        hashes: Of the names.
        living: By name.
    """

    hashes: Mapping[str, str]
    living: Mapping[str, Partition] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> NamedPartitions:
        """Return the names without an answer."""
        return cls({name: name_hash(name) for name in names})

    def query(self, table_id: int) -> tuple[Prepared, Mapping[str, Any]]:
        """Return the query of the partitions."""
        return LIVING_NAMED, {"table_id": table_id, "hashes": list(self.hashes.values())}

    def found(self, rows: Sequence[Mapping[str, Any]]) -> NamedPartitions:
        """Return a copy with the partitions of the query's answer."""
        found = (partition_of(tuple(row.values())) for row in rows)
        return NamedPartitions(self.hashes, {partition.name: partition for partition in found})
