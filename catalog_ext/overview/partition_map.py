"""The data of a partition map: its cells with their shades, and links to neighbouring maps.

The page, a notebook's card and its picture show the same map in different sizes. ``map_svg`` draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.index.read.partition_map import Unit
from catalog_ext.metastore.model.types import quote_name
from catalog_ext.metastore.runtime.wording import counted
from catalog_ext.overview import formats
from catalog_ext.overview.dates import Holes, days_of_parts, find_holes, parts_of_dates
from catalog_ext.overview.map_layout import (
    MEASURES,
    Choice,
    MapLayout,
    MapPlanner,
    Measure,
    Step,
    keys_by_name,
    text_and_condition,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.read.overviews import Overviews
    from catalog_ext.metastore.index.read.partition_map import Axis, Cell
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate

_MOST_DAYS = 40_000
LEVELS = 7
"""The number of shades. Shade 0 is a cell whose measure is zero or unknown."""

_IN_PLACE, _IN_HEAD = 20, 60
"""The most characters of a value in a cell's tooltip and in a heading: a page has thousands of cells."""


@dataclass(frozen=True, slots=True)
class MapHead:
    """The heading of a row or column.

    Attributes:
        label: The text.
        condition: Selects the partitions in the row or column; None if no condition can express it.
        href: The address of a page with only these partitions.
    """

    label: str
    condition: str | None
    href: str | None = None


@dataclass(frozen=True, slots=True)
class MapPlace:
    """One cell of the map.

    Attributes:
        kind: ``l1`` to ``l7``, the shade; ``l0`` if the measure is zero or unknown; for a cell without a partition
            ``hole`` in a range of dates, otherwise ``none``.
        where: The values of the keys.
        said: The numbers of its partitions, files, bytes and rows, in words.
        text: The measure.
    """

    kind: str
    where: str
    said: str
    text: str

    @property
    def label(self) -> str:
        """The values of the keys and the counts."""
        return f"{self.where}: {self.said}"


@dataclass(frozen=True, slots=True)
class PartitionMap:
    """A map with everything that is shown.

    Attributes:
        corner: The heading of the column of row headings: a key's name.
        rows: The heading and the cells of each row; None for a date that does not exist, such as a 31st of February.
        least: The measure of the palest cell; ``''`` if no measure is known.
        greatest: The measure of the strongest cell.
        shown: The number of partitions on the map.
        steps: Links to the maps before and after it.
        missing: The kind of cells without a partition.
        undated: The number of partitions whose date is NULL, which a range of dates omits.
        youngest_first: Whether the least measure has the strongest shade, as for ages.
    """

    caption: str
    corner: str
    columns: tuple[MapHead, ...]
    rows: tuple[tuple[MapHead, tuple[MapPlace | None, ...]], ...]
    least: str
    greatest: str
    shown: int
    steps: tuple[Step, ...]
    missing: str
    holes: Holes | None
    undated: tuple[MapHead, ...]
    youngest_first: bool


def read_map(
    overviews: Overviews, table: Table, predicate: Predicate | None, keys: Sequence[Key], choice: Choice, now_ms: int
) -> PartitionMap | None:
    """Return a map over one or two keys; None without keys.

    Raises:
        InvalidInputError: The choice names a date that does not exist.
        InvalidPredicateError: The database cannot evaluate the condition.
    """
    if not keys:
        return None
    bounds = overviews.partitions.key_bounds(table, predicate, keys)
    plan = MapPlanner(overviews, table, predicate, choice)
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
        MapHead(f"{counted(n, 'partition')} without a {key.name}", f"{quote_name(key.name)} IS NULL")
        for key, n in nulls if n
    )  # fmt: skip
    return _drawn(layout, cells, choice.measure, keys, now_ms, holes, undated)


def _drawn(
    layout: MapLayout, cells: Mapping[tuple[str, ...], Cell], measure: Measure, keys: Sequence[Key], now_ms: int,
    holes: Holes | None, undated: tuple[MapHead, ...],
) -> PartitionMap:  # fmt: skip
    on_it = {place for row in layout.rows for place in row.places if place is not None}
    found = {place: cell for place, cell in cells.items() if place in on_it}
    values = {place: _measured(cell, measure, now_ms) for place, cell in found.items()}
    known = sorted(value for value in values.values() if value)
    missing = "hole" if any(axis.unit for axis in layout.axes) else "none"
    scale = _Scale(known[0], known[-1], measure is Measure.AGE) if known else None

    def place(at: tuple[str, ...] | None) -> MapPlace | None:
        if at is None:
            return None
        where = " · ".join(
            f"{formats.cut(key.name, _IN_PLACE)}={formats.cut(_text_at(key, axis, part), _IN_PLACE)}"
            for key, axis, part in zip(keys, layout.axes, at, strict=True)
        )
        cell = found.get(at)
        if cell is None:
            return MapPlace(missing, where, "no partition", "none")
        value = values[at]
        level = 0 if not value or scale is None else scale.level(value)
        return MapPlace(f"l{level}", where, _said(cell, now_ms), _shown(value, measure))

    return PartitionMap(
        caption=f"{MEASURES[measure].capitalize()} by {' and '.join(key.name for key in keys)}",
        corner=keys[1].name if len(keys) == 2 else keys[0].name,
        columns=tuple(_head(label, condition) for label, condition in layout.columns),
        rows=tuple((_head(row.label, row.condition), tuple(map(place, row.places))) for row in layout.rows),
        least=_shown(known[0], measure) if known else "", greatest=_shown(known[-1], measure) if known else "",
        shown=sum(cell.partitions for cell in found.values()), steps=layout.steps, missing=missing, holes=holes,
        undated=undated, youngest_first=measure is Measure.AGE,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Scale:
    """A logarithmic scale from measures to ``LEVELS`` shades. The youngest age has the strongest shade."""

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


def _head(label: str, condition: str | None) -> MapHead:
    return MapHead(formats.cut(label, _IN_HEAD), condition)


def _text_at(key: Key, axis: Axis, part: str) -> str:
    return text_and_condition(key, part)[0] if axis.unit is None else axis.form.text(part)
