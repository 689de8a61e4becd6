"""Repair: list the store, compare it with the index as sets, apply the difference in atomic batches.

``docs/design/1-how-it-works.md`` says what is promised when something fails on the way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import ConflictError, InvalidInputError, RepairRefusedError
from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.model.changes import AddPartition, ReplaceFiles
from catalog_ext.repair.difference import Difference, Proposed
from catalog_ext.repair.expired import leave_out_expired
from catalog_ext.repair.in_flight_writes import UnfinishedWrites
from catalog_ext.repair.record import RepairRecorder
from catalog_ext.scan.key_layout import Layout
from catalog_ext.scan.observe import (
    Progress,
    RepairProgress,
    StoreObserver,
    observe_elsewhere,
    observe_index,
    report_elsewhere,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.metastore.storage.store import Storage
    from catalog_ext.scan.scratch import Spool

MAX_BATCH_FILES = 50_000
"""Files of the largest batch, so that a table of large partitions is committed in bounded memory too."""


class RepairMode(StrEnum):
    """``ADD`` registers what is new, ``DROP`` removes what is gone, ``SYNC`` does both and refreshes known files."""

    ADD = "add"
    DROP = "drop"
    SYNC = "sync"

    @classmethod
    def parse(cls, text: str) -> RepairMode:
        """The mode of this name, in any case.

        Raises:
            InvalidInputError: There is no such mode.
        """
        try:
            return cls(text.lower())
        except ValueError as error:
            raise InvalidInputError(f"{text[:60]!r} is not a repair mode. Use 'add', 'drop' or 'sync'.") from error


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """What a repair is to do.

    Attributes:
        predicate: A bound predicate that limits it, which also limits what is listed; None for the whole table.
        where: The same in the user's words, for the report.
        dry_run: Preview only.
        strict: Refuse to change anything when something would be skipped.
        deliver: Whether the metastore follows through the outbox.
        batch_partitions: Partitions of one atomic batch.
    """

    mode: RepairMode = RepairMode.SYNC
    predicate: Predicate | None = None
    where: str | None = None
    dry_run: bool = False
    strict: bool = False
    deliver: bool = True
    batch_partitions: int = 1000


class Repair:
    """One repair of one table."""

    def __init__(
        self, index: Index, storage: Storage, table: Table, options: RepairOptions, progress: Progress
    ) -> None:
        self._index = index
        self._storage = storage
        self._table = table
        self._options = options
        self._progress = progress
        self._layout = Layout(table.definition, options.predicate)
        self._version = table.version
        self._total = 0
        self._applied_partitions = 0
        self._applied_files = 0

    def run(self, spool: Spool) -> int:
        """Compare and, unless this is a preview, apply; the report's entries are in ``spool``.

        Returns:
            The table's version afterwards.

        Raises:
            StorageError: The table's location cannot be listed at all.
            RepairRefusedError: ``strict`` and something would be skipped; nothing was changed.
        """
        recorder = RepairRecorder(self._index, self._table, self._options, spool)
        try:
            self._run(spool)
        except BaseException as error:
            recorder.failed(self._version, error)
            raise
        recorder.finished(self._version)
        return self._version

    def _run(self, spool: Spool) -> None:
        mode = self._options.mode
        unfinished = UnfinishedWrites(self._index, self._table, spool)
        self._observe(spool, unfinished)
        self._progress(RepairProgress("comparing", 0, 0))
        has_directories = self._storage.store_has_directories(self._table.definition.location)
        difference = Difference(
            spool, self._layout.keys, has_directories=has_directories, drops=mode is not RepairMode.ADD
        )
        difference.protect_incomplete()
        if mode is RepairMode.SYNC:
            difference.compare_files()
        unfinished.leave_out_replaced()
        spool.execute(
            "INSERT INTO entries (action, partition, path, files, bytes, reason)"
            " SELECT 'skip', partition, path, files, bytes, reason FROM skipped ORDER BY path"
        )
        self._refuse_if_strict(spool)
        self._total = difference.count(adds=mode is not RepairMode.DROP)
        self._apply(self._proposals(difference), spool)

    def _observe(self, spool: Spool, unfinished: UnfinishedWrites) -> None:
        mode, predicate = self._options.mode, self._options.predicate
        unfinished.note_removals()
        observer = StoreObserver(self._storage, self._table, self._layout, spool, self._progress)
        observe_registered = partial(
            observe_index, self._index, self._table, predicate, spool, files=mode is RepairMode.SYNC
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
        report_elsewhere(spool)
        leave_out_expired(spool, self._table, now_ms())
        if mode is not RepairMode.ADD:
            observe_elsewhere(self._storage, spool)
        unfinished.leave_out()

    def _refuse_if_strict(self, spool: Spool) -> None:
        count = spool.value("SELECT count(*) FROM skipped")
        if not self._options.strict or not count:
            return
        first = "; ".join(
            f"{path[:160]!r}: {reason}"
            for path, reason in spool.rows("SELECT path, reason FROM skipped ORDER BY path LIMIT 5")
        )
        paths = "1 path" if count == 1 else f"{count} paths"
        raise RepairRefusedError(
            f"Nothing was changed: a strict repair of table {self._table.identifier} would skip {paths}: {first}"
            f"{'; …' if count > 5 else ''}. Mend them, or repair without strict.",
            {"table": str(self._table.identifier), "skipped": str(count)},
        )

    def _proposals(self, difference: Difference) -> Iterator[Proposed]:
        mode = self._options.mode
        if mode is not RepairMode.ADD:
            yield from difference.dropped()
        if mode is not RepairMode.DROP:
            yield from difference.added()
        if mode is RepairMode.SYNC:
            yield from difference.changed()

    def _apply(self, proposals: Iterator[Proposed], spool: Spool) -> None:
        batch: list[Proposed] = []
        files = 0
        for proposed in proposals:
            batch.append(proposed)
            files += _file_count(proposed)
            if len(batch) >= self._options.batch_partitions or files >= MAX_BATCH_FILES:
                self._apply_batch(batch, spool)
                batch, files = [], 0
        if batch:
            self._apply_batch(batch, spool)

    def _apply_batch(self, batch: list[Proposed], spool: Spool) -> None:
        self._applied_partitions += len(batch)
        if not self._options.dry_run:
            batch = self._commit(batch, spool)
        spool.add_entries(line for proposed in batch for line in proposed.lines)
        self._applied_files += sum(_file_count(p) for p in batch)
        self._progress(RepairProgress("applying", self._applied_partitions, self._applied_files, self._total))

    def _commit(self, batch: list[Proposed], spool: Spool) -> list[Proposed]:
        try:
            commit = self._index.commit(
                self._table.table_id,
                [p.change for p in batch],
                operation="repair",
                summary={"mode": str(self._options.mode), "where": self._options.where},
                deliver=self._options.deliver,
            )
        except ConflictError as error:
            return self._commit_without_conflicts(batch, spool, error)
        self._version = commit.version
        return batch

    def _commit_without_conflicts(self, batch: list[Proposed], spool: Spool, error: ConflictError) -> list[Proposed]:
        """Commit what nobody else has changed meanwhile; the rest is reported as skipped."""
        there = self._index.partition_exists(
            self._index.load_table_by_id(self._table.table_id), [p.change.name for p in batch]
        )
        possible: list[Proposed] = []
        for proposed in batch:
            is_there = proposed.change.name in there
            if isinstance(proposed.change, AddPartition) is not is_there:
                possible.append(proposed)
            else:
                _skip(spool, proposed, "is registered already" if is_there else "is no longer registered")
        if len(possible) < len(batch):
            return self._commit(possible, spool) if possible else []
        if len(batch) == 1:
            _skip(spool, batch[0], error.message)
            return []
        # It is about the files of known partitions. Halving finds which, without giving up the rest.
        middle = len(batch) // 2
        return self._commit(batch[:middle], spool) + self._commit(batch[middle:], spool)


def _skip(spool: Spool, proposed: Proposed, what: str) -> None:
    name = proposed.change.name
    spool.add_entries([("skip", name, name, 0, 0, f"changed by somebody else meanwhile: {what}")])


def _file_count(proposed: Proposed) -> int:
    match proposed.change:
        case AddPartition(files=files):
            return len(files)
        case ReplaceFiles(added=added, removed=removed):
            return len(added) + len(removed)
    return 0
