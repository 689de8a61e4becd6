"""Rows of views: those of ``tables`` with the type VIEW, and what only views have in tables of their own."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
    ViewNotFoundError,
    ViewPartitionColumnsChangedError,
)
from catalog_ext.metastore.index.database.rows import definition_to_row
from catalog_ext.metastore.index.database.schema import tables, view_sources, views
from catalog_ext.metastore.index.tables import table_rows
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.views import Source, View, ViewQuery, is_automatic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition


def load_any(connection: sa.Connection, identifier: TableIdentifier) -> Table | View:
    """Return the table or view of this name.

    Raises:
        TableNotFoundError: There is neither.
    """
    table = table_rows.load_relation(connection, identifier)
    return _view(connection, table) if table.definition.table_type is TableType.VIEW else table


def load(connection: sa.Connection, identifier: TableIdentifier) -> View:
    """Return the view of this name.

    Raises:
        ViewNotFoundError: There is none; a table may be.
    """
    table = table_rows.find_relation(connection, identifier)
    if table is None:
        raise ViewNotFoundError(f"The view {identifier} does not exist.", {"view": str(identifier)})
    if table.definition.table_type is not TableType.VIEW:
        raise ViewNotFoundError(f"{identifier} is a table and no view.", {"view": str(identifier)})
    return _view(connection, table)


def _view(connection: sa.Connection, table: Table) -> View:
    row = connection.execute(sa.select(views).where(views.c.table_id == table.table_id)).mappings().one()
    details = json.loads(row["details"])
    for name in ("namespace", "query_columns", "tables"):
        details[name] = tuple(details[name])
    return View(table, ViewQuery(row["query_text"], **details))


def lock(connection: sa.Connection, table_id: int) -> None:
    """Take the row's lock before anything is read that is to be changed."""
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))


def lock_unchanged(connection: sa.Connection, view: View) -> bool:
    """Take the lock of a view's row, and return whether the view is there as it is given."""
    table_id = view.table.table_id
    lock(connection, table_id)
    row = connection.execute(sa.select(views.c.table_id).where(views.c.table_id == table_id)).scalar()
    if row is None:
        return False
    now = _view(connection, table_rows.load_row_by_id(connection, table_id).table)
    return (now.definition, now.query) == (view.definition, view.query)


def check_partition_columns(old: View, definition: TableDefinition) -> None:
    """Return if the view may have another definition.

    Raises:
        ViewPartitionColumnsChangedError: It has partitions, and its partition columns would be others.
    """
    had, wanted = ([(c.name.lower(), c.type) for c in d.partition_columns] for d in (old.definition, definition))
    if had != wanted and old.table.totals.partitions:
        shown = ", ".join(f"{name} {kind.upper()}" for name, kind in had)
        raise ViewPartitionColumnsChangedError(
            f"The view {old.identifier} has {old.table.totals.partitions} partitions by ({shown}), which a view with "
            "other partition columns cannot keep. Drop them first, or leave names, types and order as they are.",
            {"view": str(old.identifier)},
        )


def insert(
    connection: sa.Connection, table_id: int, definition: TableDefinition, query: ViewQuery,
    sources: Sequence[TableIdentifier],
) -> None:  # fmt: skip
    """Write down what only a view has, beside its row of ``tables``."""
    details = asdict(query)
    row = {
        "table_id": table_id,
        "query_text": _storable(details.pop("text"), definition),
        "details": to_json(details),
        "automatic": int(is_automatic(definition.properties)),
    }
    connection.execute(sa.insert(views), row)
    write_sources(connection, table_id, [Source(identifier) for identifier in sources])


def update(
    connection: sa.Connection, table_id: int, definition: TableDefinition, query: ViewQuery,
    sources: Sequence[TableIdentifier],
) -> None:  # fmt: skip
    """Write down another definition in place of a view's."""
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(**definition_to_row(definition)))
    connection.execute(sa.delete(views).where(views.c.table_id == table_id))
    connection.execute(sa.delete(view_sources).where(view_sources.c.table_id == table_id))
    insert(connection, table_id, definition, query, sources)


def _storable(text: str, definition: TableDefinition) -> str:
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInputError(
            f"The text of the view {definition.identifier} has characters that no database keeps.",
            {"view": str(definition.identifier)},
        )
    return text


def write_sources(connection: sa.Connection, table_id: int, sources: Sequence[Source]) -> None:
    """Write down which tables a view's partitions follow, in place of what is there."""
    connection.execute(sa.delete(view_sources).where(view_sources.c.table_id == table_id))
    rows = [
        {
            "table_id": table_id, "number": number, "namespace": s.identifier.namespace, "name": s.identifier.name,
            "seen_table_id": s.table_id, "seen_version": s.version,
        }
        for number, s in enumerate(sources)
    ]  # fmt: skip
    if rows:
        connection.execute(sa.insert(view_sources), rows)


def taken(identifier: TableIdentifier, there: Table) -> ViewAlreadyExistsError | TableAlreadyExistsError:
    """Return the error that a name is a view's or a table's already."""
    if there.definition.table_type is TableType.VIEW:
        return ViewAlreadyExistsError(
            f"The view {identifier} exists already. Drop it first, or say CREATE OR REPLACE VIEW.",
            {"view": str(identifier)},
        )
    return TableAlreadyExistsError(
        f"{identifier} is a table, which a view does not replace. Drop it first, or choose another name.",
        {"table": str(identifier)},
    )
