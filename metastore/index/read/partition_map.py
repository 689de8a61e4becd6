"""A table's partitions on a map over one or two of its keys: what lies at each place, counted by the database.

A date is cut to its day, month or year, and the map shows a range of them. Of any other key it shows the next values
from one on. So a map has a bounded number of places, and its query reads those partitions alone that it shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.index.database.column_types import ExactText
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, partition_sums, partitions
from catalog_ext.metastore.index.database.sums import total
from catalog_ext.metastore.index.read.history import version_times
from catalog_ext.metastore.index.read.partition_sums import SUMS
from catalog_ext.metastore.index.read.reader import at_version, condition_of, source_of
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.predicate_sql import Condition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

_DAY = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)


class Unit(StrEnum):
    """What a date is cut to."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    @property
    def length(self) -> int:
        """Characters of a date that tell the unit: ``2025-01`` of a month."""
        return {"day": 10, "month": 7, "year": 4}[self.value]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a key that is not NULL, encoded; both None where there is none."""

    least: str | None
    greatest: str | None

    @property
    def are_days(self) -> bool:
        """Whether both are days: of a DATE, or of a text that is written like one."""
        return all(each is not None and _DAY.fullmatch(each) for each in (self.least, self.greatest))


@dataclass(frozen=True, slots=True)
class Axis:
    """The part of a key that a map shows.

    Attributes:
        key: One of the first eight partition columns.
        unit: What its dates are cut to; None where values are taken as they are.
        first: The least encoded value, or beginning of a date.
        beyond: The least that is not shown any more; None: all from ``first`` on.
    """

    key: Key
    unit: Unit | None
    first: str
    beyond: str | None


@dataclass(frozen=True, slots=True)
class Cell:
    """What lies at one place of the map.

    Attributes:
        rows: Of the partitions whose rows are counted.
        uncounted: How many of the partitions have files whose rows are not.
        changed_at_ms: When one of them last changed, milliseconds since the epoch, UTC; None where nobody knows.
    """

    partitions: int
    files: int
    bytes: int
    rows: int
    uncounted: int
    changed_at_ms: int | None


def has_column(key: Key) -> bool:
    """Return whether a key is in the index by itself, which a map needs: the first eight are."""
    return key.position < KEY_COLUMNS


def key_bounds(database: Database, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> list[Bounds]:
    """Return the bounds of some keys, by one query that looks at the ends of their indexes.

    Raises:
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    condition = _exact(database.dialect, table, predicate)
    ends: list[sa.ColumnElement[Any]] = []
    for key in keys:
        column = _column(key)
        values = _among(sa.select(column), table, condition).where(column > "")
        ends += [values.order_by(order).limit(1).scalar_subquery() for order in (column, column.desc())]
    if not ends:
        return []
    named = [end.label(f"end_{i}") for i, end in enumerate(ends)]
    with database.reading() as connection:
        found = connection.execute(sa.select(*named)).one()
    return [Bounds(*found[i : i + 2]) for i in range(0, len(found), 2)]


def key_values(
    database: Database, table: Table, predicate: Predicate | None, key: Key, *, after: str | None, limit: int
) -> list[str]:
    """Return the next encoded values of a key above one, in their order; None for the first ones.

    Raises:
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    column = _column(key)
    chosen = _among(sa.select(column), table, _exact(database.dialect, table, predicate))
    # A bound on each side of nothing, so that the index of the key is gone along.
    chosen = chosen.where(column >= "" if after is None else column > after)
    with database.reading() as connection:
        return list(connection.execute(chosen.distinct().order_by(column).limit(limit)).scalars())


def days_of(database: Database, table: Table, predicate: Predicate | None, key: Key, limit: int) -> list[str]:
    """Return the days of a key whose values are days, in their order; no more than so many.

    Raises:
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    if predicate in (None, TRUE) and _has_sums(table, key):
        s = partition_sums.c
        statement = _sums_of(table).with_only_columns(s.k1).where(s.k1 > "").group_by(s.k1)
        statement = statement.having(sa.func.sum(s.n_partitions) > 0).order_by(s.k1).limit(limit)
        with database.reading() as connection:
            return list(connection.execute(statement).scalars())
    values = key_values(database, table, predicate, key, after="", limit=limit)
    return list(dict.fromkeys(value[: Unit.DAY.length] for value in values))


def partition_map(
    database: Database, table: Table, predicate: Predicate | None, axes: Sequence[Axis], limit: int
) -> Mapping[tuple[str, ...], Cell]:
    """Return what lies at each place of the map that has partitions, by the encoded values or cut dates of the axes.

    Args:
        database: The index.
        table: The table, at the version that is asked for.
        predicate: A bound predicate over the partition columns, None for all.
        axes: One or two.
        limit: The most places that are answered.

    Raises:
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    condition = _exact(database.dialect, table, predicate)
    if len(axes) == 1 and predicate in (None, TRUE) and _has_sums(table, axes[0].key):
        statement = _of_sums(table, axes[0])
    else:
        statement = _of_partitions(table, condition, axes)
    with database.reading() as connection:
        rows = connection.execute(statement.limit(limit)).all()
    times = version_times(database, table.table_id, {row.changed for row in rows})
    return {
        tuple(row[: len(axes)]): Cell(
            row.n_partitions, row.n_files, row.n_bytes, row.n_rows, row.n_uncounted, times.get(row.changed)
        )
        for row in rows
    }


def _of_partitions(table: Table, condition: Condition, axes: Sequence[Axis]) -> sa.Select[Any]:
    p = partitions.c
    places = [_place(_column(axis.key), axis).label(f"place_{i}") for i, axis in enumerate(axes)]
    uncounted = sa.case((sa.and_(p.n_files > 0, p.n_rows.is_(None)), 1), else_=0)
    sums = sa.select(
        *places,
        sa.func.count().label("n_partitions"),
        *(total(p[name]).label(name) for name in ("n_files", "n_bytes", "n_rows")),
        total(uncounted).label("n_uncounted"),
        sa.func.max(p.begin_version).label("changed"),
    )
    chosen = _among(sums, table, condition).where(
        *(clause for axis in axes for clause in _within(_column(axis.key), axis))
    )
    return chosen.group_by(*places).order_by(*places)


def _of_sums(table: Table, axis: Axis) -> sa.Select[Any]:
    """Return the same of the first key, without a look at partitions; vacuum keeps the newest version of a change."""
    s = partition_sums.c
    place = _place(s.k1, axis).label("place_0")
    return (
        _sums_of(table)
        .with_only_columns(
            place, *(total(s[name]).label(name) for name in SUMS), sa.func.max(s.version).label("changed")
        )
        .where(*_within(s.k1, axis)).group_by(place).having(sa.func.sum(s.n_partitions) > 0).order_by(place)
    )  # fmt: skip


def _sums_of(table: Table) -> sa.Select[Any]:
    s = partition_sums.c
    return sa.select(partition_sums).where(s.table_id == table.table_id, s.depth == 1, s.version <= table.version)


def _has_sums(table: Table, key: Key) -> bool:
    return key.position == 0 and len(table.definition.keys) > 1


def _place(column: sa.ColumnElement[Any], axis: Axis) -> sa.ColumnElement[Any]:
    if axis.unit is None:
        return column
    # Literals, not parameters: PostgreSQL takes an expression with parameters for another one in GROUP BY.
    first: sa.ColumnElement[Any] = sa.literal_column("1")
    length: sa.ColumnElement[Any] = sa.literal_column(str(axis.unit.length))
    return sa.func.substr(column, first, length, type_=ExactText())


def _within(column: sa.ColumnElement[Any], axis: Axis) -> list[sa.ColumnElement[bool]]:
    return [column >= axis.first, *([] if axis.beyond is None else [column < axis.beyond])]


def _among(select: sa.Select[Any], table: Table, condition: Condition) -> sa.Select[Any]:
    return select.select_from(source_of(condition)).where(*at_version(partitions, table), condition.clause)


def _exact(dialect: str, table: Table, predicate: Predicate | None) -> Condition:
    condition = condition_of(dialect, table, predicate)
    if not condition.exact:
        raise InvalidPredicateError(
            "The index cannot count by this condition: it has to look at each partition's name for LIKE with a "
            "pattern in the middle, for very long texts and for keys after the eighth. Use comparisons, IN, or "
            "LIKE 'beginning%'.",
            {"table": str(table.identifier)},
        )
    return condition


def _column(key: Key) -> sa.ColumnElement[Any]:
    return partitions.c[f"k{key.position + 1}"]
