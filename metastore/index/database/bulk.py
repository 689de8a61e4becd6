"""Many rows into a table, by the quickest way of each database that shares the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sqlalchemy as sa

_COPY_FROM = 50


def insert_rows(
    connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert the rows, whose values stand in the order of the columns.

    Values go to the driver as they are: numbers, text and None need no conversion on any of the databases.
    """
    if not rows:
        return
    if connection.dialect.name == "postgresql" and len(rows) >= _COPY_FROM:
        _copy(connection, table, columns, rows)
        return
    preparer = connection.dialect.identifier_preparer
    names = ", ".join(preparer.quote(c) for c in columns)
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    marks = ", ".join([mark] * len(columns))
    connection.exec_driver_sql(
        f"INSERT INTO {preparer.quote(table.name)} ({names}) VALUES ({marks})",
        list(rows),
    )


def _copy(connection: sa.Connection, table: sa.Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
