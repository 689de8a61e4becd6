"""Reads the metadata tables, which show what writes and repairs have made of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.predicates.conditions import bound_to

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog_ext.context import Context
    from catalog_ext.metastore.predicates.tree import Predicate


class MetadataTables:
    """The metadata tables of a catalog's tables."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, table_id: int, name: str, condition: Predicate | None = None) -> pa.RecordBatchReader:
        """Read a metadata table: ``partitions``, ``files``, ``history``, ``transactions`` or ``repairs``.

        Args:
            table_id: The table's number.
            name: Which one.
            condition: An unbound predicate over the partition columns, for ``partitions`` and ``files``; None for all.

        Raises:
            InvalidInputError: There is no metadata table of that name, or it takes no condition.
            InvalidPredicateError, InvalidValueError: The condition is none over the table's partition columns.
        """
        index = self._context.index
        by_partition = {"partitions": index.partition_rows, "files": index.file_rows}
        whole = {"history": index.history_rows, "transactions": index.transaction_rows, "repairs": index.repair_rows}
        if name not in by_partition and name not in whole:
            known = ", ".join((*by_partition, *whole))
            raise InvalidInputError(f"There is no metadata table {name[:60]!r}. There are: {known}.")
        table = index.load_table_by_id(table_id)
        if name in whole:
            if condition is not None:
                raise InvalidInputError(f"The metadata table '{name}' has no partition columns and takes no predicate.")
            return whole[name](table)
        return by_partition[name](table, bound_to(table, condition))
