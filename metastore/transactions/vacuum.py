"""Vacuum: removes files that no kept version needs and no writer will commit, and old versions from the index."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.errors import CatalogExtError, IndexUnavailableError, MetastoreError
from catalog_ext.metastore.runtime.processes import this_process
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import DeletionGate, is_same_file, needed_by
from catalog_ext.metastore.transactions.reports import KeptFiles, VacuumAction, VacuumEntry, VacuumReport
from catalog_ext.metastore.transactions.staging_locations import DEFAULT_STAGING
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.metastore.transactions.strays import Found, Strays

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.index.read.ended_files import EndedFile
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.transactions.deletion_gate import Need, StillNamed
    from catalog_ext.metastore.transactions.resources import Resources

logger = logging.getLogger(__name__)

_AT_ONCE = 1000
_REPLACED = "replaced by version {}, which is older than the retention"
_BEHIND = (
    "The metastore has not taken all changes of table {}: Hive engines may still read the files that they replaced. "
    "Run catalog-ext outbox to see why; when they are delivered, run vacuum again."
)
_YOUNG = (
    "replaced by version {}, which is younger than the retention. SET LOCATION to this directory brings it back, or "
    "ADD PARTITION … LOCATION where the partition itself is gone"
)
_NAMED_AGAIN = "replaced by version {}, and used again by a later version"
_HELD = (
    "replaced by version {}, and held by the tag '{tag}' of version {held}. CALL <catalog>.system.untag removes the tag"
)
_AT_COMMIT_MS = 60_000
"""The longest expected time, in milliseconds, from a commit's version to its message in the outbox."""


class Vacuum:
    """One vacuum of one table.

    Args:
        table: The table; it is loaded again, because recovery may have changed it.
        retention_s: The age in seconds up to which versions are kept.
        named: Returns the directories in which the metastore has partitions of these names; None without a metastore.
        unknown_writes: Whether staged files of writes that this index does not know are removed too.
    """

    def __init__(
        self, resources: Resources, table: Table, retention_s: float, named: StillNamed | None, *,
        unknown_writes: bool, dry_run: bool,
    ) -> None:  # fmt: skip
        self._index = resources.index
        self._storage = resources.storage
        self._cleanup = StoreCleanup(resources)
        self._table = resources.table_of(table.table_id)
        self._root = Location.parse(self._table.definition.location)
        self._began_ms = resources.now_ms()
        self._before_ms = self._began_ms - round(retention_s * 1000)
        self._gate = DeletionGate(resources, self._table, named)
        self._dry_run = dry_run
        self._strays = Strays(resources, self._table, self._before_ms, unknown_writes=unknown_writes)
        self._failed = False
        self._kept = KeptFiles()
        self._data: set[str] = set()
        self._tags: dict[int, str] = {}

    def run(self) -> VacuumReport:
        """Vacuum the table and return the report.

        Raises:
            IndexUnavailableError: The index database does not answer or is locked.
            IndexRestoredError: The index was restored from an older copy.
        """
        if not self._dry_run:
            self._cleanup.before_deleting()
        version = self._index.history.version_at(self._table.table_id, self._before_ms)
        self._tags = self._held_below(version)
        entries: list[VacuumEntry] = []
        strays = self._strays
        oldest = min((version, *self._tags))
        for find in (partial(self._ended, version), partial(strays.files, oldest, self._data), strays.copies,
                     strays.uploads):  # fmt: skip
            self._remove(find(), entries)
        if not self._dry_run:
            fault_point("vacuum.deleted")
        entries.extend(self._kept.entries())
        if not (self._failed or self._dry_run or strays.unseen):
            # All leftovers of ended writes were examined, so the index need not keep the ids of these writes any
            # longer.
            self._index.forgotten_transactions.drop(self._table.table_id, self._began_ms, strays.too_young)
        # Keep the rows of replaced files that stay, so that a repair does not register them as new ones.
        version = min(version, self._kept.first_version - 1)
        if version > 0 and not self._failed:
            shown = str(self._table.identifier)
            # If not every directory was searched, keep the rows of aborted writes: a repair recognizes their leftover
            # files by them.
            aborted, number = not strays.unseen, self._table.table_id
            if self._dry_run or self._index.versions.expire(number, version, aborted=aborted, held=self._tags):
                reason = f"versions below {version} are older than the retention"
                entries.append(VacuumEntry(VacuumAction.FORGET, shown, 0, reason))
        self._index.repairs.expire(self._table.table_id, self._before_ms, dry_run=self._dry_run)
        name = str(self._table.identifier)
        return VacuumReport(name, tuple(replace(entry, table=name) for entry in entries), self._dry_run)

    def _held_below(self, version: int) -> dict[int, str]:
        """Make the versions below ``version`` unreadable, except in a dry run, and return the tags of held ones."""
        if self._dry_run:
            tags = [(tag.version, tag.name) for tag in self._index.version_holds.tags(self._table) if tag.in_force]
        else:
            # Before the first file is deleted, because a query may otherwise choose a version whose files vacuum is
            # deleting, and fail in its tasks.
            tags = self._index.versions.raise_floor(self._table.table_id, version)
            fault_point("vacuum.floor")
        return {held: name for held, name in tags if held < version}

    def _remove(self, found: Iterator[Found], entries: list[VacuumEntry]) -> None:
        """Remove the found files in batches; report those that cannot be removed, and continue."""
        batch: list[Found] = []
        try:
            for item in found:
                batch.append(item)
                if len(batch) == _AT_ONCE:
                    self._remove_batch(batch, entries)
                    batch = []
        except CatalogExtError as error:
            self._fail(str(self._root), error, entries)
        self._remove_batch(batch, entries)

    def _remove_batch(self, batch: list[Found], entries: list[VacuumEntry]) -> None:
        try:
            batch = self._without_needed(batch, entries)
        except IndexUnavailableError:
            raise
        except CatalogExtError as error:
            self._fail(str(self._root), error, entries)
            return
        entries.extend(item.entry for item in batch if self._dry_run or item.entry.action is not VacuumAction.DELETE)
        if self._dry_run or not batch:
            return
        try:
            for item in batch:
                if item.upload is not None and item.entry.action is VacuumAction.ABORT_UPLOAD:
                    self._storage.uploads_to(Location.parse(item.entry.path)).abort(
                        Location.parse(item.entry.path), item.upload
                    )
            entries.extend(item.entry for item in self._delete(batch))
        except IndexUnavailableError:
            raise
        except CatalogExtError as error:
            self._fail(batch[0].entry.path, error, entries)

    def _delete(self, batch: list[Found]) -> list[Found]:
        """Claim files in the index, delete them, and end the claim; return the deleted ones.

        A file that a statement registered after the earlier check (``DeletionGate``), but before the claim, is kept.
        """
        found = {item.entry.path: item for item in batch if item.entry.action is VacuumAction.DELETE}
        if not found:
            return []
        removals = [
            Removal(path, item.entry.bytes) if item.replaced is None else _recorded(item.replaced)
            for path, item in found.items()
        ]
        claim = self._index.deletions.claim(self._table, removals, this_process(), DEFAULT_STAGING)
        needs = {path: needed_by(user) for path, user in claim.users.items()}
        if claim.transaction_id is None:
            return self._spared(found, needs)
        try:
            # A command that began before the claim did not see it, so look for such commands now. A later command is
            # refused.
            needs |= self._gate.in_flight(found)
            going = self._spared(found, needs)
            files = [Location.parse(item.entry.path) for item in going]
            fault_point("vacuum.claimed")
            self._storage.delete_files(files)
            directories = {file.parent for file in files}
            self._cleanup.remove_directories(self._table.table_id, directories, self._root)
            # Sync, because the index forgets these files: if a power failure brought them back, no later vacuum would
            # delete them.
            self._storage.sync_directories(directories)
        finally:
            self._index.transactions.finish(claim.transaction_id)
        return going

    def _spared(self, found: Mapping[str, Found], needs: Mapping[str, Need]) -> list[Found]:
        """Return the files that no partition and no running statement needs; report the needed files as kept."""
        for path in found.keys() & needs.keys():
            self._keep(found[path], VacuumAction.KEPT, needs[path].reason)
        return [item for path, item in found.items() if path not in needs]

    def _without_needed(self, batch: list[Found], entries: list[VacuumEntry]) -> list[Found]:
        """Return the files that may be removed now; report those that a partition or a running statement needs.

        Raises:
            MetastoreError: The metastore cannot be read.
        """
        goes = {item.entry.path: item for item in batch if item.entry.action is VacuumAction.DELETE or item.is_data}
        needs = self._gate.needs(goes)
        asked = {
            path: None if item.replaced is None else item.replaced.partition
            for path, item in goes.items()
            if item.is_data and item.entry.action is VacuumAction.DELETE and path not in needs
        }
        needs |= self._gate.named(asked)
        left: list[Found] = []
        failed: dict[VacuumEntry, None] = {}
        for item in batch:
            need = needs.get(item.entry.path)
            if need is not None and need.in_metastore:
                self._failed = True
                failed[VacuumEntry(VacuumAction.FAILED, item.entry.path.rpartition("/")[0], 0, need.reason)] = None
            elif need is not None:
                self._keep(item, VacuumAction.KEPT, need.reason)
            elif item.is_data and item.entry.action is VacuumAction.SKIPPED:
                self._keep(item, VacuumAction.SKIPPED, item.entry.reason)
            else:
                left.append(item)
        entries.extend(entry for entry in failed if entry not in entries)
        return left

    def _keep(self, item: Found, action: VacuumAction, reason: str) -> None:
        version = None if item.replaced is None else item.replaced.version
        self._kept.add(action, item.entry.path, item.entry.bytes, reason, version)

    def _fail(self, path: str, error: CatalogExtError, entries: list[VacuumEntry]) -> None:
        self._failed = True
        logger.warning("Vacuum of table %s could not remove everything: %s", self._table.identifier, error.message)
        entries.append(VacuumEntry(VacuumAction.FAILED, path, 0, error.message))

    def _ended(self, version: int) -> Iterator[Found]:
        """Yield the files that relocating overwrites up to a version have replaced, and that still exist.

        Raises:
            MetastoreError: Hive engines may still read them, because the write is not delivered to the metastore yet.
        """
        behind = self._index.outbox.oldest_of(self._table.table_id)
        pages = self._index.ended_files.pages(self._table, self._table.version, named_again=True, held=self._tags)
        for page in pages:
            self._data.update(file.uri.rpartition("/")[0] for file in page)
            due: list[EndedFile] = []
            for file in page:
                if file.version <= version and not file.named_again and file.held_at is None:
                    due.append(file)
                else:
                    self._keep_replaced(file)
            there = self._storage.identify_many([Location.parse(file.uri) for file in due])
            # Compare size and time, too: Hive reuses names, and the store's clock may differ from the database's.
            found = [
                file
                for file, entry in zip(due, there, strict=True)
                if entry is not None and is_same_file(entry, _recorded(file))
            ]
            if found and behind is not None and behind <= self._before_ms + _AT_COMMIT_MS:
                raise MetastoreError(_BEHIND.format(self._table.identifier))
            for file in found:
                entry = VacuumEntry(VacuumAction.DELETE, file.uri, file.size, _REPLACED.format(file.version))
                yield Found(entry, replaced=file, is_data=True)

    def _keep_replaced(self, file: EndedFile) -> None:
        """Report a replaced file that stays."""
        held = file.held_at is not None and not file.named_again
        template = _HELD if held else _NAMED_AGAIN if file.named_again else _YOUNG
        tag = None if file.held_at is None else self._tags[file.held_at]
        reason = template.format(file.version, tag=tag, held=file.held_at)
        # The rows of the later registration stay with those of the held version: without them a vacuum after ``untag``
        # would take the file, which the later registration made the user's, for the overwrite's.
        until = file.version if file.held_at is not None and file.was_named_again else None
        self._kept.add(VacuumAction.KEPT, file.uri, file.size, reason, until)


def _recorded(file: EndedFile) -> Removal:
    # Under a name with a transaction's id, the overwrite replaced the file whatever its ETag, also if it was rewritten
    # and no repair had seen that.
    own = transaction_id_in(file.uri.rpartition("/")[2]) is not None
    return Removal(file.uri, file.size, file.modified_ms, None if own else file.etag)
