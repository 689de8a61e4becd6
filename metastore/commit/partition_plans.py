"""The partition commands as parts of a plan: each request, and the findings of its check.

``plan`` has the writes, and the plan of a transaction, which contains one of the requests or findings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.commit.write_kinds import WriteKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile
    from catalog_ext.metastore.predicates.tree import Predicate


class DataDeletion(StrEnum):
    """The data that a ``DropPartitions`` deletes: all, only inside the table's directory, or none."""

    ALL = "all"
    INSIDE = "inside"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition to register, with the URI of its directory (None: the default location)."""

    name: str
    location: str | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Registers partitions with the files in their directories."""

    kind: ClassVar = WriteKind.ADD_PARTITIONS
    partitions: tuple[NewPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """Drops the partitions for which an unbound predicate is true."""

    kind: ClassVar = WriteKind.DROP_PARTITIONS
    predicate: Predicate
    deletes: DataDeletion


@dataclass(frozen=True, slots=True)
class RenamePartition:
    """Gives a partition other values of its partition columns, and so another name."""

    kind: ClassVar = WriteKind.RENAME_PARTITION
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class RelocatePartition:
    """Gives a partition another directory, by its URI, with the files in that directory."""

    kind: ClassVar = WriteKind.RELOCATE_PARTITION
    name: str
    location: str


@dataclass(frozen=True, slots=True)
class ExchangePartitions:
    """Moves partitions of another table into this one.

    Attributes:
        source_id: The number of the table that loses the partitions.
        source: The name of that table, for people.
        source_version: The version of that table that the statement read.
        predicate: Unbound; true for the partitions that move.
    """

    kind: ClassVar = WriteKind.EXCHANGE_PARTITIONS
    source_id: int
    source: str
    source_version: int
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Rollback:
    """Gives partitions the files that they had in an earlier version; partitions that it does not have are dropped.

    Attributes:
        version: The earlier version of the table.
        predicate: Unbound; true for the partitions that are rolled back. None for the whole table.
    """

    kind: ClassVar = WriteKind.ROLLBACK
    version: int
    predicate: Predicate | None = None


AskedCommand: TypeAlias = (
    AddPartitions | DropPartitions | RenamePartition | RelocatePartition | ExchangePartitions | Rollback
)
"""Requests of partition commands, which write no rows."""


@dataclass(frozen=True, slots=True)
class CheckedAdd:
    """A checked ADD PARTITION: the partitions that do not exist yet, and the files in each of their directories."""

    asked: AddPartitions
    partitions: tuple[NewPartition, ...]
    found: Mapping[str, tuple[DataFile, ...]]


@dataclass(frozen=True, slots=True)
class CheckedDrop:
    """A checked DROP: by partition, files in its directory that the index does not know, or knows in another state.

    They are deleted together with the known files.
    """

    asked: DropPartitions
    unknown: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MovingPartition:
    """A partition that ``check`` has found for a partition command. The commit fails if it has changed since.

    Attributes:
        partition_id: The partition's number.
        begin_version: The version that last changed the partition.
        name: The partition's new name.
    """

    partition_id: int
    begin_version: int
    name: str


@dataclass(frozen=True, slots=True)
class CheckedRename:
    """A checked RENAME: the partitions with the old values (the first one keeps its number), and whether files move."""

    asked: RenamePartition
    partitions: tuple[MovingPartition, ...]
    moves: bool


@dataclass(frozen=True, slots=True)
class CheckedRelocate:
    """A checked SET LOCATION: the new directory of the partition (None: the default location), and the files in it."""

    asked: RelocatePartition
    location: str | None
    found: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class CheckedExchange:
    """A checked EXCHANGE: the source's partitions with new names, the source's location, and whether files move."""

    asked: ExchangePartitions
    partitions: tuple[MovingPartition, ...]
    source_location: str
    moves: bool


@dataclass(frozen=True, slots=True)
class CheckedRollback:
    """A checked rollback. The files that it restores follow from the two versions, which do not change.

    Attributes:
        asked: The request.
        returning: The partitions that the earlier version has and the present one does not have.
        deleted: By partition, files that the earlier version does not have in a directory that the partition keeps or
            gets again. Hive engines list the directory, so these files are deleted.
    """

    asked: Rollback
    returning: tuple[str, ...] = ()
    deleted: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)


CheckedCommand: TypeAlias = (
    CheckedAdd | CheckedDrop | CheckedRename | CheckedRelocate | CheckedExchange | CheckedRollback
)
COMMANDS = (AddPartitions, DropPartitions, RenamePartition, RelocatePartition, ExchangePartitions, Rollback)
