"""Dates of a partition map: days, months and years as texts, and missing days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.index.read.partition_map import FOR_EVER, Unit
from catalog_ext.metastore.model.key_encoding import decoded_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from catalog_ext.metastore.index.read.partition_map import Bounds
    from catalog_ext.metastore.model.values import Key

_MOST_HOLES = 40
_LAST = "9999-12-31"
_PARTS = (("year", "yyyy", "yr", "y"), ("month", "mm", "mon", "m"), ("day", "dd", "d"))
_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint", "string", "varchar", "char"})


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of consecutive days without a partition."""

    first: str
    last: str
    days: int


@dataclass(frozen=True, slots=True)
class Holes:
    """The missing days between the first and the last day of a key.

    Attributes:
        key: The key's name.
        days: The number of all days.
        missing: The number of missing days.
        gaps: The longest gaps, in the order of time.
        more: The number of gaps that are omitted.
    """

    key: str
    first: str
    last: str
    days: int
    missing: int
    gaps: tuple[Gap, ...]
    more: int


def first_day(period: str) -> str:
    """Return the first day of a period: of a day, month or year."""
    return f"{period}-01-01"[:10] if len(period) == 4 else f"{period}-01"[:10]


def checked_period(end_date: str, unit: Unit) -> str:
    """Parse a day, month or year, and truncate it to a unit.

    Raises:
        InvalidInputError: The text is not a date.
    """
    try:
        return date.fromisoformat(first_day(end_date)).isoformat()[: unit.length]
    except ValueError as error:
        raise InvalidInputError(
            f"The partition map cannot end at {end_date[:40]!r}, which is no {unit}. Give it like 2025-01-31."
        ) from error


def next_period(period: str, unit: Unit) -> str | None:
    """Return the day, month or year after a period; None at the end of the calendar."""
    return None if period == _LAST[: unit.length] else _moved(period, unit, 1)


def previous_period(period: str, unit: Unit) -> str:
    """Return the day, month or year before the given one."""
    return _moved(period, unit, -1)


def _moved(period: str, unit: Unit, by: int) -> str:
    if unit is Unit.YEAR:
        return f"{int(period) + by:04}"
    if unit is Unit.MONTH:
        months = int(period[:4]) * 12 + int(period[5:7]) - 1 + by
        return f"{months // 12:04}-{months % 12 + 1:02}"
    try:
        return (date.fromisoformat(period) + timedelta(by)).isoformat()
    except ValueError:
        # The text has the form of a date, but no such day exists (the 30th of February): continue from the month's
        # first day.
        return (date.fromisoformat(f"{period[:7]}-01") + timedelta(31 if by > 0 else -1)).isoformat()


def count_periods(bounds: Bounds, unit: Unit) -> int:
    """Count the days, months or years from the first to the last day of a key of dates."""
    first, last = str(bounds.least), str(bounds.newest)
    years = int(last[:4]) - int(first[:4])
    if unit is Unit.YEAR:
        return years + 1
    months = years * 12 + int(last[5:7]) - int(first[5:7])
    # The text has the form of a date, but no such day exists, as the 30th of February: estimate the number.
    return months + 1 if unit is Unit.MONTH else months * 31 + int(last[8:]) - int(first[8:]) + 1


def is_date_within(at: str, bounds: Bounds, unit: Unit) -> bool:
    """Return whether a day, month or year is a real date, and lies between the key's first and last value."""
    if not str(bounds.least)[: unit.length] <= at <= str(bounds.greatest)[: unit.length]:
        return False
    return unit is Unit.MONTH or _day(at) is not None


def parts_of_dates(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return the keys of year, month and day, found by their names; empty unless a table has all three."""
    by_name = {key.name.lower(): key for key in keys if key.type.name in _NUMBERS}
    found = [next((by_name[name] for name in names if name in by_name), None) for names in _PARTS]
    return tuple(key for key in found if key is not None) if None not in found else ()


def days_of_parts(keys: Sequence[Key], values: Iterable[Sequence[str]]) -> list[str]:
    """Return the days for encoded values of year, month and day; invalid dates are skipped."""
    days = []
    for each in values:
        texts = [decoded_text(part, key.type) for part, key in zip(each, keys, strict=True)]
        try:
            year, month, day = (int(text or "") for text in texts)
            days.append(date(year, month, day).isoformat())
        except (ValueError, OverflowError):
            continue
    return days


def find_holes(key: str, days: Sequence[str]) -> Holes | None:
    """Return the missing days among days of a key, in ISO 8601; None for fewer than two days.

    A last day that stands for "no end" (year 9999) makes no gap. ``key`` names the key, or the keys of year, month and
    day.
    """
    there = sorted({day for text in days if text < FOR_EVER and (day := _day(text)) is not None})
    if len(there) < 2:
        return None
    gaps = list(_gaps(there))
    longest = sorted(sorted(gaps, key=lambda gap: gap.days, reverse=True)[:_MOST_HOLES], key=lambda gap: gap.first)
    return Holes(
        key, there[0].isoformat(), there[-1].isoformat(), (there[-1] - there[0]).days + 1,
        sum(gap.days for gap in gaps), tuple(longest), len(gaps) - len(longest),
    )  # fmt: skip


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _gaps(days: Sequence[date]) -> Iterator[Gap]:
    for one, other in pairwise(days):
        if (missing := (other - one).days - 1) > 0:
            first, last = one + timedelta(1), other - timedelta(1)
            yield Gap(first.isoformat(), last.isoformat(), missing)
