"""What lies at a location: files and directories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyarrow import fs as pafs

from catalog_ext.metastore.storage.locations import Location


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
    # Names on the store are taken as they are: ``join`` would refuse or drop what a hostile key holds.
    return Location(parent.scheme, parent.bucket, f"{parent.key}/{name}" if parent.key else name)


def entry_of(info: pafs.FileInfo, location: Location) -> Entry | None:
    """Return what pyarrow says of a location; None where nothing lies there."""
    if info.type == pafs.FileType.File:
        return Entry(location, EntryKind.FILE, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
    if info.type == pafs.FileType.Directory:
        return Entry(location, EntryKind.DIRECTORY, 0, (info.mtime_ns or 0) // 1_000_000)
    # A socket or a device is neither; for a table nothing lies there.
    return None
