"""Runs the six steps of a commit for its owner, with retries while the index does not answer."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.commit import Commit, CommitOptions
from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.json import digest_of
from catalog_ext.metastore.commit.transaction import State, WriteOutcome
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
from catalog_ext.metastore.transactions.steps.check import check
from catalog_ext.metastore.transactions.steps.clean import clean
from catalog_ext.metastore.transactions.steps.forward import WriteUndoneError, forward, forward_again, resumed
from catalog_ext.metastore.transactions.steps.publish import publish
from catalog_ext.metastore.transactions.steps.reserve import reserve
from catalog_ext.metastore.transactions.steps.stage import stage
from catalog_ext.metastore.transactions.steps.undo import abort, forgotten_error, undo_forgotten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)

DEFAULT_UNKNOWN_TIMEOUT_S = 120.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0

_FORGOTTEN = (
    "the index has no transaction of this id any more, because its database has failed over or was put back to an "
    "earlier time. What the write has made visible carries the id in its file names, and the next repair registers it"
)


def load(
    resources: Resources,
    transaction_id: str,
    files: Sequence[StagedFile],
    recorded: int | None,
    options: CommitOptions,
    *,
    is_retry: bool,
) -> Commit:
    """Return the commit of a transaction in its current state; retry while the index does not answer.

    Raises:
        CommitStateUnknownError: The index did not answer in time, or lost a transaction that may have been committed.
        TransactionNotFoundError: There is no transaction with this id.
    """

    def attempted(_: int) -> Commit:
        fault_point("commit.called")
        transaction, table = resources.index.transactions.load_with_table(transaction_id)
        loaded = Commit(transaction, options, files, recorded, table=table, is_retry=is_retry)
        return _with_all_files(resources, loaded) if loaded.state is State.OPEN else loaded

    try:
        return _until_answered(resources, transaction_id, None, attempted)
    except TransactionNotFoundError as error:
        if not is_retry:
            raise
        raise state_unknown(transaction_id, None, _FORGOTTEN, ask_again=False) from error


def run(resources: Resources, commit: Commit, started_s: float) -> WriteOutcome:
    """Run a commit that ``load`` has returned; return its outcome when all of its changes are visible.

    ``started_s`` is the time of the writer's call, by ``time.monotonic``.

    Raises:
        CommitStateUnknownError: The index or the store did not answer in time; ``recover`` may still finish the commit.
        InvalidInputError: The transaction is reserved or committed with other files.
        CatalogExtError: The write failed and is undone.
    """
    if commit.state is State.OPEN:
        commit = _reserved(resources, commit)
    transaction = commit.transaction
    if commit.duplicate_version is not None:
        _undo_open(resources, commit, TransactionStateError("its batch is committed already"))
        return WriteOutcome(
            commit.transaction_id, transaction.table_id or 0, transaction.table, transaction.operation,
            commit.duplicate_version, duplicate=True,
        )  # fmt: skip
    _check_same(commit)
    commit = _committed(resources, commit)
    elapsed_ms = round((time.monotonic() - started_s) * 1000)
    commit = publish(resources, commit)
    if commit.state is State.COMMITTED:
        _clean_quietly(resources, commit)
    assert commit.transaction.outcome is not None, "a committed transaction has an outcome"
    return replace(commit.transaction.outcome, commit_ms=elapsed_ms)


def _reserved(resources: Resources, commit: Commit) -> Commit:
    """Check and reserve the commit; return it in its new state, or with the version that committed its batch before.

    Raises:
        CommitStateUnknownError: The index did not answer in time, and may have reserved the commit.
        CatalogExtError: The write failed and is undone.
    """
    try:
        if commit.is_retry:
            resources.index.transactions.suspect_reservation(commit.transaction_id)
        with_reserve = commit.all_files is not None
        stage(resources, commit.transaction, commit.files, commit.recorded, with_reserve=with_reserve)
        # Take the locks before the check reads the table, and before other writers can wait for the reservation.
        resources.lock.take(resources.staged_files(commit), commit.options.static_partition)
        checked = _checked(resources, commit)
    except BaseException as error:  # noqa: BLE001 -- it is raised again, unless another call has succeeded
        return _undone(resources, commit, error)

    def attempted(attempt: int) -> Commit:
        try:
            return reserve(resources, checked)
        except IndexUnavailableError as error:
            # If the database refuses the first attempt, nothing is reserved. The write is undone, and its outcome is
            # known.
            if attempt == 0 and takes_nothing(error):
                raise WriteUndoneError(error) from error
            raise

    try:
        return _until_answered(resources, commit.transaction_id, commit.transaction.table, attempted)
    except CommitStateUnknownError:
        raise
    except WriteUndoneError as refused:
        return _undone(resources, commit, refused.reason)
    except BaseException as error:  # noqa: BLE001 -- as above
        return _undone(resources, commit, error)


def _with_all_files(resources: Resources, commit: Commit) -> Commit:
    """Return the commit with ``all_files`` if the call sends all of them and they are few.

    Few files are recorded together with the reservation. Many files would hold the table's lock too long, so they are
    recorded before it.
    """
    if len(commit.files) > FILES_PER_DOCUMENT or commit.plan.is_command:
        return commit
    recorded = commit.recorded
    if recorded is None:
        recorded = resources.recorded_count(commit.transaction_id)
    return commit if recorded else replace(commit, all_files=commit.files)


def _checked(resources: Resources, commit: Commit) -> Commit:
    """Return the checked commit; repeat the check while the index or the store does not answer.

    Raises:
        CatalogExtError: The check failed, or the index or store did not answer in time.
    """
    failure: CatalogExtError | None = None
    for attempt in resources.pauses():
        try:
            # A later attempt loads the table again, because it may have changed since.
            return check(resources, replace(commit, table=None) if attempt else commit)
        except (IndexUnavailableError, StorageUnavailableError) as error:
            logger.warning("Write %s is checked again: %s", commit.transaction_id, error.message)
            failure = error
    assert failure is not None, "there is one attempt at least"
    raise failure


def _check_same(commit: Commit) -> None:
    """Check that a repeated commit sends no files, or those with which its transaction was reserved.

    Raises:
        InvalidInputError: The commit sends other files.
    """
    write = commit.plan.write
    if commit.files and write is not None and write.digest not in ("", digest_of(commit.files, commit.recorded)):
        raise other_files(commit.transaction_id, commit.transaction.table)


def _committed(resources: Resources, commit: Commit) -> Commit:
    """Promote and apply the commit; return it as committed, with its locks held.

    Raises:
        CommitStateUnknownError: The commit may or may not be committed.
        CatalogExtError: The commit was undone.
    """

    def attempted(attempt: int) -> Commit:
        if commit.state is State.RESERVED:
            # If an earlier call has reserved the commit, this call has not taken the Hive locks yet.
            resources.lock.take(resources.staged_files(commit))
        if attempt and commit.state is State.RESERVED:
            return forward_again(resources, commit)
        if attempt:
            return forward(resources, resumed(commit, resources.load(commit.transaction_id)))
        return forward(resources, commit)

    transaction = commit.transaction
    try:
        return _until_answered(resources, transaction.transaction_id, transaction.table, attempted)
    except CommitStateUnknownError:
        raise
    except WriteUndoneError as undone:
        raise undone.reason from undone
    except Exception as error:
        raise state_unknown(
            transaction.transaction_id, transaction.table, reason_of(error),
            ask_again=isinstance(error, CatalogExtError) and error.retryable,
        ) from error  # fmt: skip


def _until_answered(
    resources: Resources, transaction_id: str, table: str | None, step: Callable[[int], Commit]
) -> Commit:
    """Return the result of ``step``, which gets the number of the attempt; retry it while the index does not answer.

    Raises:
        CommitStateUnknownError: The index did not answer in time.
    """
    failure = "the index database does not answer"
    for attempt in resources.pauses():
        try:
            return step(attempt)
        except IndexUnavailableError as error:
            logger.warning("The index is away while a write is committed: %s", error.message)
            failure = error.message
    raise state_unknown(transaction_id, table, failure)


def _undone(resources: Resources, commit: Commit, error: BaseException) -> Commit:
    """Undo an unreserved commit and raise ``error``; if another call has reserved it by now, return its current state.

    A repeated commit call may find its files promoted by the first call, which is still running.

    Raises:
        CommitStateUnknownError: The index does not answer whether the commit is reserved.
    """
    transaction = commit.transaction
    if isinstance(error, TransactionNotFoundError):
        error = forgotten_error(transaction)
    _undo_open(resources, commit, error)
    try:
        current = resources.load(commit.transaction_id)
    except CatalogExtError:
        raise state_unknown(commit.transaction_id, transaction.table, reason_of(error)) from error
    if current.state in (State.OPEN, State.ABORTING, State.ABORTED) or not isinstance(error, Exception):
        raise error
    return resumed(commit, current)


def _undo_open(resources: Resources, commit: Commit, error: BaseException) -> None:
    """Undo a transaction that is not reserved; if this fails, the error is logged and recovery undoes it."""
    reason, files = reason_of(error), commit.unrecorded_files
    try:
        try:
            abort(resources, commit.transaction_id, reason, files)
        except TransactionNotFoundError:
            undo_forgotten(resources, commit.transaction, reason, files)
    except CatalogExtError as trouble:
        logger.warning(
            "The failed write %s to table %s could not be undone yet; recover does it when its lease is over: %s",
            commit.transaction_id,
            commit.transaction.table,
            trouble.message,
        )


def _clean_quietly(resources: Resources, commit: Commit) -> None:
    """Clean up after a committed write. Errors are logged and not raised, because the write has succeeded."""
    try:
        clean(resources, commit)
    except Exception as error:  # noqa: BLE001 -- the write is committed, whatever goes wrong after that
        logger.warning(
            "The write %s to table %s is committed; what it replaced could not all be removed, recover does it: %s",
            commit.transaction_id,
            commit.transaction.table,
            error,
        )


def attempts(timeout_s: float, pause: Callable[[float], object]) -> Iterator[int]:
    """Yield the number of each attempt until ``commit.unknown-timeout`` has passed; there is at least one attempt."""
    deadline = time.monotonic() + timeout_s
    attempt = 0
    while True:
        yield attempt
        if time.monotonic() >= deadline:
            return
        pause(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt))
        attempt += 1


def reason_of(error: BaseException) -> str:
    """Return the error's text for users."""
    return error.message if isinstance(error, CatalogExtError) else f"{type(error).__name__}: {error}"


def state_unknown(
    transaction_id: str, table: str | None, why: str, *, ask_again: bool = True
) -> CommitStateUnknownError:
    """Return the error for the owner of a transaction that may or may not be committed.

    ``ask_again`` says whether another call of commit may complete it; otherwise a problem must be corrected first.
    """
    of_table = f" to table {table}" if table else ""
    return CommitStateUnknownError(
        f"Whether the write {transaction_id}{of_table} is committed is not known yet: {why}. Nothing was deleted. "
        "Do not run the statement again before the transaction is recovered, which the next writer of the table or "
        "'catalog-ext recover' does.",
        {"transaction": transaction_id, "ask_again": str(ask_again).lower(), **({"table": table} if table else {})},
    )
