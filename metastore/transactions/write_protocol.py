"""The engine of writes: begin, stage, commit, abort, recover. ``docs/spec/commit-protocol.md`` is its contract."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.plan import (
    COMMANDS,
    CREATIONS,
    Append,
    Overwrite,
)
from catalog_ext.metastore.commit.transaction import BeginWrite, BegunWrite, State, Transaction, WriteOutcome
from catalog_ext.metastore.errors import (
    CatalogExtError,
    IndexUnavailableError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.storage.promotion import DEFAULT_THREADS
from catalog_ext.metastore.transactions.checking import Checker
from catalog_ext.metastore.transactions.new_files import NewFiles
from catalog_ext.metastore.transactions.partition_commands import CommandChecker
from catalog_ext.metastore.transactions.planning import Planner, definition_of
from catalog_ext.metastore.transactions.recovery import Recovery
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.steps import Steps, WriteUndoneError, was_undone
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.metastore.transactions.unknown_state import (
    DEFAULT_UNKNOWN_TIMEOUT_S,
    Attempts,
    reason_of,
    state_unknown,
)
from catalog_ext.metastore.transactions.vacuum import Vacuum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.plan import AskedCommand
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.reports import RecoveryReport, VacuumReport

logger = logging.getLogger(__name__)


class Delivered(Protocol):
    """What came of telling the metastore."""

    @property
    def pending(self) -> int:
        """Messages that it has not taken yet."""
        ...


def _never(_: TableDefinition) -> bool:
    return False


def _nobody() -> None:
    return None


class Transactions:
    """Writes to the tables of an index; threads may share it.

    Args:
        index: The index.
        storage: The stores.
        threads: Files that one commit promotes at the same time.
        unknown_timeout_s: How long the index is asked what became of a commit whose connection was lost, in seconds.
        deliver: Says whether changes of a table are enqueued for the metastore.
        follow: Tells it what is due, and returns what came of it; None where there is no metastore.
        pause: Waits so many seconds.
    """

    def __init__(
        self,
        index: Index,
        storage: Storage,
        *,
        threads: int = DEFAULT_THREADS,
        unknown_timeout_s: float = DEFAULT_UNKNOWN_TIMEOUT_S,
        deliver: Callable[[TableDefinition], bool] = _never,
        follow: Callable[[], Delivered | None] = _nobody,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self._index = index
        self._storage = storage
        self._follow = follow
        self._attempts = Attempts(unknown_timeout_s, pause or threading.Event().wait)
        new_files = NewFiles(index, storage, threads)
        self._checker = Checker(index, storage, new_files)
        self._planner = Planner(index, self._checker)
        self._commands = CommandChecker(index, storage, new_files)
        self._cleanup = StoreCleanup(index, storage)
        self._steps = Steps(index, storage, self._cleanup, deliver, threads)
        self._recovery = Recovery(index, self._steps)

    def begin(self, request: BeginWrite) -> BegunWrite:
        """Return the transaction of a new write, after dead writers' ones of the same table have been recovered.

        Raises:
            InvalidConfigurationError: An option is none that its key may have.
            TableLayoutError: A table is to be created in a directory that is not empty.
            TableNotFoundError: The table is gone.
            StorageError: The store refuses or does not answer.
        """
        fault_point("begin.before")
        shown = str(definition_of(request).identifier)
        self._recovery.of_table(None if request.table is None else request.table.table_id, shown, request.app_id)
        transaction_id = secrets.token_hex(16)
        plan = self._planner.plan(request, transaction_id)
        if self._is_duplicate(request):
            return BegunWrite("", plan, {}, plan.lease_ms, duplicate=True)
        now = now_ms()
        creates = isinstance(request.asked, CREATIONS)
        self._index.begin_transaction(
            Transaction(
                transaction_id=transaction_id,
                table_id=None if creates or request.table is None else request.table.table_id,
                table=shown,
                operation=request.operation,
                state=State.OPEN,
                owner=request.owner,
                base_version=0 if request.table is None else request.table.version,
                began_at_ms=now,
                expires_at_ms=now + plan.lease_ms,
                plan=plan,
                app_id=request.app_id,
                app_version=request.app_version,
            )
        )
        fault_point("begin.after")
        return BegunWrite(transaction_id, plan, plan.locations, plan.lease_ms)

    def _is_duplicate(self, request: BeginWrite) -> bool:
        if request.app_id is None or request.app_version is None or request.table is None:
            return False
        known = self._index.find_application(request.table.table_id, request.app_id)
        return known is not None and known.app_version >= request.app_version

    def heartbeat(self, transaction_id: str) -> int:
        """Return when the lease ends now, in milliseconds since the epoch.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is finished, or somebody has undone it.
        """
        transaction = self._index.load_transaction(transaction_id)
        until = now_ms() + transaction.plan.lease_ms
        if not self._index.extend_lease(transaction_id, until):
            raise was_undone(self._index.load_transaction(transaction_id))
        return until

    def stage(self, transaction_id: str, files: Sequence[StagedFile]) -> None:
        """Records files that tasks have staged; it may be called several times.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is not open any more.
            InvalidInputError: A file does not fit the transaction.
        """
        self._stage(self._index.load_transaction(transaction_id), files)

    def _stage(self, transaction: Transaction, files: Sequence[StagedFile]) -> None:
        fault_point("stage.before")
        locations = StagingLocations(transaction.transaction_id, transaction.plan)
        for file in files:
            locations.check(file)
        if files:
            self._index.record_files(transaction.transaction_id, files)
        fault_point("stage.after")

    def commit(
        self,
        transaction_id: str,
        files: Sequence[StagedFile] = (),
        *,
        keep: str | None = None,
        watermark_ms: int | None = None,
        final: bool = False,
    ) -> WriteOutcome:
        """Return what the write did, now that it is visible; called again, the same answer.

        Args:
            transaction_id: An open transaction, or one whose commit was called before.
            files: The last staged files.
            keep: The fully static partition that is to be registered also without rows.
            watermark_ms: Of a streaming write, milliseconds since the epoch.
            final: Whether the streaming query has ended by itself.

        Raises:
            ConflictError: Somebody else was first. Nothing of the write was ever visible; it is undone.
            CommitStateUnknownError: Nobody knows yet whether the write will be committed; ``recover`` sees to it.
            TransactionStateError: The transaction was undone before.
            CatalogExtError: The write failed and is undone.
        """
        started = time.monotonic()
        transaction = self._loaded(transaction_id)
        if transaction.state is State.OPEN:
            decided = self._decide(transaction, files, keep=keep, watermark_ms=watermark_ms, final=final)
            if isinstance(decided, WriteOutcome):
                return decided
            transaction = decided
        transaction = self._forward(transaction)
        elapsed_ms = round((time.monotonic() - started) * 1000)
        pending = self._deliver(transaction)
        if transaction.state is State.COMMITTED:
            self._clean_up(transaction)
        assert transaction.outcome is not None, "what is committed has an outcome"
        outcome = replace(transaction.outcome, pending_deliveries=pending, commit_ms=elapsed_ms)
        _log(outcome)
        return outcome

    def _decide(
        self,
        transaction: Transaction,
        files: Sequence[StagedFile],
        *,
        keep: str | None,
        watermark_ms: int | None,
        final: bool,
    ) -> Transaction | WriteOutcome:
        """Stage, check and reserve: the reserved transaction, or the outcome of the batch that was committed before."""
        try:
            self._stage(transaction, files)
            fault_point("check.before")
            asked = transaction.plan.asked
            if isinstance(asked, COMMANDS):
                plan = self._commands.check(transaction, asked)
            else:
                plan = self._checker.check(
                    transaction, asked, static_partition=keep, watermark_ms=watermark_ms, final=final, now_ms=now_ms()
                )
            fault_point("check.after")
        except BaseException as error:  # noqa: BLE001 -- it is raised again, unless another call has succeeded
            return self._given_up(transaction, error)
        for _ in self._attempts.of(transaction.transaction_id, transaction.table):
            try:
                fault_point("reserve.before")
                known = self._index.reserve(transaction.transaction_id, plan)
                fault_point("reserve.after")
                if known is None:
                    # Not what was sent: where the call was repeated, the plan of the first one holds.
                    return self._index.load_transaction(transaction.transaction_id)
            except IndexUnavailableError as error:
                logger.warning("The index is away while a write is reserved: %s", error.message)
                continue
            except BaseException as error:  # noqa: BLE001 -- as above
                return self._given_up(transaction, error)
            self._give_up(transaction, TransactionStateError("its batch is committed already"))
            return WriteOutcome(
                transaction.transaction_id, transaction.table_id or 0, transaction.table, transaction.operation,
                known.version, duplicate=True,
            )  # fmt: skip
        raise AssertionError("the attempts end by raising")

    def _loaded(self, transaction_id: str) -> Transaction:
        """Return the transaction, which may be reserved or committed already: an index that is away is waited for.

        Raises:
            CommitStateUnknownError: It stays away.
            TransactionNotFoundError: There is no such transaction.
        """
        for _ in self._attempts.of(transaction_id):
            try:
                fault_point("commit.called")
                return self._index.load_transaction(transaction_id)
            except IndexUnavailableError as error:
                logger.warning("The index is away while a write is to be committed: %s", error.message)
        raise AssertionError("the attempts end by raising")

    def _forward(self, transaction: Transaction) -> Transaction:
        """Return the transaction, committed; the owner's way through ``Steps.forward``."""
        for attempt in self._attempts.of(transaction.transaction_id, transaction.table):
            try:
                if attempt:
                    transaction = self._index.load_transaction(transaction.transaction_id)
                return self._steps.forward(transaction)
            except IndexUnavailableError as error:
                logger.warning("The index is away while a write is committed: %s", error.message)
            except WriteUndoneError as undone:
                raise undone.reason from undone
            except Exception as error:
                raise state_unknown(transaction.transaction_id, transaction.table, reason_of(error)) from error
        raise AssertionError("the attempts end by raising")

    def _deliver(self, transaction: Transaction) -> int:
        """Tells the metastore; how many messages it has not taken."""
        try:
            fault_point("deliver.before")
            report = self._follow()
            fault_point("deliver.after")
        except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
            logger.warning("Table %s is written; the metastore could not be told yet: %s", transaction.table, error)
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
        """Undoes a transaction whose commit was not called.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is reserved or committed, and is not undone any more.
            CatalogExtError: Some file could not be removed; ``recover`` does it.
        """
        self._index.move_transaction(transaction_id, (State.OPEN,), State.ABORTING, error=reason)
        transaction = self._index.load_transaction(transaction_id)
        if transaction.state not in (State.ABORTING, State.ABORTED):
            raise TransactionStateError(
                f"The write {transaction_id} to table {transaction.table} is {transaction.state} and cannot be aborted "
                "any more. Call commit again, or recover, to see it through.",
                {"transaction": transaction_id, "table": transaction.table, "state": str(transaction.state)},
            )
        self._steps.undo(transaction)

    def _given_up(self, transaction: Transaction, error: BaseException) -> Transaction:
        """Undoes what is not reserved and raises ``error``; what somebody else has reserved meanwhile as it is now.

        A commit that was called again while the first call was still at work may find its files promoted.

        Raises:
            CommitStateUnknownError: Nobody can tell whether it is reserved.
        """
        self._give_up(transaction, error)
        try:
            current = self._index.load_transaction(transaction.transaction_id)
        except CatalogExtError:
            raise state_unknown(transaction.transaction_id, transaction.table, reason_of(error)) from error
        if current.state in (State.OPEN, State.ABORTING, State.ABORTED) or not isinstance(error, Exception):
            raise error
        return current

    def _give_up(self, transaction: Transaction, error: BaseException) -> None:
        """Undoes what is not reserved, now or by recovery."""
        try:
            self.abort(transaction.transaction_id, reason_of(error))
        except CatalogExtError as trouble:
            logger.warning(
                "The failed write %s to table %s could not be undone yet; recover does it when its lease is over: %s",
                transaction.transaction_id,
                transaction.table,
                trouble.message,
            )

    def delete(self, table: Table, predicate: Predicate | None, truncate: bool) -> WriteOutcome:
        """Delete the partitions that a predicate is true for, or with ``truncate`` their files.

        Args:
            table: The table at the version that the statement read.
            predicate: Unbound, None for all.
            truncate: Whether the partitions stay registered.

        Raises:
            ConflictError: Somebody else changed one of them meanwhile.
            CatalogExtError: As ``commit``.
        """
        asked = Overwrite(predicate, keep_emptied=truncate)
        request = BeginWrite(asked, "TRUNCATE" if truncate else "DELETE", _owner(), table)
        return self.commit(self.begin(request).transaction_id)

    def command(self, table: Table, asked: AskedCommand, operation: str) -> WriteOutcome:
        """Carry out a partition command.

        Args:
            table: The table at the version that the statement read.
            asked: What it does.
            operation: The word for the history.

        Raises:
            PartitionNotFoundError, PartitionAlreadyExistsError: The partitions are not as the command needs them.
            ConflictError: Somebody else changed one of them meanwhile.
            CatalogExtError: As ``commit``.
        """
        return self.commit(self.begin(BeginWrite(asked, operation, _owner(), table)).transaction_id)

    def release(self, table: Table, app_id: str, owner: str, options: Mapping[str, str]) -> WriteOutcome | None:
        """Commits what a stream's epochs have kept back, because its query has ended by itself; None if nothing waits.

        Args:
            table: The table.
            app_id: The query's id, under which its epochs were committed.
            owner: Names the process, for people.
            options: As the epochs had them.

        Raises:
            ConflictError: Somebody else is committing an epoch of the query.
            CatalogExtError: As ``commit``.
        """
        if next(self._index.waiting_files(table.table_id, app_id), None) is None:
            return None
        request = BeginWrite(Append(), "STREAMING", owner, table, app_id=app_id, options=options)
        return self.commit(self.begin(request).transaction_id, final=True)

    @contextmanager
    def dropping(self, table: Table) -> Iterator[None]:
        """Return a context in which a table is dropped; what its streams have kept back is removed when it is gone.

        Raises:
            CatalogExtError: The table is gone, and something could not be removed.
        """
        locations = self._steps.waiting_locations(table)
        yield
        self._steps.discard(table, locations)

    def recover(
        self, table: Table | str | None = None, older_than_s: float | None = None, *, dry_run: bool = False
    ) -> RecoveryReport:
        """Finishes or undoes every transaction whose owner is gone; one that fails does not stop the others.

        Args:
            table: Only its transactions, or (a name) those of a table that is not there; None for all.
            older_than_s: How long an owner must have given no sign of life, in seconds; None for its own lease.
            dry_run: Preview only.
        """
        report = self._recovery.recover(table, older_than_s, dry_run=dry_run)
        if not dry_run and report.transactions:
            try:
                self._follow()
            except CatalogExtError as error:
                logger.warning("The metastore could not be told of what was recovered yet: %s", error.message)
        return report

    def vacuum(self, table: Table, retention_s: float, *, dry_run: bool = False) -> VacuumReport:
        """Removes what no version of a table that is younger than ``retention_s`` seconds needs, and forgets the older.

        What dead writers left is recovered first; what cannot be removed is reported, and stops nothing else.
        """
        if not dry_run:
            self._recovery.of_table(table.table_id, str(table.identifier))
        return Vacuum(self._index, self._storage, self._cleanup, table, retention_s, dry_run=dry_run).run()


def _owner() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _log(outcome: WriteOutcome) -> None:
    logger.info(
        "%s to %s: version %d, partitions +%d -%d ~%d, files +%d -%d, %d rows, %d bytes, %d ms, %d pending for the "
        "metastore (transaction %s)",
        outcome.operation, outcome.table, outcome.version, outcome.partitions_added, outcome.partitions_removed,
        outcome.partitions_changed, outcome.files_added, outcome.files_removed, outcome.rows, outcome.bytes,
        outcome.commit_ms, outcome.pending_deliveries, outcome.transaction_id,
    )  # fmt: skip
