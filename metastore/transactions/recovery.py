"""Recovery: transactions whose owner is gone are finished or undone, by the steps that the owner would have taken."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.runtime.processes import is_gone
from catalog_ext.metastore.transactions.lease import LeaseRenewal
from catalog_ext.metastore.transactions.reports import RecoveredTransaction, RecoveryAction, RecoveryReport
from catalog_ext.metastore.transactions.steps.clean import PolicyFailures, clean
from catalog_ext.metastore.transactions.steps.forward import WriteUndoneError, forward
from catalog_ext.metastore.transactions.steps.undo import abandon, undo

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.tables.dropped import DroppedTable
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.commit_locks import CommitLocks
    from catalog_ext.metastore.transactions.steps.resources import Resources

_DROP_LEASE_S = 24 * 3600
"""How long a DROP TABLE may take to delete the files: it renews no lease."""

logger = logging.getLogger(__name__)

_OWNER_GONE = "its owner has been silent for longer than its lease, or than the older_than of the recovery"
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 60_000, 3_600_000
_BY_ORDER = "recover was asked to undo it"


class Recovery:
    """Finishes or undoes transactions whose owner is gone.

    Args:
        resources: Those of commits.
        locks: Takes Hive's locks for those that are finished.
    """

    def __init__(self, resources: Resources, locks: CommitLocks) -> None:
        self._resources = resources
        self._index = resources.index
        self._transactions = resources.index.transactions
        self._locks = locks

    def of_table(self, table_id: int | None, name: str, app_id: str | None = None) -> None:
        """Before a new write: recovers what dead writers left in a table, or (without a number) what was to be it.

        A batch of the same application that is reserved is finished, and one that is being undone is undone, whatever
        its lease says: an application that was started again, such as a streaming query, need not wait for the lease of
        the process that died.
        """
        left = self._found(None)
        if table_id is not None:
            # An exchange that died keeps writers from the table that it takes partitions from, too.
            left = [t for t in left if table_id in (t.table_id, t.plan.source_id)]
        if table_id is not None and app_id is not None:
            known = {transaction.transaction_id for transaction in left}
            batches = self._transactions.all(table_id, states=(State.RESERVED, State.ABORTING))
            left += [t for t in batches if t.app_id == app_id and t.transaction_id not in known]
        failures: PolicyFailures = {}
        for transaction in left:
            if table_id is not None or (transaction.table == name and transaction.table_id is None):
                pause_ms = self._claim(transaction)
                own = app_id is not None and transaction.app_id == app_id and transaction.state is not State.OPEN
                if pause_ms is None and not own:
                    continue
                found = self._recover(transaction, failures, pause_ms)
                if found.action is RecoveryAction.FAILED:
                    logger.warning(
                        "The dead write %s to table %s could not be recovered yet: %s",
                        found.transaction_id,
                        found.table,
                        found.error,
                    )

    def finish_committed(self, table_id: int) -> None:
        """Clean up after the committed writes of a table, whatever their leases say: no later write would do it.

        Their owners may be at it, too: a file is deleted once. One that fails is left to ``recover``.
        """
        for transaction in self._transactions.all(table_id, states=(State.COMMITTED,)):
            try:
                clean(self._resources, Commit(transaction, by_owner=False))
            except CatalogExtError as error:
                logger.warning(
                    "What the write %s to table %s replaced could not all be removed, recover does it: %s",
                    transaction.transaction_id, transaction.table, error.message,
                )  # fmt: skip

    def recover(self, table: Table | str | None, older_than_s: float | None, *, dry_run: bool) -> RecoveryReport:
        """Return what became of every transaction whose owner is gone; see ``Transactions.recover``."""
        found = _of(table, self._found(older_than_s))
        found.sort(key=lambda t: t.began_at_ms)
        waiting = self._waiting(table, {t.transaction_id for t in found})
        if dry_run:
            recovered = [self._preview(t) for t in found]
        else:
            # With an explicit age the operator decides: what another recoverer has claimed is recovered, too.
            claimed = ((t, self._claim(t)) for t in found)
            mine = ((t, pause_ms) for t, pause_ms in claimed if pause_ms is not None or older_than_s is not None)
            failures: PolicyFailures = {}
            recovered = [self._recover(t, failures, pause_ms) for t, pause_ms in mine]
            self._return_strays()
        of = table if table is None or isinstance(table, str) else str(table.identifier)
        dropped = self._interrupted_drops(of, _DROP_LEASE_S if older_than_s is None else older_than_s)
        recovered += [self._finish_drop(one, dry_run=dry_run) for one in dropped]
        return RecoveryReport(tuple(recovered), dry_run, waiting)

    def _waiting(self, table: Table | str | None, taken: set[str]) -> tuple[RecoveredTransaction, ...]:
        now = self._index.now_ms()
        left = _of(table, self._transactions.all(states=IN_FLIGHT))
        left = sorted((t for t in left if t.transaction_id not in taken), key=lambda t: t.began_at_ms)
        return tuple(self._entry(t, RecoveryAction.WAITS, _lease(t, now)) for t in left)

    def _return_strays(self) -> None:
        """Put back files that a process had taken when it died, of commands that ended without it."""
        commands = self._transactions.moving_commands((State.ABORTED, State.COMMITTED, State.FINISHED))
        for command in self._resources.moves.with_strays(commands):
            try:
                self._resources.moves.return_strays(command)
            except CatalogExtError as error:
                logger.warning(
                    "What is left of the %s %s could not be looked at: %s",
                    command.operation,
                    command.transaction_id,
                    error.message,
                )

    def undo(self, transaction_id: str, *, dry_run: bool) -> RecoveryReport:
        """Return what became of one transaction that was undone; see ``Transactions.undo``."""
        transaction = self._resources.load(transaction_id)
        if dry_run:
            committed = transaction.state in (State.COMMITTED, State.FINISHED)
            action = RecoveryAction.FAILED if committed else RecoveryAction.WOULD_UNDO
            return RecoveryReport((self._entry(transaction, action, transaction.error),), dry_run)
        files = self._staged_count(transaction)
        abandon(self._resources, transaction, _BY_ORDER)
        return RecoveryReport((self._entry(transaction, RecoveryAction.UNDONE, _BY_ORDER, files),), dry_run)

    def _interrupted_drops(self, name: str | None, older_than_s: float) -> list[DroppedTable]:
        before = self._index.now_ms() - older_than_s * 1000
        return [
            one
            for one in self._index.dropped_tables.undeleted()
            if name in (None, one.name) and one.dropped_at_ms <= before
        ]

    def _finish_drop(self, dropped: DroppedTable, *, dry_run: bool) -> RecoveredTransaction:
        action, error = RecoveryAction.WOULD_FINISH, None
        if not dry_run:
            try:
                self._resources.cleanup.remove_dropped(dropped, late=True)
                action = RecoveryAction.FINISHED
            except CatalogExtError as trouble:
                action, error = RecoveryAction.FAILED, trouble.message
            logger.info("Recovered the DROP of table %s (%s): %s", dropped.name, dropped.location, error or action)
        number = f"table {dropped.table_id}"
        return RecoveredTransaction(number, dropped.name, "DROP TABLE", "", action, 0, error)

    def _claim(self, transaction: Transaction) -> int | None:
        """Claim the transaction, and return for how long in milliseconds; None if another recoverer has it.

        The claim is as long as the transaction has been failing, as with a partition-commit policy that always fails.
        """
        now = self._index.now_ms()
        failing_ms = now - (transaction.ended_at_ms or now)
        pause_ms = min(max(failing_ms, _FIRST_PAUSE_MS), _LONGEST_PAUSE_MS)
        return pause_ms if self._transactions.claim_recovery(transaction, now + pause_ms) else None

    def _found(self, older_than_s: float | None) -> list[Transaction]:
        """Return the transactions in flight whose lease is over, or whose owner has been silent for so many seconds."""
        found = self._transactions.all(states=IN_FLIGHT, expired=older_than_s is None)
        if older_than_s is None:
            return found
        now = self._index.now_ms()
        seen = ((t, t.expires_at_ms - t.plan.lease_ms) for t in found)
        # A lease that was renewed in the future is a recoverer's: it tried, and set a pause before the next attempt.
        return [t for t, seen_ms in seen if seen_ms > now or seen_ms <= now - older_than_s * 1000]

    def _preview(self, transaction: Transaction) -> RecoveredTransaction:
        undone = transaction.state in (State.OPEN, State.ABORTING)
        action = RecoveryAction.WOULD_UNDO if undone else RecoveryAction.WOULD_FINISH
        return self._entry(transaction, action, transaction.error)

    def _recover(
        self, transaction: Transaction, failures: PolicyFailures, pause_ms: int | None
    ) -> RecoveredTransaction:
        files = 0
        try:
            files = self._staged_count(transaction)
            renewed_ms = pause_ms or _FIRST_PAUSE_MS
            with LeaseRenewal(self._index, transaction.transaction_id, renewed_ms, undoing=True):
                action, error = self._see_through(transaction, failures)
        except CatalogExtError as trouble:
            action, error = RecoveryAction.FAILED, trouble.message
        except Exception as trouble:
            logger.warning(
                "Recovery of the write %s met an unexpected error.", transaction.transaction_id, exc_info=True
            )
            action, error = RecoveryAction.FAILED, f"{type(trouble).__name__}: {trouble}"
        entry = self._entry(transaction, action, error, files)
        logger.info(
            "Recovered the write %s (%s to %s, of %s): %s%s",
            entry.transaction_id,
            entry.operation,
            entry.table,
            entry.owner,
            entry.action,
            f", {error}" if error else "",
        )
        return entry

    def _see_through(self, transaction: Transaction, failures: PolicyFailures) -> tuple[RecoveryAction, str | None]:
        """Resume the commit at the step that its state says, and return what became of the transaction."""
        if transaction.state is State.OPEN:
            moved = self._resources.start_undo(transaction.transaction_id, (State.OPEN,), _OWNER_GONE)
            transaction = self._resources.load(transaction.transaction_id)
            if not moved and transaction.state is State.FINISHED:
                return RecoveryAction.FINISHED, None
        if transaction.state in (State.ABORTING, State.ABORTED):
            undo(self._resources, transaction)
            return RecoveryAction.UNDONE, transaction.error
        with self._locks.of_commit(transaction) as lock:
            if transaction.state is State.RESERVED:
                lock.take()
            resources = replace(self._resources, lock=lock)
            try:
                commit = forward(resources, Commit(transaction, by_owner=False))
            except WriteUndoneError as undone:
                return RecoveryAction.UNDONE, undone.reason.message
            if commit.state is State.COMMITTED:
                clean(resources, commit, failures)
        return RecoveryAction.FINISHED, None

    def _staged_count(self, transaction: Transaction) -> int:
        return self._index.transaction_files.staged_count(transaction.transaction_id)

    def _entry(
        self, transaction: Transaction, action: RecoveryAction, error: str | None, files: int | None = None
    ) -> RecoveredTransaction:
        if files is None:
            files = self._staged_count(transaction)
        return RecoveredTransaction(
            transaction.transaction_id, transaction.table, transaction.operation, transaction.owner, action, files,
            error,
        )  # fmt: skip


def _of(table: Table | str | None, transactions: list[Transaction]) -> list[Transaction]:
    if table is None:
        return transactions
    if isinstance(table, str):
        return [t for t in transactions if t.table == table]
    # A replacement belongs to no table before it is committed.
    name, number = str(table.identifier), table.table_id
    return [t for t in transactions if t.table_id == number or (t.table_id is None and t.table == name)]


def _lease(transaction: Transaction, now: int) -> str:
    left_s = (transaction.expires_at_ms - now) // 1000
    owner = "its process is gone" if is_gone(transaction.owner) else "its owner may be at work"
    return f"{owner}; its lease lasts for {left_s} s more"


def recoverable(index: Index, identifier: TableIdentifier) -> Table | str:
    """Return the table, or its name where only writes that were to create it (or outlived it), or its files, are there.

    Raises:
        TableNotFoundError: There is neither.
    """
    try:
        return index.tables.load(identifier)
    except TableNotFoundError:
        name = str(identifier)
        in_flight = any(t.table == name for t in index.transactions.all(states=IN_FLIGHT))
        if in_flight or any(dropped.name == name for dropped in index.dropped_tables.undeleted()):
            return name
        raise
