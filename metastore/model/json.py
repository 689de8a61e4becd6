"""Converts definitions, columns and statistics to JSON values and back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias

from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, ColumnStatistics, TableDefinition, TableType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.model.tables import Namespace

JsonObject: TypeAlias = "Mapping[str, Any]"
"""A JSON object as Python's ``json`` represents it, for the service's messages, database columns and files."""


def to_json(value: object) -> str:
    """Return compact JSON text that is equal for equal values, in ASCII, so that every database can store it."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)


def columns_to_list(columns: Sequence[Column]) -> list[JsonObject]:
    """Return the columns as JSON values, as in the service's contract."""
    return [_column_to_dict(c) for c in columns]


def _column_to_dict(column: Column) -> JsonObject:
    """Return the column in the form of the service contract; optional fields without a value are left out."""
    more = {
        "default": column.default,
        "existing_default": column.existing_default,
        "statistics_after": column.statistics_after,
    }
    return {
        "name": column.name, "type": column.type, "nullable": column.nullable, "comment": column.comment,
        **{key: value for key, value in more.items() if value is not None},
    }  # fmt: skip


def columns_from_list(items: Sequence[JsonObject]) -> tuple[Column, ...]:
    """Return the columns from the JSON values of ``columns_to_list``."""
    # Read known fields only: a newer release may have written more.
    required, more = ("name", "type", "nullable", "comment"), ("default", "existing_default", "statistics_after")
    return tuple(Column(*(item[name] for name in required), *map(item.get, more)) for item in items)


def definition_to_dict(definition: TableDefinition) -> JsonObject:
    """Return the definition as JSON values: the payload of ``create_table``, ``alter_table`` and ``drop_table``."""
    return {
        "namespace": definition.identifier.namespace, "name": definition.identifier.name,
        "table_type": str(definition.table_type), "format": definition.format, "location": definition.location,
        "columns": columns_to_list(definition.columns),
        "partition_columns": columns_to_list(definition.partition_columns), "options": dict(definition.options),
        "properties": dict(definition.properties), "comment": definition.comment, "owner": definition.owner,
    }  # fmt: skip


def definition_from_dict(value: JsonObject) -> TableDefinition:
    """Return the definition from the JSON values of ``definition_to_dict``."""
    return TableDefinition(
        identifier=TableIdentifier(value["namespace"], value["name"]), table_type=TableType(value["table_type"]),
        format=value["format"], location=value["location"], columns=columns_from_list(value["columns"]),
        partition_columns=columns_from_list(value["partition_columns"]), options=value["options"],
        properties=value["properties"], comment=value["comment"], owner=value["owner"],
    )  # fmt: skip


def statistics_to_dict(statistics: Mapping[str, ColumnStatistics]) -> JsonObject:
    """Return the statistics of columns as JSON values, by column name."""
    return {
        name: {
            "min": s.minimum, "max": s.maximum, "nulls": s.nulls, **({} if s.after is None else {"after": s.after}),
        }
        for name, s in statistics.items()
    }  # fmt: skip


def statistics_from_dict(value: JsonObject) -> dict[str, ColumnStatistics]:
    """Return the statistics from the JSON values of ``statistics_to_dict``."""
    return {name: ColumnStatistics(s["min"], s["max"], s["nulls"], s.get("after")) for name, s in value.items()}


def namespace_to_dict(namespace: Namespace) -> dict[str, Any]:
    """Return the namespace as JSON values, for the service and for the messages that create or alter it."""
    return {
        "name": namespace.name,
        "location": namespace.location,
        "comment": namespace.comment,
        "properties": dict(namespace.properties),
    }
