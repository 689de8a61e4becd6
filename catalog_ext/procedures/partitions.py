"""Drops, expires, exchanges and changes partitions by procedures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.procedure import DRY_RUN, LONG, MAP, SPEC, TABLE, TEXT, Parameter, Procedure, in_batches
from catalog_ext.repair import report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.repair.report import ReportEntry

COLUMNS_SCHEMA = pa.schema([("table", pa.string()), ("partition_columns", pa.string()), ("mode", pa.string())])
OUTCOME_SCHEMA = pa.schema({
    "operation": TEXT, "version": LONG, "partitions_added": LONG, "partitions_changed": LONG, "files_added": LONG,
    "pending_deliveries": LONG,
})  # fmt: skip


def _drop_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    maintenance = catalog.partition_maintenance
    return _rows(
        maintenance.drop(arguments["table"], arguments["where"], purge=arguments["purge"], dry_run=arguments["dry_run"])
    )


def _expire_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    maintenance = catalog.partition_maintenance
    return _rows(maintenance.expire(arguments["table"], retention=arguments["retention"], dry_run=arguments["dry_run"]))


def _set_partition_columns(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    table = catalog.partition_maintenance.set_partition_columns(
        arguments["table"], mode=arguments["mode"], types=arguments["types"]
    )
    columns = ", ".join(f"{c.name} {c.type.upper()}" for c in table.definition.partition_columns)
    row = {
        "table": str(table.identifier),
        "partition_columns": columns,
        "mode": str(table.definition.partition_mode),
    }
    return iter([pa.RecordBatch.from_pylist([row], schema=COLUMNS_SCHEMA)])


def _exchange_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    commands = catalog.partition_commands
    return _outcome(commands.exchange(arguments["table"], arguments["source"], [arguments["partition"]]))


def _set_partition_location(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    commands = catalog.partition_commands
    return _outcome(commands.relocate(arguments["table"], arguments["partition"], arguments["location"]))


def _outcome(outcome: WriteOutcome) -> Iterator[pa.RecordBatch]:
    row = {name: getattr(outcome, name) for name in OUTCOME_SCHEMA.names}
    return iter([pa.RecordBatch.from_pylist([row], schema=OUTCOME_SCHEMA)])


def _rows(entries: Sequence[ReportEntry]) -> Iterator[pa.RecordBatch]:
    return in_batches((entry._asdict() for entry in entries), report.SCHEMA)


PROCEDURES = (
    Procedure(
        "drop_partitions", "Drops the partitions that a condition is true for; a managed table's data is deleted",
        (
            TABLE, Parameter("where", "string", "a condition on partition columns", required=True),
            Parameter("purge", "boolean", "delete a managed table's data outside its directory too", default=False),
            DRY_RUN,
        ),
        report.SCHEMA, _drop_partitions, touches=("table",),
    ),
    Procedure(
        "expire_partitions", "Drops the partitions whose time, by their values, is longer ago than the retention",
        (
            TABLE, Parameter("retention", "string", "a duration such as 30d; partition.retention.period if left out"),
            DRY_RUN,
        ),
        report.SCHEMA, _expire_partitions, touches=("table",),
    ),
    Procedure(
        "exchange_partitions",
        "Moves partitions of another table into this one, as ALTER TABLE ... EXCHANGE PARTITION does",
        (TABLE, Parameter("source", "string", "the table that loses them", required=True), SPEC),
        OUTCOME_SCHEMA, _exchange_partitions, touches=("table", "source"),
    ),
    Procedure(
        "set_partition_location",
        "Makes a partition's files those of another place, as ALTER TABLE ... PARTITION ... SET LOCATION does",
        (TABLE, SPEC, Parameter("location", "string", "the place; relative to the table's", required=True)),
        OUTCOME_SCHEMA, _set_partition_location, touches=("table",),
    ),
    Procedure(
        "set_partition_columns", "Changes how a table's partition columns appear, and their types",
        (
            TABLE, Parameter("mode", "string", "declared or virtual; as it is if left out"),
            Parameter("types", MAP, "new types by partition column; as they are if left out"),
        ),
        COLUMNS_SCHEMA, _set_partition_columns, touches=("table",),
    ),
)  # fmt: skip
