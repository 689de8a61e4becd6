"""Aggregations over the metadata tables ``partitions`` and ``files``, as far as the database can compute them.

A group is identified by the name of one of its partitions. Several groups may have equal values, down to one group per
partition, if the index cannot distinguish the values: the caller merges these groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.read.marked_rows import (
    ZERO,
    Check,
    at_version,
    condition_of,
    marked,
    raw,
    source_of,
    text,
)
from catalog_ext.metastore.index.read.metadata_rows import MetadataRows
from catalog_ext.metastore.index.read.partition_groups import PartitionGroups, is_exact, sums_by

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.index.read.clauses import Condition
    from catalog_ext.metastore.index.read.metadata_rows import NumberPredicate
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

_Column = sa.ColumnElement[Any]
_SPLIT = 32
"""A sum that may exceed 64 bits is computed as two sums: of the bits from this position on, and of the lower bits."""

_MOST = 2**63 - 1
_SAFE = 2**62


class Function(StrEnum):
    """An aggregate function over a column of a group's rows, without NULLs; ``COUNT`` without a column counts rows."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A function of a column of the metadata table (one of ``AGGREGATED``); column None stands for whole rows."""

    function: Function
    column: str | None


AGGREGATED = {"partitions": frozenset({"files", "bytes", "rows"}), "files": frozenset({"size", "rows", "version"})}
"""The numeric columns of each metadata table."""


def groups_schema(aggregates: Sequence[Aggregate]) -> pa.Schema:
    """Return the schema of groups: ``partition``, then ``value_0`` and so on, in the order of the aggregates."""
    values = (pa.field(f"value_{i}", pa.int64()) for i in range(len(aggregates)))
    return pa.schema([pa.field("partition", pa.string(), nullable=False), *values])


class MetadataGroups(IndexPart):
    """Counts and grouped aggregates of the metadata tables."""

    def groups(
        self,
        table: Table,
        name: str,
        predicate: Predicate | None,
        keys: Sequence[Key] | None,
        aggregates: Sequence[Aggregate],
        numbers: NumberPredicate | None = None,
        *,
        waiting: bool = True,
    ) -> pa.RecordBatchReader:
        """Return aggregations of a metadata table's rows at the table's version (``groups_schema``).

        The result may have several rows for a group: the caller adds up their counts and sums, and takes the minimum of
        the minima and the maximum of the maxima. Without keys there is always one row, also if no partition matches.

        ``name`` is ``partitions`` or ``files``; a bound predicate limits the partitions, and ``numbers`` the rows
        (None: no limit). ``keys`` are the partition columns to group by; None makes each partition a group. ``waiting``
        adds the partitions with only waiting files to ``partitions``.

        Raises:
            TableNotFoundError: The table has been dropped.
            IndexUnavailableError: The database is gone or locked.
        """
        schema, summed = groups_schema(aggregates), _Sums(name, aggregates, numbers)
        found = self._found(table, predicate, keys, summed)

        def batches() -> Iterator[pa.RecordBatch]:
            with found:
                for batch in found:
                    yield from summed.batches(batch, schema)
            counts_waiting = waiting and name == "partitions"
            waits = MetadataRows(self._database).waiting_rows(table, predicate, {}, numbers) if counts_waiting else []
            rest = [summed.waiting(row) for row in waits]
            if keys is not None and not keys:
                # If the database returned one row per partition, there may be no row at all: add an empty row for the
                # single group.
                rest.append(summed.nothing())
            yield pa.RecordBatch.from_pylist(rest, schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    def _found(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key] | None, summed: _Sums
    ) -> pa.RecordBatchReader:
        """Return the query's rows (``_read_schema``): one per group, or per partition if SQL cannot group by keys."""
        condition = condition_of(self._database.dialect, table, predicate)
        together = (
            keys is not None
            and condition.exact
            and all(map(is_exact, keys))
            and not (keys and PartitionGroups(self._database).has_long_keys(table))
        )
        by = [partitions.c[f"k{key.position + 1}"] for key in keys or ()] if together else [partitions.c.partition_id]
        check = Check(table, None if condition.exact else predicate)
        sums = None
        if together and summed.is_of_sums:
            sums = sums_by(self._database.dialect, table, predicate, keys or ())
        if sums is None:
            statement = _statement(self._database.dialect, table, condition, by, summed)
        else:
            statement = _statement_of_sums(table, sums, summed)
        return arrow_rows.stream(
            self._database, statement, _read_schema(len(summed.columns)),
            check.step, check.finish, spills=not together,
        )  # fmt: skip

    def count(
        self, table: Table, name: str, predicate: Predicate | None, numbers: NumberPredicate | None = None,
        *, waiting: bool = True,
    ) -> pa.RecordBatchReader:  # fmt: skip
        """Return a stream without columns that has as many rows as the metadata table; arguments as in ``groups``."""
        counts = self.groups(table, name, predicate, (), [Aggregate(Function.COUNT, None)], numbers, waiting=waiting)

        def batches() -> Iterator[pa.RecordBatch]:
            with counts:
                for batch in counts:
                    rows = pc.sum(batch.column("value_0")).as_py() or 0
                    for start in range(0, rows, _ROWS_AT_ONCE):
                        yield pa.RecordBatch.from_arrays(
                            [pa.nulls(min(rows - start, _ROWS_AT_ONCE))], ["nothing"]
                        ).select([])  # fmt: skip

        return pa.RecordBatchReader.from_batches(pa.schema([]), batches())


def _statement(
    dialect: str, table: Table, condition: Condition, by: Sequence[_Column], summed: _Sums
) -> arrow_rows.Query:
    p, f = partitions.c, files.c
    source, where = source_of(condition), [*at_version(partitions, table), condition.clause, *summed.where]
    if summed.of_files:
        # Join on ``partition_id + 0`` so that SQLite starts from the partitions, as in ``plan_statement``.
        source = source.join(files, f.partition_id == (p.partition_id + 0 if dialect == "sqlite" else p.partition_id))
        where += [f.begin_version <= table.version, f.end_version > table.version]
    rows = (
        sa.select(
            sa.func.coalesce(sa.func.min(p.partition_id), 0), sa.func.coalesce(raw(sa.func.min(p.name)), text("")),
            ZERO, ZERO, ZERO, *summed.columns,
        )
        .select_from(source)
        .where(*where)
        .group_by(*by)
        .prefix_with("STRAIGHT_JOIN", dialect="mysql")
        .prefix_with("STRAIGHT_JOIN", dialect="mariadb")
    )  # fmt: skip
    return sa.union_all(marked(table, _read_schema(len(summed.columns))), rows)


def _statement_of_sums(table: Table, sums: sa.Subquery, summed: _Sums) -> arrow_rows.Query:
    """Return the query for a GROUP BY of a metadata table that reads one sum per partition (``sums_by``), no files."""
    values = summed.of_sums(sums)
    rows = sa.select(ZERO, sums.c.name, ZERO, ZERO, ZERO, *values).where(
        (sums.c.n_files if summed.needs_files else sums.c.n_partitions) > 0
    )
    return sa.union_all(marked(table, _read_schema(len(values))), rows)


_ROWS_AT_ONCE = 2**20
"""The rows of one batch without columns. Each batch becomes a task of the reader."""


def _read_schema(values: int) -> pa.Schema:
    fixed = [pa.field("partition_id", pa.int64(), nullable=False), pa.field("partition", pa.string(), nullable=False)]
    unused = [pa.field(name, pa.int64(), nullable=False) for name in ("a", "b", "oldest")]
    return pa.schema([*fixed, *unused, *(pa.field(f"value_{i}", pa.int64()) for i in range(values))])


class _Sums:
    """The SQL columns for some aggregates, and the conversion of their results.

    Attributes:
        of_files: Whether rows of ``files`` must be read, because the partitions' own sums do not suffice.
        columns: The columns of the query, one or two per aggregate.
        where: The filter on the rows.
        needs_files: Whether a group without files is left out (for the metadata table ``files``).
        is_of_sums: Whether precomputed sums over partitions suffice for all aggregates (``of_sums``).
    """

    def __init__(self, name: str, aggregates: Sequence[Aggregate], numbers: NumberPredicate | None) -> None:
        self._aggregates = aggregates
        self.of_files = name == "files" and not (numbers is None and all(map(_is_of_partition, aggregates)))
        self._of_partitions = name == "partitions"
        self.where = [] if self._of_partitions else [partitions.c.n_files > 0]
        if numbers is not None:
            self.where.append(numbers.clause)
        self.needs_files = not self._of_partitions
        self.is_of_sums = numbers is None and not self.of_files and all(map(_is_count_or_sum, aggregates))
        self.columns: list[_Column] = []
        for aggregate in aggregates:
            self.columns += self._of(aggregate)

    def _of(self, aggregate: Aggregate) -> list[_Column]:
        p, f = partitions.c, files.c
        if aggregate.column is None:
            many = self._of_partitions or self.of_files
            return [sa.func.count()] if many else [_sum(p.n_files)]
        if self._of_partitions:
            column = {"files": p.n_files, "bytes": p.n_bytes, "rows": p.n_rows}[aggregate.column]
        elif self.of_files:
            column = {"size": f.size, "rows": f.n_rows, "version": f.begin_version}[aggregate.column]
        else:
            # Only COUNT and SUM of ``size`` reach this line. Every file has a size, so COUNT is the number of files.
            return [_sum(p.n_files if aggregate.function is Function.COUNT else p.n_bytes)]
        if aggregate.function is Function.SUM:
            return [_sum(half) for half in _halves(column)]
        return [_FUNCTIONS[aggregate.function](column)]

    def of_sums(self, sums: sa.Subquery) -> list[_Column]:
        """Return the aggregates as columns of a query whose rows are sums over partitions (``sums_by``)."""
        s = sums.c
        columns: list[_Column] = []
        for aggregate in self._aggregates:
            counts = aggregate.function is Function.COUNT
            if not self._of_partitions:
                columns.append(s.n_files if counts else s.n_bytes)
            elif counts:
                columns.append(s.n_partitions - (s.n_uncounted if aggregate.column == "rows" else 0))
            else:
                total: _Column = {"files": s.n_files, "bytes": s.n_bytes, "rows": s.n_rows}[str(aggregate.column)]
                if aggregate.column == "rows":
                    total = sa.case((s.n_partitions > s.n_uncounted, total), else_=sa.null())
                columns += _halves(total)
        return columns

    def _is_split(self, aggregate: Aggregate) -> bool:
        return aggregate.function is Function.SUM and (self._of_partitions or self.of_files)

    def batches(self, batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the groups of the query's result. A sum above 64 bits is split over further rows of the same group."""
        columns, at = [batch.column("partition")], 5
        for i, aggregate in enumerate(self._aggregates):
            if not self._is_split(aggregate):
                columns.append(batch.column(at))
                at += 1
                continue
            high, low = batch.column(at), batch.column(at + 1)
            at += 2
            if (pc.max(high).as_py() or 0) < _SAFE >> _SPLIT and (pc.max(low).as_py() or 0) < _SAFE:
                columns.append(pc.add(pc.multiply(high, 2**_SPLIT), low))
                continue
            totals = [
                None if h is None else (h << _SPLIT) + rest
                for h, rest in zip(high.to_pylist(), low.to_pylist(), strict=True)
            ]
            columns.append(pa.array([None if n is None else min(n, _MOST) for n in totals], pa.int64()))
            for name, total in zip(batch.column("partition").to_pylist(), totals, strict=True):
                left = (total or 0) - _MOST
                while left > 0:
                    row = {**self.nothing(name), f"value_{i}": min(left, _MOST)}
                    yield pa.RecordBatch.from_pylist([row], schema=schema)
                    left -= _MOST
        yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def nothing(self, partition: str = "") -> dict[str, Any]:
        """Return a row that does not change the aggregates of a group: counts are 0, other values NULL."""
        of_none = (0 if a.function is Function.COUNT else None for a in self._aggregates)
        return {"partition": partition, **{f"value_{i}": value for i, value in enumerate(of_none)}}

    def waiting(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the group for one row of the metadata table ``partitions``, for files that a stream holds back."""
        values = {}
        for i, aggregate in enumerate(self._aggregates):
            value = 1 if aggregate.column is None else row[aggregate.column]
            counts = aggregate.function is Function.COUNT
            values[f"value_{i}"] = int(value is not None) if counts else value
        return {"partition": row["partition"], **values}


def _is_of_partition(aggregate: Aggregate) -> bool:
    of_size = aggregate.column == "size" and aggregate.function in (Function.COUNT, Function.SUM)
    return aggregate.column is None or of_size


def _is_count_or_sum(aggregate: Aggregate) -> bool:
    return aggregate.function in (Function.COUNT, Function.SUM)


def _halves(column: _Column) -> tuple[_Column, _Column]:
    # A literal, because PostgreSQL shifts a BIGINT only by an INTEGER, and a parameter would be a BIGINT.
    return column.bitwise_rshift(sa.literal_column(str(_SPLIT))), column.bitwise_and(2**_SPLIT - 1)


def _sum(column: _Column) -> _Column:
    # Without the cast, sums of BIGINT are NUMERIC on PostgreSQL and DECIMAL on MariaDB, and not integers.
    return sa.cast(sa.func.sum(column), sa.BigInteger)


_FUNCTIONS: dict[Function, Callable[[_Column], _Column]] = {
    Function.COUNT: sa.func.count,
    Function.MIN: sa.func.min,
    Function.MAX: sa.func.max,
}
