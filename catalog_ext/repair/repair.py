"""Repairs a table: lists the store, compares it with the index, and applies the differences in atomic batches.

``docs/design/28-repair.md`` describes the state after a failure.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.context import Progress, RepairProgress
from catalog_ext.metastore.errors import MassDropError, RepairRefusedError
from catalog_ext.metastore.index.write.repairs import Verified
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.runtime.garbage import collecting_rarely
from catalog_ext.repair.batches import RepairBatches
from catalog_ext.repair.difference import Proposed, StoreDifference
from catalog_ext.repair.file_warnings import warn_of_cases, warn_of_files
from catalog_ext.repair.in_flight_writes import InFlightWrites, leave_out_expired
from catalog_ext.repair.mass_drop import found_nothing, refusal_of
from catalog_ext.repair.options import MetastoreState, RepairMode, RepairOptions, Verify
from catalog_ext.repair.record import RepairRecorder
from catalog_ext.repair.relocated_data import report_unknown_relocations
from catalog_ext.repair.verification import Verification
from catalog_ext.scan.key_layout import Layout
from catalog_ext.scan.location_listing import observe_elsewhere, report_elsewhere
from catalog_ext.scan.location_pattern import LocationPattern
from catalog_ext.scan.observe import (
    StoreObserver,
    observe_index,
    report_taken,
)
from catalog_ext.scan.observe_named import observe_named
from catalog_ext.scan.observe_pattern import PatternObserver
from catalog_ext.scan.scratch_comparison import Everything, ScratchComparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.metastore.transactions.deletion_gate import StillNamed
    from catalog_ext.scan.scratch import Scratch

_ETAGS_AT_ONCE = 500


class Repair:
    """One repair of one table."""

    def __init__(
        self,
        index: Index,
        storage: Storage,
        table: Table,
        options: RepairOptions,
        progress: Progress,
        named: StillNamed | None = None,
    ) -> None:
        self._index = index
        self._storage = storage
        self._table = table
        self._options = options
        self._progress = progress
        self._named = named
        self._layout = Layout(table.definition, options.predicate)
        self._pattern = LocationPattern.of(table.definition)
        self._found_nothing = False

    def run(self, scratch: Scratch) -> int:
        """Compare and, unless this is a preview, apply; the report's entries are in ``scratch``.

        Returns:
            The table's version after the repair.

        Raises:
            StorageError: The table's location cannot be listed at all.
            RepairRefusedError: ``strict`` is set, and a path would be skipped; nothing was changed.
            MassDropError: The repair would drop more partitions than the limit allows; nothing was changed.
        """
        recorder = RepairRecorder(self._index, self._table, self._options, scratch)
        batches = RepairBatches(self._index, self._storage, self._table, self._options, self._progress, scratch)
        try:
            batches.listed_ms = None if self._options.dry_run else self._index.now_ms()
            batches.began_ms = batches.listed_ms if self._is_comparison else None
            with collecting_rarely():
                self._run(scratch, batches)
            if batches.began_ms is not None:
                self._note_verified(Verified(batches.began_ms, batches.version), batches.conflicts, scratch)
        except BaseException as error:
            recorder.failed(batches.version, error)
            raise
        recorder.finished(batches.version)
        return batches.version

    @property
    def _is_comparison(self) -> bool:
        """Whether the repair applies all differences of the whole table, or of the named partitions."""
        options = self._options
        limited = options.names is None and options.is_limited
        return options.mode is RepairMode.SYNC and not options.dry_run and not limited

    def _note_verified(self, verified: Verified, conflicts: set[str], scratch: Scratch) -> None:
        """Record in the index that the partitions were compared with the store, so that queries count them as fresh."""
        options = self._options
        # Do not record partitions with a failed listing, with a running move, or changed by another process: they must
        # be compared again.
        left_out = {name for (name,) in scratch.rows("SELECT name FROM protected")} | conflicts
        if options.names is None and (left_out or scratch.count("SELECT count(*) FROM failures")):
            return
        names = None if options.names is None else [name for name in options.names if name not in left_out]
        self._index.verifications.note(self._table, verified, names)

    def _run(self, scratch: Scratch, batches: RepairBatches) -> None:
        mode = self._options.mode
        in_flight = InFlightWrites(self._index, self._table, scratch)
        self._observe(scratch, in_flight)
        self._progress(RepairProgress("comparing", 0, 0))
        has_directories = self._storage.store_has_directories(self._table.definition.location)
        difference = StoreDifference(
            scratch,
            self._layout.keys,
            has_directories=has_directories,
            drops=mode is not RepairMode.ADD,
            location=None if self._pattern is None else str(self._pattern.root),
            descriptors=self._options.metastore_state.descriptors if self._options.metastore_state else {},
        )
        difference.protect_incomplete()
        if mode is RepairMode.SYNC:
            difference.compare_files()
        # Replaced files of a relocating overwrite are left out of the repair, except at the locations of the
        # metastore's partitions: Hive engines read every file there.
        state = self._options.metastore_state
        in_flight.leave_out_replaced(state.places.keys() - state.lost - {""} if state else ())
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
        batches.apply(self._proposals(difference), difference.count(adds=mode is not RepairMode.DROP))
        if not self._options.dry_run:
            self._note_etags(difference)

    def _note_etags(self, difference: StoreDifference) -> None:
        """Store the store's ETags of unchanged files whose ETag the index lacks."""
        for some in batched(difference.new_etags(), _ETAGS_AT_ONCE):
            self._index.file_statistics.note_etags(self._table, some)

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
            sides = ScratchComparison(scratch, with_files=mode is RepairMode.SYNC, timeless=timeless)
            try:
                has_relocated_data = self._observe_tree(scratch, sides.listed, sides.indexed)
                sides.compare()
            finally:
                sides.close()
        else:
            has_relocated_data = self._observe_tree(
                scratch, Everything(scratch, "listed"), Everything(scratch, "indexed")
            )
        self._found_nothing = found_nothing(scratch)
        if has_relocated_data:
            report_unknown_relocations(self._index, self._storage, self._table, scratch, self._named)
        report_elsewhere(scratch)
        report_taken(self._index, self._table, scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)
        if mode is not RepairMode.ADD:
            observe_elsewhere(self._storage, scratch, self._layout.ignored)
        in_flight.leave_out()

    def _observe_tree(self, scratch: Scratch, listed: Everything, indexed: Everything) -> bool:
        """List the table's tree and read the index; return whether the tree has data of relocating overwrites."""
        mode, predicate = self._options.mode, self._options.predicate
        observer = StoreObserver(self._storage, self._table, self._layout, scratch, self._progress, listed)
        observe_registered = partial(
            observe_index, self._index, self._table, predicate, indexed, files=mode is RepairMode.SYNC
        )
        if self._storage.store_has_directories(self._table.definition.location):
            # List the tree first and read the index afterwards: on a local disk the listing does not wait for a
            # network, and two threads would be slower.
            observer.observe(selective=predicate is not None)
            observe_registered()
        else:
            with ThreadPoolExecutor(1, thread_name_prefix="catalog-ext-repair") as pool:
                registered = pool.submit(observe_registered)
                observer.observe(selective=predicate is not None)
                registered.result()
        return observer.has_relocated_data

    def _observe_named(self, names: Sequence[str], scratch: Scratch) -> None:
        """List single partitions, each at its own location. Nothing else is listed."""
        state = self._options.metastore_state or MetastoreState()
        observe_named(
            self._index,
            self._storage,
            self._table,
            names,
            scratch,
            places=state.places,
            gone=state.gone,
            lost=state.lost,
            must_lie=state.must_lie,
        )
        self._found_nothing = found_nothing(scratch)
        report_taken(self._index, self._table, scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)

    def _observe_pattern(self, pattern: LocationPattern, scratch: Scratch) -> None:
        """List a table whose location has wildcards. Such a table is read only, so there are no in-flight writes."""
        predicate = self._options.predicate
        observer = PatternObserver(self._storage, self._table, pattern, predicate, scratch, self._progress)
        observer.observe()
        observe_index(self._index, self._table, predicate, Everything(scratch, "indexed"), files=True)
        self._found_nothing = found_nothing(scratch)
        leave_out_expired(scratch, self._table, self._index.now_ms)
        if self._options.mode is not RepairMode.ADD:
            observer.keep_unseen(missing_too=not self._options.allow_mass_drop)

    def _refuse_if_strict(self, scratch: Scratch) -> None:
        count = scratch.count("SELECT count(*) FROM skipped")
        if not self._options.strict or not count:
            return
        skipped_paths = "; ".join(
            f"{path[:160]!r}: {reason.rstrip('.')}"
            for path, reason in scratch.rows("SELECT path, reason FROM skipped ORDER BY path LIMIT 5")
        )
        paths = "1 path" if count == 1 else f"{count} paths"
        raise RepairRefusedError(
            f"Nothing was changed: a strict repair of table {self._table.identifier} would skip {paths}: "
            f"{skipped_paths}{'; …' if count > 5 else ''}. Mend them, or repair without strict.",
            {"table": str(self._table.identifier), "skipped": str(count)},
        )

    def _refuse_mass_drop(self, difference: StoreDifference, scratch: Scratch) -> None:
        """Raise if the repair would drop more than the limit allows; a preview reports that instead.

        Raises:
            MassDropError: The repair would drop more than the limit allows. Nothing was changed.
        """
        if self._options.allow_mass_drop or self._options.metastore_state is not None:
            return
        loss = difference.loss()
        reason = refusal_of(loss, self._options, self._storage, self._table, nothing=self._found_nothing)
        if reason is None:
            return
        if self._options.dry_run:
            scratch.add_entries([("refuse", "", "", loss.files, loss.bytes, f"the repair would be refused: {reason}")])
            return
        raise MassDropError(
            f"Nothing was changed: the repair of table {self._table.identifier} is refused: {reason}",
            {
                "table": str(self._table.identifier),
                "partitions": str(loss.partitions),
                "registered": str(loss.registered),
                "files": str(loss.files),
            },
        )

    def _proposals(self, difference: StoreDifference) -> Iterator[Proposed]:
        mode = self._options.mode
        if mode is not RepairMode.ADD:
            yield from difference.dropped()
        if mode is not RepairMode.DROP:
            yield from difference.added()
        if mode is RepairMode.SYNC:
            yield from difference.changed()
