"""Formats numbers and sizes for people, and suggests names for misspelled ones."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


NEARLY = 0.8
"""The least similarity (difflib's ratio, 0 to 1) for which one of few names is suggested for a misspelled name."""


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
        # Change to the next unit here: 1023.95 would be rounded to 1024.0.
        if number < 1023.95 or unit == "TiB":
            break
        number /= 1024
    return f"{size} B" if unit == "B" else f"{number:.1f} {unit}"


def did_you_mean(word: str, names: Iterable[str], most: int = 1, prefix: str = "") -> str:
    """Return a "Did you mean …?" question with similar names, with a blank at its end; empty if no name is similar.

    Args:
        word: The word as it was written.
        names: The existing names.
        most: The greatest number of names in the question.
        prefix: Put before each name in the question, but not compared.

    >>> did_you_mean("SALSE", ["sales", "logs"])
    'Did you mean sales? '
    """
    by_lower = {name.lower(): name for name in names}
    near = [prefix + by_lower[name] for name in difflib.get_close_matches(word.lower(), by_lower, most)]
    return f"Did you mean {' or '.join(near)}? " if near else ""


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """Return the most similar of the known names; None if no name has at least the similarity ``cutoff`` (0 to 1)."""
    by_bare = {bare(each): each for each in known}
    close = difflib.get_close_matches(bare(name), by_bare, 1, cutoff)
    return by_bare[close[0]] if close else None


def bare(name: str) -> str:
    """Return a name in lower case without separators, so that names which differ only in these are equal."""
    return "".join(c for c in name.lower() if c not in "-_.")
