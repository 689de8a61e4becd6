"""The lock of a table's row, which lets one committer of the table through at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import table_row_of
from catalog_ext.metastore.index.database.schema import namespaces, tables

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.rows import TableRow


def locked_row(connection: sa.Connection, table_id: int) -> TableRow | None:
    """Lock the table's row until the end of the transaction and return it; None for a table that is gone.

    Writers call ``partition_rows.lock_table``, which completes a deferred delete first.
    """
    row = LOCK.row(connection, {"table_id": table_id})
    return None if row is None else table_row_of(row)


def _lock_statement(dialect: str) -> sa.Select[Any]:
    namespace = sa.select(namespaces.c.name).where(namespaces.c.namespace_id == tables.c.namespace_id).scalar_subquery()
    now = database_now_ms(dialect).scalar_subquery().label("now_ms")
    columns = sa.select(tables, namespace.label("namespace"), now)
    return columns.where(tables.c.table_id == sa.bindparam("table_id")).with_for_update(of=tables)


LOCK = Prepared(_lock_statement)
"""The query of ``locked_row``."""
