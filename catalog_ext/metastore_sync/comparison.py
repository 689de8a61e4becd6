"""Compares which tables the index and the metastore have, and where the metastore has partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason, values_or_none
from catalog_ext.metastore.hive.mapping.locations import comparable_location, relative_name, same_location
from catalog_ext.metastore.hive.outbox.compare import found_by_values
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


@dataclass(frozen=True, slots=True)
class TablesInMetastore:
    """What was found.

    Attributes:
        compared: Tables and views that the metastore is to have.
        missing: Those that it does not have, and of which no message is pending.
        elsewhere: Those of whose name it has another, at another location.
    """

    compared: int
    missing: tuple[str, ...]
    elsewhere: tuple[str, ...]


def compare_tables(index: Index, metastore: HiveMetastore) -> TablesInMetastore:
    """Return what the index's tables and views are in the metastore; partitions are not looked at.

    Raises:
        CatalogExtError: One of the two cannot be read.
    """
    compared, missing, elsewhere = 0, [], []
    for namespace in index.namespaces.all():
        there = set(metastore.list_tables(namespace))
        for name in sorted([*index.tables.all(namespace), *index.views.list_names(namespace)]):
            found = index.views.load_relation(TableIdentifier(namespace, name))
            table = found.table if isinstance(found, View) else found
            if unrepresentable_reason(table.definition) is not None:
                continue
            compared += 1
            if name not in there:
                if not index.outbox.pending_of(table.table_id)[0]:
                    missing.append(f"{namespace}.{name}")
            elif not isinstance(found, View) and not _is_ours(metastore, table):
                elsewhere.append(f"{namespace}.{name}")
    return TablesInMetastore(compared, tuple(missing), tuple(elsewhere))


def _is_ours(metastore: HiveMetastore, table: Table) -> bool:
    try:
        found = metastore.get_table(table.identifier.namespace, table.identifier.name)
    except TableNotFoundError:
        return False
    return same_location(found.location, table.definition.location)


def still_named(
    metastore: HiveMetastore, table: Table, names: Sequence[str], directories: Sequence[str]
) -> Sequence[str]:
    """Return those of the directories at which the metastore has partitions of some names' values.

    Raises:
        CatalogExtError: It does not answer.
    """
    try:
        found = metastore.get_table(table.identifier.namespace, table.identifier.name)
    except TableNotFoundError:
        return []
    values = {each for name in names if (each := values_or_none(found, name)) is not None}
    there = [partition.location for partition in found_by_values(metastore, found, list(values)).values()]
    return [directory for directory in directories if any(same_location(directory, location) for location in there)]


class NamedPlaces:
    """Answers at which directories the metastore has partitions of a table, whatever their names are.

    By name the metastore is asked anew for each question; partitions at locations of their own, which may lie in the
    directory of any name, are read once.

    Args:
        client: Returns the metastore; called with the first question.
        table: The index's table.
    """

    def __init__(self, client: Callable[[], HiveMetastore], table: Table) -> None:
        self._client = client
        self._table = table
        self._located: frozenset[str] | None = None

    def __call__(self, names: Sequence[str], directories: Sequence[str]) -> Sequence[str]:
        """Return those of the directories at which the metastore has a partition.

        Args:
            names: The partitions that lie or lay there, as far as they are known.
            directories: By URI.

        Raises:
            CatalogExtError: It does not answer.
        """
        still = set(still_named(self._client(), self._table, names, directories))
        located = self._own_locations()
        return [d for d in directories if d in still or comparable_location(d) in located]

    def _own_locations(self) -> frozenset[str]:
        if self._located is None:
            identifier = self._table.identifier
            try:
                found = self._client().get_table(identifier.namespace, identifier.name)
            except TableNotFoundError:
                self._located = frozenset()
                return self._located
            self._located = frozenset(
                comparable_location(partition.location)
                for partition in self._client().partitions(found.database, found.name)
                if relative_name(found.location, partition.location) != found.name_of(partition.values)
            )
        return self._located
