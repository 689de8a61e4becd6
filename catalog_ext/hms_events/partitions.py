"""Imports changes of partitions from the metastore.

The metastore decides which partitions exist and where they are, the store decides which files they have. An event only
says which partitions to check, and that a missing partition was dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError
from catalog_ext.metastore.hive.events import Statistics
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import partition_values
from catalog_ext.repair.report import is_open
from catalog_ext.scan.key_layout import Layout, Place
from catalog_ext.sync.adoption import PartitionAdoption
from catalog_ext.sync.pending import pending_for

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from catalog_ext.context import Context
    from catalog_ext.hms_events.suspects import SuspectPartition, TableOutcome
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.repair.report import RepairReport
    from catalog_ext.repair.table_repair import TableRepair

_AT_ONCE = 1000
_ATTEMPTS = 3
_LOST = "the metastore does not have it, and no drop of it is known"
WHY = "the metastore's events"
"""The reason in the history for commits of the follower."""


class PartitionFollowing:
    """Checks the suspect partitions of a table, and imports their changes."""

    def __init__(self, context: Context, repair: TableRepair, *, dry_run: bool) -> None:
        self._context = context
        self._dry_run = dry_run
        self._repair = repair

    def bring_in_sync(
        self, client: HiveMetastore, hive: HiveTable, table: Table, suspects: Mapping[str, SuspectPartition],
        outcome: TableOutcome,
    ) -> dict[str, SuspectPartition]:  # fmt: skip
        """Check the suspect partitions, commit differences to the index, and return partitions to check again.

        Raises:
            StorageError: A location cannot be listed.
            MetastoreError: The metastore does not answer.
        """
        adoption = PartitionAdoption(self._context, self._repair, client, hive, dry_run=self._dry_run)
        left: dict[str, SuspectPartition] = {}
        for chunk in batched(list(suspects), _AT_ONCE):
            pending = {name: suspects[name] for name in chunk}
            reason: str | None = None
            for _ in range(_ATTEMPTS):
                # Read the index first, then the outbox, then the metastore, so that no earlier read is newer than a
                # later one.
                now = self._context.index.tables.load_by_id(table.table_id)
                # Keep the definition in a preview: it has the table's new location, which the index does not have.
                table = replace(now, definition=table.definition) if self._dry_run else now
                pending, reason = self._look(adoption, table, pending, outcome)
                if not pending:
                    break
            outcome.error = reason or outcome.error
            left |= pending
        return left

    def count(self, ours: Table, miscounted: Mapping[str, tuple[int, int]]) -> None:
        """Publish the statistics of partitions whose statistics in the metastore are wrong and will not change.

        Otherwise each periodic comparison would check them again, and each ``drift`` would report them.
        """
        if not miscounted or self._dry_run:
            return
        index = self._context.index
        table = index.tables.load_by_id(ours.table_id)
        pending = pending_for(index, table.identifier, table)
        if pending.definition:
            return
        names = [
            each.name for each in index.living_partitions.of_values(table, list(miscounted))
            if each.name in miscounted and (each.files, each.bytes) != miscounted[each.name]
            and not pending.names(each.name)
        ]  # fmt: skip
        if names and index.file_statistics.enqueue_of(table, names):
            self._context.sync.publish(table.table_id)

    def _look(
        self, adoption: PartitionAdoption, table: Table, suspects: dict[str, SuspectPartition], outcome: TableOutcome
    ) -> tuple[dict[str, SuspectPartition], str | None]:
        """Check the suspect partitions; return those that must be checked again, and the reason."""
        foreign = self._without_ours(table, suspects)
        if not foreign:
            return {}, None
        found = adoption.adopt(table, {name: suspect.dropped for name, suspect in foreign.items()}, why=WHY)
        later: dict[str, SuspectPartition] = {}
        reason: str | None = None
        if found.there is not None:
            later = {name: foreign[name] for name in foreign if name in found.there.later}
            reason = next((f"{name[:200]}: {why}" for name, why in found.there.later.items()), None)
            for name, why in (*found.there.left.items(), *((name, _LOST) for name in sorted(found.there.lost))):
                outcome.skip(f"{name[:200]}: {why}")
        again = {} if found.report is None else _count(found.report, outcome)
        outcome.checked += found.listed
        if again:
            return {**_named(foreign, again), **later}, next(iter(again.values()))
        return later, reason

    def _without_ours(self, table: Table, suspects: dict[str, SuspectPartition]) -> dict[str, SuspectPartition]:
        """Return the suspect partitions without those whose events are all deliveries of the index."""
        layout = Layout(table.definition)
        # Do not filter invalid partition names: the observer reports them with the reason.
        candidates = {
            name: suspect.written for name, suspect in suspects.items()
            if suspect.written is not None and not suspect.dropped
            and (not name or layout.judge(name).place is Place.PARTITION)
        }  # fmt: skip
        if not candidates:
            return suspects
        published = self._context.index.followed.published_statistics(table, list(candidates))
        ours = {values: {Statistics(*map(str, each)) for each in states} for values, states in published.items()}
        delivered = {n for n, written in candidates.items() if written <= ours.get(partition_values(n), set())}
        return {name: suspect for name, suspect in suspects.items() if name not in delivered}


def _count(report: RepairReport, outcome: TableOutcome) -> dict[str, str]:
    """Add a commit's counts to the outcome; return the partitions that must be checked again, with the reasons."""
    outcome.version = report.version
    outcome.added += len({entry.partition for entry in report.added})
    outcome.dropped += len({entry.partition for entry in report.dropped})
    outcome.changed += len({entry.partition for entry in report.changed})
    again: dict[str, str] = {}
    for entry in report.skipped:
        if is_open(entry.reason):
            again.setdefault(entry.partition or entry.path, entry.reason)
        else:
            outcome.skip(f"{entry.path}: {entry.reason}")
    return again


def _named(suspects: dict[str, SuspectPartition], names: Collection[str]) -> dict[str, SuspectPartition]:
    """Return the suspect partitions that have the given names in the index; all of them if a name matches none."""
    try:
        values = {partition_values(name) for name in names}
    except InvalidPartitionNameError:
        return suspects
    found = {name: suspect for name, suspect in suspects.items() if partition_values(name) in values}
    return found if len(found) == len(values) else suspects
