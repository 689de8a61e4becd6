"""Formats numbers, sizes, times and the progress of long calls for people."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.runtime.wording import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.context import RepairProgress

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that are invisible or misleading: controls, marks of direction, zero-width characters, blank letters, lone
surrogates."""

_AGES = ((86_400 * 365, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))

PHASES = {
    "listing": "Listing the store",
    "comparing": "Comparing with the index",
    "verifying": "Looking into files",
    "applying": "Applying changes",
    "delivering": "Telling the metastore",
}
"""The phases of a repair, a registration or an import, in words."""


def count(number: float) -> str:
    """Return a number with thousands separators: ``1,234``."""
    return f"{number:,.0f}"


def size(number: float) -> str:
    """Return bytes in a suitable unit, with three digits: ``1.21 GiB``."""
    sign, left, unit = "-" if number < 0 else "", abs(float(number)), 0
    while left >= 1000 and unit < len(_UNITS) - 1:
        left, unit = left / 1024, unit + 1
    digits = 0 if unit == 0 or left >= 100 else 1 if left >= 10 else 2
    return f"{sign}{left:.{digits}f} {_UNITS[unit]}"


def short(number: float) -> str:
    """Return a number with at most four characters and a suffix: ``12.3k``."""
    left = float(number)
    for suffix in ("", "k", "M", "G", "T"):
        if abs(left) < 999.5:
            return f"{left:.3g}{suffix}"
        left /= 1000
    return f"{left:.3g}P"


def age(ms: float) -> str:
    """Return a duration in its largest unit: ``3 d``."""
    seconds = max(ms, 0) / 1000
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds / length:.{1 if unit == 'y' else 0}f} {unit}"
    return f"{ms:.0f} ms" if ms > 0 else "0 s"


def cut(text: str, most: int) -> str:
    """Return a text truncated to at most ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def visible(text: object) -> str:
    r"""Return a text in which controls, marks of direction and invisible characters are replaced by their code points.

    >>> visible("a\nb\u202e")
    'a⟨U+000A⟩b⟨U+202E⟩'
    """
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", str(text))


def moment(ms: int) -> str:
    """Return a time in UTC, to the second, for a column whose heading says UTC: ``2025-01-31 10:00:00``."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def instant(ms: int) -> str:
    """Return a time in UTC by ISO 8601, to the second: ``2025-01-31T10:00:00Z``."""
    return datetime.fromtimestamp(ms / 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


FILTERS: dict[str, Callable[..., Any]] = {
    "count": count, "size": size, "age": age, "instant": instant, "counted": counted, "cut": cut, "visible": visible,
}  # fmt: skip
"""The filters of templates, by name."""


def in_words(report: RepairProgress) -> tuple[str, str]:
    """Return a progress report's phase as words, and its counts as words (``''`` while they are 0)."""
    counts = counted(report.partitions, "partition")
    if report.total is not None:
        counts = f"{report.partitions:,} of {counted(report.total, 'partition')}"
    if report.files:
        counts += f", {counted(report.files, 'file')}"
    if report.left_s is not None:
        counts += f", about {_duration(report.left_s)} left"
    if not (report.partitions or report.files):
        counts = ""
    return PHASES.get(report.phase, report.phase), counts


def _duration(seconds: float) -> str:
    """Return an estimated duration in one or two units."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
