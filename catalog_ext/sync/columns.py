"""The columns of a table as Hive engines have altered them in the metastore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import UnsupportedTypeChangeError
from catalog_ext.metastore.hive.mapping.conversion import column_key, columns_of, hive_column, to_hive
from catalog_ext.metastore.hive.mapping.hive_types import hive_type, spark_type
from catalog_ext.metastore.hive.mapping.spark_schema import read_schema
from catalog_ext.metastore.model.alterations import BY_POSITION
from catalog_ext.metastore.model.conversions import widening_problem
from catalog_ext.metastore.model.definition_checks import check_columns
from catalog_ext.metastore.model.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import Column, TableDefinition
    from catalog_ext.metastore.model.types import DataType


def adopted_columns(ours: TableDefinition, theirs: HiveTable) -> TableDefinition:
    """Return the definition with the metastore's columns.

    A column of which the metastore would get the same keeps its case and its exact type: the metastore has no case, and
    fewer types.

    Raises:
        UnsupportedTypeChangeError: Files that are there cannot be read as a column's new type.
        UnsupportedFormatError: A column's type is not a Spark type.
        InvalidInputError: The columns cannot be together in a table.
    """
    there = columns_of(theirs)
    if list(map(column_key, to_hive(ours).columns)) == list(map(column_key, there)):
        return ours
    keys = {c.name.lower() for c in ours.partition_columns}
    known = {c.name.lower(): c for c in ours.columns if c.name.lower() not in keys}
    spark = read_schema(theirs.parameters, str(theirs))
    spelled = {} if spark is None else {c.name.lower(): c for c in spark[0]}
    columns = [_adopted(column, known.get(column.name.lower()), spelled, theirs) for column in there]
    check_columns((*columns, *ours.partition_columns))
    _check_types(ours, columns)
    for number, column in enumerate(ours.columns):
        if column.name.lower() in keys:
            # Hive shows the path's value, and does not know of the column in the files.
            columns.insert(min(number, len(columns)), column)
    return replace(ours, columns=tuple(columns))


def type_of(table: HiveTable, column: Column) -> DataType:
    """Return the type of a column of the metastore.

    Raises:
        UnsupportedFormatError: Spark has no such type.
    """
    return parse_type(spark_type(column.type, column.name, str(table)))


def _adopted(column: Column, mine: Column | None, spelled: Mapping[str, Column], table: HiveTable) -> Column:
    if mine is not None and hive_column(mine, hive_type(mine.data_type) or "") == column:
        return mine
    other = spelled.get(column.name.lower())
    if other is None or hive_type(other.data_type) != hive_type(type_of(table, column)):
        other = replace(column, type=str(type_of(table, column)))
    if mine is None:
        return other
    kept = mine.type if hive_type(mine.data_type) == column.type.lower() else other.type
    return replace(mine, type=kept, comment=column.comment)


def _check_types(ours: TableDefinition, columns: Sequence[Column]) -> None:
    if ours.format in BY_POSITION:
        # Hive has no column of a key's name: with it, the columns behind it would be compared with their neighbours.
        keys = {c.name.lower() for c in ours.partition_columns}
        pairs = list(zip((c for c in ours.columns if c.name.lower() not in keys), columns, strict=False))
    else:
        before = {c.name.lower(): c for c in ours.columns}
        pairs = [(before[c.name.lower()], c) for c in columns if c.name.lower() in before]
    table = str(ours.identifier)
    for old, new in pairs:
        problem = None
        if hive_type(old.data_type) != hive_type(new.data_type):
            problem = widening_problem(ours.format, old.data_type, new.data_type)
        if problem is None:
            continue
        was, now = old.type.upper(), new.type.upper()
        if new.name.lower() == old.name.lower():
            what = f"The column {old.name!r} of table {table} has become {now} in the metastore, and stays {was} here"
        else:
            # Rows of this format have no names: what matters is the place.
            what = f"The metastore has the column {new.name!r} of table {table} as {now} at the place of"
            what = f"{what} {old.name!r} {was}"
        raise UnsupportedTypeChangeError(
            f"{what}: {problem}. Change it back there, or send ours: catalog-ext publish {table}.",
            {"table": table, "column": new.name, "from": old.type, "to": new.type},
        )
