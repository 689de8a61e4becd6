"""The statement that rewrites a partition into fewer files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.model.tables import PartitionMode
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.model.types import quote_name, quote_text
from catalog_ext.metastore.model.values import value_text

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import Table


def compacting_statement(catalog: str, table: Table, partition: str) -> str:
    """Return an INSERT OVERWRITE of a partition with its own rows.

    Args:
        catalog: The catalog's name in SQL.
        table: The table.
        partition: The partition's name; ``''`` for a table without partition columns.
    """
    of, keys = table.definition, table.definition.keys
    name = ".".join(quote_name(part) for part in (catalog, of.identifier.namespace, of.identifier.name))
    # `SELECT *` leaves out virtual keys, which INSERT takes at the end.
    hidden = [quote_name(key.name) for key in keys] if of.partition_mode is PartitionMode.VIRTUAL else []
    statement = f"INSERT OVERWRITE {name} SELECT {', '.join(['*', *hidden])} FROM {name}"
    conditions = [
        f"{quote_name(key.name)} " + ("IS NULL" if value is None else f"= {quote_text(value_text(value, key.type))}")
        for key, value in zip(keys, typed_values(partition, keys), strict=True)
    ]
    return statement + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
