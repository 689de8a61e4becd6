"""Applies a rollback in ``Commits.apply``: ends present rows, and adds rows for the files of an earlier version."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.claims import bound_predicate
from catalog_ext.metastore.commit.rules import own_location
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.schema import file_statistics, files, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.marked_rows import is_held, version_expired
from catalog_ext.metastore.index.read.version_differences import differences_within, require_untagged
from catalog_ext.metastore.index.write.file_statistics import own_statistics
from catalog_ext.metastore.index.write.partition_descriptors import of_numbers
from catalog_ext.metastore.index.write.partition_rows import mark_in_metastore, matching
from catalog_ext.metastore.index.write.reservation_checks import require_registrable
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.json import statistics_from_dict
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.commit.commit import Commit
    from catalog_ext.metastore.commit.partition_plans import CheckedRollback
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.index.read.version_differences import VersionDifference
    from catalog_ext.metastore.index.write.applier import Applier
    from catalog_ext.metastore.index.write.removals import RecordedDeletions
    from catalog_ext.metastore.model.tables import ColumnStatistics, DataFile, Partition
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 500


def require_kept(connection: sa.Connection, row: TableRow, version: int) -> None:
    """Check, under the lock of the table's row, that vacuum has not removed the version of a rollback.

    Vacuum raises the oldest version before it removes the first row of an older version that no tag holds.

    Raises:
        VersionExpiredError: Vacuum has removed the version.
    """
    held = is_held(row.table.table_id, version)
    if version < row.oldest_version and not connection.execute(sa.select(held)).scalar():
        raise version_expired(str(row.table.identifier), version, row.oldest_version)


class RollbackRows:
    """Applies one rollback in the database transaction of its commit.

    Args:
        commit: The commit.
        applier: The table's applier, in a transaction that holds the lock of the table's row.
        removals: Collects the files to be deleted.
    """

    def __init__(self, commit: Commit, applier: Applier, removals: RecordedDeletions) -> None:
        self._connection = applier.connection
        self._id = commit.transaction_id
        self._plan = commit.plan
        self._base_version = commit.transaction.base_version
        self._applier = applier
        self._table = applier.table
        self._removals = removals

    def run(self, command: CheckedRollback) -> None:
        """Apply the rollback; the caller must still call ``flush`` on the applier.

        Raises:
            VersionExpiredError: Vacuum has removed the version.
            ConflictError: A repair has changed one of the partitions since ``reserve``, or a statement deletes one of
                the files to restore, or may have deleted it.
        """
        require_kept(self._connection, self._applier.row, command.asked.version)
        predicate = bound_predicate(self._plan, self._table)
        self._require_unchanged(predicate or TRUE)
        base = replace(self._table, version=self._base_version)
        found = list(differences_within(self._connection, base, command.asked.version, predicate))
        self._require_registrable(found)
        # A tag may have been made since the check; it takes the lock that this transaction holds.
        require_untagged(self._connection, self._table, command.deleted)
        for name, deleted in command.deleted.items():
            self._removals.add_in(self._plan.directory(name), deleted)
        self._applier.drop([each.present for each in found if each.present is not None and each.then is None])
        for some in batched([each for each in found if each.present is not None and each.then is not None], _AT_ONCE):
            self._change(some)
        self._add([each for each in found if each.present is None])

    def _require_unchanged(self, predicate: Predicate) -> None:
        """Check that the selected partitions are as they were at ``reserve``: no claim stops a repair."""
        p, base = partitions.c, self._base_version
        changed = sa.or_(p.begin_version > base, sa.and_(p.end_version > base, p.end_version < ALIVE))
        other = next(matching(self._connection, self._table, predicate, changed), None)
        if other is not None:
            raise ConflictError(
                f"Partition {other.name[:200]!r} of table {self._table.identifier} was changed by another process, "
                "such as a repair, before it could be rolled back. Nothing was changed; try again.",
                {"table": str(self._table.identifier), "partition": other.name[:200]},
            )

    def _require_registrable(self, found: Sequence[VersionDifference]) -> None:
        """Check that no statement deletes a file to restore, or has deleted it since the check looked it up."""

        def added() -> list[tuple[str, str, Sequence[DataFile]]]:
            there = [(each.name, each.then, each.restored) for each in found]
            return [(name, self._table.directory_of(then), files) for name, then, files in there if then is not None]

        require_registrable(self._connection, self._table, added, self._base_version, self._id)

    def _change(self, found: Sequence[VersionDifference]) -> None:
        """Replace the rows of partitions that both versions have."""
        pairs = [(each, each.present, each.then) for each in found]
        both = [(each, present, then) for each, present, then in pairs if present is not None and then is not None]
        self._applier.end_partitions([present.partition_id for _, present, _ in both])
        self._applier.end_files([(present.partition_id, file) for each, present, _ in both for file in each.ended])
        restored = self._restored([(then.partition_id, each.restored) for each, _, then in both])
        for (each, present, then), files_restored in zip(both, restored, strict=True):
            if self._table.directory_of(present) != self._table.directory_of(then):
                # The metastore's partition must move, too.
                self._applier.published.moved.add(each.name)
            before = present._replace(location=self._own_location(then), descriptor=then.descriptor)
            is_reset = present.descriptor is not None and then.descriptor is None
            self._applier.hold(before, each.kept, files_restored, None, reset=is_reset)

    def _add(self, found: Sequence[VersionDifference]) -> None:
        """Add partitions that only the earlier version has."""
        gone = [each.then for each in found if each.then is not None]
        restored = self._restored(
            [(each.then.partition_id, each.restored) for each in found if each.then is not None]
        )  # fmt: skip
        numbers = {then.descriptor for then in gone if then.descriptor is not None}
        described = of_numbers(self._connection, self._table.table_id, numbers)
        adds = [
            AddPartition(
                then.name, tuple(files_restored), self._own_location(then),
                descriptor=None if then.descriptor is None else described[then.descriptor],
            )
            for then, files_restored in zip(gone, restored, strict=True)
        ]  # fmt: skip
        self._applier.add(mark_in_metastore(self._connection, self._table, adds, ()))

    def _own_location(self, then: Partition) -> str | None:
        return own_location(self._table, then.name, self._table.directory_of(then))

    def _restored(self, wanted: Sequence[tuple[int, Sequence[DataFile]]]) -> list[list[DataFile]]:
        """Return files, given with their partition's number, with the statistics that still apply to the columns."""
        f, s = files.c, file_statistics.c
        known: dict[tuple[int, int], dict[str, ColumnStatistics]] = {}
        for some in batched(sorted({number for number, found in wanted if found}), _AT_ONCE):
            statement = (
                sa.select(f.partition_id, f.file_id, f.begin_version, s.statistics)
                .join(file_statistics, sa.and_(s.partition_id == f.partition_id, s.file_id == f.file_id))
                .where(f.partition_id.in_(some), f.end_version < ALIVE)
            )
            for number, file_id, begin_version, text in self._connection.execute(statement).all():
                statistics = own_statistics(self._table, statistics_from_dict(json.loads(text)) or {}, begin_version)
                known[number, file_id] = statistics
        return [
            [replace(file, statistics=known.get((number, file.file_id or 0)) or None, file_id=None) for file in found]
            for number, found in wanted
        ]
