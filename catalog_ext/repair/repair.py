"""Repairs a table: lists the store, compares it with the index as sets, applies the difference in atomic batches.

``docs/design/1-how-it-works.md`` says what is promised when something fails on the way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.context import Progress, RepairProgress
from catalog_ext.metastore.errors import ConflictError, MassDropError, RepairRefusedError
from catalog_ext.metastore.index import Verified
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import FROM_METASTORE, AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.runtime.garbage import collecting_rarely
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.repair.difference import Difference, Proposed
from catalog_ext.repair.expired import leave_out_expired
from catalog_ext.repair.file_warnings import warn_of_cases, warn_of_files
from catalog_ext.repair.in_flight_writes import InFlightWrites
from catalog_ext.repair.listed_again import partitions_to_leave
from catalog_ext.repair.mass_drop import found_nothing, refusal_of
from catalog_ext.repair.options import RepairMode, RepairOptions, Told, Verify
from catalog_ext.repair.record import RepairRecorder
from catalog_ext.repair.relocated_data import report_unknown_relocations
from catalog_ext.repair.report import CAME_BACK, COMPARED_LATER, DELETED_MEANWHILE, REPAIR_AGAIN
from catalog_ext.repair.verification import Verification
from catalog_ext.scan.key_layout import Layout
from catalog_ext.scan.location_pattern import LocationPattern
from catalog_ext.scan.observe import (
    StoreObserver,
    not_gone,
    observe_elsewhere,
    observe_index,
    observe_named,
    report_elsewhere,
    report_taken,
)
from catalog_ext.scan.observe_pattern import PatternObserver
from catalog_ext.scan.sides import AllIndexed, AllListed, Sides
from catalog_ext.scan.time_left import TimeLeft

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.listing import TreeLister
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.scan.scratch import Scratch
    from catalog_ext.scan.sides import Indexed, Listed

_ETAGS_AT_ONCE = 500
MAX_BATCH_FILES = 50_000
"""Files of the largest batch, so that a table of large partitions is committed in bounded memory too."""


class Repair:
    """One repair of one table."""

    def __init__(
        self,
        index: Index,
        storage: Storage,
        table: Table,
        options: RepairOptions,
        progress: Progress,
        lister: TreeLister = list_tree,
        named: StillNamed | None = None,
    ) -> None:
        self._index = index
        self._storage = storage
        self._table = table
        self._options = options
        self._progress = progress
        self._lister = lister
        self._named = named
        self._layout = Layout(table.definition, options.predicate)
        self._pattern = LocationPattern.of(table.definition)
        self._version = table.version
        self._base = table
        self._found_nothing = False
        self._conflicts: set[str] = set()
        self._began_ms: int | None = None
        self._listed_ms: int | None = None
        self._total = 0
        self._applied_partitions = 0
        self._applied_files = 0
        self._time_left = TimeLeft()

    def run(self, scratch: Scratch) -> int:
        """Compare and, unless this is a preview, apply; the report's entries are in ``scratch``.

        Returns:
            The table's version afterwards.

        Raises:
            StorageError: The table's location cannot be listed at all.
            RepairRefusedError: ``strict`` and something would be skipped; nothing was changed.
            MassDropError: It would drop more than it may; nothing was changed.
        """
        recorder = RepairRecorder(self._index, self._table, self._options, scratch)
        try:
            self._listed_ms = None if self._options.dry_run else self._index.now_ms()
            self._began_ms = self._listed_ms if self._is_comparison else None
            with collecting_rarely():
                self._run(scratch)
            if self._began_ms is not None:
                self._note_verified(self._began_ms, scratch)
        except BaseException as error:
            recorder.failed(self._version, error)
            raise
        recorder.finished(self._version)
        return self._version

    @property
    def _is_comparison(self) -> bool:
        """Whether it finds whatever differs in the whole table, or in the partitions that it names."""
        options = self._options
        limited = options.names is None and options.is_limited
        return options.mode is RepairMode.SYNC and not options.dry_run and not limited

    def _note_verified(self, began_ms: int, scratch: Scratch) -> None:
        """Keep that partitions were compared."""
        options = self._options
        # A listing that failed, a move, a change that somebody else made meanwhile: these are compared next time.
        left_out = {name for (name,) in scratch.rows("SELECT name FROM protected")} | self._conflicts
        if options.names is None and (left_out or scratch.count("SELECT count(*) FROM failures")):
            return
        names = None if options.names is None else [name for name in options.names if name not in left_out]
        self._index.verifications.note(self._table, Verified(began_ms, self._version), names)

    def _run(self, scratch: Scratch) -> None:
        mode = self._options.mode
        in_flight = InFlightWrites(self._index, self._table, scratch)
        self._observe(scratch, in_flight)
        self._progress(RepairProgress("comparing", 0, 0))
        has_directories = self._storage.store_has_directories(self._table.definition.location)
        difference = Difference(
            scratch,
            self._layout.keys,
            has_directories=has_directories,
            drops=mode is not RepairMode.ADD,
            location=None if self._pattern is None else str(self._pattern.root),
            descriptors=self._options.told.descriptors if self._options.told else {},
        )
        difference.protect_incomplete()
        if mode is RepairMode.SYNC:
            difference.compare_files()
        # Hive engines read what lies where the metastore has a partition, whatever an overwrite has replaced there.
        told = self._options.told
        in_flight.leave_out_replaced(told.places.keys() - told.lost - {""} if told else ())
        formats = self._index.descriptors.formats(self._table)
        if self._options.verify is not Verify.NONE:
            self._verify(scratch, formats)
        if mode is not RepairMode.DROP:
            warn_of_files(scratch, self._table.definition, formats)
            warn_of_cases(scratch)
        for action, source in (("skip", "skipped"), ("warn", "warned")):
            scratch.execute(
                "INSERT INTO entries (action, partition, path, files, bytes, reason)"
                f" SELECT '{action}', partition, path, files, bytes, reason FROM {source} ORDER BY path"
            )
        self._refuse_if_strict(scratch)
        if mode is not RepairMode.ADD:
            self._refuse_mass_drop(difference, scratch)
        self._total = difference.count(adds=mode is not RepairMode.DROP)
        self._time_left = TimeLeft()
        self._apply(self._proposals(difference), scratch)
        if not self._options.dry_run:
            self._note_etags(difference)

    def _note_etags(self, difference: Difference) -> None:
        """Keep the ETags that the index does not have of files that are as it has them."""
        for some in batched(difference.new_etags(), _ETAGS_AT_ONCE):
            self._index.etags.note(self._table, some)

    def _verify(self, scratch: Scratch, formats: Mapping[str, str]) -> None:
        verification = Verification(
            self._storage, self._table, scratch, self._progress, pattern=self._pattern, formats=formats
        )
        verification.run(self._options.mode)
        if self._options.verify is Verify.ALL:
            verification.run_registered(self._index.files.plan(self._table, self._options.predicate))

    def _observe(self, scratch: Scratch, in_flight: InFlightWrites) -> None:
        mode = self._options.mode
        if self._pattern is not None:
            self._observe_pattern(self._pattern, scratch)
            return
        in_flight.note_removals()
        if self._options.names is not None:
            self._observe_named(self._options.names, scratch)
            in_flight.leave_out()
            return
        if self._table.totals.partitions:
            timeless = not self._storage.store_has_directories(self._table.definition.location)
            sides = Sides(scratch, with_files=mode is RepairMode.SYNC, timeless=timeless)
            try:
                has_relocated_data = self._observe_tree(scratch, sides.listed, sides.indexed)
                sides.compare()
            finally:
                sides.close()
        else:
            has_relocated_data = self._observe_tree(scratch, AllListed(scratch), AllIndexed(scratch))
        self._found_nothing = found_nothing(scratch)
        if has_relocated_data:
            report_unknown_relocations(self._index, self._storage, self._table, scratch, self._named)
        report_elsewhere(scratch)
        report_taken(self._index, self._table, scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)
        if mode is not RepairMode.ADD:
            observe_elsewhere(self._storage, scratch, self._layout.ignored)
        in_flight.leave_out()

    def _observe_tree(self, scratch: Scratch, listed: Listed, indexed: Indexed) -> bool:
        """Observe the table's tree and what is registered; return whether relocating overwrites have data there."""
        mode, predicate = self._options.mode, self._options.predicate
        observer = StoreObserver(
            self._storage, self._table, self._layout, scratch, self._progress, self._lister, listed
        )
        observe_registered = partial(
            observe_index, self._index, self._table, predicate, indexed, files=mode is RepairMode.SYNC
        )
        if self._storage.store_has_directories(self._table.definition.location):
            # A local listing does not wait for anything: side by side the two would take longer.
            observer.observe(selective=predicate is not None)
            observe_registered()
        else:
            with ThreadPoolExecutor(1, thread_name_prefix="catalog-ext-repair") as pool:
                registered = pool.submit(observe_registered)
                observer.observe(selective=predicate is not None)
                registered.result()
        return observer.has_relocated_data

    def _observe_named(self, names: Sequence[str], scratch: Scratch) -> None:
        """Observe single partitions, at the place that each has: nothing else is listed."""
        told = self._options.told or Told()
        observe_named(
            self._index, self._storage, self._table, names, scratch, places=told.places, gone=told.gone, lost=told.lost
        )
        self._found_nothing = found_nothing(scratch)
        report_taken(self._index, self._table, scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)

    def _observe_pattern(self, pattern: LocationPattern, scratch: Scratch) -> None:
        """Observe a table whose location has wildcards: nothing writes it, so that no write is in flight."""
        predicate = self._options.predicate
        observer = PatternObserver(self._storage, self._table, pattern, predicate, scratch, self._progress)
        observer.observe()
        observe_index(self._index, self._table, predicate, AllIndexed(scratch), files=True)
        self._found_nothing = found_nothing(scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)
        if self._options.mode is not RepairMode.ADD:
            observer.keep_unseen(missing_too=not self._options.allow_mass_drop)

    def _refuse_if_strict(self, scratch: Scratch) -> None:
        count = scratch.count("SELECT count(*) FROM skipped")
        if not self._options.strict or not count:
            return
        first = "; ".join(
            f"{path[:160]!r}: {reason}"
            for path, reason in scratch.rows("SELECT path, reason FROM skipped ORDER BY path LIMIT 5")
        )
        paths = "1 path" if count == 1 else f"{count} paths"
        raise RepairRefusedError(
            f"Nothing was changed: a strict repair of table {self._table.identifier} would skip {paths}: {first}"
            f"{'; …' if count > 5 else ''}. Mend them, or repair without strict.",
            {"table": str(self._table.identifier), "skipped": str(count)},
        )

    def _refuse_mass_drop(self, difference: Difference, scratch: Scratch) -> None:
        """Raise if more would go than may go at once; a preview gets a line that says so.

        Raises:
            MassDropError: It would, and nothing was changed.
        """
        if self._options.allow_mass_drop or self._options.told is not None:
            return
        loss = difference.loss()
        refusal = refusal_of(loss, self._options, self._storage, self._table, nothing=self._found_nothing)
        if refusal is None:
            return
        if self._options.dry_run:
            scratch.add_entries([("refuse", "", "", loss.files, loss.bytes, f"the repair would be refused: {refusal}")])
            return
        raise MassDropError(
            f"Nothing was changed: the repair of table {self._table.identifier} is refused: {refusal}",
            {
                "table": str(self._table.identifier),
                "partitions": str(loss.partitions),
                "registered": str(loss.registered),
                "files": str(loss.files),
            },
        )

    def _proposals(self, difference: Difference) -> Iterator[Proposed]:
        mode = self._options.mode
        if mode is not RepairMode.ADD:
            yield from difference.dropped()
        if mode is not RepairMode.DROP:
            yield from difference.added()
        if mode is RepairMode.SYNC:
            yield from difference.changed()

    def _apply(self, proposals: Iterator[Proposed], scratch: Scratch) -> None:
        batch: list[Proposed] = []
        files = 0
        for proposed in proposals:
            batch.append(proposed)
            files += _file_count(proposed)
            if len(batch) >= self._options.batch_partitions or files >= MAX_BATCH_FILES:
                self._apply_batch(batch, scratch)
                batch, files = [], 0
        if batch:
            self._apply_batch(batch, scratch)

    def _apply_batch(self, batch: list[Proposed], scratch: Scratch) -> None:
        self._applied_partitions += len(batch)
        if not self._options.dry_run:
            batch = self._commit(batch, scratch)
        scratch.add_entries(line for proposed in batch for line in proposed.lines)
        self._applied_files += sum(_file_count(p) for p in batch)
        left_s = self._time_left.after(self._applied_partitions, self._total)
        self._progress(RepairProgress("applying", self._applied_partitions, self._applied_files, self._total, left_s))

    def _commit(self, batch: list[Proposed], scratch: Scratch, listed_ms: int | None = None) -> list[Proposed]:
        batch = self._without_returned(self._without_compared_later(batch, scratch), scratch)
        if not batch:
            return []
        self._options.confirm()
        try:
            commit = self._index.commits.apply_changes(
                self._table.table_id,
                [p.change for p in batch],
                operation="repair",
                summary={"mode": str(self._options.mode), "where": self._options.where, **self._source()},
                deliver=self._options.deliver,
                base=self._base,
                listed_at_ms=listed_ms or self._listed_ms,
            )
        except DeletedFilesError as error:
            return self._commit_what_is_left(batch, scratch, error, listed_ms)
        except ConflictError as error:
            return self._commit_without_conflicts(batch, scratch, error)
        self._version = commit.version
        if commit.version == self._base.version + 1:
            # Nobody else's was in between, and no partition is in two batches.
            self._base = replace(self._base, version=commit.version)
        return batch

    def _commit_what_is_left(
        self, batch: list[Proposed], scratch: Scratch, error: DeletedFilesError, listed_ms: int | None
    ) -> list[Proposed]:
        """Commit without the partitions whose files are being deleted, or were after they had been listed."""
        if error.has_ended:
            listed_ms = self._index.now_ms()
        changes = [p.change for p in batch]
        left = partitions_to_leave(self._index, self._storage, self._table, changes, error)
        reason = DELETED_MEANWHILE if error.has_ended else f"{error.deletion}{REPAIR_AGAIN}"
        scratch.add_entries(("skip", name, name, 0, 0, reason) for name in sorted(left))
        self._conflicts |= left
        possible = [p for p in batch if p.change.name not in left]
        return self._commit(possible, scratch, listed_ms) if possible else []

    def _source(self) -> dict[str, str]:
        return {} if self._options.told is None else {"source": FROM_METASTORE}

    def _without_returned(self, batch: list[Proposed], scratch: Scratch) -> list[Proposed]:
        """Leave out drops of partitions that are there again: an overwrite of Hive takes a directory away for a moment.

        What the metastore would be told to drop then are rows that a user of Hive has just written.
        """
        if self._pattern is not None:
            return batch
        gone = self._options.told.gone if self._options.told is not None else ()
        drops = [p for p in batch if isinstance(p.change, DropPartition) and p.change.name not in gone]
        if not drops:
            return batch
        back = not_gone(self._storage, map(self._place, drops))
        changed = self._index.living_partitions.changed_after(self._base, sorted(back)) if back else {}
        for drop in drops:
            name = drop.change.name
            if name in changed:
                _skip(scratch, drop, changed[name])
            elif name in back:
                scratch.add_entries([("skip", name, name, 0, 0, CAME_BACK)])
        self._conflicts |= back
        return [p for p in batch if p.change.name not in back]

    def _place(self, drop: Proposed) -> tuple[str, str]:
        name, path = drop.change.name, drop.lines[0].path
        return name, self._table.directory(name, path if "://" in path else None)

    def _without_compared_later(self, batch: list[Proposed], scratch: Scratch) -> list[Proposed]:
        """Leave out what somebody has compared by a later listing, and found to be as the index has it."""
        if self._began_ms is None:
            return batch
        verified, began_ms = (
            self._index.verifications.verified(self._table, [p.change.name for p in batch]),
            self._began_ms,
        )
        later = {p.change.name for p in batch if (of := verified.of(p.change.name)) is not None and of.at_ms > began_ms}
        scratch.add_entries(("skip", name, name, 0, 0, COMPARED_LATER) for name in sorted(later))
        self._conflicts |= later
        return [p for p in batch if p.change.name not in later]

    def _commit_without_conflicts(
        self, batch: list[Proposed], scratch: Scratch, error: ConflictError
    ) -> list[Proposed]:
        """Commit what nobody else has changed meanwhile; the rest is reported as skipped."""
        changed = self._index.living_partitions.changed_after(self._base, [p.change.name for p in batch])
        if not changed:
            raise error
        for proposed in batch:
            version = changed.get(proposed.change.name)
            if version is not None:
                self._conflicts.add(proposed.change.name)
                _skip(scratch, proposed, version)
        possible = [p for p in batch if p.change.name not in changed]
        return self._commit(possible, scratch) if possible else []


def _skip(scratch: Scratch, proposed: Proposed, version: int) -> None:
    name = proposed.change.name
    reason = f"version {version} of the table changed it meanwhile{REPAIR_AGAIN}"
    scratch.add_entries([("skip", name, name, 0, 0, reason)])


def _file_count(proposed: Proposed) -> int:
    match proposed.change:
        case AddPartition(files=files):
            return len(files)
        case ReplaceFiles(added=added, removed=removed):
            return len(added) + len(removed)
    return 0
