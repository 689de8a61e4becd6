"""The index's part about views: what ``Index.views`` offers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.index.tables import view_partitions, views

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import sqlalchemy as sa

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.changes import Commit
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table, TableDefinition
    from catalog_ext.metastore.model.views import Dependency, PartitionDependency, Source, View, ViewQuery


class IndexedViews:
    """The views of an open index; errors of the database are as in ``Index``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load_relation(self, identifier: TableIdentifier) -> Table | View:
        """The table (by one query) or the view of this name, or ``TableNotFoundError``."""
        return views.load_relation(self._database, identifier)

    def load(self, identifier: TableIdentifier) -> View:
        """The view of this name, or ``ViewNotFoundError``."""
        with self._database.reading() as connection:
            return views.load(connection, identifier)

    def list_names(self, namespace: str) -> list[str]:
        """The names of the namespace's views, sorted, or ``NamespaceNotFoundError``."""
        return views.list_views(self._database, namespace)

    def create(
        self, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *, deliver: bool
    ) -> View:
        """The new view; ``NamespaceNotFoundError``, ``ViewAlreadyExistsError``, ``TableAlreadyExistsError``."""
        return views.create_view(self._database, definition, query, sources, deliver=deliver)

    def replace(
        self, definition: TableDefinition, query: ViewQuery, sources: Sequence[TableIdentifier], *, deliver: bool
    ) -> View:
        """The changed view; ``ViewNotFoundError``, ``ViewPartitionColumnsChangedError``."""
        return views.replace_view(self._database, definition, query, sources, deliver=deliver)

    def drop(self, identifier: TableIdentifier, *, deliver: bool) -> View:
        """The view as it was, or ``ViewNotFoundError``."""
        return views.drop_view(self._database, identifier, deliver=deliver)

    def rename(self, identifier: TableIdentifier, new: TableIdentifier, *, deliver: bool) -> View:
        """The view under its new name; as ``create``, and ``ViewNotFoundError``."""
        return views.rename_view(self._database, identifier, new, deliver=deliver)

    def add_partitions(
        self, table_id: int, wanted: Mapping[str, Sequence[Dependency]], *, if_not_exists: bool, deliver: bool
    ) -> Commit:
        """Adds partitions by name, all or none, or ``PartitionAlreadyExistsError``."""
        return view_partitions.add_partitions(
            self._database, table_id, wanted, if_not_exists=if_not_exists, deliver=deliver
        )

    def drop_partitions(self, table_id: int, names: Collection[str], *, deliver: bool) -> Commit:
        """Drops partitions by name; those that are gone already are no error."""
        return view_partitions.drop_partitions(self._database, table_id, names, deliver=deliver)

    def dependencies(self, table_id: int) -> list[PartitionDependency]:
        """What each partition of a view was made of."""
        return view_partitions.list_dependencies(self._database, table_id)

    def stale(self) -> list[TableIdentifier]:
        """The automatic views whose tables have changed since they were looked at, by one query."""
        return views.stale_views(self._database)

    def refresh(
        self, view: View, wanted: Mapping[str, Sequence[Dependency]], sources: Sequence[Source], *, deliver: bool
    ) -> Commit | None:
        """Gives an automatic view exactly these partitions, and writes down what they were found from.

        None, and nothing is changed, when the view is no longer the one given.
        """

        def work(connection: sa.Connection) -> Commit | None:
            return views.refresh_within(connection, view, wanted, sources, deliver=deliver)

        return self._database.write(work)
