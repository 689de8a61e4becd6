"""Compares the column types of a Parquet or ORC file with those of its table, as Spark's readers do.

Fields of structs are matched by name, elements of arrays and maps by position.

Parquet: the rules of Spark's vectorized reader, as far as Spark 4.0 to 4.3 agree: ``ParquetVectorUpdaterFactory`` for
leaves, and ``ParquetReadSupport`` for nested types. With ``spark.sql.parquet.enableVectorizedReader`` = ``false`` Spark
converts other pairs of types, which this module ignores.

ORC: Spark gives the table's types to ORC's own reader, which converts most pairs (``SchemaEvolution``). Before that
Spark refuses a TIMESTAMP as TIMESTAMP_NTZ and the reverse (``OrcUtils``). Not checked: ``CHAR`` and ``VARCHAR`` of a
file as BINARY, because Arrow shows them as strings.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.model.types import DataType, Field, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyarrow import parquet as pq

    from catalog_ext.metastore.model.tables import Column

_LEAF = "leaf"
_NESTED = frozenset({"struct", "array", "map"})


@dataclass(frozen=True, slots=True)
class _FileType:
    """A type in a file.

    Attributes:
        kind: ``struct``, ``array``, ``map`` or ``leaf``.
        fields: Names and types of a struct's fields, of an array's element, of a map's key and value.
        leaf: For a leaf, its column in a Parquet file's schema, or its field in the Arrow schema of an ORC file.
    """

    kind: str
    fields: tuple[tuple[str, _FileType], ...] = ()
    leaf: Any = None


def _struct(fields: Iterable[pa.Field], leaf_of: Callable[[pa.Field], object]) -> _FileType:
    return _FileType("struct", tuple((field.name, _node(field, leaf_of)) for field in fields))


def _node(field: pa.Field, leaf_of: Callable[[pa.Field], object]) -> _FileType:
    shape = field.type.storage_type if isinstance(field.type, pa.BaseExtensionType) else field.type
    if pa.types.is_struct(shape):
        return _struct(shape, leaf_of)
    if pa.types.is_map(shape):
        fields = (("key", _node(shape.key_field, leaf_of)), ("value", _node(shape.item_field, leaf_of)))
        return _FileType("map", fields)
    if pa.types.is_list(shape) or pa.types.is_large_list(shape) or pa.types.is_fixed_size_list(shape):
        return _FileType("array", (("element", _node(shape.value_field, leaf_of)),))
    return _FileType(_LEAF, leaf=leaf_of(field))


def _table_type(columns: Sequence[Column]) -> DataType:
    return DataType("struct", fields=tuple(Field(column.name, parse_type(column.type)) for column in columns))


@dataclass(frozen=True, slots=True)
class _Reader:
    """The type rules of Spark's reader for one format.

    Attributes:
        obstacle: Returns why the reader cannot read a leaf column as a type without children; None if it can.
        has_rows: Whether the file has rows; without rows the reader never checks the types of leaves.
        names_once: Whether the reader refuses a struct in which a field occurs twice, in different cases.
    """

    obstacle: Callable[[Any, DataType], str | None]
    has_rows: bool = True
    names_once: bool = True

    def mismatch(self, found: _FileType, wanted: DataType, path: str = "") -> str | None:
        """Return why the reader cannot read a file's column as the table's type, with the column's path; else None.

        Args:
            found: The type in the file.
            wanted: The type in the table.
            path: The column's path within the file, for the reason; empty for the root.
        """
        if found.kind == _LEAF and wanted.name not in _NESTED:
            reason = self.obstacle(found.leaf, wanted) if self.has_rows else None
            return reason and f"its column {path!r} {reason}"
        if found.kind == _LEAF and not self.has_rows:
            # In a file without rows Spark checks the nesting of a column only if the table's type is a struct or has
            # nested children.
            has_parts = wanted.name == "struct" or any(child.name in _NESTED for child in wanted.children)
            return _other_kind(found, wanted, path) if has_parts else None
        if found.kind != wanted.name:
            return _other_kind(found, wanted, path)
        if found.kind == "struct":
            reasons = (self._field(found, field, path) for field in wanted.fields)
        else:
            parts = zip(found.fields, wanted.children, strict=True)
            reasons = (self.mismatch(child, part, _below(path, name)) for (name, child), part in parts)
        return next((reason for reason in reasons if reason is not None), None)

    def _field(self, found: _FileType, wanted: Field, path: str) -> str | None:
        matching = [(_below(path, name), child) for name, child in found.fields if name.lower() == wanted.name.lower()]
        if self.names_once and len(matching) > 1:
            names = ", ".join(repr(name) for name, _ in matching)
            return f"it has the columns {names}, between which Spark cannot choose"
        # A field may occur several times in different cases. A reader that accepts this (ORC's) reads the last one.
        return self.mismatch(matching[-1][1], wanted.type, matching[-1][0]) if matching else None


def _other_kind(found: _FileType, wanted: DataType, path: str) -> str:
    shown = (
        "a single value" if found.kind == _LEAF else f"{'an' if found.kind == 'array' else 'a'} {found.kind.upper()}"
    )
    return f"its column {path!r} is {_not_read(shown, wanted)}"


def _not_read(shown: str, wanted: DataType) -> str:
    return f"{shown}, which Spark does not read as the table's {str(wanted).upper()}"


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _reader_name(wanted: DataType) -> str:
    """Return the type's name in the reader rules: all year-month intervals, and all day-time ones, have one."""
    if not wanted.name.startswith("interval"):
        return wanted.name
    return "interval month" if wanted.name.endswith(("year", "month")) else "interval day"


_READABLE = {
    "BOOLEAN": {"boolean"},
    "INT32": {"tinyint", "smallint", "int", "bigint", "double", "date", "interval month"},
    "INT64": {"bigint", "interval day"},
    "INT96": {"timestamp", "timestamp_ntz"},
    "FLOAT": {"float", "double"},
    "DOUBLE": {"double"},
    "BYTE_ARRAY": {"string", "char", "varchar", "binary"},
    "FIXED_LEN_BYTE_ARRAY": {"binary"},
}
"""For each physical type of Parquet, the types in the table as which Spark can read it, whatever its logical type."""

_COMPARED = {name for names in _READABLE.values() for name in names} | {"decimal", "time"}
_TOO_SMALL_FOR_UNSIGNED = {
    32: {"tinyint", "smallint", "int", "date", "interval month"},
    64: {"bigint", "interval day"},
}
"""The types in the table as which Spark does not read unsigned integers, by their number of bits."""

_DIGITS = {"INT32": 10, "INT64": 20}
"""The digits before the decimal point that a DECIMAL needs, for Spark to read integers as this DECIMAL."""

_UNSIGNED_64 = (20, 0)
"""The precision and scale of the DECIMAL as which Spark reads unsigned integers of 64 bits."""

_TIMESTAMPS = {"timestamp", "timestamp_ntz"}
_NANOSECONDS = (
    "holds nanoseconds, which Spark cannot read as {}: write with coerce_timestamps='us' (pyarrow, pandas), or, if all "
    "files of the table hold nanoseconds, give the column the type BIGINT (it would show microseconds as they are, too)"
)


def unreadable_parquet_column(metadata: pq.FileMetaData, columns: Sequence[Column]) -> str | None:
    """Return the first column that Spark cannot read as the table's type, with the reason; None if it can read all.

    Args:
        metadata: The metadata of the file.
        columns: The columns of the table.
    """
    schema = metadata.schema
    leaves = [schema.column(number) for number in range(len(schema))]
    try:
        # Arrow's schema shows how columns nest, in old and new encodings.
        shape = schema.to_arrow_schema()
    except pa.ArrowNotImplementedError:
        # Arrow cannot represent the type of some column. Compare only the columns that are not nested.
        flat = (leaf for leaf in leaves if leaf.path == leaf.name and not leaf.max_repetition_level)
        found = _FileType("struct", tuple((leaf.name, _FileType(_LEAF, leaf=leaf)) for leaf in flat))
    else:
        rest = iter(leaves)
        found = _struct(shape, lambda _: next(rest))
    # Spark compares the types of leaves only when it reads a row group, so a file without rows passes whatever its
    # leaves are. It checks the nesting of types when it opens the file.
    return _Reader(_parquet_obstacle, has_rows=metadata.num_rows > 0).mismatch(found, _table_type(columns))


def _parquet_obstacle(leaf: pq.ColumnSchema, wanted: DataType) -> str | None:
    name, physical = _reader_name(wanted), leaf.physical_type
    if name not in _COMPARED:
        return None
    logical: dict[str, Any] = json.loads(leaf.logical_type.to_json())
    kind = logical.get("Type", "None")
    if _is_readable(physical, logical, wanted):
        return None
    if physical == "INT64" and name in _TIMESTAMPS and kind == "Timestamp":
        return _NANOSECONDS.format(str(wanted).upper()) if logical.get("timeUnit") == "nanoseconds" else None
    digits = f"({logical['precision']},{logical['scale']})" if kind == "Decimal" else ""
    return f"is {_not_read(physical if kind == 'None' else f'{physical} ({kind}{digits})', wanted)}"


def _is_readable(physical: str, logical: dict[str, Any], wanted: DataType) -> bool:
    name, kind = _reader_name(wanted), logical.get("Type")
    if name == "decimal":
        precision, scale = wanted.parameters
        return _is_decimal(physical, logical, int(precision), int(scale))
    if name == "time":
        return physical == "INT64" and kind == "Time"
    if name == "timestamp_ntz" and physical == "INT32":
        return kind == "Date"
    too_small = _TOO_SMALL_FOR_UNSIGNED.get(logical["bitWidth"], set()) if logical.get("isSigned") is False else set()
    return name in _READABLE.get(physical, _COMPARED) - too_small


def _is_decimal(physical: str, logical: dict[str, Any], precision: int, scale: int) -> bool:
    """Return whether Spark reads a column as the given DECIMAL: all digits on both sides of the point must fit."""
    match logical:
        case {"Type": "Decimal", "precision": int(digits), "scale": int(behind)}:
            return scale >= behind and precision - scale >= digits - behind
        case {"Type": "None"} | {"Type": "Int", "isSigned": True}:
            return physical in _DIGITS and precision - scale >= _DIGITS[physical]
        case {"Type": "Int", "bitWidth": 64}:
            return (precision, scale) == _UNSIGNED_64
    return False


_SPARK_TYPE = b"spark.sql.catalyst.type"
_NAMELESS = "_col"
_POSITION = re.compile(r"_col\d+")
_NUMBERS = {
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "timestamp_ntz", "time",
    "interval day", "interval month",
}  # fmt: skip
"""Types in the table that ORC's reader converts from numbers. Spark stores TIMESTAMP_NTZ in ORC files as a number."""

_REFUSED = (
    (pa.types.is_timestamp, {"binary"}),
    (pa.types.is_date, _NUMBERS | {"binary"}),
    (pa.types.is_binary, _NUMBERS | {"date", "timestamp"}),
    (pa.types.is_string, frozenset[str]()),
    (lambda _: True, {"binary", "date"}),
)
"""For each kind of ORC column, the types in the table to which ORC's reader refuses to convert it."""


def unreadable_orc_column(schema: pa.Schema, columns: Sequence[Column]) -> str | None:
    """Return the first column that Spark cannot read as the table's type, with the reason; None if it can read all.

    Args:
        schema: The file's schema, as Arrow reads it.
        columns: The columns of the table.
    """
    union = next((field.name for field in schema if _has_union(field.type)), None)
    if union is not None:
        return f"its column {union!r} has the type UNION, and Spark reads no column of such a file"
    table = _table_type(columns)
    found = _struct(schema, lambda field: field)
    reason = _other_timestamp(found, table, "")
    if reason is not None or not columns:
        return reason
    names = [field.name for field in schema]
    if all(name.startswith(_NAMELESS) for name in names):
        return _by_position(found, table)
    seen: dict[str, str] = {}
    wanted = {field.name.lower() for field in table.fields}
    for name in names:
        if name.lower() in seen and name.lower() in wanted:
            return f"it has the columns {seen[name.lower()]!r}, {name!r}, between which Spark cannot choose"
        seen[name.lower()] = name
    return _ORC.mismatch(found, table)


def _by_position(found: _FileType, table: DataType) -> str | None:
    """Compare a file without column names (of an old Hive) with the table, column by column in their order."""
    if len(found.fields) > len(table.fields):
        return f"it has {len(found.fields)} columns without names (_col0 and so on), and the table {len(table.fields)}"
    if not all(_POSITION.fullmatch(name) for name, _ in found.fields):
        # If only some names are positions (_col0), ORC's reader matches by name. It finds no column of the table, and
        # reads NULLs without an error.
        return None
    placed = zip(found.fields, table.fields, strict=False)
    return next((why for (name, node), field in placed if (why := _ORC.mismatch(node, field.type, name))), None)


def _has_union(shape: pa.DataType) -> bool:
    inner = (shape.field(number) for number in range(shape.num_fields))
    return pa.types.is_union(shape) or any(_has_union(field.type) for field in inner)


def _orc_obstacle(leaf: pa.Field, wanted: DataType) -> str | None:
    refused = next(names for is_kind, names in _REFUSED if is_kind(leaf.type))
    return f"is {_not_read(str(leaf.type).upper(), wanted)}" if _reader_name(wanted) in refused else None


def _other_timestamp(found: _FileType, wanted: DataType, path: str) -> str | None:
    """Return why a TIMESTAMP of the file cannot be read, because the table has TIMESTAMP_NTZ there, or the reverse.

    Struct fields are compared by position, as Spark does here.
    """
    if found.kind == _LEAF:
        said = (found.leaf.metadata or {}).get(_SPARK_TYPE, b"").decode()
        kind = said or ("timestamp" if pa.types.is_timestamp(found.leaf.type) else "")
        if {kind, wanted.name} == _TIMESTAMPS:
            return f"its column {path!r} is {kind.upper()} where the table has a {wanted.name.upper()} in its place"
        return None
    if found.kind != wanted.name:
        return None
    types = [field.type for field in wanted.fields] or wanted.children
    parts = zip(found.fields, types, strict=False)
    return next((r for (name, c), part in parts if (r := _other_timestamp(c, part, _below(path, name)))), None)


_ORC = _Reader(_orc_obstacle, names_once=False)
