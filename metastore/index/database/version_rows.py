"""The rows of ``table_versions``, dated by the database: readers of the index have clocks that disagree."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import table_versions

if TYPE_CHECKING:
    from collections.abc import Mapping


def insert_version(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Add a version, at the time of the database, or that of the version before where that is later.

    Args:
        connection: In the transaction that makes the version.
        row: Of ``table_versions``, without its time.
    """
    _prepared(tuple(row)).run(connection, {**row, "version_before": row["version"] - 1})


_DATE = Prepared(
    sa.select(table_versions.c.committed_at_ms).where(
        table_versions.c.table_id == sa.bindparam("table_id"), table_versions.c.version == sa.bindparam("version")
    )
)


def version_date(connection: sa.Connection, table_id: int, version: int) -> int:
    """Return when a version was committed, in milliseconds since the epoch, UTC."""
    return int(_DATE.scalar(connection, {"table_id": table_id, "version": version}))


@cache
def _prepared(columns: tuple[str, ...]) -> Prepared:
    return Prepared(partial(_statement, columns))


def _statement(columns: tuple[str, ...], dialect: str) -> sa.Insert:
    v = table_versions.c
    values = {name: sa.bindparam(name, type_=v[name].type) for name in columns}
    before = sa.select(v.committed_at_ms).where(
        v.table_id == values["table_id"], v.version == sa.bindparam("version_before")
    )
    last = sa.func.coalesce(before.scalar_subquery(), 0)
    now = database_now_ms(dialect).scalar_subquery()
    dated = sa.select(*values.values(), sa.case((last > now, last), else_=now))
    return sa.insert(table_versions).from_select([*columns, "committed_at_ms"], dated)
