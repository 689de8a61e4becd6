"""The columns and properties of a table as Hive engines have altered them in the metastore."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.drift.definitions import COMMENT
from catalog_ext.drift.difference import MISSING, DriftKind
from catalog_ext.metastore.errors import UnsupportedTypeChangeError
from catalog_ext.metastore.hive.mapping.conversion import columns_of, hive_column
from catalog_ext.metastore.hive.mapping.hive_types import hive_type, spark_type
from catalog_ext.metastore.hive.mapping.spark_schema import read_schema
from catalog_ext.metastore.model.alterations import BY_POSITION
from catalog_ext.metastore.model.conversions import widening_problem
from catalog_ext.metastore.model.definition_checks import check_columns
from catalog_ext.metastore.model.tables import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_ext.drift.difference import Difference
    from catalog_ext.metastore.hive.mapping.model import HiveTable
    from catalog_ext.metastore.model.tables import TableDefinition


def adopted_columns(definition: TableDefinition, found: HiveTable) -> TableDefinition:
    """Return the definition with the metastore's columns; those that are the same keep their case and exact types.

    Raises:
        UnsupportedTypeChangeError: Files that are there cannot be read as a column's new type.
        UnsupportedFormatError: A column's type is none of Spark's.
        InvalidInputError: The columns cannot be together in a table.
    """
    spark = read_schema(found.parameters, str(found))
    known = [*definition.columns, *(() if spark is None else spark[0])]
    keys = {c.name.lower() for c in definition.partition_columns}
    # A data column of a key's name is not in the metastore.
    hidden = tuple(c for c in definition.columns if c.name.lower() in keys)
    columns = (*(_adopted(column, known, str(found)) for column in columns_of(found)), *hidden)
    _check_types(definition, columns)
    check_columns((*columns, *definition.partition_columns))
    return replace(definition, columns=columns)


def _adopted(column: Column, known: Sequence[Column], table: str) -> Column:
    for each in known:
        if each.name.lower() == column.name.lower() and (hive_type(each.data_type) or each.type) == column.type.lower():
            # The metastore cuts long comments.
            same = hive_column(each, column.type).comment == column.comment
            return each if same else replace(each, comment=column.comment)
    return Column(column.name, spark_type(column.type, column.name, table), comment=column.comment)


def _check_types(definition: TableDefinition, columns: Sequence[Column]) -> None:
    if definition.format in BY_POSITION:
        pairs = list(zip(definition.columns, columns, strict=False))
    else:
        before = {c.name.lower(): c for c in definition.columns}
        pairs = [(before[c.name.lower()], c) for c in columns if c.name.lower() in before]
    for old, new in pairs:
        problem = widening_problem(definition.format, old.data_type, new.data_type)
        if problem is not None:
            table = str(definition.identifier)
            named = f"the column {new.name!r} of table {table} as {new.type.upper()}"
            ours = old.type.upper()
            if new.name.lower() != old.name.lower():
                # Rows of this format have no names: what matters is the place.
                named, ours = f"{named} at the place", f"{old.name!r} {ours}"
            raise UnsupportedTypeChangeError(
                f"The metastore has {named} of {ours}: {problem}. Alter it there again, or mend the metastore by the "
                "index.",
                {"table": table, "column": new.name, "from": old.type, "to": new.type},
            )


def adopted_properties(differences: Iterable[Difference]) -> tuple[dict[str, str], list[str]]:
    """Return the properties to set and those to remove, so that the metastore's parameters are the table's."""
    set_: dict[str, str] = {}
    removed: list[str] = []
    for each in differences:
        if each.kind is not DriftKind.PARAMETER:
            continue
        name = "comment" if each.subject == COMMENT else each.subject
        if each.metastore == MISSING:
            removed.append(name)
        else:
            set_[name] = each.metastore or ""
    return set_, removed
