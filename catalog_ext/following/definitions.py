"""What of a table's definition follows the metastore: columns, comment and properties that somebody has changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.conf.keys import check_properties
from catalog_ext.metastore.errors import MetastoreRefusedError, UnsupportedTypeChangeError
from catalog_ext.metastore.hive.mapping.conversion import from_hive, hive_column, to_hive, user_parameters
from catalog_ext.metastore.hive.mapping.hive_types import hive_key_type, hive_type, spark_type
from catalog_ext.metastore.model.secrets import is_secret
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.widening import widening_problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import Column, TableDefinition
    from catalog_ext.metastore.model.types import DataType

_COMMENT = "comment"


def followed_definition(
    ours: TableDefinition, theirs: HiveTable, parameters: Collection[str] | None
) -> TableDefinition:
    """Return our definition with what somebody has changed in the metastore.

    Whatever the metastore would get of ours is as good as the same: it has no case, and fewer types.

    Args:
        ours: The index's.
        theirs: The metastore's, as it is now.
        parameters: Names of the parameters that somebody has set or removed there; None where nobody says which: then
            what the metastore has is taken over, and nothing is removed.

    Raises:
        UnsupportedFormatError: It has become a table of a kind or format that is not read here.
        UnsupportedTypeChangeError: A column has another type, as which files cannot be read.
        MetastoreRefusedError: It has other partition columns, or another format.
        InvalidConfigurationError: A property is a setting, and has a value that it cannot have.
    """
    found = from_hive(theirs)
    check_keys(ours, theirs)
    if found.format != ours.format:
        raise _not_followed(ours, f"its format is {found.format}, and ours {ours.format}")
    return _with_properties(replace(ours, columns=_columns(ours, theirs, found)), theirs, parameters)


def check_keys(ours: TableDefinition, theirs: HiveTable) -> None:
    """Return if the metastore's table has our partition columns.

    Raises:
        MetastoreRefusedError: It has others.
    """
    keys = [(c.name, c.type) for c in to_hive(ours).partition_columns]
    if [(c.name, hive_key_type(_type(theirs, c))) for c in theirs.partition_columns] != keys:
        raise _not_followed(ours, "it has other partition columns than ours, or of other types")


def _columns(ours: TableDefinition, theirs: HiveTable, found: TableDefinition) -> tuple[Column, ...]:
    if to_hive(ours).columns == theirs.columns:
        return ours.columns
    keys = {c.name.lower() for c in ours.partition_columns}
    known = {c.name.lower(): c for c in ours.columns if c.name.lower() not in keys}
    # Another Spark keeps the case of names, and types that Hive does not have.
    spelled = {c.name.lower(): c for c in found.columns}
    columns: list[Column] = []
    for column in theirs.columns:
        mine = known.get(column.name)
        if mine is not None and hive_column(mine, hive_type(mine.data_type) or "") == column:
            columns.append(mine)
            continue
        other = spelled.get(column.name)
        if other is None or hive_type(other.data_type) != hive_type(_type(theirs, column)):
            other = replace(column, type=str(_type(theirs, column)))
        if mine is not None:
            _check_type(ours, mine, other)
            kept = mine.type if hive_type(mine.data_type) == column.type else other.type
            other = replace(mine, type=kept, comment=column.comment)
        columns.append(other)
    for number, column in enumerate(ours.columns):
        if column.name.lower() in keys:
            # Hive shows the path's value, and does not know of the column in the files.
            columns.insert(min(number, len(columns)), column)
    return tuple(columns)


def _type(table: HiveTable, column: Column) -> DataType:
    return parse_type(spark_type(column.type, column.name, str(table)))


def _check_type(ours: TableDefinition, before: Column, after: Column) -> None:
    if hive_type(before.data_type) == hive_type(after.data_type):
        return
    problem = widening_problem(ours.format, before.data_type, after.data_type)
    if problem is not None:
        raise UnsupportedTypeChangeError(
            f"The column {before.name!r} of table {ours.identifier} has become {after.type.upper()} in the metastore, "
            f"and stays {before.type.upper()} here: {problem}. Change it back there.",
            {"table": str(ours.identifier), "column": before.name, "from": before.type, "to": after.type},
        )


def _with_properties(ours: TableDefinition, theirs: HiveTable, parameters: Collection[str] | None) -> TableDefinition:
    there = {k: v for k, v in user_parameters(theirs.parameters).items() if not is_secret(k)}
    new = {k: v for k, v in there.items() if parameters is None or k in parameters}
    removed = set() if parameters is None else set(parameters) - there.keys()
    changed = {k: v for k, v in new.items() if ours.properties.get(k) != v}
    check_properties(changed)
    comment = ours.comment
    if theirs.comment is not None if parameters is None else _COMMENT in parameters:
        comment = theirs.comment
    kept = {k: v for k, v in ours.properties.items() if k not in removed}
    return replace(ours, properties={**kept, **changed}, comment=comment)


def _not_followed(ours: TableDefinition, why: str) -> MetastoreRefusedError:
    table = str(ours.identifier)
    return MetastoreRefusedError(
        f"What somebody has made of the metastore's table {table} is not followed: {why}. Unregister it and import it "
        "again, or change it back.",
        {"table": table},
    )
