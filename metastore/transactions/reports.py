"""Reports of recovery, of vacuum, and of files that wait for their partitions to be due."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.runtime.wording import counted


class RecoveryAction(StrEnum):
    """The action of recovery for a transaction, or in a dry run the intended action."""

    FINISHED = "finished"
    UNDONE = "undone"
    WOULD_FINISH = "would finish"
    WOULD_UNDO = "would undo"
    WAITS = "waits"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RecoveredTransaction:
    """One transaction that recovery found.

    Attributes:
        transaction_id: The id of the transaction.
        table: ``namespace.name``.
        operation: The user's statement.
        owner: The process that began the transaction.
        action: The outcome of the recovery.
        files: The number of staged files that the transaction had recorded.
        error: The reason why it was undone, why recovery failed, or for what it waits; None without a reason.
    """

    transaction_id: str
    table: str
    operation: str
    owner: str
    action: RecoveryAction
    files: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The result of a recovery, oldest transaction first.

    Attributes:
        dry_run: Whether it was a dry run.
        waiting: The transactions in flight that were left alone, as their leases have not ended.
    """

    transactions: tuple[RecoveredTransaction, ...]
    dry_run: bool = False
    waiting: tuple[RecoveredTransaction, ...] = ()

    @property
    def failed(self) -> tuple[RecoveredTransaction, ...]:
        """The transactions that are still in flight because their recovery failed."""
        return tuple(t for t in self.transactions if t.action is RecoveryAction.FAILED)


class RollbackAction(StrEnum):
    """The action of a rollback for files of a partition, or in a dry run the intended action."""

    RESTORED = "restored"
    REMOVED = "removed"
    KEPT = "kept"
    MISSING = "missing"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class RollbackEntry:
    """The files of one partition for which a rollback has the same action.

    Attributes:
        partition: The name of the partition; empty for an unpartitioned table.
        rows: Their rows; None if the rows of a file were not counted.
        bytes: Their size.
        reason: The cause or the consequence, as text for people; empty if there is nothing to say.
        version: The version whose state the partition gets.
    """

    action: RollbackAction
    partition: str
    files: int
    rows: int | None
    bytes: int
    reason: str
    version: int


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file that a stream kept invisible until its partition is due, and that disappeared from the store.

    Attributes:
        partition: The name of the file's partition.
        location: The file's former location, a URI.
        name: The file's name in the partition's directory.
        rows: The number of lost rows; None if they were not counted.
        bytes: The file's size.
        since_ms: When the file was written, in milliseconds since the epoch, UTC.
        transaction_id: The transaction of the epoch that wrote the file.
    """

    partition: str
    location: str
    name: str
    rows: int | None
    bytes: int
    since_ms: int
    transaction_id: str


@dataclass(frozen=True, slots=True)
class DiscardReport:
    """The result of discarding lost files that waited for their partitions to be due, so that the stream can continue.

    Attributes:
        dry_run: Whether it was a dry run.
    """

    table: str
    files: tuple[LostFile, ...]
    dry_run: bool = False

    @property
    def rows(self) -> int:
        """The number of rows in the lost files, as far as they were counted."""
        return sum(file.rows or 0 for file in self.files)


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """Files of one streaming query that wait for their partition to be due, summed up for one partition.

    Attributes:
        partition: The partition's name.
        application: The query's id.
        files: The number of files.
        rows: The number of rows; None if one file's rows are not counted.
        bytes: The size of all files.
        since_ms: When the first file was written, in milliseconds since the epoch, UTC.
    """

    partition: str
    application: str
    files: int
    rows: int | None
    bytes: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """The result of committing a stream's files before their partitions are due.

    Attributes:
        version: The table's version with these files; None if no files waited, and in a dry run.
        dry_run: Whether it was a dry run.
    """

    table: str
    partitions: tuple[WaitingPartition, ...]
    version: int | None = None
    dry_run: bool = False


class VacuumAction(StrEnum):
    """The action of vacuum for a path, or in a dry run the intended action."""

    DELETE = "delete"
    ABORT_UPLOAD = "abort upload"
    FORGET = "forget versions"
    KEPT = "kept"
    SKIPPED = "skipped"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class VacuumEntry:
    """A path that vacuum has examined.

    Attributes:
        action: The action of vacuum; ``refused`` in a preview of a run that would be refused.
        path: A URI; for expired versions in the index, the table's name.
        bytes: The size of a file; 0 if it is not known.
        reason: Why the path is not needed, or why it stays or could not be removed.
        table: ``namespace.name`` of the table that the path belonged to.
    """

    action: VacuumAction
    path: str
    bytes: int
    reason: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """The result of a vacuum of one table, or of all tables if ``table`` is None."""

    table: str | None
    entries: tuple[VacuumEntry, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[VacuumEntry, ...]:
        """The paths that could not be removed."""
        return tuple(e for e in self.entries if e.action is VacuumAction.FAILED)

    @property
    def kept(self) -> tuple[VacuumEntry, ...]:
        """Replaced files that stay, by directory: a version, another table or a running statement needs them."""
        return tuple(e for e in self.entries if e.action is VacuumAction.KEPT)

    @property
    def skipped(self) -> tuple[VacuumEntry, ...]:
        """Paths that stay because this index cannot know whether another index needs them."""
        return tuple(e for e in self.entries if e.action is VacuumAction.SKIPPED)


class KeptFiles:
    """Files that a vacuum keeps, summed up to one report line per directory and reason.

    Attributes:
        first_version: The first version whose replaced files stay, and from which on the index keeps its rows.
    """

    def __init__(self) -> None:
        self.first_version = sys.maxsize
        self._sums: dict[tuple[VacuumAction, str, str], tuple[int, int]] = {}

    def add(self, action: VacuumAction, path: str, size: int, reason: str, version: int | None = None) -> None:
        """Count a kept file, given by its URI. If ``version`` is given, keep the index's rows from that version on."""
        key = action, path.rpartition("/")[0], reason
        files, total = self._sums.get(key, (0, 0))
        self._sums[key] = files + 1, total + size
        if version is not None:
            self.first_version = min(self.first_version, version)

    def entries(self) -> list[VacuumEntry]:
        """Return the lines of the report, by directory."""
        found = sorted(self._sums.items(), key=lambda item: (item[0][1], item[0][2]))
        return [
            VacuumEntry(action, directory, total, f"{counted(files, 'file')}: {reason}")
            for (action, directory, reason), (files, total) in found
        ]
