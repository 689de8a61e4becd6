"""The engine of writes: begin, stage, commit, abort, recover. ``docs/spec/commit-protocol.md`` is its contract."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.lock_settings import HIVE_LOCKS, HIVE_LOCKS_WAIT
from catalog_ext.metastore.commit.plan import CREATIONS, Append, Overwrite
from catalog_ext.metastore.commit.transaction import (
    NOT_READ,
    BeginWrite,
    BegunWrite,
    State,
    Transaction,
    WriteOutcome,
)
from catalog_ext.metastore.errors import CatalogExtError, ConflictError, InvalidInputError
from catalog_ext.metastore.runtime.log_fields import FIELDS
from catalog_ext.metastore.runtime.measures import Committed, NotCommitted, tell
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.metastore.runtime.users import current_user, signed
from catalog_ext.metastore.storage.promotion import DEFAULT_THREADS
from catalog_ext.metastore.transactions.checking import Checker
from catalog_ext.metastore.transactions.commit_locks import CommitLocks
from catalog_ext.metastore.transactions.lease import LeaseRenewal
from catalog_ext.metastore.transactions.new_files import NewFiles
from catalog_ext.metastore.transactions.owner import Decided, Owner
from catalog_ext.metastore.transactions.partition_commands import CommandChecker
from catalog_ext.metastore.transactions.planning import Planner, definition_of
from catalog_ext.metastore.transactions.recovery import Recovery
from catalog_ext.metastore.transactions.reports import DiscardReport, ReleaseReport
from catalog_ext.metastore.transactions.staging_locations import task_directory
from catalog_ext.metastore.transactions.steps import Steps, was_undone
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.metastore.transactions.unknown_state import DEFAULT_UNKNOWN_TIMEOUT_S, Attempts
from catalog_ext.metastore.transactions.vacuum import Vacuum
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import AskedCommand
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.metastore.transactions.reports import RecoveryReport, VacuumReport

logger = logging.getLogger(__name__)

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})


class Delivered(Protocol):
    """The outcome of a publication to the metastore."""

    @property
    def pending(self) -> int:
        """Return the number of messages that it has not accepted yet."""
        ...


def _never(_: TableDefinition) -> bool:
    return False


def _nobody(_table_id: int | None) -> None:
    return None


class Transactions:
    """Writes to the tables of an index; threads may share it.

    Args:
        index: The index.
        storage: The stores.
        threads: Files that one commit promotes at the same time.
        unknown_timeout_s: How long the index is asked what became of a commit whose connection was lost, in seconds.
        deliver: Says whether changes of a table are enqueued for the metastore.
        publish: Publishes what is due to the metastore, and returns what is pending of the table of a number (or of
            all: None); None where there is no metastore.
        pause: Waits so many seconds.
        metastore: Returns the metastore, of whom writes take Hive's locks that ask for them; None where there is none.

    Attributes:
        locks: Takes Hive's locks.
    """

    def __init__(
        self,
        index: Index,
        storage: Storage,
        *,
        threads: int = DEFAULT_THREADS,
        unknown_timeout_s: float = DEFAULT_UNKNOWN_TIMEOUT_S,
        deliver: Callable[[TableDefinition], bool] = _never,
        publish: Callable[[int | None], Delivered | None] = _nobody,
        pause: Callable[[float], object] | None = None,
        metastore: Callable[[], HiveMetastore] | None = None,
    ) -> None:
        self._index = index
        self._storage = storage
        self._publish = publish
        new_files = NewFiles(index, storage, threads)
        checker = Checker(index, storage, new_files)
        self._planner = Planner(index, checker)
        self._cleanup = StoreCleanup(index, storage)
        self._steps = Steps(index, storage, self._cleanup, deliver, threads)
        self.locks = CommitLocks(index, deliver, metastore)
        self._recovery = Recovery(index, self._steps, self._cleanup, self.locks)
        attempts = Attempts(unknown_timeout_s, pause or threading.Event().wait)
        self._owner = Owner(index, checker, CommandChecker(index, storage, new_files), self._steps, attempts)

    def begin(self, request: BeginWrite) -> BegunWrite:
        """Return the transaction of a new write, after dead writers' ones of the same table have been recovered.

        Called again with the same id, as after a lost answer, it returns what the first call has begun.

        Raises:
            InvalidInputError: The id is that of a write to another table.
            InvalidConfigurationError: An option is none that its key may have.
            TableLayoutError: A table is to be created in a directory that is not empty.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        fault_point("begin.before")
        # A table that is to be made may have been left half made; of an application batches are looked for, too.
        if request.app_id is None and not isinstance(request.asked, CREATIONS):
            begun = self._begun(request, looks=True)
            if begun is not None:
                return begun
        shown = str(definition_of(request).identifier)
        self._recovery.of_table(None if request.table is None else request.table.table_id, shown, request.app_id)
        begun = self._begun(request, looks=False)
        assert begun is not None, "who does not look begins"
        return begun

    def _begun(self, request: BeginWrite, *, looks: bool) -> BegunWrite | None:
        """Plan and begin a write; None where it is to look for dead writers and there are some."""
        transaction_id = request.transaction_id
        plan = self._planner.plan(request, transaction_id)
        if self._is_duplicate(request):
            return BegunWrite("", plan, {}, plan.lease_ms, duplicate=True)
        creates = isinstance(request.asked, CREATIONS)
        transaction = Transaction(
            transaction_id=transaction_id,
            table_id=None if creates or request.table is None else request.table.table_id,
            table=str(definition_of(request).identifier),
            operation=request.operation,
            state=State.OPEN,
            owner=signed(request.owner),
            base_version=_base_version(request),
            began_at_ms=0,
            expires_at_ms=0,
            plan=plan,
            app_id=request.app_id,
            app_version=request.app_version,
        )
        replaced = request.table.table_id if creates and request.table is not None else None
        begun = (
            self._index.transactions.begin_among_living(transaction, request.planned)
            if looks
            else self._index.transactions.begin(transaction, replaced, request.planned)
        )
        if begun is None:
            return None
        fault_point("begin.after")
        return BegunWrite(transaction_id, begun.plan, begun.plan.locations, begun.plan.lease_ms)

    def _is_duplicate(self, request: BeginWrite) -> bool:
        if request.app_id is None or request.app_version is None or request.table is None:
            return False
        known = self._index.transactions.find_application(request.table.table_id, request.app_id)
        return known is not None and known.app_version >= request.app_version

    def heartbeat(self, transaction_id: str) -> int:
        """Return when the lease ends now, in milliseconds since the epoch.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is finished, or somebody has undone it.
        """
        transaction = self._index.transactions.load(transaction_id)
        until = self._index.now_ms() + transaction.plan.lease_ms
        if not self._index.transactions.extend_lease(transaction_id, until):
            raise was_undone(self._index.transactions.load(transaction_id))
        return until

    def locate(self, transaction_id: str, partitions: Collection[str]) -> dict[str, str]:
        """Return where the tasks of an open write put the files of some partitions that have locations of their own.

        Those that have none are left out. What it has said once of a transaction stays so.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not open any more.
            TableNotFoundError: The table is gone.
        """
        transaction = self._index.transactions.load(transaction_id)
        plan = transaction.plan
        own = {name: plan.locations[name] for name in partitions if name in plan.locations}
        if plan.asks_locations:
            table = self._index.tables.load_by_id(transaction.table_id or 0)
            found = self._index.partitions.locations(table, partitions)
            own |= self._index.transactions.record_locations(
                transaction_id, {n: at for n, at in found.items() if n not in own}
            )
        return {name: task_directory(plan, transaction_id, at) for name, at in own.items()}

    def stage(self, transaction_id: str, files: Sequence[StagedFile], staged: int | None = None) -> None:
        """Record files that tasks have staged; it may be called several times.

        Args:
            transaction_id: An open transaction.
            files: The files.
            staged: How many have gone before, so that a call that is repeated records nothing. None where none is.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not open any more.
            InvalidInputError: A file does not fit the transaction.
            StagedFileMissingError: The index does not remember those that have gone before.
        """
        self._owner.stage(self._index.transactions.load(transaction_id), files, staged)

    def commit(
        self,
        transaction_id: str,
        files: Sequence[StagedFile] = (),
        *,
        staged: int | None = None,
        static_partition: str | None = None,
        watermark_ms: int | None = None,
        final: bool = False,
        again: bool = False,
    ) -> WriteOutcome:
        """Return what the write did, now that it is visible; called again, the same answer.

        Args:
            transaction_id: An open transaction, or one whose commit was called before.
            files: The last staged files.
            staged: How many have gone before, by ``stage``: where the index has lost some, as after a crash of its
                database, the write fails. None where nobody has counted.
            static_partition: The fully static partition that is to be registered also without rows.
            watermark_ms: Of a streaming write, milliseconds since the epoch.
            final: Whether the streaming query has ended by itself.
            again: Whether the caller has asked before and had no answer: what an earlier call may have done is taken
                back if this one fails, also where the index has forgotten it.

        Raises:
            ConflictError: Somebody else was first. Nothing of the write was ever visible; it is undone.
            CommitStateUnknownError: Nobody knows yet whether the write will be committed; ``recover`` sees to it.
            TransactionStateError: The transaction was undone before.
            InvalidInputError: It is reserved or committed with other files.
            CatalogExtError: The write failed and is undone.
        """
        started = time.monotonic()
        transaction, table = self._owner.load(transaction_id, again=again)
        with (
            LeaseRenewal(self._index, transaction_id, transaction.plan.lease_ms),
            _failure_told(transaction),
            span("commit", table=transaction.table, kind=str(transaction.plan.asked.kind)),
            self.locks.of_commit(transaction) as lock,
        ):
            decided = Decided(transaction)
            if transaction.state is State.OPEN:
                found = self._owner.decide(
                    transaction,
                    files,
                    table,
                    staged=staged,
                    static_partition=static_partition,
                    watermark_ms=watermark_ms,
                    final=final,
                    again=again,
                    lock=lock,
                )
                if isinstance(found, WriteOutcome):
                    return found
                decided = found
            self._owner.check_same(decided.transaction, files, staged)
            transaction = self._owner.forward(decided, lock)
            elapsed_ms = round((time.monotonic() - started) * 1000)
            if transaction.state is State.COMMITTED:
                self._complete_delete(transaction)
            pending = self._deliver(transaction)
            if transaction.state is State.COMMITTED:
                self._clean_up(transaction)
        assert transaction.outcome is not None, "what is committed has an outcome"
        outcome = replace(transaction.outcome, pending_deliveries=pending, commit_ms=elapsed_ms)
        _tell(outcome, str(transaction.plan.asked.kind))
        return outcome

    def _complete_delete(self, transaction: Transaction) -> None:
        """Complete a deferred delete before the delivery, so that the metastore drops all its partitions."""
        try:
            self._index.deletions.complete(transaction.transaction_id)
        except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
            logger.warning(
                "Table %s is written; its rows in the index could not all be ended yet, recover does it: %s",
                transaction.table,
                error,
            )

    def _deliver(self, transaction: Transaction) -> int:
        """Publish what is due to the metastore; return how many messages it has not accepted."""
        try:
            fault_point("deliver.before")
            with span("deliver"):
                report = self._publish(transaction.table_id)
            fault_point("deliver.after")
        except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
            logger.warning(
                "Table %s is written; it could not be published to the metastore yet: %s", transaction.table, error
            )
            return 0 if transaction.outcome is None else transaction.outcome.pending_deliveries
        return 0 if report is None else report.pending

    def _clean_up(self, transaction: Transaction) -> None:
        try:
            self._steps.clean_up(transaction)
        except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
            logger.warning(
                "The write %s to table %s is committed; what it replaced could not all be removed, recover does it: %s",
                transaction.transaction_id,
                transaction.table,
                error,
            )

    def abort(self, transaction_id: str, reason: str) -> None:
        """Undo a transaction whose commit was not called.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is reserved or committed, and is not undone any more.
            CatalogExtError: Some file could not be removed; ``recover`` does it.
        """
        self._owner.abort(transaction_id, reason)

    def delete(
        self, table: Table, predicate: Predicate | None, truncate: bool, options: Mapping[str, str] = NO_OPTIONS
    ) -> WriteOutcome:
        """Delete the partitions that a predicate is true for, or with ``truncate`` their files.

        Args:
            table: The table at the version that the statement read.
            predicate: Unbound, None for all.
            truncate: Whether the partitions stay registered.
            options: As those of a write: its lease.

        Raises:
            ConflictError: Somebody else changed one of them meanwhile.
            CatalogExtError: As ``commit``.
        """
        asked = Overwrite(predicate, keep_emptied=truncate)
        request = BeginWrite(asked, "TRUNCATE" if truncate else "DELETE", this_process(), table, options=options)
        return self.commit(self.begin(request).transaction_id, staged=0)

    def command(
        self, table: Table, asked: AskedCommand, operation: str, options: Mapping[str, str] = NO_OPTIONS
    ) -> WriteOutcome:
        """Carry out a partition command.

        Args:
            table: The table at the version that the statement read.
            asked: What it does.
            operation: The word for the history.
            options: As those of a write: its lease.

        Raises:
            PartitionNotFoundError, PartitionAlreadyExistsError: The partitions are not as the command needs them.
            ConflictError: Somebody else changed one of them meanwhile.
            CatalogExtError: As ``commit``.
        """
        return self.commit(
            self.begin(BeginWrite(asked, operation, this_process(), table, options=options)).transaction_id
        )

    def release(self, table: Table, app_id: str, owner: str, options: Mapping[str, str]) -> WriteOutcome | None:
        """Commit what a stream's epochs have kept back, because its query has ended by itself; None if nothing waits.

        Args:
            table: The table.
            app_id: The query's id, under which its epochs were committed.
            owner: Names the process, for people.
            options: As the epochs had them.

        Raises:
            ConflictError: Somebody else is committing an epoch of the query.
            CatalogExtError: As ``commit``.
        """
        if next(self._index.waiting_files.all(table.table_id, app_id), None) is None:
            return None
        request = BeginWrite(Append(), "STREAMING", owner, table, app_id=app_id, options=options)
        return self.commit(self.begin(request).transaction_id, final=True)

    def release_waiting(self, table: Table, app_id: str | None, owner: str, *, dry_run: bool = False) -> ReleaseReport:
        """Commit what epochs of one query, or of all, have kept back, although nobody says that their time has come.

        The policies are those of the query's last epoch that kept something back, whose options may have named them.

        Args:
            table: The table.
            app_id: The query's id; None for all.
            owner: Names the process, for people.
            dry_run: Preview only.

        Raises:
            ConflictError: Somebody else is committing an epoch of the query; those before it are committed.
            InvalidInputError: No such query has written to the table.
            CatalogExtError: As ``commit``.
        """
        found = Waiting(self._index, self._storage).partitions(table.table_id, app_id)
        if app_id is not None and not found:
            self._require_known(table, app_id)
        version: int | None = None
        for one in () if dry_run else sorted({partition.application for partition in found}):
            outcome = self.release(table, one, owner, self._options_of_waiting(table, one))
            version = version if outcome is None else outcome.version
        return ReleaseReport(str(table.identifier), tuple(found), version, dry_run)

    def _require_known(self, table: Table, app_id: str) -> None:
        """Return if a query of this id has written to the table."""
        if self._index.transactions.find_application(table.table_id, app_id) is not None:
            return
        others = sorted({one.application for one in Waiting(self._index, self._storage).partitions(table.table_id)})
        known = f"Rows wait of {', '.join(others[:5])}" if others else "No rows wait in it"
        raise InvalidInputError(
            f"No query {app_id[:100]!r} has written to table {table.identifier}. {known}; t.transactions has the ids "
            "of queries as app_id.",
            {"table": str(table.identifier), "application": app_id[:100]},
        )

    def _options_of_waiting(self, table: Table, app_id: str) -> Mapping[str, str]:
        """Return the options of the query's newest epoch that has kept something back."""
        origins = {waiting.transaction_id for waiting in self._index.waiting_files.all(table.table_id, app_id)}
        epochs = [self._index.transactions.load(origin) for origin in sorted(origins)]
        newest = max(epochs, key=lambda epoch: (epoch.began_at_ms, epoch.app_version or 0), default=None)
        if newest is None:
            return {}
        locks = newest.plan.hive_locks
        return {**newest.plan.partition_commit, HIVE_LOCKS: locks.mode, HIVE_LOCKS_WAIT: f"{locks.wait_s}s"}

    def discard_waiting(self, table: Table, *, dry_run: bool = False) -> DiscardReport:
        """Give up what waited for partitions to be due and is gone, so that its stream can go on; return what that is.

        Raises:
            LocationNotFoundError: The table's directory is not there, as when a mount is away: nothing was given up.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        self._storage.check_directory(table.definition.location)

        def directory(partition: str) -> str:
            return table.directory(partition, self._index.partitions.locations(table, [partition]).get(partition))

        lost = tuple(Waiting(self._index, self._storage).lost(table.table_id, directory))
        if lost and not dry_run:
            self._index.waiting_files.discard(
                table.table_id, [(file.transaction_id, file.partition, file.name) for file in lost]
            )
            for file in lost:
                logger.warning(
                    "%s of table %s was given up: %s rows of partition %s that waited to be due are lost.",
                    file.location,
                    table.identifier,
                    "some" if file.rows is None else file.rows,
                    file.partition,
                )
        return DiscardReport(str(table.identifier), lost, dry_run)

    def recover_before(self, table: Table) -> None:
        """Finish or undo what dead writers left in a table that is about to be forgotten: it would stand in the way.

        They take Hive's locks that they had asked for: whoever has the table's own waits for himself.
        """
        self._recovery.of_table(table.table_id, str(table.identifier))
        self._recovery.finish_committed(table.table_id)

    @contextmanager
    def dropping(self, table: Table) -> Iterator[None]:
        """Return a context in which a table is dropped; what its streams have kept back is removed when it is gone.

        Raises:
            CatalogExtError: The table is gone, and something could not be removed.
        """
        locations = self._steps.waiting_locations(table)
        yield
        self._steps.discard(table, locations)

    def delete_dropped(self, table: Table) -> None:
        """Delete the directory of a table that was just dropped; then it is free for others.

        Raises:
            StorageError: Something could not be deleted: ``recover`` deletes the rest.
        """
        for dropped in self._index.dropped_tables.undeleted(table.definition.location):
            if dropped.table_id == table.table_id:
                self._cleanup.remove_dropped(dropped)

    def recover(
        self, table: Table | str | None = None, older_than_s: float | None = None, *, dry_run: bool = False
    ) -> RecoveryReport:
        """Finish or undo every transaction whose owner is gone; one that fails does not stop the others.

        Args:
            table: Only its transactions, or (a name) those of a table that is not there; None for all.
            older_than_s: How long an owner must have given no sign of life, in seconds; None for its own lease.
            dry_run: Preview only.
        """
        if not dry_run:
            self._index.incarnations.require_current()
        report = self._recovery.recover(table, older_than_s, dry_run=dry_run)
        if not dry_run and report.transactions:
            try:
                self._publish(None)
            except CatalogExtError as error:
                logger.warning("What was recovered could not be published to the metastore yet: %s", error.message)
        return report

    def undo(self, transaction_id: str, *, dry_run: bool = False) -> RecoveryReport:
        """Undo one transaction that is not committed, whether or not its owner is gone; its owner gets an error.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is committed.
            CatalogExtError: Something could not be removed; the same call may be made again.
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
        """Remove what no version of a table that is younger than ``retention_s`` seconds needs, and forget the older.

        What dead writers left is recovered first; what cannot be removed is reported, and stops nothing else.

        Args:
            table: The table.
            retention_s: Seconds.
            named: Says which of some directories the metastore has partitions of these names at; None: there is no
                metastore.
            unknown_writes: Whether what writes have staged that this index does not know goes, too.
            dry_run: Preview only.

        Raises:
            IndexUnavailableError: The database is gone or locked.
        """
        if not dry_run:
            self._recovery.of_table(table.table_id, str(table.identifier))
        return Vacuum(
            self._index, self._storage, self._cleanup, table, retention_s, named, unknown_writes=unknown_writes,
            dry_run=dry_run,
        ).run()  # fmt: skip


def _base_version(request: BeginWrite) -> int:
    if request.table is None:
        return 0
    is_read = request.reads_replaced or not isinstance(request.asked, CREATIONS)
    return request.table.version if is_read else NOT_READ


@contextmanager
def _failure_told(transaction: Transaction) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        tell(NotCommitted(str(transaction.plan.asked.kind), isinstance(error, ConflictError)))
        raise


def _tell(outcome: WriteOutcome, kind: str) -> None:
    seconds = outcome.commit_ms / 1000
    tell(Committed(kind, outcome.rows, outcome.bytes, outcome.files_added, outcome.files_removed, seconds))
    fields = {
        "table": outcome.table, "version": outcome.version, "operation": outcome.operation, "rows": outcome.rows,
        "bytes": outcome.bytes, "partitions_added": outcome.partitions_added,
        "partitions_removed": outcome.partitions_removed, "partitions_changed": outcome.partitions_changed,
        "files_added": outcome.files_added, "files_removed": outcome.files_removed, "duration_ms": outcome.commit_ms,
        "pending_deliveries": outcome.pending_deliveries, "transaction": outcome.transaction_id,
        "user": current_user(),
    }  # fmt: skip
    logger.info(
        "%s to %s: version %d, partitions +%d -%d ~%d, files +%d -%d, %s rows, %d bytes, %d ms, %d pending for the "
        "metastore (transaction %s)",
        outcome.operation, outcome.table, outcome.version, outcome.partitions_added, outcome.partitions_removed,
        outcome.partitions_changed, outcome.files_added, outcome.files_removed,
        "some" if outcome.rows is None else outcome.rows, outcome.bytes, outcome.commit_ms, outcome.pending_deliveries,
        outcome.transaction_id, extra={FIELDS: fields},
    )  # fmt: skip
