"""Settling: what a DELETE or overwrite of everything has ended at once is ended row by row after it.

Its commit raises the table's floor (``tables.floor_version``): for readers all that began before it has ended. Here the
rows follow, some thousands a transaction, each with what its partitions leave to be deleted on the store and what the
metastore has to hear of them; then the floor goes. Who wants the table's lock meanwhile (``partition_rows.lock_table``)
settles first, so that nobody but readers ever meets a floor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.commit.plan import CheckedWrite
from catalog_ext.metastore.index.database.database import ComesAfter
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import PARTITION, partition_of
from catalog_ext.metastore.index.database.schema import ALIVE, files, partition_ids, partitions, settlements, tables
from catalog_ext.metastore.index.write import transaction_rows
from catalog_ext.metastore.index.write.outbox import enqueue_dropped
from catalog_ext.metastore.index.write.removals import Removals
from catalog_ext.metastore.index.write.replaced_files import ReplacedFiles
from catalog_ext.metastore.index.write.table_lock import locked_row
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Partition, Table

FEW = 10_000
"""Rows of partitions and files that a commit ends itself: that takes less than what settling them would."""

_PAGE, _FILES = 1000, 5000
"""The most partitions that one transaction settles, and about the most files: others wait for it."""
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Settlement:
    """How far the rows of a table that began before ``version`` are settled: up to the partition ``settled_id``."""

    table_id: int
    version: int
    transaction_id: str
    delivers: bool
    committed_at_ms: int
    settled_id: int


def raise_floor(
    connection: sa.Connection, table: Table, transaction_id: str, now_ms: int, *, delivers: bool
) -> None:  # fmt: skip
    """End what the table's partitions were before its version, within the transaction that makes it.

    Args:
        connection: Holds the lock of the table's row.
        table: At the version.
        transaction_id: The write's.
        now_ms: When it is committed, in milliseconds since the epoch, UTC.
        delivers: Whether the metastore is to hear of it.
    """
    t = tables.c
    connection.execute(sa.update(tables).where(t.table_id == table.table_id).values(floor_version=table.version))
    row = {
        "table_id": table.table_id,
        "version": table.version,
        "transaction_id": transaction_id,
        "delivers": int(delivers),
        "committed_at_ms": now_ms,
        "settled_id": partition_ids(table.table_id)[0] - 1,
    }
    connection.execute(sa.insert(settlements), row)


def require_settled(table_id: int, floor: int) -> None:
    """Return where a table has no floor; otherwise the transaction runs again when it is settled.

    Raises:
        ComesAfter: It has one.
    """
    if floor:
        raise ComesAfter(lambda database: Settlements(database).settle(table_id))


class Settlements:
    """Ends rows one by one that a commit has ended at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def settle(self, table_id: int) -> None:
        """Settle a table, in short transactions; one without a floor needs nothing.

        Any number of processes may be at it; what one that dies has done is done.
        """
        self._settle(_OF_TABLE, table_id)

    def settle_write(self, transaction_id: str) -> None:
        """Settle what a committed write has ended, as ``settle``: then all that it leaves to be deleted is known."""
        self._settle(_OF_WRITE, transaction_id)

    def settle_all(self) -> None:
        """Settle every table, as before a migration to a release that knows no floors."""
        with self._database.reading() as connection:
            if not sa.inspect(connection).has_table(settlements.name):
                # Such a migration was interrupted, and goes on.
                return
            numbers = connection.execute(sa.select(settlements.c.table_id)).scalars().all()
        for table_id in numbers:
            self.settle(table_id)

    def _settle(self, which: Prepared, of: int | str) -> None:
        with self._database.reading() as connection:
            left = _found(connection, which, of)
        if left is None:
            return
        fault_point("settle.before")
        with self._database.reading() as connection:
            plan = transaction_rows.from_row(transaction_rows.load_row(connection, left.transaction_id)).plan
        while left is not None:
            # Read before the lock is taken: rows that nobody has settled meanwhile are as they were.
            page = self._page(left)
            left = self._database.write(partial(_settle_page, before=left, page=page, plan=plan))
            fault_point("settle.page")
        fault_point("settle.after")

    def _page(self, left: _Settlement) -> list[Partition]:
        """Return the next partitions that are to be settled, in the order of their numbers; or none."""
        p, high = partitions.c, partition_ids(left.table_id)[1]
        statement = (
            sa.select(*PARTITION)
            .where(
                p.partition_id > left.settled_id, p.partition_id < high,
                p.end_version == ALIVE, p.begin_version < left.version,
            )
            .order_by(p.partition_id)
            .limit(_PAGE)
        )  # fmt: skip
        with self._database.reading() as connection:
            found = [partition_of(row) for row in connection.execute(statement)]
        n_files = 0
        for number, partition in enumerate(found, start=1):
            n_files += partition.files
            if n_files >= _FILES:
                return found[:number]
        return found


def is_unsettled(connection: sa.Connection, transaction_id: str) -> bool:
    """Return whether a committed write has ended rows whose files it has not listed to be deleted yet."""
    return _found(connection, _OF_WRITE, transaction_id) is not None


def _found(connection: sa.Connection, which: Prepared, of: int | str) -> _Settlement | None:
    row = which.row(connection, {"of": of})
    return None if row is None else _Settlement(**row)


def _settlement_of(column: sa.Column[Any]) -> Prepared:
    s = settlements.c
    columns = (s.table_id, s.version, s.transaction_id, s.delivers, s.committed_at_ms, s.settled_id)
    return Prepared(sa.select(*columns).where(column == sa.bindparam("of")))


_OF_TABLE = _settlement_of(settlements.c.table_id)
_OF_WRITE = _settlement_of(settlements.c.transaction_id)


def _settle_page(
    connection: sa.Connection, before: _Settlement, page: Sequence[Partition], plan: WritePlan
) -> _Settlement | None:
    """Settle some rows of partitions, or without any remove the floor; return what is left, None when all is done."""
    row = locked_row(connection, before.table_id)
    mine = sa.and_(settlements.c.table_id == before.table_id, settlements.c.version == before.version)
    now = _found(connection, _OF_TABLE, before.table_id)
    if row is None or now is None or now.version != before.version:
        return None
    if now.settled_id != before.settled_id:
        # Somebody else is at it.
        return now
    if not page:
        connection.execute(sa.delete(settlements).where(mine))
        connection.execute(sa.update(tables).where(tables.c.table_id == now.table_id).values(floor_version=0))
        return None
    _end(connection, now, row.table, page, plan)
    settled_id = page[-1].partition_id
    connection.execute(sa.update(settlements).where(mine).values(settled_id=settled_id))
    return replace(now, settled_id=settled_id)


def _end(connection: sa.Connection, by: _Settlement, table: Table, page: Sequence[Partition], plan: WritePlan) -> None:
    assert isinstance(plan.change, CheckedWrite), "nothing else ends everything"
    removals = Removals(connection, by.transaction_id)
    for name, found in plan.change.unknown.items():
        # The commit has them, as they were found.
        removals.pass_over(table.directory(name), found)
    ReplacedFiles(plan, replace(plan.change, unknown={}), table, removals).remove((), page)
    removals.flush()
    if by.delivers:
        names = [partition.name for partition in page if partition.in_metastore]
        enqueue_dropped(connection, table, names, by.committed_at_ms)
    for some in batched([partition.partition_id for partition in page], _AT_ONCE):
        for rows in (partitions, files):
            connection.execute(
                sa.update(rows)
                .where(
                    rows.c.partition_id.in_(some), rows.c.end_version == ALIVE, rows.c.begin_version < by.version
                )
                .values(end_version=by.version)
            )  # fmt: skip
