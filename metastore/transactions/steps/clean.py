"""Step 6, ``clean``: deletes the replaced files and the staging directory, and finishes the transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.partition_commit import PartitionCommit, run_policies
from catalog_ext.metastore.commit.partition_plans import CheckedExchange
from catalog_ext.metastore.commit.staged_files import FILES_AT_ONCE
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.errors import CatalogExtError, TableNotFoundError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import without_needed
from catalog_ext.metastore.transactions.partition_moves import PartitionMoves
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.metastore.transactions.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.transactions.resources import Resources

PolicyFailures: TypeAlias = "dict[str, CatalogExtError]"
"""Errors of policies that have failed in this recovery, by directory of the partition."""


def clean(resources: Resources, commit: Commit, policy_failures: PolicyFailures | None = None) -> Commit:
    """Remove replaced and left-over files of a committed commit, and return it finished.

    ``policy_failures``: the directories for which policies failed in this recovery. Policies are not run again for
    these; new failures are added.

    Raises:
        CatalogExtError: A file could not be removed or a policy failed; the call may be repeated.
    """
    fault_point("clean.before")
    transaction, index, cleanup = commit.transaction, resources.index, StoreCleanup(resources)
    # If the index is later restored from an older copy, the copy still refers to the files that are deleted now. So
    # raise the counter that index and warehouse both store, after the commit and before the first deletion: the copy
    # then has a lower counter and is refused.
    cleanup.before_deleting()
    locations = StagingLocations(transaction.transaction_id, transaction.plan)
    for removals in batched(index.deletions.of(transaction.transaction_id), FILES_AT_ONCE):
        if resources.load(transaction.transaction_id).state is State.FINISHED:
            # Another process has finished the transaction. File names may be reused from then on, since a RENAME moves
            # back any file that it finds. So delete nothing more.
            return replace(commit, transaction=replace(transaction, state=State.FINISHED))
        _remove(resources, transaction, removals, locations.location)
    fault_point("clean.removed")
    if transaction.plan.moves:
        PartitionMoves(resources).tidy(transaction)
    elif not transaction.plan.is_command:
        cleanup.remove_staging(transaction, locations, _still_waiting(resources, transaction, locations))
    fault_point("clean.staging")
    try:
        _run_policies(resources, transaction, locations, {} if policy_failures is None else policy_failures)
    except CatalogExtError:
        # Forget the files to delete: they are deleted. A RENAME waits for deletions, and need not wait for a policy
        # that keeps failing.
        index.deletions.forget(transaction.transaction_id)
        raise
    index.transactions.finish(transaction.transaction_id)
    fault_point("clean.after")
    return replace(commit, transaction=replace(transaction, state=State.FINISHED))


def _remove(resources: Resources, transaction: Transaction, removals: Sequence[Removal], root: Location) -> None:
    """Remove replaced files, and directories that are empty afterwards."""
    cleanup = StoreCleanup(resources)
    replaced = [removal for removal in removals if not removal.is_directory]
    if transaction.operation == VACUUM:
        replaced = _unneeded(resources, transaction, replaced)
    files = cleanup.remove_replaced(transaction.table_id, replaced, root)
    directories = {file.parent for file in files}
    directories.update(Location.parse(removal.path) for removal in removals if removal.is_directory)
    cleanup.remove_directories(transaction.table_id, directories, root)
    change = transaction.plan.change
    if isinstance(change, CheckedExchange):
        cleanup.remove_directories(change.asked.source_id, directories, Location.parse(change.source_location))
    # A finished transaction forgets its list of deletions. If a power failure brought a file back, no process would
    # delete it again, so sync the directories first.
    resources.storage.sync_directories(directories)


def _unneeded(resources: Resources, claim: Transaction, removals: Sequence[Removal]) -> list[Removal]:
    """Return the files that a vacuum claimed before it died, without those that running commands will register."""
    try:
        table = resources.table(claim)
    except TableNotFoundError:
        # The table was unregistered, so its replaced files belong to the user, as all its other files do. Delete none.
        return []
    free = without_needed(resources, table, {removal.path for removal in removals})
    return [removal for removal in removals if removal.path in free]


def _still_waiting(resources: Resources, transaction: Transaction, locations: StagingLocations) -> frozenset[Location]:
    """Return the locations of files that wait for their partitions to be due: staged files, or keys of uploads."""
    if transaction.plan.write is None or not transaction.plan.write.waiting:
        return frozenset()
    mine = (
        locations.locate(file)
        for waiting in Waiting(resources).documents(transaction.table_id or 0, transaction.app_id)
        if waiting.transaction_id == transaction.transaction_id
        for file in waiting.files
    )
    return frozenset(place.hidden or place.target for place in mine)


def _run_policies(
    resources: Resources, transaction: Transaction, locations: StagingLocations, failures: PolicyFailures
) -> None:
    plan = transaction.plan
    if plan.write is None or not plan.write.published:
        return
    published = [(name, str(locations.directory(name))) for name in plan.write.published]
    known = next((failures[place] for _, place in published if place in failures), None)
    if known is not None:
        raise known
    try:
        keys = [key.name for key in resources.table(transaction).definition.keys]
    except TableNotFoundError:
        # The table was dropped: there is no partition to announce, and a later recovery could not run the policies
        # either.
        return
    try:
        run_policies(PartitionCommit.of(plan.partition_commit, keys), published, resources.storage.write_file)
    except CatalogExtError as error:
        failures.update((place, error) for _, place in published)
        raise
