"""Reports of recovery, vacuum and waiting files, as values."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.runtime.wording import counted


class RecoveryAction(StrEnum):
    """What recovery did with a transaction, or in a preview would do."""

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
        owner: The process that began it.
        action: The outcome of the recovery.
        files: The staged files that it had recorded.
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
    """What recovery did, oldest transaction first.

    Attributes:
        dry_run: Whether it was a preview.
        waiting: The transactions in flight that were left alone, as their leases are not over.
    """

    transactions: tuple[RecoveredTransaction, ...]
    dry_run: bool = False
    waiting: tuple[RecoveredTransaction, ...] = ()

    @property
    def failed(self) -> tuple[RecoveredTransaction, ...]:
        """The transactions that are still in flight."""
        return tuple(t for t in self.transactions if t.action is RecoveryAction.FAILED)


@dataclass(frozen=True, slots=True)
class LostFile:
    """A file of a stream that waited for its partition to be due, and is gone.

    Attributes:
        partition: Its partition.
        location: Where it was, a URI.
        name: Its name in the partition's directory.
        rows: How many rows are lost; None where they were not counted.
        bytes: Its size.
        since_ms: When it was kept back, in milliseconds since the epoch, UTC.
        transaction_id: The epoch's transaction that has kept it back.
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
    """The lost waiting files of a table, which are given up.

    Attributes:
        dry_run: Whether it was a preview.
    """

    table: str
    files: tuple[LostFile, ...]
    dry_run: bool = False

    @property
    def rows(self) -> int:
        """The rows that are lost, as far as they were counted."""
        return sum(file.rows or 0 for file in self.files)


@dataclass(frozen=True, slots=True)
class WaitingPartition:
    """What a query's epochs have kept back of a partition.

    Attributes:
        partition: Its name.
        application: The query's id.
        files: How many files there are.
        rows: Their rows; None where one file's are not counted.
        bytes: Their size.
        since_ms: When the first was kept back, in milliseconds since the epoch, UTC.
    """

    partition: str
    application: str
    files: int
    rows: int | None
    bytes: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """What waited in a table, and is committed.

    Attributes:
        version: The table's version that shows it; None where nothing waited, and in a preview.
        dry_run: Whether it was a preview.
    """

    table: str
    partitions: tuple[WaitingPartition, ...]
    version: int | None = None
    dry_run: bool = False


class VacuumAction(StrEnum):
    """What vacuum does with a path, or in a preview would do."""

    DELETE = "delete"
    ABORT_UPLOAD = "abort upload"
    FORGET = "forget versions"
    KEPT = "kept"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class VacuumEntry:
    """A path that nothing needs, or that only another index can need.

    Attributes:
        action: What is done with it.
        path: A URI; of versions in the index the table's name.
        bytes: Of a file; 0 where it is not known.
        reason: Why nothing needs it, or why it stays or could not be removed.
        table: ``namespace.name`` of the table that it belonged to.
    """

    action: VacuumAction
    path: str
    bytes: int
    reason: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What vacuum removed from a table, or from all (``table`` is None), or in a preview would remove."""

    table: str | None
    entries: tuple[VacuumEntry, ...]
    dry_run: bool = False

    @property
    def failed(self) -> tuple[VacuumEntry, ...]:
        """What could not be removed."""
        return tuple(e for e in self.entries if e.action is VacuumAction.FAILED)

    @property
    def kept(self) -> tuple[VacuumEntry, ...]:
        """Replaced files that stay, by directory: a version, another table or a statement under way needs them."""
        return tuple(e for e in self.entries if e.action is VacuumAction.KEPT)

    @property
    def skipped(self) -> tuple[VacuumEntry, ...]:
        """What stays because this index cannot know whether another index needs it."""
        return tuple(e for e in self.entries if e.action is VacuumAction.SKIPPED)


class KeptFiles:
    """Files that a vacuum keeps, summed up to one report line per directory and reason.

    Attributes:
        first_version: The first version whose replaced files stay; the index keeps its rows.
    """

    def __init__(self) -> None:
        self.first_version = sys.maxsize
        self._sums: dict[tuple[VacuumAction, str, str], tuple[int, int]] = {}

    def add(self, action: VacuumAction, path: str, size: int, reason: str, version: int | None = None) -> None:
        """Count a kept file, given by its URI, and keep the rows from ``version`` on."""
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
