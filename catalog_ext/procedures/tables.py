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
        "register_table",
        "Registers the files at a location as an external table; run repair_partitions next to add its partitions",
        (
            TABLE,
            Parameter("location", "string",
                "the directory above the key=value directories, or a path with wildcards", required=True),
            Parameter("format", "string", "format of the files: parquet, orc, csv, json or text", default="parquet"),
            Parameter("partition_columns", MAP,
                "types by partition column, in the order of the directories; if omitted, the keys in the paths, as "
                "STRING"),
            Parameter("partition_mode", "string",
                "virtual: SELECT * omits partition columns; declared: it includes them; virtual if omitted"),
            Parameter("schema", "string", "the columns as DDL; inferred from the files if omitted"),
            Parameter("options", MAP,
                "options of Spark's reader for the format"), Parameter("properties", MAP,
                "properties of the table"),
            Parameter("if_not_exists", "boolean",
                "do nothing if the table is already registered at the location", default=False),
        ),
        _TABLE_COLUMNS, _register, _check_session, touches=("table",),
    ),
    Procedure(
        "import_table",
        "Imports a table of the Hive Metastore into the index, with its partitions and files; the metastore is not "
        "changed",
        (TABLE, Parameter("properties", MAP, "properties of the table that are set in addition")),
        _TABLE_COLUMNS, _import, touches=("table",),
    ),
    Procedure(
        "import_tables",
        "Imports the tables of a metastore database, or those that match a pattern, into the index; one row for "
        "each",
        (
            Parameter("pattern", "string", "a database, or a pattern such as sales.fact_* with * and ?", required=True),
            Parameter("properties", MAP, "properties that are set on every table in addition"),
        ),
        columns("table, action, partitions bigint, files bigint, code, reason"),
        lambda catalog, arguments: catalog.import_tables(**arguments), touches=("table",),
    ),
    Procedure(
        "unregister_table", "Removes a table from the index only; its files and its table in the metastore stay",
        (TABLE,),
        columns("table"),
        lambda catalog, arguments: [{"table": str(catalog.unregister_table(**arguments).identifier)}],
        touches=("table",),
    ),
    Procedure(
        "repair_partitions",
        "Brings the index, and then the metastore, in sync with a table's files; no file is changed",
        (
            TABLE,
            Parameter("mode", "string",
                "add: only register new partitions; drop: only remove vanished ones; sync: both, and record changed "
                "files", default="sync"),
            Parameter("where", "string",
                "SQL condition on partition columns; limits the repair to the partitions that match"),
            DRY_RUN,
            Parameter("strict", "boolean", "change nothing if any path would be skipped", default=False),
            Parameter("verify", "string",
                "new (or true): skip new and changed files that Spark cannot read; all: also report registered ones",
                default="none", takes_boolean=True),
            Parameter("allow_mass_drop", "boolean",
                "no limit on the share of partitions that may be dropped (repair.mass-drop-percent)", default=False),
        ),
        report.SCHEMA, lambda catalog, arguments: catalog.repair_partitions(**arguments), touches=("table",),
        takes_session=True,
    ),
)  # fmt: skip
