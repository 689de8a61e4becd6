"""The rows of ``table_versions``, dated by the database: readers of the index have clocks that disagree."""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import database_now_ms
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import table_versions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index.database.database import Database


def insert_version(connection: sa.Connection, row: Mapping[str, Any]) -> None:
    """Add a row at the time of the database, or at that of the version before where that is later."""
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


_FAR_MS = 3_600_000
"""A clock that is about right is not set back by more."""

logger = logging.getLogger(__name__)


def correct_future_dates(database: Database, table_id: int) -> None:
    """Date the table's versions of a time far from come, and all of one to come, as if they were committed now.

    Later ones have their time, too (``insert_version``), so that none would be forgotten, nor its claims, before it.
    """
    v = table_versions.c
    now = database_now_ms(database.dialect).scalar_subquery()
    with database.reading() as connection:
        far = sa.select(v.version).where(v.table_id == table_id, v.committed_at_ms > now + _FAR_MS).limit(1)
        if connection.execute(far).first() is None:
            return
    ahead = sa.update(table_versions).where(v.table_id == table_id, v.committed_at_ms > now)
    count = database.change(ahead.values(committed_at_ms=now))
    logger.warning(
        "%d versions of the table with the number %d were dated in the future, by a wrong clock of the index's "
        "database; they are dated now, and are kept for the retention from now on.", count, table_id,
    )  # fmt: skip
