"""Reads the schemas of Parquet and ORC files from their footers, with the types that Spark's readers give them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import orc

from catalog_ext.metastore.errors import InvalidInputError, InvalidTypeError
from catalog_ext.metastore.model.spark_json import field_from_json
from catalog_ext.metastore.model.types import STRING, DataType, Field, parse_type
from catalog_ext.scan.parquet_footer import read_footer

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow import parquet as pq

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

    Leaf = Callable[[pa.Field], DataType]

_SPARK_PARQUET = b"org.apache.spark.sql.parquet.row.metadata"
_SPARK_ORC = b"spark.sql.catalyst.type"
_PHYSICAL = {
    "BOOLEAN": "boolean", "INT32": "int", "INT64": "bigint", "INT96": "timestamp", "FLOAT": "float", "DOUBLE": "double",
    "BYTE_ARRAY": "binary", "FIXED_LEN_BYTE_ARRAY": "binary",
}  # fmt: skip
_LOGICAL = {"String": "string", "Enum": "string", "JSON": "string", "BSON": "binary", "Date": "date"}
_SIGNED = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
# Spark has no unsigned types, so the next wider signed type is used, which holds all values.
_UNSIGNED = {8: "smallint", 16: "int", 32: "bigint", 64: "decimal(20,0)"}


def read_parquet_fields(storage: Storage, location: Location) -> tuple[Field, ...]:
    """Return the fields of a Parquet file: those that Spark wrote into its footer, else those of its Parquet schema.

    A file of zero bytes has no fields: Spark reads no row from it.

    Raises:
        InvalidInputError: The file is not a Parquet file, or damaged.
        InvalidTypeError: Spark cannot read a column of the file.
        StorageError: The file cannot be read.
    """

    def fields(file: pa.NativeFile) -> tuple[Field, ...]:
        metadata = read_footer(file)
        if metadata is None:
            raise InvalidInputError(
                f"{location} has an encrypted footer, so that its columns cannot be read here. Give the schema.",
                {"file": str(location)},
            )
        own = (metadata.metadata or {}).get(_SPARK_PARQUET)
        if own is not None:
            return tuple(_nullable(field_from_json(f)) for f in json.loads(own)["fields"])
        return _of_parquet_schema(metadata)

    return _read(storage, location, "Parquet", fields)


def read_orc_fields(storage: Storage, location: Location) -> tuple[Field, ...]:
    """Return the fields of an ORC file; none for a file of zero bytes. Raises the errors of ``read_parquet_fields``."""

    def fields(file: pa.NativeFile) -> tuple[Field, ...]:
        return tuple(Field(f.name, _convert(f, _orc_leaf)) for f in orc.ORCFile(file).schema)

    return _read(storage, location, "ORC", fields)


def _read(
    storage: Storage, location: Location, format_name: str, fields: Callable[[pa.NativeFile], tuple[Field, ...]]
) -> tuple[Field, ...]:
    try:
        with storage.open_input_file(location) as file:
            return fields(file) if file.size() else ()
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(
            f"{location} is not a readable {format_name} file: {str(error)[:300].rstrip('. ')}. "
            "Remove it, or give the schema and the right format.",
            {"file": str(location)},
        ) from error
    except InvalidTypeError as error:
        raise InvalidTypeError(
            f"{location} has a column that Spark cannot read: {error.message} Give the schema without it.",
            {"file": str(location), **error.parameters},
        ) from error


def _nullable(f: Field) -> Field:
    # Drop NOT NULL, also of nested fields: other files of the table may have NULL there. Spark makes all columns of a
    # file source nullable too.
    return Field(f.name, _loose(f.type), comment=f.comment)


def _loose(data_type: DataType) -> DataType:
    if data_type.is_string:
        return replace(STRING, collation=data_type.collation)
    return DataType(
        data_type.name,
        data_type.parameters,
        tuple(map(_loose, data_type.children)),
        tuple(map(_nullable, data_type.fields)),
    )


def _of_parquet_schema(metadata: pq.FileMetaData) -> tuple[Field, ...]:
    # Take the nesting from Arrow, which knows old and new encodings of it. Take the types from Parquet, because Arrow's
    # types depend on the writer's Arrow library (a large_string, a dictionary, a duration).
    leaves = iter([metadata.schema.column(i) for i in range(metadata.num_columns)])
    return tuple(
        Field(f.name, _convert(f, lambda _: _parquet_leaf(next(leaves)))) for f in metadata.schema.to_arrow_schema()
    )


def _convert(f: pa.Field, leaf: Leaf) -> DataType:
    data_type = f.type
    if isinstance(data_type, pa.BaseExtensionType):
        data_type = data_type.storage_type
    if pa.types.is_struct(data_type):
        inner = (data_type.field(i) for i in range(data_type.num_fields))
        return DataType("struct", fields=tuple(Field(g.name, _convert(g, leaf)) for g in inner))
    if pa.types.is_map(data_type):
        return DataType("map", children=(_convert(data_type.key_field, leaf), _convert(data_type.item_field, leaf)))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return DataType("array", children=(_convert(data_type.value_field, leaf),))
    return leaf(f)


def _parquet_leaf(column: pq.ColumnSchema) -> DataType:
    logical: dict[str, Any] = json.loads(column.logical_type.to_json())
    match logical:
        case {"Type": "None" | "Null"}:
            return parse_type(_PHYSICAL[column.physical_type])
        case {"Type": str(kind)} if kind in _LOGICAL:
            return parse_type(_LOGICAL[kind])
        case {"Type": "Int", "bitWidth": int(bits), "isSigned": signed}:
            return parse_type((_SIGNED if signed else _UNSIGNED)[bits])
        case {"Type": "Decimal", "precision": int(precision), "scale": int(scale)}:
            return parse_type(f"decimal({precision},{scale})")
        case {"Type": "Timestamp", "isAdjustedToUTC": adjusted, "timeUnit": "milliseconds" | "microseconds"}:
            return DataType("timestamp" if adjusted else "timestamp_ntz")
        case {"Type": "Time", "timeUnit": "microseconds"}:
            return DataType("time", (6,))
    raise InvalidTypeError(
        f"the Parquet type {column.physical_type} {logical.get('Type')} ({logical.get('timeUnit', 'no unit')}) of "
        f"column {column.path!r}.",
        {"column": column.path},
    )


def _orc_leaf(f: pa.Field) -> DataType:
    spark = (f.metadata or {}).get(_SPARK_ORC)
    if spark is not None:
        return _loose(parse_type(spark.decode()))
    data_type = f.type
    if pa.types.is_timestamp(data_type):
        return DataType("timestamp")
    if pa.types.is_decimal(data_type):
        return DataType("decimal", (data_type.precision, data_type.scale))
    known = {
        pa.bool_(): "boolean", pa.int8(): "tinyint", pa.int16(): "smallint", pa.int32(): "int", pa.int64(): "bigint",
        pa.float32(): "float", pa.float64(): "double", pa.string(): "string", pa.binary(): "binary",
        pa.date32(): "date",
    }  # fmt: skip
    if data_type in known:
        return parse_type(known[data_type])
    raise InvalidTypeError(f"the ORC type {data_type} of column {f.name!r}.", {"column": f.name})
