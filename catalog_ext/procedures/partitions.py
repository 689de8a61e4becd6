"""Procedures that drop, expire, exchange and change partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.procedures.procedure import DRY_RUN, MAP, SPEC, TABLE, Parameter, Procedure, columns
from catalog_ext.repair import report

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.catalog import Catalog

_OUTCOME = columns(
    "operation, version bigint, partitions_added bigint, partitions_changed bigint, files_added bigint, "
    "pending_deliveries bigint"
)


def _set_partition_columns(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    table = catalog.partition_maintenance.set_partition_columns(**arguments)
    keys = ", ".join(f"{c.name} {c.type.upper()}" for c in table.definition.partition_columns)
    return [{"table": str(table.identifier), "partition_columns": keys, "mode": str(table.definition.partition_mode)}]


def _exchange(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    exchanged = catalog.partition_commands.exchange(arguments["table"], arguments["source"], [arguments["partition"]])
    return [exchanged]


def _relocate(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    return [catalog.partition_commands.relocate(arguments["table"], arguments["partition"], arguments["location"])]


PROCEDURES = (
    Procedure(
        "drop_partitions", "Drops the partitions that a condition is true for; a managed table's data is deleted",
        (
            TABLE, Parameter("where", "string", "a condition on partition columns", required=True),
            Parameter("purge", "boolean", "delete a managed table's data outside its directory too", default=False),
            DRY_RUN,
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.partition_maintenance.drop(**arguments), touches=("table",),
    ),
    Procedure(
        "expire_partitions", "Drops the partitions whose time, by their values, is longer ago than the retention",
        (
            TABLE, Parameter("retention", "string", "a duration such as 30d; partition.retention.period if left out"),
            DRY_RUN,
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.partition_maintenance.expire(**arguments), touches=("table",),
    ),
    Procedure(
        "exchange_partitions",
        "Moves partitions of another table into this one, as ALTER TABLE ... EXCHANGE PARTITION does",
        (TABLE, Parameter("source", "string", "the table that loses them", required=True), SPEC),
        _OUTCOME, _exchange, touches=("table", "source"),
    ),
    Procedure(
        "set_partition_location",
        "Makes a partition's files those of another place, as ALTER TABLE ... PARTITION ... SET LOCATION does",
        (TABLE, SPEC, Parameter("location", "string", "the place; relative to the table's", required=True)),
        _OUTCOME, _relocate, touches=("table",),
    ),
    Procedure(
        "set_partition_columns", "Changes how a table's partition columns appear, and their types",
        (
            TABLE, Parameter("mode", "string", "declared or virtual; as it is if left out"),
            Parameter("types", MAP, "new types by partition column; as they are if left out"),
        ),
        columns("table, partition_columns, mode"), _set_partition_columns, touches=("table",),
    ),
)  # fmt: skip
