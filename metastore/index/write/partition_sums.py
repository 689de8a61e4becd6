"""Counts of partitions, and ``partition_sums``: totals of a table and by its first partition column, for each version.

Each commit inserts its changes to the sums of the touched values of the first partition column, without reading a sum.
A sum at a version is the total of the rows up to it; rows of removed versions are merged into one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.prepared import insert_rows
from catalog_ext.metastore.index.database.schema import partition_sums, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.write.version_holds import held_versions, lock_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.model.tables import DataFile, Partition

ALL, BY_FIRST_KEY = 0, 1
"""Values of ``depth``: the number of partition columns by which the sums are grouped."""

_COLUMNS = (
    "table_id", "depth", "k1", "version", "n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted",
)  # fmt: skip
_COUNTED = _COLUMNS[4:]
_GROUPS_AT_ONCE = 2000
_FEW = 40

_Group = tuple[int, str, int]
"""Depth, value of the first partition column, and version."""

_Counted = tuple[str | None, int, int, int]
"""A partition's first key, the version that began its row, and the changes of its row count and of its number (0 or 1)
of uncounted partitions."""


@dataclass(slots=True)
class Volume:
    """The bytes and rows of added or removed files; ``rows`` is None if the row count of a file is unknown."""

    bytes: int = 0
    rows: int | None = 0

    def add(self, n_bytes: int, n_rows: int | None) -> None:
        """Add the bytes and rows of further files."""
        self.bytes += n_bytes
        self.rows = None if self.rows is None or n_rows is None else self.rows + n_rows


def emptied(partition: Partition) -> Partition:
    """Return the partition with its counts of files, bytes and rows set to zero."""
    return partition._replace(files=0, bytes=0, rows=0)


def holding(partition: Partition, added: Sequence[DataFile]) -> Partition:
    """Return the partition with the files, bytes and rows of further files added to its counts."""
    counts = [f.rows for f in added if f.rows is not None]
    known = partition.rows is not None and len(counts) == len(added)
    n_rows = (partition.rows or 0) + sum(counts) if known else None
    return partition._replace(
        files=partition.files + len(added), bytes=partition.bytes + sum(f.size for f in added), rows=n_rows
    )


class PartitionSums:
    """The changes of a commit to the sums of a table: in total, and by the value of the first partition column.

    Args:
        n_keys: The number of partition columns. With fewer than two there are no sums by the first column, since each
            value has only one partition.
    """

    def __init__(self, n_keys: int) -> None:
        self._by_key = n_keys > 1
        self._changes: dict[str, list[int]] = {}
        self._ended: list[int] | None = None

    def add(self, partition: Partition, sign: int) -> None:
        """Add a partition's counts to the sums (``sign`` 1), or subtract them (-1)."""
        key = (partition.keys[0] or "") if self._by_key else ""
        change = self._changes.get(key)
        if change is None:
            change = self._changes[key] = [0, 0, 0, 0, 0]
        change[0] += sign
        change[1] += sign * partition.files
        change[2] += sign * partition.bytes
        change[3] += sign * (partition.rows or 0)
        change[4] += sign * (partition.rows is None)

    @property
    def are_few(self) -> bool:
        """Whether ``write`` sends at most one statement."""
        return len(self._changes) < _FEW

    def end_everything(self, totals: Sequence[int]) -> None:
        """Subtract the table's sums at the previous version, ``totals``, in the order of the property ``totals``."""
        self._ended = list(totals)

    @property
    def totals(self) -> list[int]:
        """The changes of the table's numbers of partitions, files, bytes, counted rows and uncounted partitions."""
        ended = [0] * len(_COUNTED) if self._ended is None else [-count for count in self._ended]
        return list(map(sum, zip(ended, *self._changes.values(), strict=True)))

    def write(self, connection: sa.Connection, table_id: int, version: int) -> None:
        """Insert the rows of a version into ``partition_sums``, in the transaction that makes the version."""
        rows = list(self._rows(table_id, version))
        if self._ended is not None:
            _negate(connection, table_id, version)
            rows = [row for row in rows if not _added(connection, row)]
        if rows:
            insert_rows(connection, partition_sums, _COLUMNS, rows)

    def _rows(self, table_id: int, version: int) -> Iterator[tuple[Any, ...]]:
        if not self._changes:
            return
        totals = map(sum, zip(*self._changes.values(), strict=True))
        yield (table_id, ALL, "", version, *totals)
        if self._by_key:
            for key, change in self._changes.items():
                if any(change):
                    yield (table_id, BY_FIRST_KEY, key, version, *change)


def _negate(connection: sa.Connection, table_id: int, version: int) -> None:
    """Insert rows of a version that make all sums zero, by one statement; one row for each value of the first key."""
    s = partition_sums.c
    totals = [-sa.cast(sa.func.sum(s[name]), sa.BigInteger) for name in _COUNTED]
    before = (
        sa.select(s.table_id, s.depth, s.k1, sa.literal(version), *totals)
        .where(s.table_id == table_id, s.version < version)
        .group_by(s.table_id, s.depth, s.k1)
        .having(sa.func.sum(s.n_partitions) > 0)
    )
    connection.execute(sa.insert(partition_sums).from_select(_COLUMNS, before))


def _added(connection: sa.Connection, row: Sequence[Any]) -> bool:
    """Add the counts to an existing row with the same primary key; return whether there was one."""
    s = partition_sums.c
    key = [s[name] == value for name, value in zip(_COLUMNS[:4], row[:4], strict=True)]
    more = {name: s[name] + change for name, change in zip(_COUNTED, row[4:], strict=True)}
    return connection.execute(sa.update(partition_sums).where(*key).values(more)).rowcount == 1


def add_in_place(connection: sa.Connection, table: TableRow, changes: Sequence[_Counted]) -> None:
    """Add row counts that were found after the partitions' versions were made; the caller holds the table's lock."""
    together: dict[_Group, list[int]] = {}
    table_id, n_keys = table.table.table_id, len(table.table.definition.keys)
    held = held_versions(connection, table_id, table.oldest_version)
    for first_key, begin, n_rows, n_uncounted in changes:
        # Rows below the oldest readable version may already be merged into one row at that version, or at a held one.
        version = max(begin, min((at for at in held if at >= begin), default=table.oldest_version))
        groups: list[_Group] = [(ALL, "", version)]
        if n_keys > 1:
            groups.append((BY_FIRST_KEY, first_key or "", version))
        for group in groups:
            change = together.setdefault(group, [0, 0])
            change[0] += n_rows
            change[1] += n_uncounted
    s = partition_sums.c
    for (depth, key, version), (n_rows, n_uncounted) in sorted(together.items()):
        there = sa.and_(s.table_id == table_id, s.depth == depth, s.k1 == key, s.version == version)
        updated = connection.execute(
            sa.update(partition_sums)
            .where(there)
            .values(n_rows=s.n_rows + n_rows, n_uncounted=s.n_uncounted + n_uncounted)
        )
        if not updated.rowcount:
            row = (table_id, depth, key, version, 0, 0, 0, n_rows, n_uncounted)
            insert_rows(connection, partition_sums, _COLUMNS, [row])


def sum_anew(connection: sa.Connection, table_id: int, version: int, n_keys: int) -> None:
    """Replace all sums of a table by those of its current partitions, because the types of its keys have changed."""
    p, s = partitions.c, partition_sums.c
    connection.execute(sa.delete(partition_sums).where(s.table_id == table_id))
    uncounted = sa.case((p.n_rows.is_(None), 1), else_=0)
    for depth in (ALL, BY_FIRST_KEY) if n_keys > 1 else (ALL,):
        key = p.k1 if depth else sa.literal("", p.k1.type)
        totals = [sa.func.coalesce(sa.func.sum(c), 0) for c in (p.n_files, p.n_bytes, p.n_rows, uncounted)]
        found = (
            sa.select(
                sa.literal(table_id), sa.literal(depth), key, sa.literal(version), sa.func.count(), *totals,
            )
            .where(p.table_id == table_id, p.end_version == ALIVE)
            .having(sa.func.count() > 0)
        )  # fmt: skip
        if depth:
            found = found.group_by(p.k1)
        connection.execute(sa.insert(partition_sums).from_select(_COLUMNS, found))


def merge_sums(connection: sa.Connection, table_id: int, limit: int, *, after: int = -1) -> int:
    """Merge, for a batch of groups, the rows up to the oldest readable version; return the number of groups.

    With ``after``, a held version, only the rows above it are merged: a query of the held version sums the others.
    """
    # Lock the table's row, as ``add_in_place`` does: otherwise counts that it adds to a merged row would be lost.
    lock_row(connection, table_id)
    s = partition_sums.c
    old = (s.table_id == table_id, s.version <= limit, s.version > after)
    # Without earlier rows, a group without partitions is over. After a held version its row ends the group.
    over = sa.func.sum(s.n_partitions) == 0 if after < 0 else sa.false()
    totals = [sa.cast(sa.func.sum(s[name]), sa.BigInteger).label(name) for name in _COUNTED]
    several = (
        sa.select(s.depth, s.k1, sa.func.max(s.version).label("version"), *totals)
        .where(*old)
        .group_by(s.depth, s.k1)
        .having(sa.or_(sa.func.count() > 1, over))
        .limit(_GROUPS_AT_ONCE)
    )
    rows = [tuple(row) for row in connection.execute(several)]
    if not rows:
        return 0
    gone = sa.delete(partition_sums).where(*old, s.depth == sa.bindparam("d"), s.k1 == sa.bindparam("k"))
    connection.execute(gone, [{"d": depth, "k": key} for depth, key, *_ in rows])
    left = [(table_id, *row) for row in rows if row[3] or after >= 0]
    insert_rows(connection, partition_sums, _COLUMNS, left)
    return len(rows)
