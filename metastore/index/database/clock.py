"""The time that the index writes down."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.prepared import Prepared

_MYSQL = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000"
_DATABASES = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}


def database_now_ms(dialect: str) -> sa.Select[Any]:
    """Return the query of the database's time in milliseconds since the epoch, UTC.

    Leases go by it, and all that the index dates: the hosts that compare and show it may have clocks that disagree.

    Args:
        dialect: ``Database.dialect``, or SQLAlchemy's name of it.
    """
    return sa.select(sa.literal_column(_DATABASES[dialect], sa.BigInteger()))


_NOW = Prepared(database_now_ms)


def now_ms(connection: sa.Connection) -> int:
    """Return the database's time."""
    return int(_NOW.scalar(connection))


def now_column(connection: sa.Connection) -> sa.Label[Any]:
    """Return the time of ``now_ms`` as a column, for a query that is sent anyway."""
    return database_now_ms(connection.dialect.name).scalar_subquery().label("now_ms")
