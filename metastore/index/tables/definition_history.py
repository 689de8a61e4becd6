"""The definitions of a table at its versions: columns, partition columns, format, options and location.

An alteration that changes one of them makes a version without files, and stores the definition of the versions before
it in ``table_definitions``. The definition of the newest version is in ``tables``: loading it takes no further query.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import insert_version
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import definition_to_row, table_from_row
from catalog_ext.metastore.index.database.schema import namespaces, table_definitions, tables
from catalog_ext.metastore.index.tables.table_rows import load_row_by_id, not_found
from catalog_ext.metastore.model.json import columns_from_list, to_json
from catalog_ext.metastore.model.properties import ANALYZED_VERSION
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.model.tables import Table, TableDefinition

ALTER_TABLE = "ALTER TABLE"
"""The operation, in the history, of a version that changed only the table's definition."""

_KEPT = ("format", "location", "columns", "partition_columns", "options")
"""The parts of a definition that belong to a version. Name, properties and comment are always the present ones."""

_COLUMNS = ("columns", "partition_columns")


class DefinitionHistory(IndexPart):
    """Reads the definitions of tables at earlier versions."""

    def at(self, table: Table, version: int) -> Table:
        """Return a table at another version, with the definition of that version; its totals stay as they are.

        The definition has the present name, properties and comment. There is no query for the table's own version.

        Raises:
            TableNotFoundError: The table is gone.
        """
        if version == table.version:
            return table
        asked = {"table_id": table.table_id, "version": version}
        with self._database.reading() as connection:
            found = connection.execute(_AT, asked).mappings().one_or_none()
        if found is None:
            raise not_found(str(table.identifier))
        row = dict(found)
        definition = table_from_row(row).definition
        if row["then_format"] is not None:
            definition = replace(
                definition,
                format=row["then_format"],
                location=row["then_location"],
                columns=columns_from_list(json.loads(row["then_columns"])),
                partition_columns=columns_from_list(json.loads(row["then_partition_columns"])),
                options=json.loads(row["then_options"]),
            )
        return replace(table, version=version, definition=definition)


_D, _LATER = table_definitions.c, table_definitions.alias().c
_END = sa.select(sa.func.min(_LATER.end_version)).where(
    _LATER.table_id == sa.bindparam("table_id"), _LATER.end_version > sa.bindparam("version")
)
# One statement reads both definitions: between two statements, another alteration could end the present one.
_AT = (
    sa.select(tables, namespaces.c.name.label("namespace"), *(_D[name].label(f"then_{name}") for name in _KEPT))
    .select_from(
        tables.join(namespaces, namespaces.c.namespace_id == tables.c.namespace_id).outerjoin(
            table_definitions,
            sa.and_(_D.table_id == tables.c.table_id, _D.end_version == _END.scalar_subquery()),
        )
    )
    .where(tables.c.table_id == sa.bindparam("table_id"))
)


def changed_parts(before: TableDefinition, after: TableDefinition) -> list[str]:
    """Return the names of the parts that differ, and that belong to a version; comments of columns do not count."""
    return [name for name in _KEPT if _part(before, name) != _part(after, name)]


def _part(definition: TableDefinition, name: str) -> object:
    part = getattr(definition, name)
    return [replace(column, comment=None) for column in part] if name in _COLUMNS else part


def write_definition(connection: sa.Connection, table: Table, after: TableDefinition) -> Table:
    """Write the new definition of a table whose row is locked, and return the table; see ``Alterations.alter``."""
    version = table.version
    if changed := changed_parts(table.definition, after):
        version = _end_definition(connection, table, changed)
        after = _with_analyzed_version(after, changed, table.version, version)
    row = {**definition_to_row(after), "version": version}
    connection.execute(sa.update(tables).where(tables.c.table_id == table.table_id).values(**row))
    return replace(table, definition=after, version=version)


def _with_analyzed_version(
    after: TableDefinition, changed: Collection[str], before: int, version: int
) -> TableDefinition:
    """Return the new definition; results of ANALYZE for the version before the alteration hold for its version too.

    They do not if files are read by another format or other options.
    """
    if after.properties.get(ANALYZED_VERSION) != str(before) or {"format", "options"}.intersection(changed):
        return after
    return replace(after, properties={**after.properties, ANALYZED_VERSION: str(version)})


def _end_definition(connection: sa.Connection, table: Table, changed: Collection[str]) -> int:
    """Make a version without files that ends the table's present definition; return the version.

    The caller writes the version into the table's row. Claims and partitions do not change, so no writer conflicts with
    the version.
    """
    version = table.version + 1
    row = definition_to_row(table.definition)
    ended = {name: row[name] for name in _KEPT}
    connection.execute(sa.insert(table_definitions), {"table_id": table.table_id, "end_version": version, **ended})
    next_file = load_row_by_id(connection, table.table_id).next_file
    words = ", ".join(name.replace("_", " ") for name in changed)
    summary = to_json({"changed": words, "user": current_user()})
    insert_version(connection, table.table_id, version, ALTER_TABLE, summary, first_file_id=next_file)
    return version
