"""Forgets old versions of a table, and what only they needed, in short transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.schema import (
    file_statistics,
    files,
    partition_ids,
    partitions,
    table_versions,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.write.claims import forget_claims

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database


_PAGE = 5000


def expire_versions(database: Database, table_id: int, before_version: int) -> int:
    """Forget the versions below ``before_version``, in short transactions; return how many rows were removed.

    The versions are refused to readers before the first row is gone.
    """
    t = tables.c
    raise_oldest = (
        sa.update(tables)
        .where(t.table_id == table_id, t.oldest_version < before_version, t.version >= before_version)
        .values(oldest_version=before_version)
    )
    database.write(lambda connection: connection.execute(raise_oldest))
    with database.reading() as connection:
        limit = connection.execute(sa.select(t.oldest_version).where(t.table_id == table_id)).scalar() or 0
    low, high = partition_ids(table_id)
    removed = 0
    while low < high:
        removed_now, low = database.write(lambda connection, at=low: _expire_some(connection, at, high, limit))  # type: ignore[misc]
        removed += removed_now
    return removed + database.write(lambda connection: _expire_history(connection, table_id, limit))


def _expire_some(connection: sa.Connection, low: int, high: int, limit: int) -> tuple[int, int]:
    """Return how many dead rows of the next partitions were removed, and the number of the partition to go on with."""
    f, p = files.c, partitions.c
    next_id = sa.select(f.partition_id).where(f.partition_id >= low, f.partition_id < high).order_by(f.partition_id)
    end = connection.execute(next_id.limit(1).offset(_PAGE)).scalar()
    below = high if end is None else end + 1
    dead = sa.and_(f.partition_id >= low, f.partition_id < below, f.end_version <= limit)
    s = file_statistics.c
    of_dead = sa.exists().where(f.partition_id == s.partition_id, f.file_id == s.file_id, f.end_version <= limit)
    removed = 0
    for statement in (
        sa.delete(file_statistics).where(s.partition_id >= low, s.partition_id < below, of_dead),
        sa.delete(files).where(dead),
        sa.delete(partitions).where(p.partition_id >= low, p.partition_id < below, p.end_version <= limit),
    ):
        removed += connection.execute(statement).rowcount
    return removed, below


def _expire_history(connection: sa.Connection, table_id: int, limit: int) -> int:
    """Remove the history below the limit, and the transactions that had ended by then and that nobody asks for."""
    # Locks the table's row.
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))
    forget_claims(connection, table_id)
    v, t = table_versions.c, transactions.c
    at = sa.select(v.committed_at_ms).where(v.table_id == table_id, v.version == limit)
    since = connection.execute(at).scalar() or 0
    removed: int = connection.execute(
        sa.delete(table_versions).where(v.table_id == table_id, v.version < limit)
    ).rowcount
    ended = sa.or_(
        sa.and_(t.state == str(State.FINISHED), t.version < limit),
        sa.and_(t.state == str(State.ABORTED), t.ended_at_ms < since),
    )
    waits = sa.exists().where(waiting_files.c.transaction_id == t.transaction_id)
    claims = sa.exists().where(transaction_claims.c.transaction_id == t.transaction_id)
    forgotten = sa.and_(t.table_id == table_id, ended, ~waits, ~claims)
    theirs = transaction_files.c.transaction_id.in_(sa.select(t.transaction_id).where(forgotten))
    connection.execute(sa.delete(transaction_files).where(theirs))
    removed += connection.execute(sa.delete(transactions).where(forgotten)).rowcount
    return removed
