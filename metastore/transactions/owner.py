"""The owner's way through a commit: it decides, goes forward, or gives up, and asks again while the index is away."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.json import digest_of
from catalog_ext.metastore.commit.plan import COMMANDS
from catalog_ext.metastore.commit.transaction import State, Transaction, WriteOutcome
from catalog_ext.metastore.errors import (
    CatalogExtError,
    CommitStateUnknownError,
    IndexUnavailableError,
    StorageUnavailableError,
    TransactionNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.failures import takes_nothing
from catalog_ext.metastore.index.write.transaction_files import FILES_PER_DOCUMENT, other_files
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.steps import Steps, WriteUndoneError, forgotten_error
from catalog_ext.metastore.transactions.unknown_state import Attempts, may_pass, reason_of, state_unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.checking import Checker
    from catalog_ext.metastore.transactions.commit_locks import CommitLock
    from catalog_ext.metastore.transactions.partition_commands import CommandChecker

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_FORGOTTEN = (
    "the index has no transaction of this id any more, because its database has failed over or was put back to an "
    "earlier time. What the write has made visible carries the id in its file names, and the next repair registers it"
)


@dataclass(frozen=True, slots=True)
class Decided:
    """A transaction that is decided.

    Attributes:
        transaction: The transaction: reserved, or further where an earlier call has come as far.
        staged: All its files, none of which waits, where this call has brought them and reserved it; None otherwise.
    """

    transaction: Transaction
    staged: Sequence[StagedFile] | None = None


class Owner:
    """Takes transactions of this process to their end.

    Args:
        index: The index.
        checker: Checks writes.
        commands: Checks partition commands.
        steps: Does and undoes what is decided.
        attempts: Says how often the index is asked again while it is away.
    """

    def __init__(
        self, index: Index, checker: Checker, commands: CommandChecker, steps: Steps, attempts: Attempts
    ) -> None:
        self._index = index
        self._checker = checker
        self._commands = commands
        self._steps = steps
        self._attempts = attempts

    def stage(
        self,
        transaction: Transaction,
        files: Sequence[StagedFile],
        staged: int | None = None,
        *,
        recorded: bool = True,
    ) -> None:
        """Take files that tasks have staged, after so many others where that is known; usually they are recorded.

        Raises:
            TransactionStateError: The transaction is not open any more.
            InvalidInputError: A file does not fit it.
            StagedFileMissingError: The index does not remember those that have gone before.
        """
        fault_point("stage.before")
        locations = StagingLocations(transaction.transaction_id, transaction.plan)
        for file in files:
            locations.check(file)
        if files and recorded:
            self._index.transaction_files.record(transaction.transaction_id, files, staged)
        fault_point("stage.after")

    def load(self, transaction_id: str, *, again: bool) -> tuple[Transaction, Table | None]:
        """Return the transaction, which may be reserved or committed already, and its table, if it is there.

        An index that is away is waited for.

        Args:
            transaction_id: The transaction's.
            again: Whether its commit was called before.

        Raises:
            CommitStateUnknownError: It stays away, or has forgotten a transaction that may have been committed.
            TransactionNotFoundError: There is no such transaction.
        """

        def loaded(_: int) -> tuple[Transaction, Table | None]:
            fault_point("commit.called")
            return self._index.transactions.load_with_table(transaction_id)

        try:
            return self._attempts.until_answered(transaction_id, None, loaded)
        except TransactionNotFoundError as error:
            if not again:
                raise
            raise state_unknown(transaction_id, None, _FORGOTTEN, ask_again=False) from error

    @staticmethod
    def check_same(transaction: Transaction, files: Sequence[StagedFile], staged: int | None) -> None:
        """Return if a commit brings the files that the transaction was reserved with; one that brings none may ask.

        Raises:
            InvalidInputError: It brings others.
        """
        write = transaction.plan.write
        if files and write is not None and write.brought not in ("", digest_of(files, staged)):
            raise other_files(transaction.transaction_id, transaction.table)

    def decide(
        self,
        transaction: Transaction,
        files: Sequence[StagedFile],
        table: Table | None = None,
        *,
        staged: int | None,
        static_partition: str | None,
        watermark_ms: int | None,
        final: bool,
        again: bool,
        lock: CommitLock,
    ) -> Decided | WriteOutcome:
        """Stage, check and reserve; return what is decided, or the outcome of a batch that was committed before.

        With ``again`` an earlier call may have gone further, and the index have forgotten that: what this one fails
        with is undone as if it had been reserved.

        Raises:
            CommitStateUnknownError: The index stays away, and nobody can tell whether it is reserved.
            CatalogExtError: The write failed and is undone.
        """
        just_loaded = [table]

        def checked() -> WritePlan:
            fault_point("check.before")
            # Another attempt looks at the table as it is then.
            known = just_loaded.pop() if just_loaded else None
            asked = transaction.plan.asked
            if isinstance(asked, COMMANDS):
                plan = self._commands.check(transaction, asked)
            else:
                plan = self._checker.check(
                    transaction,
                    asked,
                    brought,
                    known,
                    static_partition=static_partition,
                    watermark_ms=watermark_ms,
                    final=final,
                )
                assert plan.write is not None, "a write was checked"
                plan = replace(plan, change=replace(plan.write, brought=digest_of(files, staged)))
            fault_point("check.after")
            return plan

        # Few files that come with the commit are recorded with the reservation; in it, many would keep others waiting.
        few = len(files) <= FILES_PER_DOCUMENT and not transaction.plan.is_command
        whole = few and not (
            self._index.transaction_files.staged_count(transaction.transaction_id) if staged is None else staged
        )
        brought = files if whole else None
        expected = staged if staged is None or whole else staged + len(files)
        known = files if whole or again else ()
        try:
            if again:
                self._index.transactions.suspect_reservation(transaction.transaction_id)
            self.stage(transaction, files, staged, recorded=not whole)
            # Before anything is looked at that others may change, and while nobody waits for what is reserved.
            lock.take(brought, static_partition)
            plan = self._repeated(transaction, checked)
        except BaseException as error:  # noqa: BLE001 -- it is raised again, unless another call has succeeded
            return self._given_up(transaction, error, known)

        def reserved(attempt: int) -> Transaction | ApplicationVersion:
            fault_point("reserve.before")
            try:
                found = self._index.commits.reserve(
                    transaction.transaction_id, plan, staged=expected, brought=brought or (), known=transaction
                )
            except IndexUnavailableError as error:
                # Of the first attempt it is known that nothing was reserved.
                if attempt == 0 and takes_nothing(error):
                    raise WriteUndoneError(error) from error
                raise
            fault_point("reserve.after")
            return found

        try:
            found = self._attempts.until_answered(transaction.transaction_id, transaction.table, reserved)
        except CommitStateUnknownError:
            raise
        except WriteUndoneError as refused:
            return self._given_up(transaction, refused.reason, known)
        except BaseException as error:  # noqa: BLE001 -- as above
            return self._given_up(transaction, error, known)
        if isinstance(found, Transaction):
            # Not always what was sent: where the call was repeated, the plan and the files of the first one hold, and
            # where nobody has counted, more files may have been recorded since they were looked for.
            waits = plan.write is not None and plan.write.waiting
            if plan.takes and not staged:
                # Of files that are somebody's the owner keeps the list, whatever the index forgets of it.
                return Decided(found, files)
            return Decided(found, brought if found.plan is plan and not waits else None)
        self._give_up(transaction, TransactionStateError("its batch is committed already"), known)
        return WriteOutcome(
            transaction.transaction_id, transaction.table_id or 0, transaction.table, transaction.operation,
            found.version, duplicate=True,
        )  # fmt: skip

    def _repeated(self, transaction: Transaction, step: Callable[[], _T]) -> _T:
        """Return what a step that changes nothing twice says; it is made again while the index or the store is away.

        Raises:
            CatalogExtError: It failed, or what it needs has stayed away.
        """
        failure: CatalogExtError | None = None
        for _ in self._attempts.in_time():
            try:
                return step()
            except (IndexUnavailableError, StorageUnavailableError) as error:
                logger.warning("Write %s is checked again: %s", transaction.transaction_id, error.message)
                failure = error
        assert failure is not None, "there is one attempt at least"
        raise failure

    def forward(self, decided: Decided, lock: CommitLock) -> Transaction:
        """Return the transaction, committed, with its locks held.

        Raises:
            CommitStateUnknownError: It may be committed, or not.
            CatalogExtError: It was undone.
        """
        transaction = decided.transaction
        promoted: set[str] = set()

        def committed(attempt: int) -> Transaction:
            if transaction.state is State.RESERVED:
                # Of one that was reserved by an earlier call; otherwise they are held.
                lock.take()
            if attempt and transaction.state is State.RESERVED:
                return self._steps.again(transaction, promoted, decided.staged, lock.confirm)
            if attempt:
                current = self._index.transactions.load(transaction.transaction_id)
                return self._steps.forward(current, promoted=promoted, confirm=lock.confirm)
            return self._steps.forward(transaction, promoted=promoted, staged=decided.staged, confirm=lock.confirm)

        try:
            return self._attempts.until_answered(transaction.transaction_id, transaction.table, committed)
        except CommitStateUnknownError:
            raise
        except WriteUndoneError as undone:
            raise undone.reason from undone
        except Exception as error:
            raise state_unknown(
                transaction.transaction_id, transaction.table, reason_of(error), ask_again=may_pass(error)
            ) from error

    def abort(self, transaction_id: str, reason: str, brought: Sequence[StagedFile] = ()) -> None:
        """Undo a transaction whose commit was not called, or has not reserved anything.

        Args:
            transaction_id: The transaction's.
            reason: Why.
            brought: Its files that are not recorded, as far as they are known.

        Raises:
            TransactionNotFoundError: There is no such transaction.
            TransactionStateError: It is reserved or committed, and is not undone any more.
            CatalogExtError: Some file could not be removed; ``recover`` does it.
        """
        self._index.transactions.move(transaction_id, (State.OPEN,), State.ABORTING, error=reason)
        transaction = self._index.transactions.load(transaction_id)
        if transaction.state not in (State.ABORTING, State.ABORTED):
            raise TransactionStateError(
                f"The write {transaction_id} to table {transaction.table} is {transaction.state} and cannot be aborted "
                "any more. Call commit again, or recover, to see it through.",
                {"transaction": transaction_id, "table": transaction.table, "state": str(transaction.state)},
            )
        self._steps.undo(transaction, brought)

    def _given_up(self, transaction: Transaction, error: BaseException, brought: Sequence[StagedFile]) -> Decided:
        """Undo what is not reserved and raise ``error``; what somebody else has reserved meanwhile as it is now.

        A commit that was called again while the first call was still at work may find its files promoted.

        Raises:
            CommitStateUnknownError: Nobody can tell whether it is reserved.
        """
        if isinstance(error, TransactionNotFoundError):
            error = forgotten_error(transaction)
        self._give_up(transaction, error, brought)
        try:
            current = self._index.transactions.load(transaction.transaction_id)
        except CatalogExtError:
            raise state_unknown(transaction.transaction_id, transaction.table, reason_of(error)) from error
        if current.state in (State.OPEN, State.ABORTING, State.ABORTED) or not isinstance(error, Exception):
            raise error
        return Decided(current)

    def _give_up(self, transaction: Transaction, error: BaseException, brought: Sequence[StagedFile]) -> None:
        """Undo what is not reserved, now or by recovery."""
        try:
            try:
                self.abort(transaction.transaction_id, reason_of(error), brought)
            except TransactionNotFoundError:
                self._steps.undo(self._index.transactions.remember_undone(transaction, reason_of(error)), brought)
        except CatalogExtError as trouble:
            logger.warning(
                "The failed write %s to table %s could not be undone yet; recover does it when its lease is over: %s",
                transaction.transaction_id,
                transaction.table,
                trouble.message,
            )
