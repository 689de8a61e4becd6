"""Views in the index: rows of ``tables`` with the type VIEW, and further tables for the attributes of views."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import (
    InvalidInputError,
    PartitionAlreadyExistsError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
    ViewNotFoundError,
    ViewPartitionColumnsChangedError,
)
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import definition_to_row
from catalog_ext.metastore.index.database.schema import namespaces, tables, view_sources, views
from catalog_ext.metastore.index.tables import table_rows, view_partitions
from catalog_ext.metastore.index.tables.dropping import forget_within
from catalog_ext.metastore.index.tables.namespaces import namespace_number
from catalog_ext.metastore.index.tables.tables import Tables
from catalog_ext.metastore.index.write.outbox import enqueue, enqueue_changes
from catalog_ext.metastore.messages import DropView, PutView
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.json import to_json
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.metastore.model.views import Source, View, ViewQuery, is_automatic

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from catalog_ext.metastore.model.changes import AppliedChanges
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.views import Dependency, PartitionDependency


def load(connection: sa.Connection, identifier: TableIdentifier) -> View:
    """Return the view of this name.

    Raises:
        ViewNotFoundError: There is no view of this name; there may be a table.
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


def _lock_unchanged(connection: sa.Connection, view: View) -> bool:
    """Lock a view's row, and return whether the view still exists with the same definition and query."""
    table_id = view.table.table_id
    table_rows.lock(connection, table_id)
    row = connection.execute(sa.select(views.c.table_id).where(views.c.table_id == table_id)).scalar()
    if row is None:
        return False
    now = _view(connection, table_rows.load_row_by_id(connection, table_id).table)
    return (now.definition, now.query) == (view.definition, view.query)


def _check_partition_columns(old: View, definition: TableDefinition) -> None:
    """Check that a view may get another definition: only a view without partitions may change partition columns.

    Raises:
        ViewPartitionColumnsChangedError: The view has partitions, and the definition changes its partition columns.
    """
    had, wanted = ([(c.name.lower(), c.type) for c in d.partition_columns] for d in (old.definition, definition))
    if had != wanted and old.table.totals.partitions:
        columns = ", ".join(f"{name} {kind.upper()}" for name, kind in had)
        raise ViewPartitionColumnsChangedError(
            f"The view {old.identifier} has {old.table.totals.partitions} partitions by ({columns}), which a view with "
            "other partition columns cannot keep. Drop them first, or leave names, types and order as they are.",
            {"view": str(old.identifier)},
        )


def _insert(
    connection: sa.Connection, table_id: int, definition: TableDefinition, query: ViewQuery,
    sources: Sequence[TableIdentifier],
) -> None:  # fmt: skip
    """Insert the rows for the attributes that only views have; the view's row of ``tables`` exists already."""
    details = asdict(query)
    row = {
        "table_id": table_id,
        "query_text": _storable(details.pop("text"), definition),
        "details": to_json(details),
        "automatic": int(is_automatic(definition.properties)),
    }
    connection.execute(sa.insert(views), row)
    _write_sources(connection, table_id, [Source(identifier) for identifier in sources])


def _storable(text: str, definition: TableDefinition) -> str:
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise InvalidInputError(
            f"The text of the view {definition.identifier} has characters that no database keeps.",
            {"view": str(definition.identifier)},
        )
    return text


def _write_sources(connection: sa.Connection, table_id: int, sources: Sequence[Source]) -> None:
    """Replace the list of the source tables from whose partitions a view's partitions are derived."""
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


def _taken(identifier: TableIdentifier, there: Table) -> ViewAlreadyExistsError | TableAlreadyExistsError:
    """Return the error that a table or view of this name exists already."""
    if there.definition.table_type is TableType.VIEW:
        return ViewAlreadyExistsError(
            f"The view {identifier} exists already. Drop it first, or say CREATE OR REPLACE VIEW.",
            {"view": str(identifier)},
        )
    return TableAlreadyExistsError(
        f"{identifier} is a table, which a view does not replace. Drop it first, or choose another name.",
        {"table": str(identifier)},
    )


_NOT_THERE = -1


class IndexedViews(IndexPart):
    """Reads and changes the views of an open index; raises the database errors of ``Index``."""

    def load_relation(self, identifier: TableIdentifier) -> Table | View:
        """Return the table or view of this name: one query for a table, two for a view.

        Raises:
            TableNotFoundError: There is no table or view of this name.
        """
        with self._database.reading() as connection:
            table = table_rows.load_relation(connection, identifier)
            return _view(connection, table) if table.definition.table_type is TableType.VIEW else table

    def load(self, identifier: TableIdentifier) -> View:
        """Return the view of this name.

        Raises:
            ViewNotFoundError: There is no view of this name; there may be a table.
        """
        with self._database.reading() as connection:
            return load(connection, identifier)

    def list_names(self, namespace: str) -> list[str]:
        """Return the names of the namespace's views, sorted.

        Raises:
            NamespaceNotFoundError: There is no namespace of this name.
        """
        return Tables(self._database).all(namespace, of_views=True)

    def create(
        self, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *, deliver: bool
    ) -> View:
        """Add a view to the index, and return it.

        Raises:
            NamespaceNotFoundError: The view's namespace does not exist.
            ViewAlreadyExistsError, TableAlreadyExistsError: A view or table of this name exists already.
        """
        identifier = definition.identifier

        def work(connection: sa.Connection) -> View:
            there = table_rows.find_relation(connection, identifier)
            if there is not None:
                raise _taken(identifier, there)
            number = namespace_number(connection, identifier.namespace)
            table = table_rows.create_within(connection, definition, number, deliver=False)
            _insert(connection, table.table_id, definition, query, sources)
            if deliver:
                enqueue(connection, PutView(definition, query), table.table_id)
            return View(table, query)

        return self._database.write(work)

    def replace(
        self, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *, deliver: bool
    ) -> View:
        """Replace a view's definition and return the view; it keeps its partitions.

        Raises:
            ViewNotFoundError: There is no view of this name.
            ViewPartitionColumnsChangedError: The view has partitions, and the definition changes its partition columns.
        """

        def work(connection: sa.Connection) -> View:
            table_id = load(connection, definition.identifier).table.table_id
            table_rows.lock(connection, table_id)
            old = load(connection, definition.identifier)
            _check_partition_columns(old, definition)
            changed = sa.update(tables).where(tables.c.table_id == table_id)
            connection.execute(changed.values(**definition_to_row(definition)))
            connection.execute(sa.delete(views).where(views.c.table_id == table_id))
            _insert(connection, table_id, definition, query, sources)
            if deliver:
                enqueue(connection, PutView(definition, query), table_id)
            return View(replace(old.table, definition=definition), query)

        return self._database.write(work)

    def drop(self, identifier: TableIdentifier, *, deliver: bool) -> View:
        """Drop the view with its partitions, and return its last state.

        Raises:
            ViewNotFoundError: There is no view of this name.
        """

        def work(connection: sa.Connection) -> View:
            view = load(connection, identifier)
            forget_within(connection, view.table)
            if deliver:
                enqueue(connection, DropView(identifier), view.table.table_id)
            return view

        dropped = self._database.write(work)
        Tables(self._database).remove_dropped_rows()
        return dropped

    def rename(self, identifier: TableIdentifier, new: TableIdentifier, *, deliver: bool) -> View:
        """Rename the view and return it; the metastore gets a new view with the same partitions.

        Raises:
            ViewNotFoundError: There is no view of this name.
            NamespaceNotFoundError: The new name's namespace does not exist.
            ViewAlreadyExistsError, TableAlreadyExistsError: A view or table has the new name already.
        """

        def work(connection: sa.Connection) -> View:
            view = load(connection, identifier)
            there = table_rows.find_relation(connection, new)
            if there is not None:
                raise _taken(new, there)
            table = table_rows.rename_within(connection, view.table, new, _taken(new, view.table))
            renamed = replace(view, table=table)
            if deliver:
                table_id = view.table.table_id
                enqueue(connection, DropView(identifier), table_id)
                enqueue(connection, PutView(renamed.definition, renamed.query), table_id)
                added = view_partitions.all_as_added(connection, table_id)
                enqueue_changes(connection, renamed.table, added, at_ms=None)
            return renamed

        return self._database.write(work)

    def add_partitions(
        self, table_id: int, wanted: Mapping[str, Sequence[Dependency]], *, if_not_exists: bool, deliver: bool
    ) -> AppliedChanges:
        """Add partitions with their dependencies to a view, either all of them or, on an error, none.

        Raises:
            PartitionAlreadyExistsError: A partition exists, and ``if_not_exists`` is false.
            ViewNotFoundError: The view is gone.
        """

        def work(connection: sa.Connection) -> AppliedChanges:
            commit = view_partitions.ViewCommit(connection, table_id)
            there = sorted(commit.applier.alive(list(wanted)))
            if there and not if_not_exists:
                raise PartitionAlreadyExistsError(
                    f"The partition {there[0][:200]!r} of the view {commit.name} exists already. Nothing was added; "
                    "say IF NOT EXISTS to add the others.",
                    {"view": commit.name, "partition": there[0][:200]},
                )
            new = {name: dependencies for name, dependencies in wanted.items() if name not in there}
            return commit.make(new, [], "ADD PARTITION", deliver=deliver)

        return self._database.write(work)

    def drop_partitions(self, table_id: int, names: Collection[str], *, deliver: bool) -> AppliedChanges:
        """Drop partitions of a view; partitions that do not exist are ignored.

        Raises:
            ViewNotFoundError: The view is gone.
        """

        def work(connection: sa.Connection) -> AppliedChanges:
            commit = view_partitions.ViewCommit(connection, table_id)
            return commit.make({}, list(commit.applier.alive(list(names)).values()), "DROP PARTITION", deliver=deliver)

        return self._database.write(work)

    def dependencies(self, table_id: int) -> list[PartitionDependency]:
        """Return the dependencies of each partition of a view, in the order in which the partitions were added."""
        with self._database.reading() as connection:
            return view_partitions.list_dependencies(connection, table_id)

    def stale(self) -> list[TableIdentifier]:
        """Return the automatic views with a source table that has changed since the view's last refresh."""
        with self._database.reading() as connection:
            rows = connection.execute(_stale_views()).all()
        return sorted(TableIdentifier(row.namespace, row.name) for row in rows)

    def refresh(
        self, view: View, wanted: Mapping[str, Sequence[Dependency]], sources: Sequence[Source], *, deliver: bool
    ) -> AppliedChanges | None:
        """Set the partitions of an automatic view to ``wanted``, and record the versions of its source tables.

        Returns None, and changes nothing, if the view was changed or dropped in the meantime.
        """

        def work(connection: sa.Connection) -> AppliedChanges | None:
            if not _lock_unchanged(connection, view):
                return None
            table_id = view.table.table_id
            commit = view_partitions.set_partitions(connection, table_id, wanted, deliver=deliver)
            _write_sources(connection, table_id, sources)
            return commit

        return self._database.write(work)


def _stale_views() -> sa.Select[str, str]:
    """Return the query for the views whose sources have changed since the view's last refresh."""
    s, n, t = view_sources.c, namespaces.c, tables.c
    own_name, own_namespace = tables.alias("view"), namespaces.alias("view_namespace")
    base = tables.join(namespaces, t.namespace_id == n.namespace_id)
    changed = sa.or_(
        sa.func.coalesce(t.table_id, _NOT_THERE) != s.seen_table_id,
        sa.func.coalesce(t.version, _NOT_THERE) != s.seen_version,
    )
    return (
        sa.select(own_namespace.c.name.label("namespace"), own_name.c.name)
        .distinct()
        .select_from(
            view_sources.join(own_name, own_name.c.table_id == s.table_id)
            .join(own_namespace, own_namespace.c.namespace_id == own_name.c.namespace_id)
            .outerjoin(base, sa.and_(n.name == s.namespace, t.name == s.name))
        )
        .where(changed)
    )
