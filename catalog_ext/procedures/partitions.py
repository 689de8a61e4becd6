"""The bodies of the procedures that maintain partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.procedures.record_batches import in_batches
from catalog_ext.repair import report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.repair.report import ReportEntry

COLUMNS_SCHEMA = pa.schema([("table", pa.string()), ("partition_columns", pa.string()), ("mode", pa.string())])
OUTCOME_SCHEMA = pa.schema([
    ("operation", pa.string()), ("version", pa.int64()), ("partitions_added", pa.int64()),
    ("partitions_changed", pa.int64()), ("files_added", pa.int64()), ("pending_deliveries", pa.int64()),
])  # fmt: skip


def drop_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The partitions that were dropped."""
    maintenance = catalog.partition_maintenance
    return _rows(
        maintenance.drop(arguments["table"], arguments["where"], purge=arguments["purge"], dry_run=arguments["dry_run"])
    )


def expire_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The partitions that had expired."""
    maintenance = catalog.partition_maintenance
    return _rows(maintenance.expire(arguments["table"], retention=arguments["retention"], dry_run=arguments["dry_run"]))


def set_partition_columns(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """The table's partition columns as they are now."""
    table = catalog.partition_maintenance.set_partition_columns(
        arguments["table"], mode=arguments["mode"], types=arguments["types"]
    )
    columns = ", ".join(f"{c.name} {c.type.upper()}" for c in table.definition.partition_columns)
    row = {
        "table": str(table.identifier), "partition_columns": columns, "mode": str(table.definition.partition_mode),
    }  # fmt: skip
    return iter([pa.RecordBatch.from_pylist([row], schema=COLUMNS_SCHEMA)])


def exchange_partitions(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """What the command changed in the table that got the partitions."""
    commands = catalog.partition_commands
    return _outcome(commands.exchange(arguments["table"], arguments["source"], [arguments["partition"]]))


def set_partition_location(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """What the command changed in the table."""
    commands = catalog.partition_commands
    return _outcome(commands.relocate(arguments["table"], arguments["partition"], arguments["location"]))


def _outcome(outcome: WriteOutcome) -> Iterator[pa.RecordBatch]:
    row = {name: getattr(outcome, name) for name in OUTCOME_SCHEMA.names}
    return iter([pa.RecordBatch.from_pylist([row], schema=OUTCOME_SCHEMA)])


def _rows(entries: Sequence[ReportEntry]) -> Iterator[pa.RecordBatch]:
    return in_batches((entry._asdict() for entry in entries), report.SCHEMA)
