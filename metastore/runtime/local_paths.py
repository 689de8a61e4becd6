"""Where locations on a local disk really are: two of them may be one directory by a symbolic link."""

from __future__ import annotations

import os

_LOCAL = "file://"


def real_location(location: str) -> str:
    """Return a canonical location with its symbolic links followed; one that is on no local disk as it is."""
    if not location.startswith(_LOCAL):
        return location
    return f"{_LOCAL}{os.path.realpath(location.removeprefix(_LOCAL))}"


def is_link(location: str) -> bool:
    """Return whether a canonical location is a symbolic link; none on another store is one."""
    return location.startswith(_LOCAL) and os.path.islink(location.removeprefix(_LOCAL))


def both_spellings(location: str) -> tuple[str, ...]:
    """Return a canonical location, and where it really is if that is elsewhere."""
    real = real_location(location)
    return (location,) if real == location else (location, real)
