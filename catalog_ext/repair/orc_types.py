"""Compares the columns of an ORC file with those of its table, as Spark's reader does.

Spark gives the table's types to ORC's own reader, which converts most pairs (``SchemaEvolution``), and refuses
timestamps of the other kind before that (``OrcUtils``). Not judged: ``CHAR`` and ``VARCHAR`` of a file as BINARY,
because Arrow shows them as strings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.model.types import DataType, Field, parse_type
from catalog_ext.repair.type_comparison import LEAF, FileType, TypeComparison, array_of, map_of, reader_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.model.tables import Column

_SPARK_TYPE = b"spark.sql.catalyst.type"
_NAMELESS = "_col"
_POSITION = re.compile(r"_col\d+")
_NUMBERS = {
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "timestamp_ntz", "time",
    "interval day", "interval month",
}  # fmt: skip
"""Types that ORC's reader is asked for as numbers: local times are numbers in ORC files of Spark."""

_REFUSED = {
    "number": {"binary", "date"},
    "timestamp": {"binary"},
    "date": _NUMBERS | {"binary"},
    "binary": _NUMBERS | {"date", "timestamp"},
    "text": frozenset[str](),
}
"""By kind of a column the names of the types as which ORC's reader does not give it (``ConvertTreeReaderFactory``)."""


def unreadable_orc_column(schema: pa.Schema, columns: Sequence[Column]) -> str | None:
    """Return the first column that Spark cannot read as the table's, with the reason; None if it can read all.

    Args:
        schema: Of the file, as Arrow reads it.
        columns: The table's.
    """
    union = next((field.name for field in schema if _has_union(field.type)), None)
    if union is not None:
        return f"its column {union!r} has the type UNION, and Spark reads no column of such a file"
    fields = tuple(Field(column.name, parse_type(column.type)) for column in columns)
    table = DataType("struct", fields=fields)
    found = _struct(list(schema))
    reason = _other_timestamp(found, table, "")
    if reason is not None or not columns:
        return reason
    names = [field.name for field in schema]
    if all(name.startswith(_NAMELESS) for name in names):
        return _by_position(found, table)
    seen: dict[str, str] = {}
    wanted = {field.name.lower() for field in fields}
    for name in names:
        if name.lower() in seen and name.lower() in wanted:
            return f"it has the columns {seen[name.lower()]!r}, {name!r}, between which Spark cannot choose"
        seen[name.lower()] = name
    return _RULES.mismatch(found, table)


def _by_position(found: FileType[pa.Field], table: DataType) -> str | None:
    """Old Hive files have no names of columns: the table's columns are theirs in their order."""
    if len(found.fields) > len(table.fields):
        return f"it has {len(found.fields)} columns without names (_col0 and so on), and the table {len(table.fields)}"
    if not all(_POSITION.fullmatch(name) for name, _ in found.fields):
        # ORC's reader looks for names then, and finds none of the table's: all values are NULL.
        return None
    placed = zip(found.fields, table.fields, strict=False)
    return next((why for (name, node), field in placed if (why := _RULES.mismatch(node, field.type, name))), None)


def _has_union(shape: pa.DataType) -> bool:
    inner = (shape.field(number) for number in range(shape.num_fields))
    return pa.types.is_union(shape) or any(_has_union(field.type) for field in inner)


def _struct(fields: Sequence[pa.Field]) -> FileType[pa.Field]:
    return FileType("struct", tuple((field.name, _node(field)) for field in fields))


def _node(field: pa.Field) -> FileType[pa.Field]:
    shape = field.type
    if pa.types.is_struct(shape):
        return _struct([shape.field(number) for number in range(shape.num_fields)])
    if pa.types.is_map(shape):
        return map_of(_node(shape.key_field), _node(shape.item_field))
    if pa.types.is_list(shape):
        return array_of(_node(shape.value_field))
    return FileType(LEAF, leaf=field)


def _obstacle(leaf: pa.Field, wanted: DataType) -> str | None:
    kind = _kind(leaf.type)
    if reader_name(wanted) not in _REFUSED[kind]:
        return None
    return f"is {str(leaf.type).upper()}, which Spark does not read as the table's {str(wanted).upper()}"


def _kind(shape: pa.DataType) -> str:
    if pa.types.is_timestamp(shape):
        return "timestamp"
    if pa.types.is_date(shape):
        return "date"
    if pa.types.is_binary(shape):
        return "binary"
    return "text" if pa.types.is_string(shape) else "number"


def _other_timestamp(found: FileType[pa.Field], wanted: DataType, path: str) -> str | None:
    """The first TIMESTAMP where the table has a TIMESTAMP_NTZ, or the other way round. Spark compares by place."""
    if found.kind == LEAF:
        assert found.leaf is not None, "a leaf says what it is"
        kinds = _timestamp(found.leaf), wanted.name
        if set(kinds) == {"timestamp", "timestamp_ntz"}:
            return f"its column {path!r} is {kinds[0].upper()} where the table has a {kinds[1].upper()} in its place"
        return None
    if found.kind != wanted.name:
        return None
    types = [field.type for field in wanted.fields] or wanted.children
    for (name, child), part in zip(found.fields, types, strict=False):
        reason = _other_timestamp(child, part, f"{path}.{name}" if path else name)
        if reason is not None:
            return reason
    return None


def _timestamp(leaf: pa.Field) -> str:
    said = (leaf.metadata or {}).get(_SPARK_TYPE, b"").decode()
    return said or ("timestamp" if pa.types.is_timestamp(leaf.type) else "")


_RULES = TypeComparison(_obstacle, names_once=False)
