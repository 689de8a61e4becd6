"""Row counts and bounds of files that are there already: facts found later, which change no version.

They are written in place, under the lock of the table's row, so that partition and table totals follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import ALIVE, file_statistics, files, partitions, tables
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write.outbox import PartitionChanges, enqueue_changes, statistics_parameters
from catalog_ext.metastore.index.write.partition_rows import lock_table, matching
from catalog_ext.metastore.index.write.partition_sums import add_in_place
from catalog_ext.metastore.messages import PublishedPartition
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import statistics_to_dict, to_json
from catalog_ext.metastore.model.tables import consistent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import ColumnStatistics, Table
    from catalog_ext.metastore.predicates.tree import Predicate

_AT_ONCE = 500
_PUBLISHED_AT_ONCE = 10_000
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What was found of a file, and how it was when that was found.

    Attributes:
        partition: The partition's name.
        path: As in ``DataFile``; so are ``size`` (bytes) and ``modified_ms``.
        rows: The exact count.
        statistics: Bounds and NULL counts by column, which replace those that are known. A column that is left out is
            unknown; an empty map records that the file was measured. None: the columns were not measured.
    """

    partition: str
    path: str
    size: int
    modified_ms: int
    rows: int
    statistics: Mapping[str, ColumnStatistics] | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of it: files that were as they had been, partitions whose counts changed, messages."""

    version: int
    files: int = 0
    partitions: int = 0
    rows: int = 0
    deliveries: int = 0


class FileStatistics:
    """What is known of files beside their sizes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, table: Table, found: Sequence[KnownFile], *, deliver: bool) -> Counted:
        """Record what was found; files that have changed since, or gone, are left as they are.

        Raises:
            TableNotFoundError: The table is gone.
        """
        return self._database.write(lambda connection: _Putting(connection, table).run(found, deliver=deliver))

    def enqueue(self, table: Table, predicate: Predicate | None) -> int:
        """Enqueue what is known of the partitions that a predicate leaves; return the number of messages.

        Raises:
            TableNotFoundError: The table is gone.
        """

        def work(connection: sa.Connection) -> int:
            row = lock_table(connection, table.table_id, str(table.identifier))
            locked, now = table_from_row(row), row["now_ms"]
            if predicate is not None:
                return _enqueue(connection, locked, matching(connection, locked, predicate), now)
            return sum(_enqueue(connection, locked, page, now) for page in _pages(connection, locked))

        return self._database.write(work)

    def enqueue_of(self, table: Table, names: Sequence[str]) -> int:
        """Enqueue for the metastore what is known of partitions of these names; return the count of messages.

        Raises:
            TableNotFoundError: The table is gone.
        """

        def work(connection: sa.Connection) -> int:
            row = lock_table(connection, table.table_id, str(table.identifier))
            locked = table_from_row(row)
            found = [each for chunk in batched(names, _AT_ONCE) for each in _living(connection, locked, chunk)]
            return _enqueue(connection, locked, found, row["now_ms"])

        return self._database.write(work)


def _living(connection: sa.Connection, table: Table, names: Sequence[str]) -> list[Row]:
    p = partitions.c
    statement = sa.select(partitions).where(
        p.table_id == table.table_id,
        p.name_hash.in_([name_hash(name) for name in names]),
        p.end_version == ALIVE,
    )
    return [dict(row) for row in connection.execute(statement).mappings()]


def _pages(connection: sa.Connection, table: Table) -> Iterator[list[Row]]:
    """Yield the rows of all living partitions, some at a time."""
    p = partitions.c
    statement = sa.select(partitions).where(p.table_id == table.table_id, p.end_version == ALIVE)
    after = -1
    while True:
        ordered = statement.where(p.partition_id > after).order_by(p.partition_id).limit(_PUBLISHED_AT_ONCE)
        page = [dict(row) for row in connection.execute(ordered).mappings()]
        if not page:
            return
        yield page
        after = page[-1]["partition_id"]


class FileKey(NamedTuple):
    """The primary key of a row of ``files``."""

    partition_id: int
    file_id: int


class _Putting:
    def __init__(self, connection: sa.Connection, table: Table) -> None:
        self._connection = connection
        self._row = lock_table(connection, table.table_id, str(table.identifier))
        self._table = table_from_row(self._row)

    def run(self, found: Sequence[KnownFile], *, deliver: bool) -> Counted:
        by_partition: dict[str, list[KnownFile]] = {}
        for file in found:
            by_partition.setdefault(file.partition, []).append(file)
        counted = rows = 0
        changed: list[Row] = []
        for chunk in batched(sorted(by_partition), _AT_ONCE):
            living = {row["name"]: row for row in _living(self._connection, self._table, chunk)}
            known = self._match({row["partition_id"]: by_partition[name] for name, row in living.items()})
            counted += len(known)
            rows += sum(file.rows for _, file in known)
            self._update_files(known)
            changed.extend(self._recount(list(living.values())))
        now = self._row["now_ms"]
        deliveries = _enqueue(self._connection, self._table, changed, now) if deliver and changed else 0
        return Counted(self._table.version, counted, len(changed), rows, deliveries)

    def _match(self, by_id: Mapping[int, Sequence[KnownFile]]) -> list[tuple[FileKey, KnownFile]]:
        """Return the files that are as they were when they were counted."""
        f = files.c
        wanted = {(p, file.path): file for p, found in by_id.items() for file in found}
        # Without the paths each request would read every file of its partitions, of which one may have 100,000.
        paths = sorted({path for _, path in wanted})
        statement = sa.select(f.partition_id, f.file_id, f.path, f.size, f.modified_ms).where(
            f.partition_id.in_(list(by_id)), f.path.in_(paths), f.end_version == ALIVE
        )
        return [
            (FileKey(partition_id, file_id), file)
            for partition_id, file_id, path, size, modified_ms in self._connection.execute(statement)
            if (file := wanted.get((partition_id, path))) is not None
            and (size, modified_ms) == (file.size, file.modified_ms)
        ]

    def _update_files(self, known: Sequence[tuple[FileKey, KnownFile]]) -> None:
        f, s = files.c, file_statistics.c
        key = (f.partition_id == sa.bindparam("p"), f.file_id == sa.bindparam("f"))
        counts = [{"p": key.partition_id, "f": key.file_id, "counted": file.rows} for key, file in known]
        if counts:
            statement = sa.update(files).where(*key).values(n_rows=sa.bindparam("counted"))
            self._connection.execute(statement, counts)
        bounds = [
            {
                "partition_id": key.partition_id,
                "file_id": key.file_id,
                "statistics": to_json(statistics_to_dict(consistent(file.statistics, file.rows))),
            }
            for key, file in known
            if file.statistics is not None
        ]
        if bounds:
            gone = sa.delete(file_statistics).where(s.partition_id == sa.bindparam("p"), s.file_id == sa.bindparam("f"))
            self._connection.execute(gone, [{"p": b["partition_id"], "f": b["file_id"]} for b in bounds])
            self._connection.execute(sa.insert(file_statistics), bounds)

    def _recount(self, living: Sequence[Row]) -> list[Row]:
        """Return the rows of the partitions whose counts have changed, as they are now; the table's totals follow."""
        f = files.c
        ids = [row["partition_id"] for row in living]
        if not ids:
            return []
        statement = (
            sa.select(f.partition_id, sa.func.count(), sa.func.count(f.n_rows), sa.func.sum(f.n_rows))
            .where(f.partition_id.in_(ids), f.end_version == ALIVE)
            .group_by(f.partition_id)
        )
        sums = {
            p: int(total or 0) if n == known else None for p, n, known, total in self._connection.execute(statement)
        }
        changed = [
            {**row, "n_rows": sums[row["partition_id"]]}
            for row in living
            if sums.get(row["partition_id"], row["n_rows"]) != row["n_rows"]
        ]
        before = {row["partition_id"]: row["n_rows"] for row in living}
        if not changed:
            return []
        p = partitions.c
        self._connection.execute(
            sa.update(partitions)
            .where(p.partition_id == sa.bindparam("p"), p.begin_version == sa.bindparam("b"))
            .values(n_rows=sa.bindparam("counted")),
            [{"p": r["partition_id"], "b": r["begin_version"], "counted": r["n_rows"]} for r in changed],
        )
        rows = sum((r["n_rows"] or 0) - (before[r["partition_id"]] or 0) for r in changed)
        uncounted = sum((r["n_rows"] is None) - (before[r["partition_id"]] is None) for r in changed)
        known = [(r, before[r["partition_id"]]) for r in changed]
        differences = [
            (r["k1"], r["begin_version"], (r["n_rows"] or 0) - (was or 0), (r["n_rows"] is None) - (was is None))
            for r, was in known
        ]
        add_in_place(self._connection, self._row, len(self._table.definition.keys), differences)
        t = tables.c
        self._connection.execute(
            sa.update(tables)
            .where(t.table_id == self._table.table_id)
            .values(counted_rows=t.counted_rows + rows, uncounted_partitions=t.uncounted_partitions + uncounted)
        )
        return changed


def _enqueue(connection: sa.Connection, table: Table, rows: Iterable[Mapping[str, Any]], now: int) -> int:
    """Enqueue what is known of partitions at this time for the metastore; return how many messages that takes."""
    published = [
        PublishedPartition(
            row["name"],
            table.directory(row["name"], row["location"]),
            statistics_parameters(row["n_files"], row["n_bytes"], row["n_rows"], now),
        )
        for row in rows
        if row["in_metastore"]
    ]
    return enqueue_changes(connection, table, PartitionChanges(altered=published))
