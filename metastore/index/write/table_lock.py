"""The lock of a table's row, which lets one committer of the table through at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import namespaces, tables

if TYPE_CHECKING:
    from collections.abc import Mapping


def locked_row(connection: sa.Connection, table_id: int) -> Mapping[str, Any] | None:
    """Return the table's row, which nobody else changes before the transaction ends; None where it is gone.

    It has ``namespace`` and ``now_ms`` besides. Writers call ``partition_rows.lock_table``, which completes a deferred
    delete first.
    """
    return LOCK.row(connection, {"table_id": table_id})


def _lock_statement(dialect: str) -> sa.Select[Any]:
    namespace = sa.select(namespaces.c.name).where(namespaces.c.namespace_id == tables.c.namespace_id).scalar_subquery()
    now = database_now_ms(dialect).scalar_subquery().label("now_ms")
    columns = sa.select(tables, namespace.label("namespace"), now)
    return columns.where(tables.c.table_id == sa.bindparam("table_id")).with_for_update(of=tables)


LOCK = Prepared(_lock_statement)
"""The query of ``locked_row``."""
