"""The files of a table at a version, for planning, repairs and the metadata table ``files``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import file_statistics, files, partitions
from catalog_ext.metastore.index.read.marked_rows import (
    Check,
    at_version,
    condition_of,
    in_order,
    marked,
    raw,
    source_of,
)
from catalog_ext.metastore.index.read.predicate_sql import is_bounded
from catalog_ext.metastore.predicates.tree import TRUE, Predicate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.model.tables import Table


PLAN_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("location", pa.string()),
    pa.field("path", pa.string(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("modified_ms", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
])  # fmt: skip
"""One row per file: ``tables/plan`` of the service contract."""

DETAILED_SCHEMA = pa.schema([
    *PLAN_SCHEMA,
    pa.field("version", pa.int64(), nullable=False),
    pa.field("statistics", pa.string()),
])  # fmt: skip
"""``PLAN_SCHEMA`` with the version that added the file and its statistics (JSON)."""

KNOWN_SCHEMA = pa.schema([*PLAN_SCHEMA, pa.field("etag_hash", pa.int64())])
"""``PLAN_SCHEMA`` with the hash of each object's ETag, for a comparison with a listing of the store."""


class PlannedFiles(IndexPart):
    """Reads the files of a table at one of its versions."""

    def plan(
        self,
        table: Table,
        predicate: Predicate | None,
        ids: Sequence[int] | None = None,
        rows: int | None = None,
        bounds: Sequence[str] = (),
        descriptor: int | None = None,
        *,
        unmeasured: bool = False,
    ) -> pa.RecordBatchReader:
        """Return the files of the partitions that satisfy a predicate, at the table's version, partition by partition.

        Args:
            table: The table.
            predicate: A bound predicate, None for all.
            ids: The numbers of the partitions to search; None for all.
            rows: The number of rows that the caller wants: files beyond these are left out; None for all.
            bounds: Data columns whose min, max and null count in each file follow the other columns (``with_bounds``).
            descriptor: The descriptor number that the partitions must have, 0 for the table's own; None for any.
            unmeasured: Only files with an unknown row count, or whose columns were never measured.

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has removed the version.
            IndexUnavailableError: The database is gone or locked.
        """
        d = partitions.c.descriptor_id
        only = None if descriptor is None else d == descriptor if descriptor else d.is_(None)
        statement, exact = plan_statement(
            self._database.dialect, table, predicate, ids=ids, bounds=bounds, only=only, unmeasured=unmeasured
        )
        check = Check(table, None if exact else predicate)

        def enough(batch: pa.RecordBatch) -> bool:
            return rows is not None and (pc.sum(batch.column("rows")).as_py() or 0) >= rows

        schema = with_bounds(bounds)
        plan = arrow_rows.stream(
            self._database, statement, schema, check.step, check.finish, spills=True, enough=enough
        )
        return plan if rows is None else enough_files(plan, rows)

    def detailed(
        self,
        table: Table,
        predicate: Predicate | None,
        *,
        detailed: bool = True,
        only: sa.ColumnElement[bool] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows of ``plan``; with ``detailed``, also version and statistics (``DETAILED_SCHEMA``).

        ``only`` is a further condition on the files' columns; None for no condition.
        """
        statement, exact = plan_statement(self._database.dialect, table, predicate, detailed=detailed, only=only)
        check, schema = Check(table, None if exact else predicate), DETAILED_SCHEMA if detailed else PLAN_SCHEMA
        return arrow_rows.stream(self._database, statement, schema, check.step, check.finish, spills=True)

    def known(
        self, table: Table, predicate: Predicate | None, ids: Sequence[int] | None = None
    ) -> pa.RecordBatchReader:
        """Return the files that ``plan`` returns, with the hash of each object's ETag (``KNOWN_SCHEMA``)."""
        statement, exact = plan_statement(self._database.dialect, table, predicate, ids=ids, with_etags=True)
        check = Check(table, None if exact else predicate)
        return arrow_rows.stream(self._database, statement, KNOWN_SCHEMA, check.step, check.finish, spills=True)


def plan_statement(
    dialect: str,
    table: Table,
    predicate: Predicate | None,
    *,
    detailed: bool = False,
    ids: Sequence[int] | None = None,
    only: sa.ColumnElement[bool] | None = None,
    bounds: Sequence[str] = (),
    unmeasured: bool = False,
    with_etags: bool = False,
) -> tuple[arrow_rows.Query, bool]:
    """Return the SQL query of a plan's files, and whether it evaluates the predicate exactly."""
    condition = condition_of(dialect, table, predicate)
    # SQLite cannot use an index for ``partition_id + 0``: so it starts from the partitions, as it must.
    partition_id = partitions.c.partition_id + 0 if dialect == "sqlite" else partitions.c.partition_id
    source = source_of(condition).join(files, files.c.partition_id == partition_id)
    s = file_statistics.c
    if detailed or bounds or unmeasured:
        of_file = sa.and_(s.partition_id == files.c.partition_id, s.file_id == files.c.file_id)
        source = source.outerjoin(file_statistics, of_file)
    schema = DETAILED_SCHEMA if detailed else KNOWN_SCHEMA if with_etags else with_bounds(bounds)
    more: list[sa.ColumnElement[Any]]
    more = [_known_of(dialect, table, column).label(f"bounds_{i}") for i, column in enumerate(bounds)]
    if detailed:
        more = [files.c.begin_version, raw(s.statistics)]
    elif with_etags:
        more = [files.c.etag_hash]
    chosen = at_version if ids is None and is_bounded(predicate or TRUE) else in_order
    rows = (
        sa.select(
            partitions.c.partition_id, raw(partitions.c.name), raw(partitions.c.location),
            raw(files.c.path), files.c.size, files.c.modified_ms, files.c.n_rows, *more,
        )
        .select_from(source)
        .where(*chosen(partitions, table), condition.clause, *(() if ids is None else (_among(dialect, ids),)))
        .where(files.c.begin_version <= table.version, files.c.end_version > table.version)
        .where(sa.true() if only is None else only)
        .where(sa.or_(files.c.n_rows.is_(None), s.file_id.is_(None)) if unmeasured else sa.true())
        .prefix_with("STRAIGHT_JOIN", dialect="mysql")
        .prefix_with("STRAIGHT_JOIN", dialect="mariadb")
    )  # fmt: skip
    union: sa.CompoundSelect[Any] = sa.union_all(marked(table, schema), rows)
    # PostgreSQL may join by hashing, in any order. The other databases look up each partition's files in turn.
    return (union.order_by(union.selected_columns[0]) if dialect == "postgresql" else union), condition.exact


def _among(dialect: str, ids: Sequence[int]) -> sa.ColumnElement[bool]:
    """Return the condition that a partition has one of these numbers.

    On databases that limit the number of parameters, the numbers are one parameter.
    """
    number = partitions.c.partition_id
    if dialect == "postgresql":
        return number == sa.any_(sa.bindparam(None, list(ids), type_=postgresql.ARRAY(sa.BigInteger)))
    if dialect == "sqlite":
        each = sa.func.json_each(sa.bindparam(None, list(ids), type_=sa.JSON)).table_valued("value")
        return number.in_(sa.select(each.c.value))
    return number.in_(ids)


def with_bounds(columns: Sequence[str]) -> pa.Schema:
    """Return ``PLAN_SCHEMA`` with a field ``bounds_0``, … for each of some data columns.

    The value is JSON, as ``file_statistics`` has it (``{"min": "1.50", "max": "9.00", "nulls": 0}``), or NULL if the
    bounds are unknown.
    """
    return pa.schema([*PLAN_SCHEMA, *(pa.field(f"bounds_{i}", pa.string()) for i in range(len(columns)))])


def _known_of(dialect: str, table: Table, column: str) -> sa.ColumnElement[Any]:
    """Return a column's entry in a file's statistics, as text.

    NULL if the entry may be that of a dropped column which had the same name.
    """
    member = _member(dialect, file_statistics.c.statistics, column)
    after = next((c.statistics_after for c in table.definition.columns if c.name == column), None)
    return member if after is None else raw(sa.case((files.c.begin_version > after, member), else_=sa.null()))


def _member(dialect: str, statistics: sa.ColumnElement[str], column: str) -> sa.ColumnElement[Any]:
    """Return a column's entry in the JSON text of a file's statistics, as text."""
    if dialect == "postgresql":
        return sa.cast(sa.cast(statistics, postgresql.JSON)[column], sa.Text)
    if set(column) & set('"\\'):
        # Not every database can express this column name in a JSON path: treat the statistics as unknown.
        return sa.null()
    return raw(sa.func.json_extract(statistics, f"$.{json.dumps(column, ensure_ascii=False)}"))


def enough_files(plan: pa.RecordBatchReader, rows: int) -> pa.RecordBatchReader:
    """Return the first files of a plan that together have ``rows`` rows; files with an unknown row count count as 0."""

    def batches() -> Iterator[pa.RecordBatch]:
        wanted = rows
        with plan:
            for batch in plan:
                held = pc.cumulative_sum(pc.fill_null(batch.column("rows"), 0))
                enough = pc.index(pc.greater_equal(held, wanted), value=True).as_py()
                if enough >= 0:
                    yield batch.slice(0, enough + 1)
                    return
                wanted -= held[-1].as_py() if len(held) else 0
                yield batch

    return pa.RecordBatchReader.from_batches(plan.schema, batches())
