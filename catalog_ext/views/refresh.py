"""Keeps the partitions of automatic views in step with those of the tables that they read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.views import Source
from catalog_ext.views.automatic import Rule, complete_partitions, rules_of

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.views import Dependency, View, ViewQuery
    from catalog_ext.metastore_sync.connection import MetastoreConnection

logger = logging.getLogger(__name__)

_ATTEMPTS = 5


class ViewRefresh:
    """Refreshes automatic views; it takes no context, because the context's sync calls it after each change.

    Args:
        index: Holds the views and their tables.
        metastore: Decides whether a change of a view is delivered.
        catalog: The catalog's name in SQL.
    """

    def __init__(self, index: Index, metastore: MetastoreConnection, catalog: str) -> None:
        self._index = index
        self._metastore = metastore
        self._catalog = catalog

    def refresh(self, identifier: TableIdentifier) -> View:
        """Give an automatic view the partitions that its tables have now; for others nothing changes.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidConfigurationError: Its properties do not fit its tables any more.
        """
        for _ in range(_ATTEMPTS):
            there = self._index.views.load(identifier)
            if not there.automatic or not self._refreshed(there):
                break
        return self._index.views.load(identifier)

    def refresh_stale(self) -> None:
        """Bring the views in step whose tables have changed; what cannot be done now is done at the next occasion.

        It runs after a change of a table, which is committed even if this fails.
        """
        try:
            for identifier in self._index.views.stale():
                self._refresh_one(identifier)
        except CatalogExtError as error:
            logger.warning("The partitions of automatic views are not in step: %s", error.message)

    def _refresh_one(self, identifier: TableIdentifier) -> None:
        try:
            self.refresh(identifier)
        except CatalogExtError as error:
            logger.warning("The partitions of the view %s are not in step: %s", identifier, error.message)

    def _refreshed(self, view: View) -> bool:
        """Return whether the view, or one of its tables, changed meanwhile, so that it must be looked at again."""
        wanted, sources = self._wanted(view)
        commit = self._index.views.refresh(view, wanted, sources, deliver=self._metastore.accepts(view.definition))
        return commit is None or view.identifier in self._index.views.stale()

    def _wanted(self, view: View) -> tuple[dict[str, tuple[Dependency, ...]], list[Source]]:
        """Return the partitions that the view has now, and what this was found from."""
        tables = self.tables(view.query)
        if len(tables) < len(view.query.tables):
            # One is gone, and nothing can be read through the view before it is there again.
            there = {t.identifier: t for t in tables}
            names = map(TableIdentifier.parse, view.query.tables)
            return {}, [_source(there[n]) if n in there else Source(n) for n in names]
        rules = rules_of(view.definition, tables, self._catalog)
        partitions = [self._table_partitions(rule) for rule in rules]
        wanted = complete_partitions(view.definition, rules, partitions, self._catalog)
        return wanted, [_source(rule.table) for rule in rules]

    def _table_partitions(self, rule: Rule) -> list[str]:
        listed = self._index.partitions.all(rule.table, None)
        return [name for batch in listed for name in batch.column("partition").to_pylist()]

    def tables(self, query: ViewQuery) -> list[Table]:
        """Return the tables that the query reads and that are there."""
        identifiers = [TableIdentifier.parse(name) for name in query.tables]
        found = (self._index.tables.find(identifier) for identifier in identifiers)
        return [table for table in found if table is not None]


def _source(table: Table) -> Source:
    return Source(table.identifier, table.table_id, table.version)
