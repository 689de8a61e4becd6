"""Undoes a transaction that is not committed: removes its files, or moves them back to their sources."""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.staged_files import FILES_AT_ONCE
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import CatalogExtError, TransactionStateError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.promotion import discard
from catalog_ext.metastore.storage.promotion import undo as undo_files
from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.steps.due_files import hide_due
from catalog_ext.metastore.transactions.steps.promote import emptied_directories
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup, made_directories

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)


def undo(
    resources: Resources,
    transaction: Transaction,
    unrecorded: Sequence[StagedFile] = (),
    promoted: Collection[str] = (),
) -> int:
    """Remove every file of a transaction in state ``aborting``, move it to ``aborted``, and return the number of files.

    ``unrecorded``: files that the index may lack; without the list they might not be found, since some stores do not
    list pending uploads.
    ``promoted``: partitions in which files of the transaction may be visible without being recorded in the index.

    Raises:
        CatalogExtError: A file could not be removed; the call may be repeated.
    """
    fault_point("undo.before")
    locations = StagingLocations(transaction.transaction_id, transaction.plan)
    if transaction.plan.is_command or transaction.plan.moves_user_files:
        return _undo_moves(resources, transaction, locations, unrecorded)
    storage, cleanup, index = resources.storage, StoreCleanup(resources), resources.index
    cleanup.remove_staging(transaction, locations, frozenset())
    fault_point("undo.sources")
    removed, directories = _remove_files(resources, transaction, locations, unrecorded)
    searched = [locations.directory(partition) for partition in sorted(promoted)]
    removed += cleanup.remove_named(transaction.transaction_id, searched)
    directories.update(searched)
    directories.update(hide_due(resources, transaction))
    directories.update(_made_empty(resources, transaction, locations))
    cleanup.remove_directories(transaction.table_id, directories, locations.location)
    storage.sync_directories(directories)
    if transaction.plan.created_location and not index.tables.overlapping(transaction.plan.location):
        # The table's directory is removed only if it is empty: another table may have been created in it since.
        storage.remove_empty_directories([locations.location], locations.location.parent)
    _end(resources, transaction)
    return removed


def _end(resources: Resources, transaction: Transaction) -> None:
    """Move a transaction to ``aborted`` after its files were removed."""
    resources.index.transactions.move(transaction.transaction_id, (State.ABORTING,), State.ABORTED)
    fault_point("undo.after")


def _remove_files(
    resources: Resources, transaction: Transaction, locations: StagingLocations, unrecorded: Sequence[StagedFile]
) -> tuple[int, set[Location]]:
    """Remove the files of a write; return their number, and the directories of their targets."""
    # A transaction that was never reserved has no file under a final name. If there is such a file, a commit created it
    # that a restored index has lost: keep the file.
    remove = undo_files if transaction.reserved else discard
    removed = 0
    directories: set[Location] = set()
    recorded = resources.recorded_files(transaction.transaction_id)
    for batch in batched(chain(recorded, unrecorded), FILES_AT_ONCE):
        placed = [locations.locate(file) for file in batch]
        remove(resources.storage, placed, threads=resources.threads)
        directories.update(place.target.parent for place in placed)
        removed += len(placed)
    return removed, directories


def _made_empty(resources: Resources, transaction: Transaction, locations: StagingLocations) -> list[Location]:
    """Return the directories that ``promote`` creates for partitions that a TRUNCATE leaves without files."""
    write = transaction.plan.write
    static = [] if write is None or write.static_partition is None else [locations.directory(write.static_partition)]
    return [*static, *emptied_directories(resources, transaction, locations)]


def _undo_moves(
    resources: Resources, transaction: Transaction, locations: StagingLocations, unrecorded: Sequence[StagedFile]
) -> int:
    """Move files back to their sources, and remove the directories that were created for partitions."""
    plan, reserved, cleanup = transaction.plan, transaction.reserved, StoreCleanup(resources)
    directories = made_directories(plan, locations)
    fault_point("undo.sources")
    # A LOAD DATA that was never reserved moved no files. Files at its target names belong to a load that a restored
    # index lost.
    restores = plan.moves and (reserved or not plan.moves_user_files)
    if restores and reserved:
        # Raise the counter that index and warehouse both store: a restored copy of the index that lacks the undo, and
        # would finish the command, then has a lower counter and is refused.
        cleanup.before_deleting()
    moved = PartitionMoves(resources).restore(transaction, unrecorded) if restores else []
    directories.update(place.target.parent for place in moved)
    fault_point("undo.due")
    cleanup.remove_directories(transaction.table_id, directories, locations.location)
    sources = {place.source.parent for place in moved if place.source is not None}
    resources.storage.sync_directories({*directories, *sources})
    _end(resources, transaction)
    return len(moved)


def undo_forgotten(
    resources: Resources, transaction: Transaction, reason: str, files: Sequence[StagedFile],
    promoted: Collection[str] = (),
) -> bool:  # fmt: skip
    """Undo a transaction that the index lost, and record it there; the arguments are those of ``undo``.

    Returns:
        False, with nothing removed, if another call of the same commit reserved the transaction again and so owns the
            files.
    """
    current = resources.index.transactions.remember_undone(transaction, reason)
    if current.state not in (State.ABORTING, State.ABORTED):
        return False
    undo(resources, current, files, promoted)
    return True


def undo_quietly(resources: Resources, transaction: Transaction) -> None:
    """Undo a transaction while the caller raises its own error; failures are logged, and recovery repeats the undo."""
    try:
        undo(resources, transaction)
    except CatalogExtError as error:
        logger.warning(
            "The transaction %s on table %s could not be undone yet; recover removes its files: %s",
            transaction.transaction_id,
            transaction.table,
            error.message,
        )


def abort(resources: Resources, transaction_id: str, reason: str, unrecorded: Sequence[StagedFile] = ()) -> None:
    """Undo a transaction that is not reserved.

    Raises:
        TransactionNotFoundError: There is no transaction with this id.
        TransactionStateError: The transaction is reserved or committed, and can only be finished.
        CatalogExtError: A file could not be removed; ``recover`` removes it.
    """
    aborting = _aborting(
        resources, transaction_id, (State.OPEN,), reason,
        "cannot be aborted any more. Commit or recover it to finish it.",
    )  # fmt: skip
    undo(resources, aborting, unrecorded)


def abandon(resources: Resources, transaction: Transaction, reason: str) -> None:
    """Undo a transaction that is not committed, in any state.

    Raises:
        TransactionStateError: The transaction is committed.
        CatalogExtError: A file could not be removed; the call may be repeated.
    """
    aborting = _aborting(
        resources, transaction.transaction_id, (State.OPEN, State.RESERVED), reason,
        "cannot be undone: its rows are in the table. Without 'undo', recover finishes it.",
    )  # fmt: skip
    undo(resources, aborting)


def _aborting(
    resources: Resources, transaction_id: str, states: Collection[State], reason: str, clause: str
) -> Transaction:
    """Move a transaction from ``states`` to aborting, and return it; ``clause`` ends the error in other states."""
    resources.start_undo(transaction_id, states, reason)
    current = resources.load(transaction_id)
    if current.state not in (State.ABORTING, State.ABORTED):
        raise TransactionStateError(
            f"The write {transaction_id} to table {current.table} is {current.state} and {clause}",
            {"transaction": transaction_id, "table": current.table, "state": str(current.state)},
        )
    return current


def was_undone(transaction: Transaction) -> TransactionStateError:
    """Return the error for the owner of a transaction that another process has undone."""
    return TransactionStateError(
        f"The write {transaction.transaction_id} to table {transaction.table} was undone: "
        f"{transaction.error or 'its lease was over'}. Nothing of it is visible; run the statement again.",
        {"transaction": transaction.transaction_id, "table": transaction.table, "state": str(transaction.state)},
    )


def lease_ended(transaction: Transaction) -> TransactionStateError:
    """Return the error for a heartbeat of a transaction that is finished, or that another process has undone."""
    if transaction.state is not State.FINISHED:
        return was_undone(transaction)
    return TransactionStateError(
        f"The write {transaction.transaction_id} to table {transaction.table} is finished: its rows are in the table, "
        "and it has no lease any more.",
        {"transaction": transaction.transaction_id, "table": transaction.table, "state": str(transaction.state)},
    )


def forgotten_error(transaction: Transaction) -> CatalogExtError:
    """Return the error for the owner of a transaction that the index has lost, or whose reservation it has lost."""
    return TransactionStateError(
        f"The index has forgotten the write {transaction.transaction_id} to table {transaction.table}: its database "
        "has failed over, or was put back to an earlier time. Nothing of the write is visible; run it again.",
        {"transaction": transaction.transaction_id, "table": transaction.table, "state": "forgotten"},
    )
