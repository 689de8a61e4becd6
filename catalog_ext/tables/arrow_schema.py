"""Converts a table's columns to an Arrow schema: types, the case of names in files, and defaults of missing columns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from catalog_ext.metastore.errors import InvalidValueError, OperationNotSupportedError, SchemaConflictError
from catalog_ext.metastore.model.types import unquote_text
from catalog_ext.metastore.model.values import cast_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from catalog_ext.metastore.model.tables import Column, TableDefinition
    from catalog_ext.metastore.model.types import DataType

_SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
    "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "char": pa.string(),
    "varchar": pa.string(), "binary": pa.binary(), "date": pa.date32(), "timestamp_ntz": pa.timestamp("us"),
    "time": pa.time64("us"), "void": pa.null(),
}  # fmt: skip
_INSTANT, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
_LITERAL = re.compile(
    r"(?:CAST\()?(?:DATE |TIMESTAMP_NTZ |TIME )?"
    r"(?:('(?:[^'\\]|\\.|'')*')|([-+]?[\d.]+(?:E[-+]?\d+)?)(?:BD|[LSYDF])?|(true|false))"
    r"(?: AS \w+(?:\([\d, ]+\))?\))?",
    re.IGNORECASE | re.DOTALL,
)
_ELEMENT = "[]"

Path = tuple[str, ...]


def arrow_type(data_type: DataType, file_format: str, *, is_key: bool = False) -> pa.DataType:
    """Return the Arrow type of a column.

    TIMESTAMP is an instant in UTC. In partition columns and in ORC files it is a local time without a zone, because
    neither stores one.

    Raises:
        OperationNotSupportedError: Arrow has no such type (VARIANT).
    """

    def convert(of: DataType) -> pa.DataType:
        match of.name:
            case "decimal":
                return pa.decimal128(*of.parameters)
            case "array":
                return pa.list_(convert(of.children[0]))
            case "map":
                return pa.map_(convert(of.children[0]), convert(of.children[1]))
            case "struct":
                return pa.struct([pa.field(field.name, convert(field.type)) for field in of.fields])
            case "timestamp":
                return _LOCAL if is_key or file_format == "orc" else _INSTANT
        found = _SIMPLE.get(of.name)
        if found is None:
            raise OperationNotSupportedError(f"Arrow has no type {str(of).upper()}.", {"type": str(of)})
        return found

    return convert(data_type)


def data_schema(definition: TableDefinition, file_format: str) -> pa.Schema:
    """Return the Arrow schema of the columns that data files of the format contain.

    Raises:
        OperationNotSupportedError: Arrow lacks the type of a column.
    """
    return pa.schema([_field(definition, column, file_format) for column in definition.columns])


def key_schema(definition: TableDefinition) -> pa.Schema:
    """Return the Arrow schema of the partition columns. A data column of the same name hides a partition column."""
    hidden = {column.name.lower() for column in definition.columns}
    keys = [key for key in definition.partition_columns if key.name.lower() not in hidden]
    return pa.schema([pa.field(key.name, arrow_type(key.data_type, definition.format, is_key=True)) for key in keys])


def _field(definition: TableDefinition, column: Column, file_format: str) -> pa.Field:
    try:
        return pa.field(column.name, arrow_type(column.data_type, file_format))
    except OperationNotSupportedError as error:
        table = str(definition.identifier)
        raise OperationNotSupportedError(
            f"dataset() cannot read column {column.name!r} of table {table}: {error.message} Read the table with "
            "Spark, or its files (catalog.files) with another library.",
            {"table": table, "column": column.name},
        ) from error


def existing_default(column: Column, table: str) -> pa.Scalar | None:
    """Return the value of a column in files that lack the column; None for NULL.

    Raises:
        OperationNotSupportedError: Literals of the default's type are not supported.
    """
    default_value = column.existing_default
    if default_value is None or default_value.upper() == "NULL":
        return None
    found, of = _LITERAL.fullmatch(default_value), column.data_type
    try:
        if found is None or of.name in ("timestamp", "binary") or of.children or of.fields:
            raise InvalidValueError(f"{default_value[:80]} is no literal that dataset() reads.")
        value = found[2] or found[3] if found[1] is None else unquote_text(found[1])
        return pa.scalar(cast_text(value, of), arrow_type(of, "parquet"))
    except InvalidValueError as error:
        raise OperationNotSupportedError(
            f"Column {column.name!r} of table {table} has the default {default_value[:80]}, which dataset() cannot "
            "give to the files that lack the column. Read the table with Spark.",
            {"table": table, "column": column.name},
        ) from error


class ColumnSpellings:
    """The upper and lower case of column and field names in the files of a table.

    Spark compares names without regard to case, Arrow with it: a column ``userid`` would be NULL in a file that has
    ``userId``. So the Arrow schema uses the spelling of the files. Files with different spellings are refused.
    """

    def __init__(self, schema: pa.Schema, table: str) -> None:
        self._schema = schema
        self._table = table
        self._known = {path for path, _ in _paths(schema)}
        self._found: dict[Path, tuple[str, str]] = {}

    def add(self, file: str, schema: pa.Schema) -> None:
        """Add the names of a file's schema.

        Raises:
            SchemaConflictError: Another file, or another column of this file, has the same name in another case.
        """
        for path, other_spelling in _paths(schema):
            if path not in self._known:
                continue
            spelled, other_file = self._found.setdefault(path, (other_spelling, file))
            if spelled != other_spelling:
                raise SchemaConflictError(
                    f"Column {spelled!r} of table {self._table} in {other_file} is {other_spelling!r} in {file}, "
                    "which are two columns for Arrow and one for Spark. Choose partitions that agree with where=, or "
                    "write those of one spelling anew with INSERT OVERWRITE.",
                    {"table": self._table, "column": other_spelling},
                )

    def schema(self) -> pa.Schema:
        """Return the table's schema with the files' spelling of the names.

        A column that no file has keeps the table's spelling.
        """
        return pa.schema([self._spelled(field, ()) for field in self._schema])

    def _spelled(self, field: pa.Field, above: Path) -> pa.Field:
        path = (*above, field.name.lower())
        name = self._found.get(path, (field.name,))[0]
        return pa.field(name, self._type(field.type, path), field.nullable)

    def _type(self, of: pa.DataType, path: Path) -> pa.DataType:
        if pa.types.is_struct(of):
            return pa.struct([self._spelled(field, path) for field in of])
        if pa.types.is_list(of):
            return pa.list_(self._type(of.value_type, (*path, _ELEMENT)))
        if pa.types.is_map(of):
            key, item = (*path, _ELEMENT, "key"), (*path, _ELEMENT, "value")
            return pa.map_(self._type(of.key_type, key), self._type(of.item_type, item))
        return of


def _paths(schema: pa.Schema) -> Iterator[tuple[Path, str]]:
    """Yield each column and each nested field: its path in lower case, and its name in the file's spelling."""
    for field in schema:
        yield (field.name.lower(),), field.name
        yield from _inner(field.type, (field.name.lower(),))


def _inner(of: pa.DataType, above: Path) -> Iterator[tuple[Path, str]]:
    if pa.types.is_struct(of):
        for field in of:
            path = (*above, field.name.lower())
            yield path, field.name
            yield from _inner(field.type, path)
    elif pa.types.is_map(of):
        yield from _inner(of.key_type, (*above, _ELEMENT, "key"))
        yield from _inner(of.item_type, (*above, _ELEMENT, "value"))
    elif pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        yield from _inner(of.value_type, (*above, _ELEMENT))
