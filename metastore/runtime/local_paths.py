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


def directory_identity(location: str) -> str | None:
    """Return what distinguishes a local directory from another one that gets its name; None elsewhere, or without one.

    It is the inode: the number of the device may change when the machine starts again.
    """
    if not location.startswith(_LOCAL):
        return None
    try:
        return str(os.stat(location.removeprefix(_LOCAL)).st_ino)
    except OSError:
        return None


def lies_within(location: str, root: str) -> bool:
    """Return whether a local directory is another one or lies in it, also by a symbolic link or a bind mount."""
    real, real_root = real_location(location), real_location(root)
    if f"{real}/".startswith(f"{real_root}/"):
        return True
    try:
        wanted = os.stat(real_root.removeprefix(_LOCAL))
    except OSError:
        return False
    place = real.removeprefix(_LOCAL)
    while place not in ("", "/"):
        try:
            if os.path.samestat(os.stat(place), wanted):
                return True
        except OSError:
            # A directory that is not there is no mount; one above it may be.
            pass
        place = os.path.dirname(place)
    return False
