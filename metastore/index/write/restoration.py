"""Ends the unfinished work of a restored index, and begins its next incarnation (see ``tables.incarnations``).

An incarnation is the time from one restore to the next; its version numbers are never used again. No file is touched.
Everything that was in flight at the time of the backup has ended since then, and only the store shows how.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import (
    dropped_tables,
    outbox,
    table_versions,
    tables,
    transaction_claims,
    transaction_files,
    transaction_locations,
    transactions,
)
from catalog_ext.metastore.index.tables import incarnations as properties
from catalog_ext.metastore.index.tables.incarnations import (
    COUNTER,
    COUNTER_MARK,
    INCARNATION,
    RESTORING,
    VERSIONS,
    Incarnations,
    new_mark,
)
from catalog_ext.metastore.index.write.deferred_deletes import complete
from catalog_ext.metastore.index.write.transaction_rows import MOVES

if TYPE_CHECKING:
    from catalog_ext.metastore.index.tables.incarnations import CounterPosition

OPERATION = "restored"
"""The operation in the history for the version with which a table begins in an incarnation."""

_NUMBERS_LEFT_OUT = 10_000
"""The table numbers that are skipped, more than are given between two writes of the counter to the store."""

_REASON = "the index was put back to an earlier time; what became of the write, the store alone knows"
_BEFORE_COMMIT = [str(state) for state in (State.OPEN, State.RESERVED, State.ABORTING)]


class Restoration(IndexPart):
    """Ends the unfinished work of a restored index, and makes its version numbers different from those before."""

    def begin(self, position: CounterPosition, newest_table: int) -> None:
        """End every unfinished transaction and delivery, and begin an incarnation; a second call does no harm.

        Args:
            position: The new incarnation and its first counter, greater than any that the store has recorded.
            newest_table: The greatest table number that the store has recorded.
        """
        complete(self._database)
        first = max(Incarnations(self._database).newest_table_number(), newest_table) + _NUMBERS_LEFT_OUT
        self._database.write(lambda connection: _begin(connection, position))
        # Separate and last, because DDL commits the transaction on MySQL. If it is repeated, only some unused numbers
        # are skipped.
        self._database.write(lambda connection: _raise_numbers(connection, first))

    def require_restoring(self) -> None:
        """Make every process refuse changes until ``catalog-ext restored`` has run."""
        properties.Properties(self._database).replace({RESTORING: "true"})

    def end_restoring(self) -> None:
        """Record that all tables have been compared with the store in this incarnation: changes are allowed again."""
        properties.Properties(self._database).replace({}, [RESTORING])


def _begin(connection: sa.Connection, position: CounterPosition) -> None:
    _end_transactions(connection)
    # Forget the directories of dropped tables, so that they are not deleted: another table may use them by now.
    d = dropped_tables.c
    connection.execute(sa.update(dropped_tables).where(d.location.is_not(None)).values(name=None, location=None))
    # The metastore may have received these messages, or later ones, already. It is compared with the index instead.
    connection.execute(sa.delete(outbox))
    _raise_versions(connection, position.incarnation * VERSIONS)
    values = {
        INCARNATION: str(position.incarnation), COUNTER: str(position.counter), COUNTER_MARK: new_mark(),
        RESTORING: "true",
    }  # fmt: skip
    properties.replace_in(connection, values)


def _end_transactions(connection: sa.Connection) -> None:
    """End all transactions: committed ones become finished, all others aborted.

    Aborted ones are marked as never reserved, so that their files are not taken for uncommitted: after the backup they
    may have been committed.
    """
    t, f = transactions.c, transaction_files.c
    undone, committed = t.state.in_(_BEFORE_COMMIT), t.state == str(State.COMMITTED)
    mine = sa.select(t.transaction_id).where(undone)
    connection.execute(sa.delete(transaction_claims).where(transaction_claims.c.transaction_id.in_(mine)))
    connection.execute(sa.delete(transaction_locations).where(transaction_locations.c.transaction_id.in_(mine)))
    # Keep the file lists of commands that move files: a process that died may have left files in a directory of its
    # own, and ``recover`` puts these back by the list.
    over = sa.select(t.transaction_id).where(sa.or_(undone, committed), ~t.plan.like(MOVES))
    ended = sa.select(t.transaction_id).where(committed)
    connection.execute(sa.delete(transaction_files).where(f.transaction_id.in_(over)))
    connection.execute(sa.delete(transaction_files).where(f.removal == 1, f.transaction_id.in_(ended)))
    values = {"state": str(State.ABORTED), "reserved": 0, "error": _REASON, "ended_at_ms": NOW_MS}
    connection.execute(sa.update(transactions).where(undone).values(**values))
    connection.execute(sa.update(transactions).where(committed).values(state=str(State.FINISHED)))


def _raise_versions(connection: sa.Connection, version: int) -> None:
    """Raise each table's version to the first one of the incarnation, which no earlier incarnation has used."""
    t, v = tables.c, table_versions.c
    last = sa.select(sa.func.max(v.committed_at_ms)).where(v.table_id == t.table_id).scalar_subquery()
    dated = sa.case((last > NOW_MS, last), else_=NOW_MS)
    behind = t.version < version
    columns = ["table_id", "version", "operation", "summary", "committed_at_ms"]
    rows = sa.select(t.table_id, sa.literal(version), sa.literal(OPERATION), sa.literal("{}"), dated).where(behind)
    connection.execute(sa.insert(table_versions).from_select(columns, rows))
    connection.execute(sa.update(tables).where(behind).values(version=version))


def _raise_numbers(connection: sa.Connection, first: int) -> None:
    """Make the database give the next table a number above ``first``."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = 'tables' AND seq < ?", (first,))
        connection.exec_driver_sql(
            "INSERT INTO sqlite_sequence (name, seq) SELECT 'tables', ?"
            " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'tables')",
            (first,),
        )
    elif connection.dialect.name == "postgresql":
        sequence = "pg_get_serial_sequence('tables', 'table_id')"
        connection.exec_driver_sql(f"SELECT setval({sequence}, greatest({first}, nextval({sequence})))")
    else:
        connection.exec_driver_sql(f"ALTER TABLE `tables` AUTO_INCREMENT = {first + 1}")
