"""The plan of a transaction: the requested change, with one class for each kind, and the findings of its check.

A transaction begins with the request (``Asked``). ``check`` looks at the table and the store and adds its findings
(``Checked``); from ``reserve`` on the plan has everything that a recoverer needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.commit.lock_settings import WITHOUT_LOCKS, LockSettings
from catalog_ext.metastore.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.model.tables import DataFile, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate


MISMATCH = "replace-where-mismatch"
"""The setting that says what becomes of rows that an overwrite's condition is not true for."""


class WriteKind(StrEnum):
    """The tags of the kinds of change, in the service's messages and in the kept plan."""

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    OVERWRITE = "overwrite"
    CREATE = "create"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "create_or_replace"
    ADD_PARTITIONS = "add_partitions"
    DROP_PARTITIONS = "drop_partitions"
    RENAME_PARTITION = "rename_partition"
    RELOCATE_PARTITION = "relocate_partition"
    EXCHANGE_PARTITIONS = "exchange_partitions"


class Promotion(StrEnum):
    """How a staged file gets its final name."""

    RENAME = "rename"
    UPLOAD = "upload"


class DataDeletion(StrEnum):
    """The data that a ``DropPartitions`` deletes: all, only inside the table's directory, or none."""

    ALL = "all"
    INSIDE = "inside"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Append:
    """Files are added to partitions, which are made where they are not there."""

    kind: ClassVar = WriteKind.APPEND


@dataclass(frozen=True, slots=True)
class OverwritePartitions:
    """Partitions that receive rows are replaced."""

    kind: ClassVar = WriteKind.OVERWRITE_PARTITIONS


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Partitions that a predicate is true for are replaced: without new files DELETE, or TRUNCATE.

    Attributes:
        predicate: Unbound, None for the whole table.
        keep_emptied: Whether partitions that are left without files stay registered (TRUNCATE).
        adds_others: Whether new files may go to partitions that the predicate is not true for.
    """

    kind: ClassVar = WriteKind.OVERWRITE
    predicate: Predicate | None = None
    keep_emptied: bool = False
    adds_others: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """A table comes with its first files."""

    kind: ClassVar = WriteKind.CREATE
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class Replace:
    """A table replaces an existing one."""

    kind: ClassVar = WriteKind.REPLACE
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class CreateOrReplace:
    """A table comes, in the place of the one of its name if there is one."""

    kind: ClassVar = WriteKind.CREATE_OR_REPLACE
    definition: TableDefinition


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition to be registered, with the URI of its directory (None: the default location)."""

    name: str
    location: str | None = None


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Partitions are registered with the files that lie there."""

    kind: ClassVar = WriteKind.ADD_PARTITIONS
    partitions: tuple[NewPartition, ...]
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropPartitions:
    """Partitions that an unbound predicate is true for leave the table."""

    kind: ClassVar = WriteKind.DROP_PARTITIONS
    predicate: Predicate
    deletes: DataDeletion


@dataclass(frozen=True, slots=True)
class RenamePartition:
    """A partition gets other values."""

    kind: ClassVar = WriteKind.RENAME_PARTITION
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class RelocatePartition:
    """A partition gets the files of another directory, given by its URI."""

    kind: ClassVar = WriteKind.RELOCATE_PARTITION
    name: str
    location: str


@dataclass(frozen=True, slots=True)
class ExchangePartitions:
    """Partitions of another table move into this one.

    Attributes:
        source_id: The number of the table that loses them.
        source: Its name, for people.
        source_version: The version of it that the statement read.
        predicate: Unbound, true for the partitions that move.
    """

    kind: ClassVar = WriteKind.EXCHANGE_PARTITIONS
    source_id: int
    source: str
    source_version: int
    predicate: Predicate


Creation: TypeAlias = Create | Replace | CreateOrReplace
AskedWrite: TypeAlias = Append | OverwritePartitions | Overwrite | Creation
"""Writes whose new files, if any, come from the tasks of a query."""
AskedCommand: TypeAlias = AddPartitions | DropPartitions | RenamePartition | RelocatePartition | ExchangePartitions
"""Partition commands: they have no new rows."""
Asked: TypeAlias = AskedWrite | AskedCommand


@dataclass(frozen=True, slots=True)
class CheckedWrite:
    """A write whose staged files are complete.

    Attributes:
        static_partition: Name of the fully static partition, which is registered also without rows.
        waiting: Partitions whose staged files the commit does not add, but keeps back in ``waiting_files``.
        due: Partitions whose files in ``waiting_files``, from earlier epochs of the application, the commit adds.
        published: Partitions that get files and have policies to run.
        found: The visible files in the directories of partitions that an append creates, by partition; they are added.
        unknown: Files to delete, by partition: files that the index does not know unchanged, in directories that an
            overwrite replaces, and files that relocations left in the directories of new partitions.
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


@dataclass(frozen=True, slots=True)
class CheckedAdd:
    """The partitions that are not there yet, and the files that lie in each of them; nothing is deleted."""

    asked: AddPartitions
    partitions: tuple[NewPartition, ...]
    found: Mapping[str, tuple[DataFile, ...]]


@dataclass(frozen=True, slots=True)
class CheckedDrop:
    """The files, by partition, that the index does not know unchanged and that are deleted together with the data."""

    asked: DropPartitions
    unknown: Mapping[str, tuple[Removal, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MovingPartition:
    """A partition that a command has found: the commit takes it only if it is unchanged.

    Attributes:
        partition_id: Its number.
        begin_version: The version that last changed it.
        name: Its new name.
    """

    partition_id: int
    begin_version: int
    name: str


@dataclass(frozen=True, slots=True)
class CheckedRename:
    """The partitions with the old values, first the one that keeps its number, and whether their files move."""

    asked: RenamePartition
    partitions: tuple[MovingPartition, ...]
    moves: bool


@dataclass(frozen=True, slots=True)
class CheckedRelocate:
    """The new directory (None: the default location), and the files that lie there."""

    asked: RelocatePartition
    location: str | None
    found: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class CheckedExchange:
    """The source's partitions with the names that they get, its location, and whether files move."""

    asked: ExchangePartitions
    partitions: tuple[MovingPartition, ...]
    source_location: str
    moves: bool


CheckedCommand: TypeAlias = CheckedAdd | CheckedDrop | CheckedRename | CheckedRelocate | CheckedExchange
Checked: TypeAlias = CheckedWrite | CheckedCommand
CHECKED = (CheckedWrite, CheckedAdd, CheckedDrop, CheckedRename, CheckedRelocate, CheckedExchange)
COMMANDS = (AddPartitions, DropPartitions, RenamePartition, RelocatePartition, ExchangePartitions)
CREATIONS = (Create, Replace, CreateOrReplace)
_CREATIONS_BY_KIND = {creation.kind: creation for creation in CREATIONS}


@dataclass(frozen=True, slots=True)
class WritePlan:
    """The change that a transaction makes, and its places. It is kept with the transaction, for recovery.

    Attributes:
        change: The request, or (from ``reserve`` on) the request and the findings of its check.
        location: The table's location, canonical.
        staging: Name of the staging directory (no slash).
        base: Directory of new partition directories: the table's, or that of a relocating overwrite.
        promotion: By rename or by completing uploads.
        relocate: Whether an overwrite moves partitions to ``base``.
        locations: Directories outside ``base``, by partition: until ``reserve`` of all partitions that the write can
            touch, then of those that it touches.
        lease_ms: The time for which the owner may send no heartbeat.
        created_location: Whether the table's directory was made for this transaction.
        hides_uploads: Whether uploads go to hidden names, as whole objects, and are copied to their final ones: those
            of a stream whose partitions may wait. Stores abort uploads that are pending for long.
        asks_locations: Whether the write can touch more such partitions than a plan can hold: until ``reserve``,
            ``locations`` then has those that its tasks have asked for.
        beside_located: Whether any partition of the table has a location of its own, which may be another's directory.
        partition_commit: The partition-commit options of this write (``partition_commit.chosen_options``).
        hive_locks: Whether Hive locks are taken for it.
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
        """What was asked."""
        return self.change.asked if isinstance(self.change, CHECKED) else self.change

    @property
    def write(self) -> CheckedWrite | None:
        """The checked write; None of a command, and before ``reserve``."""
        return self.change if isinstance(self.change, CheckedWrite) else None

    @property
    def is_command(self) -> bool:
        """Whether it is a partition command."""
        return isinstance(self.asked, COMMANDS)

    @property
    def definition(self) -> TableDefinition | None:
        """The table that a creation or replacement makes."""
        return self.asked.definition if isinstance(self.asked, CREATIONS) else None

    @property
    def source_id(self) -> int | None:
        """The number of the table that an exchange takes partitions from."""
        return self.asked.source_id if isinstance(self.asked, ExchangePartitions) else None

    @property
    def moves(self) -> bool:
        """Whether the staged files are moved from their sources: those of a checked command, or of LOAD DATA."""
        return self.moves_user_files or (isinstance(self.change, CheckedRename | CheckedExchange) and self.change.moves)

    def may_delete_near(self, directory: str) -> bool:
        """Return whether files that the transaction deletes may lie in a directory or below it; False is certain."""
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
            case ExchangePartitions():
                return True
        ours, theirs = f"{near}/", f"{directory}/"
        return ours.startswith(theirs) or theirs.startswith(ours)

    def directory(self, partition: str) -> str:
        """Return the URI of the directory that gets the write's files of a partition."""
        return self.locations.get(partition) or (f"{self.base}/{partition}" if partition else self.base)


def asked_write(
    kind: WriteKind, *, predicate: Predicate | None = None, keep_emptied: bool = False, adds_others: bool = False,
    definition: TableDefinition | None = None,
) -> AskedWrite:  # fmt: skip
    """Return the write of a kind: ``definition`` is that of a creation, the other arguments are an ``Overwrite``'s.

    Raises:
        InvalidInputError: The kind is a partition command's, or a creation lacks its definition.
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
