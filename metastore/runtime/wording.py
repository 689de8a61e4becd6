"""Numbers and sizes as people read them."""

from __future__ import annotations


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
