"""Carrying out messages on the metastore: a message that is carried out twice comes to the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.errors import (
    InvalidPartitionNameError,
    MetastoreRefusedError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.identity import with_id
from catalog_ext.metastore.hive.mapping.conversion import (
    hive_partition_name,
    to_hive,
    to_hive_database,
)
from catalog_ext.metastore.hive.mapping.descriptors import described_partition, has_descriptor, with_secrets_of
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.model import (
    VIRTUAL_VIEW,
    HiveDatabase,
    HivePartition,
    HiveTable,
)
from catalog_ext.metastore.hive.mapping.statistics_parameters import with_statistics, without_sparks_statistics
from catalog_ext.metastore.hive.outbox.alter_table import alter_table, make_database, rename_table
from catalog_ext.metastore.hive.outbox.compare import found_by_values
from catalog_ext.metastore.hive.outbox.ownership import check_location
from catalog_ext.metastore.hive.outbox.views import drop_view, put_view, sync_view_partitions
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, SMALL_BATCH, HiveMetastore
from catalog_ext.metastore.messages import (
    AlterNamespace,
    AlterTable,
    AlterTableStatistics,
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    DropView,
    Message,
    PutView,
    RenameTable,
    SyncPartitions,
)
from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from catalog_ext.metastore.model.tables import TableDefinition

Item = TypeVar("Item")

_log = logging.getLogger(__name__)


def carry_out(metastore: HiveMetastore, message: Message) -> None:
    """Carry out the message; what it asks for may be so already.

    Raises:
        MetastoreError: The metastore cannot be used, or does not accept it.
        NotFoundError: What it is about is not in the metastore.
    """
    match message:
        case CreateNamespace(namespace):
            make_database(metastore, to_hive_database(namespace))
        case AlterNamespace(namespace):
            _alter_namespace(metastore, to_hive_database(namespace))
        case DropNamespace(name):
            _drop_namespace(metastore, name)
        case CreateTable(definition):
            _create_table(metastore, to_hive(definition))
        case AlterTable():
            alter_table(metastore, message)
        case RenameTable():
            rename_table(metastore, message)
        case DropTable(definition):
            _drop_table(metastore, definition)
        case SyncPartitions():
            _sync_partitions(metastore, message)
        case AlterTableStatistics():
            _alter_table_statistics(metastore, message)
        case PutView():
            put_view(metastore, message)
        case DropView():
            drop_view(metastore, message)


def _alter_namespace(metastore: HiveMetastore, database: HiveDatabase) -> None:
    try:
        metastore.alter_database(with_id(metastore, database))
    except NamespaceNotFoundError:
        make_database(metastore, database)


def _drop_namespace(metastore: HiveMetastore, name: str) -> None:
    try:
        metastore.drop_database(name)
    except NamespaceNotFoundError:
        _log.debug("the namespace %s is not in the metastore", name)


def _create_table(metastore: HiveMetastore, table: HiveTable) -> None:
    try:
        _create_in_database(metastore, table)
    except TableAlreadyExistsError as error:
        found = metastore.get_table(table.database, table.name)
        if not same_location(found.location, table.location):
            raise MetastoreRefusedError(
                f"The metastore has a table {table} already, at {found.location or 'no location'}, and ours is at "
                f"{table.location}. Rename or drop one of the two.",
                {"table": str(table), "location": table.location, "metastore_location": found.location},
            ) from error


def _create_in_database(metastore: HiveMetastore, table: HiveTable) -> None:
    try:
        metastore.create_table(table)
    except NamespaceNotFoundError:
        # A namespace from a time when no metastore was configured.
        make_database(metastore, HiveDatabase(table.database))
        metastore.create_table(table)


def _drop_table(metastore: HiveMetastore, definition: TableDefinition) -> None:
    database, name = definition.identifier.namespace, definition.identifier.name
    try:
        found = metastore.get_table(database, name)
        if not same_location(found.location, definition.location):
            _log.warning(
                "The metastore's table %s.%s is at %s, not at %s where the dropped one was: it stays.",
                database, name, found.location, definition.location,
            )  # fmt: skip
            return
        metastore.drop_table(database, name)
    except TableNotFoundError:
        _log.debug("the table %s.%s is not in the metastore", database, name)


def _own_table(metastore: HiveMetastore, message: SyncPartitions | AlterTableStatistics) -> HiveTable:
    found = metastore.get_table(message.table.namespace, message.table.name)
    check_location(found, [message.location])
    return found


def _sync_partitions(metastore: HiveMetastore, message: SyncPartitions) -> None:
    table = _own_table(metastore, message)
    if not table.partition_columns:
        return
    if table.table_type == VIRTUAL_VIEW:
        sync_view_partitions(metastore, table, message)
        return
    # First out, then in: a directory may have been replaced by another spelling of the same values.
    names = _convertible(table, message.dropped, lambda name: hive_partition_name(table, name))
    for batch in batched(names, SMALL_BATCH):
        metastore.drop_partitions(table.database, table.name, batch)
    wanted = {partition.name: partition for partition in (*message.added, *message.altered)}
    partitions = _convertible(table, list(wanted), lambda name: described_partition(table, wanted[name]))
    by_values: dict[tuple[str, ...], HivePartition] = {}
    for partition in partitions:
        by_values.setdefault(partition.values, partition)
    for chunk in batched(list(by_values.values()), DEFAULT_BATCH):
        _put_partitions(metastore, table, chunk)
    parameters = without_sparks_statistics(table.parameters)
    if parameters != table.parameters:
        metastore.alter_table(replace(table, parameters=parameters))


def _put_partitions(metastore: HiveMetastore, table: HiveTable, wanted: Sequence[HivePartition]) -> None:
    """Add and alter partitions with their locations and statistics: one call each to look, add and alter."""
    found = found_by_values(metastore, table, [partition.values for partition in wanted])

    def with_parameters_of(present: Mapping[str, str], partition: HivePartition) -> HivePartition:
        return replace(partition, parameters=with_statistics(present, partition.parameters))

    missing = [with_parameters_of({}, p) for p in wanted if p.values not in found]
    if missing:
        metastore.add_partitions(table.database, table.name, missing)
    there = [(found[p.values], with_parameters_of(found[p.values].parameters, p)) for p in wanted if p.values in found]
    changed = [with_secrets_of(before, now) for before, now in there if not _is_the_same(before, now)]
    if changed:
        _alter_partitions(metastore, table, changed)


def _alter_partitions(metastore: HiveMetastore, table: HiveTable, changed: Sequence[HivePartition]) -> None:
    """Alter them in one call, so that Hive engines see one switch, unless that is too much for the metastore."""
    try:
        metastore.alter_partitions(table.database, table.name, changed)
    except MetastoreRefusedError as error:
        if len(changed) <= SMALL_BATCH:
            raise
        # Release 4 on Derby makes one condition of all names; on other databases this does not happen.
        _log.warning("%d partitions of %s go in parts of %d: %s", len(changed), table, SMALL_BATCH, error.message)
        for batch in batched(changed, SMALL_BATCH):
            metastore.alter_partitions(table.database, table.name, batch)


def _is_the_same(found: HivePartition, wanted: HivePartition) -> bool:
    same = same_location(found.location, wanted.location) and found.parameters == wanted.parameters
    return same and has_descriptor(found, wanted)


def _alter_table_statistics(metastore: HiveMetastore, message: AlterTableStatistics) -> None:
    table = _own_table(metastore, message)
    parameters = with_statistics(table.parameters, message.parameters)
    if parameters != table.parameters:
        metastore.alter_table(replace(table, parameters=parameters))


def _convertible(table: HiveTable, names: Sequence[str], convert: Callable[[str], Item]) -> list[Item]:
    """Convert the names; those that the metastore can never hold are left out and logged."""
    converted: list[Item] = []
    for name in names:
        try:
            converted.append(convert(name))
        except InvalidPartitionNameError as error:
            _log.warning("Left out of the metastore's table %s: %s", table, error.message)
    return converted
