"""Carries out the outbox's messages on the metastore: each so that doing it again comes to the same."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from metastore.errors import (
    InvalidPartitionNameError,
    MetastoreRefusedError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from metastore.hive.client import DEFAULT_BATCH, DROP_BATCH, HiveMetastore
from metastore.hive.conversion import (
    hive_partition_name,
    to_hive,
    to_hive_database,
    to_hive_partition,
    user_parameters,
)
from metastore.hive.locations import same_location
from metastore.hive.model import HiveDatabase, HivePartition, HiveTable
from metastore.hive.payloads import (
    ALTER_NAMESPACE,
    ALTER_TABLE,
    CREATE_NAMESPACE,
    CREATE_TABLE,
    DROP_NAMESPACE,
    DROP_TABLE,
    SYNC_PARTITIONS,
    Message,
    read_definition,
    read_namespace,
    read_partitions,
    unreadable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Item = TypeVar("Item")

_log = logging.getLogger(__name__)


def follow(metastore: HiveMetastore, message: Message) -> None:
    """Carry out the message; what it asks for may be so already.

    Raises:
        MetastoreError: The metastore cannot be used, or does not take it.
        NotFoundError: What it is about is not in the metastore.
    """
    action = _ACTIONS.get(message.operation)
    if action is None:
        raise unreadable(message, LookupError(f"unknown operation {message.operation!r}"))
    action(metastore, message)


def _create_namespace(metastore: HiveMetastore, message: Message) -> None:
    _make_database(metastore, to_hive_database(read_namespace(message)))


def _make_database(metastore: HiveMetastore, database: HiveDatabase) -> None:
    try:
        metastore.create_database(database)
    except NamespaceAlreadyExistsError:
        _log.debug("the namespace %s is in the metastore already", database.name)


def _alter_namespace(metastore: HiveMetastore, message: Message) -> None:
    database = to_hive_database(read_namespace(message))
    try:
        metastore.alter_database(database)
    except NamespaceNotFoundError:
        _make_database(metastore, database)


def _drop_namespace(metastore: HiveMetastore, message: Message) -> None:
    try:
        metastore.drop_database(message.namespace)
    except NamespaceNotFoundError:
        _log.debug("the namespace %s is not in the metastore", message.namespace)


def _create_table(metastore: HiveMetastore, message: Message) -> None:
    table = to_hive(read_definition(message))
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
        _make_database(metastore, HiveDatabase(table.database))
        metastore.create_table(table)


def _alter_table(metastore: HiveMetastore, message: Message) -> None:
    definition = read_definition(message)
    found = metastore.get_table(definition.identifier.namespace, definition.identifier.name)
    removed = frozenset(message.payload.get("removed", ()))
    parameters = {k: v for k, v in found.parameters.items() if k not in removed}
    parameters |= user_parameters(definition.properties)
    if parameters != found.parameters:
        metastore.alter_table(replace(found, parameters=parameters))


def _drop_table(metastore: HiveMetastore, message: Message) -> None:
    definition = read_definition(message)
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


def _sync_partitions(metastore: HiveMetastore, message: Message) -> None:
    added, dropped = read_partitions(message)
    table = metastore.get_table(message.namespace, message.table or "")
    if not table.partition_columns:
        return
    # First out, then in: a directory may have been replaced by another spelling of the same values.
    names = _convertible(table, dropped, lambda name: hive_partition_name(table, name))
    for batch in _batches(names, DROP_BATCH):
        metastore.drop_partitions(table.database, table.name, batch)
    locations = dict(added)
    partitions = _convertible(table, list(locations), lambda name: to_hive_partition(table, name, locations[name]))
    by_values: dict[tuple[str, ...], HivePartition] = {}
    for partition in partitions:
        by_values.setdefault(partition.values, partition)
    for chunk in _batches(list(by_values.values()), DEFAULT_BATCH):
        metastore.add_partitions(table.database, table.name, chunk)


def _convertible(table: HiveTable, names: Sequence[str], convert: Callable[[str], Item]) -> list[Item]:
    """What ``convert`` makes of the names; those that the metastore can never hold are left out and logged."""
    converted: list[Item] = []
    for name in names:
        try:
            converted.append(convert(name))
        except InvalidPartitionNameError as error:
            _log.warning("Left out of the metastore's table %s: %s", table, error.message)
    return converted


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


_ACTIONS: dict[str, Callable[[HiveMetastore, Message], None]] = {
    CREATE_NAMESPACE: _create_namespace,
    ALTER_NAMESPACE: _alter_namespace,
    DROP_NAMESPACE: _drop_namespace,
    CREATE_TABLE: _create_table,
    ALTER_TABLE: _alter_table,
    DROP_TABLE: _drop_table,
    SYNC_PARTITIONS: _sync_partitions,
}
