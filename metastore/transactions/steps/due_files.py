"""Promotes a stream's invisible files when their partitions are due, and hides them again if the commit is undone."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.promotion import OvertakenError, hide, promote
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)

_WHILE_HELD = 100
"""The number of files that are renamed while the transaction's row is locked, so that its state cannot change."""


def _due(resources: Resources, transaction: Transaction) -> Iterator[list[tuple[StagedFile, StagedLocation]]]:
    """Yield files that earlier epochs held back and whose partitions become due with this epoch, in batches."""
    write = transaction.plan.write
    due = frozenset(() if write is None else write.due)
    if due:
        number = transaction.table_id or 0
        for waiting, files in Waiting(resources).files(number, transaction.app_id, transaction.plan.directory):
            if waiting.partition in due:
                yield files


def promote_due(
    resources: Resources, transaction: Transaction
) -> Iterator[tuple[Sequence[tuple[StagedFile, StagedLocation]], list[Removal]]]:
    """Promote files of earlier epochs that are due now; yield each batch with the copied sources to delete later.

    Raises:
        OvertakenError: The transaction is not reserved any more.
    """
    storage, root = resources.storage, Location.parse(transaction.plan.location)
    emptied: set[Location] = set()
    for batch in _due(resources, transaction):
        places = [place for _, place in batch]
        _promote_waiting(resources, transaction, places)
        yield batch, [Removal(str(place.hidden_upload)) for place in places if place.hidden_upload is not None]
        storage.sync([place.target for place in places], root)
        emptied.update(place.source.parent for place in places if place.source is not None)
    storage.remove_empty_directories(emptied, root)


def _promote_waiting(resources: Resources, transaction: Transaction, places: Sequence[StagedLocation]) -> None:
    """Promote files only in state ``reserved``: a slow owner must not show files that an undo has hidden again."""
    if any(place.source is None for place in places):
        # Copies may take too long to keep the transaction's row locked, so its state is read before each copy instead.
        promote(
            resources.storage, places, threads=resources.threads,
            wanted=partial(resources.is_reserved, transaction),
        )  # fmt: skip
        return
    for some in batched(places, _WHILE_HELD):
        if not _done_in_state(resources, transaction, State.RESERVED, promote, some):
            raise OvertakenError


def _done_in_state(
    resources: Resources, transaction: Transaction, state: State, work: Callable[..., object],
    places: Sequence[StagedLocation],
) -> bool:  # fmt: skip
    """Promote or hide files while the transaction stays in a state; return False if it is in another state."""
    on_files = partial(work, resources.storage, places, threads=resources.threads)
    return resources.index.transactions.while_in_state(transaction.transaction_id, state, on_files)


def hide_due(resources: Resources, transaction: Transaction) -> set[Location]:
    """Hide the files of earlier epochs that an undone transaction promoted; return their directories.

    A file that the store refuses to hide stays visible to Hive engines until a later epoch commits it.
    """
    directories: set[Location] = set()
    for batch in _due(resources, transaction):
        for some in batched([place for _, place in batch], _WHILE_HELD):
            fault_point("undo.due")
            if not _hidden(resources, transaction, some):
                return directories
            directories.update(place.target.parent for place in some)
            directories.update(place.source.parent for place in some if place.source is not None)
    fault_point("undo.due")
    return directories


def _hidden(resources: Resources, transaction: Transaction, places: Sequence[StagedLocation]) -> bool:
    """Hide files; return False if another process has completed the undo: the next epoch may have the files by now."""
    try:
        return _done_in_state(resources, transaction, State.ABORTING, hide, places)
    except StorageError as error:
        if error.retryable:
            raise
        logger.warning(
            "Files of the stream into table %s that wait for their partitions to be due stay visible until its "
            "next epoch: %s",
            transaction.table,
            error.message,
        )
        return True
