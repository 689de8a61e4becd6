"""Removes old versions of a table and their rows, in short transactions; keeps the ids of their transactions.

Several indexes may have tables at the same location, and one index several tables there: only the transaction's id,
which is in the file's name, shows which write a file belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    file_statistics,
    files,
    forgotten_transactions,
    partitions,
    table_definitions,
    table_versions,
    tables,
    transaction_claims,
    transaction_files,
    transactions,
    waiting_files,
)
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.write.claim_checks import forget_claims
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.partition_sums import merge_sums
from catalog_ext.metastore.index.write.transaction_rows import FORGOTTEN_KEPT_MS
from catalog_ext.metastore.index.write.version_holds import end_expired, lock_row
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection


_PAGE, _ROWS = 5000, 20_000
"""The most ended partition rows that one transaction reads, and about the most rows that it removes."""
_AT_ONCE = 500


class Versions(IndexPart):
    """Removes old versions of tables."""

    def raise_floor(self, table_id: int, version: int) -> list[tuple[int, str]]:
        """Make the versions of a table below ``version`` unreadable, in one transaction, without removing their rows.

        Readers of these versions get an error from now on, and no new query chooses one; except versions that a tag
        holds, which stay readable. A lower number than that of an earlier call changes nothing, nor does a number
        above the newest version.

        Returns the held versions and the names of their tags, ascending. A version below ``version`` that is not among
        them cannot be tagged any more.
        """
        t = tables.c
        raised = sa.update(tables).where(t.table_id == table_id, t.oldest_version < version, t.version >= version)

        def work(connection: sa.Connection) -> list[tuple[int, str]]:
            lock_row(connection, table_id)
            connection.execute(raised.values(oldest_version=version))
            return end_expired(connection, table_id)

        return self._database.write(work)

    def expire(
        self, table_id: int, before_version: int, *, max_rows: int | None = None, aborted: bool = True,
        held: Collection[int] = (),
    ) -> int:  # fmt: skip
        """Remove the versions below ``before_version``, in short transactions; return the number of removed rows.

        Before the first row is removed, readers of these versions get an error. Rows of other unreadable versions stay:
        by them, vacuum finds the files that it still has to delete. The work depends on the number of ended rows, not
        on the size of the table. Rows that a held version needs stay, and so does its row of the history.

        Args:
            table_id: The table's number.
            before_version: The oldest version that stays; a number above the newest version changes nothing.
            max_rows: The approximate limit on removed rows; the history is removed last. None removes all.
            aborted: Whether aborted transactions are removed too. By their rows, repair recognizes files that a late
                task left behind; without the row it would register the files. So remove them only after a search for
                such files.
            held: Versions that were held when the caller called ``raise_floor``: their rows stay, although a tag may be
                gone, because the files of these versions are still there.
        """
        limit, left = self._limit(table_id, before_version)
        if not (left or aborted):
            return 0
        # Complete a deferred delete first: rows that have no end version yet would never be removed.
        complete(self._database, table_id=table_id)
        now_held = {version for version, _ in self.raise_floor(table_id, limit)}
        kept = sorted(version for version in now_held.union(held) if version < limit)
        removed = 0
        # Each range of versions ends with a held one, except the last: rows that began and ended in it are needed by no
        # held version.
        for after, upto in pairwise([-1, *kept, limit]):
            while max_rows is None or removed < max_rows:
                page = self._database.write(partial(_expire_some, table_id=table_id, after=after, limit=upto))
                if not page:
                    break
                removed += page
        if max_rows is not None and removed >= max_rows:
            return removed
        for after, upto in pairwise([-1, *kept, limit]):
            while self._database.write(partial(merge_sums, table_id=table_id, limit=upto, after=after)):
                pass
        return removed + self._database.write(
            partial(_expire_history, table_id=table_id, limit=limit, kept=kept, aborted=aborted)
        )

    def _limit(self, table_id: int, before_version: int) -> tuple[int, bool]:
        """Return the version below which rows are removed (0: none), and whether there are such rows."""
        t, v = tables.c, table_versions.c
        newest = sa.select(t.version).where(t.table_id == table_id)
        with self._database.reading() as connection:
            limit = before_version if before_version <= (connection.execute(newest).scalar() or 0) else 0
            history = sa.exists().where(v.table_id == table_id, v.version < limit)
            left = connection.execute(sa.select(sa.or_(history, sa.exists().where(_ended(table_id, limit))))).scalar()
        return limit, bool(left)


def _ended(table_id: int, limit: int) -> sa.ColumnElement[bool]:
    p = partitions.c
    # The second bound is redundant, but lets the databases use the partial index of ended rows.
    return sa.and_(p.table_id == table_id, p.end_version <= limit, p.end_version < sa.literal_column(str(ALIVE)))


def _expire_some(connection: sa.Connection, *, table_id: int, after: int, limit: int) -> int:
    """Remove a page of the partition rows that ended first, and their files' rows; return the number of rows.

    Only rows that began after the version ``after``, a held one, and ended up to ``limit`` are removed.
    """
    f, p, s = files.c, partitions.c, file_statistics.c
    unneeded = [_ended(table_id, limit)]
    if after >= 0:
        # A file is found by the partition row that ended with it. If the held version has the file, that row stays.
        begun = sa.exists().where(
            f.partition_id == p.partition_id, f.end_version == p.end_version, f.begin_version <= after
        )  # fmt: skip
        unneeded += [p.end_version > after, p.begin_version > after, ~begun]
    first = (
        sa.select(p.partition_id, p.end_version, p.n_files)
        .where(*unneeded)
        .order_by(p.end_version, p.partition_id)
        .limit(_PAGE)
    )
    page, rows = [], 0
    for row in connection.execute(first).all():
        page.append(row)
        rows += 1 + row.n_files
        if rows >= _ROWS:
            # Keep the page small: other writers of the index wait for this transaction.
            break
    if not page:
        return 0
    upto = page[-1].end_version
    removed = 0
    # Whenever a file ends, its partition's row is replaced. So the ended files are those of the ended partition rows.
    for ids in batched(sorted({row.partition_id for row in page}), _AT_ONCE):
        ended = (f.end_version <= upto, f.begin_version > after)
        dead = sa.exists().where(f.partition_id == s.partition_id, f.file_id == s.file_id, *ended)
        for statement in (
            sa.delete(file_statistics).where(s.partition_id.in_(ids), dead),
            sa.delete(files).where(f.partition_id.in_(ids), *ended),
            sa.delete(partitions).where(p.partition_id.in_(ids), p.end_version <= upto, *unneeded[1:]),
        ):
            removed += connection.execute(statement).rowcount
    return removed


def _expire_history(
    connection: sa.Connection, *, table_id: int, limit: int, kept: Collection[int], aborted: bool
) -> int:
    """Remove the history below the limit, and the ended transactions that neither conflict checks nor streams need."""
    lock_row(connection, table_id)
    forget_claims(connection, table_id)
    v, t, d = table_versions.c, transactions.c, table_definitions.c
    at = sa.select(v.committed_at_ms).where(v.table_id == table_id, v.version == limit)
    since = connection.execute(at).scalar() or 0
    removed: int = connection.execute(
        sa.delete(table_versions).where(v.table_id == table_id, v.version < limit, v.version.not_in(list(kept)))
    ).rowcount
    # The definition of a held version is the first one that ended after it.
    ends = [sa.select(sa.func.min(d.end_version)).where(d.table_id == table_id, d.end_version > held) for held in kept]
    needed = {connection.execute(end).scalar() or 0 for end in ends}
    gone = sa.delete(table_definitions).where(
        d.table_id == table_id, d.end_version <= limit, d.end_version.not_in(sorted(needed))
    )  # fmt: skip
    removed += connection.execute(gone).rowcount
    ended = sa.and_(t.state == str(State.FINISHED), t.version < limit)
    if kept:
        # By its transaction vacuum knows that an overwrite relocated the partitions, and that it may delete the files.
        rows = partitions.alias().c
        still_ended = sa.exists().where(rows.table_id == table_id, rows.end_version == t.version)
        ended = sa.and_(ended, ~still_ended)
    if aborted:
        ended = sa.or_(ended, sa.and_(t.state == str(State.ABORTED), t.ended_at_ms < since))
    waits = sa.exists().where(waiting_files.c.transaction_id == t.transaction_id)
    claims = sa.exists().where(transaction_claims.c.transaction_id == t.transaction_id)
    forgotten = forget(connection, table_id, sa.and_(t.table_id == table_id, ended, ~waits, ~claims))
    theirs = transaction_files.c.transaction_id.in_(sa.select(t.transaction_id).where(forgotten))
    connection.execute(sa.delete(transaction_files).where(theirs))
    removed += connection.execute(sa.delete(transactions).where(forgotten)).rowcount
    return removed


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """What the index knows about a transaction.

    Attributes:
        state: Its state; None if it has ended and vacuum has removed its row.
        waits: Whether files of the transaction are held back until their partitions are due.
    """

    state: State | None
    waits: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether the transaction is over, so that none of its staged files will be committed any more."""
        return self.state in (None, State.FINISHED, State.ABORTED) and not self.waits


class ForgottenTransactions(IndexPart):
    """The ids of transactions whose rows vacuum has removed."""

    def known(self, ids: Collection[str]) -> dict[str, KnownTransaction]:
        """Return those of the transactions that this index knows, whichever table they wrote."""
        t, f, w = transactions.c, forgotten_transactions.c, waiting_files.c
        waits = sa.exists().where(w.transaction_id == t.transaction_id)
        found: dict[str, KnownTransaction] = {}
        for some in batched(sorted(ids), _AT_ONCE):
            rows = sa.select(t.transaction_id, t.state, waits.label("waits")).where(t.transaction_id.in_(some))
            forgotten = sa.select(f.transaction_id).where(f.transaction_id.in_(some))
            with self._database.reading() as connection:
                # Read the removed ids second: a transaction that is being removed is then in at least one of the two
                # results.
                known = connection.execute(rows).all()
                found |= {one: KnownTransaction(None) for one in connection.execute(forgotten).scalars()}
            found |= {row.transaction_id: KnownTransaction(State(row.state), bool(row.waits)) for row in known}
        return found

    def of_table(self, table_id: int, ids: Collection[str]) -> set[str]:
        """Return those of the transactions that were writes to a table, including removed ones."""
        found: set[str] = set()
        for some in batched(sorted(ids), _AT_ONCE):
            with self._database.reading() as connection:
                for rows in (transactions.c, forgotten_transactions.c):
                    mine = sa.select(rows.transaction_id).where(
                        rows.transaction_id.in_(some), rows.table_id == table_id
                    )
                    found |= set(connection.execute(mine).scalars())
        return found

    def drop(self, table_id: int, before_ms: int, kept: Collection[str]) -> None:
        """Remove the ids of a table's transactions whose rows were removed before a time; ``kept`` ids stay.

        The time is in milliseconds since the epoch, UTC, by the database's clock.
        """
        f = forgotten_transactions.c
        mine = f.table_id == table_id

        def work(connection: sa.Connection) -> None:
            for some in batched(sorted(kept), _AT_ONCE):
                named = sa.update(forgotten_transactions).where(mine, f.transaction_id.in_(some))
                connection.execute(named.values(forgotten_at_ms=NOW_MS))
            connection.execute(sa.delete(forgotten_transactions).where(mine, f.forgotten_at_ms < before_ms))

        self._database.write(work)


def forget(connection: sa.Connection, table_id: int, which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Record the ids of transactions whose rows are about to be removed; return the condition for the removal.

    The caller holds the table's lock.
    """
    t, f = transactions.c, forgotten_transactions.c
    old = (f.table_id == table_id, f.forgotten_at_ms < NOW_MS - FORGOTTEN_KEPT_MS)
    connection.execute(sa.delete(forgotten_transactions).where(*old))
    kept = sa.exists().where(f.transaction_id == t.transaction_id)
    ids = sa.select(t.transaction_id, t.table_id, NOW_MS.label("now")).where(which, ~kept)
    names = ["transaction_id", "table_id", "forgotten_at_ms"]
    connection.execute(sa.insert(forgotten_transactions).from_select(names, ids))
    # Only transactions with a recorded id are removed: one that finishes between the two statements stays until next
    # time.
    return sa.and_(which, kept)
