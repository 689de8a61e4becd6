"""What a transaction leaves on the store besides its files: staging directories, uploads and empty directories."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.plan import AddPartitions, CheckedAdd, CheckedRelocate, Promotion, RelocatePartition
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.listing import ListedFile, ListingFailure, list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.staging_locations import StagingLocations, below, transaction_id_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.storage.store import Storage

_DELETE_ATTEMPTS = 5
_AT_ONCE = 1000

logger = logging.getLogger(__name__)


class StoreCleanup:
    """Removes what transactions leave on the store; each call may be repeated.

    Args:
        index: The index.
        storage: The stores.
    """

    def __init__(self, index: Index, storage: Storage) -> None:
        self._index = index
        self._storage = storage

    def remove_replaced(self, removals: Iterable[Removal]) -> list[Location]:
        """Remove the files that a commit has replaced; what somebody has written there since stays, and is logged.

        Returns:
            Those that were removed, or were gone.
        """
        files: list[Location] = []
        named_again: list[tuple[Location, Removal]] = []
        for removal in removals:
            location = Location.parse(removal.path)
            if transaction_id_in(location.name) is None and removal.size is not None:
                named_again.append((location, removal))
            else:
                # Nobody else gives a file the id of a transaction for its name.
                files.append(location)
        entries = self._storage.stat_many([location for location, _ in named_again])
        for (location, removal), entry in zip(named_again, entries, strict=True):
            if entry is None or removal.is_still(entry.size, entry.modified_ms):
                files.append(location)
            else:
                logger.warning("%s was written again by somebody else since it was replaced, and stays.", location)
        self._storage.delete_files(files)
        return files

    def remove_staging(self, transaction: Transaction, locations: StagingLocations, kept: frozenset[Location]) -> None:
        """Remove staged files and uploads, also those of tasks that nobody has heard of."""
        if transaction.plan.promotion is Promotion.UPLOAD:
            for prefix in locations.upload_prefixes():
                for upload in self._storage.list_uploads(prefix):
                    if transaction.transaction_id in upload.location.name and upload.location not in kept:
                        self._storage.abort_upload(upload.location, upload.upload_id)
            return
        for directory in locations.staging_directories():
            if any(directory.contains(file) for file in kept):
                self._delete_others(directory, kept)
            else:
                self._delete_tree(directory)
                self._storage.remove_empty_directories([directory.parent], directory.parent.parent)

    def remove_dropped(self, location: Location, dropped_at_ms: int) -> None:
        """Remove the directory of a table that was dropped long ago; what was written there since stays.

        Raises:
            StorageError: Something could not be removed.
        """
        if all(file.modified_ms <= dropped_at_ms for _, file in self._files(location)):
            self._delete_tree(location)
            return
        logger.warning("Somebody has written to %s since its table was dropped: their files stay.", location)
        for batch in batched(self._files(location), _AT_ONCE):
            old = [place for place, file in batch if file.modified_ms <= dropped_at_ms]
            self._storage.delete_files(old)
            self._storage.remove_empty_directories({place.parent for place in old}, location)

    def _files(self, directory: Location) -> Iterator[tuple[Location, ListedFile]]:
        """Yield the files in a directory and below; none where there is no directory."""
        if self._storage.stat(directory) is None:
            return
        for event in list_tree(self._storage, directory, descend=lambda _: True, depth_hint=1):
            if isinstance(event, ListingFailure):
                raise event.error
            if isinstance(event, ListedFile):
                yield below(below(directory, event.directory), event.name), event

    def _delete_others(self, directory: Location, kept: frozenset[Location]) -> None:
        """Remove what lies in a staging directory besides files that are kept, empty directories too."""
        others: list[Location] = []
        folders: list[Location] = []
        for event in list_tree(self._storage, directory, descend=lambda _: True, depth_hint=1):
            if isinstance(event, ListingFailure):
                raise event.error
            place = below(directory, event.directory)
            if isinstance(event, ListedFile):
                others.append(below(place, event.name))
            else:
                folders.append(place)
        self._storage.delete_files([file for file in others if file not in kept])
        self._storage.remove_empty_directories(folders, directory)

    def _delete_tree(self, directory: Location) -> None:
        """Remove a directory into which a late task may be writing, and which others may be removing."""
        for attempt in range(_DELETE_ATTEMPTS):
            try:
                self._storage.delete_tree(directory)
            except CatalogExtError:
                if attempt + 1 == _DELETE_ATTEMPTS:
                    raise
            else:
                return

    def remove_directories(self, table_id: int | None, directories: Iterable[Location], upto: Location) -> None:
        """Remove directories below ``upto`` that are empty now, unless they are of a registered partition."""
        below = {d.relative_to(upto): d for d in directories if d != upto and upto.contains(d)}
        if not below or not self._storage.store_has_directories(upto):
            return
        registered = self._registered(table_id, below)
        self._storage.remove_empty_directories([d for name, d in below.items() if name not in registered], upto)

    def _registered(self, table_id: int | None, names: Collection[str]) -> set[str]:
        """Return those of the directories, relative to the table's, that a partition of the table has."""
        if table_id is None:
            return set()
        try:
            table = self._index.load_table_by_id(table_id)
        except TableNotFoundError:
            return set()
        own = self._index.located_partitions(table)
        there = {str(Location.parse(place)) for place in own.values()}
        moved = {name for name in names if f"{table.definition.location}/{name}" in there}
        return moved | self._index.partition_exists(table, [name for name in names if name not in own])


def made_directories(plan: WritePlan, locations: StagingLocations) -> set[Location]:
    """Return the directories inside the table's that a partition command may have made before its ``reserve``."""
    match plan.change:
        case AddPartitions(partitions=partitions) | CheckedAdd(partitions=partitions):
            made = {
                locations.directory(partition.name)
                if partition.location is None
                else Location.parse(partition.location)
                for partition in partitions
            }
        case RelocatePartition(location=str(location)) | CheckedRelocate(location=str(location)):
            made = {Location.parse(location)}
        case _:
            made = set()
    return {place for place in made if locations.location.contains(place)}
