"""The rows of ``table_versions``, dated by the database: readers of the index have clocks that disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.schema import table_versions

if TYPE_CHECKING:
    from collections.abc import Mapping


def insert_version(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Add a version, at the time of the database, or that of the version before where that is later.

    Args:
        connection: In the transaction that makes the version.
        row: Of ``table_versions``, without its time.
    """
    v = table_versions.c
    before = sa.select(v.committed_at_ms).where(v.table_id == row["table_id"], v.version == row["version"] - 1)
    last = sa.func.coalesce(before.scalar_subquery(), 0)
    now = database_now_ms(connection.dialect.name).scalar_subquery()
    values = (sa.literal(value, v[name].type) for name, value in row.items())
    dated = sa.select(*values, sa.case((last > now, last), else_=now))
    connection.execute(sa.insert(table_versions).from_select([*row, "committed_at_ms"], dated))
