"""Forgets old versions of a table, and what only they needed, in short transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.schema import (
    ALIVE,
    file_statistics,
    files,
    partitions,
    table_versions,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.write.claim_checks import forget_claims
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.forgotten_transactions import forget
from catalog_ext.metastore.index.write.partition_sums import merge_sums
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database


_PAGE, _ROWS = 5000, 20_000
"""The most ended rows of partitions that one transaction looks at, and about the most rows that it removes."""
_AT_ONCE = 500


class Versions:
    """Forgets versions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def expire(self, table_id: int, before_version: int, *, max_rows: int | None = None, aborted: bool = True) -> int:
        """Forget the versions below ``before_version``, in short transactions; return how many rows were removed.

        The versions are refused to readers before the first row is gone. The work depends on
        the rows that have ended, not on the size of the table.

        Args:
            table_id: The table's number.
            before_version: The oldest version that stays; one above the newest changes nothing.
            max_rows: About how many rows go at the most, the history last; None for all.
            aborted: Whether aborted transactions go, too. A file that a late task of one has left is known by its row,
                and a repair would register it without that: only after such files were looked for.
        """
        limit, left = self._limit(table_id, before_version)
        if not (left or aborted):
            return 0
        # Rows that a deferred delete has not ended yet would stay for ever.
        complete(self._database, table_id=table_id)
        t = tables.c
        raise_oldest = sa.update(tables).where(t.table_id == table_id, t.oldest_version < limit)
        self._database.write(lambda connection: connection.execute(raise_oldest.values(oldest_version=limit)))
        removed = 0
        while max_rows is None or removed < max_rows:
            page = self._database.write(lambda connection: _expire_some(connection, table_id, limit))
            if not page:
                while self._database.write(lambda connection: merge_sums(connection, table_id, limit)):
                    pass
                return removed + self._database.write(
                    lambda connection: _expire_history(connection, table_id, limit, aborted=aborted)
                )
            removed += page
        return removed

    def _limit(self, table_id: int, before_version: int) -> tuple[int, bool]:
        """Return the oldest version that is to stay, and whether anything is left of older ones."""
        t, v = tables.c, table_versions.c
        oldest = sa.case((t.version >= before_version, before_version), else_=0)
        asked = sa.select(t.oldest_version, oldest).where(t.table_id == table_id)
        with self._database.reading() as connection:
            row = connection.execute(asked).one_or_none()
            limit = 0 if row is None else max(row)
            history = sa.exists().where(v.table_id == table_id, v.version < limit)
            left = connection.execute(sa.select(sa.or_(history, sa.exists().where(_ended(table_id, limit))))).scalar()
        return limit, bool(left)


def _ended(table_id: int, limit: int) -> sa.ColumnElement[bool]:
    p = partitions.c
    # The bound that every ended row keeps is how the databases see that the index of them serves.
    return sa.and_(p.table_id == table_id, p.end_version <= limit, p.end_version < sa.literal_column(str(ALIVE)))


def _expire_some(connection: sa.Connection, table_id: int, limit: int) -> int:
    """Remove a page of the partitions' rows that ended first, and their files'; return how many rows that were."""
    f, p, s = files.c, partitions.c, file_statistics.c
    first = (
        sa.select(p.partition_id, p.end_version, p.n_files)
        .where(_ended(table_id, limit))
        .order_by(p.end_version, p.partition_id)
        .limit(_PAGE)
    )
    page, rows = [], 0
    for row in connection.execute(first).all():
        page.append(row)
        rows += 1 + row.n_files
        if rows >= _ROWS:
            # Other writers of the index wait for this transaction.
            break
    if not page:
        return 0
    upto = page[-1].end_version
    removed = 0
    # A file ends with a row of its partition.
    for ids in batched(sorted({row.partition_id for row in page}), _AT_ONCE):
        dead = sa.exists().where(f.partition_id == s.partition_id, f.file_id == s.file_id, f.end_version <= upto)
        for statement in (
            sa.delete(file_statistics).where(s.partition_id.in_(ids), dead),
            sa.delete(files).where(f.partition_id.in_(ids), f.end_version <= upto),
            sa.delete(partitions).where(p.partition_id.in_(ids), p.end_version <= upto),
        ):
            removed += connection.execute(statement).rowcount
    return removed


def _expire_history(connection: sa.Connection, table_id: int, limit: int, *, aborted: bool) -> int:
    """Remove the history below the limit, and the transactions that had ended by then and that no reader needs."""
    # Locks the table's row.
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))
    forget_claims(connection, table_id)
    v, t = table_versions.c, transactions.c
    at = sa.select(v.committed_at_ms).where(v.table_id == table_id, v.version == limit)
    since = connection.execute(at).scalar() or 0
    removed: int = connection.execute(
        sa.delete(table_versions).where(v.table_id == table_id, v.version < limit)
    ).rowcount
    ended = sa.and_(t.state == str(State.FINISHED), t.version < limit)
    if aborted:
        ended = sa.or_(ended, sa.and_(t.state == str(State.ABORTED), t.ended_at_ms < since))
    waits = sa.exists().where(waiting_files.c.transaction_id == t.transaction_id)
    claims = sa.exists().where(transaction_claims.c.transaction_id == t.transaction_id)
    forgotten = forget(connection, table_id, sa.and_(t.table_id == table_id, ended, ~waits, ~claims))
    theirs = transaction_files.c.transaction_id.in_(sa.select(t.transaction_id).where(forgotten))
    connection.execute(sa.delete(transaction_files).where(theirs))
    removed += connection.execute(sa.delete(transactions).where(forgotten)).rowcount
    return removed
