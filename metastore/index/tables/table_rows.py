"""The rows of tables, within a database transaction: loaded, locked, created and renamed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import TableAlreadyExistsError, TableNotFoundError
from catalog_ext.metastore.index.database.clock import NOW_MS, insert_version
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.migration import require_same, revision_column
from catalog_ext.metastore.index.database.prepared import Prepared
from catalog_ext.metastore.index.database.rows import definition_to_row, table_from_row, table_row_of
from catalog_ext.metastore.index.database.schema import namespaces, tables
from catalog_ext.metastore.index.tables.dropped import check_location_free
from catalog_ext.metastore.index.tables.namespaces import namespace_not_found, namespace_number
from catalog_ext.metastore.index.write.outbox import enqueue
from catalog_ext.metastore.messages import CreateTable
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.runtime.users import current_user

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.index.database.rows import TableRow
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition


SELECT = sa.select(tables, namespaces.c.name.label("namespace")).join(namespaces)

BY_NAME = Prepared(
    SELECT.where(namespaces.c.name == sa.bindparam("in_namespace"), tables.c.name == sa.bindparam("named"))
)


def load(connection: sa.Connection, identifier: TableIdentifier) -> Table:
    """Return the table of this name; see ``Tables.load``.

    Raises:
        TableNotFoundError: There is no table of this name; there may be a view.
    """
    table = load_relation(connection, identifier)
    if table.definition.table_type is TableType.VIEW:
        raise TableNotFoundError(f"{identifier} is a view and no table.", {"table": str(identifier)})
    return table


def load_relation(connection: sa.Connection, identifier: TableIdentifier) -> Table:
    """Return the table or view of this name, as a ``Table``.

    Raises:
        TableNotFoundError: There is no table or view of this name.
    """
    found = find_relation(connection, identifier)
    if found is None:
        raise not_found(str(identifier))
    return found


def find_relation(connection: sa.Connection, identifier: TableIdentifier) -> Table | None:
    """Return the table or view of this name, as a ``Table``; None if there is no table or view of this name."""
    row = BY_NAME.row(connection, {"in_namespace": identifier.namespace, "named": identifier.name})
    return None if row is None else table_from_row(row)


def lock(connection: sa.Connection, table_id: int) -> None:
    """Lock the table's row until the end of the transaction; call it before reading anything that will be changed."""
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))


def rename_within(connection: sa.Connection, table: Table, to: TableIdentifier, taken: CatalogExtError) -> Table:
    """Rename a table or view, perhaps into another namespace, and return it with its new name.

    Raises:
        NamespaceNotFoundError: The new name's namespace does not exist.
        CatalogExtError: A table or view has the new name already: raises ``taken``.
    """
    place = {"namespace_id": namespace_number(connection, to.namespace), "name": to.name}
    try:
        connection.execute(sa.update(tables).where(tables.c.table_id == table.table_id).values(place))
    except sa.exc.IntegrityError as error:
        if not is_duplicate(error):
            raise
        raise taken from error
    return replace(table, definition=replace(table.definition, identifier=to))


def load_row_by_id(connection: sa.Connection, table_id: int) -> TableRow:
    """Return the row of the table with this number.

    Raises:
        TableNotFoundError: There is no table with this number.
        IndexNotAtHeadError: Another process has migrated the index since it was opened.
    """
    row = _BY_ID.row(connection, {"table_id": table_id})
    if row is None:
        raise not_found(f"with the id {table_id}")
    require_same(row["revision"])
    return table_row_of(row)


_BY_ID = Prepared(
    SELECT.add_columns(NOW_MS.label("now_ms"), revision_column().label("revision")).where(
        tables.c.table_id == sa.bindparam("table_id")
    )
)


def not_found(which: str) -> TableNotFoundError:
    """Return the error of a table that is not in the index."""
    return TableNotFoundError(f"The table {which} does not exist in the index.", {"table": which})


def create_within(connection: sa.Connection, definition: TableDefinition, namespace_id: int, *, deliver: bool) -> Table:
    """Create a table within a transaction, in an existing namespace.

    Raises:
        TableAlreadyExistsError: A table or view of this name exists already.
        ConflictError: Files of a dropped table are still being deleted at the location.
    """
    check_location_free(connection, definition.identifier, definition.location)
    table_id = _insert(connection, definition, namespace_id)
    summary = to_json({"user": current_user()})
    insert_version(connection, table_id, 0, "create", summary)
    if deliver:
        enqueue(connection, CreateTable(definition), table_id)
    return load_row_by_id(connection, table_id).table


def _insert(connection: sa.Connection, definition: TableDefinition, namespace_id: int) -> int:
    zeros = dict.fromkeys(
        ("version", "total_partitions", "total_files", "total_bytes", "counted_rows", "uncounted_partitions",
         "next_partition_number", "next_file_id", "has_long_keys", "oldest_version", "claims_from",
         "deleted_before_version", "has_descriptors"), 0,
    )  # fmt: skip
    # ``statistics_after`` marks columns whose name belonged to another column before. A new table has no older
    # statistics, so drop marks that were copied from another table's columns (CREATE TABLE LIKE).
    columns = tuple(replace(column, statistics_after=None) for column in definition.columns)
    own = replace(definition, columns=columns)
    row = {**definition_to_row(own), **zeros, "namespace_id": namespace_id}
    try:
        key = connection.execute(_INSERT, row).inserted_primary_key
    except sa.exc.IntegrityError as error:
        if not is_duplicate(error):
            raise namespace_not_found(definition.identifier.namespace) from error
        raise TableAlreadyExistsError(
            f"The table (or view) {definition.identifier} exists already. Choose another name, or unregister it first.",
            {"table": str(definition.identifier)},
        ) from error
    return int(key[0]) if key is not None else 0


_INSERT = sa.insert(tables).values(created_at_ms=NOW_MS)


def raise_version(connection: sa.Connection, table_id: int) -> TableRow:
    """Raise the version of a table by one, which locks its row, and return the row.

    Raises:
        TableNotFoundError: The table is gone.
    """
    raised = sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version + 1)
    if not connection.execute(raised).rowcount:
        raise TableNotFoundError(f"The table with the id {table_id} does not exist in the index any more.")
    return load_row_by_id(connection, table_id)
