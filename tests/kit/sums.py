"""The invariant of ``partition_sums``: at every readable version it equals the sum over the partitions."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import partition_sums, partitions, settlements, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE

if TYPE_CHECKING:
    from collections.abc import Iterator

_Sums = dict[str, tuple[int, ...]]
_VERSIONS = 30


def check_sums(connection: sa.Connection) -> None:
    """Fail where the sums of a table are not those of its partitions, at one of its newest versions."""
    for table_id, version, oldest, deleted_before in (row.values() for row in _TABLES.rows(connection)):
        versions = {*_VERSIONS_OF.scalars(connection, {"table_id": table_id}), version}
        for at in sorted(v for v in versions if oldest <= v <= version)[-_VERSIONS:]:
            where = {"table_id": table_id, "at": at, "since": deleted_before if at >= deleted_before else 0}
            found = _summed(connection, _PARTITIONS_AT, where)
            by_key = _BY_KEY_AT.rows(connection, where)
            whole = [sum(values) for values in zip(*found.values(), strict=True)]
            assert _sums_at(connection, 0, where) == ({"": tuple(whole)} if whole else {}), (table_id, at)
            assert _sums_at(connection, 1, where) == (found if by_key else {}), (table_id, at)


def _partition_columns() -> list[sa.ColumnElement[object]]:
    p = partitions.c
    rows = sa.func.coalesce(sa.func.sum(p.n_rows), 0)
    unknown = sa.func.sum(sa.case((p.n_rows.is_(None), 1), else_=0))
    totals = (sa.func.count(), sa.func.sum(p.n_files), sa.func.sum(p.n_bytes), rows, unknown)
    return [
        sa.func.coalesce(p.k1, sa.literal("", p.k1.type)).label("k1"),
        *(total.label(f"total_{i}") for i, total in enumerate(totals)),
    ]


def _versions_of() -> sa.CompoundSelect[tuple[int]]:
    p, table_id = partitions.c, sa.bindparam("table_id")
    begun = sa.select(p.begin_version).where(p.table_id == table_id)
    ended = sa.select(p.end_version).where(p.table_id == table_id, p.end_version < ALIVE)
    return sa.union(begun, ended)


def _sums_of() -> sa.Select[tuple[object, ...]]:
    s = partition_sums.c
    totals = [sa.func.sum(c).label(c.name) for c in (s.n_partitions, s.n_files, s.n_bytes, s.n_rows, s.n_uncounted)]
    several = s.table_id == sa.bindparam("table_id"), s.depth == sa.bindparam("depth"), s.version <= sa.bindparam("at")
    return sa.select(s.k1, *totals).where(*several).group_by(s.k1)


# Made once: they are asked of every index that is closed.
_TABLES = Prepared(
    sa.select(tables.c.table_id, tables.c.version, tables.c.oldest_version, tables.c.deleted_before_version)
)
_VERSIONS_OF = Prepared(_versions_of())
_THERE_AT = (
    partitions.c.table_id == sa.bindparam("table_id"),
    partitions.c.begin_version <= sa.bindparam("at"),
    partitions.c.begin_version >= sa.bindparam("since"),
    partitions.c.end_version > sa.bindparam("at"),
)
_PARTITIONS_AT = Prepared(sa.select(*_partition_columns()).where(*_THERE_AT).group_by(partitions.c.k1))
_BY_KEY_AT = Prepared(sa.select(partitions.c.k1).where(*_THERE_AT, partitions.c.k2.is_not(None)).limit(1))
_SUMS_AT = Prepared(_sums_of())


def _summed(connection: sa.Connection, rows: Prepared, where: dict[str, int]) -> _Sums:
    found = (row.values() for row in rows.rows(connection, where))
    return {key: tuple(map(int, values)) for key, *values in found}


def _sums_at(connection: sa.Connection, depth: int, where: dict[str, int]) -> _Sums:
    found = _summed(connection, _SUMS_AT, {**where, "depth": depth})
    gone = {key for key, values in found.items() if not values[0]}
    assert not any(any(found[key]) for key in gone), (where, found)
    return {key: values for key, values in found.items() if key not in gone}


@contextlib.contextmanager
def checked_at_close() -> Iterator[None]:
    """Check the sums of every index that is closed."""
    close = Index.close

    def checking(index: Index) -> None:
        try:
            connection = index._database.engine.connect()
        except sa.exc.DBAPIError:
            # Tests take databases away.
            close(index)
            return
        with connection:
            if sa.inspect(connection).has_table(settlements.name):
                check_sums(connection)
        close(index)

    Index.close = checking  # type: ignore[method-assign]
    try:
        yield
    finally:
        Index.close = close  # type: ignore[method-assign]
