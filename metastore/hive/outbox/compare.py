"""Compares a Hive table with the definition that the index publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidPartitionNameError, MetastoreRefusedError
from catalog_ext.metastore.hive.mapping.conversion import (
    to_hive,
    user_parameters,
)
from catalog_ext.metastore.hive.mapping.descriptors import described_partition, has_descriptor
from catalog_ext.metastore.hive.mapping.locations import same_location
from catalog_ext.metastore.hive.mapping.statistics_parameters import BYTES, FILES, ROWS
from catalog_ext.metastore.hive.outbox.alter_table import altered
from catalog_ext.metastore.hive.outbox.ownership import check_location
from catalog_ext.metastore.messages import AlterTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.messages import PublishedPartition
    from catalog_ext.metastore.model.tables import TableDefinition


def check_ours(found: HiveTable, definition: TableDefinition) -> None:
    """Return if the metastore's table of this name is ours: it lies at our location, with our keys.

    Raises:
        MetastoreRefusedError: It is another.
    """
    keys = [column.name.lower() for column in definition.partition_columns]
    check_location(found, [definition.location])
    if [column.name for column in found.partition_columns] != keys:
        raise MetastoreRefusedError(
            f"The metastore's table {found} has other partition columns than ours. Drop it there, and publish again.",
            {"table": str(found)},
        )


def definition_differs(found: HiveTable, definition: TableDefinition) -> bool:
    """Return whether columns or properties must be altered."""
    wanted = altered(found, AlterTable(definition, rebuild=True))
    return wanted != found or any(
        found.parameters.get(name) != value for name, value in user_parameters(definition.properties).items()
    )


def key_types_differ(found: HiveTable, definition: TableDefinition) -> bool:
    """Return whether types of partition columns must be altered."""
    wanted = to_hive(definition).partition_columns
    return [column.type for column in wanted] != [column.type for column in found.partition_columns]


class PartitionDifference(StrEnum):
    """The difference between a partition in the metastore and in the index."""

    MISSING = "missing"
    LOCATION = "location"
    FORMAT = "format"
    STATISTICS = "statistics"


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """A partition on both sides.

    Attributes:
        name: Its name in the index.
        wanted: As the metastore is to have it.
        found: As the metastore has it; None where it does not.
    """

    name: str
    wanted: HivePartition
    found: HivePartition | None

    @property
    def difference(self) -> PartitionDifference | None:
        """The first reason to send the partition; None without one."""
        if self.found is None:
            return PartitionDifference.MISSING
        if self.moved:
            return PartitionDifference.LOCATION
        if not has_descriptor(self.found, self.wanted):
            return PartitionDifference.FORMAT
        return PartitionDifference.STATISTICS if statistics_differ(self.found, self.wanted.parameters) else None

    @property
    def moved(self) -> bool:
        """Whether the metastore has the partition at another location."""
        return self.found is not None and not same_location(self.found.location, self.wanted.location)


def compared(
    metastore: HiveMetastore, table: HiveTable, wanted: Sequence[PublishedPartition]
) -> list[ComparedPartition]:
    """Return the state of partitions on both sides, by one call; those that no metastore can hold are left out."""
    converted: dict[tuple[str, ...], tuple[str, HivePartition]] = {}
    for partition in wanted:
        try:
            hive = described_partition(table, partition)
        except InvalidPartitionNameError:
            continue  # the metastore can never hold it
        converted.setdefault(hive.values, (partition.name, hive))
    found = found_by_values(metastore, table, list(converted))
    return [ComparedPartition(name, hive, found.get(values)) for values, (name, hive) in converted.items()]


def found_by_values(
    metastore: HiveMetastore, table: HiveTable, values: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], HivePartition]:
    """Return the partitions of a table that the metastore has, by their values: one call."""
    names = [table.name_of(each) for each in values]
    return {p.values: p for p in metastore.partitions_by_names(table.database, table.name, names)}


def statistics_differ(found: HiveTable | HivePartition, parameters: Mapping[str, str]) -> bool:
    """Return whether the metastore lacks statistics of the index, or has different ones.

    A partition written by Spark or Hive has further statistics: a row count, marks of the engine. While files and bytes
    agree, these describe the present files.

    Args:
        found: A partition, or a table without partition columns.
        parameters: The statistics of the index; unknown ones are left out.
    """
    return any(name in parameters and found.parameters.get(name) != parameters[name] for name in (FILES, BYTES, ROWS))


def statistics_contradict(found: HiveTable | HivePartition, parameters: Mapping[str, str]) -> bool:
    """Return whether the statistics of both sides cannot describe the same files; unknown ones do not count.

    Hive counts rows that the index has not counted: by ``statistics_differ`` every imported partition would differ.
    """
    return any(
        name in parameters and found.parameters.get(name, parameters[name]) != parameters[name]
        for name in (FILES, BYTES, ROWS)
    )
