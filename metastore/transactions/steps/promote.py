"""Step 3, ``promote``: the staged files get their final names. Engines that list directories see them from then on."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.plan import Append, Create, Overwrite, Promotion
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.staged_files import FILES_AT_ONCE, StoredFile
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.runtime.tracing import span
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.promotion import keep, vanished
from catalog_ext.metastore.storage.promotion import promote as promote_files
from catalog_ext.metastore.transactions.deletion_gate import replaced_by_relocations, without_needed
from catalog_ext.metastore.transactions.moves import covered_partitions
from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.steps.due_files import promote_due
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.staged_files import StagedFile
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.transactions.resources import Resources

    Located = tuple[StagedFile, StagedLocation]
    Stored = dict[tuple[str, str], StoredFile]

logger = logging.getLogger(__name__)


def promote(resources: Resources, commit: Commit) -> Commit:
    """Give all files of the commit their final names, and return it with the store's data about each file.

    A repeated call resumes: a file whose source is gone and whose target exists is done.

    Raises:
        OvertakenError: The transaction is not reserved any more.
        ConflictError: Another LOAD DATA is moving one of the files.
        TableNotFoundError: The table was dropped. No file has a visible name.
        CatalogExtError: The store or the index failed; the call may be repeated.
    """
    if commit.all_files is None:
        # Check that the table still exists. A commit that has its files in memory was reserved a moment ago and needs
        # no check.
        resources.definition(commit.transaction)
    PartitionMoves(resources).require_unshared(commit.transaction, commit.all_files)
    if commit.plan.moves:
        # Raise the counter that index and warehouse both store: an older copy of the index, which would take the moved
        # files for lost, then has a lower counter and is refused.
        StoreCleanup(resources).before_deleting()
    with span("promote"):
        fault_point("promote.before")
        locations = StagingLocations(commit.transaction_id, commit.plan)
        _make_directories(resources, commit.transaction, locations)
        stored: Stored = {}
        for batch in batched(_own_files(resources, commit, locations), FILES_AT_ONCE):
            stored.update(_promote_batch(resources, commit, locations, batch))
        _keep_waiting(resources, commit, locations)
        leftovers = [*_left_of_replaced(resources, commit.transaction), *_left_of_taken(resources, commit)]
        if commit.plan.write is not None and commit.plan.write.due:
            for due, copied in promote_due(resources, commit.transaction):
                stored.update(stored_files(resources, due))
                leftovers.extend(copied)
        fault_point("promote.after")
    is_staging_removed = _removes_staging(resources, commit)
    return replace(commit, stored=stored, leftovers=leftovers, is_staging_removed=is_staging_removed)


def _make_directories(resources: Resources, transaction: Transaction, locations: StagingLocations) -> None:
    plan, storage = transaction.plan, resources.storage
    if plan.definition is not None:
        storage.create_directory(locations.location)
    if plan.write is not None and plan.write.static_partition is not None:
        storage.create_directory(locations.directory(plan.write.static_partition))
    in_parallel(
        storage.create_directory, emptied_directories(resources, transaction, locations), storage.listing_threads
    )
    if plan.moves:
        PartitionMoves(resources).make_directories(transaction)


def emptied_directories(resources: Resources, transaction: Transaction, locations: StagingLocations) -> list[Location]:
    """Return the new directories of the partitions that a relocating TRUNCATE keeps registered.

    They must exist: a repair drops a partition whose directory is missing.
    """
    plan = transaction.plan
    keeps = isinstance(plan.asked, Overwrite) and plan.asked.keep_emptied
    if not (keeps and plan.relocate) or not resources.storage.store_has_directories(locations.location):
        return []
    try:
        table = resources.table(transaction)
    except TableNotFoundError:
        return []
    return [locations.directory(living.name) for living in covered_partitions(resources.index, plan, table)]


def _own_files(resources: Resources, commit: Commit, locations: StagingLocations) -> Iterator[Located]:
    """Yield the files that become visible with this commit: all but those that wait for their partitions to be due."""
    write = commit.plan.write
    waiting = frozenset(() if write is None else write.waiting)
    for file in resources.staged_files(commit):
        if file.partition not in waiting:
            yield file, locations.locate(file)


def _promote_batch(
    resources: Resources, commit: Commit, locations: StagingLocations, batch: Sequence[Located]
) -> Stored:
    storage, places = resources.storage, [place for _, place in batch]
    etags: Sequence[int | None] = ()
    if commit.plan.moves:
        PartitionMoves(resources).promote(commit.transaction, places)
    else:
        commit.promoted.update(file.partition for file, _ in batch)
        wanted = partial(resources.is_reserved, commit.transaction)
        etags = promote_files(storage, places, threads=resources.threads, wanted=wanted)
    stored = stored_files(resources, batch, etags)
    storage.sync([place.target for place in places], locations.location)
    if commit.plan.moves:
        # Sync the source directories last, so that no file is lost. After a power failure a moved file may reappear at
        # its source, where the next repair would register it a second time.
        storage.sync_directories({place.source.parent for place in places if place.source is not None})
    return stored


def stored_files(resources: Resources, batch: Sequence[Located], etags: Sequence[int | None] = ()) -> Stored:
    """Return the promoted files with the store's sizes and times, so that a later repair finds them unchanged.

    ``etags``: the hashes of the ETags from the completed uploads, one per file.

    Raises:
        StagedFileMissingError: Another process deleted a file since it was promoted.
    """
    # On S3 do not look the files up: this would take a request for each, while engines already see files that the index
    # lacks. A repair compares size and ETag, which the answer to the upload contained.
    by_upload = bool(batch) and batch[0][1].upload is not None
    if not batch or by_upload:
        said = zip(batch, etags, strict=False)
        return {(f.partition, f.name): StoredFile(etag=etag) for (f, _), etag in said if etag is not None}
    there = resources.storage.identify_many([place.target for _, place in batch])
    found: Stored = {}
    for (file, place), entry in zip(batch, there, strict=True):
        if entry is None:
            raise vanished(place.target)
        found[file.partition, file.name] = StoredFile(entry.modified_ms, entry.etag)
    return found


def _keep_waiting(resources: Resources, commit: Commit, locations: StagingLocations) -> None:
    """Make files durable that wait for a later commit: after this commit the stream's source discards their rows."""
    write = commit.plan.write
    if write is None or not write.waiting:
        return
    waiting = frozenset(write.waiting)
    held = (locations.locate(file) for file in resources.staged_files(commit) if file.partition in waiting)
    for some in batched(held, FILES_AT_ONCE):
        if commit.plan.hides_uploads:
            keep(resources.storage, some, threads=resources.threads)
        resources.storage.sync([place.hidden or place.target for place in some], locations.location)


def _left_of_taken(resources: Resources, commit: Commit) -> Iterator[Removal]:
    """Yield the files that LOAD DATA leaves at its sources: copied objects on S3, checksum files on other stores."""
    copies = commit.plan.promotion is Promotion.UPLOAD
    for file in resources.staged_files(commit) if commit.plan.moves_user_files else ():
        assert file.source is not None, "LOAD DATA moves files from somewhere"
        if copies:
            yield Removal(file.source, file.size, file.modified_ms, file.etag)
        else:
            directory, _, name = file.source.rpartition("/")
            yield Removal(f"{directory}/.{name}.crc")


def _left_of_replaced(resources: Resources, transaction: Transaction) -> list[Removal]:
    """Return the files that relocations left of a table that is replaced in place: the new table does not know them."""
    if transaction.plan.definition is None:
        return []
    table = resources.target_table(transaction)
    if table is None or table.definition.location != transaction.plan.location:
        return []
    left = {removal.path: removal for removal in replaced_by_relocations(resources.index, table)}
    return [left[path] for path in sorted(without_needed(resources, table, left))]


def _removes_staging(resources: Resources, commit: Commit) -> bool:
    """Remove the staging directory of an append or a creation, and return whether it is gone.

    For a write that replaces files, the step ``clean`` removes the staging directory.
    """
    write = commit.plan.write
    if write is None or not isinstance(write.asked, Append | Create):
        return False
    if write.waiting or write.due or write.published or commit.plan.moves_user_files:
        return False
    try:
        locations = StagingLocations(commit.transaction_id, commit.plan)
        StoreCleanup(resources).remove_staging(commit.transaction, locations, frozenset())
    except CatalogExtError as error:
        # The commit can go on: the files have their final names, the rest is invisible, and the step ``clean`` tries
        # again.
        logger.info("What write %s has staged stays for now: %s", commit.transaction_id, error.message)
        return False
    return True
