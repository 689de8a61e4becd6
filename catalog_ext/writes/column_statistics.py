"""Records results of ANALYZE: row counts and bounds of files, and statistics of a table's columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.transaction import WriteOutcome
from catalog_ext.metastore.hive.mapping.statistics_parameters import SPARK_PREFIX
from catalog_ext.metastore.model.properties import ANALYZED_VERSION, COLUMN_PREFIX, statistics_column
from catalog_ext.metastore.predicates.conditions import NO_CLAUSES, PartitionClauses
from catalog_ext.tables.lookups import require_matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.context import Context
    from catalog_ext.metastore.model.tables import DataFile, Table, TableDefinition
    from catalog_ext.metastore.predicates.tree import Predicate


def column_statistics(table: Table) -> dict[str, dict[str, str]]:
    """Return the columns' statistics by column and by Spark's names, if they describe the table's present version."""
    properties = table.definition.properties
    found: dict[str, dict[str, str]] = {}
    if properties.get(ANALYZED_VERSION) == str(table.version):
        for key, text in properties.items():
            if column := statistics_column(key):
                found.setdefault(column, {})[key.rpartition(".")[2]] = text
    return found


def without_statistics(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the user's properties of a table, without those that hold statistics."""
    return {
        key: text for key, text in properties.items() if not key.startswith(SPARK_PREFIX) and key != ANALYZED_VERSION
    }


class StatisticsCommand:
    """Records statistics of the tables of a catalog."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def put(
        self, table: Table, files: Mapping[str, Sequence[DataFile]], columns: Mapping[str, Mapping[str, str]] | None,
        predicate: Predicate | None = None, clauses: PartitionClauses = NO_CLAUSES, *, publish: bool = True,
    ) -> WriteOutcome:  # fmt: skip
        """Record statistics in the index, and publish them to the metastore. Without files and columns, only publish.

        ``files`` are given by partition, with size and time at the moment when their rows were counted
        (``FileStatistics.put``). Statistics of columns have Spark's names (``distinctCount``). An unbound predicate and
        PARTITION clauses limit the partitions that are published. Without ``publish`` only the index changes: a query
        that counted rows must not alter 100,000 partitions in the metastore.

        Raises:
            TableNotFoundError: The table was dropped.
            InvalidPredicateError, InvalidValueError: The predicate does not fit the table's partition columns.
            InvalidPartitionSpecError: A clause does not fit the partition columns.
            PartitionNotFoundError: A clause with values matches no partition.
        """
        index = self._context.index
        deliver = publish and self._context.metastore.accepts(table.definition)
        bound = clauses.bound(table, predicate)
        require_matches(index, table, clauses)
        messages = rows = changed = 0
        if files:
            counted = index.file_statistics.put(table, files, deliver=deliver)
            messages, rows, changed = counted.deliveries, counted.rows, counted.partitions
        if columns is not None:
            self._put_columns(table, columns)
        elif not files and deliver:
            messages = index.file_statistics.enqueue(table, bound)
        report = self._context.sync.publish(table.table_id) if messages else None
        return WriteOutcome(
            "", table.table_id, str(table.identifier), "ANALYZE", table.version, partitions_changed=changed, rows=rows,
            pending_deliveries=0 if report is None else report.pending,
        )  # fmt: skip

    def _put_columns(self, table: Table, columns: Mapping[str, Mapping[str, str]]) -> None:
        """Store statistics of columns as Spark's properties, and remove those of older versions."""
        totals = self._context.index.tables.load(table.identifier).totals
        found = {
            f"{COLUMN_PREFIX}{column}.{name}": text
            for column, statistics in columns.items()
            for name, text in statistics.items()
        }
        found |= {ANALYZED_VERSION: str(table.version), f"{SPARK_PREFIX}totalSize": str(totals.bytes)}
        if totals.rows is not None:
            found[f"{SPARK_PREFIX}numRows"] = str(totals.rows)

        def change(definition: TableDefinition) -> TableDefinition:
            old = SPARK_PREFIX
            if definition.properties.get(ANALYZED_VERSION) == str(table.version):
                # Keep the statistics of other columns if they describe the same version.
                old = f"{SPARK_PREFIX}numRows"
            kept = {key: text for key, text in definition.properties.items() if not key.startswith(old)}
            return replace(definition, properties={**kept, **found})

        # Column statistics are not published: other engines change the metastore's tables, and would not notice that
        # these statistics are out of date.
        self._context.index.alterations.alter(table.identifier, change, deliver=False)
