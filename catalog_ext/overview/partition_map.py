"""The partition map: its places, the strength of each one's colour, and the maps before and after it.

The page, a notebook's card and its picture show the same map; the extent differs. ``map_svg`` draws it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.index import FOR_EVER, ISO, Axis, Bounds, Cell, Unit, has_column
from catalog_ext.metastore.model.key_encoding import decoded_text, is_truncated
from catalog_ext.metastore.model.types import quote_name, quote_text
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats
from catalog_ext.overview.dates import (
    Holes,
    checked_period,
    count_periods,
    days_of_parts,
    find_holes,
    first_day,
    is_date_within,
    next_period,
    parts_of_dates,
    previous_period,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index import DateForm, Overviews
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

_MOST_DAYS = 40_000
_CONTROLS = re.compile("[\x00-\x1f\x7f]")
_LIST_ROW = 30
LEVELS = 7
"""How many strengths of colour there are; 0 is where nothing of what is measured is."""

_IN_PLACE, _IN_HEAD = 20, 60
"""Characters of a value that are shown: a page has thousands of places."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of a map there is room for.

    Attributes:
        days: The most days across; of months and years there are about as many.
        across: The most values of another key across.
        down: The most rows of a map over two keys.
        months: The most months of a calendar by days, a row each, and ``years`` of one by months.
        listed: The most values of a map over one key that is no date.
    """

    days: int
    across: int
    down: int
    months: int
    years: int
    listed: int

    def units(self, unit: Unit | None) -> int:
        """Return the most places across, by what they are."""
        return self.across if unit is None else self.days if unit is Unit.DAY else min(self.days, 60)

    def unit_of(self, bounds: Bounds) -> Unit:
        """Return the finest unit by which all dates between two bounds fit."""
        units = (Unit.DAY, Unit.MONTH)
        return next((unit for unit in units if count_periods(bounds, unit) <= self.units(unit)), Unit.YEAR)

    def calendar_rows(self, unit: Unit) -> int:
        """Return the most rows of a calendar by days or by months."""
        return self.months if unit is Unit.DAY else self.years


WIDE = Extent(days=62, across=40, down=40, months=24, years=40, listed=600)
"""The extent of the page and of a picture."""

SMALL = Extent(days=31, across=20, down=8, months=12, years=8, listed=120)
"""The extent of a card."""


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
class Choice:
    """What a map is to show.

    Attributes:
        measure: What the colour says.
        unit: What dates are cut to; None for the finest of which all fit.
        positions: Where else than at its beginning a map begins, by name: ``xto`` the last date across, ``xa`` the
            value after which others come, ``yto`` and ``ya`` the same of the rows.
        extent: How much there is room for.
    """

    measure: Measure = Measure.BYTES
    unit: Unit | None = Unit.DAY
    positions: Mapping[str, str] = field(default_factory=dict)
    extent: Extent = WIDE


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a row or column.

    Attributes:
        label: Its text.
        condition: Chooses the partitions in the row or column; None where there is no such condition.
        href: The address of a page of these partitions alone.
    """

    label: str
    condition: str | None
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What is before or after a map: words, and which of the ``positions`` lead there."""

    words: str
    position: str
    value: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """One place of the map.

    Attributes:
        kind: ``l1`` to ``l7``, how strongly it is coloured; ``l0`` where nothing of what is measured is; where there is
            no partition ``hole`` in a range of dates, and ``none`` elsewhere.
        where: The values of the keys.
        said: What is there.
        text: The measure.
    """

    kind: str
    where: str
    said: str
    text: str

    @property
    def label(self) -> str:
        """Where it is and what is there."""
        return f"{self.where}: {self.said}"


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """A map as it is shown.

    Attributes:
        corner: What the heads of the rows are.
        across: What the heads of the columns are; ``''`` for numbers alone.
        measure: What the colour says.
        rows: Head and places of each; None for what is beside the map, as a 31st of February.
        least: The measure of the palest place, and ``greatest`` of the strongest; empty where there is none.
        shown: How many partitions are on it.
        steps: What is before and after it.
        missing: The kind of places without a partition.
        undated: What has NULL in the place of a date, which a range of dates leaves out.
        youngest_first: Whether the least is the strongest, as of ages.
    """

    caption: str
    corner: str
    across: str
    measure: Measure
    columns: tuple[Head, ...]
    rows: tuple[tuple[Head, tuple[Place | None, ...]], ...]
    least: str
    greatest: str
    shown: int
    steps: tuple[Step, ...]
    missing: str
    holes: Holes | None
    undated: tuple[Head, ...]
    youngest_first: bool


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
    across: str
    columns: tuple[tuple[str, str | None], ...]
    rows: tuple[_Row, ...]
    steps: tuple[Step, ...]


def keys_by_name(table: Table) -> dict[str, Key]:
    """Return the keys that a map can have, which are those that the index has by themselves."""
    return {key.name: key for key in table.definition.keys if has_column(key)}


def first_keys(table: Table) -> tuple[Key, ...]:
    """Return the one or two keys of the map where nobody chooses: the first ones."""
    return tuple(keys_by_name(table).values())[:2]


def read_map(
    overviews: Overviews, table: Table, predicate: Predicate | None, keys: Sequence[Key], choice: Choice, now_ms: int
) -> PartitionMap | None:
    """Return a map over one or two keys; None where there is none.

    Raises:
        InvalidInputError: The choice asks for what there is not.
        InvalidPredicateError: The index cannot decide the condition by itself.
    """
    if not keys:
        return None
    bounds = overviews.partitions.key_bounds(table, predicate, keys)
    plan = _Plan(overviews, table, predicate, choice)
    if len(keys) == 2:
        layout = plan.of_two(keys, bounds)
    elif bounds[0].are_days and (unit := plan.calendar_unit(bounds[0])) is not Unit.YEAR:
        layout = plan.calendar(keys[0], bounds[0], unit)
    else:
        layout = plan.listed(keys[0], bounds[0])
    most = (max(map(len, (row.places for row in layout.rows)), default=0) + 1) * (len(layout.rows) + 1)
    cells = overviews.partitions.partition_map(table, predicate, layout.axes, most) if layout.rows else {}
    dated = [(key, each.form) for key, each in zip(keys, bounds, strict=True) if each.form is not None]
    holes = None
    for key, form in dated[:1]:
        holes = find_holes(key.name, overviews.partitions.days_of(table, predicate, key, form, _MOST_DAYS))
    parts = parts_of_dates(keys_by_name(table).values())
    if not dated and not set(parts).isdisjoint(keys):
        found = overviews.partitions.combinations(table, predicate, parts, _MOST_DAYS)
        holes = find_holes(", ".join(key.name for key in parts), days_of_parts(parts, found))
    keys_of_dates = [key for key, _ in dated]
    nulls = zip(keys_of_dates, overviews.partitions.count_nulls(table, predicate, keys_of_dates), strict=True)
    undated = tuple(
        Head(f"{counted(n, 'partition')} without a {key.name}", f"{quote_name(key.name)} IS NULL")
        for key, n in nulls if n
    )  # fmt: skip
    return _drawn(layout, cells, choice.measure, keys, now_ms, holes, undated)


class _Plan:
    """Decides which places a map has."""

    def __init__(
        self, overviews: Overviews, table: Table, predicate: Predicate | None, choice: Choice
    ) -> None:  # fmt: skip
        self._overviews = overviews
        self._table = table
        self._predicate = predicate
        self._choice = choice
        self._extent = choice.extent

    def calendar_unit(self, bounds: Bounds) -> Unit:
        """Return what the dates of a calendar are cut to."""
        if self._choice.unit is not None:
            return self._choice.unit
        if count_periods(bounds, Unit.MONTH) <= self._extent.months:
            return Unit.DAY
        return Unit.MONTH if count_periods(bounds, Unit.YEAR) <= self._extent.years else Unit.YEAR

    def _unit(self, bounds: Bounds) -> Unit:
        """Return the unit that the dates of one axis are truncated to."""
        return self._extent.unit_of(bounds) if self._choice.unit is None else self._choice.unit

    def of_two(self, keys: Sequence[Key], bounds: Sequence[Bounds]) -> _Layout:
        """Return the places of two keys."""
        across = self._axis(keys[0], bounds[0], "x", None)
        down = self._axis(keys[1], bounds[1], "y", self._extent.down)
        rows = tuple(
            _Row(label, condition, tuple((x, y) for x, _, _ in across.values)) for y, label, condition in down.values
        )
        columns = tuple((label, condition) for _, label, condition in across.values)
        return _Layout((across.axis, down.axis), keys[0].name, columns, rows, (*across.steps, *down.steps))

    def calendar(self, key: Key, bounds: Bounds, unit: Unit) -> _Layout:
        """Return the places of a date: a row a month, or a row a year."""
        longer = Unit.MONTH if unit is Unit.DAY else Unit.YEAR
        periods, steps = self._dates(bounds, longer, "x", self._extent.calendar_rows(unit))
        numbers, form = range(1, 32) if unit is Unit.DAY else range(1, 13), bounds.form or ISO
        rows = tuple(
            _Row(
                period, _condition_of_date(key, period, longer, form),
                tuple((at,) if is_date_within(at := f"{period}-{n:02}", bounds, unit) else None for n in numbers),
            )
            for period in periods
        )  # fmt: skip
        axis = Axis(key, unit, periods[0], next_period(periods[-1], longer), form)
        across = "day of the month" if unit is Unit.DAY else "month"
        return _Layout((axis,), across, tuple((str(n), None) for n in numbers), rows, steps)

    def listed(self, key: Key, bounds: Bounds) -> _Layout:
        """Return the places of any key: values in one row, which has their names, or in rows of thirty."""
        axis = self._axis(key, bounds, "x", self._extent.listed)
        values = axis.values
        if len(values) <= _LIST_ROW:
            columns = tuple((label, condition) for _, label, condition in values)
            row = _Row("", None, tuple((value,) for value, _, _ in values))
            return _Layout((axis.axis,), key.name, columns, (row,) if values else (), axis.steps)
        rows = tuple(
            _Row(f"{some[0][1]} …", None, tuple((value,) for value, _, _ in some))
            for some in (values[i : i + _LIST_ROW] for i in range(0, len(values), _LIST_ROW))
        )
        return _Layout((axis.axis,), "", tuple((str(n + 1), None) for n in range(_LIST_ROW)), rows, axis.steps)

    def _axis(self, key: Key, bounds: Bounds, name: str, most: int | None) -> _Shown:
        if bounds.form is not None:
            unit = self._unit(bounds)
            dates, steps = self._dates(bounds, unit, name, self._extent.units(unit) if most is None else most)
            values: list[_Value] = [(each, each, _condition_of_date(key, each, unit, bounds.form)) for each in dates]
            return _Shown(Axis(key, unit, dates[0], next_period(dates[-1], unit), bounds.form), values, steps)
        most = self._extent.across if most is None else most
        after = self._choice.positions.get(f"{name}a")
        found = self._overviews.partitions.key_values(self._table, self._predicate, key, after=after, limit=most + 1)
        shown = found[:most]
        steps = ()
        if after:
            steps += (Step(f"first values of {key.name}", f"{name}a", None),)
        if len(found) > most:
            steps += (Step(f"next values of {key.name}", f"{name}a", shown[-1]),)
        beyond = found[most] if len(found) > most else None
        axis = Axis(key, None, shown[0] if shown else "", beyond)
        return _Shown(axis, [(each, *_value(key, each)) for each in shown], steps)

    def _dates(self, bounds: Bounds, unit: Unit, name: str, most: int) -> tuple[list[str], tuple[Step, ...]]:
        """Return the newest dates, or those up to the one that is asked for, and what leads to others."""
        least, newest, greatest = (str(each)[: unit.length] for each in (bounds.least, bounds.newest, bounds.greatest))
        asked = self._choice.positions.get(f"{name}to")
        last = min(max(checked_period(asked, unit), least), greatest) if asked else newest
        endless = newest < FOR_EVER <= last
        if endless:
            least, newest = f"{FOR_EVER}-01-01"[: unit.length], greatest
        last = min(last, newest)
        dates = [last]
        while len(dates) < most and dates[-1] > least:
            dates.append(previous_period(dates[-1], unit))
        steps: tuple[Step, ...] = ()
        if dates[-1] > least:
            steps += (Step("earlier", f"{name}to", previous_period(dates[-1], unit)),)
        elif endless:
            steps += (Step("earlier", f"{name}to", None),)
        if last < newest:
            later = last
            for _ in range(most):
                later = min(next_period(later, unit) or newest, newest)
            steps += (Step("later", f"{name}to", None if later == newest and not endless else later),)
        elif last < greatest:
            steps += (Step(f"the year {FOR_EVER}", f"{name}to", greatest),)
        return dates[::-1], steps


@dataclass(frozen=True, slots=True)
class _Shown:
    axis: Axis
    values: list[_Value]
    steps: tuple[Step, ...]


def _drawn(
    layout: _Layout, cells: Mapping[tuple[str, ...], Cell], measure: Measure, keys: Sequence[Key], now_ms: int,
    holes: Holes | None, undated: tuple[Head, ...],
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
            f"{formats.cut(key.name, _IN_PLACE)}={formats.cut(_text_at(key, axis, part), _IN_PLACE)}"
            for key, axis, part in zip(keys, layout.axes, at, strict=True)
        )
        cell = found.get(at)
        if cell is None:
            return Place(missing, where, "no partition", "none")
        value = values[at]
        level = 0 if not value or scale is None else scale.level(value)
        return Place(f"l{level}", where, _said(cell, now_ms), _shown(value, measure))

    return PartitionMap(
        caption=f"{MEASURES[measure].capitalize()} by {' and '.join(key.name for key in keys)}",
        corner=keys[1].name if len(keys) == 2 else keys[0].name,
        across=layout.across,
        measure=measure,
        columns=tuple(_head(label, condition) for label, condition in layout.columns),
        rows=tuple((_head(row.label, row.condition), tuple(map(place, row.places))) for row in layout.rows),
        least=_shown(known[0], measure) if known else "",
        greatest=_shown(known[-1], measure) if known else "",
        shown=sum(cell.partitions for cell in found.values()),
        steps=layout.steps,
        missing=missing,
        holes=holes,
        undated=undated,
        youngest_first=measure is Measure.AGE,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """The logarithm of a value, in steps; of an age the youngest is the strongest."""

    least: float
    greatest: float
    reversed: bool

    def level(self, value: float) -> int:
        width = math.log(self.greatest / self.least)
        if width == 0:
            return LEVELS
        part = math.log(value / self.least) / width
        return 1 + min(int((1 - part if self.reversed else part) * LEVELS), LEVELS - 1)


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


def _head(label: str, condition: str | None) -> Head:
    return Head(formats.cut(label, _IN_HEAD), condition)


def _value(key: Key, encoded: str) -> tuple[str, str | None]:
    """Return a value for people, and the condition that chooses it, where one can be written."""
    name, text = quote_name(key.name), decoded_text(encoded, key.type)
    if text is None:
        return "NULL", f"{name} IS NULL"
    shown = text if text else "''"
    if is_truncated(f"{encoded}____"):
        return f"{shown}…", None
    return shown, f"{name} = {_CONTROLS.sub(_escaped, quote_text(text))}"


def _escaped(found: re.Match[str]) -> str:
    # A field of a form has one line, and an address no NUL.
    return f"\\u{ord(found.group()):04x}"


def _text_at(key: Key, axis: Axis, part: str) -> str:
    return _value(key, part)[0] if axis.unit is None else axis.form.text(part)


def _condition_of_date(key: Key, period: str, unit: Unit, form: DateForm) -> str:
    name, beyond = quote_name(key.name), next_period(period, unit)
    ends = [(">=", period)] + ([] if beyond is None else [("<", beyond)])
    return " AND ".join(f"{name} {operator} {_date_literal(first_day(end), form)}" for operator, end in ends)


def _date_literal(day: str, form: DateForm) -> str:
    return form.text(day) if form.is_number else quote_text(form.text(day))
