"""Recovery: finishes or undoes transactions whose process died, with the same steps as the process itself."""

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
from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
from catalog_ext.metastore.transactions.reports import RecoveredTransaction, RecoveryAction, RecoveryReport
from catalog_ext.metastore.transactions.steps.clean import PolicyFailures, clean
from catalog_ext.metastore.transactions.steps.forward import WriteUndoneError, forward
from catalog_ext.metastore.transactions.steps.undo import abandon, undo
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.dropped import DroppedTable
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.transactions.commit_locks import CommitLocks
    from catalog_ext.metastore.transactions.resources import Resources

_DROP_LEASE_S = 24 * 3600
"""The time that a DROP TABLE may take to delete the files, in seconds: it has no lease to renew."""

logger = logging.getLogger(__name__)

_OWNER_GONE = "its owner has been silent for longer than its lease, or than the older_than of the recovery"
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 60_000, 3_600_000
_BY_ORDER = "recover was asked to undo it"


class Recovery:
    """Finishes or undoes transactions whose owner is dead.

    Args:
        locks: Takes Hive locks for the transactions that are finished.
    """

    def __init__(self, resources: Resources, locks: CommitLocks) -> None:
        self._resources = resources
        self._index = resources.index
        self._locks = locks

    def of_table(self, table_id: int | None, name: str, app_id: str | None = None) -> None:
        """Recover a table before a new write; without ``table_id``, the transactions that create a table of this name.

        A reserved batch of the same streaming application is finished, and one that is being undone is undone, without
        waiting for its lease: a restarted streaming query must not wait for the lease of its dead process.
        """
        in_flight, now = self._in_flight()
        failures: PolicyFailures = {}
        for transaction in in_flight:
            own = app_id is not None and transaction.app_id == app_id and transaction.state is not State.OPEN
            restarted = own and transaction.state is not State.COMMITTED and transaction.table_id is not None
            if not (_is_of(transaction, table_id, name) and (restarted or _is_left(transaction, now, None))):
                continue
            pause_ms = self._claim(transaction)
            if pause_ms is None and not own:
                continue
            found = self._recover(transaction, failures, pause_ms)
            if found.action is RecoveryAction.FAILED:
                logger.warning(
                    "The dead write %s to table %s could not be recovered yet: %s",
                    found.transaction_id, found.table, found.error,
                )  # fmt: skip

    def finish_committed(self, table_id: int) -> None:
        """Clean up after the committed writes of a table, whatever their leases say: no later write would do it.

        The owners of these writes may clean up at the same time; that does no harm. If a clean-up fails, ``recover``
        repeats it.
        """
        for transaction in self._in_flight()[0]:
            if transaction.table_id != table_id or transaction.state is not State.COMMITTED:
                continue
            try:
                clean(self._resources, Commit(transaction, by_owner=False))
            except CatalogExtError as error:
                logger.warning(
                    "What the write %s to table %s replaced could not all be removed, recover does it: %s",
                    transaction.transaction_id, transaction.table, error.message,
                )  # fmt: skip

    def recover(
        self, identifier: TableIdentifier | None, older_than_s: float | None, *, dry_run: bool
    ) -> RecoveryReport:
        """Recover the transactions of dead owners and return the outcome of each; see ``Transactions.recover``."""
        in_flight, now = self._in_flight()
        dropped = self._index.dropped_tables.undeleted()
        if identifier is not None:
            dropped = [one for one in dropped if one.name == str(identifier)]
            in_flight = self._of(identifier, in_flight, is_dropped=bool(dropped))
        in_flight.sort(key=lambda t: t.began_at_ms)
        found = [t for t in in_flight if _is_left(t, now, older_than_s)]
        left_alone = [t for t in in_flight if not _is_left(t, now, older_than_s)]
        waiting = tuple(self._entry(t, RecoveryAction.WAITS, _lease(t, now)) for t in left_alone)
        if dry_run:
            recovered = [self._preview(t) for t in found]
        else:
            # With an explicit age the operator decides: also recover transactions that another recoverer has claimed.
            claimed = ((t, self._claim(t)) for t in found)
            mine = ((t, pause_ms) for t, pause_ms in claimed if pause_ms is not None or older_than_s is not None)
            failures: PolicyFailures = {}
            recovered = [self._recover(t, failures, pause_ms) for t, pause_ms in mine]
            self._return_strays()
        before_ms = now - 1000 * (_DROP_LEASE_S if older_than_s is None else older_than_s)
        recovered += [self._finish_drop(one, dry_run=dry_run) for one in dropped if one.dropped_at_ms <= before_ms]
        return RecoveryReport(tuple(recovered), dry_run, waiting)

    def _in_flight(self) -> tuple[list[Transaction], int]:
        """Return all transactions in flight, newest first, and the database's time in milliseconds."""
        now = self._resources.now_ms()
        return self._resources.in_states(IN_FLIGHT), now

    def _of(self, identifier: TableIdentifier, in_flight: list[Transaction], *, is_dropped: bool) -> list[Transaction]:
        """Return the transactions of a table. If it does not exist, return those that create it, or that its DROP left.

        Raises:
            TableNotFoundError: There is no table of this name, no transaction of one, and no dropped one to delete.
        """
        name = str(identifier)
        named = [t for t in in_flight if t.table == name]
        try:
            number = self._index.tables.load(identifier).table_id
        except TableNotFoundError:
            if named or is_dropped:
                return named
            raise
        # Also match by name: a transaction that replaces a table has no table number before its commit.
        return [t for t in in_flight if t.table_id == number or (t.table_id is None and t.table == name)]

    def _return_strays(self) -> None:
        """Move back files that another process, before it died, took for a command that has ended since."""
        commands = self._index.transactions.moving_commands((State.ABORTED, State.COMMITTED, State.FINISHED))
        moves = PartitionMoves(self._resources)
        for command in moves.with_strays(commands):
            try:
                moves.return_strays(command)
            except CatalogExtError as error:
                logger.warning(
                    "What is left of the %s %s could not be looked at: %s",
                    command.operation,
                    command.transaction_id,
                    error.message,
                )

    def undo(self, transaction_id: str, *, dry_run: bool) -> RecoveryReport:
        """Undo one transaction and return the outcome; see ``Transactions.undo``."""
        transaction = self._resources.load(transaction_id)
        if dry_run:
            committed = transaction.state in (State.COMMITTED, State.FINISHED)
            action = RecoveryAction.FAILED if committed else RecoveryAction.WOULD_UNDO
            return RecoveryReport((self._entry(transaction, action, transaction.error),), dry_run)
        files = self._resources.recorded_count(transaction_id)
        abandon(self._resources, transaction, _BY_ORDER)
        return RecoveryReport((self._entry(transaction, RecoveryAction.UNDONE, _BY_ORDER, files),), dry_run)

    def _finish_drop(self, dropped: DroppedTable, *, dry_run: bool) -> RecoveredTransaction:
        action, error = RecoveryAction.WOULD_FINISH, None
        if not dry_run:
            try:
                StoreCleanup(self._resources).remove_dropped(dropped, late=True)
                action = RecoveryAction.FINISHED
            except CatalogExtError as trouble:
                action, error = RecoveryAction.FAILED, trouble.message
            logger.info("Recovered the DROP of table %s (%s): %s", dropped.name, dropped.location, error or action)
        number = f"table {dropped.table_id}"
        return RecoveredTransaction(number, dropped.name, "DROP TABLE", "", action, 0, error)

    def _claim(self, transaction: Transaction) -> int | None:
        """Claim the transaction and return the claim's length in milliseconds; None if another recoverer has it.

        The claim grows with the time for which the transaction has been failing, for example because of a
        partition-commit policy that always fails.
        """
        now = self._resources.now_ms()
        failing_ms = now - (transaction.ended_at_ms or now)
        pause_ms = min(max(failing_ms, _FIRST_PAUSE_MS), _LONGEST_PAUSE_MS)
        return pause_ms if self._index.transactions.claim_recovery(transaction, now + pause_ms) else None

    def _preview(self, transaction: Transaction) -> RecoveredTransaction:
        undone = transaction.state in (State.OPEN, State.ABORTING)
        action = RecoveryAction.WOULD_UNDO if undone else RecoveryAction.WOULD_FINISH
        return self._entry(transaction, action, transaction.error)

    def _recover(
        self, transaction: Transaction, failures: PolicyFailures, pause_ms: int | None
    ) -> RecoveredTransaction:
        files = 0
        try:
            files = self._resources.recorded_count(transaction.transaction_id)
            renewed_ms = pause_ms or _FIRST_PAUSE_MS
            with LeaseRenewal(self._resources, transaction.transaction_id, renewed_ms, undoing=True):
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
        """Resume the commit at the step given by its state; return its outcome, and the error or None."""
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
                lock.take(self._resources.recorded_files(transaction.transaction_id))
            resources = replace(self._resources, lock=lock)
            try:
                commit = forward(resources, Commit(transaction, by_owner=False))
            except WriteUndoneError as undone:
                return RecoveryAction.UNDONE, undone.reason.message
            if commit.state is State.COMMITTED:
                clean(resources, commit, failures)
        return RecoveryAction.FINISHED, None

    def _entry(
        self, transaction: Transaction, action: RecoveryAction, error: str | None, files: int | None = None
    ) -> RecoveredTransaction:
        if files is None:
            files = self._resources.recorded_count(transaction.transaction_id)
        return RecoveredTransaction(
            transaction.transaction_id, transaction.table, transaction.operation, transaction.owner, action, files,
            error,
        )  # fmt: skip


def _is_of(transaction: Transaction, table_id: int | None, name: str) -> bool:
    """Return whether a transaction blocks writers of a table, or (without ``table_id``) creates this table."""
    if table_id is None:
        return transaction.table_id is None and transaction.table == name
    # An exchange of a dead process also blocks writers of its source table.
    return table_id in (transaction.table_id, transaction.plan.source_id)


def _is_left(transaction: Transaction, now: int, older_than_s: float | None) -> bool:
    """Return whether the lease has ended, or (with an age) the owner has sent no heartbeat for so many seconds."""
    if older_than_s is None:
        return transaction.expires_at_ms < now
    seen_ms = transaction.expires_at_ms - transaction.plan.lease_ms
    # A renewal in the future belongs to a recoverer that failed: it has extended the lease as a pause before the next
    # attempt.
    return seen_ms > now or seen_ms <= now - older_than_s * 1000


def _lease(transaction: Transaction, now: int) -> str:
    left_s = (transaction.expires_at_ms - now) // 1000
    owner = "its process is gone" if is_gone(transaction.owner) else "its owner may be at work"
    return f"{owner}; its lease lasts for {left_s} s more"
