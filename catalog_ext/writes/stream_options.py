"""The options of a stream that writes to a table which nothing has written to yet.

``DataStreamWriter.toTable`` creates the table without its options, and gives them to the query that it then starts. So
the first epoch gives them to the table, if that is managed and still empty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.mapping.formats import storage_of
from catalog_ext.metastore.model.tables import TableType
from catalog_ext.writes.writer_options import options_of_new_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_STREAM = "STREAMING"
_NEVER_WRITTEN = 0


def table_of_stream(context: Context, table: Table, operation: str, written: Mapping[str, str]) -> Table | None:
    """Give a new table the options of the stream that writes to it; return it, or None where nothing changes.

    An option that the statement gave the table stays: the stream may not contradict it.

    Args:
        context: The index and the metastore.
        table: The table that the stream writes to, as it is now.
        operation: The word for the history, by which a stream is known.
        written: The options of the stream.

    Raises:
        ConflictError: Another write to the table is under way.
    """
    if operation != _STREAM or table.version != _NEVER_WRITTEN or table.definition.table_type is not TableType.MANAGED:
        return None

    def change(definition: TableDefinition) -> TableDefinition:
        return replace(definition, options=options_of_new_table(definition, written) | dict(definition.options))

    if change(table.definition).options == table.definition.options:
        return None
    altered = context.index.alterations.alter(
        table.identifier,
        change,
        settings=lambda new: storage_of(new.format, new.options, new.location).serde_parameters,
        deliver=context.metastore.accepts(table.definition),
    )
    context.sync.publish(altered.table_id)
    return altered
