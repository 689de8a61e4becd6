"""Numbers, sizes and names as people read them, and as they write them by mistake."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return the number with its noun: ``1 file``, ``1,200 files``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def format_bytes(size: int) -> str:
    """Return the size for people, in binary units.

    >>> format_bytes(10), format_bytes(3_500_000)
    ('10 B', '3.3 MiB')
    """
    number, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        # What would round up to 1024.0 is 1.0 of the next unit.
        if number < 1023.95 or unit == "TiB":
            break
        number /= 1024
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"


def did_you_mean(word: str, names: Iterable[str], most: int = 1) -> str:
    """Return the question which of the names somebody has meant, with a blank at its end; nothing if none is near.

    Args:
        word: What somebody has written.
        names: What there is.
        most: How many are asked about.

    >>> did_you_mean("SALSE", ["sales", "logs"])
    'Did you mean sales? '
    """
    by_lower = {name.lower(): name for name in names}
    near = [by_lower[name] for name in difflib.get_close_matches(word.lower(), by_lower, most)]
    return f"Did you mean {' or '.join(near)}? " if near else ""
