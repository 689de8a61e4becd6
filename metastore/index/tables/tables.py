"""Finds, creates and drops tables in the index; their partitions and files are read by other modules."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import dropped_tables, namespaces, table_versions, tables
from catalog_ext.metastore.index.tables.dropped import overlap, overlaps
from catalog_ext.metastore.index.tables.dropping import drop_within, remove_some
from catalog_ext.metastore.index.tables.namespaces import namespace_not_found, namespace_number
from catalog_ext.metastore.index.tables.table_rows import create_within, load, load_row_by_id
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from catalog_ext.metastore.model.changes import Summary
    from catalog_ext.metastore.model.tables import Table, TableDefinition


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A commit in a table's history.

    Attributes:
        operation: The operation that made the version (``create``, ``repair``, ...).
        committed_at_ms: The commit time, in milliseconds since the epoch, UTC.
        summary: Counts and other facts about the commit.
    """

    version: int
    operation: str
    committed_at_ms: int
    summary: Summary


class Tables(IndexPart):
    """Reads, creates and drops the tables of an index."""

    def all(self, namespace: str, *, of_views: bool = False) -> list[str]:
        """Return the sorted names of the namespace's tables, or of its views, by one query.

        Raises:
            NamespaceNotFoundError: There is no namespace of this name.
        """
        statement = (
            sa.select(tables.c.table_type, tables.c.name)
            .select_from(namespaces.outerjoin(tables, tables.c.namespace_id == namespaces.c.namespace_id))
            .where(namespaces.c.name == namespace)
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement).all()
        if not rows:
            raise namespace_not_found(namespace)
        return sorted(name for kind, name in rows if name is not None and (kind == TableType.VIEW) is of_views)

    def load(self, identifier: TableIdentifier) -> Table:
        """Return the table of this name at its newest version, by one query.

        Raises:
            TableNotFoundError: There is no table of this name.
        """
        with self._database.reading() as connection:
            return self._noted(load(connection, identifier))

    def load_by_id(self, table_id: int) -> Table:
        """Return the table with this number at its newest version.

        Raises:
            TableNotFoundError: There is no table with this number.
        """
        with self._database.reading() as connection:
            return self._noted(load_row_by_id(connection, table_id).table)

    def had_files(self, table_id: int) -> bool:
        """Return whether a version of the table had a file.

        Raises:
            TableNotFoundError: There is no table with this number.
        """
        with self._database.reading() as connection:
            return load_row_by_id(connection, table_id).next_file > 0

    def find(self, key: int | TableIdentifier) -> Table | None:
        """Return the table with a number or a name; None if it does not exist."""
        try:
            return self.load_by_id(key) if isinstance(key, int) else self.load(key)
        except TableNotFoundError:
            return None

    def _noted(self, table: Table) -> Table:
        self._database.note_version(table.table_id, table.version)
        return table

    def create(self, definition: TableDefinition, *, deliver: bool) -> Table:
        """Add a table to the index, at version 0 and without partitions, and return it.

        Raises:
            NamespaceNotFoundError: The table's namespace does not exist.
            TableAlreadyExistsError: A table or view of this name exists already.
        """
        identifier = definition.identifier

        def work(connection: sa.Connection) -> Table:
            namespace_id = namespace_number(connection, identifier.namespace, locks=True)
            return create_within(connection, definition, namespace_id, deliver=deliver)

        return self._database.write(work)

    def drop(
        self,
        identifier: TableIdentifier,
        *,
        deliver: bool,
        purge: bool = False,
        deletes: bool = False,
        keeps_files: bool = False,
    ) -> Table:
        """Drop the table and return its last state.

        The name is freed at once; the rows are removed in batches, so that no lock is held for long. With ``deletes``,
        no other table may use the directory until ``DroppedTables.note_deleted`` is called.

        Raises:
            TableNotFoundError: There is no table of this name.
            ConflictError: Files of the table are being moved, another table is being created in its directory, or (with
                ``keeps_files``) a stream holds back files in the table until their partitions are due.
            TableLayoutError: With ``deletes``: another table, or a partition of another table, lies in the directory.
        """

        def work(connection: sa.Connection) -> Table:
            return drop_within(
                connection, identifier, deliver=deliver, purge=purge, deletes=deletes, keeps_files=keeps_files
            )

        table = self._database.write(work)
        self.remove_dropped_rows()
        return table

    def remove_dropped_rows(self) -> None:
        """Remove the rows of every dropped table, also after an interrupted drop."""
        with self._database.reading() as connection:
            dropped = connection.execute(sa.select(dropped_tables.c.table_id)).scalars().all()
        for table_id in dropped:
            while self._database.write(lambda connection, t=table_id: remove_some(connection, t)):  # type: ignore[misc]
                pass

    def overlapping(self, location: str) -> list[TableIdentifier]:
        """Return the tables whose location equals, lies in or contains this one, sorted; symbolic links count."""
        asked = overlap(location)
        statement = (
            sa.select(namespaces.c.name.label("namespace"), tables.c.name)
            .join(tables, tables.c.namespace_id == namespaces.c.namespace_id)
            .where(overlaps(tables.c.location, asked))
        )
        with self._database.reading() as connection:
            rows = connection.execute(statement, asked).all()
        return sorted(TableIdentifier(row.namespace, row.name) for row in rows)

    def locations(self) -> list[tuple[int, str]]:
        """Return the number and the location of each table; views have no location."""
        statement = sa.select(tables.c.table_id, tables.c.location).where(tables.c.location.is_not(None))
        with self._database.reading() as connection:
            return [(row.table_id, row.location) for row in connection.execute(statement)]

    def known_locations(self) -> list[str]:
        """Return the locations of all namespaces and tables."""
        places = (sa.select(of.c.location).where(of.c.location.is_not(None)) for of in (namespaces, tables))
        with self._database.reading() as connection:
            return list(connection.execute(sa.union(*places)).scalars())

    def history(self, identifier: TableIdentifier) -> list[TableVersion]:
        """Return the table's commits, newest first; version 0 is its creation.

        Raises:
            TableNotFoundError: There is no table of this name.
        """
        with self._database.reading() as connection:
            table_id = load(connection, identifier).table_id
            v = table_versions.c
            rows = connection.execute(
                sa.select(v.version, v.operation, v.committed_at_ms, v.summary)
                .where(v.table_id == table_id)
                .order_by(v.version.desc())
            ).all()
        return [TableVersion(version, operation, at, json.loads(summary)) for version, operation, at, summary in rows]
