"""Counts a table's partitions for a map: a grid whose one or two axes are the values of partition columns.

On a date axis, dates are truncated to day, month or year, by their text alone, and a range of dates is shown. On any
other axis the next values after a position are shown. So a map has a bounded number of cells, and its query reads only
the partitions that it shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidPredicateError
from catalog_ext.metastore.index.database.column_types import ExactText, total
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import KEY_COLUMNS, partition_sums, partitions
from catalog_ext.metastore.index.read.history import History
from catalog_ext.metastore.index.read.marked_rows import at_version, condition_of, source_of
from catalog_ext.metastore.index.read.partition_groups import SUMS
from catalog_ext.metastore.model.key_encoding import NULL_KEY
from catalog_ext.metastore.predicates.tree import TRUE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.clauses import Condition
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

    _Order: TypeAlias = Callable[[sa.ColumnElement[Any]], sa.ColumnElement[Any]]


FOR_EVER = "9999"
"""The year of dates that stand for "no end". A map shows earlier dates only, and the time up to this year does not
count as missing."""


class Unit(StrEnum):
    """The unit to which dates of an axis are truncated."""

    DAY = "day"
    MONTH = "month"
    YEAR = "year"

    @property
    def length(self) -> int:
        """The number of characters of an ISO 8601 date that identify the unit: 7 for a month (``2025-01``)."""
        return {"day": 10, "month": 7, "year": 4}[self.value]


@dataclass(frozen=True, slots=True)
class DateForm:
    """The form in which a partition column writes its dates.

    Attributes:
        before: The characters before the date in the column's encoded value.
        dash: The separator between year, month and day.
    """

    before: str
    dash: str

    @property
    def is_number(self) -> bool:
        """Whether the dates are whole numbers of eight digits."""
        return self.before != ""

    def text(self, date: str) -> str:
        """Return a date, month or year (ISO 8601) in the form in which the partition column writes it."""
        return date.replace("-", self.dash)

    def encoded(self, date: str) -> str:
        """Return the least encoded value that the column can have within a date, month or year."""
        return self.before + self.text(date)

    def length(self, unit: Unit) -> int:
        """Return the number of characters of an encoded value that identify the unit."""
        return len(self.encoded("0000-00-00"[: unit.length]))

    def decoded(self, encoded: str) -> str:
        """Return, in ISO 8601, the date, month or year with which an encoded value begins."""
        digits = encoded[len(self.before) : self.length(Unit.DAY)].replace("-", "")
        return "-".join(part for part in (digits[:4], digits[4:6], digits[6:]) if part)


ISO, DIGITS, NUMBER = DateForm("", "-"), DateForm("", ""), DateForm("p08", "")
"""A DATE or a text like ``2025-01-31``; a text like ``20250131``; a whole number like 20250131."""

_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
# Eight digits may mean anything, so only values with a year from 1900 on are taken for dates.
_DIGITS = f"(?:(?:19|20|21)[0-9]{{2}}|{FOR_EVER}){_MONTH}{_DAY}"
_PATTERNS = {
    ISO: re.compile(f"(?!0000)[0-9]{{4}}-{_MONTH}-{_DAY}"),
    DIGITS: re.compile(_DIGITS),
    NUMBER: re.compile(f"{NUMBER.before}{_DIGITS}"),
}
_OF_TYPES = {
    "date": (ISO,), "string": (ISO, DIGITS), "varchar": (ISO, DIGITS), "char": (ISO, DIGITS), "int": (NUMBER,),
    "bigint": (NUMBER,),
}  # fmt: skip


def form_of(type_name: str, least: str | None, greatest: str | None) -> DateForm | None:
    """Return the date form of a key, judged by its least and greatest value; None if these are not dates."""
    if least is None or greatest is None:
        return None
    return next(
        (form for form in _OF_TYPES.get(type_name, ()) if all(map(_PATTERNS[form].fullmatch, (least, greatest)))), None
    )


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest value of a key, without NULL; both are None if the key has no values.

    Attributes:
        least: The least value; in ISO 8601 if both values are days, otherwise encoded. The other values use the same
            form.
        greatest: The greatest value.
        form: The date form of the key; None if its values are not days.
        before_for_ever: The greatest day before the year 9999 (which stands for "no end"), if there is one.
    """

    least: str | None
    greatest: str | None
    form: DateForm | None = None
    before_for_ever: str | None = None

    @property
    def are_days(self) -> bool:
        """Whether both values are days: a DATE, or a text or whole number that is written like one."""
        return self.form is not None

    @property
    def newest(self) -> str | None:
        """The greatest day that is not in the year 9999, which stands for "no end"; otherwise the greatest value."""
        return self.before_for_ever or self.greatest


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a map of partitions: a partition column, and the range of its values that the map shows.

    Attributes:
        key: One of the first eight partition columns.
        unit: The unit to which dates are truncated; None if values are shown unchanged.
        first: The least shown value: encoded, or the beginning of a date (ISO 8601).
        beyond: The least value above the shown range; None shows everything from ``first`` on.
        form: The date form of the key.
    """

    key: Key
    unit: Unit | None
    first: str
    beyond: str | None
    form: DateForm = ISO


@dataclass(frozen=True, slots=True)
class Cell:
    """The sums over the partitions in one cell of a map of partitions: those with equal values on its axes.

    Attributes:
        rows: The rows of the partitions with a known row count.
        uncounted: The number of partitions that have files but no known row count.
        changed_at_ms: The time of the latest change of a partition, in milliseconds since the epoch, UTC; None if
            unknown.
    """

    partitions: int
    files: int
    bytes: int
    rows: int
    uncounted: int
    changed_at_ms: int | None


def has_column(key: Key) -> bool:
    """Return whether a key has its own column in the index, as a map needs; the first eight keys have one."""
    return key.position < KEY_COLUMNS


class PartitionCounts(IndexPart):
    """Counts the partitions of a table by the values of its partition columns, in the database.

    The predicate is bound to the partition columns; None selects all partitions. Each method raises
    ``InvalidPredicateError`` if the index cannot evaluate the predicate in SQL.
    """

    def key_bounds(self, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> list[Bounds]:
        """Return the bounds of some keys, by one query that reads only the ends of their database indexes.

        For a key with dates in the year 9999 (which stands for "no end"), a second query finds the greatest day before
        it.
        """
        condition = _exact(self._database.dialect, table, predicate)

        def end(key: Key, order: _Order, *where: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
            column = _column(key)
            values = _among(sa.select(column), table, condition).where(column > "", *where)
            return values.order_by(order(column)).limit(1).scalar_subquery()

        found = _one(self._database, [end(key, order) for key in keys for order in (sa.asc, sa.desc)])
        bounds = [_bounds(key, *found[2 * i : 2 * i + 2]) for i, key in enumerate(keys)]
        endless = [
            (i, each.form) for i, each in enumerate(bounds) if each.form is not None and str(each.greatest) >= FOR_EVER
        ]
        before = [end(keys[i], sa.desc, _column(keys[i]) < form.encoded(FOR_EVER)) for i, form in endless]
        for (i, form), newest in zip(endless, _one(self._database, before), strict=True):
            bounds[i] = replace(bounds[i], before_for_ever=None if newest is None else form.decoded(newest))
        return bounds

    def key_values(
        self, table: Table, predicate: Predicate | None, key: Key, *, after: str | None, limit: int
    ) -> list[str]:
        """Return the next encoded values of a key after ``after`` (None: from the first), in order."""
        column = _column(key)
        chosen = _among(sa.select(column), table, _exact(self._database.dialect, table, predicate))
        # Set a lower bound in both cases: without one, the database would not scan the index of the key.
        chosen = chosen.where(column >= "" if after is None else column > after)
        with self._database.reading() as connection:
            return list(connection.execute(chosen.distinct().order_by(column).limit(limit)).scalars())

    def count_nulls(self, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> list[int]:
        """For each key, count the partitions that have NULL for it, by one query that reads only these partitions."""
        condition = _exact(self._database.dialect, table, predicate)
        counts = [_among(sa.select(sa.func.count()), table, condition).where(_column(key) == NULL_KEY) for key in keys]
        return list(_one(self._database, [count.scalar_subquery() for count in counts]))

    def combinations(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key], limit: int
    ) -> list[tuple[str, ...]]:
        """Return the distinct combinations of encoded values of some keys, ordered by the keys, at most ``limit``."""
        columns = [_column(key) for key in keys]
        chosen = _among(sa.select(*columns), table, _exact(self._database.dialect, table, predicate))
        with self._database.reading() as connection:
            return [tuple(row) for row in connection.execute(chosen.distinct().order_by(*columns).limit(limit))]

    def days_of(self, table: Table, predicate: Predicate | None, key: Key, form: DateForm, limit: int) -> list[str]:
        """Return at most ``limit`` days of a key whose values are days, in ISO 8601, in order."""
        if predicate in (None, TRUE) and _has_sums(table, key):
            s = partition_sums.c
            statement = _sums_of(table).with_only_columns(s.k1).where(s.k1 > "").group_by(s.k1)
            statement = statement.having(sa.func.sum(s.n_partitions) > 0).order_by(s.k1).limit(limit)
            with self._database.reading() as connection:
                values = list(connection.execute(statement).scalars())
        else:
            values = self.key_values(table, predicate, key, after="", limit=limit)
        # Several values may be of the same day, as ``2025-01-31`` and ``2025-01-31T05``: keep each day once.
        return list(dict.fromkeys(map(form.decoded, values)))

    def partition_map(
        self, table: Table, predicate: Predicate | None, axes: Sequence[Axis], limit: int
    ) -> Mapping[tuple[str, ...], Cell]:
        """Return the cells of a map that have partitions, by the encoded values or truncated dates of its axes.

        Dates are in ISO 8601, regardless of the form in which the key writes them. A map has one or two axes.
        """
        condition = _exact(self._database.dialect, table, predicate)
        if len(axes) == 1 and predicate in (None, TRUE) and _has_sums(table, axes[0].key):
            statement = _of_sums(table, axes[0])
        else:
            statement = _of_partitions(table, condition, axes)
        with self._database.reading() as connection:
            rows = connection.execute(statement.limit(limit)).all()
        times = History(self._database).version_times(table.table_id, {row.changed for row in rows})
        return {
            tuple(_shown(value, axis) for value, axis in zip(row, axes, strict=False)): Cell(
                row.n_partitions, row.n_files, row.n_bytes, row.n_rows, row.n_uncounted, times.get(row.changed)
            )
            for row in rows
        }


def _bounds(key: Key, least: str | None, greatest: str | None) -> Bounds:
    form = form_of(key.type.name, least, greatest)
    if form is None or least is None or greatest is None:
        return Bounds(least, greatest)
    return Bounds(form.decoded(least), form.decoded(greatest), form)


def _one(database: Database, values: Sequence[sa.ScalarSelect[Any]]) -> Sequence[Any]:
    if not values:
        return ()
    with database.reading() as connection:
        return connection.execute(sa.select(*(each.label(f"value_{i}") for i, each in enumerate(values)))).one()


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
    """Return the query of the cells of a map by the first key, from ``partition_sums`` instead of all partitions.

    A cell's latest change is its newest version in ``partition_sums``, which vacuum keeps when it merges older ones.
    """
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
    # Literals, not parameters: PostgreSQL would not recognize an expression with parameters as the one in GROUP BY.
    first: sa.ColumnElement[Any] = sa.literal_column("1")
    length: sa.ColumnElement[Any] = sa.literal_column(str(axis.form.length(axis.unit)))
    return sa.func.substr(column, first, length, type_=ExactText())


def _within(column: sa.ColumnElement[Any], axis: Axis) -> list[sa.ColumnElement[bool]]:
    first, beyond = (
        axis.form.encoded(end) if end and axis.unit is not None else end for end in (axis.first, axis.beyond)
    )
    return [column >= first, *([] if beyond is None else [column < beyond])]


def _shown(value: str, axis: Axis) -> str:
    return value if axis.unit is None else axis.form.decoded(value)


def _among(select: sa.Select[Any], table: Table, condition: Condition) -> sa.Select[Any]:
    return select.select_from(source_of(condition)).where(*at_version(partitions, table), condition.clause)


def _exact(dialect: str, table: Table, predicate: Predicate | None) -> Condition:
    condition = condition_of(dialect, table, predicate)
    if not condition.exact:
        raise InvalidPredicateError(
            "The index cannot count partitions by this condition. It cannot count by LIKE with a wildcard before "
            "other characters, by very long values, or by partition columns after the eighth. Use comparisons, IN, or "
            "LIKE 'beginning%'.",
            {"table": str(table.identifier)},
        )
    return condition


def _column(key: Key) -> sa.ColumnElement[Any]:
    return partitions.c[f"k{key.position + 1}"]
