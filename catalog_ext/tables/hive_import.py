"""Import: a table of the metastore becomes one of the index, with the partitions that the metastore has."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.conf.keys import PARTITION_COLUMNS
from catalog_ext.metastore.errors import (
    IncompleteListingError,
    LocationNotFoundError,
    NamespaceNotFoundError,
    StorageError,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive, from_hive_database, from_hive_partition
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile, Table
from catalog_ext.metastore.storage.locations import canonical_location
from catalog_ext.scan.key_layout import Layout
from catalog_ext.scan.observe import Progress, RepairProgress, StoreObserver, list_locations
from catalog_ext.scan.scratch import Scratch
from catalog_ext.tables.registration import check_location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.client import HiveMetastore
    from catalog_ext.metastore.model.identifiers import TableIdentifier

_BATCH = 1000
_T = TypeVar("_T")


def adopt_table(
    catalog: Catalog, identifier: TableIdentifier, properties: Mapping[str, str], progress: Progress
) -> Table:
    """Register the metastore's table of this name; see ``Catalog.import_table``."""
    client = catalog.metastore.client()
    hive_table = client.get_table(identifier.namespace, identifier.name)
    found = from_hive(hive_table)
    definition = replace(
        found,
        location=canonical_location(found.location),
        properties={**_mode_of(catalog), **found.properties, **properties},
    )
    try:
        check_location(catalog.storage, definition.location, may_be_empty=True)
    except (LocationNotFoundError, StorageError) as error:
        raise error.about(f"Table {identifier} was not imported", {"table": str(identifier)}) from error
    _ensure_namespace(catalog, client, identifier.namespace)
    table = catalog.index.create_table(definition, deliver=False)
    scratch = Scratch()
    try:
        _adopt_partitions(catalog, _partitions(client, table, hive_table), table, scratch, progress)
    except BaseException:
        # Half a table must not stay: the import is repeated whole.
        catalog.index.drop_table(identifier, deliver=False)
        raise
    finally:
        scratch.close()
    return catalog.index.load_table(identifier)


def _mode_of(catalog: Catalog) -> dict[str, str]:
    """The property that the catalog's option ``partition-columns`` gives to imported tables, if it is set."""
    text = catalog.settings.conf.get(PARTITION_COLUMNS.key)
    return {} if text is None else {PARTITION_COLUMNS.key: str(PARTITION_COLUMNS.value_of(text))}


def _ensure_namespace(catalog: Catalog, client: HiveMetastore, name: str) -> None:
    try:
        catalog.index.load_namespace(name)
    except NamespaceNotFoundError:
        catalog.index.create_namespace(from_hive_database(client.get_database(name)), deliver=False)


def _adopt_partitions(
    catalog: Catalog, partitions: Iterator[tuple[str, str | None]], table: Table, scratch: Scratch, progress: Progress
) -> None:
    layout = Layout(table.definition)
    StoreObserver(catalog.storage, table, layout, scratch, progress).observe(selective=False)
    _check_complete(table, scratch)
    for chunk in _chunks(partitions):
        scratch.insert(
            "indexed_partitions", [(name, location, 0, 0) for name, location in chunk], columns=4, ignore=True
        )
    elsewhere = "(SELECT name FROM indexed_partitions WHERE location IS NOT NULL)"
    scratch.execute(f"DELETE FROM listed_files WHERE name IN {elsewhere}")
    list_locations(
        catalog.storage,
        scratch.rows("SELECT name, location FROM indexed_partitions WHERE location IS NOT NULL"),
        scratch,
    )
    _check_complete(table, scratch)
    done = 0
    for changes in _chunks(_additions(scratch)):
        catalog.index.commit(table.table_id, changes, operation="import", deliver=False)
        done += len(changes)
        progress(RepairProgress("applying", done, 0))


def _check_complete(table: Table, scratch: Scratch) -> None:
    failure = next(scratch.rows("SELECT directory, reason FROM failures LIMIT 1"), None)
    if failure is not None:
        raise IncompleteListingError(
            f"Table {table.identifier} was not imported: {failure[0]!r} cannot be listed: {failure[1]}",
            {"table": str(table.identifier)},
        )


def _partitions(client: HiveMetastore, table: Table, hive_table: HiveTable) -> Iterator[tuple[str, str | None]]:
    """The name and the location (None: the default one) of every partition that the metastore has."""
    if not table.definition.partition_columns:
        yield "", None
        return
    for partition in client.partitions(hive_table.database, hive_table.name):
        name, location = from_hive_partition(hive_table, partition)
        yield name, None if location is None else canonical_location(location)


def _additions(scratch: Scratch) -> Iterator[AddPartition]:
    query = (
        "SELECT i.name, i.location, f.path, f.size, f.modified_ms FROM indexed_partitions i"
        " LEFT JOIN listed_files f ON f.name = i.name ORDER BY i.name"
    )
    scratch.execute("CREATE INDEX listed_files_by_name ON listed_files (name)")
    for (name, location), rows in groupby(scratch.rows(query), key=lambda row: (row[0], row[1])):
        files = tuple(DataFile(path, size, modified) for _, _, path, size, modified in rows if path is not None)
        yield AddPartition(name, files, location)


def _chunks(items: Iterator[_T]) -> Iterator[list[_T]]:
    while chunk := list(islice(items, _BATCH)):
        yield chunk
