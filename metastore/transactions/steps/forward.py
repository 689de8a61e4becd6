"""Runs a reserved commit from ``promote`` to ``apply``, or undoes it if it can never be finished.

The owner and recovery call it; the transaction's state selects the first step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    IndexDatabaseError,
    StorageAccessDeniedError,
    StorageError,
    TableNotFoundError,
)
from catalog_ext.metastore.index.database.failures import is_refused_for_good
from catalog_ext.metastore.index.write.partition_rows import gone_meanwhile
from catalog_ext.metastore.storage.promotion import OvertakenError
from catalog_ext.metastore.transactions.steps.apply import apply
from catalog_ext.metastore.transactions.steps.promote import promote
from catalog_ext.metastore.transactions.steps.undo import forgotten_error, undo_forgotten, undo_quietly, was_undone

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.transactions.resources import Resources


class WriteUndoneError(Exception):
    """The transaction was undone, by this process or by another one.

    Attributes:
        reason: The error to raise to the transaction's owner.
    """

    def __init__(self, reason: CatalogExtError) -> None:
        super().__init__(reason.message)
        self.reason = reason


def forward(resources: Resources, commit: Commit) -> Commit:
    """Return the commit as committed, by this or an earlier call; it may be in any state but ``open``.

    Raises:
        WriteUndoneError: The commit can never be finished, or was undone; nothing of it is visible.
        CatalogExtError: The store or the index failed; the call may be repeated.
    """
    if commit.state is State.RESERVED:
        commit = _promoted(resources, commit)
    if commit.state is State.RESERVED:
        commit = _applied(resources, commit)
    if commit.state in (State.ABORTING, State.ABORTED):
        # Undo again: tasks may have written files after the undo by another process.
        undo_quietly(resources, commit.transaction)
        raise WriteUndoneError(was_undone(commit.transaction))
    return commit


def forward_again(resources: Resources, commit: Commit) -> Commit:
    """Reload a reserved commit from the index, and continue with ``forward``.

    Raises:
        WriteUndoneError: The commit can never be finished, or was undone; nothing of it is visible.
        CatalogExtError: The store or the index failed; the call may be repeated.
    """
    current = resources.load_reserved(commit.transaction)
    if current is None:
        return _take_back_forgotten(resources, commit)
    return forward(resources, resumed(commit, current))


def resumed(commit: Commit, current: Transaction) -> Commit:
    """Return the commit with the transaction's present state; its table and files will be read again."""
    return replace(commit, transaction=current, all_files=None, table=None)


def _promoted(resources: Resources, commit: Commit) -> Commit:
    try:
        return promote(resources, commit)
    except OvertakenError:
        return forward_again(resources, commit)
    except ConflictError as error:
        return _take_back(resources, commit, error)
    except CatalogExtError as error:
        # A retry may succeed after a transient error. If a recoverer lacks rights, the owner may still have them.
        if _is_transient(error) or (isinstance(error, StorageAccessDeniedError) and not commit.by_owner):
            raise
        # The store will keep refusing, so the commit can never be finished. All staged files can be removed.
        return _take_back(resources, commit, _reason(resources, commit.transaction, error))


def _applied(resources: Resources, commit: Commit) -> Commit:
    try:
        return apply(resources, commit)
    except StorageError:
        raise
    except CatalogExtError as error:
        if isinstance(error, IndexDatabaseError) and _is_transient(error):
            raise
        # The index will keep refusing, so no process could ever commit the transaction.
        return _take_back(resources, commit, error)


def _is_transient(error: CatalogExtError) -> bool:
    """Return whether a later attempt may succeed."""
    return not is_refused_for_good(error) if isinstance(error, IndexDatabaseError) else error.retryable


def _reason(resources: Resources, transaction: Transaction, error: CatalogExtError) -> CatalogExtError:
    """Return the reason why a write cannot be finished: that its table was dropped, or else the given error."""
    try:
        resources.definition(transaction)
    except TableNotFoundError:
        gone = gone_meanwhile(transaction.table)
        gone.__cause__ = error
        return gone
    return error


def _take_back(resources: Resources, commit: Commit, error: CatalogExtError) -> Commit:
    """Undo a reserved commit that can never be finished; return it unchanged if another process has committed it.

    Raises:
        WriteUndoneError: The commit was undone, by this or another process.
    """
    moved = resources.start_undo(commit.transaction_id, (State.RESERVED,), error.message)
    current = resources.load_reserved(commit.transaction)
    if current is None:
        return _take_back_forgotten(resources, commit)
    if not moved and current.state in (State.COMMITTED, State.FINISHED):
        # Another process has committed the transaction. The file that seems lost here was promoted, and replaced by a
        # later write.
        return replace(commit, transaction=current)
    undo_quietly(resources, current)
    raise WriteUndoneError(error)


def _take_back_forgotten(resources: Resources, commit: Commit) -> Commit:
    """Undo a commit that the database lost in a failover or a restore: only the owner knows the promoted files.

    The index records the undo first, so that no repair registers files that a crash of this process would leave.

    Raises:
        WriteUndoneError: The commit was undone.
        CatalogExtError: The undo failed; some files of the commit may be visible.
    """
    forgotten = forgotten_error(commit.transaction)
    if not commit.by_owner:
        # A recovery does not undo the commit: the owner may have reported success before the index lost the commit.
        raise forgotten
    # Written files are deleted, moved files are moved back. For LOAD DATA the list of files comes from the call, since
    # the index has lost its own.
    files = commit.files if commit.plan.moves_user_files else ()
    if not undo_forgotten(resources, commit.transaction, forgotten.message, files, commit.promoted):
        return forward_again(resources, commit)
    raise WriteUndoneError(forgotten)
