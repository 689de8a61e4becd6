"""Finds the partitions of a table or view that the metastore lacks, or has in another state than the index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.conversion import values_or_none
from catalog_ext.metastore.hive.outbox.compare import PartitionDifference, compared, statistics_differ

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import PublishedPartition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.conditions import NameFilter


@dataclass(frozen=True, slots=True)
class ComparedPage:
    """A page of the index's partitions, compared with the metastore.

    Attributes:
        partitions: The partitions as the metastore should have them.
        differ: The partitions that the metastore lacks or has in another state, by name, with the first difference.
        there: The number of these partitions that the metastore has.
    """

    partitions: list[PublishedPartition]
    differ: Mapping[str, PartitionDifference]
    there: int


def compared_pages(
    index: Index, client: HiveMetastore, table: Table, found: HiveTable | None, wanted: NameFilter | None = None
) -> Iterator[ComparedPage]:
    """Yield the partitions of a table in pages, with their differences in the metastore: one call per page.

    A table without partition columns has one partition, ``''``, with the table's statistics.

    Args:
        index: The index.
        client: The metastore.
        table: The index's table.
        found: The metastore's table of the same name. If it is None, all partitions are missing.
        wanted: Selects the partitions; None for all.

    Raises:
        MetastoreError: The metastore does not answer.
    """
    for page in index.publications.pages(table):
        partitions = page if wanted is None else [p for p in page if wanted.chooses(p.name)]
        if found is None:
            yield ComparedPage(partitions, dict.fromkeys((p.name for p in partitions), PartitionDifference.MISSING), 0)
        elif not table.definition.partition_columns:
            differ = [p.name for p in partitions if statistics_differ(found, p.parameters)]
            yield ComparedPage(partitions, dict.fromkeys(differ, PartitionDifference.STATISTICS), len(partitions))
        else:
            both = compared(client, found, partitions) if partitions else []
            named = {each.name: each.difference for each in both if each.difference is not None}
            yield ComparedPage(partitions, named, sum(each.found is not None for each in both))


def view_partitions(
    index: Index, client: HiveMetastore, view: Table, found: HiveTable | None
) -> tuple[list[PublishedPartition], list[str]]:
    """Return a view's partitions that the metastore lacks, and the names of partitions that the index lacks.

    Args:
        index: The index.
        client: The metastore.
        view: The view's table.
        found: The metastore's view of the same name; None if it has no such view.

    Raises:
        MetastoreError: The metastore does not answer.
    """
    if not view.definition.partition_columns:
        return [], []
    ours = [partition for page in index.publications.pages(view) for partition in page]
    if found is None:
        return ours, []
    theirs = {values_or_none(found, name): name for name in client.partition_names(found.database, found.name)}
    missing = [p for p in ours if values_or_none(found, p.name) not in theirs]
    known = {values_or_none(found, p.name) for p in ours}
    return missing, [name for values, name in theirs.items() if values not in known]
