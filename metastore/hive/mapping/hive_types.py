"""Hive's type strings for Spark's types and back."""

from __future__ import annotations

import re
from dataclasses import replace

from catalog_ext.metastore.errors import InvalidTypeError, UnsupportedFormatError
from catalog_ext.metastore.model.types import DataType, parse_type

_SAME = frozenset({
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp",
})  # fmt: skip
_LOCAL_ZONE = re.compile("timestamp with local time zone", re.IGNORECASE)
"""Hive 3's name for the type that Spark calls TIMESTAMP."""
_MAX_CHAR = 255
_FIELD_NAME = re.compile(r"[\w.$]+")
"""Characters that Hive's type parser accepts in the name of a struct's field."""


def hive_type(data_type: DataType) -> str | None:
    """Return the type string of a data column from which Hive engines read equal values; None if Hive has no such type.

    TIMESTAMP_NTZ maps to Hive's TIMESTAMP, which has no zone. Hive has no types for TIME, VARIANT, VOID and Spark's
    intervals. Hive compares strings by their bytes, so a collation is kept only in Spark's schema.
    """
    name = data_type.name
    if name in _SAME or name in ("decimal", "char", "varchar"):
        too_long = name == "char" and data_type.parameters[0] > _MAX_CHAR
        return None if too_long else str(replace(data_type, collation=None))
    if name == "timestamp_ntz":
        return "timestamp"
    if name in ("array", "map"):
        children = [hive_type(child) for child in data_type.children]
        return None if None in children else f"{name}<{','.join(c for c in children if c)}>"
    if name == "struct":
        return _struct(data_type)
    return None


def _struct(data_type: DataType) -> str | None:
    fields: list[str] = []
    for field in data_type.fields:
        text = hive_type(field.type)
        if text is None or not _FIELD_NAME.fullmatch(field.name):
            return None
        fields.append(f"{field.name.lower()}:{text}")
    return f"struct<{','.join(fields)}>"


def hive_key_type(data_type: DataType) -> str:
    """Return the type string of a partition column; TIME becomes STRING, which sorts in the same order."""
    return hive_type(data_type) or "string"


def spark_type(text: str, column: str, table: str) -> str:
    """Return Spark's canonical type for a type string of the metastore.

    Raises:
        UnsupportedFormatError: Spark has no such type (UNIONTYPE, INTERVAL, …).
    """
    try:
        parsed = parse_type(_quote_fields(_LOCAL_ZONE.sub("timestamp", text)))
    except InvalidTypeError as error:
        raise UnsupportedFormatError(
            f"Column {column!r} of the metastore's table {table} has the type {text[:200]!r}, which Spark cannot read.",
            {"table": table, "column": column, "type": text[:200]},
        ) from error
    return str(parsed)


def _quote_fields(text: str) -> str:
    # Hive writes field names without quotes, whatever characters they contain. Spark's grammar requires backticks
    # around names with other characters than letters, digits and underscores.
    return re.sub(r"(?<=[<,])\s*([\w.$ ]*[.$ ][\w.$ ]*)\s*:", r"`\1`:", text)
