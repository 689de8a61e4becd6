"""Views in the index: rows of ``tables`` of the type VIEW, with what only views have in tables of their own."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
    ViewNotFoundError,
    ViewPartitionColumnsChangedError,
)
from catalog_ext.metastore.index.database.failures import is_duplicate
from catalog_ext.metastore.index.database.schema import namespaces, tables, view_sources, views
from catalog_ext.metastore.index.tables import tables as table_rows
from catalog_ext.metastore.index.tables.namespaces import namespace_not_found
from catalog_ext.metastore.index.tables.view_partitions import published_partitions, set_partitions
from catalog_ext.metastore.index.write.outbox import enqueue, enqueue_changes
from catalog_ext.metastore.messages import DropView, PutView
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import definition_to_row, table_from_row, to_json
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.views import Source, View, ViewQuery, is_automatic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.changes import Commit
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.views import Dependency

_NOT_THERE = -1


def load_relation(database: Database, identifier: TableIdentifier) -> Table | View:
    """The table or view of this name: one query for a table, two for a view.

    Raises:
        TableNotFoundError: There is neither.
    """
    with database.reading() as connection:
        return load_any(connection, identifier)


def load_any(connection: sa.Connection, identifier: TableIdentifier) -> Table | View:
    """``load_relation`` within a transaction."""
    table = table_from_row(table_rows.load_row(connection, identifier))
    return _view(connection, table) if table.definition.table_type is TableType.VIEW else table


def load(connection: sa.Connection, identifier: TableIdentifier) -> View:
    """The view of this name.

    Raises:
        ViewNotFoundError: There is none; a table may be.
    """
    row = table_rows.find_row(connection, identifier)
    if row is None:
        raise ViewNotFoundError(f"The view {identifier} does not exist.", {"view": str(identifier)})
    table = table_from_row(row)
    if table.definition.table_type is not TableType.VIEW:
        raise ViewNotFoundError(f"{identifier} is a table and no view.", {"view": str(identifier)})
    return _view(connection, table)


def _view(connection: sa.Connection, table: Table) -> View:
    row = connection.execute(sa.select(views).where(views.c.table_id == table.table_id)).mappings().one()
    details = json.loads(row["details"])
    for name in ("namespace", "query_columns", "tables"):
        details[name] = tuple(details[name])
    return View(table, ViewQuery(row["query_text"], **details))


def list_views(database: Database, namespace: str) -> list[str]:
    """The names of the namespace's views, sorted.

    Raises:
        NamespaceNotFoundError: There is no such namespace.
    """
    return table_rows.list_names(database, namespace, of_views=True)


def create_view(
    database: Database, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *,
    deliver: bool,
) -> View:  # fmt: skip
    """The view, now in the index.

    Raises:
        NamespaceNotFoundError: Its namespace does not exist.
        ViewAlreadyExistsError, TableAlreadyExistsError: The name is a view's or a table's.
    """
    identifier = definition.identifier

    def work(connection: sa.Connection) -> View:
        there = table_rows.find_row(connection, identifier)
        if there is not None:
            raise _taken(identifier, table_from_row(there))
        statement = sa.select(namespaces.c.namespace_id).where(namespaces.c.name == identifier.namespace)
        namespace_id = connection.execute(statement).scalar()
        if namespace_id is None:
            raise namespace_not_found(identifier.namespace)
        table = table_rows.create_within(connection, definition, namespace_id, deliver=False)
        _write(connection, table.table_id, definition, query, sources)
        if deliver:
            enqueue(connection, PutView(definition, query), table.table_id)
        return View(table, query)

    return database.write(work)


def replace_view(
    database: Database, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *,
    deliver: bool,
) -> View:  # fmt: skip
    """The view with another definition; it keeps its partitions.

    Raises:
        ViewNotFoundError: There is none of this name.
        ViewPartitionColumnsChangedError: It has partitions, and its partition columns would be others.
    """

    def work(connection: sa.Connection) -> View:
        table_id = load(connection, definition.identifier).table.table_id
        _lock(connection, table_id)
        old = load(connection, definition.identifier)
        _check_partition_columns(old, definition)
        connection.execute(
            sa.update(tables).where(tables.c.table_id == table_id).values(**definition_to_row(definition))
        )
        connection.execute(sa.delete(views).where(views.c.table_id == table_id))
        connection.execute(sa.delete(view_sources).where(view_sources.c.table_id == table_id))
        _write(connection, table_id, definition, query, sources)
        view = View(replace(old.table, definition=definition), query)
        if deliver:
            enqueue(connection, PutView(definition, query), table_id)
        return view

    return database.write(work)


def _lock(connection: sa.Connection, table_id: int) -> None:
    """Takes the row's lock before anything is read that is to be changed."""
    connection.execute(sa.update(tables).where(tables.c.table_id == table_id).values(version=tables.c.version))


def _check_partition_columns(old: View, definition: TableDefinition) -> None:
    had, wanted = ([(c.name.lower(), c.type) for c in d.partition_columns] for d in (old.definition, definition))
    if had != wanted and old.table.totals.partitions:
        shown = ", ".join(f"{name} {kind.upper()}" for name, kind in had)
        raise ViewPartitionColumnsChangedError(
            f"The view {old.identifier} has {old.table.totals.partitions} partitions by ({shown}), which a view with "
            "other partition columns cannot keep. Drop them first, or leave names, types and order as they are.",
            {"view": str(old.identifier)},
        )


def _write(
    connection: sa.Connection, table_id: int, definition: TableDefinition, query: ViewQuery,
    sources: Sequence[TableIdentifier],
) -> None:  # fmt: skip
    details = asdict(query)
    row = {
        "table_id": table_id,
        "query_text": _storable(details.pop("text"), definition),
        "details": to_json(details),
        "automatic": int(is_automatic(definition)),
    }
    connection.execute(sa.insert(views), row)
    write_sources(connection, table_id, [Source(identifier) for identifier in sources])


def _storable(text: str, definition: TableDefinition) -> str:
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInputError(
            f"The text of the view {definition.identifier} has characters that no database keeps.",
            {"view": str(definition.identifier)},
        )
    return text


def write_sources(connection: sa.Connection, table_id: int, sources: Sequence[Source]) -> None:
    """Writes down which tables a view's partitions follow, in place of what is there."""
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


def drop_view(database: Database, identifier: TableIdentifier, *, deliver: bool) -> View:
    """The view as it was; its name is free again, and its partitions are gone.

    Raises:
        ViewNotFoundError: There is none of this name.
    """

    def work(connection: sa.Connection) -> View:
        view = load(connection, identifier)
        table_rows.forget_within(connection, view.table)
        if deliver:
            enqueue(connection, DropView(identifier), view.table.table_id)
        return view

    dropped = database.write(work)
    table_rows.remove_dropped_rows(database)
    return dropped


def rename_view(database: Database, identifier: TableIdentifier, new: TableIdentifier, *, deliver: bool) -> View:
    """The view under another name; to the metastore it is a new one, with the same partitions.

    Raises:
        ViewNotFoundError: There is none of this name.
        NamespaceNotFoundError: The new name's namespace does not exist.
        ViewAlreadyExistsError, TableAlreadyExistsError: The new name is taken.
    """

    def work(connection: sa.Connection) -> View:
        view = load(connection, identifier)
        there = table_rows.find_row(connection, new)
        if there is not None:
            raise _taken(new, table_from_row(there))
        namespace_id = connection.execute(
            sa.select(namespaces.c.namespace_id).where(namespaces.c.name == new.namespace)
        ).scalar()
        if namespace_id is None:
            raise namespace_not_found(new.namespace)
        values = {"namespace_id": namespace_id, "name": new.name}
        try:
            connection.execute(sa.update(tables).where(tables.c.table_id == view.table.table_id).values(**values))
        except sa.exc.IntegrityError as error:
            if not is_duplicate(error):
                raise
            raise _taken(new, view.table) from error
        renamed = replace(view, table=replace(view.table, definition=replace(view.definition, identifier=new)))
        if deliver:
            table_id = view.table.table_id
            enqueue(connection, DropView(identifier), table_id)
            enqueue(connection, PutView(renamed.definition, renamed.query), table_id)
            enqueue_changes(connection, renamed.table, published_partitions(connection, table_id))
        return renamed

    return database.write(work)


def _taken(identifier: TableIdentifier, there: Table) -> ViewAlreadyExistsError | TableAlreadyExistsError:
    if there.definition.table_type is TableType.VIEW:
        return ViewAlreadyExistsError(
            f"The view {identifier} exists already. Drop it first, or say CREATE OR REPLACE VIEW.",
            {"view": str(identifier)},
        )
    return TableAlreadyExistsError(
        f"{identifier} is a table, which a view does not replace. Drop it first, or choose another name.",
        {"table": str(identifier)},
    )


def stale_views(database: Database) -> list[TableIdentifier]:
    """The automatic views one of whose tables is no longer as it was when its partitions were last looked at."""
    s, n, t = view_sources.c, namespaces.c, tables.c
    own_name, own_namespace = tables.alias("view"), namespaces.alias("view_namespace")
    base = tables.join(namespaces, t.namespace_id == n.namespace_id)
    changed = sa.or_(
        sa.func.coalesce(t.table_id, _NOT_THERE) != s.seen_table_id,
        sa.func.coalesce(t.version, _NOT_THERE) != s.seen_version,
    )
    statement = (
        sa.select(own_namespace.c.name, own_name.c.name)
        .distinct()
        .select_from(
            view_sources.join(own_name, own_name.c.table_id == s.table_id)
            .join(own_namespace, own_namespace.c.namespace_id == own_name.c.namespace_id)
            .outerjoin(base, sa.and_(n.name == s.namespace, t.name == s.name))
        )
        .where(changed)
    )
    with database.reading() as connection:
        return sorted(TableIdentifier(namespace, name) for namespace, name in connection.execute(statement))


def refresh_within(
    connection: sa.Connection, view: View, wanted: Mapping[str, Sequence[Dependency]], sources: Sequence[Source], *,
    deliver: bool,
) -> Commit | None:  # fmt: skip
    """Gives a view exactly these partitions within a transaction; None when it is no longer the one given."""
    table_id = view.table.table_id
    _lock(connection, table_id)
    row = connection.execute(sa.select(views.c.table_id).where(views.c.table_id == table_id)).scalar()
    if row is None:
        return None
    now = _view(connection, table_from_row(table_rows.load_row_by_id(connection, table_id)))
    if (now.definition, now.query) != (view.definition, view.query):
        return None
    commit = set_partitions(connection, table_id, wanted, deliver=deliver)
    write_sources(connection, table_id, sources)
    return commit
