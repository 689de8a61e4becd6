"""The partition map: which places it has, how strongly each is coloured, and where one goes from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index import Axis, Bounds, Cell, Unit, has_column
from catalog_ext.metastore.model.key_encoding import decoded_text, is_truncated
from catalog_ext.metastore.model.types import quote_name, quote_text
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.page import formats
from catalog_ext.page.dates import (
    Holes,
    checked_period,
    find_holes,
    first_day,
    is_date_within,
    next_period,
    previous_period,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index import Overviews
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate
    from catalog_ext.page.query import Query

ACROSS = {Unit.DAY: 62, Unit.MONTH: 60, Unit.YEAR: 60, None: 40}
"""The most places of a row, by what they are."""

DOWN = 40
"""The most rows of a map over two keys."""

_CALENDAR_ROWS = {Unit.DAY: 24, Unit.MONTH: 40}
"""Months, or years, of a map over one date."""

_LIST, _LIST_ROW = 600, 30
_MOST_DAYS = 40_000
_LEVELS = 7
_IN_PLACE, _IN_HEAD, _LINKED = 20, 60, 300
"""Characters of a value that are shown, and of a condition that is linked to: a page has thousands of places."""


class Measure(StrEnum):
    """What the colour says."""

    BYTES = "bytes"
    FILES = "files"
    ROWS = "rows"
    PARTITIONS = "partitions"
    MEAN = "mean"
    AGE = "age"


MEASURES = {
    Measure.BYTES: "size", Measure.FILES: "files", Measure.ROWS: "rows", Measure.PARTITIONS: "partitions",
    Measure.MEAN: "mean size of a file", Measure.AGE: "age of the last change",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a row or column, and the address of what is in it alone."""

    label: str
    href: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the map.

    Attributes:
        kind: A class of the style sheet: ``l1`` to ``l7``; ``l0`` where nothing of what is measured is; where there is
            no partition ``hole`` in a range of dates, and ``none`` elsewhere.
        label: What is said of it, or None beside the map.
        text: The measure.
    """

    kind: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """A map as the page shows it.

    Attributes:
        rows: Head and places of each; None for what is beside the map, as a 31st of February.
        least: The measure of the palest place, and ``greatest`` of the strongest; empty where there is none.
        shown: How many partitions are on it.
        steps: The links to what is before and after it: words and address.
        missing: The kind of places without a partition.
    """

    caption: str
    corner: str
    columns: tuple[Head, ...]
    rows: tuple[tuple[Head, tuple[Place | None, ...]], ...]
    least: str
    greatest: str
    shown: int
    steps: tuple[tuple[str, str], ...]
    missing: str
    holes: Holes | None


_Value = tuple[str, str, str | None]
"""A value as the index has it, for people, and the condition that chooses it."""


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    condition: str | None
    places: tuple[tuple[str, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    axes: tuple[Axis, ...]
    columns: tuple[tuple[str, str | None], ...]
    rows: tuple[_Row, ...]
    steps: tuple[tuple[str, str], ...]


def chosen_keys(table: Table, query: Query) -> tuple[Key, ...]:
    """Return the one or two keys of the map: those that the address names, else the first two.

    Raises:
        InvalidInputError: The table has no such key.
    """
    keys = [key for key in table.definition.keys if has_column(key)]
    by_name = {key.name: key for key in keys}
    for name in ("x", "y"):
        if query.text(name) not in ("", "-", *by_name):
            raise InvalidInputError(
                f"{name} is {query.text(name)[:80]!r} in the page's address; the table's keys are {', '.join(by_name)}."
            )
    across = by_name.get(query.text("x")) or next(iter(keys), None)
    if across is None:
        return ()
    other = next((key for key in keys if key != across), None)
    down = by_name.get(query.text("y")) if query.text("y") else other
    return (across,) if down is None or down == across else (across, down)


def read_map(
    overviews: Overviews, table: Table, predicate: Predicate | None, keys: Sequence[Key], query: Query, now_ms: int
) -> PartitionMap | None:
    """Return the map that the address asks for; None where the table has no key that the index knows by itself.

    Raises:
        InvalidInputError: The address asks for what there is not.
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    if not keys:
        return None
    measure, unit = query.choice("m", Measure, Measure.BYTES), query.choice("unit", Unit, Unit.DAY)
    bounds = overviews.key_bounds(table, predicate, keys)
    plan = _Plan(overviews, table, predicate, query, unit)
    if len(keys) == 2:
        layout = plan.of_two(keys, bounds)
    elif bounds[0].are_days and unit is not Unit.YEAR:
        layout = plan.calendar(keys[0], bounds[0])
    else:
        layout = plan.listed(keys[0], bounds[0])
    most = (max(map(len, (row.places for row in layout.rows)), default=0) + 1) * (len(layout.rows) + 1)
    cells = overviews.partition_map(table, predicate, layout.axes, most) if layout.rows else {}
    dated = next((i for i, each in enumerate(bounds) if each.are_days), None)
    holes = (
        None if dated is None else find_holes(keys[dated], overviews.days_of(table, predicate, keys[dated], _MOST_DAYS))
    )
    return _drawn(layout, cells, measure, keys, query, now_ms, holes)


class _Plan:
    """Decides which places a map has."""

    def __init__(
        self, overviews: Overviews, table: Table, predicate: Predicate | None, query: Query, unit: Unit
    ) -> None:
        self._overviews = overviews
        self._table = table
        self._predicate = predicate
        self._query = query
        self._unit = unit

    def of_two(self, keys: Sequence[Key], bounds: Sequence[Bounds]) -> _Layout:
        """Return the places of two keys."""
        across = self._axis(keys[0], bounds[0], "x", ACROSS[self._unit if bounds[0].are_days else None])
        down = self._axis(keys[1], bounds[1], "y", DOWN)
        rows = tuple(
            _Row(label, condition, tuple((x, y) for x, _, _ in across.values)) for y, label, condition in down.values
        )
        columns = tuple((label, condition) for _, label, condition in across.values)
        return _Layout((across.axis, down.axis), columns, rows, (*across.steps, *down.steps))

    def calendar(self, key: Key, bounds: Bounds) -> _Layout:
        """Return the places of a date: a row a month, or a row a year."""
        unit = self._unit
        longer = Unit.MONTH if unit is Unit.DAY else Unit.YEAR
        periods, steps = self._dates(bounds, longer, "x", _CALENDAR_ROWS[unit])
        numbers = range(1, 32) if unit is Unit.DAY else range(1, 13)
        rows = tuple(
            _Row(
                period, _condition_of_date(key, period, longer),
                tuple((at,) if is_date_within(at := f"{period}-{n:02}", bounds, unit) else None for n in numbers),
            )
            for period in periods
        )  # fmt: skip
        axis = Axis(key, unit, periods[0], next_period(periods[-1], longer)) if periods else Axis(key, unit, "", None)
        return _Layout((axis,), tuple((str(n), None) for n in numbers), rows, steps)

    def listed(self, key: Key, bounds: Bounds) -> _Layout:
        """Return the places of any key, in rows of thirty values."""
        axis = self._axis(key, bounds, "x", _LIST)
        rows = tuple(
            _Row(f"{values[0][1]} …", None, tuple((value,) for value, _, _ in values))
            for values in (axis.values[i : i + _LIST_ROW] for i in range(0, len(axis.values), _LIST_ROW))
        )
        width = min(len(axis.values), _LIST_ROW)
        return _Layout((axis.axis,), tuple((str(n + 1), None) for n in range(width)), rows, axis.steps)

    def _axis(self, key: Key, bounds: Bounds, name: str, most: int) -> _Shown:
        if bounds.are_days:
            dates, steps = self._dates(bounds, self._unit, name, most)
            values: list[_Value] = [(each, each, _condition_of_date(key, each, self._unit)) for each in dates]
            beyond = next_period(dates[-1], self._unit) if dates else None
            return _Shown(Axis(key, self._unit, dates[0] if dates else "", beyond), values, steps)
        after = self._query.text(f"{name}a")
        found = self._overviews.key_values(self._table, self._predicate, key, after=after or None, limit=most + 1)
        shown = found[:most]
        links = []
        if after:
            links.append((f"first values of {key.name}", self._query.but(**{f"{name}a": None})))
        if len(found) > most:
            links.append((f"next values of {key.name}", self._query.but(**{f"{name}a": shown[-1]})))
        beyond = found[most] if len(found) > most else None
        axis = Axis(key, None, shown[0] if shown else "", beyond)
        return _Shown(axis, [(each, *_value(key, each)) for each in shown], tuple(links))

    def _dates(
        self, bounds: Bounds, unit: Unit, name: str, most: int
    ) -> tuple[list[str], tuple[tuple[str, str], ...]]:  # fmt: skip
        """Return the newest dates, or those up to the one that the address names, and the links to others."""
        least, greatest = (str(each)[: unit.length] for each in (bounds.least, bounds.greatest))
        asked = self._query.text(f"{name}to")
        last = min(max(checked_period(asked, unit), least), greatest) if asked else greatest
        dates = [last]
        while len(dates) < most and dates[-1] > least:
            dates.append(previous_period(dates[-1], unit))
        steps: tuple[tuple[str, str], ...] = ()
        if dates[-1] > least:
            steps += (("earlier", self._query.but(**{f"{name}to": previous_period(dates[-1], unit)})),)
        if last < greatest:
            later = last
            for _ in range(most):
                later = min(next_period(later, unit), greatest)
            steps += (("later", self._query.but(**{f"{name}to": None if later == greatest else later})),)
        return dates[::-1], steps


@dataclass(frozen=True, slots=True)
class _Shown:
    axis: Axis
    values: list[_Value]
    steps: tuple[tuple[str, str], ...]


def _drawn(
    layout: _Layout, cells: Mapping[tuple[str, ...], Cell], measure: Measure, keys: Sequence[Key], query: Query,
    now_ms: int, holes: Holes | None,
) -> PartitionMap:  # fmt: skip
    on_it = {place for row in layout.rows for place in row.places if place is not None}
    found = {place: cell for place, cell in cells.items() if place in on_it}
    values = {place: _measured(cell, measure, now_ms) for place, cell in found.items()}
    known = sorted(value for value in values.values() if value)
    missing = "hole" if any(axis.unit for axis in layout.axes) else "none"
    scale = _Scale(known[0], known[-1], measure is Measure.AGE) if known else None

    def place(at: tuple[str, ...] | None) -> Place | None:
        if at is None:
            return None
        where = " · ".join(
            f"{formats.cut(key.name, _IN_PLACE)}={part if axis.unit else formats.cut(_value(key, part)[0], _IN_PLACE)}"
            for key, axis, part in zip(keys, layout.axes, at, strict=True)
        )
        cell = found.get(at)
        if cell is None:
            return Place(missing, f"{where}: no partition", "none")
        value = values[at]
        level = 0 if not value or scale is None else scale.level(value)
        return Place(f"l{level}", f"{where}: {_said(cell, now_ms)}", _shown(value, measure))

    return PartitionMap(
        caption=f"{MEASURES[measure].capitalize()} by {' and '.join(key.name for key in keys)}",
        corner=keys[1].name if len(keys) == 2 else keys[0].name,
        columns=tuple(_head(label, condition, query) for label, condition in layout.columns),
        rows=tuple((_head(row.label, row.condition, query), tuple(map(place, row.places))) for row in layout.rows),
        least=_shown(known[0], measure) if known else "",
        greatest=_shown(known[-1], measure) if known else "",
        shown=sum(cell.partitions for cell in found.values()),
        steps=layout.steps,
        missing=missing,
        holes=holes,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """The logarithm of a value, in steps; of an age the youngest is the strongest."""

    least: float
    greatest: float
    reversed: bool

    def level(self, value: float) -> int:
        width = math.log(self.greatest / self.least)
        part = math.log(value / self.least) / width if width > 0 else 1.0
        return 1 + min(int((1 - part if self.reversed else part) * _LEVELS), _LEVELS - 1)


def _measured(cell: Cell, measure: Measure, now_ms: int) -> float | None:
    match measure:
        case Measure.BYTES:
            return cell.bytes
        case Measure.FILES:
            return cell.files
        case Measure.ROWS:
            return None if cell.uncounted == cell.partitions else cell.rows
        case Measure.PARTITIONS:
            return cell.partitions
        case Measure.MEAN:
            return cell.bytes / cell.files if cell.files else None
    return None if cell.changed_at_ms is None else max(now_ms - cell.changed_at_ms, 1)


def _shown(value: float | None, measure: Measure) -> str:
    if value is None:
        return "not known"
    if measure in (Measure.BYTES, Measure.MEAN):
        return formats.size(value)
    return formats.age(value) if measure is Measure.AGE else formats.count(value)


def _said(cell: Cell, now_ms: int) -> str:
    if cell.uncounted == cell.partitions:
        rows = "rows not counted"
    else:
        rows = f"{'at least ' if cell.uncounted else ''}{counted(cell.rows, 'row')}"
    changed = "" if cell.changed_at_ms is None else f", changed {formats.age(now_ms - cell.changed_at_ms)} ago"
    return (
        f"{counted(cell.partitions, 'partition')}, {counted(cell.files, 'file')}, "
        f"{formats.size(cell.bytes)}, {rows}{changed}"
    )


def _head(label: str, condition: str | None, query: Query) -> Head:
    shown, before = formats.cut(label, _IN_HEAD), query.text("where")
    wanted = f"({before}) AND {condition}" if before else condition
    if wanted is None or condition is None or len(wanted) > _LINKED:
        return Head(shown, None)
    return Head(shown, query.but(where=wanted, xa=None, ya=None))


def _value(key: Key, encoded: str) -> tuple[str, str | None]:
    """Return a value for people, and the condition that chooses it, where one can be written."""
    name, text = quote_name(key.name), decoded_text(encoded, key.type)
    if text is None:
        return "NULL", f"{name} IS NULL"
    shown = text if text else "''"
    if is_truncated(f"{encoded}____"):
        return f"{shown}…", None
    return shown, f"{name} = {quote_text(text)}"


def _condition_of_date(key: Key, period: str, unit: Unit) -> str:
    name, first, beyond = quote_name(key.name), first_day(period), first_day(next_period(period, unit))
    return f"{name} >= {quote_text(first)} AND {name} < {quote_text(beyond)}"
