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
        "drop_partitions",
        "Drops the partitions that match a condition; files of a managed table are deleted, those of an external "
        "one stay",
        (
            TABLE, Parameter("where", "string", "SQL condition on partition columns", required=True),
            Parameter("purge", "boolean",
                "also delete files of a managed table that lie outside its directory", default=False),
            DRY_RUN,
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.partition_maintenance.drop(**arguments), touches=("table",),
    ),
    Procedure(
        "expire_partitions",
        "Drops the partitions whose date or time, taken from their values, is older than a retention",
        (
            TABLE, Parameter("retention", "string",
                "maximum age, such as 30d (a bare number is seconds); the table's property partition.retention.period "
                "if omitted"),
            Parameter("allow_mass_drop", "boolean",
                "no limit on the share of partitions that may be dropped (repair.mass-drop-percent)", default=False),
            DRY_RUN,
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.partition_maintenance.expire(**arguments), touches=("table",),
    ),
    Procedure(
        "exchange_partitions",
        "Moves partitions of another table into this one, as ALTER TABLE ... EXCHANGE PARTITION does",
        (TABLE, Parameter("source", "string",
            "name of the table that the partitions are moved out of", required=True), SPEC),
        _OUTCOME, _exchange, touches=("table", "source"),
    ),
    Procedure(
        "set_partition_location",
        "Points a partition at another directory, as ALTER TABLE ... PARTITION ... SET LOCATION does; no file is moved",
        (TABLE, SPEC, Parameter("location", "string",
            "the new directory; a relative one is below the table's location", required=True)),
        _OUTCOME, _relocate, touches=("table",),
    ),
    Procedure(
        "set_partition_columns",
        "Changes whether SELECT * includes a table's partition columns, and their types; no file is changed",
        (
            TABLE, Parameter("mode", "string",
                "virtual: SELECT * omits partition columns; declared: it includes them; unchanged if omitted"),
            Parameter("types", MAP, "new types by partition column; unchanged if omitted"),
        ),
        columns("table, partition_columns, mode"), _set_partition_columns, touches=("table",),
    ),
)  # fmt: skip
