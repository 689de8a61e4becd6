"""Shows and changes the partitions of views by procedures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.errors import NotFoundError
from catalog_ext.metastore.model.partition_names import DeclaredNames
from catalog_ext.metastore.model.views import View
from catalog_ext.procedures.procedure import MAP, SPEC, TEXT, Parameter, Procedure, in_batches
from catalog_ext.views.views import NewViewPartition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.catalog import Catalog

_DEPENDENCIES_SCHEMA = pa.schema({
    "partition": TEXT, "relation": TEXT, "relation_partition": TEXT,
})  # fmt: skip
_PARTITIONS_SCHEMA = pa.schema([("partition", pa.string())])


def _dependencies(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    names: dict[str, DeclaredNames] = {}

    def declared(relation: str, name: str | None) -> str | None:
        if name is None:  # also of every relation of another catalog
            return None
        if relation not in names:
            names[relation] = DeclaredNames(_keys(catalog, relation))
        return names[relation].of(name)

    # A relation without partitions is one row, whose partition is NULL.
    rows = (
        {
            "partition": found.partition,
            "relation": found.dependency.relation,
            "relation_partition": declared(found.dependency.relation, name),
        }
        for found in catalog.views.dependencies(arguments["view"], arguments["partition"])
        for name in found.dependency.partitions or (None,)
    )
    return in_batches(rows, _DEPENDENCIES_SCHEMA)


def _keys(catalog: Catalog, relation: str) -> list[str]:
    """Return the partition columns of a table or view; none where it has been dropped since."""
    try:
        found = catalog.views.load_relation(relation)
    except NotFoundError:
        return []
    table = found.table if isinstance(found, View) else found
    return [key.name for key in table.definition.partition_columns]


def _add(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    catalog.views.add_partitions(arguments["view"], [NewViewPartition(arguments["partition"])])
    return _partitions(catalog, arguments)


def _drop(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    catalog.views.drop_partitions(arguments["view"], [arguments["partition"]])
    return _partitions(catalog, arguments)


def _partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    rows = ({"partition": name} for name in catalog.views.partitions(arguments["view"]))
    return in_batches(rows, _PARTITIONS_SCHEMA)


_VIEW = Parameter("view", "string", "namespace.view", required=True)

PROCEDURES = (
    Procedure(
        "view_dependencies", "Shows what the partitions of a view were made of when they were added",
        (_VIEW, Parameter("partition", MAP, "a maybe partial specification of the partitions; all if left out")),
        _DEPENDENCIES_SCHEMA, _dependencies,
    ),
    Procedure(
        "refresh_view_partitions", "Brings the partitions of an automatic view in step with its tables, and lists them",
        (_VIEW,),
        _PARTITIONS_SCHEMA, _partitions,
    ),
    Procedure(
        "add_view_partition",
        "Adds a partition to a partitioned view, without dependencies, and lists what it has then",
        (_VIEW, SPEC),
        _PARTITIONS_SCHEMA, _add,
    ),
    Procedure(
        "drop_view_partition", "Drops the partitions of a view that a specification names, and lists what it has then",
        (_VIEW, SPEC),
        _PARTITIONS_SCHEMA, _drop,
    ),
)  # fmt: skip
