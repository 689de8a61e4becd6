"""Compares the columns of a Parquet file with those of its table, as Spark's vectorized reader does.

The rules are those of Spark's ``ParquetVectorUpdaterFactory`` for leaves, and of ``ParquetReadSupport`` for how they
nest, as far as Spark 4.0 to 4.3 agree. With ``spark.sql.parquet.enableVectorizedReader`` = ``false`` Spark converts
other pairs of types, which counts for nothing here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from catalog_ext.metastore.model.types import DataType, Field, parse_type
from catalog_ext.repair.type_comparison import LEAF, FileType, TypeComparison, array_of, map_of, reader_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyarrow import parquet as pq

    from catalog_ext.metastore.model.tables import Column

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
"""By physical type the names of Spark's types as which a column of it can be read, whatever its logical type."""

_COMPARED = {name for names in _READABLE.values() for name in names} | {"decimal", "time"}
_TOO_SMALL_FOR_UNSIGNED = {
    32: {"tinyint", "smallint", "int", "date", "interval month"},
    64: {"bigint", "interval day"},
}
"""By the bits of unsigned integers the types as which Spark does not read them."""

_DIGITS = {"INT32": 10, "INT64": 20}
"""Digits before the point that a decimal needs for Spark to read whole numbers as it."""

_UNSIGNED_64 = (20, 0)
"""The decimal as which Spark reads unsigned integers of 64 bits."""

_TIMESTAMPS = {"timestamp", "timestamp_ntz"}
_NANOSECONDS = (
    "holds nanoseconds, which Spark cannot read as {}: write with coerce_timestamps='us' (pyarrow, pandas), or, if all "
    "files of the table hold nanoseconds, give the column the type BIGINT (it would show microseconds as they are, too)"
)


def unreadable_column(metadata: pq.FileMetaData, columns: Sequence[Column]) -> str | None:
    """Return the first column that Spark cannot read as the table's, with the reason; None if it can read all.

    Args:
        metadata: Of the file.
        columns: The table's.
    """
    # Spark compares the types of leaves when it reads a row group, and how they nest when it opens the file.
    rules = TypeComparison(_obstacle, has_rows=metadata.num_rows > 0)
    table = DataType("struct", fields=tuple(Field(column.name, parse_type(column.type)) for column in columns))
    return rules.mismatch(_tree(metadata.schema), table)


def _tree(schema: pq.ParquetSchema) -> FileType[pq.ColumnSchema]:
    leaves = [schema.column(number) for number in range(len(schema))]
    try:
        # Arrow knows how the columns nest, in old and new encodings.
        shape = schema.to_arrow_schema()
    except pa.ArrowNotImplementedError:
        # A column of a type that Arrow does not have: those that do not nest are compared all the same.
        flat = (leaf for leaf in leaves if leaf.path == leaf.name and not leaf.max_repetition_level)
        return FileType("struct", tuple((leaf.name, FileType(LEAF, leaf=leaf)) for leaf in flat))
    rest = iter(leaves)
    return FileType("struct", tuple((field.name, _node(field.type, rest)) for field in shape))


def _node(shape: pa.DataType, leaves: Iterator[pq.ColumnSchema]) -> FileType[pq.ColumnSchema]:
    if isinstance(shape, pa.BaseExtensionType):
        shape = shape.storage_type
    if pa.types.is_struct(shape):
        inner = (shape.field(number) for number in range(shape.num_fields))
        return FileType("struct", tuple((field.name, _node(field.type, leaves)) for field in inner))
    if pa.types.is_map(shape):
        return map_of(_node(shape.key_type, leaves), _node(shape.item_type, leaves))
    if pa.types.is_list(shape) or pa.types.is_large_list(shape) or pa.types.is_fixed_size_list(shape):
        return array_of(_node(shape.value_type, leaves))
    return FileType(LEAF, leaf=next(leaves))


def _obstacle(leaf: pq.ColumnSchema, wanted: DataType) -> str | None:
    name = reader_name(wanted)
    if name not in _COMPARED:
        return None
    logical: dict[str, Any] = json.loads(leaf.logical_type.to_json())
    kind, unit = logical.get("Type"), logical.get("timeUnit")
    if _is_readable(leaf.physical_type, logical, wanted):
        return None
    if leaf.physical_type == "INT64" and name in _TIMESTAMPS and kind == "Timestamp":
        return _NANOSECONDS.format(str(wanted).upper()) if unit == "nanoseconds" else None
    shown = leaf.physical_type if kind in (None, "None") else f"{leaf.physical_type} ({_shown(logical)})"
    return f"is {shown}, which Spark does not read as the table's {str(wanted).upper()}"


def _is_readable(physical: str, logical: dict[str, Any], wanted: DataType) -> bool:
    name, kind = reader_name(wanted), logical.get("Type")
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
    """Whether Spark reads a column as a decimal: one that has room for each digit before the point and behind it."""
    match logical:
        case {"Type": "Decimal", "precision": int(digits), "scale": int(behind)}:
            return scale >= behind and precision - scale >= digits - behind
        case {"Type": "None"} | {"Type": "Int", "isSigned": True}:
            return physical in _DIGITS and precision - scale >= _DIGITS[physical]
        case {"Type": "Int", "bitWidth": 64}:
            return (precision, scale) == _UNSIGNED_64
    return False


def _shown(logical: dict[str, Any]) -> str:
    kind = str(logical["Type"])
    return f"{kind}({logical['precision']},{logical['scale']})" if kind == "Decimal" else kind
