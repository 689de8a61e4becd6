"""What the index knows of transactions by their ids alone, also of those whose rows it has forgotten.

Several indexes may have tables at one location, and one index several tables: only an id says whose a file is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.schema import forgotten_transactions, transactions, waiting_files
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.index.database.database import Database

FORGOTTEN_KEPT_MS = 30 * 24 * 3_600_000
"""How long the id of a forgotten transaction is kept where no vacuum looks for what it has left."""

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class KnownTransaction:
    """A transaction of this index.

    Attributes:
        state: Its state; None where its row is forgotten, as it had ended.
        waits: Whether files of it wait for their partitions to be due.
    """

    state: State | None
    waits: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing that it has staged will be committed."""
        return self.state in (None, State.FINISHED, State.ABORTED) and not self.waits


class ForgottenTransactions:
    """Transactions whose rows vacuum has removed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def known(self, ids: Collection[str]) -> dict[str, KnownTransaction]:
        """Return those of the transactions that are this index's, whatever their tables."""
        t, f, w = transactions.c, forgotten_transactions.c, waiting_files.c
        waits = sa.exists().where(w.transaction_id == t.transaction_id)
        found: dict[str, KnownTransaction] = {}
        for some in batched(sorted(ids), _AT_ONCE):
            rows = sa.select(t.transaction_id, t.state, waits.label("waits")).where(t.transaction_id.in_(some))
            forgotten = sa.select(f.transaction_id).where(f.transaction_id.in_(some))
            with self._database.reading() as connection:
                # In this order: one that is being forgotten is in either.
                known = connection.execute(rows).all()
                found |= {one: KnownTransaction(None) for one in connection.execute(forgotten).scalars()}
            found |= {row.transaction_id: KnownTransaction(State(row.state), bool(row.waits)) for row in known}
        return found

    def of_table(self, table_id: int, ids: Collection[str]) -> set[str]:
        """Return those of the transactions that were writes to a table, forgotten ones among them."""
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
        """Remove the ids of a table's transactions that were forgotten before a time, once nothing of them is left.

        Args:
            table_id: The table's number.
            before_ms: Milliseconds since the epoch, UTC, by the database's clock.
            kept: The ids of those that have left something.
        """
        f = forgotten_transactions.c
        now = database_now_ms(self._database.dialect).scalar_subquery()
        statements: list[sa.Delete | sa.Update] = [
            sa.update(forgotten_transactions)
            .where(f.table_id == table_id, f.transaction_id.in_(some))
            .values(forgotten_at_ms=now)
            for some in batched(sorted(kept), _AT_ONCE)
        ]
        statements.append(
            sa.delete(forgotten_transactions).where(f.table_id == table_id, f.forgotten_at_ms < before_ms)
        )

        def work(connection: sa.Connection) -> None:
            for statement in statements:
                connection.execute(statement)

        self._database.write(work)


def forget(connection: sa.Connection, table_id: int, which: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Keep the ids of transactions whose rows are to go, and return which rows those are; the table's row is locked.

    Args:
        connection: In the transaction that removes them.
        table_id: The table's number.
        which: The condition on ``transactions``.
    """
    t, f = transactions.c, forgotten_transactions.c
    now = database_now_ms(connection.dialect.name).scalar_subquery()
    old = sa.delete(forgotten_transactions).where(f.table_id == table_id, f.forgotten_at_ms < now - FORGOTTEN_KEPT_MS)
    connection.execute(old)
    kept = sa.exists().where(f.transaction_id == t.transaction_id)
    ids = sa.select(t.transaction_id, t.table_id, now.label("now")).where(which, ~kept)
    names = ["transaction_id", "table_id", "forgotten_at_ms"]
    connection.execute(sa.insert(forgotten_transactions).from_select(names, ids))
    # One that finishes between the two statements is for the next time.
    return sa.and_(which, kept)
