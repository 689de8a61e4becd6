"""Rows of the index from domain objects and back; maps and lists are kept as JSON text."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import InvalidInputError, InvalidPartitionNameError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, Table, TableDefinition, TableType, Totals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def to_json(value: object) -> str:
    """Compact JSON text, the same for equal values; in ASCII, so that every database keeps every text."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, default=str)


def columns_to_list(columns: Sequence[Column]) -> list[dict[str, Any]]:
    """Return the columns as the service contract writes them."""
    return [column_to_dict(c) for c in columns]


def column_to_dict(column: Column) -> dict[str, Any]:
    """Return the column as the service contract writes it; defaults are left out where there are none."""
    defaults = {"default": column.default, "existing_default": column.existing_default}
    return {
        "name": column.name, "type": column.type, "nullable": column.nullable, "comment": column.comment,
        **{key: text for key, text in defaults.items() if text is not None},
    }  # fmt: skip


def columns_from_list(items: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the columns that ``columns_to_list`` wrote."""
    return tuple(
        Column(i["name"], i["type"], i["nullable"], i["comment"], i.get("default"), i.get("existing_default"))
        for i in items
    )


def definition_to_dict(definition: TableDefinition) -> dict[str, Any]:
    """Return the definition as JSON values: the payload of ``create_table``, ``alter_table`` and ``drop_table``."""
    return {
        "namespace": definition.identifier.namespace,
        "name": definition.identifier.name,
        "table_type": str(definition.table_type),
        "format": definition.format,
        "location": definition.location,
        "columns": columns_to_list(definition.columns),
        "partition_columns": columns_to_list(definition.partition_columns),
        "options": dict(definition.options),
        "properties": dict(definition.properties),
        "comment": definition.comment,
        "owner": definition.owner,
    }


def definition_from_dict(value: Mapping[str, Any]) -> TableDefinition:
    """Return the definition that ``definition_to_dict`` wrote."""
    return TableDefinition(
        identifier=TableIdentifier(value["namespace"], value["name"]),
        table_type=TableType(value["table_type"]),
        format=value["format"],
        location=value["location"],
        columns=columns_from_list(value["columns"]),
        partition_columns=columns_from_list(value["partition_columns"]),
        options=value["options"],
        properties=value["properties"],
        comment=value["comment"],
        owner=value["owner"],
    )


def definition_to_row(definition: TableDefinition) -> dict[str, Any]:
    """Return the columns of ``tables`` that hold the definition, without the namespace.

    Raises:
        InvalidInputError: A text of it cannot be kept.
    """
    of = f"table {definition.identifier}"
    return {
        "name": definition.identifier.name,
        "table_type": str(definition.table_type),
        "format": definition.format,
        "location": _storable_field(definition.location, "location", of),
        "columns": to_json(columns_to_list(definition.columns)),
        "partition_columns": to_json(columns_to_list(definition.partition_columns)),
        "options": to_json(dict(definition.options)),
        "properties": to_json(dict(definition.properties)),
        "comment": _storable_field(definition.comment, "comment", of),
        "owner": _storable_field(definition.owner, "owner", of),
    }


def table_from_row(row: Mapping[str, Any]) -> Table:
    """Return the table of a row of ``tables`` joined with its namespace's name as ``namespace``."""
    definition = TableDefinition(
        identifier=TableIdentifier(row["namespace"], row["name"]),
        table_type=TableType(row["table_type"]),
        format=row["format"],
        location=row["location"],
        columns=columns_from_list(json.loads(row["columns"])),
        partition_columns=columns_from_list(json.loads(row["partition_columns"])),
        options=json.loads(row["options"]),
        properties=json.loads(row["properties"]),
        comment=row["comment"],
        owner=row["owner"],
    )
    totals = Totals(
        partitions=row["total_partitions"],
        files=row["total_files"],
        bytes=row["total_bytes"],
        rows=None if row["uncounted_partitions"] else row["counted_rows"],
    )
    return Table(row["table_id"], definition, row["version"], totals, row["created_at_ms"])


def namespace_to_row(namespace: Namespace) -> dict[str, Any]:
    """Return the columns of ``namespaces`` that hold the namespace.

    Raises:
        InvalidInputError: A text of it cannot be kept.
    """
    of = f"namespace {namespace.name}"
    return {
        "name": namespace.name,
        "location": _storable_field(namespace.location, "location", of),
        "comment": _storable_field(namespace.comment, "comment", of),
        "properties": to_json(dict(namespace.properties)),
    }


def namespace_from_row(row: Mapping[str, Any]) -> Namespace:
    """Return the namespace of a row of ``namespaces``."""
    return Namespace(row["name"], row["location"], row["comment"], json.loads(row["properties"]))


def namespace_to_dict(namespace: Namespace) -> dict[str, Any]:
    """Return the namespace as JSON values: the payload of ``create_namespace`` and ``alter_namespace``."""
    return {
        "name": namespace.name,
        "location": namespace.location,
        "comment": namespace.comment,
        "properties": dict(namespace.properties),
    }


def name_hash(name: str) -> str:
    """Return the 32 hexadecimal digits by which a partition's name is found: names are too long for an index.

    Raises:
        InvalidPartitionNameError: The name has a character that no database keeps.
    """
    return hashlib.blake2b(storable(name, "partition").encode("utf-8"), digest_size=16).hexdigest()


def storable(text: str, what: str) -> str:
    """Return the name of a partition or file, when a database can keep it.

    Raises:
        InvalidPartitionNameError: It has a NUL, or bytes that are not UTF-8 (kept by Python as lone surrogates).
    """
    problem = _problem(text)
    if problem is None:
        return text
    shown = text if len(text) <= 200 else f"{text[:120]}… ({len(text)} characters)"
    raise InvalidPartitionNameError(
        f"The {what} name {shown!a} has {problem}, which the index cannot keep. Rename it on the store.",
        {what: ascii(shown)},
    )


def _storable_field(text: str | None, what: str, of: str) -> str | None:
    problem = None if text is None else _problem(text)
    if problem is not None:
        raise InvalidInputError(
            f"The {what} of {of} has {problem}, which the index cannot keep. Remove it.", {"of": of}
        )
    return text


def _problem(text: str) -> str | None:
    problem = "a NUL character" if "\x00" in text else None
    if problem is None and not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            problem = "bytes that are not valid UTF-8"
    return problem
