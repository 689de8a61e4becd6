"""What the index says of itself: which metastore and which warehouse are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexDatabaseError
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.schema import index_properties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.metastore.index.database.database import Database


class Properties:
    """The properties of an index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> dict[str, str]:
        """Return the properties by name."""
        with self._database.reading() as connection:
            return {row.name: row.value for row in connection.execute(sa.select(index_properties))}

    def add_missing(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the properties after those that were missing have been added: of two that add one, the first wins."""

        def add(connection: sa.Connection, name: str, value: str) -> None:
            connection.execute(sa.insert(index_properties), {"name": name, "value": value})

        there = self.load()
        for name, value in values.items():
            if name in there:
                continue
            try:
                self._database.write(lambda connection, n=name, v=value: add(connection, n, v))  # type: ignore[misc]
            except IndexDatabaseError as error:
                if not isinstance(error.__cause__, sa.exc.DBAPIError) or not is_duplicate(error.__cause__):
                    raise
        return self.load()

    def replace(self, values: Mapping[str, str], removed: Iterable[str] = ()) -> None:
        """Set properties and remove others, in one transaction."""
        self._database.write(lambda connection: replace_in(connection, values, removed))


def replace_in(connection: sa.Connection, values: Mapping[str, str], removed: Iterable[str] = ()) -> None:
    """Set properties and remove others in a transaction that has begun."""
    names = {*values, *removed}
    connection.execute(sa.delete(index_properties).where(index_properties.c.name.in_(names)))
    rows = [{"name": name, "value": value} for name, value in values.items()]
    if rows:
        connection.execute(sa.insert(index_properties), rows)
