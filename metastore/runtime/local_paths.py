"""Identifies local directories: two paths may be one directory, through a symbolic link or a mount."""

from __future__ import annotations

import ctypes
import os
import re
import struct
import unicodedata
from functools import cache
from typing import Any

_LOCAL = "file://"
_AT_FDCWD, _STATX_BTIME = -100, 0x800
_STATX_BYTES, _BTIME_AT = 256, 80


def real_location(location: str) -> str:
    """Return a canonical location with its symbolic links followed; a location on another store unchanged."""
    if not location.startswith(_LOCAL):
        return location
    return f"{_LOCAL}{os.path.realpath(location.removeprefix(_LOCAL))}"


def is_link(location: str) -> bool:
    """Return whether a canonical location is a symbolic link on a local disk; False on other stores."""
    return location.startswith(_LOCAL) and os.path.islink(location.removeprefix(_LOCAL))


def both_spellings(location: str) -> tuple[str, ...]:
    """Return a canonical location, and also its location after symbolic links if that differs."""
    real = real_location(location)
    return (location,) if real == location else (location, real)


def directory_identity(location: str) -> str | None:
    """Return an identity of a local directory, which a later directory of the same name does not have.

    It consists of the inode, and the creation time in nanoseconds if the file system records it: ext4 may give the
    inode number of a removed directory to the next one. The device number is left out, since it may change when the
    machine restarts. None on other stores.
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
    """Return whether two results of ``directory_identity`` show two different directories; False if one is unknown."""
    parts = zip((identity or "").split("."), (other or "").split("."), strict=False)
    return None not in (identity, other) and any(one != another for one, another in parts)


def _made_ns(path: str) -> int | None:
    """Return the creation time of a directory in nanoseconds since 1970; None if the file system does not record it."""
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
    """Return Linux's function ``statx`` (in Python from 3.15 on); None on other systems and in old C libraries."""
    return getattr(ctypes.CDLL(None), "statx", None)


class PhysicalPaths:
    """Resolves local paths to physical names, which are equal for all paths of one directory.

    Symbolic links are followed, bind mounts and second mounts of a file system are replaced by its device, and names
    are in lower case if the file system ignores case. A path that does not exist keeps its name. Results are cached, so
    use an instance only for a short time.
    """

    def __init__(self) -> None:
        self._mounts = _mounts()
        self._real: dict[str, str] = {"/": "/"}

    def of(self, path: str) -> str:
        """Return the physical name of an absolute path. It is only for comparisons and cannot be opened."""
        place = self._real_path(path)
        above = place
        while above not in self._mounts:
            if above == "/":
                return place
            above = os.path.dirname(above)
        device, root = self._mounts[above]
        return f"{device}:{root.rstrip('/')}{place.removeprefix(above.rstrip('/'))}"

    def _real_path(self, path: str) -> str:
        known = self._real.get(path)
        if known is None:
            parent, name = os.path.split(path)
            known = self._real[path] = self._real_child(self._real_path(parent), name)
        return known

    def _real_child(self, parent: str, name: str) -> str:
        place = os.path.join(parent, name)
        if os.path.islink(place):
            target = os.path.realpath(place)
            # A loop of symbolic links cannot be followed further, so it stands for itself.
            return target if os.path.islink(target) else self._real_path(target)
        folded = unicodedata.normalize("NFC", name.lower())
        if folded == name:
            return place
        is_other = not os.path.lexists(place) or not os.path.lexists(os.path.join(parent, folded))
        return place if is_other or self._has_both(parent, name, folded) else os.path.join(parent, folded)

    @staticmethod
    def _has_both(parent: str, name: str, folded: str) -> bool:
        """Return whether two names that differ in case are two directories.

        The listing decides, and not the inode: file systems in user space give the names of one directory two inodes.
        """
        try:
            return {name, folded} <= set(os.listdir(parent))
        except OSError:
            return True


def _mounts() -> dict[str, tuple[str, str]]:
    """Return the mount points, each with its device and the directory in the device; empty except on Linux."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            rows = [line.split(" ") for line in file]
    except OSError:
        return {}
    return {_unescaped(row[4]): (row[2], _unescaped(row[3])) for row in rows}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
