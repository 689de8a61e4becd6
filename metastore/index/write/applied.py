"""The counts of an ``Applier``, and the changes that it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import DataFile, Partition


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
