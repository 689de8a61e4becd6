"""The database's clock, and new rows of ``table_versions`` dated by that clock: clocks of hosts may disagree."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.schema import table_versions

if TYPE_CHECKING:
    from sqlalchemy.sql.compiler import SQLCompiler

    from catalog_ext.metastore.index.database.database import Database

logger = logging.getLogger(__name__)

FAR_MS = 3_600_000
"""One hour. A smaller lead over the clock is tolerated, since correct clocks are set back by less."""
_MYSQL = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000"
_DATABASES = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}


class _DatabaseTime(FunctionElement[int]):
    """SQL expression for the database's time in milliseconds since the epoch, UTC.

    This is a ``FunctionElement`` because a plain ``ColumnElement`` has no cache key: SQLAlchemy would then compile each
    statement that contains the expression at every execution.
    """

    type = sa.BigInteger()
    inherit_cache = True


@compiles(_DatabaseTime)
def _sql_of_time(_: _DatabaseTime, compiler: SQLCompiler, **_options: Any) -> str:  # noqa: ANN401 -- SQLAlchemy's
    # A subquery is evaluated once per statement. PostgreSQL would evaluate a plain function call for each row, and
    # would not use an index for a comparison with it.
    return f"(SELECT {_DATABASES[compiler.dialect.name]})"


NOW_MS = _DatabaseTime()
"""SQL expression for the database's time: leases expire by it, and all times in the index are taken from it."""

_NOW = Prepared(sa.select(NOW_MS.label("now_ms")))


def now_ms(connection: sa.Connection) -> int:
    """Return the database's time, in milliseconds since the epoch, UTC."""
    return int(_NOW.scalar(connection))


_V = table_versions.c
_GIVEN = ("table_id", "version", "operation", "summary", "transaction_id", "first_file_id")
_NEW = {name: sa.bindparam(f"new_{name}", type_=_V[name].type) for name in _GIVEN}
_BEFORE = sa.select(_V.committed_at_ms).where(
    _V.table_id == _NEW["table_id"], _V.version == sa.bindparam("version_before")
)
_LAST = sa.func.coalesce(_BEFORE.scalar_subquery(), 0)
_INSERT_VERSION = Prepared(
    sa.insert(table_versions).from_select(
        [*_NEW, "committed_at_ms"], sa.select(*_NEW.values(), sa.case((_LAST > NOW_MS, _LAST), else_=NOW_MS))
    )
)


def insert_version(
    connection: sa.Connection, table_id: int, version: int, operation: str, summary: str, *,
    transaction_id: str | None = None, first_file_id: int | None = None,
) -> None:  # fmt: skip
    """Insert a row into ``table_versions``, dated by the database's clock, but not before the previous version.

    ``summary`` is JSON. ``first_file_id`` is the number of the first file that the version adds.
    """
    values = (table_id, version, operation, summary, transaction_id, first_file_id)
    new = {f"new_{name}": value for name, value in zip(_GIVEN, values, strict=True)}
    _INSERT_VERSION.run(connection, {**new, "version_before": version - 1})


_DATE = Prepared(
    sa.select(_V.committed_at_ms).where(_V.table_id == sa.bindparam("table_id"), _V.version == sa.bindparam("version"))
)


def version_date(connection: sa.Connection, table_id: int, version: int) -> int:
    """Return when a version was committed, in milliseconds since the epoch, UTC."""
    return int(_DATE.scalar(connection, {"table_id": table_id, "version": version}))


def correct_future_dates(database: Database, table_id: int) -> None:
    """If a table has a version dated more than an hour in the future, date all its future versions as committed now.

    A later version never gets an earlier time (``insert_version``). Without the correction, no version and no claim
    would expire before that future date.
    """
    with database.reading() as connection:
        far = sa.select(_V.version).where(_V.table_id == table_id, _V.committed_at_ms > NOW_MS + FAR_MS).limit(1)
        if connection.execute(far).first() is None:
            return
    ahead = sa.update(table_versions).where(_V.table_id == table_id, _V.committed_at_ms > NOW_MS)
    count = database.change(ahead.values(committed_at_ms=NOW_MS))
    logger.warning(
        "%d versions of the table with the number %d were dated in the future, by a wrong clock of the index's "
        "database; they are dated now, and are kept for the retention from now on.", count, table_id,
    )  # fmt: skip
