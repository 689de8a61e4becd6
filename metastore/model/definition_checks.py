"""Checks that every table and view definition must pass: columns, partition columns, format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError, InvalidTypeError, UnsupportedFormatError
from catalog_ext.metastore.model.identifiers import validate_column_name
from catalog_ext.metastore.model.partition_names import is_hidden
from catalog_ext.metastore.model.tables import FORMATS, Column, TableDefinition
from catalog_ext.metastore.model.types import KEY_TYPES, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_KEYS = 64


def check_columns(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns after checking that their names are valid and different.

    Raises:
        InvalidInputError: A name is not valid, or occurs twice.
    """
    seen: dict[str, Column] = {}
    for column in columns:
        lower = validate_column_name(column.name).lower()
        if lower in seen:
            raise InvalidInputError(
                f"The column {column.name[:120]!r} comes twice in the schema. Names differ by more than their case.",
                {"column": column.name[:120]},
            )
        seen[lower] = column
    return tuple(seen.values())


def check_format(text: str, table: str) -> str:
    """Return the format in lower case.

    Raises:
        UnsupportedFormatError: catalog-ext does not read this format.
    """
    if text.lower() not in FORMATS:
        raise UnsupportedFormatError(
            f"{text[:60]!r} is not a format that table {table} can have. Use one of: {', '.join(FORMATS)}.",
            {"table": table, "format": text[:60]},
        )
    return text.lower()


def check_storable(definition: TableDefinition) -> None:
    """Check that the format of a new table can hold its columns.

    Raises:
        InvalidInputError: The table has no columns.
        UnsupportedFormatError: The format cannot hold a column.
    """
    table = str(definition.identifier)
    if not definition.columns:
        raise InvalidInputError(
            f"Table {table} needs a column besides its partition columns, whose values are in the paths.",
            {"table": table},
        )
    of_text = [c.data_type.is_string for c in definition.columns]
    if definition.format == "text" and of_text != [True]:
        raise UnsupportedFormatError(
            f"Table {table} of the format text has one column besides its keys, and it is a STRING. Use csv or json "
            "for others.",
            {"table": table, "format": definition.format},
        )
    for column in definition.columns:
        check_column_storable(column, definition.format, definition.options, table)


def check_column_storable(column: Column, file_format: str, options: Mapping[str, str], table: str) -> None:
    """Check that files of the format and its options can hold the column.

    Raises:
        UnsupportedFormatError: The format cannot hold the column's type.
    """
    serde = options.get("serde", "").rpartition(".")[2]
    data_type = column.data_type
    if serde == "OpenCSVSerde" and not data_type.is_string:
        raise UnsupportedFormatError(
            f"The column {column.name!r} of table {table} is {column.type.upper()[:60]}, and Hive's OpenCSVSerde makes "
            "every column a STRING. Declare it as STRING and cast in a view, or use ROW FORMAT DELIMITED or PARQUET.",
            {"table": table, "format": file_format, "column": column.name},
        )
    problem = None
    if file_format == "csv" and (data_type.children or data_type.fields) and serde != "LazySimpleSerDe":
        problem = "does not have. Use parquet, orc or json"
    elif file_format == "orc" and data_type.some(lambda each: each.collation is not None):
        # Spark passes the collation on to ORC, whose type parser does not know it: Spark writes such files but cannot
        # read them.
        problem = "cannot be read with in Spark. Use parquet, csv or json, or name the collation in the query"
    if problem is not None:
        raise UnsupportedFormatError(
            f"The column {column.name!r} of table {table} is {column.type.upper()[:60]}, which the format "
            f"{file_format} {problem}.",
            {"table": table, "format": file_format, "column": column.name},
        )


def partition_columns_of(columns: Mapping[str, str], table: str) -> tuple[Column, ...]:
    """Return the partition columns from a mapping of names to types.

    Raises:
        InvalidInputError: A name or a type is not valid, a partition column cannot have the type, or a name occurs
            twice.
    """
    result = tuple(
        Column(validate_column_name(name), str(_key_type(name, text, table))) for name, text in columns.items()
    )
    return check_keys(result, table)


def check_keys(columns: Sequence[Column], table: str) -> tuple[Column, ...]:
    """Return the columns after checking that a table can be partitioned by them.

    Raises:
        InvalidInputError: A partition column cannot have the type, a name occurs twice, or there are too many columns.
    """
    for column in columns:
        _key_type(column.name, column.type, table)
    names = [c.name.lower() for c in columns]
    if len(set(names)) != len(names) or len(names) > MAX_KEYS:
        raise InvalidInputError(
            f"The partition columns of table {table} must be at most {MAX_KEYS} different names; "
            f"got {', '.join(names)[:200]}.",
            {"table": table},
        )
    hidden = next((column.name for column in columns if is_hidden(f"{column.name}=")), None)
    if hidden is not None:
        raise InvalidInputError(
            f"The table {table} cannot be partitioned by {hidden!r}: the names of its directories would begin with "
            "'.', and every reader takes such directories as hidden. Give the column a name that begins with a letter.",
            {"table": table, "column": hidden},
        )
    return tuple(columns)


def _key_type(name: str, text: str, table: str) -> object:
    data_type = parse_type(text)
    if data_type.collation is not None:
        raise InvalidTypeError(
            f"The partition column {name!r} of table {table} cannot be {str(data_type).upper()}: the names of "
            "directories differ by their bytes. Make it a STRING, and name the collation in the query: "
            f"{name} COLLATE {data_type.collation}.",
            {"table": table, "column": name, "type": str(data_type)},
        )
    if data_type.name not in KEY_TYPES:
        raise InvalidTypeError(
            f"The partition column {name!r} of table {table} cannot be {str(data_type).upper()}. Use one of: "
            f"{', '.join(sorted(KEY_TYPES)).upper()}.",
            {"table": table, "column": name, "type": str(data_type)},
        )
    return data_type
