"""Finds the directories at which the metastore has partitions of a table. Files there must not be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import values_or_none
from catalog_ext.metastore.hive.mapping.locations import comparable_location, relative_name, same_location
from catalog_ext.metastore.hive.outbox.compare import found_by_values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.model.tables import Table


def still_named(
    metastore: HiveMetastore, table: Table, names: Sequence[str], directories: Sequence[str]
) -> Sequence[str]:
    """Return those of the directories that hold a partition of the metastore with the same values as one of ``names``.

    Raises:
        CatalogExtError: The metastore does not answer.
    """
    try:
        found = metastore.get_table(table.identifier.namespace, table.identifier.name)
    except TableNotFoundError:
        return []
    values = {each for name in names if (each := values_or_none(found, name)) is not None}
    there = [partition.location for partition in found_by_values(metastore, found, list(values)).values()]
    return [directory for directory in directories if any(same_location(directory, location) for location in there)]


class NamedPlaces:
    """Finds the directories at which the metastore has partitions of a table, under any name.

    Each call looks up partitions by name. Partitions with an explicit location, which may be any directory, are read
    once.

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
            names: The present and past partitions of the index in these directories.
            directories: The directories, by URI.

        Raises:
            CatalogExtError: The metastore does not answer.
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
