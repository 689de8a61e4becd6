"""The plan of a transaction: the requested change, with one class for each kind, and the findings of its check.

A transaction begins with the request (``Asked``). The step ``check`` reads the table and the store and adds its
findings (``Checked``). From the step ``reserve`` on the plan has everything that another process needs to recover the
transaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.commit.lock_settings import WITHOUT_LOCKS, LockSettings
from catalog_ext.metastore.commit.partition_plans import (
    COMMANDS,
    AddPartitions,
    AskedCommand,
    CheckedAdd,
    CheckedCommand,
    CheckedDrop,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    CheckedRollback,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    RelocatePartition,
    Rollback,
)
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate


MISMATCH = "replace-where-mismatch"
"""The setting that decides about rows for which an overwrite's condition is not true."""


class Promotion(StrEnum):
    """The way in which a staged file gets its final name."""

    RENAME = "rename"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class Append:
    """Adds files to partitions; missing partitions are created."""

    kind: ClassVar = WriteKind.APPEND


@dataclass(frozen=True, slots=True)
class OverwritePartitions:
    """Replaces the partitions that receive rows (dynamic overwrite)."""

    kind: ClassVar = WriteKind.OVERWRITE_PARTITIONS


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces the partitions for which a predicate is true; without new files it is a DELETE or TRUNCATE.

    Attributes:
        predicate: Unbound (with column names); None for the whole table.
        keep_emptied: Whether partitions that are left without files stay registered (TRUNCATE).
        adds_others: Whether new files may go to partitions for which the predicate is not true.
    """

    kind: ClassVar = WriteKind.OVERWRITE
    predicate: Predicate | None = None
    keep_emptied: bool = False
    adds_others: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a table together with its first files."""

    kind: ClassVar = WriteKind.CREATE
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class Replace:
    """Replaces an existing table by a new one with its first files."""

    kind: ClassVar = WriteKind.REPLACE
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class CreateOrReplace:
    """Creates a table with its first files, and replaces a table of the same name if there is one."""

    kind: ClassVar = WriteKind.CREATE_OR_REPLACE
    definition: TableDefinition


Creation: TypeAlias = Create | Replace | CreateOrReplace
AskedWrite: TypeAlias = Append | OverwritePartitions | Overwrite | Creation
"""Requests of writes whose new files, if any, come from the tasks of a query."""
Asked: TypeAlias = AskedWrite | AskedCommand


@dataclass(frozen=True, slots=True)
class CheckedWrite:
    """A write after its check, with a complete list of staged files.

    Attributes:
        static_partition: The partition of a fully static PARTITION clause, which is registered also without rows.
        waiting: Partitions whose staged files the commit does not add, but keeps in the table ``waiting_files``.
        due: Partitions whose files in ``waiting_files``, from earlier epochs of the application, the commit adds.
        published: Partitions that get files and have policies to run.
        found: The visible files in the directories of partitions that an append creates, by partition; they are added.
        unknown: Files to delete, by partition: files in directories that an overwrite replaces which are not, or not
            unchanged, in the index, and files that relocations left in the directories of new partitions.
        digest: The digest of the files that came with the commit. A repeated commit must have the same digest.
        replaced_version: The version of the replaced table before its directories were listed; None if no table is
            replaced.
    """

    asked: AskedWrite
    static_partition: str | None = None
    waiting: tuple[str, ...] = ()
    due: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    found: Mapping[str, tuple[DataFile, ...]] = field(default_factory=dict)
    unknown: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)
    digest: str = ""
    replaced_version: int | None = None


Checked: TypeAlias = CheckedWrite | CheckedCommand
CHECKED = (CheckedWrite, CheckedAdd, CheckedDrop, CheckedRename, CheckedRelocate, CheckedExchange, CheckedRollback)
CREATIONS = (Create, Replace, CreateOrReplace)
_CREATIONS_BY_KIND = {creation.kind: creation for creation in CREATIONS}


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The change that a transaction makes, and where its files are. It is stored with the transaction, for recovery.

    Attributes:
        change: The request, or (from ``reserve`` on) the request and the findings of its check.
        location: The table's location, canonical.
        staging: The name of the staging directory (without a slash).
        base: The directory that contains new partition directories: the table's, or that of a relocating overwrite.
        promotion: Whether staged files are renamed or their uploads completed.
        relocate: Whether an overwrite moves partitions to ``base``, or a rollback moves them to earlier directories.
            The replaced files stay until a vacuum.
        locations: Directories outside ``base``, by partition: before ``reserve`` those of all partitions that the write
            can touch, afterwards only those that it touches.
        lease_ms: The longest time between two heartbeats of the owner, in milliseconds.
        created_location: Whether the table's directory was created for this transaction.
        hides_uploads: Whether uploads become whole objects with hidden names, which are later copied to the final
            names. This is for streams whose partitions may wait, since stores abort uploads that are pending for long.
        asks_locations: Whether the write can touch more partitions outside ``base`` than a plan can hold. Until
            ``reserve``, ``locations`` then has only those that the write's tasks have asked for.
        beside_located: Whether any partition of the table has a location of its own, which may be another partition's
            directory.
        partition_commit: The partition-commit options of this write (``partition_commit.chosen_options``).
        hive_locks: Whether the transaction takes Hive locks.
        moves_user_files: Whether the write moves the user's own files (LOAD DATA).
    """

    change: Asked | Checked
    location: str
    staging: str
    base: str
    promotion: Promotion
    relocate: bool = False
    locations: Mapping[str, str] = field(default_factory=dict)
    lease_ms: int = 600_000
    created_location: bool = False
    hides_uploads: bool = False
    asks_locations: bool = False
    beside_located: bool = False
    partition_commit: Mapping[str, str] = field(default_factory=dict)
    hive_locks: LockSettings = WITHOUT_LOCKS
    moves_user_files: bool = False

    @property
    def asked(self) -> Asked:
        """The request, without the findings of a check."""
        return self.change.asked if isinstance(self.change, CHECKED) else self.change

    @property
    def write(self) -> CheckedWrite | None:
        """The checked write; None for a command, and before ``reserve``."""
        return self.change if isinstance(self.change, CheckedWrite) else None

    @property
    def is_command(self) -> bool:
        """Whether the change is a partition command."""
        return isinstance(self.asked, COMMANDS)

    @property
    def definition(self) -> TableDefinition | None:
        """The definition of the table that the write creates or replaces; None for other changes."""
        return self.asked.definition if isinstance(self.asked, CREATIONS) else None

    @property
    def source_id(self) -> int | None:
        """The number of the table that an exchange takes partitions from; None for other changes."""
        return self.asked.source_id if isinstance(self.asked, ExchangePartitions) else None

    @property
    def moves(self) -> bool:
        """Whether files are moved from their present places: by a checked command, or by LOAD DATA."""
        return self.moves_user_files or (isinstance(self.change, CheckedRename | CheckedExchange) and self.change.moves)

    def may_delete_near(self, directory: str) -> bool:
        """Return False if the transaction certainly deletes no files in or below a directory, otherwise True."""
        if self.beside_located or self.moves_user_files or self.definition is not None:
            return True
        near = self.location
        match self.change:
            case AddPartitions() | CheckedAdd() | RelocatePartition() | CheckedRelocate():
                return False
            case DropPartitions(deletes=deletes) | CheckedDrop(asked=DropPartitions(deletes=deletes)):
                if deletes is not DataDeletion.INSIDE:
                    return deletes is DataDeletion.ALL
            case CheckedExchange(source_location=source):
                near = source
            case CheckedRollback(deleted=deleted):
                return bool(deleted)
            case ExchangePartitions() | Rollback():
                return True
        ours, theirs = f"{near}/", f"{directory}/"
        return ours.startswith(theirs) or theirs.startswith(ours)

    def directory(self, partition: str) -> str:
        """Return the URI of the directory for the write's new files of a partition."""
        return self.locations.get(partition) or (f"{self.base}/{partition}" if partition else self.base)


def asked_write(
    kind: WriteKind, *, predicate: Predicate | None = None, keep_emptied: bool = False, adds_others: bool = False,
    definition: TableDefinition | None = None,
) -> AskedWrite:  # fmt: skip
    """Return the request of a write of this kind; ``definition`` is for creations, other arguments for ``Overwrite``.

    Raises:
        InvalidInputError: The kind belongs to a partition command, or a creation has no definition.
    """
    if definition is not None and kind in _CREATIONS_BY_KIND:
        return _CREATIONS_BY_KIND[kind](definition)
    match kind:
        case WriteKind.APPEND:
            return Append()
        case WriteKind.OVERWRITE_PARTITIONS:
            return OverwritePartitions()
        case WriteKind.OVERWRITE:
            return Overwrite(predicate, keep_emptied, adds_others)
        case _:
            raise InvalidInputError(f"A write of the kind '{kind}' cannot be begun without more than its predicate.")
