"""Compares the columns of a Parquet file with those of its table, as Spark's vectorized reader does.

The rules are those of Spark's ``ParquetVectorUpdaterFactory``, as far as Spark 4.0 to 4.3 agree. What they do not
decide for certain passes: nested columns, and how many digits a decimal has.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyarrow import parquet as pq

    from catalog_ext.metastore.model.tables import Column

_READABLE = {
    "BOOLEAN": {"boolean"},
    "INT32": {"tinyint", "smallint", "int", "bigint", "double", "date", "decimal", "time"},
    "INT64": {"bigint", "decimal", "time"},
    "INT96": {"timestamp", "timestamp_ntz"},
    "FLOAT": {"float", "double"},
    "DOUBLE": {"double"},
    "BYTE_ARRAY": {"string", "char", "varchar", "binary", "decimal"},
    "FIXED_LEN_BYTE_ARRAY": {"binary", "decimal"},
}
"""By physical type the names of Spark's types as which a column of it can be read, whatever its logical type."""

_COMPARED = {name for names in _READABLE.values() for name in names}
_TOO_SMALL_FOR_UNSIGNED = {32: {"tinyint", "smallint", "int", "date"}, 64: {"bigint"}}
"""By the bits of unsigned integers the types as which Spark does not read them."""

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
    if metadata.num_rows == 0:
        # Spark compares the types when it reads a row group.
        return None
    wanted = {column.name.lower(): column.type for column in columns}
    schema = metadata.schema
    leaves = (schema.column(number) for number in range(metadata.num_columns))
    for leaf in leaves:
        given = wanted.get(leaf.path.lower())
        if given is None or leaf.max_repetition_level:
            continue
        reason = _obstacle(leaf, given)
        if reason is not None:
            return f"its column {leaf.path!r} {reason}"
    return None


def _obstacle(leaf: pq.ColumnSchema, given: str) -> str | None:
    name = parse_type(given).name
    if name not in _COMPARED:
        return None
    logical = json.loads(leaf.logical_type.to_json())
    kind, unit = logical.get("Type"), logical.get("timeUnit")
    too_small = _TOO_SMALL_FOR_UNSIGNED.get(logical["bitWidth"], set()) if logical.get("isSigned") is False else set()
    if name in _READABLE.get(leaf.physical_type, _COMPARED) - too_small:
        return None
    if leaf.physical_type == "INT64" and name in _TIMESTAMPS and kind == "Timestamp":
        return _NANOSECONDS.format(given.upper()) if unit == "nanoseconds" else None
    if leaf.physical_type == "INT32" and name == "timestamp_ntz" and kind == "Date":
        return None
    shown = leaf.physical_type if kind in (None, "None") else f"{leaf.physical_type} ({kind})"
    return f"is {shown}, which Spark does not read as the table's {given.upper()}"
