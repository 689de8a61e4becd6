"""Applies the differences found by a repair, in atomic batches, and reports them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.context import RepairProgress, TimeLeft
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
from catalog_ext.metastore.model.changes import FROM_METASTORE, AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.transactions.deletion_gate import is_same_file
from catalog_ext.repair.report import CAME_BACK, COMPARED_LATER, DELETED_MEANWHILE, REPAIR_AGAIN
from catalog_ext.scan.location_listing import not_gone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.context import Progress
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.changes import Change
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.repair.difference import Proposed
    from catalog_ext.repair.options import RepairOptions
    from catalog_ext.scan.scratch import Scratch


MAX_BATCH_FILES = 50_000
"""The most files of a batch, so that a table with large partitions is committed in bounded memory too."""


class RepairBatches:
    """Commits the changes that a repair proposes, batch by batch.

    Args:
        index: The index.
        storage: The stores.
        table: The table, at the version that was compared.
        options: The repair's options.
        progress: Called after each batch.
        scratch: Gets the entries of the report.

    Attributes:
        version: The table's version after the last batch.
        conflicts: Partitions that were not changed, because another process has changed or compared them meanwhile.
        listed_ms: A time before the listing, by the database's clock; None in a dry run.
        began_ms: The time when the repair began, if it records its partitions as compared with the store; else None.
    """

    def __init__(
        self, index: Index, storage: Storage, table: Table, options: RepairOptions, progress: Progress, scratch: Scratch
    ) -> None:
        self._index = index
        self._storage = storage
        self._table = table
        self._options = options
        self._progress = progress
        self._scratch = scratch
        self._base = table
        self._total = 0
        self._applied_partitions = 0
        self._applied_files = 0
        self._time_left = TimeLeft()
        self.version = table.version
        self.conflicts: set[str] = set()
        self.listed_ms: int | None = None
        self.began_ms: int | None = None

    def apply(self, proposals: Iterator[Proposed], total: int) -> None:
        """Apply all changes; ``total`` is the expected number of partitions, for the progress.

        Raises:
            ConflictError: The table's location or partition columns were changed meanwhile.
            IndexUnavailableError: The database is gone or locked; committed batches stay.
        """
        self._total, self._time_left = total, TimeLeft()
        batch: list[Proposed] = []
        files = 0
        for proposed in proposals:
            batch.append(proposed)
            files += proposed.files
            if len(batch) >= self._options.batch_partitions or files >= MAX_BATCH_FILES:
                self._apply_batch(batch)
                batch, files = [], 0
        if batch:
            self._apply_batch(batch)

    def _apply_batch(self, batch: list[Proposed]) -> None:
        self._applied_partitions += len(batch)
        if not self._options.dry_run:
            batch = self._commit(batch)
        self._scratch.add_entries(line for proposed in batch for line in proposed.lines)
        self._applied_files += sum(proposed.files for proposed in batch)
        left_s = self._time_left.after(self._applied_partitions, self._total)
        self._progress(RepairProgress("applying", self._applied_partitions, self._applied_files, self._total, left_s))

    def _commit(self, batch: list[Proposed], listed_ms: int | None = None) -> list[Proposed]:
        batch = self._without_returned(self._without_compared_later(batch))
        if not batch:
            return []
        self._options.confirm()
        source = {} if self._options.metastore_state is None else {"source": FROM_METASTORE}
        try:
            commit = self._index.commits.apply_changes(
                self._table.table_id,
                [p.change for p in batch],
                operation=self._options.operation,
                summary={"mode": str(self._options.mode), "where": self._options.where, **source},
                deliver=self._options.deliver,
                base=self._base,
                listed_at_ms=listed_ms or self.listed_ms,
            )
        except DeletedFilesError as error:
            return self._commit_what_is_left(batch, error, listed_ms)
        except ConflictError as error:
            return self._commit_without_conflicts(batch, error)
        self.version = commit.version
        if commit.version == self._base.version + 1:
            # No other commit came in between, and each partition is in a single batch: the next batch can be based on
            # the new version.
            self._base = replace(self._base, version=commit.version)
        return batch

    def _commit_what_is_left(
        self, batch: list[Proposed], error: DeletedFilesError, listed_ms: int | None
    ) -> list[Proposed]:
        """Commit the batch without the partitions whose listed files another statement deletes or has deleted."""
        if error.has_ended:
            listed_ms = self._index.now_ms()
        left = partitions_to_leave(self._index, self._storage, self._table, [p.change for p in batch], error)
        reason = DELETED_MEANWHILE if error.has_ended else f"{error.deletion}{REPAIR_AGAIN}"
        return self._commit(self._without(batch, dict.fromkeys(left, reason)), listed_ms)

    def _without_returned(self, batch: list[Proposed]) -> list[Proposed]:
        """Remove drops of partitions whose directory exists again.

        An overwrite of Hive deletes a directory and creates it again. Without this check the metastore would drop a
        partition whose rows a user of Hive has just written.
        """
        if self._table.definition.has_wildcards:
            return batch
        gone = self._options.metastore_state.gone if self._options.metastore_state is not None else ()
        drops = [p for p in batch if isinstance(p.change, DropPartition) and p.change.name not in gone]
        back = sorted(not_gone(self._storage, map(self._place, drops))) if drops else []
        return self._without(batch, dict.fromkeys(back, CAME_BACK) | self._changed_meanwhile(back))

    def _place(self, drop: Proposed) -> tuple[str, str]:
        name, path = drop.change.name, drop.lines[0].path
        return name, self._table.directory(name, path if "://" in path else None)

    def _without_compared_later(self, batch: list[Proposed]) -> list[Proposed]:
        """Remove partitions that another process has compared with the store after this repair began."""
        began_ms = self.began_ms
        if began_ms is None:
            return batch
        names = [p.change.name for p in batch]
        verified = self._index.verifications.verified(self._table, names)
        later = (name for name in names if verified.is_later(name, began_ms))
        return self._without(batch, dict.fromkeys(later, COMPARED_LATER))

    def _commit_without_conflicts(self, batch: list[Proposed], error: ConflictError) -> list[Proposed]:
        """Commit the partitions that no other commit has changed meanwhile, and report the rest as skipped."""
        changed = self._changed_meanwhile([p.change.name for p in batch])
        if not changed:
            raise error
        return self._commit(self._without(batch, changed))

    def _changed_meanwhile(self, names: Sequence[str]) -> dict[str, str]:
        """Return the partitions that another commit has changed since the compared version, each with a reason."""
        changed = self._index.living_partitions.changed_after(self._base, names) if names else {}
        return {
            n: f"version {version} of the table changed it meanwhile{REPAIR_AGAIN}" for n, version in changed.items()
        }

    def _without(self, batch: list[Proposed], reasons: Mapping[str, str]) -> list[Proposed]:
        """Return the batch without the partitions in ``reasons``, and report these partitions as skipped."""
        left = [p.change.name for p in batch if p.change.name in reasons]
        self._scratch.add_entries(("skip", name, name, None, None, reasons[name]) for name in left)
        self.conflicts.update(left)
        return [p for p in batch if p.change.name not in reasons] if left else batch


def partitions_to_leave(
    index: Index, storage: Storage, table: Table, changes: Sequence[Change], error: DeletedFilesError
) -> set[str]:
    """Return the partitions that cannot be registered, because another statement deletes files that were listed.

    While that statement runs, these are all partitions with its files. After its end the store is checked: partitions
    whose files all exist unchanged can be registered.

    Args:
        index: The index.
        storage: The stores.
        table: The table that gets the files.
        changes: The changes that the commit refused.
        error: The error of the commit, which names the deleting statement.

    Raises:
        StorageError: The store refuses or does not answer.
    """
    adding = [change for change in changes if isinstance(change, AddPartition | ReplaceFiles)]
    registered = index.partitions.locations(
        table, [change.name for change in adding if isinstance(change, ReplaceFiles)]
    )
    places = {c.name: table.directory(c.name, c.location or registered.get(c.name)) for c in adding}
    near = {name for name, place in places.items() if place in error.directories}
    if not error.has_ended:
        return near
    listed = [
        (change.name, Removal(f"{places[change.name]}/{file.path}", file.size, file.modified_ms))
        for change in adding
        if change.name in near
        for file in (change.files if isinstance(change, AddPartition) else change.added)
    ]
    there = storage.stat_many([Location.parse(file.path) for _, file in listed])
    return {
        name
        for (name, file), entry in zip(listed, there, strict=True)
        if entry is None or not is_same_file(entry, file)
    }
