"""The catalog's side of views: what is asked for is checked here, and automatic partitions are kept in step."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    CatalogExtError,
    TableAlreadyExistsError,
    ViewNotFoundError,
    ViewPartitionLocationError,
    ViewPartitionsAutomaticError,
)
from catalog_ext.metastore.index.tables.view_partitions import no_partition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Table, TableDefinition, TableType
from catalog_ext.metastore.model.views import (
    AUTOMATIC_PROPERTY,
    VIEW_FORMAT,
    Dependency,
    Source,
    View,
    ViewQuery,
    is_automatic,
)
from catalog_ext.metastore.predicates.parser import spec_predicate
from catalog_ext.metastore.predicates.tree import bind
from catalog_ext.tables.registration import check_columns, check_keys, checked_properties
from catalog_ext.views.automatic import Rule, complete_partitions, rules_of
from catalog_ext.views.checks import ViewRequest, bad_spec, checked_spec, partition_name, split_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.changes import Commit
    from catalog_ext.metastore.model.views import PartitionDependency

logger = logging.getLogger(__name__)

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class NewPartition:
    """A partition that somebody adds to a view: all its values, and what its rows are made of."""

    spec: Mapping[str, str | None]
    dependencies: tuple[Dependency, ...] = ()
    location: str | None = None


class Views:
    """The views of a catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._index = catalog.index.views

    def list_names(self, namespace: str) -> list[str]:
        """The names of a namespace's views, sorted.

        Raises:
            NamespaceNotFoundError: There is no such namespace.
        """
        return self._index.list_names(namespace.lower())

    def load(self, view: str) -> View:
        """The view.

        Raises:
            ViewNotFoundError: There is none of that name.
        """
        return self._index.load(self._catalog.identify(view))

    def load_relation(self, name: str) -> Table | View:
        """The table or view of a name.

        Raises:
            TableNotFoundError: There is neither.
        """
        return self._index.load_relation(self._catalog.identify(name))

    def create(self, request: ViewRequest, *, or_replace: bool = False) -> View:
        """Create a view, here and in the metastore.

        Args:
            request: What it is to be.
            or_replace: A view of the name gives way; it keeps its partitions.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: The name is taken.
            NamespaceNotFoundError: Its namespace is not there.
            ViewError: Its partition columns are not its last ones, or are not those of the partitions that it has.
            InvalidConfigurationError: Its partitions cannot be found as its properties say.
        """
        if or_replace:
            try:
                return self.replace(request)
            except ViewNotFoundError:
                logger.debug("the view %s is new", request.identifier)
        definition, sources = self._checked(request)
        deliver = self._catalog.following.takes(definition)
        created = self._index.create(definition, request.query, sources, deliver=deliver)
        self._catalog.following.follow()
        return created

    def replace(self, request: ViewRequest) -> View:
        """Give a view another query, other properties or another comment; it keeps its partitions.

        Raises:
            ViewNotFoundError: There is none of that name.
            ViewError, InvalidConfigurationError: As in ``create``.
        """
        self._index.load(request.identifier)
        definition, sources = self._checked(request)
        deliver = self._catalog.following.takes(definition)
        replaced = self._index.replace(definition, request.query, sources, deliver=deliver)
        self._catalog.following.follow()
        return replaced

    def drop(self, view: str) -> View:
        """Drop a view and its partitions, here and in the metastore.

        Raises:
            ViewNotFoundError: There is none of that name.
        """
        there = self.load(view)
        dropped = self._index.drop(there.identifier, deliver=self._catalog.following.takes(there.definition))
        self._catalog.following.follow()
        return dropped

    def rename(self, view: str, new: str) -> View:
        """Give a view another name, maybe in another namespace.

        Raises:
            ViewNotFoundError: There is none of that name.
            ViewAlreadyExistsError, TableAlreadyExistsError: The new name is taken.
            NamespaceNotFoundError: The new name's namespace is not there.
        """
        there = self.load(view)
        deliver = self._catalog.following.takes(there.definition)
        renamed = self._index.rename(there.identifier, self._catalog.identify(new), deliver=deliver)
        self._catalog.following.follow()
        return renamed

    def check_free(self, identifier: TableIdentifier) -> None:
        """Return if no view has the name.

        Raises:
            TableAlreadyExistsError: One has.
        """
        try:
            self._index.load(identifier)
        except ViewNotFoundError:
            return
        raise TableAlreadyExistsError(
            f"{identifier} is a view. Drop it first, or choose another name.", {"table": str(identifier)}
        )

    # Partitions

    def partitions(self, view: str) -> list[str]:
        """The names of a view's partitions, by their typed values; automatic ones are brought in step first.

        Raises:
            ViewNotFoundError: There is no such view.
            ViewNotPartitionedError: It has no partition columns.
        """
        there = self.load(view)
        there.check_partitioned()
        return self._names(self.refresh(view) if there.automatic else there, {})

    def add_partitions(self, view: str, partitions: Sequence[NewPartition], *, if_not_exists: bool = False) -> Commit:
        """Add partitions to a view, all or none.

        Raises:
            ViewNotFoundError: There is no such view.
            ViewNotPartitionedError: It has no partition columns.
            ViewPartitionLocationError: A location was given.
            ViewPartitionSpecError: A specification names other columns than the view's partition columns.
            InvalidValueError: A value does not fit its column's type.
            PartitionAlreadyExistsError: One is there, and ``if_not_exists`` was not said.
            ViewPartitionsAutomaticError: The view's partitions come by themselves.
        """
        there = self._managed(view, "added")
        wanted: dict[str, tuple[Dependency, ...]] = {}
        for partition in partitions:
            if partition.location is not None:
                raise ViewPartitionLocationError(
                    f"A partition of the view {there.identifier} has no files and so no LOCATION "
                    f"({partition.location[:80]!r}). Leave it out.",
                    {"view": str(there.identifier)},
                )
            name = partition_name(there, partition.spec)
            if name in wanted:
                raise bad_spec(there, f"names the partition {name} twice")
            wanted[name] = partition.dependencies
        commit = self._index.add_partitions(
            there.table.table_id, wanted, if_not_exists=if_not_exists, deliver=self._takes(there)
        )
        self._catalog.following.follow()
        return commit

    def drop_partitions(
        self, view: str, specs: Sequence[Mapping[str, str | None]], *, if_exists: bool = False
    ) -> Commit:
        """Drop the partitions of a view that match any of the (maybe partial) specifications, all or none.

        Raises:
            ViewNotFoundError, ViewNotPartitionedError, ViewPartitionSpecError, InvalidValueError,
            ViewPartitionsAutomaticError: As in ``add_partitions``.
            PartitionNotFoundError: A specification matches none, and ``if_exists`` was not said.
        """
        there = self._managed(view, "dropped")
        names: set[str] = set()
        for spec in specs:
            found = self._names(there, checked_spec(there, spec))
            if not found and not if_exists:
                raise no_partition(str(there.identifier), ", ".join(f"{k}={v}" for k, v in spec.items()))
            names.update(found)
        commit = self._index.drop_partitions(there.table.table_id, names, deliver=self._takes(there))
        self._catalog.following.follow()
        return commit

    def dependencies(self, view: str, partition: Mapping[str, str | None] | None = None) -> list[PartitionDependency]:
        """What the view's partitions were made of when they were added.

        Args:
            view: Its name.
            partition: A (maybe partial) specification of those to tell of; None for all.

        Raises:
            ViewNotFoundError, ViewNotPartitionedError, ViewPartitionSpecError, InvalidValueError: As above.
        """
        there = self.load(view)
        there.check_partitioned()
        there = self.refresh(view) if there.automatic else there
        wanted = set(self._names(there, checked_spec(there, partition or {})))
        return [d for d in self._index.dependencies(there.table.table_id) if d.partition in wanted]

    def refresh(self, view: str) -> View:
        """Give an automatic view the partitions that its tables have now; for others nothing changes.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidConfigurationError: Its properties do not fit its tables any more.
        """
        identifier = self._catalog.identify(view)
        for _ in range(_ATTEMPTS):
            there = self._index.load(identifier)
            if not there.automatic or not self._refreshed(there):
                break
        return self._index.load(identifier)

    def refresh_stale(self) -> None:
        """Bring the views in step whose tables have changed; what cannot be done now is done at the next occasion.

        It runs after somebody's change, which is committed whatever becomes of this.
        """
        try:
            for identifier in self._index.stale():
                self._refresh_one(identifier)
        except CatalogExtError as error:
            logger.warning("The partitions of automatic views are not in step: %s", error.message)

    def _refresh_one(self, identifier: TableIdentifier) -> None:
        try:
            self.refresh(str(identifier))
        except CatalogExtError as error:
            logger.warning("The partitions of the view %s are not in step: %s", identifier, error.message)

    def _refreshed(self, view: View) -> bool:
        """Whether the view, or one of its tables, changed meanwhile, so that it must be looked at again."""
        wanted, sources = self._wanted(view)
        commit = self._index.refresh(view, wanted, sources, deliver=self._takes(view))
        return commit is None or view.identifier in self._index.stale()

    def _wanted(self, view: View) -> tuple[dict[str, tuple[Dependency, ...]], list[Source]]:
        """The partitions that the view has now, and what this was found from."""
        tables = self._tables(view.query)
        if len(tables) < len(view.query.tables):
            # One is gone, and nothing can be read through the view before it is there again.
            there = {t.identifier: t for t in tables}
            names = map(TableIdentifier.parse, view.query.tables)
            return {}, [_source(there[n]) if n in there else Source(n) for n in names]
        catalog = self._catalog.settings.name
        rules = rules_of(view.definition, tables, catalog)
        partitions = [self._table_partitions(rule) for rule in rules]
        wanted = complete_partitions(view.definition, rules, partitions, catalog)
        return wanted, [_source(rule.table) for rule in rules]

    def _table_partitions(self, rule: Rule) -> list[str]:
        listed = self._catalog.index.list_partitions(rule.table, None)
        return [name for batch in listed for name in batch.column("partition").to_pylist()]

    def _tables(self, query: ViewQuery) -> list[Table]:
        """The tables that the query reads and that are there."""
        identifiers = [TableIdentifier.parse(name) for name in query.tables]
        found = (self._catalog.find_table(identifier) for identifier in identifiers)
        return [table for table in found if table is not None]

    # Checks

    def _checked(self, request: ViewRequest) -> tuple[TableDefinition, list[TableIdentifier]]:
        name = str(request.identifier)
        check_columns(request.columns)
        columns, keys = split_columns(request)
        definition = TableDefinition(
            request.identifier, TableType.VIEW, VIEW_FORMAT, "", columns, check_keys(keys, name), {},
            checked_properties(request.properties or {}), request.comment, request.owner,
        )  # fmt: skip
        if not is_automatic(definition):
            return definition, []
        rules = rules_of(definition, self._tables(request.query), self._catalog.settings.name)
        return definition, [rule.table.identifier for rule in rules]

    def _managed(self, view: str, done: str) -> View:
        there = self.load(view)
        there.check_partitioned()
        if there.automatic:
            raise ViewPartitionsAutomaticError(
                f"The partitions of the view {there.identifier} come and go with those of its tables "
                f"('{AUTOMATIC_PROPERTY}' = 'true') and cannot be {done}. Take the property away first: ALTER VIEW … "
                f"UNSET TBLPROPERTIES ('{AUTOMATIC_PROPERTY}').",
                {"view": str(there.identifier)},
            )
        return there

    def _names(self, view: View, spec: Mapping[str, str | None]) -> list[str]:
        predicate = bind(spec_predicate(spec), view.definition.keys, str(view.identifier)) if spec else None
        listed = self._catalog.index.list_partitions(view.table, predicate)
        return [name for batch in listed for name in batch.column("partition").to_pylist()]

    def _takes(self, view: View) -> bool:
        return self._catalog.following.takes(view.definition)


def _source(table: Table) -> Source:
    return Source(table.identifier, table.table_id, table.version)
