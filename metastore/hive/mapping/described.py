"""Partitions as the metastore gets them, with the descriptors that the index keeps for them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.hive.mapping.conversion import to_hive_partition
from catalog_ext.metastore.hive.mapping.model import HiveStorage
from catalog_ext.metastore.model.secrets import is_secret
from catalog_ext.metastore.model.tables import Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.messages import PublishedPartition


def storage_of_descriptor(hive: Mapping[str, Any]) -> HiveStorage:
    """Return the storage that a descriptor keeps for the metastore (``PartitionDescriptor.hive``)."""
    return HiveStorage(hive["input_format"], hive["output_format"], hive["serde"], dict(hive["serde_parameters"]))


def columns_of_descriptor(hive: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns that a descriptor keeps for the metastore, in Hive's types."""
    return tuple(Column(name, kind, comment=comment) for name, kind, comment in hive["columns"])


def described_partition(table: HiveTable, wanted: PublishedPartition) -> HivePartition:
    """Return the partition of a message as the metastore's table gets it, with its statistics and its descriptor.

    Raises:
        InvalidPartitionNameError: As ``to_hive_partition``.
    """
    descriptor = wanted.descriptor
    partition = replace(to_hive_partition(table, wanted.name, wanted.location), parameters=wanted.parameters)
    if descriptor is None:
        return partition
    if descriptor:
        own = descriptor["hive"]
        return replace(partition, storage=storage_of_descriptor(own), columns=columns_of_descriptor(own))
    settings = {k: v for k, v in table.storage.serde_parameters.items() if k != "path"}
    return replace(partition, storage=replace(table.storage, serde_parameters=settings), columns=table.columns)


def has_descriptor(found: HivePartition, wanted: HivePartition) -> bool:
    """Return whether a partition of the metastore has the descriptor that it is to have, if one is said."""
    if wanted.storage is None or found.storage is None:
        return True
    columns = [[(c.name.lower(), c.type.lower()) for c in p.columns] for p in (found, wanted)]
    return columns[0] == columns[1] and _classes(found.storage) == _classes(wanted.storage)


def with_secrets_of(found: HivePartition, wanted: HivePartition) -> HivePartition:
    """Return a partition with the secrets of the metastore, which no descriptor of ours has."""
    if wanted.storage is None or found.storage is None:
        return wanted
    secrets = {k: v for k, v in found.storage.serde_parameters.items() if is_secret(k)}
    settings = {**secrets, **wanted.storage.serde_parameters}
    return replace(wanted, storage=replace(wanted.storage, serde_parameters=settings))


def _classes(storage: HiveStorage) -> tuple[Any, ...]:
    return (storage.serde, storage.input_format, storage.output_format, storage.settings)
