"""The end of tables and views: their names are free at once, and their rows are removed in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import (
    PARTITION_NUMBER_BITS,
    applications,
    dropped_tables,
    file_statistics,
    files,
    followed_tables,
    forgotten_transactions,
    partition_descriptors,
    partition_sums,
    partitions,
    repairs,
    settlements,
    skipped_paths,
    table_versions,
    tables,
    transaction_claims,
    verifications,
    view_partition_dependencies,
    view_sources,
    views,
    waiting_files,
)
from catalog_ext.metastore.index.tables.drop_checks import check_droppable, check_nothing_waits
from catalog_ext.metastore.index.tables.dropped import overlap, overlaps
from catalog_ext.metastore.index.tables.namespaces import lock_namespace
from catalog_ext.metastore.index.tables.table_rows import load, not_found
from catalog_ext.metastore.index.write.deferred_deletes import require_complete
from catalog_ext.metastore.index.write.outbox import enqueue, forget_table
from catalog_ext.metastore.messages import DropTable
from catalog_ext.metastore.runtime.local_paths import directory_identity

if TYPE_CHECKING:
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table


_ROWS_AT_ONCE = 5000


def drop_within(
    connection: sa.Connection, identifier: TableIdentifier, *, deliver: bool, purge: bool, deletes: bool = False,
    keeps_files: bool = False, by: str | None = None,
) -> Table:  # fmt: skip
    """Drop a table within a transaction; ``remove_dropped_rows`` has to be called after it.

    Raises:
        TableNotFoundError: There is none of this name.
        ConflictError, TableLayoutError: See ``drop_checks``.
    """
    if deletes:
        # A creation in the directory comes before this, or finds that the directory is being deleted.
        lock_namespace(connection, identifier.namespace)
    table = load(connection, identifier)
    # A reservation that moves files of the table comes before this, or finds the table gone.
    connection.execute(sa.select(tables.c.table_id).where(tables.c.table_id == table.table_id).with_for_update())
    # Another process may have renamed or moved it before the lock.
    table = load(connection, identifier)
    require_complete(table.table_id, table.floor)
    check_droppable(connection, table, deletes=deletes, by=by)
    if keeps_files:
        # After the lock: an epoch that keeps rows back has committed them before it, or finds the table gone.
        check_nothing_waits(connection, table)
    forget_within(connection, table, deletes=deletes)
    if deliver:
        enqueue(connection, DropTable(table.definition, purge), table.table_id)
    return table


def forget_within(connection: sa.Connection, table: Table, *, deletes: bool = False) -> None:
    """Free a table's or view's name within a transaction; ``remove_dropped_rows`` has to be called after it.

    Raises:
        TableNotFoundError: It is gone.
    """
    if not connection.execute(sa.delete(tables).where(tables.c.table_id == table.table_id)).rowcount:
        raise not_found(str(table.identifier))
    hand_over_forgotten(connection, table)
    row = {
        "table_id": table.table_id,
        "dropped_at_ms": now_ms(connection),
        "name": str(table.identifier) if deletes else None,
        "location": table.definition.location if deletes else None,
        "directory": directory_identity(table.definition.location) if deletes else None,
    }
    connection.execute(sa.insert(dropped_tables), row)
    forget_table(connection, table.table_id)


def hand_over_forgotten(connection: sa.Connection, table: Table) -> None:
    """Give the ids of forgotten writes to another table over the directory, whose vacuum finds what they have left."""
    if not table.definition.location:
        return
    asked = overlap(table.definition.location)
    around = sa.select(tables.c.table_id).where(overlaps(tables.c.location, asked))
    successor = connection.execute(around.order_by(tables.c.table_id).limit(1), asked).scalar()
    if successor is not None:
        f = forgotten_transactions.c
        mine = sa.update(forgotten_transactions).where(f.table_id == table.table_id)
        connection.execute(mine.values(table_id=successor))


def remove_some(connection: sa.Connection, table_id: int) -> bool:
    """Remove some thousand rows of a dropped table; return whether any may be left."""
    low = table_id << PARTITION_NUMBER_BITS
    high = low + (1 << PARTITION_NUMBER_BITS)
    for find_end, remove in _REMOVE_BY_PARTITION:
        end = connection.execute(find_end, {"low": low, "high": high, "rows": _ROWS_AT_ONCE}).scalar()
        if connection.execute(remove, {"low": low, "high": high if end is None else end + 1}).rowcount:
            return True
    for remove in _REMOVE_BY_TABLE:
        connection.execute(remove, {"table_id": table_id})
    return False


def _by_partition(rows: sa.Table) -> tuple[sa.Select[int], sa.Delete]:
    """Return the query for the last of so many rows between two numbers of partitions, and what removes them."""
    ids = rows.c.partition_id
    between = (ids >= sa.bindparam("low"), ids < sa.bindparam("high"))
    some = sa.select(ids).where(*between).order_by(ids).limit(1).offset(sa.bindparam("rows"))
    return some, sa.delete(rows).where(*between)


def _by_table(rows: sa.Table, *also: sa.ColumnElement[bool]) -> sa.Delete:
    return sa.delete(rows).where(rows.c.table_id == sa.bindparam("table_id"), *also)


_REMOVE_BY_PARTITION = tuple(
    _by_partition(rows) for rows in (files, file_statistics, view_partition_dependencies, partitions)
)

_REMOVE_BY_TABLE = (
    *(_by_table(rows) for rows in (
        table_versions, partition_sums, applications, transaction_claims, waiting_files, forgotten_transactions,
        repairs, skipped_paths, verifications, views, view_sources, settlements, followed_tables, partition_descriptors,
    )),
    _by_table(dropped_tables, dropped_tables.c.location.is_(None)),
)  # fmt: skip
