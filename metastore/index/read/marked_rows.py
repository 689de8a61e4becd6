"""The parts that all queries of a table's readers share: the mark row, the version filter, the check of the result.

Each query also selects one extra row, the *mark*, from ``tables``, with the partition id -1. If it is missing, the
table was dropped after the statement loaded it, and an empty result must not pass for an empty table. The mark also has
the oldest version that is still complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.errors import TableNotFoundError, VersionExpiredError, VersionNotFoundError
from catalog_ext.metastore.index.database.clock import NOW_MS
from catalog_ext.metastore.index.database.column_types import ExactText
from catalog_ext.metastore.index.database.schema import partition_ids, partitions, tables, version_holds
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import TRUE, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.index.read.clauses import Condition
    from catalog_ext.metastore.model.tables import Table

MARK = -1
ZERO = sa.literal(0)


def at_version(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clauses that select the table's partitions at its version, from ``partitions`` or an alias of it."""
    return (
        rows.c.table_id == table.table_id,
        rows.c.end_version > table.version,
        rows.c.begin_version <= table.version,
        *_above_floor(rows, table),
    )


def in_order(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clauses of ``at_version`` for a query that reads most of the table, in the order of the primary key.

    They select by the range of the table's partition ids, so they also work for ``files``.
    """
    low, high = partition_ids(table.table_id)
    return (
        rows.c.partition_id >= low,
        rows.c.partition_id < high,
        rows.c.end_version > table.version,
        rows.c.begin_version <= table.version,
        *_above_floor(rows, table),
    )


def _above_floor(rows: sa.FromClause, table: Table) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the clause that excludes rows that a deferred delete has removed without setting their end version yet.

    A deferred delete is a DELETE or overwrite of the whole table whose rows get their end version after the commit.
    """
    return (rows.c.begin_version >= table.begins_at,) if table.begins_at else ()


def condition_of(dialect: str, table: Table, predicate: Predicate | None) -> Condition:
    """Return the SQL condition under which a partition satisfies the predicate at the table's version."""
    return predicate_sql(
        predicate or TRUE, table.definition.keys, dialect, lambda rows: at_version(rows, table), partitions
    )


def source_of(condition: Condition) -> sa.FromClause:
    """Return ``partitions``, or, if the condition has ids, the ids joined with ``partitions`` in this order.

    MariaDB joins in the written order, so the few ids must come first.
    """
    if condition.ids is None:
        return partitions
    return condition.ids.join(partitions, partitions.c.partition_id == condition.ids.c.partition_id)


def raw(column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return the column without SQLAlchemy's conversion of each value; text is decoded later, batch by batch."""
    return sa.type_coerce(column, sa.types.NullType())


def text(value: str) -> sa.ColumnElement[Any]:
    """Return a literal with the type of text columns, so that it can be in a UNION with them."""
    return raw(sa.literal(value, ExactText()))


def marked(table: Table, schema: pa.Schema, **columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return the query of the mark row (see the module's text), for a schema whose fifth column is a number.

    ``Check`` reads the oldest version in the fifth column. ``columns`` replace columns by name, or are added at the
    end.
    """
    mark: dict[str, sa.ColumnElement[Any]] = {
        field.name: sa.null() if field.nullable else text("") if pa.types.is_string(field.type) else ZERO
        for field in schema
    }
    mark |= {schema.names[0]: sa.literal(MARK), schema.names[4]: _oldest(table), **columns}
    named = (column.label(name) for name, column in mark.items())
    return sa.select(*named).where(tables.c.table_id == table.table_id)


IN_FORCE = sa.or_(version_holds.c.until_ms.is_(None), version_holds.c.until_ms > NOW_MS)
"""The condition for rows of ``version_holds`` whose time is not over."""


def is_held(table_id: int, version: int) -> sa.ColumnElement[bool]:
    """Return the condition that a hold, such as a tag, keeps a version of a table."""
    return sa.exists().where(version_holds.c.table_id == table_id, version_holds.c.version == version, IN_FORCE)


def _oldest(table: Table) -> sa.ColumnElement[int]:
    """Return the oldest version that can be read, or the table's version if that is older and held."""
    oldest, version = tables.c.oldest_version, sa.literal(table.version, sa.BigInteger())
    return sa.case((sa.and_(oldest > version, is_held(table.table_id, table.version)), version), else_=oldest)


def version_expired(table: str, version: int, oldest: int) -> VersionExpiredError:
    """Return the error for a version that vacuum, or a change of the partition columns' types, has removed."""
    return VersionExpiredError(
        f"Version {version} of the table {table} was removed by vacuum, or by other types of partition columns; the "
        f"oldest that is kept is {oldest}. Read a newer version, or give vacuum a longer vacuum.retention.",
        {"table": table, "version": str(version), "oldest": str(oldest)},
    )


def version_not_found(table: Table, asked: str, oldest: int, newest: int) -> VersionNotFoundError:
    """Return the error for a version that the table does not have."""
    return VersionNotFoundError(
        f"Table {table.identifier} has no {asked}; it has versions from {oldest} to {newest}. The metadata table "
        f"{table.identifier}.history lists them.",
        {"table": str(table.identifier), "oldest": str(oldest), "newest": str(newest)},
    )


class Check:
    """Removes the mark row, which shows that the table still exists, from the batches of one query.

    If SQL selected a superset, the rows that do not match are removed too.
    """

    def __init__(self, table: Table, predicate: Predicate | None) -> None:
        self._table = table
        self._keys = table.definition.keys
        self._evaluator = Evaluator(predicate, self._keys) if predicate is not None else None
        self._found = False
        self._last: tuple[str, bool] | None = None
        self.has_long_keys = False

    def step(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without the mark row and without rows that do not match the predicate."""
        if not self._found:
            marks = pc.equal(batch.column(0), MARK)
            if pc.any(marks).as_py():
                self._found = True
                mark = batch.filter(marks)
                self.has_long_keys = mark.column(3)[0].as_py() == 1
                self._require_kept(mark.column(4)[0].as_py())
                batch = batch.filter(pc.invert(marks))
        if self._evaluator is None:
            return batch
        matching = self._matching(self._evaluator, batch.column(1).to_pylist())
        return batch.filter(pa.array(matching, pa.bool_()))

    def _require_kept(self, oldest: int) -> None:
        if self._table.version < oldest:
            raise version_expired(str(self._table.identifier), self._table.version, oldest)

    def finish(self) -> None:
        """Check that the mark row was found.

        Raises:
            TableNotFoundError: The mark row is missing, so the table was dropped.
        """
        if not self._found:
            raise TableNotFoundError(
                f"The table {self._table.identifier} was dropped while it was being read. Load it again.",
                {"table": str(self._table.identifier)},
            )

    def _matching(self, evaluator: Evaluator, names: Sequence[str]) -> Iterator[bool]:
        for name in names:
            if self._last is None or self._last[0] != name:
                self._last = (name, evaluator.matches(typed_values(name, self._keys)))
            yield self._last[1]
