"""Where locations on a local disk really are: two of them may be one directory by a symbolic link."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from typing import Any

_LOCAL = "file://"
_AT_FDCWD, _STATX_BTIME = -100, 0x800
_STATX_BYTES, _BTIME_AT = 256, 80


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

    It is the inode, and the nanosecond in which it was made where the file system knows it: ext4 gives the number of a
    directory that is removed to the one that is made next. The number of the device may change when the machine starts
    again.
    """
    if not location.startswith(_LOCAL):
        return None
    path = location.removeprefix(_LOCAL)
    try:
        inode = os.stat(path).st_ino
    except OSError:
        return None
    made_ns = _made_ns(path)
    return str(inode) if made_ns is None else f"{inode}.{made_ns}"


def is_other_directory(identity: str | None, other: str | None) -> bool:
    """Return whether two results of ``directory_identity`` are of two directories, as far as both say."""
    parts = zip((identity or "").split("."), (other or "").split("."), strict=False)
    return None not in (identity, other) and any(one != another for one, another in parts)


def _made_ns(path: str) -> int | None:
    """Return when a directory was made, in nanoseconds since 1970; None where the file system does not know it."""
    statx = _statx()
    if statx is None:
        return None
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found):
        return None
    (known,) = struct.unpack_from("=I", found)
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_AT)
    return seconds * 1_000_000_000 + nanoseconds if known & _STATX_BTIME else None


@cache
def _statx() -> Any:  # noqa: ANN401 -- a function of the C library
    """Return Linux's ``statx``, which Python has from 3.15 on; None on other systems and in old C libraries."""
    return getattr(ctypes.CDLL(None), "statx", None)


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
