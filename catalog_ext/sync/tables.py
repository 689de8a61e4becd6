"""Compares the tables and views of the index and the metastore, by their names and locations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, NamespaceNotFoundError, NotFoundError, TableNotFoundError
from catalog_ext.metastore.hive.mapping.conversion import unrepresentable_reason
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.model.identifiers import TableIdentifier, TablePattern
from catalog_ext.metastore.model.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

_NAMESPACES = 100
"""The most namespaces that ``not_taken`` compares; each needs a call to the metastore."""

_PENDING = 1000
"""The number of outbox messages that are read at a time."""

ALL = TablePattern()


def table_of(found: Table | View) -> Table:
    """Return the table itself; for a view, the table object that holds the view's definition."""
    return found.table if isinstance(found, View) else found


def relations(index: Index, chosen: TablePattern = ALL) -> Iterator[Table | View]:
    """Yield the index's relations, by namespace: tables by name, followed by views, which may read the tables."""
    for namespace in filter(chosen.has_namespace, index.namespaces.all()):
        for names in (index.tables.all(namespace), index.views.list_names(namespace)):
            for name in filter(chosen.has_table, sorted(names)):
                try:
                    yield index.views.load_relation(TableIdentifier(namespace, name))
                except (TableNotFoundError, NamespaceNotFoundError):
                    continue  # dropped meanwhile


def find_table(metastore: HiveMetastore, identifier: TableIdentifier) -> HiveTable | None:
    """Return the metastore's table or view with this name; None if the metastore has none.

    Raises:
        MetastoreError: The metastore does not answer, or refuses.
    """
    try:
        return metastore.get_table(identifier.namespace, identifier.name)
    except TableNotFoundError:
        return None


def find_relation(index: Index, identifier: TableIdentifier) -> Table | View | None:
    """Return the index's table or view with this name; None without one, or for a name that is not valid there.

    Raises:
        IndexDatabaseError: The index does not answer.
    """
    try:
        return index.views.load_relation(identifier)
    except (NotFoundError, InvalidInputError):
        return None


def known_names(index: Index, namespace: str) -> set[str]:
    """Return the names of the index's tables and views in a namespace; empty if the index lacks the namespace."""
    try:
        return {*index.tables.all(namespace), *index.views.list_names(namespace)}
    except NamespaceNotFoundError:
        return set()


@dataclass(frozen=True, slots=True)
class TablesInMetastore:
    """The result of comparing the index's tables with the metastore.

    Attributes:
        compared: The number of tables and views that the metastore should have.
        missing: The tables and views that it lacks, without a pending message.
        elsewhere: The tables whose name belongs to a table with another location in the metastore.
    """

    compared: int
    missing: tuple[str, ...]
    elsewhere: tuple[str, ...]


def compare_tables(index: Index, metastore: HiveMetastore) -> TablesInMetastore:
    """Compare the index's tables and views with the metastore's; partitions are not compared.

    Raises:
        CatalogExtError: The index or the metastore cannot be read.
    """
    compared, missing, elsewhere = 0, [], []
    there: dict[str, set[str]] = {}
    for relation in relations(index):
        table = table_of(relation)
        identifier = table.identifier
        if unrepresentable_reason(table.definition) is not None:
            continue
        compared += 1
        if identifier.namespace not in there:
            there = {identifier.namespace: set(metastore.list_tables(identifier.namespace))}
        if identifier.name not in there[identifier.namespace]:
            if not index.outbox.pending_of(table.table_id)[0]:
                missing.append(str(identifier))
        elif not isinstance(relation, View):
            found = find_table(metastore, identifier)
            if found is None or not same_location(found.location, table.definition.location):
                elsewhere.append(str(identifier))
    return TablesInMetastore(compared, tuple(missing), tuple(elsewhere))


@dataclass(frozen=True, slots=True)
class NotTaken:
    """The tables of a namespace that the metastore has and the index does not have.

    Attributes:
        names: The tables' names, in order.
    """

    namespace: str
    names: tuple[str, ...]


def not_taken(index: Index, metastore: HiveMetastore) -> Iterator[NotTaken]:
    """Yield the metastore's tables in the namespaces of the index that the index does not have.

    Tables with a pending drop in the outbox are omitted, and so are tables that a follower has refused.

    Raises:
        MetastoreUnavailableError: The metastore does not answer.
    """
    refused = {kept.table for kept in index.followed.suspects() if kept.suspect is None}
    # Read the outbox before the metastore: a message leaves the outbox after the metastore has applied it.
    pending = set(_pending(index))
    databases = set(metastore.list_databases())
    for namespace in islice(filter(databases.__contains__, index.namespaces.all()), _NAMESPACES):
        unknown = set(metastore.list_tables(namespace)) - known_names(index, namespace)
        names = sorted(name for name in unknown if f"{namespace}.{name}" not in refused | pending)
        if names:
            yield NotTaken(namespace, tuple(names))


def _pending(index: Index) -> Iterator[str]:
    """Yield the tables that messages of the outbox are about."""
    after = 0
    while page := index.outbox.pending(_PENDING, after=after):
        after = page[-1].outbox_id
        yield from (f"{each.namespace}.{each.table}" for each in page)
