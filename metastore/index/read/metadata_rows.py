"""The rows of the metadata tables ``partitions`` and ``files``, and predicates over their numeric columns."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.read.clauses import in_groups
from catalog_ext.metastore.index.read.partitions import Partitions
from catalog_ext.metastore.index.read.planned_files import PlannedFiles
from catalog_ext.metastore.index.write.waiting_files import WaitingLists
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.model.types import DataType
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.compaction import compacted
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import And, Comparison, Constant, In, IsNull, Not, Operator, Or, bind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

    _Column = sa.ColumnElement[Any]
    _Clause = sa.ColumnElement[bool]


_COLUMNS: Mapping[str, Mapping[str, _Column]] = {
    "partitions": {"files": partitions.c.n_files, "bytes": partitions.c.n_bytes, "rows": partitions.c.n_rows},
    "files": {"size": files.c.size, "rows": files.c.n_rows, "version": files.c.begin_version},
}
_BIGINT = DataType("bigint")


class NumberPredicate:
    """A condition on the rows of a metadata table.

    Args:
        name: ``partitions`` or ``files``.
        predicate: An unbound predicate over the numeric columns of the metadata table.

    Raises:
        InvalidPredicateError: The predicate names a column that is not numeric, or matches text.
        InvalidValueError: A value is not a number.
    """

    def __init__(self, name: str, predicate: Predicate) -> None:
        self._columns = _COLUMNS[name]
        self._keys = [Key(i, column, _BIGINT) for i, column in enumerate(self._columns)]
        bound = bind(predicate, self._keys, name)
        self._evaluator = Evaluator(bound, self._keys)
        self.clause = self._clause(compacted(bound))

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Return whether the condition is true for a row of the metadata table."""
        return self._evaluator.matches([row[column] for column in self._columns])

    def _clause(self, predicate: Predicate) -> _Clause:
        match predicate:
            case Constant(value):
                return sa.true() if value else sa.false()
            case And(args):
                return in_groups(sa.and_, sa.true(), map(self._clause, args))
            case Or(args):
                return in_groups(sa.or_, sa.false(), map(self._clause, args))
            case Not(arg):
                return sa.not_(self._clause(arg))
            case IsNull(column):
                return self._columns[column].is_(None)
            case Comparison(Operator.NULL_SAFE_EQ, column, value):
                return self._columns[column].is_not_distinct_from(_number(value))
            case Comparison(operator, column, value):
                return self._columns[column].bool_op(str(operator))(_number(value))
            case In(column, values):
                return self._columns[column].in_([_number(value) for value in values])
        raise InvalidPredicateError("Columns of numbers of a metadata table cannot be matched with LIKE. Compare them.")


def _number(value: object) -> _Column:
    # Written as a literal, because databases limit the number of parameters.
    return sa.null() if value is None else sa.literal_column(str(value), sa.BigInteger)


FILE_ROWS_SCHEMA = pa.schema([
    pa.field("partition", pa.string(), nullable=False),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified_at", pa.timestamp("ms", tz="UTC"), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("version", pa.int64(), nullable=False),
    pa.field("statistics", pa.string()),
    pa.field("file_path", pa.string(), nullable=False),
])  # fmt: skip
"""The metadata table ``files``: one row per file. ``path`` is absolute, ``version`` is the version that added the file,
and ``statistics`` are JSON by column (min, max, nulls). ``file_path`` has the same text here; the connector
percent-encodes it, as Spark does in ``_metadata.file_path``."""

_DETAILS = frozenset({"version", "statistics"})
_LONG = frozenset({"path", "file_path", "statistics"})
_ROWS = 4096
"""The rows of one batch of ``files``: small, because statistics of wide tables are large, and each batch becomes a task
of the reader."""


def columns_of(schema: pa.Schema, columns: Collection[str] | None) -> pa.Schema:
    """Return the fields with these names, in the schema's order; all fields if ``columns`` is None."""
    return schema if columns is None else pa.schema([field for field in schema if field.name in columns])


def _rows(batch: pa.RecordBatch, root: str, schema: pa.Schema) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "path" | "file_path":
                return pc.binary_join_element_wise(directories(batch, root), batch.column("path"), "/")
            case "modified_at":
                return batch.column("modified_ms").cast(field.type)
            case name:
                return batch.column(name)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)


def directories(batch: pa.RecordBatch, root: str) -> pa.Array:
    """Return the absolute locations of the partitions of a batch.

    The batch has the columns ``partition`` and ``location``; ``root`` is the table's location.
    """
    names = batch.column("partition")
    default = pc.if_else(pc.equal(names, ""), root, pc.binary_join_element_wise(pa.scalar(root), names, "/"))
    return pc.coalesce(batch.column("location"), default)


PARTITION_STATES_SCHEMA = pa.schema([
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string(), nullable=False),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
    pa.field("created_at", pa.timestamp("ms", tz="UTC")),
    pa.field("state", pa.string(), nullable=False),
])  # fmt: skip
"""The metadata table ``partitions``: one row per partition and state. The state is ``committed``, or ``waiting`` for
files that a stream holds back until their partition is due."""

_READ = {"created_at": "created_ms"}
"""Columns that have another name in ``PARTITION_SCHEMA``, from which they are read."""

COMMITTED = "committed"
WAITING = "waiting"


class MetadataRows(IndexPart):
    """The rows of the metadata tables ``partitions`` and ``files``, at a table's version and in bounded memory.

    In all methods, a bound ``predicate`` over the partition columns limits the partitions, ``numbers`` limits the rows,
    and ``columns`` are the names of the wanted columns; None means no limit.

    Raises:
        TableNotFoundError: The table has been dropped.
    """

    def files(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows of the metadata table ``files`` (``FILE_ROWS_SCHEMA``)."""
        root = table.definition.location
        schema = columns_of(FILE_ROWS_SCHEMA, columns)
        detailed, only = bool(_DETAILS & set(schema.names)), None if numbers is None else numbers.clause
        rows = _ROWS if _LONG & set(schema.names) else arrow_rows.BATCH_ROWS

        def batches() -> Iterator[pa.RecordBatch]:
            with PlannedFiles(self._database).detailed(table, predicate, detailed=detailed, only=only) as found:
                for batch in found:
                    for start in range(0, batch.num_rows, rows):
                        yield _rows(batch.slice(start, rows), root, schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def partitions(
        self,
        table: Table,
        predicate: Predicate | None = None,
        columns: Collection[str] | None = None,
        numbers: NumberPredicate | None = None,
        *,
        waiting: bool = True,
    ) -> pa.RecordBatchReader:
        """Return the rows of the metadata table ``partitions`` (``PARTITION_STATES_SCHEMA``), ordered by their values.

        Partitions that have only waiting files (held back by a stream until the partition is due) come last; they
        belong to no version, and ``waiting`` = False leaves them out. Without the columns ``partition`` and
        ``location`` the rows have no order.
        """
        root = table.definition.location
        has_locations = waiting and (columns is None or "location" in columns)
        located = Partitions(self._database).located(table) if has_locations else {}
        schema = columns_of(PARTITION_STATES_SCHEMA, columns)
        only = None if numbers is None else numbers.clause
        by_values = columns is None or "partition" in columns or "location" in columns

        def batches() -> Iterator[pa.RecordBatch]:
            if by_values:
                found = Partitions(self._database).all(table, predicate, only)
            else:
                found = Partitions(self._database).unordered(
                    table, predicate, [_READ.get(n, n) for n in schema.names], only
                )
            with found as committed:
                for batch in committed:
                    yield _committed(batch, root, schema)
            if waiting:
                yield pa.RecordBatch.from_pylist(self.waiting_rows(table, predicate, located, numbers), schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def waiting_rows(
        self,
        table: Table,
        predicate: Predicate | None,
        located: Mapping[str, str],
        numbers: NumberPredicate | None = None,
    ) -> list[dict[str, Any]]:
        """Return a row per partition whose files streams hold back, limited by both predicates."""
        rows = self._waiting(table.table_id, table.definition.location, located)
        rows = [row for row in rows if numbers is None or numbers.matches(row)]
        if predicate is None:
            return rows
        keys = table.definition.keys
        evaluator = Evaluator(predicate, keys)
        return [row for row in rows if evaluator.matches(typed_values(row["partition"], keys))]

    def _waiting(self, table_id: int, root: str, located: Mapping[str, str]) -> list[dict[str, Any]]:
        files: dict[str, list[tuple[int, int | None]]] = defaultdict(list)
        for document in WaitingLists(self._database).all(table_id, None):
            files[document.partition].extend((file.size, file.rows) for file in document.files)
        return [
            {
                "partition": name,
                "location": located.get(name, f"{root}/{name}"),
                "files": len(found),
                "bytes": sum(size for size, _ in found),
                "rows": None if any(rows is None for _, rows in found) else sum(rows or 0 for _, rows in found),
                "created_at": None,
                "state": WAITING,
            }
            for name, found in sorted(files.items())
        ]


def _committed(batch: pa.RecordBatch, root: str, schema: pa.Schema) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        match field.name:
            case "location":
                return directories(batch, root)
            case "state":
                return pa.repeat(pa.scalar(COMMITTED), batch.num_rows)
            case name:
                return batch.column(_READ.get(name, name)).cast(field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)
