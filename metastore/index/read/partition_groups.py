"""Sums over partitions, grouped by the values of some partition columns: aggregations that need no data files.

A group is identified by the name of one of its partitions, from which the caller parses the group's values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.column_types import total
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, partition_sums, partitions, tables
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
from catalog_ext.metastore.index.read.predicate_sql import predicate_sql
from catalog_ext.metastore.predicates.tree import TRUE, columns_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.index.read.clauses import Condition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate


SUMS = ("n_partitions", "n_files", "n_bytes", "n_rows", "n_uncounted")
"""The columns with sums."""


def sums_by(dialect: str, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> sa.Subquery | None:
    """Return a query of sums over the partitions that satisfy a predicate, grouped by some partition columns.

    Its columns are ``name`` (of one partition of the group), ``n_partitions``, ``n_files``, ``n_bytes``, ``n_rows`` (of
    the partitions with a known row count), and ``n_uncounted`` (the number of partitions without a known row count).
    Without keys there is always one row, also if no partition matches.

    The sums come from ``partition_sums``, which has only totals of the table and by its first partition column: the
    answer is None if the predicate or ``keys`` need others. The encoded ``keys`` must be exact (``is_exact``).
    """
    all_keys, asked = table.definition.keys, columns_of(predicate or TRUE)
    by_first = bool(keys or asked)
    if by_first and (len(all_keys) < 2 or not {key.name for key in keys} | set(asked) <= {all_keys[0].name}):
        return None
    s = partition_sums.c
    condition = predicate_sql(
        predicate or TRUE, all_keys, dialect, lambda rows: at_version(rows, table), partition_sums
    )
    if not condition.exact or condition.ids is not None:
        return None
    named = condition_of(dialect, table, predicate)
    totals = [total(s[name]).label(name) for name in SUMS]
    where = (s.table_id == table.table_id, s.depth == int(by_first), s.version <= table.version, condition.clause)
    if not keys:
        one = sa.select(partitions.c.name).where(*at_version(partitions, table), named.clause).limit(1)
        named_one = sa.func.coalesce(one.scalar_subquery(), sa.literal("", partitions.c.name.type))
        return sa.select(raw(named_one).label("name"), *totals).where(*where).subquery()
    groups = sa.select(s.k1, *totals).where(*where).group_by(s.k1).having(sa.func.sum(s.n_partitions) > 0).subquery()
    name = sa.select(partitions.c.name).where(*at_version(partitions, table), partitions.c.k1 == groups.c.k1).limit(1)
    return sa.select(raw(name.scalar_subquery()).label("name"), *(groups.c[name] for name in SUMS)).subquery()


GROUP_SCHEMA = pa.schema([
    pa.field("partition_id", pa.int64(), nullable=False),
    pa.field("partition", pa.string(), nullable=False),
    pa.field("partitions", pa.int64(), nullable=False),
    pa.field("files", pa.int64(), nullable=False),
    pa.field("bytes", pa.int64(), nullable=False),
    pa.field("rows", pa.int64()),
])  # fmt: skip
"""One row per group: ``partitions/groups`` of the service contract."""

_Column = sa.ColumnElement[Any]
_EXACT_TYPES = frozenset({"string", "tinyint", "smallint", "int", "bigint", "boolean", "date", "decimal", "timestamp",
                          "timestamp_ntz"})  # fmt: skip
"""Types whose encoded values are equal exactly if Spark's values are equal. FLOAT and DOUBLE are missing because the
index does not distinguish -0.0 from 0.0, and CHAR and VARCHAR because it does not distinguish trailing blanks, while
Spark expressions can."""

_UNKNOWN = -1


class WantedGroups(StrEnum):
    """The result that a query of groups returns for each group.

    ``EACH``: every partition is a group, regardless of the keys; ``VALUES``: only the values of the keys; ``ROWS``:
    also the sums; ``PRESENCE``: ``rows`` is 0 if the group has no rows, and more than 0 if it has some; ``LEAST`` and
    ``GREATEST``: as ``PRESENCE``, but only the group with the least or greatest non-NULL value of the single key, among
    the groups that have or may have rows.
    """

    EACH = "each"
    VALUES = "values"
    ROWS = "rows"
    PRESENCE = "presence"
    LEAST = "least"
    GREATEST = "greatest"


_SUMMED = (WantedGroups.VALUES, WantedGroups.ROWS, WantedGroups.PRESENCE)


class PartitionGroups(IndexPart):
    """Aggregates of partitions by their partition columns."""

    def groups(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key], wanted: WantedGroups
    ) -> pa.RecordBatchReader:
        """Return the groups of the partitions that satisfy the predicate at the table's version (``GROUP_SCHEMA``).

        Several groups may have equal values, down to one group per partition, if the index cannot distinguish the
        values; ``LEAST`` and ``GREATEST`` then return every group, as ``PRESENCE``.

        Raises:
            TableNotFoundError: The table has been dropped.
            VersionExpiredError: Vacuum has removed the version.
            IndexUnavailableError: The database is gone or locked.
        """
        statement, exact = groups_statement(
            self._database.dialect, table, predicate, keys, wanted, long_keys=self.has_long_keys(table)
        )
        check = Check(table, None if exact else predicate)
        return arrow_rows.stream(self._database, statement, GROUP_SCHEMA, check.step, check.finish)

    def has_long_keys(self, table: Table) -> bool:
        """Return whether the index may have truncated texts of the table's partition columns."""
        t = tables.c
        with self._database.reading() as connection:
            return bool(connection.scalar(sa.select(t.has_long_keys).where(t.table_id == table.table_id)))


def groups_statement(
    dialect: str,
    table: Table,
    predicate: Predicate | None,
    keys: Sequence[Key],
    wanted: WantedGroups,
    *,
    long_keys: bool,
) -> tuple[arrow_rows.Query, bool]:
    """Return the SQL query of the groups, and whether it evaluates the predicate exactly."""
    condition = condition_of(dialect, table, predicate)
    exact = (
        wanted is not WantedGroups.EACH
        and condition.exact
        and not (long_keys and keys)
        and all(is_exact(key) for key in keys)
    )
    sums = sums_by(dialect, table, predicate, keys) if exact and wanted in _SUMMED else None
    if not exact:
        rows = _each(table, condition)
    elif sums is not None:
        rows = _of_sums(sums, wanted)
    elif wanted in (WantedGroups.LEAST, WantedGroups.GREATEST):
        rows = _extreme(table, condition, keys[0], greatest=wanted is WantedGroups.GREATEST)
    elif wanted is not WantedGroups.ROWS and len(keys) == 1 and predicate in (None, TRUE) and dialect != "mysql":
        rows = _distinct(table, keys[0], wanted)
    else:
        rows = _grouped(table, condition, keys, wanted)
    return sa.union_all(marked(table, GROUP_SCHEMA), rows), condition.exact


def is_exact(key: Key) -> bool:
    """Return whether the index has equal encoded values exactly for values that are equal in Spark, save long texts."""
    return key.position < KEY_COLUMNS and key.type.name in _EXACT_TYPES


def _column(rows: sa.FromClause, key: Key) -> _Column:
    return rows.c[f"k{key.position + 1}"]


def _rows_of(rows: sa.FromClause) -> _Column:
    """Return a SQL expression for a partition's number of rows; NULL if unknown."""
    return sa.case((rows.c.n_files == 0, 0), else_=rows.c.n_rows)


def _each(table: Table, condition: Condition) -> sa.Select[Any]:
    p = partitions.c
    return (
        sa.select(p.partition_id, raw(p.name), sa.literal(1), p.n_files, p.n_bytes, _rows_of(partitions))
        .select_from(source_of(condition))
        .where(*at_version(partitions, table), condition.clause)
    )


def _grouped(table: Table, condition: Condition, keys: Sequence[Key], wanted: WantedGroups) -> sa.Select[Any]:
    p, count, of_each = partitions.c, sa.func.count(), _rows_of(partitions)
    known = sa.func.count(of_each) == count
    rows = {
        WantedGroups.ROWS: sa.case((known, total(of_each)), else_=sa.null()),
        WantedGroups.VALUES: sa.null(),
        # PRESENCE is known as soon as one partition has rows, also if the row counts of other partitions are unknown.
        WantedGroups.PRESENCE: sa.case((sa.func.max(of_each) > 0, 1), (known, 0), else_=sa.null()),
    }[wanted]
    # Without keys there is always one group, also if no partition matches, hence the COALESCE.
    return (
        sa.select(
            sa.func.coalesce(sa.func.min(p.partition_id), 0),
            sa.func.coalesce(raw(sa.func.min(p.name)), text("")),
            count, total(p.n_files), total(p.n_bytes), rows,
        )
        .select_from(source_of(condition))
        .where(*at_version(partitions, table), condition.clause)
        .group_by(*(_column(partitions, key) for key in keys))
    )  # fmt: skip


def _of_sums(sums: sa.Subquery, wanted: WantedGroups) -> sa.Select[Any]:
    s = sums.c
    known = s.n_uncounted == 0
    rows = {
        WantedGroups.ROWS: sa.case((known, s.n_rows), else_=sa.null()),
        WantedGroups.VALUES: sa.null(),
        WantedGroups.PRESENCE: sa.case((s.n_rows > 0, 1), (known, 0), else_=sa.null()),
    }[wanted]
    return sa.select(ZERO, s.name, s.n_partitions, s.n_files, s.n_bytes, rows)


def _extreme(table: Table, condition: Condition, key: Key, *, greatest: bool) -> sa.Select[Any]:
    p, column, rows = partitions.c, _column(partitions, key), _rows_of(partitions)
    found = (
        sa.select(
            p.partition_id, raw(p.name), sa.literal(1).label("partitions"), p.n_files, p.n_bytes,
            rows.label("rows"), column.label("value"),
        )
        .select_from(source_of(condition))
        .where(*at_version(partitions, table), condition.clause, column > "")
        .where(sa.or_(rows.is_(None), rows > 0))
        .order_by(column.desc() if greatest else column)
        .limit(1)
        .subquery()
    )  # fmt: skip
    # The partition that was found may have an unknown row count. Look for another one with the same value that is known
    # to have rows: then the group certainly has rows.
    filled = (
        sa.select(sa.literal(1))
        .select_from(source_of(condition))
        .where(*at_version(partitions, table), condition.clause, column == found.c.value, rows > 0)
        .limit(1)
        .correlate(found)
        .scalar_subquery()
    )
    f = found.c
    return sa.select(
        f.partition_id, f.name, f.partitions, f.n_files, f.n_bytes,
        sa.case((f.rows.is_(None), filled), else_=f.rows),
    )  # fmt: skip


def _distinct(table: Table, key: Key, wanted: WantedGroups) -> sa.Select[Any]:
    """Return the query of a key's distinct values that jumps from each value to the next in the key's database index.

    It reads one index entry per distinct value instead of all partitions (a "loose index scan").
    """
    first = partitions.alias()
    values = sa.select(_next(table, first, key, _column(first, key) >= "").label("value")).cte(
        "key_values", recursive=True
    )
    after = partitions.alias()
    values = values.union_all(
        sa.select(_next(table, after, key, _column(after, key) > values.c.value)).where(values.c.value.is_not(None))
    )
    one, filled = partitions.alias(), partitions.alias()
    same = (_column(one, key) == values.c.value, *at_version(one, table))
    presence: _Column = sa.null()
    if wanted is WantedGroups.PRESENCE:
        rows = _rows_of(filled)

        def found(state: _Column, answer: int) -> _Column:
            of_value = (_column(filled, key) == values.c.value, *at_version(filled, table))
            return sa.select(sa.literal(answer)).where(*of_value, state).limit(1).scalar_subquery()

        # PRESENCE is known as soon as one partition has rows, also if the row counts of other partitions are unknown.
        known, unknown = found(rows > 0, 1), found(rows.is_(None), _UNKNOWN)
        presence = sa.func.nullif(sa.func.coalesce(known, unknown, 0), _UNKNOWN)
    name = raw(sa.select(one.c.name).where(*same).limit(1).scalar_subquery())
    return sa.select(ZERO, name, sa.literal(1), ZERO, ZERO, presence).where(values.c.value.is_not(None))


def _next(table: Table, rows: Any, key: Key, beyond: sa.ColumnElement[bool]) -> _Column:  # noqa: ANN401
    """Return the least value of a key that satisfies ``beyond``.

    ``beyond`` must be the only lower bound: with two, SQLite would start its scan at the lower one each time.
    """
    column = _column(rows, key)
    return sa.select(column).where(*at_version(rows, table), beyond).order_by(column).limit(1).scalar_subquery()
