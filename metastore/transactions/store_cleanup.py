"""Removes what transactions leave on the store: replaced files, staging directories, uploads and empty directories."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.file_identity import has_only_its_name
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    CheckedAdd,
    CheckedExchange,
    CheckedRelocate,
    CheckedRename,
    RelocatePartition,
)
from catalog_ext.metastore.commit.plan import CheckedWrite, Promotion
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageAccessDeniedError,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.runtime.local_paths import directory_identity, is_other_directory
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.storage.entries import EntryKind, ListedDirectory, ListedFile, ListedOther, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.transactions.deletion_gate import is_unchanged
from catalog_ext.metastore.transactions.staging_locations import StagingLocations, below

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index.tables.dropped import DroppedTable
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.resources import Resources

_DROPPED = "_catalog_ext_dropped_"
"""The prefix of the name, before a number, to which a dropped table's directory is renamed before it is deleted."""

_DELETE_ATTEMPTS = 5
_AT_ONCE = 1000

logger = logging.getLogger(__name__)


class StoreCleanup:
    """Removes files of transactions from the store; each call may be repeated."""

    def __init__(self, resources: Resources) -> None:
        self._index = resources.index
        self._storage = resources.storage

    def before_deleting(self) -> None:
        """Raise the counter that index and warehouse both store, by which an older copy of the index is recognized.

        Raises:
            IndexRestoredError: This index is an older copy.
        """
        self._index.incarnations.before_deleting()

    def remove_replaced(self, table_id: int | None, removals: Sequence[Removal], upto: Location) -> list[Location]:
        """Remove the files that a commit replaced; return their locations.

        A file that was rewritten since is logged and kept.

        ``table_id``: the table's number; None if the table was not created.
        ``upto``: the table's location, in which recreated partitions are looked up.
        """
        files: list[Location] = []
        compared: list[tuple[Location, Removal]] = []
        markers = {Location.parse(removal.path).parent for removal in removals if removal.is_marker}
        # Keep the success file of a partition that exists again: it belongs to the new partition.
        again = self._registered(table_id, set(filter(upto.contains, markers)))
        for removal in removals:
            location = Location.parse(removal.path)
            if removal.is_marker and location.parent in again:
                continue
            if removal.size is None or has_only_its_name(removal):
                files.append(location)
            else:
                compared.append((location, removal))
        entries = self._storage.identify_many([location for location, _ in compared])
        for (location, removal), entry in zip(compared, entries, strict=True):
            if entry is None or is_unchanged(entry, removal):
                files.append(location)
            else:
                logger.warning("%s was written again since it was replaced, and stays.", location)
        self._storage.delete_files(files)
        return files

    def remove_staging(self, transaction: Transaction, locations: StagingLocations, kept: frozenset[Location]) -> None:
        """Remove staged files and uploads, also those of lost tasks, except the ``kept`` ones."""
        if transaction.plan.promotion is Promotion.UPLOAD:
            for prefix in locations.upload_prefixes():
                for upload in self._storage.uploads_to(prefix).pending(prefix):
                    if transaction.transaction_id in upload.location.name and upload.location not in kept:
                        self._storage.uploads_to(upload.location).abort(upload.location, upload.upload_id)
        for directory in locations.staging_directories():
            # Delete file by file if some files are kept, and on S3, where there are only objects and no directories.
            if transaction.plan.promotion is Promotion.UPLOAD or any(directory.contains(file) for file in kept):
                self._delete_others(directory, kept)
            else:
                self._delete_tree(directory)
                self._storage.remove_empty_directories([directory.parent], directory.parent.parent)

    def remove_named(self, transaction_id: str, directories: Sequence[Location]) -> int:
        """Remove the files directly in ``directories`` whose names contain the transaction's id; return their number.

        Raises:
            StorageError: A directory cannot be listed, or a file cannot be removed.
        """

        def own(directory: Location) -> list[Location]:
            try:
                entries = self._storage.list_directory(directory)
            except LocationNotFoundError:
                return []
            files = (entry.location for entry in entries if entry.kind is EntryKind.FILE)
            return [file for file in files if transaction_id_in(file.name) == transaction_id]

        removed = 0
        for some in batched(directories, _AT_ONCE):
            files = [file for there in in_parallel(own, some, self._storage.listing_threads) for file in there]
            self._storage.delete_files(files)
            removed += len(files)
        return removed

    def remove_table(self, table: Table) -> None:
        """Remove the directory of a table that was just dropped with its files.

        Raises:
            StorageError: A file could not be removed.
        """
        dropped = self._undeleted(table.table_id, table.definition.location)
        if dropped is not None:
            self.remove_dropped(dropped)

    def remove_dropped(self, dropped: DroppedTable, *, late: bool = False) -> None:
        """Remove the directory of a dropped table, and release its location for other tables; a repeated call resumes.

        ``late``: whether other writers may have written to the location since the DROP: their files stay, and are
        logged.

        Raises:
            StorageError: A file could not be removed.
        """
        self.before_deleting()
        location = Location.parse(dropped.location)
        if not location.key:
            # The location is a whole bucket or file system. This call raises the error for it.
            self._storage.delete_tree(location)
        aside = location.parent.join(f"{_DROPPED}{dropped.table_id}")
        if self._storage.store_has_directories(location):
            # Delete the renamed directory of an earlier attempt that died after the rename.
            self._delete_tree(aside)
        fault_point("drop.before")
        if not self._remove_dropped_files(dropped, location, aside, late=late):
            # Another process has deleted the files already. If another table was created there since, its files must
            # stay.
            return
        # Without the sync a power failure could bring the files back: no process would delete them again, and no table
        # could be created there.
        self._storage.sync_directories([location.parent])
        # Raise the counter that index and warehouse both store: in an older copy of the index this drop is unfinished,
        # and the copy would delete the files of the next table at this location.
        self.before_deleting()
        self._index.dropped_tables.note_deleted(dropped, this_process())

    def _remove_dropped_files(self, dropped: DroppedTable, location: Location, aside: Location, *, late: bool) -> bool:
        """Remove the files of a dropped table; return False if another process has done this already."""
        if is_other_directory(directory_identity(dropped.location), dropped.directory):
            logger.warning(
                "%s is another directory than the one of the dropped table %s: its files stay.", location, dropped.name
            )
        elif late and any(_is_newer(file, dropped) for _, file in self._files(location)):
            logger.warning("Files were written to %s after its table was dropped: these files stay.", location)
            old = (place for place, file in self._files(location) if not _is_newer(file, dropped))
            self._delete_while_dropped(old, dropped)
        elif self._storage.store_has_directories(location):
            renamed = self._index.dropped_tables.while_undeleted(
                dropped.table_id, lambda: self._storage.rename_directory(location, aside)
            )
            if renamed is None:
                return False
            fault_point("drop.aside")
            if renamed:
                self._delete_tree(aside)
            else:
                self._delete_while_dropped((place for place, _ in self._files(location)), dropped)
        else:
            self._delete_while_dropped((place for place, _ in self._files(location)), dropped)
        return True

    def _delete_while_dropped(self, files: Iterable[Location], dropped: DroppedTable) -> None:
        """Remove files of a dropped table in batches; stop if another process has completed the drop."""
        root = Location.parse(dropped.location)
        for batch in batched(files, _AT_ONCE):
            if self._undeleted(dropped.table_id, dropped.location) is None:
                return
            self._storage.delete_files(batch)
            directories = {file.parent for file in batch}
            self._storage.remove_empty_directories(directories, root)
            self._storage.sync_directories(directories)

    def _undeleted(self, table_id: int, location: str) -> DroppedTable | None:
        """Return the dropped table with this number if its files are not all deleted yet; None if they are."""
        undeleted = self._index.dropped_tables.undeleted(location)
        return next((one for one in undeleted if one.table_id == table_id), None)

    def _files(self, directory: Location) -> Iterator[tuple[Location, ListedFile]]:
        return ((place, event) for place, event in self._walk(directory) if isinstance(event, ListedFile))

    def _walk(self, root: Location) -> Iterator[tuple[Location, ListedFile | ListedDirectory]]:
        """Yield all files and directories below a directory; nothing if it does not exist.

        Raises:
            StorageError: A part of the directory cannot be listed.
        """
        if self._storage.store_has_directories(root) and self._storage.stat(root) is None:
            return
        for event in list_tree(self._storage, root, descend=lambda _: True, depth_hint=1):
            if isinstance(event, ListingFailure):
                raise event.error
            if isinstance(event, ListedOther):
                continue
            place = below(root, event.directory)
            if isinstance(event, ListedFile):
                # Build the location by hand: an empty name, of an S3 object that marks a directory, must keep the final
                # slash.
                place = Location(place.scheme, place.bucket, f"{place.key}/{event.name}")
            yield place, event

    def _delete_others(self, directory: Location, kept: frozenset[Location]) -> None:
        """Remove the files of a staging directory except the ``kept`` ones, and directories that are then empty."""
        there = list(self._walk(directory))
        others = [place for place, event in there if isinstance(event, ListedFile) and place not in kept]
        self._storage.delete_files(others)
        folders = [place for place, event in there if isinstance(event, ListedDirectory)]
        self._storage.remove_empty_directories(folders, directory)

    def _delete_tree(self, directory: Location) -> None:
        """Remove a directory tree; retry, because a late task may write into it and another process may remove it."""
        for attempt in range(_DELETE_ATTEMPTS):
            try:
                self._storage.delete_tree(directory)
            except CatalogExtError:
                if attempt + 1 == _DELETE_ATTEMPTS:
                    raise
            else:
                return

    def remove_directories(self, table_id: int | None, directories: Iterable[Location], upto: Location) -> None:
        """Remove those directories below ``upto`` that are empty, unless they belong to a registered partition."""
        below = {place for place in directories if place != upto and upto.contains(place)}
        if not below or not self._storage.store_has_directories(upto):
            return
        try:
            self._storage.remove_empty_directories(sorted(below - self._registered(table_id, below)), upto)
        except StorageAccessDeniedError as error:
            # Go on: an empty directory does no harm, while a transaction that cannot be finished would keep its claims.
            logger.warning("Empty directories below %s stay: %s", upto, error.message)

    def _registered(self, table_id: int | None, directories: Collection[Location]) -> set[Location]:
        """Return those directories that belong to a partition of the table."""
        table = None if table_id is None or not directories else self._index.tables.find(table_id)
        if table is None:
            return set()
        there = self._index.partitions.at(table, [str(place) for place in directories])
        return {place for place in directories if str(place) in there}


def _is_newer(file: ListedFile, dropped: DroppedTable) -> bool:
    # A file with a transaction's id was written by this catalog, so it belongs to the table, whatever the clock of the
    # store says.
    if transaction_id_in(file.name) is not None:
        return False
    if not dropped.location.startswith("s3a:"):
        return file.modified_ms > dropped.dropped_at_ms
    # S3 gives times in seconds. For an object of the same second as the DROP the order is unknown, so treat it as newer
    # and keep it.
    return file.modified_ms >= dropped.dropped_at_ms // 1000 * 1000


def made_directories(plan: WritePlan, locations: StagingLocations) -> set[Location]:
    """Return the directories inside the table's that a partition command, or LOAD DATA, may have created."""
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
        case CheckedRename(partitions=partitions, moves=True) | CheckedExchange(partitions=partitions, moves=True):
            made = {locations.directory(partition.name) for partition in partitions}
        case CheckedWrite(static_partition=str(name)):
            made = {locations.directory(name)}
        case _:
            made = set()
    return {place for place in made if locations.location.contains(place)}
