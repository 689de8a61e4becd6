"""Tables that were dropped and whose directories are still to be deleted: until then the directories are theirs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.schema import dropped_tables

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A dropped table whose directory is still to be deleted.

    Attributes:
        table_id: Its number, which no other table gets.
        name: ``namespace.name``.
        location: The directory.
        dropped_at_ms: When it was dropped, in milliseconds since the epoch, UTC.
    """

    table_id: int
    name: str
    location: str
    dropped_at_ms: int


def overlaps(column: sa.ColumnElement[Any], location: str) -> sa.ColumnElement[bool]:
    """Return the condition that a location is the given one, lies in it or around it."""
    location = location.rstrip("/")
    parts = location.split("/")
    around = ["/".join(parts[:i]) for i in range(1, len(parts) + 1)]
    return sa.or_(
        column.in_([*around, *(f"{a}/" for a in around)]),
        # "0" is the character after "/".
        sa.and_(column > f"{location}/", column < f"{location}0"),
    )


def undeleted(database: Database, location: str | None = None) -> list[DroppedTable]:
    """Return the dropped tables whose directories are still to be deleted, the oldest first.

    Args:
        database: The index.
        location: Only those that lie there, in it or around it.
    """
    with database.reading() as connection:
        return _undeleted(connection, location)


def check_location_free(connection: sa.Connection, definition: TableDefinition) -> None:
    """Return if no directory of a dropped table that is still to be deleted is the table's, or lies in or around it.

    Raises:
        ConflictError: One is.
    """
    there = _undeleted(connection, definition.location) if definition.location else []
    if there:
        raise ConflictError(
            f"Table {definition.identifier} cannot lie at {definition.location} yet: the files of table "
            f"{there[0].name}, which was dropped, are being deleted at {there[0].location}. Try again, or choose "
            "another location; if whoever dropped it has died, `catalog-ext recover --older-than 0s` deletes the rest.",
            {"table": str(definition.identifier), "location": definition.location},
        )


def note_deleted(database: Database, table_id: int) -> None:
    """Give a dropped table's directory free, once nothing is in it."""
    d = dropped_tables.c
    gone = sa.update(dropped_tables).where(d.table_id == table_id).values(name=None, location=None)
    database.write(lambda connection: connection.execute(gone))


def _undeleted(connection: sa.Connection, location: str | None) -> list[DroppedTable]:
    d = dropped_tables.c
    statement = sa.select(d.table_id, d.name, d.location, d.dropped_at_ms).where(d.location.is_not(None))
    if location is not None:
        statement = statement.where(overlaps(d.location, location))
    return [DroppedTable(*row) for row in connection.execute(statement.order_by(d.dropped_at_ms, d.table_id))]
