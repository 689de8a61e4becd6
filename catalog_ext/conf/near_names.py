"""Which of some names is near another one, whatever its case and what stands between its words."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

NEARLY = 0.8
"""How alike two names are, by difflib's measure, of which one is taken for the other misspelt, where others are few."""


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """Return the nearest of the names that are at least so alike, by difflib's measure from 0 to 1; None if none is."""
    by_bare = {bare(each): each for each in known}
    close = difflib.get_close_matches(bare(name), by_bare, 1, cutoff)
    return by_bare[close[0]] if close else None


def bare(name: str) -> str:
    """Return a name without what people write differently: case and what is between its words."""
    return "".join(c for c in name.lower() if c not in "-_.")
