"""Entries of a directory, and the events of a tree listing."""

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
    """What lies at a location."""

    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a store says about one location.

    Attributes:
        location: The place.
        kind: File or directory.
        size: Bytes of a file, 0 for a directory.
        modified_ms: Last modification in milliseconds since 1970, 0 where the store has none (an S3 prefix).
        etag: The hash of an object's ETag (``etag_hash``), where a listing has given it; a HEAD of pyarrow does not.
    """

    location: Location
    kind: EntryKind
    size: int
    modified_ms: int
    etag: int | None = None


def child_location(parent: Location, name: str) -> Location:
    """Return the location of a name in a directory."""
    # Use the store's name unchanged: ``join`` would refuse or alter components of a hostile key.
    return Location(parent.scheme, parent.bucket, f"{parent.key}/{name}" if parent.key else name)


def entry_of(info: pafs.FileInfo, location: Location) -> Entry | None:
    """Return the entry for pyarrow's information about a location; None if nothing is there."""
    if info.type == pafs.FileType.File:
        return Entry(location, EntryKind.FILE, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
    if info.type == pafs.FileType.Directory:
        return Entry(location, EntryKind.DIRECTORY, 0, (info.mtime_ns or 0) // 1_000_000)
    # A socket or a device is neither; for a table nothing lies there.
    return None


NOT_TEXT = "the name is not valid UTF-8 or holds a NUL"
"""Why a path is skipped that no database could keep."""

NO_PATH = "the key has an empty component, '.' or '..': readers (S3A, Hive) drop these and look at another path"
"""Why an S3 object is skipped that no Hadoop path names."""

MARKER = "the key ends in a slash: readers take the object for a directory and see nothing of what it holds"
"""Why an S3 object that holds something is skipped."""

_NO_PATH = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")


class ListedFile(NamedTuple):
    """A file below the root of a listing.

    Attributes:
        directory: Its directory relative to the root, exactly as on the store; empty for the root itself. An empty
            component (the S3 key ``a//x``) shows as a ``/`` at an end or a doubled one.
        name: Its name in that directory; empty for an S3 key that ends in a slash and holds something.
        size: Bytes.
        modified_ms: Last modification, in milliseconds since 1970.
        etag: The hash of its ETag (``etag_hash``); None where the store has none.
    """

    directory: str
    name: str
    size: int
    modified_ms: int
    etag: int | None = None


class ListedDirectory(NamedTuple):
    """A directory below the root that was listed, on a store that has directories; it may be empty."""

    directory: str


class ListedOther(NamedTuple):
    r"""Something that no reader can open as a file: a pipe, a link to nothing, a name that is not UTF-8 text.

    Attributes:
        directory: Its directory relative to the root.
        name: Its name in that directory; bytes that are not UTF-8 are written as ``\udcXX``.
        size: Bytes; 0 where it has no size.
        reason: Why it cannot be read, in words.
    """

    directory: str
    name: str
    size: int
    reason: str


class ListingFailure(NamedTuple):
    """A directory below which something may lie that the listing does not hold; ``error`` says why."""

    directory: str
    error: StorageError


Listed: TypeAlias = ListedFile | ListedDirectory | ListedOther | ListingFailure
Descend: TypeAlias = Callable[[str], bool]


def obstacle(file: ListedFile) -> str | None:
    """Return why no reader finds an S3 object by its path; None where readers find it."""
    if not file.name:
        return MARKER
    return NO_PATH if file.directory and _NO_PATH.search(file.directory) else None
