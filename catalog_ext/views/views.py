"""Creates, alters and drops views and their partitions."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.conf.properties import checked_properties
from catalog_ext.metastore.errors import (
    InvalidPartitionSpecError,
    ViewNotFoundError,
    ViewOnlyPartitionColumnsError,
    ViewPartitionColumnDuplicateError,
    ViewPartitionColumnNotFoundError,
    ViewPartitionColumnOrderError,
    ViewPartitionColumnsNotLastError,
    ViewPartitionLocationError,
    ViewPartitionsAutomaticError,
)
from catalog_ext.metastore.index.tables.view_partitions import no_partition
from catalog_ext.metastore.model.definition_checks import check_columns, check_keys
from catalog_ext.metastore.model.tables import Table, TableDefinition, TableType
from catalog_ext.metastore.model.views import AUTOMATIC_PROPERTY, VIEW_FORMAT, Dependency, View, is_automatic
from catalog_ext.metastore.predicates.conditions import bound_where
from catalog_ext.metastore.predicates.partition_specs import checked_spec, partition_name, require_partitioned
from catalog_ext.views.automatic import rules_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.changes import AppliedChanges
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Column
    from catalog_ext.metastore.model.views import PartitionDependency, ViewQuery
    from catalog_ext.views.automatic import ViewRefresh

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewViewPartition:
    """A partition to add to a view: its complete values, and the source partitions that it depends on."""

    spec: Mapping[str, str | None]
    dependencies: tuple[Dependency, ...] = ()
    location: str | None = None


class Views:
    """The views of a catalog."""

    def __init__(self, context: Context, refresh: ViewRefresh) -> None:
        self._context = context
        self._index = context.index.views
        self._refresh = refresh

    def list_names(self, namespace: str) -> list[str]:
        """Return the sorted names of a namespace's views.

        Raises:
            NamespaceNotFoundError: There is no such namespace.
        """
        return self._index.list_names(namespace.lower())

    def load(self, view: str) -> View:
        """Return the view.

        Raises:
            ViewNotFoundError: There is no view of that name.
        """
        return self._index.load(self._context.identify(view))

    def load_relation(self, name: str) -> Table | View:
        """Return the table or view with this name.

        Raises:
            TableNotFoundError: There is no table or view of that name.
        """
        return self._index.load_relation(self._context.identify(name))

    def create(self, request: ViewRequest, *, or_replace: bool = False) -> View:
        """Create a view in the index and the metastore.

        Args:
            request: The definition of the view.
            or_replace: Whether to replace an existing view, which keeps its partitions.

        Raises:
            ViewAlreadyExistsError, TableAlreadyExistsError: A view or table has the name already.
            NamespaceNotFoundError: The namespace does not exist.
            ViewError: The partition columns are not the last columns, or differ from those of existing partitions.
            InvalidConfigurationError: The properties do not allow to derive the view's partitions.
        """
        if or_replace:
            try:
                return self.replace(request)
            except ViewNotFoundError:
                logger.debug("the view %s is new", request.identifier)
        definition, sources = self._checked(request)
        deliver = self._context.metastore.accepts(definition)
        return self._published(self._index.create(definition, request.query, sources, deliver=deliver))

    def replace(self, request: ViewRequest) -> View:
        """Replace a view's query, properties and comment; it keeps its partitions.

        Raises:
            ViewNotFoundError: There is no view of that name.
            ViewError, InvalidConfigurationError: As in ``create``.
        """
        self._index.load(request.identifier)
        definition, sources = self._checked(request)
        deliver = self._context.metastore.accepts(definition)
        return self._published(self._index.replace(definition, request.query, sources, deliver=deliver))

    def drop(self, view: str) -> View:
        """Drop a view and its partitions from the index and the metastore.

        Raises:
            ViewNotFoundError: There is no view of that name.
        """
        there = self.load(view)
        return self._published(self._index.drop(there.identifier, deliver=self._accepts(there)))

    def rename(self, view: str, new: str) -> View:
        """Rename a view, perhaps into another namespace.

        Raises:
            ViewNotFoundError: There is no view of that name.
            ViewAlreadyExistsError, TableAlreadyExistsError: A view or table has the new name already.
            NamespaceNotFoundError: The namespace of the new name does not exist.
        """
        there = self.load(view)
        new_name = self._context.identify(new)
        return self._published(self._index.rename(there.identifier, new_name, deliver=self._accepts(there)))

    def partitions(self, view: str) -> list[str]:
        """Return the names of a view's partitions, sorted by typed values. An automatic view is refreshed first.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidPartitionSpecError: The view has no partition columns.
        """
        there = self.load(view)
        require_partitioned(there.table)
        return self._names(self.refresh(view) if there.automatic else there, {})

    def add_partitions(
        self, view: str, partitions: Sequence[NewViewPartition], *, if_not_exists: bool = False
    ) -> AppliedChanges:
        """Add partitions to a view. Either all partitions are added, or none.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidPartitionSpecError: The view has no partition columns, or a spec does not fit them.
            ViewPartitionLocationError: A location was given.
            InvalidValueError: A value does not fit its column's type.
            PartitionAlreadyExistsError: A partition exists, and ``if_not_exists`` was not given.
            ViewPartitionsAutomaticError: The view's partitions are automatic.
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
            name = partition_name(there.table, partition.spec)
            if name in wanted:
                raise InvalidPartitionSpecError(
                    f"The partition {name!r} is given twice to be added to view {there.identifier}.",
                    {"view": str(there.identifier)},
                )
            wanted[name] = partition.dependencies
        commit = self._index.add_partitions(
            there.table.table_id, wanted, if_not_exists=if_not_exists, deliver=self._accepts(there)
        )
        self._context.sync.publish(there.table.table_id)
        return commit

    def drop_partitions(
        self, view: str, specs: Sequence[Mapping[str, str | None]], *, if_exists: bool = False
    ) -> AppliedChanges:
        """Drop the partitions of a view that match a spec, which may be partial. Either all are dropped, or none.

        Raises:
            ViewNotFoundError, InvalidPartitionSpecError, InvalidValueError, ViewPartitionsAutomaticError: As in
                ``add_partitions``.
            PartitionNotFoundError: A spec matches no partition, and ``if_exists`` was not given.
        """
        there = self._managed(view, "dropped")
        names: set[str] = set()
        for spec in specs:
            found = self._names(there, checked_spec(there.table, spec))
            if not found and not if_exists:
                raise no_partition(str(there.identifier), ", ".join(f"{k}={v}" for k, v in spec.items()))
            names.update(found)
        commit = self._index.drop_partitions(there.table.table_id, names, deliver=self._accepts(there))
        self._context.sync.publish(there.table.table_id)
        return commit

    def dependencies(self, view: str, partition: Mapping[str, str | None] | None = None) -> list[PartitionDependency]:
        """Return the dependencies of the view's partitions, as of the time when the partitions were added.

        Args:
            view: The view's name.
            partition: A spec, which may be partial, of the partitions to list; None for all.

        Raises:
            ViewNotFoundError, InvalidPartitionSpecError, InvalidValueError: As in ``add_partitions``.
        """
        there = self.load(view)
        require_partitioned(there.table)
        there = self.refresh(view) if there.automatic else there
        wanted = set(self._names(there, checked_spec(there.table, partition or {})))
        return [d for d in self._index.dependencies(there.table.table_id) if d.partition in wanted]

    def refresh(self, view: str) -> View:
        """Update an automatic view's partitions from its tables. A view of another kind does not change.

        Raises:
            ViewNotFoundError: There is no such view.
            InvalidConfigurationError: The view's properties do not fit its tables any more.
        """
        return self._refresh.refresh(self._context.identify(view))

    def _checked(self, request: ViewRequest) -> tuple[TableDefinition, list[TableIdentifier]]:
        name = str(request.identifier)
        check_columns(request.columns)
        columns, keys = split_columns(request)
        definition = TableDefinition(
            request.identifier, TableType.VIEW, VIEW_FORMAT, "", columns, check_keys(keys, name), {},
            checked_properties(request.properties or {}), request.comment, request.owner,
        )  # fmt: skip
        if not is_automatic(definition.properties):
            return definition, []
        rules = rules_of(definition, self._refresh.tables(request.query), self._context.settings.name)
        return definition, [rule.table.identifier for rule in rules]

    def _managed(self, view: str, action: str) -> View:
        there = self.load(view)
        require_partitioned(there.table)
        if there.automatic:
            raise ViewPartitionsAutomaticError(
                f"The partitions of the view {there.identifier} come and go with those of its tables "
                f"('{AUTOMATIC_PROPERTY}' = 'true') and cannot be {action}. Take the property away first: ALTER VIEW … "
                f"UNSET TBLPROPERTIES ('{AUTOMATIC_PROPERTY}').",
                {"view": str(there.identifier)},
            )
        return there

    def _names(self, view: View, spec: Mapping[str, str | None]) -> list[str]:
        predicate = bound_where(view.table, spec) if spec else None
        listed = self._context.index.partitions.all(view.table, predicate)
        return [name for batch in listed for name in batch.column("partition").to_pylist()]

    def _published(self, view: View) -> View:
        self._context.sync.publish(view.table.table_id)
        return view

    def _accepts(self, view: View) -> bool:
        return self._context.metastore.accepts(view.definition)


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A request to create or change a view.

    Attributes:
        columns: All columns, in order.
        partitioned_on: The names of its partition columns.
    """

    identifier: TableIdentifier
    query: ViewQuery
    columns: tuple[Column, ...]
    partitioned_on: tuple[str, ...] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    owner: str = ""

    @property
    def needs_tables(self) -> bool:
        """Whether the view is automatic, so that its source tables must exist when it is checked."""
        return is_automatic(self.properties or {})


def split_columns(request: ViewRequest) -> tuple[tuple[Column, ...], tuple[Column, ...]]:
    """Return the columns and the partition columns, which must be the last columns in the same order.

    Raises:
        ViewError: The partition columns are not the last columns.
    """
    where = {"view": str(request.identifier)}
    shown = f"The view {request.identifier} cannot be PARTITIONED ON ({', '.join(request.partitioned_on)})"
    names = [c.name.lower() for c in request.columns]
    wanted = [name.lower() for name in request.partitioned_on]
    for name in wanted:
        if name not in names:
            raise ViewPartitionColumnNotFoundError(
                f"{shown}: its query has no column {name!r}. It has: {', '.join(names)[:300]}.", where
            )
        if wanted.count(name) > 1:
            raise ViewPartitionColumnDuplicateError(f"{shown}: {name!r} is named twice. Name each column once.", where)
    if wanted and len(wanted) == len(names):
        raise ViewOnlyPartitionColumnsError(
            f"{shown}: these are all its columns, and at least one column must not be a partition column. Leave one "
            "out.",
            where,
        )
    last_columns = names[len(names) - len(wanted) :]
    if set(last_columns) != set(wanted):
        raise ViewPartitionColumnsNotLastError(
            f"{shown}: these must be its last columns, which are {', '.join(last_columns)}. Change the order of its "
            "columns.",
            where,
        )
    if last_columns != wanted:
        raise ViewPartitionColumnOrderError(
            f"{shown}: its last columns come in another order. Write PARTITIONED ON ({', '.join(last_columns)}).", where
        )
    first = len(names) - len(wanted)
    return request.columns[:first], request.columns[first:]
