"""Procedures that register, import, unregister and repair tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from catalog_ext.procedures.procedure import DRY_RUN, MAP, TABLE, Parameter, Procedure, columns
from catalog_ext.repair import report
from catalog_ext.tables.locations import check_hides_no_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table

_TABLE_COLUMNS = columns("table, location, format, partition_columns, partition_mode, columns int, metastore")


def _register(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    return _table_row(catalog, catalog.register_table(**arguments))


def _check_session(arguments: Mapping[str, Any], there: str | None) -> None:
    check_hides_no_table(arguments["table"], arguments["location"], there)


def _import(catalog: Catalog, arguments: Mapping[str, Any]) -> Iterable[object]:
    return _table_row(catalog, catalog.import_table(**arguments))


def _table_row(catalog: Catalog, table: Table) -> Iterable[object]:
    definition = table.definition
    row = {
        "table": str(table.identifier),
        "location": definition.location,
        "format": definition.format,
        "partition_columns": ", ".join(f"{c.name} {c.type.upper()}" for c in definition.partition_columns),
        "partition_mode": str(definition.partition_mode),
        "columns": len(definition.columns),
        "metastore": catalog.metastore_state(table),
    }
    return [row]


PROCEDURES = (
    Procedure(
        "register_table", "Registers what lies at a location as an external table",
        (
            TABLE,
            Parameter("location", "string",
                "the directory above the key=value ones, or a path with wildcards", required=True),
            Parameter("format", "string", "parquet, orc, csv, json or text", default="parquet"),
            Parameter("partition_columns", MAP,
                "names and types of the keys; the keys in the paths, as STRING, if left out"),
            Parameter("partition_mode", "string", "whether SELECT * shows the keys: virtual (no) or declared (yes)"),
            Parameter("schema", "string", "the columns as DDL; read from the files if left out"),
            Parameter("options", MAP, "reader options of the format"), Parameter("properties", MAP, "table properties"),
            Parameter("if_not_exists", "boolean",
                "leave a table that is registered at the location already as it is", default=False),
        ),
        _TABLE_COLUMNS, _register, _check_session, touches=("table",),
    ),
    Procedure(
        "import_table", "Takes a table of the Hive Metastore into the index, with its partitions",
        (TABLE, Parameter("properties", MAP, "table properties")),
        _TABLE_COLUMNS, _import, touches=("table",),
    ),
    Procedure(
        "import_tables", "Takes the tables of a database of the Hive Metastore, or of a pattern, into the index",
        (
            Parameter("pattern", "string", "a database, or tables of one with * and ?: sales.fact_*", required=True),
            Parameter("properties", MAP, "table properties"),
        ),
        columns("table, action, partitions bigint, files bigint, code, reason"),
        lambda catalog, arguments: catalog.import_tables(**arguments), touches=("table",),
    ),
    Procedure(
        "unregister_table", "Forgets a table; its files and the metastore's table stay",
        (TABLE,),
        columns("table"),
        lambda catalog, arguments: [{"table": str(catalog.unregister_table(**arguments).identifier)}],
        touches=("table",),
    ),
    Procedure(
        "repair_partitions", "Brings the index and the metastore in sync with the store",
        (
            TABLE,
            Parameter("mode", "string", "add, drop or sync", default="sync"),
            Parameter("where", "string", "a condition on partition columns that limits the repair"),
            DRY_RUN,
            Parameter("strict", "boolean", "change nothing if a path would be skipped", default=False),
            Parameter("verify", "string",
                "new (or true): skip new and changed files that Spark cannot read; all: name registered ones too",
                default="none", takes_boolean=True),
            Parameter("allow_mass_drop", "boolean", "drop however much has gone", default=False),
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.repair_partitions(**arguments), touches=("table",),
        takes_session=True,
    ),
)  # fmt: skip
