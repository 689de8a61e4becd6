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
    """Check that the metastore's table of this name is the index's table: same location, same partition columns.

    Raises:
        MetastoreRefusedError: The metastore's table is a different table.
    """
    keys = [column.name.lower() for column in definition.partition_columns]
    check_location(found, [definition.location])
    if [column.name for column in found.partition_columns] != keys:
        raise MetastoreRefusedError(
            f"The metastore's table {found} has other partition columns than the index's table. Drop it in the "
            "metastore, and publish again.",
            {"table": str(found)},
        )


def definition_differs(found: HiveTable, definition: TableDefinition) -> bool:
    """Return whether the columns or properties of the metastore's table differ from the definition."""
    wanted = altered(found, AlterTable(definition, rebuild=True))
    return wanted != found or any(
        found.parameters.get(name) != value for name, value in user_parameters(definition.properties).items()
    )


def key_types_differ(found: HiveTable, definition: TableDefinition) -> bool:
    """Return whether the types of the partition columns differ from the definition."""
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
    """A partition of the index, beside the metastore's partition with the same values.

    Attributes:
        name: The partition's name in the index.
        wanted: The partition as the index publishes it.
        found: The metastore's partition; None if it is missing there.
    """

    name: str
    wanted: HivePartition
    found: HivePartition | None

    @property
    def difference(self) -> PartitionDifference | None:
        """The first difference that requires publishing the partition; None if there is no difference."""
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
    """Pair partitions of the index with the metastore's, with one call; leave out those that no metastore can hold."""
    converted: dict[tuple[str, ...], tuple[str, HivePartition]] = {}
    for partition in wanted:
        try:
            hive = described_partition(table, partition)
        except InvalidPartitionNameError:
            continue  # the metastore can never hold a partition of this name
        converted.setdefault(hive.values, (partition.name, hive))
    found = found_by_values(metastore, table, list(converted))
    return [ComparedPartition(name, hive, found.get(values)) for values, (name, hive) in converted.items()]


def found_by_values(
    metastore: HiveMetastore, table: HiveTable, values: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], HivePartition]:
    """Return the metastore's partitions with the given values, by values, with one call."""
    names = [table.name_of(each) for each in values]
    return {p.values: p for p in metastore.partitions_by_names(table.database, table.name, names)}


def statistics_differ(found: HiveTable | HivePartition, parameters: Mapping[str, str]) -> bool:
    """Return whether the metastore lacks statistics of the index, or has different ones.

    A partition that Spark or Hive wrote has further statistics, such as a row count. As long as the numbers of files
    and bytes agree, the further statistics describe the present files, too.

    Args:
        found: A partition, or a table without partition columns.
        parameters: The statistics of the index; unknown ones are left out.
    """
    return any(name in parameters and found.parameters.get(name) != parameters[name] for name in (FILES, BYTES, ROWS))


def statistics_contradict(found: HiveTable | HivePartition, parameters: Mapping[str, str]) -> bool:
    """Return whether statistics of the metastore and the index contradict each other; missing ones do not count.

    Hive counts rows that the index has not counted, so by ``statistics_differ`` every imported partition would differ.
    """
    return any(
        name in parameters and found.parameters.get(name, parameters[name]) != parameters[name]
        for name in (FILES, BYTES, ROWS)
    )
