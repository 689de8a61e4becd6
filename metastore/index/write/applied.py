"""What an ``Applier`` counts and gathers while it writes the rows of one version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    partitions,
)
from catalog_ext.metastore.index.database.texts import name_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.index.write.partition_sums import PartitionSums
    from catalog_ext.metastore.model.tables import DataFile


ALIVE_NAMED = Prepared(
    sa.select(partitions).where(
        partitions.c.table_id == sa.bindparam("table_id"),
        partitions.c.name_hash.in_(sa.bindparam("hashes", expanding=True)),
        partitions.c.end_version == ALIVE,
    )
)


@dataclass(slots=True)
class Sums:
    """How the table's totals change, and its sums by the first key."""

    parts: PartitionSums
    partitions: int = 0
    files: int = 0
    bytes: int = 0
    rows: int = 0
    uncounted: int = 0

    def add(self, first_key: str | None, n_files: int, n_bytes: int, n_rows: int | None, sign: int) -> None:
        """Count a partition in (1) or out (-1)."""
        self.parts.add(first_key, n_files, n_bytes, n_rows, sign)
        self.partitions += sign
        self.files += sign * n_files
        self.bytes += sign * n_bytes
        self.rows += sign * (n_rows or 0)
        self.uncounted += sign * (n_rows is None)

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


Twin = tuple[str, str | None, int, int, int | None, int | None]
"""Of a partition, what the metastore learns of it: its name, location, numbers of files, bytes and rows, and the number
of its descriptor (``THE_TABLES``: it has the table's again; None: nothing is said)."""


@dataclass(frozen=True, slots=True)
class Published:
    """What the commit did to partitions that the metastore can have; ``dropped`` are names.

    Documents are made of it only where something is delivered.
    """

    added: list[Twin] = field(default_factory=list)
    altered: list[Twin] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Size:
    """The files, bytes and rows of a partition; ``rows`` is None where a file is not counted."""

    files: int = 0
    bytes: int = 0
    rows: int | None = 0

    def plus(self, added: Sequence[DataFile]) -> Size:
        """Return the size with more files."""
        counts = [f.rows for f in added if f.rows is not None]
        known = self.rows is not None and len(counts) == len(added)
        n_rows = (self.rows or 0) + sum(counts) if known else None
        return Size(self.files + len(added), self.bytes + sum(f.size for f in added), n_rows)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A living partition, given by its row, gets files; ``clear`` ends those that it has.

    Attributes:
        location: Where it moves to; None when it stays where it is, or (``moved``) comes to its default location.
    """

    row: Mapping[str, Any]
    added: Sequence[DataFile] = ()
    clear: bool = False
    location: str | None = None
    moved: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether it holds from now on what we write, which is as the table says, and was not read so before."""
        return self.clear and not self.moved and self.row["descriptor_id"] is not None


@dataclass(frozen=True, slots=True)
class NamedPartitions:
    """The living partitions of some names, which a commit asks for while it takes its locks.

    Attributes:
        hashes: Of the names.
        rows: By name.
    """

    hashes: Mapping[str, str]
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> NamedPartitions:
        """Return those of the names, of which nothing is known yet."""
        return cls({name: name_hash(name) for name in names})

    def query(self, table_id: int) -> tuple[Prepared, Mapping[str, Any]]:
        """Return the query of the rows."""
        return ALIVE_NAMED, {"table_id": table_id, "hashes": list(self.hashes.values())}

    def found(self, rows: Sequence[Mapping[str, Any]]) -> NamedPartitions:
        """Return the same, with the answer."""
        return NamedPartitions(self.hashes, {row["name"]: row for row in rows})


def twin(row: Mapping[str, Any]) -> Twin:
    """Return what the metastore learns of a partition, given by its row."""
    return row["name"], row["location"], row["n_files"], row["n_bytes"], row["n_rows"], row["descriptor_id"]
