"""The layout of a partition map: its rows, columns and cells, and links to neighbouring maps."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.index.read.partition_map import FOR_EVER, ISO, Axis, Bounds, Unit, has_column
from catalog_ext.metastore.model.key_encoding import decoded_text, is_truncated
from catalog_ext.metastore.model.types import quote_name, quote_text
from catalog_ext.overview.dates import (
    checked_period,
    count_periods,
    first_day,
    is_date_within,
    next_period,
    previous_period,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.read.overviews import Overviews
    from catalog_ext.metastore.index.read.partition_map import DateForm
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

_CONTROLS = re.compile("[\x00-\x1f\x7f]")
_LIST_ROW = 30


@dataclass(frozen=True, slots=True)
class Extent:
    """The most rows and columns of a map.

    Attributes:
        days: Columns of days; also the limit of months and years, up to 60.
        across: Columns of values of a key without dates.
        down: Rows of a map over two keys.
        months: Rows of a calendar by days, a month each.
        years: Rows of a calendar by months, a year each.
        listed: Values of a map over one key without dates.
    """

    days: int
    across: int
    down: int
    months: int
    years: int
    listed: int

    def units(self, unit: Unit | None) -> int:
        """Return the maximal number of columns for dates of a unit; for None, of values of a key without dates."""
        return self.across if unit is None else self.days if unit is Unit.DAY else min(self.days, 60)

    def unit_of(self, bounds: Bounds) -> Unit:
        """Return the finest unit in which all dates between two bounds fit the map."""
        units = (Unit.DAY, Unit.MONTH)
        return next((unit for unit in units if count_periods(bounds, unit) <= self.units(unit)), Unit.YEAR)

    def calendar_rows(self, unit: Unit) -> int:
        """Return the most rows of a calendar by days or by months."""
        return self.months if unit is Unit.DAY else self.years


WIDE = Extent(days=62, across=40, down=40, months=24, years=40, listed=600)
"""The size of a map on the page and in a picture."""

SMALL = Extent(days=31, across=20, down=8, months=12, years=8, listed=120)
"""The size of a map on a notebook's card."""


class Measure(StrEnum):
    """The quantity that the colours of a map show."""

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
    """The user's choices for a map.

    Attributes:
        measure: The quantity that the colours show.
        unit: The unit that dates are truncated to; None for the finest that fits.
        positions: Scroll positions, by name: ``xto`` is the last date of the columns, ``xa`` the value before the first
            column; ``yto`` and ``ya`` are those of the rows.
        extent: The most rows and columns.
    """

    measure: Measure = Measure.BYTES
    unit: Unit | None = Unit.DAY
    positions: Mapping[str, str] = field(default_factory=dict)
    extent: Extent = WIDE


@dataclass(frozen=True, slots=True)
class Step:
    """A link to a neighbouring map: its text, the scroll position as an entry of ``positions``, and the address."""

    words: str
    position: str
    value: str | None
    href: str | None = None


_Value = tuple[str, str, str | None]
"""A value as encoded in the index, its text, and the condition that selects its partitions."""


@dataclass(frozen=True, slots=True)
class MapRow:
    """A row of a map: its label, its condition, and the encoded key values of each cell (None: no such date)."""

    label: str
    condition: str | None
    places: tuple[tuple[str, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class MapLayout:
    """The layout of a map: its axes, the label and condition of each column, its rows, links to neighbouring maps."""

    axes: tuple[Axis, ...]
    columns: tuple[tuple[str, str | None], ...]
    rows: tuple[MapRow, ...]
    steps: tuple[Step, ...]


def keys_by_name(table: Table) -> dict[str, Key]:
    """Return the keys that a map can show: those that have a database column of their own in the index."""
    return {key.name: key for key in table.definition.keys if has_column(key)}


def first_keys(table: Table) -> tuple[Key, ...]:
    """Return the default keys of a map: the first two."""
    return tuple(keys_by_name(table).values())[:2]


class MapPlanner:
    """Decides which rows, columns and cells a map has."""

    def __init__(self, overviews: Overviews, table: Table, predicate: Predicate | None, choice: Choice) -> None:
        self._overviews = overviews
        self._table = table
        self._predicate = predicate
        self._choice = choice
        self._extent = choice.extent

    def calendar_unit(self, bounds: Bounds) -> Unit:
        """Return the unit that the dates of a calendar are truncated to."""
        if self._choice.unit is not None:
            return self._choice.unit
        if count_periods(bounds, Unit.MONTH) <= self._extent.months:
            return Unit.DAY
        return Unit.MONTH if count_periods(bounds, Unit.YEAR) <= self._extent.years else Unit.YEAR

    def of_two(self, keys: Sequence[Key], bounds: Sequence[Bounds]) -> MapLayout:
        """Return the layout of a map over two keys."""
        across = self._axis(keys[0], bounds[0], "x", None)
        down = self._axis(keys[1], bounds[1], "y", self._extent.down)
        rows = tuple(
            MapRow(label, condition, tuple((x, y) for x, _, _ in across.values)) for y, label, condition in down.values
        )
        columns = tuple((label, condition) for _, label, condition in across.values)
        return MapLayout((across.axis, down.axis), columns, rows, (*across.steps, *down.steps))

    def calendar(self, key: Key, bounds: Bounds, unit: Unit) -> MapLayout:
        """Return the layout of a calendar, with a row per month or per year."""
        longer = Unit.MONTH if unit is Unit.DAY else Unit.YEAR
        periods, steps = self._dates(bounds, longer, "x", self._extent.calendar_rows(unit))
        numbers, form = range(1, 32) if unit is Unit.DAY else range(1, 13), bounds.form or ISO
        rows = tuple(
            MapRow(
                period, _condition_of_date(key, period, longer, form),
                tuple((at,) if is_date_within(at := f"{period}-{n:02}", bounds, unit) else None for n in numbers),
            )
            for period in periods
        )  # fmt: skip
        axis = Axis(key, unit, periods[0], next_period(periods[-1], longer), form)
        return MapLayout((axis,), tuple((str(n), None) for n in numbers), rows, steps)

    def listed(self, key: Key, bounds: Bounds) -> MapLayout:
        """Return the layout of a map over one key: values in one row below their names, or in rows of thirty."""
        axis = self._axis(key, bounds, "x", self._extent.listed)
        values = axis.values
        if len(values) <= _LIST_ROW:
            columns = tuple((label, condition) for _, label, condition in values)
            row = MapRow("", None, tuple((value,) for value, _, _ in values))
            return MapLayout((axis.axis,), columns, (row,) if values else (), axis.steps)
        rows = tuple(
            MapRow(f"{some[0][1]} …", None, tuple((value,) for value, _, _ in some))
            for some in (values[i : i + _LIST_ROW] for i in range(0, len(values), _LIST_ROW))
        )
        return MapLayout((axis.axis,), tuple((str(n + 1), None) for n in range(_LIST_ROW)), rows, axis.steps)

    def _axis(self, key: Key, bounds: Bounds, name: str, most: int | None) -> _Shown:
        if bounds.form is not None:
            unit = self._extent.unit_of(bounds) if self._choice.unit is None else self._choice.unit
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
        return _Shown(axis, [(each, *text_and_condition(key, each)) for each in shown], steps)

    def _dates(self, bounds: Bounds, unit: Unit, name: str, most: int) -> tuple[list[str], tuple[Step, ...]]:
        """Return the dates of a map (the newest, or those up to the chosen date), and links to the other dates."""
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


def text_and_condition(key: Key, encoded: str) -> tuple[str, str | None]:
    """Return the text of a key's value, and the SQL condition that selects it; None if no condition can express it."""
    name, text = quote_name(key.name), decoded_text(encoded, key.type)
    if text is None:
        return "NULL", f"{name} IS NULL"
    shown = text if text else "''"
    if is_truncated(f"{encoded}____"):
        return f"{shown}…", None
    return shown, f"{name} = {_CONTROLS.sub(_escaped, quote_text(text))}"


def _escaped(found: re.Match[str]) -> str:
    # A form field has a single line, and an address cannot contain NUL, so write such characters as escapes.
    return f"\\u{ord(found.group()):04x}"


def _condition_of_date(key: Key, period: str, unit: Unit, form: DateForm) -> str:
    name, beyond = quote_name(key.name), next_period(period, unit)
    ends = [(">=", period)] + ([] if beyond is None else [("<", beyond)])
    return " AND ".join(f"{name} {operator} {_date_literal(first_day(end), form)}" for operator, end in ends)


def _date_literal(day: str, form: DateForm) -> str:
    return form.text(day) if form.is_number else quote_text(form.text(day))
