"""Row counts, column statistics and ETags of existing files, found later; recording them makes no version.

They are updated in place. Counts are written under the lock of the table's row, so that the totals of partitions and of
the table stay correct.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import FILE, file_of
from catalog_ext.metastore.index.database.schema import file_statistics, files, partitions, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.outbox import PartitionChanges, enqueue_changes
from catalog_ext.metastore.index.write.partition_rows import living_named, living_pages, lock_table, matching
from catalog_ext.metastore.index.write.partition_sums import add_in_place
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import statistics_to_dict, to_json
from catalog_ext.metastore.model.tables import consistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.model.tables import ColumnStatistics, DataFile, Partition, Table
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 500
_PUBLISHED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Counted:
    """The outcome of recorded statistics.

    ``files`` have been recorded, ``partitions`` have changed counts, and ``deliveries`` messages were enqueued.
    """

    version: int
    files: int = 0
    partitions: int = 0
    rows: int = 0
    deliveries: int = 0


class FileStatistics(IndexPart):
    """Records facts about files that are found after the files were added."""

    def put(self, table: Table, found: Mapping[str, Sequence[DataFile]], *, deliver: bool) -> Counted:
        """Record row counts and statistics of files; files that changed since, or are gone, are left unchanged.

        Args:
            table: The table.
            found: By partition name, the files as they were when their rows were counted. Statistics replace the
                recorded ones: a column that is left out is unknown, and an empty map records that the file was
                measured. None means that the columns were not measured.
            deliver: Whether to enqueue the changed counts for the metastore.
        """
        return self._database.write(lambda connection: _Putting(connection, table).run(found, deliver=deliver))

    def enqueue(self, table: Table, predicate: Predicate | None) -> int:
        """Enqueue the known statistics of the partitions that satisfy a predicate; return the number of messages."""

        def work(connection: sa.Connection) -> int:
            row = lock_table(connection, table.table_id, str(table.identifier))
            locked, now = row.table, row.now_ms
            if predicate is not None:
                return _enqueue(connection, locked, matching(connection, locked, predicate), now)
            return sum(
                _enqueue(connection, locked, page, now) for page in living_pages(connection, locked, _PUBLISHED_AT_ONCE)
            )

        return self._database.write(work)

    def enqueue_of(self, table: Table, names: Sequence[str]) -> int:
        """Enqueue the known statistics of the named partitions for the metastore; return the number of messages."""

        def work(connection: sa.Connection) -> int:
            row = lock_table(connection, table.table_id, str(table.identifier))
            locked = row.table
            found = [each for chunk in batched(names, _AT_ONCE) for each in living_named(connection, locked, chunk)]
            return _enqueue(connection, locked, found, row.now_ms)

        return self._database.write(work)

    def note_etags(self, table: Table, found: Sequence[tuple[str, DataFile]]) -> None:
        """Record the ETags of listed, unchanged files, given with their partitions, that have no ETag in the index.

        The index is queried for all files at once, so pass some hundred.
        """
        p, f = partitions.c, files.c
        wanted = {(name, file.path): file for name, file in found}
        statement = (
            sa.select(p.name, f.partition_id, f.file_id, f.path, f.size, f.modified_ms)
            .join(files, f.partition_id == p.partition_id)
            .where(
                p.table_id == table.table_id, p.name_hash.in_(sorted({name_hash(name) for name, _ in wanted})),
                p.end_version == ALIVE, f.end_version == ALIVE, f.etag_hash.is_(None),
                f.path.in_(sorted({path for _, path in wanted})),
            )
        )  # fmt: skip
        key = (f.partition_id == sa.bindparam("p"), f.file_id == sa.bindparam("f"), f.etag_hash.is_(None))
        update = sa.update(files).where(*key).values(etag_hash=sa.bindparam("etag"))

        def work(connection: sa.Connection) -> None:
            noted = [
                {"p": partition_id, "f": file_id, "etag": file.etag}
                for name, partition_id, file_id, path, size, modified_ms in connection.execute(statement)
                if (file := wanted.get((name, path))) is not None and _is_as_listed(file, size, modified_ms)
            ]
            if noted:
                connection.execute(update, noted)

        self._database.write(work)


class _Putting:
    def __init__(self, connection: sa.Connection, table: Table) -> None:
        self._connection = connection
        self._row = lock_table(connection, table.table_id, str(table.identifier))
        self._table = self._row.table

    def run(self, found: Mapping[str, Sequence[DataFile]], *, deliver: bool) -> Counted:
        counted = rows = 0
        changed: list[Partition] = []
        for chunk in batched(sorted(found), _AT_ONCE):
            living = living_named(self._connection, self._table, chunk)
            known = self._match({partition.partition_id: found[partition.name] for partition in living})
            counted += len(known)
            rows += sum(file.rows or 0 for _, file in known)
            self._update_files(known)
            changed.extend(self._recount(living))
        now = self._row.now_ms
        deliveries = _enqueue(self._connection, self._table, changed, now) if deliver and changed else 0
        return Counted(self._table.version, counted, len(changed), rows, deliveries)

    def _match(self, by_id: Mapping[int, Sequence[DataFile]]) -> list[tuple[int, DataFile]]:
        """Return the files that have not changed since they were counted, each with its partition's number."""
        f = files.c
        wanted = {(p, file.path): file for p, found in by_id.items() for file in found}
        # Select by path. Otherwise each request would read every file of its partitions, and a partition may have
        # 100,000 files.
        paths = sorted({path for _, path in wanted})
        statement = sa.select(f.partition_id, *FILE).where(
            f.partition_id.in_(list(by_id)), f.path.in_(paths), f.end_version == ALIVE
        )
        living = [(partition_id, file_of(row)) for partition_id, *row in self._connection.execute(statement)]
        return [
            (partition_id, replace(file, file_id=there.file_id))
            for partition_id, there in living
            if (file := wanted.get((partition_id, there.path))) is not None
            and (there.size, there.modified_ms) == (file.size, file.modified_ms)
        ]

    def _update_files(self, known: Sequence[tuple[int, DataFile]]) -> None:
        f, s = files.c, file_statistics.c
        key = (f.partition_id == sa.bindparam("p"), f.file_id == sa.bindparam("f"))
        counts = [{"p": partition_id, "f": file.file_id, "counted": file.rows} for partition_id, file in known]
        if counts:
            statement = sa.update(files).where(*key).values(n_rows=sa.bindparam("counted"))
            self._connection.execute(statement, counts)
        bounds = [
            {
                "partition_id": partition_id,
                "file_id": file.file_id,
                "statistics": to_json(statistics_to_dict(consistent(file.statistics, file.rows))),
            }
            for partition_id, file in known
            if file.statistics is not None
        ]
        if bounds:
            gone = sa.delete(file_statistics).where(s.partition_id == sa.bindparam("p"), s.file_id == sa.bindparam("f"))
            self._connection.execute(gone, [{"p": b["partition_id"], "f": b["file_id"]} for b in bounds])
            self._connection.execute(sa.insert(file_statistics), bounds)

    def _recount(self, living: Sequence[Partition]) -> list[Partition]:
        """Compute the row counts of partitions again; return the changed partitions, and update the table's totals."""
        f = files.c
        if not living:
            return []
        statement = (
            sa.select(f.partition_id, sa.func.count(), sa.func.count(f.n_rows), sa.func.sum(f.n_rows))
            .where(f.partition_id.in_([partition.partition_id for partition in living]), f.end_version == ALIVE)
            .group_by(f.partition_id)
        )
        sums = {
            p: int(total or 0) if n == known else None for p, n, known, total in self._connection.execute(statement)
        }
        changes = [
            (before, before._replace(rows=sums[before.partition_id]))
            for before in living
            if sums.get(before.partition_id, before.rows) != before.rows
        ]
        if not changes:
            return []
        p = partitions.c
        self._connection.execute(
            sa.update(partitions)
            .where(p.partition_id == sa.bindparam("p"), p.begin_version == sa.bindparam("b"))
            .values(n_rows=sa.bindparam("counted")),
            [{"p": now.partition_id, "b": now.begin_version, "counted": now.rows} for _, now in changes],
        )
        self._update_totals(changes)
        return [now for _, now in changes]

    def _update_totals(self, changes: Sequence[tuple[Partition, Partition]]) -> None:
        """Add partitions' changed row counts to the table's totals and to the sums by its first partition column."""
        differences = [
            (now.keys[0], now.begin_version, (now.rows or 0) - (before.rows or 0),
             (now.rows is None) - (before.rows is None))
            for before, now in changes
        ]  # fmt: skip
        add_in_place(self._connection, self._row, differences)
        t = tables.c
        self._connection.execute(
            sa.update(tables)
            .where(t.table_id == self._table.table_id)
            .values(
                counted_rows=t.counted_rows + sum(rows for _, _, rows, _ in differences),
                uncounted_partitions=t.uncounted_partitions + sum(uncounted for *_, uncounted in differences),
            )
        )


def _enqueue(connection: sa.Connection, table: Table, found: Iterable[Partition], at_ms: int) -> int:
    """Enqueue the statistics of partitions for the metastore; return the number of messages.

    The messages leave out descriptors, since the metastore has these already.
    """
    altered = [partition._replace(descriptor=None) for partition in found if partition.in_metastore]
    return enqueue_changes(connection, table, PartitionChanges(altered=altered), at_ms)


def own_statistics(table: Table, found: Mapping[str, ColumnStatistics], version: int) -> dict[str, ColumnStatistics]:
    """Return the statistics without those of a column that was dropped and whose name another column has now.

    Args:
        table: The current table.
        found: The statistics, by column.
        version: The version of the table from which the file's columns were taken, or that added the file.
    """
    after = {column.name: column.statistics_after for column in table.definition.columns}
    return {
        name: replace(statistics, after=None)
        for name, statistics in found.items()
        if (since := after.get(name)) is None or version > since or statistics.after == since
    }


def _is_as_listed(file: DataFile, size: int, modified_ms: int) -> bool:
    # Do not compare the time of a file that a write uploaded: the index has the commit's time for it, not the object's.
    return size == file.size and (modified_ms == file.modified_ms or transaction_id_in(file.path) is not None)
