"""Procedures that show and change the partitions of views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import NotFoundError
from catalog_ext.metastore.model.partition_names import DeclaredNames
from catalog_ext.procedures.procedure import MAP, SPEC, Parameter, Procedure, columns
from catalog_ext.sync.tables import table_of
from catalog_ext.views.views import NewViewPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.catalog import Catalog


def _dependencies(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    names: dict[str, DeclaredNames] = {}

    def declared(relation: str, name: str | None) -> str | None:
        if name is None:  # no partition, or a relation of another catalog
            return None
        if relation not in names:
            names[relation] = DeclaredNames(_keys(catalog, relation))
        return names[relation].of(name)

    # A dependency on a relation without partitions is a single row, whose partition is NULL.
    return (
        {
            "partition": found.partition,
            "relation": found.dependency.relation,
            "relation_partition": declared(found.dependency.relation, name),
        }
        for found in catalog.views.dependencies(arguments["view"], arguments["partition"])
        for name in found.dependency.partitions or (None,)
    )


def _keys(catalog: Catalog, relation: str) -> list[str]:
    """Return the partition columns of a table or view; empty if it was dropped meanwhile."""
    try:
        found = catalog.views.load_relation(relation)
    except NotFoundError:
        return []
    table = table_of(found)
    return [key.name for key in table.definition.partition_columns]


def _add(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    catalog.views.add_partitions(arguments["view"], [NewViewPartition(arguments["partition"])])
    return _partitions(catalog, arguments)


def _drop(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    catalog.views.drop_partitions(arguments["view"], [arguments["partition"]])
    return _partitions(catalog, arguments)


def _partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    return [{"partition": name} for name in catalog.views.partitions(arguments["view"])]


_PARTITIONS = columns("partition")
_VIEW = Parameter("view", "string", "name of the view: namespace.view", required=True)

PROCEDURES = (
    Procedure(
        "view_dependencies",
        "Shows which tables and partitions a view's partitions were computed from when they were added",
        (_VIEW, Parameter("partition", MAP,
            "values by partition column, of some or all columns; all partitions if omitted")),
        columns("partition, relation, relation_partition"), _dependencies,
    ),
    Procedure(
        "refresh_view_partitions",
        "Recomputes the partitions of an automatic view (partition.auto) from its tables, and lists them",
        (_VIEW,),
        _PARTITIONS, _partitions,
    ),
    Procedure(
        "add_view_partition",
        "Adds a partition without dependencies to a partitioned view, and lists all its partitions",
        (_VIEW, SPEC),
        _PARTITIONS, _add,
    ),
    Procedure(
        "drop_view_partition", "Drops the partitions of a view that match, and lists the remaining ones",
        (_VIEW, SPEC),
        _PARTITIONS, _drop,
    ),
)  # fmt: skip
