"""Entries of a directory, and the items that the listing of a tree yields."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyarrow import fs as pafs

from catalog_ext.metastore.storage.locations import Location

if TYPE_CHECKING:
    from catalog_ext.metastore.errors import StorageError


class EntryKind(Enum):
    """The kind of an entry at a location."""

    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Entry:
    """A store's data about one location.

    Attributes:
        location: The location.
        kind: File or directory.
        size: Bytes of a file, 0 for a directory.
        modified_ms: Last modification in milliseconds since 1970, 0 if the store has none (an S3 prefix).
        etag: The hash of an object's ETag (``etag_hash``), if a listing has returned it; pyarrow's HEAD does not.
    """

    location: Location
    kind: EntryKind
    size: int
    modified_ms: int
    etag: int | None = None


def child_location(parent: Location, name: str) -> Location:
    """Return the location of an entry in a directory, with the entry's name unchanged."""
    # Do not use ``join``: it normalizes or refuses names such as ``..``, which hostile S3 keys may contain.
    return Location(parent.scheme, parent.bucket, f"{parent.key}/{name}" if parent.key else name)


def entry_of(info: pafs.FileInfo, location: Location) -> Entry | None:
    """Return the entry for pyarrow's information about a location; None if the location does not exist."""
    if info.type == pafs.FileType.File:
        return Entry(location, EntryKind.FILE, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
    if info.type == pafs.FileType.Directory:
        return Entry(location, EntryKind.DIRECTORY, 0, (info.mtime_ns or 0) // 1_000_000)
    # A socket or a device is neither a file nor a directory, and cannot be a table's data.
    return None


NOT_TEXT = "the name is not valid UTF-8 or holds a NUL"
"""The reason for skipping a path that no database could store."""

NO_PATH = "the key has an empty component, '.' or '..': readers (S3A, Hive) drop these and look at another path"
"""The reason for skipping an S3 object that has no valid Hadoop path."""

MARKER = "the key ends in a slash: readers take the object for a directory and see nothing of what it holds"
"""The reason for skipping a non-empty S3 object whose key ends in a slash."""

_NO_PATH = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")


class ListedFile(NamedTuple):
    """A file below the root of a listing.

    Attributes:
        directory: Its directory relative to the root, exactly as on the store; empty for the root itself. An empty
            component (the S3 key ``a//x``) shows as a ``/`` at an end or a doubled one.
        name: Its name in that directory; empty for a non-empty S3 object whose key ends in a slash.
        size: Bytes.
        modified_ms: Last modification, in milliseconds since 1970.
        etag: The hash of its ETag (``etag_hash``); None if the store has none.
    """

    directory: str
    name: str
    size: int
    modified_ms: int
    etag: int | None = None


class ListedDirectory(NamedTuple):
    """A listed directory below the root, possibly empty, on a store that has directories."""

    directory: str


class ListedOther(NamedTuple):
    r"""An entry that no reader can open as a file: a pipe, a dangling link, a name that is not UTF-8 text.

    Attributes:
        directory: Its directory relative to the root.
        name: Its name in that directory; bytes that are not UTF-8 are written as ``\udcXX``.
        size: Bytes; 0 if it has no size.
        reason: Why it cannot be read, as text.
    """

    directory: str
    name: str
    size: int
    reason: str


class ListingFailure(NamedTuple):
    """A directory whose contents the listing may lack, in whole or in part; ``error`` says why."""

    directory: str
    error: StorageError


Listed: TypeAlias = ListedFile | ListedDirectory | ListedOther | ListingFailure
Descend: TypeAlias = Callable[[str], bool]


def obstacle(file: ListedFile) -> str | None:
    """Return why readers cannot find an S3 object by its path; None if they can."""
    if not file.name:
        return MARKER
    return NO_PATH if file.directory and _NO_PATH.search(file.directory) else None
