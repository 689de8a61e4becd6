"""Deferred deletes: a DELETE or overwrite of a whole large table sets the end version of its rows after its commit.

The commit writes its version into ``tables.deleted_before_version``, and readers ignore rows that began before that
version. The rows then get their end version in pages, in short transactions. Each writer that locks the table completes
the deferred delete first, so only readers must consider ``deleted_before_version``.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.index.database.database import RetryAfter
from catalog_ext.metastore.index.database.rows import PARTITION, locked_row, partition_of
from catalog_ext.metastore.index.database.schema import files, partition_ids, partitions, settlements, tables
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.write import transaction_rows
from catalog_ext.metastore.index.write.outbox import enqueue_dropped
from catalog_ext.metastore.index.write.removals import list_deferred

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

MANY = 10_000
"""A commit defers its delete if it removes more rows of partitions and files than this."""
_PAGE, _FILES = 1000, 5000
"""The most partitions, and about the most files, whose rows one transaction ends. Other writers wait for it."""
_OF = settlements.c
_SET_DELETED_BEFORE = sa.update(tables).where(tables.c.table_id == sa.bindparam("of_table"))


def defer(connection: sa.Connection, table: Table, transaction_id: str, now_ms: int, *, delivers: bool) -> None:
    """Defer the removal of all rows that began before the table's version; call it in the commit of that version.

    The caller holds the table's lock.
    """
    connection.execute(_SET_DELETED_BEFORE, {"of_table": table.table_id, "deleted_before_version": table.version})
    row = {
        "table_id": table.table_id, "version": table.version, "transaction_id": transaction_id,
        "delivers": int(delivers), "committed_at_ms": now_ms, "settled_id": partition_ids(table.table_id)[0] - 1,
    }  # fmt: skip
    connection.execute(sa.insert(settlements), row)


def require_complete(table_id: int, deleted_before: int) -> None:
    """Raise ``RetryAfter``, which completes the deferred delete, if the table's locked row has one pending."""
    if deleted_before:
        raise RetryAfter(partial(complete, table_id=table_id))


def require_write_complete(connection: sa.Connection, transaction_id: str) -> None:
    """Raise ``RetryAfter`` if a committed write has a deferred delete: its list of files to delete is incomplete."""
    if connection.execute(sa.select(_OF.version).where(_OF.transaction_id == transaction_id)).first():
        raise RetryAfter(partial(complete, transaction_id=transaction_id))


def complete(database: Database, **of: int | str) -> None:
    """End the index rows that deferred deletes have left, page by page.

    ``of`` selects one table (``table_id``) or one write (``transaction_id``); without it, all are completed.
    """
    with database.reading() as connection:
        chosen = connection.execute(sa.select(_OF.table_id, _OF.transaction_id).filter_by(**of)).all()
        rows = [transaction_rows.load_row(connection, each.transaction_id) for each in chosen]
    for each, row in zip(chosen, rows, strict=True):
        fault_point("deferred.before")
        end_page, left = partial(_end_page, **each._mapping, plan=transaction_rows.from_row(row).plan), True
        while left:
            left = database.write(end_page)
            fault_point("deferred.page")
        fault_point("deferred.after")


def _end_page(connection: sa.Connection, table_id: int, transaction_id: str, plan: WritePlan) -> bool:
    """End the rows of one page of partitions, record their files for deletion and enqueue messages about them.

    Returns False if no page was left: then the deferred delete is complete.
    """
    p, row = partitions.c, locked_row(connection, table_id)
    mine = sa.and_(_OF.table_id == table_id, _OF.transaction_id == transaction_id)
    delete = connection.execute(sa.select(settlements).where(mine)).one_or_none()
    if row is None or delete is None:
        return False
    unended = (p.partition_id < partition_ids(table_id)[1], p.end_version == ALIVE, p.begin_version < delete.version)
    next_page = sa.select(*PARTITION).where(p.partition_id > delete.settled_id, *unended).order_by(p.partition_id)
    found = [partition_of(each) for each in connection.execute(next_page.limit(_PAGE))]
    files_before = accumulate((each.files for each in found), initial=0)
    page = [each for each, before in zip(found, files_before, strict=False) if before < _FILES]
    if not page:
        connection.execute(sa.delete(settlements).where(mine))
        connection.execute(_SET_DELETED_BEFORE, {"of_table": table_id, "deleted_before_version": 0})
        return False
    list_deferred(connection, row.table, transaction_id, plan, page)
    if delete.delivers:
        names = [each.name for each in page if each.in_metastore]
        enqueue_dropped(connection, row.table, names, delete.committed_at_ms)
    numbers = [each.partition_id for each in page]
    for rows in (partitions, files):
        ended = (rows.c.partition_id.in_(numbers), rows.c.end_version == ALIVE, rows.c.begin_version < delete.version)
        connection.execute(sa.update(rows).where(*ended).values(end_version=delete.version))
    connection.execute(sa.update(settlements).where(mine).values(settled_id=numbers[-1]))
    return True
