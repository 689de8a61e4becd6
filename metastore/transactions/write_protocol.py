"""The write protocol: begin, stage, commit, abort, recover. ``docs/spec/commit-protocol.md`` is its contract."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.commit import CommitOptions
from catalog_ext.metastore.commit.plan import Overwrite
from catalog_ext.metastore.commit.transaction import BeginWrite
from catalog_ext.metastore.errors import CatalogExtError, ConflictError
from catalog_ext.metastore.runtime.error_kinds import FIELDS
from catalog_ext.metastore.runtime.measures import Committed, NotCommitted, emit
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.metastore.runtime.users import current_user
from catalog_ext.metastore.storage.promotion import DEFAULT_THREADS
from catalog_ext.metastore.transactions.begin import begin
from catalog_ext.metastore.transactions.commit_locks import CommitLocks
from catalog_ext.metastore.transactions.lease import LeaseRenewal, renew
from catalog_ext.metastore.transactions.recovery import Recovery
from catalog_ext.metastore.transactions.resources import Resources
from catalog_ext.metastore.transactions.restorable_files import RestorableFiles
from catalog_ext.metastore.transactions.staging_locations import task_directory
from catalog_ext.metastore.transactions.steps.run import DEFAULT_UNKNOWN_TIMEOUT_S, attempts, load, run
from catalog_ext.metastore.transactions.steps.stage import stage
from catalog_ext.metastore.transactions.steps.undo import abort, lease_ended
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.metastore.transactions.vacuum import Vacuum
from catalog_ext.metastore.transactions.waiting import WaitingCommits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.partition_plans import AskedCommand
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import BegunWrite, Transaction, WriteOutcome
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.metastore.transactions.reports import RecoveryReport, VacuumReport
    from catalog_ext.metastore.transactions.resources import DeliveryOutcome
    from catalog_ext.metastore.transactions.restorable_files import Restorable

logger = logging.getLogger(__name__)

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


def _never(_: TableDefinition) -> bool:
    return False


def _no_metastore(_table_id: int | None) -> None:
    return None


class Transactions:
    """Writes to the tables of an index; safe to use from several threads.

    Args:
        threads: The number of files that one commit promotes in parallel.
        unknown_timeout_s: Seconds for which a commit asks the index for its outcome after the connection was lost.
        deliver: Returns whether changes of a table are enqueued for the metastore.
        publish: Delivers due messages to the metastore; returns the number of messages still pending for the table with
            a number (None: for all tables). None without a metastore.
        pause: Waits for a number of seconds.
        metastore: Returns the metastore, in which writes take Hive locks (``hive-locks``); None without a metastore.

    Attributes:
        locks: Takes Hive locks.
        waiting: Commits or discards the files of streams that wait for their partitions to be due.
    """

    def __init__(
        self,
        index: Index,
        storage: Storage,
        *,
        threads: int = DEFAULT_THREADS,
        unknown_timeout_s: float = DEFAULT_UNKNOWN_TIMEOUT_S,
        deliver: Callable[[TableDefinition], bool] = _never,
        publish: Callable[[int | None], DeliveryOutcome | None] = _no_metastore,
        pause: Callable[[float], object] | None = None,
        metastore: Callable[[], HiveMetastore] | None = None,
    ) -> None:
        self._index = index
        pauses = partial(attempts, unknown_timeout_s, pause or threading.Event().wait)
        self._resources = Resources(index, storage, deliver, publish, threads, pauses)
        self.locks = CommitLocks(self._resources, metastore)
        self.waiting = WaitingCommits(self._resources, self._commit_final)
        self._recovery = Recovery(self._resources, self.locks)

    def begin(self, request: BeginWrite) -> BegunWrite:
        """Begin a write and return its transaction; first recover transactions of the table whose process died.

        A repeated call with the same id, as after a lost answer, returns the transaction of the first call.

        Raises:
            InvalidInputError: The id belongs to a write to another table.
            InvalidConfigurationError: An option has an invalid value.
            TableLayoutError: The write creates a table in a directory that is not empty.
            TableNotFoundError: The table was dropped.
            StorageError: The store refuses or does not answer.
        """
        return begin(self._resources, self._recovery, request)

    def heartbeat(self, transaction_id: str) -> int:
        """Renew the lease, and return its new end, in milliseconds since the epoch.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is finished, or another process undid it.
        """
        transaction = self._resources.load(transaction_id)
        until_ms = renew(self._resources, transaction_id, transaction.plan.lease_ms)
        if until_ms is None:
            raise lease_ended(self._resources.load(transaction_id))
        return until_ms

    def locate(self, transaction_id: str, partitions: Collection[str]) -> dict[str, str]:
        """Return the directories of partitions with locations of their own, for the tasks of an open write.

        Partitions without a location of their own are left out. The answer for a partition never changes within a
        transaction.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is not open any more.
            TableNotFoundError: The table was dropped.
        """
        transaction = self._resources.load(transaction_id)
        plan = transaction.plan
        own = {name: plan.locations[name] for name in partitions if name in plan.locations}
        if plan.asks_locations:
            found = self._resources.locations(transaction, partitions)
            own |= self._index.transactions.record_locations(
                transaction_id, {n: at for n, at in found.items() if n not in own}
            )
        return {name: task_directory(plan, transaction_id, at) for name, at in own.items()}

    def stage(self, transaction_id: str, files: Sequence[StagedFile], recorded: int | None = None) -> None:
        """Record files that tasks staged; a write may call this several times.

        ``recorded``: the number of files that were recorded before, so that a repeated call records nothing; None if no
        call is repeated.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is not open any more.
            InvalidInputError: A file does not fit the transaction.
            StagedFileMissingError: The index lost files that were recorded before.
        """
        stage(self._resources, self._resources.load(transaction_id), files, recorded)

    def commit(
        self,
        transaction_id: str,
        files: Sequence[StagedFile] = (),
        *,
        recorded: int | None = None,
        static_partition: str | None = None,
        watermark_ms: int | None = None,
        final: bool = False,
        is_retry: bool = False,
    ) -> WriteOutcome:
        """Commit the write and return its outcome; a repeated call returns the same outcome.

        Args:
            transaction_id: An open transaction, or one whose commit was called before.
            files: The last staged files.
            recorded: The number of files that ``stage`` recorded before: if the index lost some, as after a crash of
                its database, the write fails. None if the writer did not count.
            static_partition: The partition of a fully static PARTITION clause, which is registered also without rows.
            watermark_ms: The watermark of a streaming write, in milliseconds since the epoch.
            final: Whether the streaming query has ended by itself.
            is_retry: Whether an earlier call got no answer: if this call fails, the effects of the earlier one are
                undone too, also if the index lost them.

        Raises:
            ConflictError: Another writer was first. Nothing of the write was ever visible; it is undone.
            CommitStateUnknownError: The outcome is not known yet; ``recover`` finishes or undoes the write.
            TransactionStateError: The transaction was undone before.
            InvalidInputError: The transaction is reserved or committed with other files.
            CatalogExtError: The write failed and is undone.
        """
        started_s = time.monotonic()
        options = CommitOptions(static_partition, watermark_ms, final)
        commit = load(self._resources, transaction_id, files, recorded, options, is_retry=is_retry)
        transaction = commit.transaction
        with (
            LeaseRenewal(self._resources, transaction_id, transaction.plan.lease_ms),
            _failure_counted(transaction),
            span("commit", table=transaction.table, kind=str(transaction.plan.asked.kind)),
            self.locks.of_commit(transaction) as lock,
        ):
            outcome = run(replace(self._resources, lock=lock), commit, started_s)
        if not outcome.duplicate:
            _log(outcome, str(transaction.plan.asked.kind))
        return outcome

    def _commit_final(self, request: BeginWrite) -> WriteOutcome:
        return self.commit(self.begin(request).transaction_id, final=True)

    def abort(self, transaction_id: str, reason: str) -> None:
        """Undo a transaction whose commit was not called.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is reserved or committed, and can only be finished.
            CatalogExtError: A file could not be removed; ``recover`` removes it.
        """
        abort(self._resources, transaction_id, reason)

    def delete(
        self, table: Table, predicate: Predicate | None, truncate: bool, options: Mapping[str, str] = NO_OPTIONS
    ) -> WriteOutcome:
        """Delete the partitions for which a predicate is true, or with ``truncate`` only their files.

        The table has the version that the statement read; the predicate is unbound, None for all partitions.

        Raises:
            ConflictError: Another writer changed one of the partitions in the meantime.
            CatalogExtError: The write failed and is undone; see ``commit``.
        """
        asked = Overwrite(predicate, keep_emptied=truncate)
        request = BeginWrite(asked, "TRUNCATE" if truncate else "DELETE", this_process(), table, options=options)
        return self.commit(self.begin(request).transaction_id, recorded=0)

    def restorable(self, table: Table, version: int, predicate: Predicate | None) -> Restorable:
        """Return the effect of a rollback of the table to an earlier version, and the files that it cannot restore.

        The predicate is bound; None for all partitions. Nothing is changed.

        Raises:
            TableLayoutError: A directory that a partition gets again has files that no version of the table has.
            StorageError: The store refuses or does not answer.
        """
        return RestorableFiles(self._resources).compare(table, version, predicate)

    def command(
        self, table: Table, asked: AskedCommand, operation: str, options: Mapping[str, str] = NO_OPTIONS
    ) -> WriteOutcome:
        """Run a partition command on a table at the version that the statement read.

        Raises:
            PartitionNotFoundError, PartitionAlreadyExistsError: The partitions do not fit the command.
            ConflictError: Another writer changed one of the partitions in the meantime.
            CatalogExtError: The command failed and is undone; see ``commit``.
        """
        return self.commit(
            self.begin(BeginWrite(asked, operation, this_process(), table, options=options)).transaction_id
        )

    def recover_before(self, table: Table) -> None:
        """Finish or undo the transactions of dead processes on a table that will be unregistered or dropped.

        Call it before taking Hive locks on the table: the recovered transactions take Hive locks, too, and would wait
        for the caller's.
        """
        self._recovery.of_table(table.table_id, str(table.identifier))
        self._recovery.finish_committed(table.table_id)

    def delete_dropped(self, table: Table) -> None:
        """Delete the directory of a table that was just dropped, and release its location for other tables.

        Raises:
            StorageError: A file could not be deleted: ``recover`` deletes the rest.
        """
        StoreCleanup(self._resources).remove_table(table)

    def recover(
        self, table: TableIdentifier | None = None, older_than_s: float | None = None, *, dry_run: bool = False
    ) -> RecoveryReport:
        """Finish or undo every transaction whose owner is dead; a failure of one does not stop the others.

        ``table``: limits it to the transactions of this table, or of this name if there is no such table.
        ``older_than_s``: the seconds for which an owner must have been silent; None for the duration of its lease.

        Raises:
            TableNotFoundError: There is no table of this name, no write that was creating it, and no files of it.
        """
        if not dry_run:
            self._index.incarnations.require_current()
        report = self._recovery.recover(table, older_than_s, dry_run=dry_run)
        if not dry_run and report.transactions:
            try:
                self._resources.publish(None)
            except CatalogExtError as error:
                logger.warning("What was recovered could not be published to the metastore yet: %s", error.message)
        return report

    def undo(self, transaction_id: str, *, dry_run: bool = False) -> RecoveryReport:
        """Undo one transaction that is not committed, also if its owner is alive; the owner gets an error.

        Raises:
            TransactionNotFoundError: There is no transaction with this id.
            TransactionStateError: The transaction is committed.
            CatalogExtError: A file could not be removed; the call may be repeated.
        """
        return self._recovery.undo(transaction_id, dry_run=dry_run)

    def vacuum(
        self,
        table: Table,
        retention_s: float,
        *,
        named: StillNamed | None = None,
        unknown_writes: bool = False,
        dry_run: bool = False,
    ) -> VacuumReport:
        """Remove files that no version younger than ``retention_s`` seconds needs, and older versions from the index.

        Transactions of dead processes are recovered first. Files that cannot be removed are reported, and do not stop
        the rest. The arguments are those of ``Vacuum``.

        Raises:
            IndexUnavailableError: The index database does not answer or is locked.
        """
        if not dry_run:
            self._recovery.of_table(table.table_id, str(table.identifier))
        vacuum = Vacuum(self._resources, table, retention_s, named, unknown_writes=unknown_writes, dry_run=dry_run)
        return vacuum.run()


@contextmanager
def _failure_counted(transaction: Transaction) -> Iterator[None]:
    """Emit a metric if the commit in this context fails."""
    try:
        yield
    except Exception as error:
        emit(NotCommitted(str(transaction.plan.asked.kind), isinstance(error, ConflictError)))
        raise


def _log(outcome: WriteOutcome, kind: str) -> None:
    """Log the outcome of a commit, and emit its metrics."""
    seconds = outcome.commit_ms / 1000
    emit(Committed(kind, outcome.rows, outcome.bytes, outcome.files_added, outcome.files_removed, seconds))
    fields = {
        "table": outcome.table, "version": outcome.version, "operation": outcome.operation, "rows": outcome.rows,
        "bytes": outcome.bytes, "partitions_added": outcome.partitions_added,
        "partitions_removed": outcome.partitions_removed, "partitions_changed": outcome.partitions_changed,
        "files_added": outcome.files_added, "files_removed": outcome.files_removed, "duration_ms": outcome.commit_ms,
        "pending_deliveries": outcome.pending_deliveries, "transaction": outcome.transaction_id,
        "user": current_user(),
    }  # fmt: skip
    logger.info(
        "%(operation)s to %(table)s: version %(version)d, partitions +%(partitions_added)d -%(partitions_removed)d "
        "~%(partitions_changed)d, files +%(files_added)d -%(files_removed)d, %(rows)s rows, %(bytes)d bytes, "
        "%(duration_ms)d ms, %(pending_deliveries)d pending for the metastore (transaction %(transaction)s)",
        {**fields, "rows": "some" if outcome.rows is None else outcome.rows}, extra={FIELDS: fields},
    )  # fmt: skip
