"""The lock of a table's row, which lets one committer of the table through at a time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.schema import namespaces, tables

if TYPE_CHECKING:
    from collections.abc import Mapping


def locked_row(connection: sa.Connection, table_id: int) -> Mapping[str, Any] | None:
    """Return the table's row, which nobody else changes before the transaction ends; None where it is gone.

    It has ``namespace`` and ``now_ms`` besides. ``partition_rows.lock_table`` is what to call, except while settling.
    """
    statement = _lock_statement(connection.dialect.name)
    row = connection.execute(statement, {"table_id": table_id}).mappings().one_or_none()
    return None if row is None else dict(row)


@cache
def _lock_statement(dialect: str) -> sa.Select[Any]:
    namespace = sa.select(namespaces.c.name).where(namespaces.c.namespace_id == tables.c.namespace_id).scalar_subquery()
    now = database_now_ms(dialect).scalar_subquery().label("now_ms")
    columns = sa.select(tables, namespace.label("namespace"), now)
    return columns.where(tables.c.table_id == sa.bindparam("table_id")).with_for_update(of=tables)
