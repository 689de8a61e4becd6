"""Hive locks around commits: which locks writes, repairs and drops of tables take.

``docs/design/9-hive-writers.md`` has the table of lock types.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from uuid import uuid4

from typing_extensions import assert_never

from catalog_ext.metastore.commit.lock_settings import LockMode
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DropPartitions,
    ExchangePartitions,
    RelocatePartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.plan import Append, Create, CreateOrReplace, Overwrite, OverwritePartitions, Replace
from catalog_ext.metastore.errors import InvalidConfigurationError, InvalidPartitionNameError
from catalog_ext.metastore.hive.locks import HiveLock
from catalog_ext.metastore.hive.mapping.conversion import hive_partition_name, to_hive
from catalog_ext.metastore.hive.mapping.model import LockComponent, LockedOperation, LockType
from catalog_ext.metastore.hive.thrift.hive_metastore import SMALL_BATCH
from catalog_ext.metastore.predicates.conditions import bound_to
from catalog_ext.metastore.transactions.moves import covered_partitions
from catalog_ext.metastore.transactions.resources import NO_LOCKS, HeldLocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from catalog_ext.metastore.commit.lock_settings import LockSettings
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.resources import Resources

MOST_PARTITIONS = SMALL_BATCH
"""The most partitions in a lock request, as Hive puts all names into one SQL condition. For more, lock the table."""

_LONGEST_NAME = 767
"""The longest partition name that Hive's lock tables can store, in characters."""


class CommitLocks:
    """Takes Hive locks for the commits of an index.

    Args:
        metastore: Returns the metastore; None if the catalog has no metastore.
    """

    def __init__(self, resources: Resources, metastore: Callable[[], HiveMetastore] | None) -> None:
        self.resources = resources
        self._metastore = metastore

    def of_commit(self, transaction: Transaction) -> CommitLock:
        """Return the Hive locks that a transaction needs; they are not requested yet."""
        return CommitLock(self, transaction)

    def of_repair(self, table: Table, settings: LockSettings) -> AbstractContextManager[HeldLocks | HiveLock]:
        """Return a context for repairing a table, in which no holder of an exclusive Hive lock writes to the table.

        Raises:
            HiveLockTimeoutError: Another holder has kept a lock for too long.
            MetastoreError: The metastore does not support locks, or does not answer.
        """
        return self._of_table(table, settings, LockType.SHARED_READ, "repair")

    def of_drop(self, table: Table, settings: LockSettings) -> AbstractContextManager[HeldLocks | HiveLock]:
        """Return a context for dropping a table, in which no holder of a Hive lock reads or writes the table.

        Raises:
            HiveLockTimeoutError: Another holder has kept a lock for too long.
            MetastoreError: The metastore does not support locks, or does not answer.
        """
        return self._of_table(table, settings, LockType.EXCLUSIVE, "drop")

    @contextmanager
    def _of_table(
        self, table: Table, settings: LockSettings, kind: LockType, what: str
    ) -> Iterator[HeldLocks | HiveLock]:
        if settings.mode is LockMode.NONE or not self.concerns(table, settings):
            yield NO_LOCKS
            return
        components = self._components(table, kind, LockedOperation.NO_TXN, None)
        lock = self.take(components, f"catalog-ext {what} {uuid4().hex}", settings)
        try:
            yield lock
        finally:
            lock.release()

    def concerns(self, table: Table, settings: LockSettings) -> bool:
        """Return whether the table needs Hive locks: locking is on, and the table is published to the metastore.

        Hive engines cannot write a table that the metastore does not have.

        Raises:
            InvalidConfigurationError: Locking is on, and the catalog has no metastore.
        """
        if self._metastore is None:
            raise InvalidConfigurationError(
                f"The setting 'hive-locks' is {settings.mode} for table {table.identifier}, and this catalog has no "
                "metastore to ask for locks. Give it the one that Hive engines use, or set 'hive-locks' to 'none'.",
                {"table": str(table.identifier)},
            )
        return self.resources.delivers(table.definition)

    def take(self, components: Sequence[LockComponent], agent: str, settings: LockSettings) -> HiveLock:
        """Request a lock and wait until it is held; the errors are those of ``of_repair``."""
        assert self._metastore is not None, "`concerns` was asked"
        lock = HiveLock(self._metastore(), components, agent, settings.wait_s)
        lock.acquire()
        return lock

    def components(
        self, transaction: Transaction, table: Table, files: Iterable[StagedFile], static: str | None
    ) -> list[LockComponent]:
        """Return the lock components of a transaction; the arguments are those of ``CommitLock.take``."""
        plan, asked = transaction.plan, transaction.plan.asked
        exclusive = (LockType.EXCLUSIVE, LockedOperation.NO_TXN)
        new = ({static} if static is not None else set()) | {file.partition for file in files}
        match asked:
            case Append():
                return self._of_append(transaction, table, new)
            case OverwritePartitions():
                return self._components(table, *exclusive, self._with_same_values(table, new))
            case Overwrite():
                names = None if asked.predicate is None else self._matching(table, plan) | new
                return self._components(table, *exclusive, names)
            case Replace() | CreateOrReplace():
                return self._components(table, *exclusive, None)
            case AddPartitions():
                added = {partition.name for partition in asked.partitions}
                return self._components(table, LockType.SHARED_READ, LockedOperation.NO_TXN, added)
            case DropPartitions():
                return self._components(table, *exclusive, self._matching(table, plan))
            case RenamePartition():
                return self._components(table, *exclusive, self._with_same_values(table, {asked.name, asked.to}))
            case Rollback():
                names = None if asked.predicate is None else self._rolled_back(table, asked)
                return self._components(table, *exclusive, names)
            case RelocatePartition():
                return self._components(table, *exclusive, self._with_same_values(table, {asked.name}))
            case ExchangePartitions():
                source = self.resources.table_of(asked.source_id)
                moving = self._matching(source, plan)
                # For an EXCHANGE, use the source's partition names for both tables: their key names are equal, except
                # for case.
                return [part for one in (source, table) for part in self._components(one, *exclusive, moving)]
            case Create():
                return []
        assert_never(asked)

    def _of_append(self, transaction: Transaction, table: Table, names: set[str]) -> list[LockComponent]:
        plan = transaction.plan
        kind = LockType.EXCLUSIVE if plan.hive_locks.mode is LockMode.STRICT else LockType.SHARED_READ
        if plan.partition_commit:
            # Files that earlier epochs held back may become visible with this commit, so lock their partitions as well.
            waiting = self.resources.index.waiting_files.all(table.table_id, transaction.app_id)
            names = names | {one.partition for one in waiting}
        return self._components(table, kind, LockedOperation.INSERT, names)

    def _matching(self, table: Table, plan: WritePlan) -> set[str]:
        # Read at most one name more than a request can have: with that many, the whole table is locked.
        covered = covered_partitions(self.resources.index, plan, table, MOST_PARTITIONS + 1)
        return {partition.name for partition in covered}

    def _rolled_back(self, table: Table, asked: Rollback) -> set[str]:
        predicate, differences = bound_to(table, asked.predicate), self.resources.index.version_differences
        return {each.name for each in differences.between(table, asked.version, predicate)}

    def _with_same_values(self, table: Table, names: set[str]) -> set[str]:
        if not table.definition.partition_columns or len(names) > MOST_PARTITIONS:
            return names
        return names | {partition.name for partition in self.resources.partitions_of_values(table, names)}

    def _components(
        self, table: Table, kind: LockType, operation: LockedOperation, names: Iterable[str] | None
    ) -> list[LockComponent]:
        """Return the lock components for partitions; for the whole table if ``names`` is None or too long."""
        hive = to_hive(table.definition)
        chosen = None if names is None else sorted(set(names))
        if chosen is None or len(chosen) > MOST_PARTITIONS or not hive.partition_columns:
            wanted = [""] if chosen is None or chosen else []
        else:
            wanted = list(_held(hive, chosen))
            if any(len(name) > _LONGEST_NAME for name in wanted):
                wanted = [""]
        return [LockComponent(hive.database, hive.name, name, kind, operation) for name in wanted]


def _held(table: HiveTable, names: Iterable[str]) -> Iterator[str]:
    """Yield the metastore's names of the partitions; skip the partitions that the metastore cannot hold."""
    for name in names:
        with suppress(InvalidPartitionNameError):
            yield hive_partition_name(table, name)


class CommitLock(HeldLocks):
    """The Hive locks of one transaction, taken by ``take`` and released at the end of the context."""

    def __init__(self, locks: CommitLocks, transaction: Transaction) -> None:
        self._locks = locks
        self._transaction = transaction
        self._lock: HiveLock | None = None
        self._asked = False

    def __enter__(self) -> CommitLock:
        """Enter the context without taking a lock: the commit calls ``take``."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the locks."""
        if self._lock is not None:
            self._lock.release()

    def take(self, files: Iterable[StagedFile], static: str | None = None) -> None:
        """Wait until the locks that the transaction needs are held; a second call does nothing.

        ``files`` are all files of the transaction; they are read only if locks are needed. ``static`` is the partition
        of a fully static PARTITION clause.

        Raises:
            HiveLockTimeoutError: Another holder has kept a lock for too long.
            MetastoreError: The metastore does not support locks, or does not answer.
        """
        plan = self._transaction.plan
        if self._asked or plan.hive_locks.mode is LockMode.NONE:
            return
        table = self._locks.resources.target_table(self._transaction)
        if table is not None and self._locks.concerns(table, plan.hive_locks):
            components = self._locks.components(self._transaction, table, files, static)
            agent = f"catalog-ext {self._transaction.operation} {self._transaction.transaction_id}"
            if components:
                self._lock = self._locks.take(components, agent, plan.hive_locks)
        # Set the flag last: if the index fails above, the caller must be able to call ``take`` again.
        self._asked = True

    def confirm(self) -> None:
        """Check that the locks are still held, as ``HeldLocks.confirm`` does."""
        if self._lock is not None:
            self._lock.confirm()
