"""What must be true of ``partition_sums`` after whatever happened: at each version that can be read it is the sum."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.schema import ALIVE, partition_sums, partitions, settlements, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

_Sums = dict[str, tuple[int, ...]]
_VERSIONS = 30


def check_sums(connection: sa.Connection) -> None:
    """Fail where the sums of a table are not those of its partitions, at one of its newest versions."""
    t, p = tables.c, partitions.c
    of = sa.select(t.table_id, t.version, t.oldest_version, t.floor_version)
    for table_id, version, oldest, floor in connection.execute(of).all():
        begun = sa.select(p.begin_version).where(p.table_id == table_id)
        ended = sa.select(p.end_version).where(p.table_id == table_id, p.end_version < ALIVE)
        versions = {*connection.execute(sa.union(begun, ended)).scalars(), version}
        for at in sorted(v for v in versions if oldest <= v <= version)[-_VERSIONS:]:
            several = p.table_id == table_id, p.begin_version <= at, p.end_version > at
            if at >= floor:
                several += (p.begin_version >= floor,)
            found = _summed(connection, sa.select(*_partition_columns()).where(*several), partitions.c.k1)
            by_key = connection.execute(sa.select(p.k1).where(*several, p.k2.is_not(None)).limit(1)).all()
            whole = [sum(values) for values in zip(*found.values(), strict=True)]
            assert _sums_at(connection, table_id, 0, at) == ({"": tuple(whole)} if whole else {}), (table_id, at)
            assert _sums_at(connection, table_id, 1, at) == (found if by_key else {}), (table_id, at)


def _partition_columns() -> list[sa.ColumnElement[object]]:
    p = partitions.c
    rows = sa.func.coalesce(sa.func.sum(p.n_rows), 0)
    unknown = sa.func.sum(sa.case((p.n_rows.is_(None), 1), else_=0))
    return [
        sa.func.coalesce(p.k1, sa.literal("", p.k1.type)), sa.func.count(), sa.func.sum(p.n_files),
        sa.func.sum(p.n_bytes), rows, unknown,
    ]  # fmt: skip


def _summed(connection: sa.Connection, rows: sa.Select[tuple[object, ...]], key: sa.Column[str]) -> _Sums:
    return {key: tuple(map(int, values)) for key, *values in connection.execute(rows.group_by(key))}


def _sums_at(connection: sa.Connection, table_id: int, depth: int, at: int) -> _Sums:
    s = partition_sums.c
    totals = [sa.func.sum(c) for c in (s.n_partitions, s.n_files, s.n_bytes, s.n_rows, s.n_uncounted)]
    rows = sa.select(s.k1, *totals).where(s.table_id == table_id, s.depth == depth, s.version <= at)
    found = _summed(connection, rows, s.k1)
    gone = {key for key, values in found.items() if not values[0]}
    assert not any(any(found[key]) for key in gone), (table_id, at, found)
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
