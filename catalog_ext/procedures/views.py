"""The bodies of the procedures about views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.views.views import NewPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog

DEPENDENCIES_SCHEMA = pa.schema([
    ("partition", pa.string()), ("relation", pa.string()), ("relation_partition", pa.string()),
])  # fmt: skip
PARTITIONS_SCHEMA = pa.schema([("partition", pa.string())])


def view_dependencies(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for each partition of a relation that a view's partition depends on; NULL for a relation without any."""
    for found in catalog.views.dependencies(arguments["view"], arguments["partition"]):
        for name in found.dependency.partitions or (None,):
            yield {
                "partition": found.partition,
                "relation": found.dependency.relation,
                "relation_partition": name,
            }


def add_view_partition(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The partitions that the view has now."""
    catalog.views.add_partitions(arguments["view"], [NewPartition(arguments["partition"])])
    return refresh_view_partitions(catalog, arguments)


def drop_view_partition(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The partitions that the view has now."""
    catalog.views.drop_partitions(arguments["view"], [arguments["partition"]])
    return refresh_view_partitions(catalog, arguments)


def refresh_view_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The partitions that an automatic view has now."""
    return ({"partition": name} for name in catalog.views.partitions(arguments["view"]))
