"""Storage: one interface to the local file system and to S3, over ``pyarrow.fs``."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from metastore.errors import CatalogExtError, LocationNotFoundError, StorageError
from metastore.storage.failures import is_throttled, location_not_found, translate
from metastore.storage.locations import Location, shown
from metastore.storage.options import S3Options, StorageOptions
from metastore.storage.retry import Backoff
from metastore.storage.s3_client import Timeouts, connect, knows_region

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

DEFAULT_LISTING_THREADS = 16
DEFAULT_TARGET_PREFIXES = 64


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
    """

    location: Location
    kind: EntryKind
    size: int
    modified_ms: int


class Storage:
    """Reads, lists and changes locations on every store; safe to use from several threads.

    Args:
        options: How S3 is reached, as `StorageOptions` or the settings they are parsed from.
        listing_threads: Prefixes that one listing asks for at the same time.
        target_prefixes: Prefixes that a listing looks for before it lists each of them recursively.
        timeouts: How long a request to S3 may take.
        backoff: How often and how long a throttled request waits; the S3 client's own retries come first.

    Raises:
        InvalidConfigurationError: The options do not fit together.
    """

    def __init__(
        self,
        options: StorageOptions | Mapping[str, Any] | None = None,
        *,
        listing_threads: int = DEFAULT_LISTING_THREADS,
        target_prefixes: int = DEFAULT_TARGET_PREFIXES,
        timeouts: Timeouts | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.options = options if isinstance(options, StorageOptions) else StorageOptions.parse(options)
        self.listing_threads = max(1, listing_threads)
        self.target_prefixes = max(1, target_prefixes)
        self.backoff = backoff or Backoff()
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._local = pafs.LocalFileSystem()
        self._s3: dict[S3Options | tuple[S3Options, str], pafs.FileSystem] = {}

    def filesystem(self, location: Location) -> pafs.FileSystem:
        """Return the pyarrow file system that ``location`` lies on; it takes ``location.path``.

        Raises:
            StorageUnavailableError: The region of a bucket on Amazon S3 cannot be found out.
        """
        if location.scheme == "file":
            return self._local
        options = self.options.for_bucket(location.bucket)
        # Without a region each bucket may lie in another one, so the client belongs to the bucket.
        key = options if knows_region(options) else (options, location.bucket)
        with self._lock:
            if key not in self._s3:
                self._s3[key] = self._connect(options, location)
            return self._s3[key]

    def store_has_directories(self, location: str | Location) -> bool:
        """Return whether the store keeps directories that hold nothing (local: yes, S3: no)."""
        return _location(location).scheme == "file"

    def stat(self, location: str | Location) -> Entry | None:
        """Return what lies at ``location``; ``None`` where nothing does.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        place = _location(location)
        try:
            info = self.attempt(place, "look at", lambda filesystem: filesystem.get_file_info(place.path))
        except LocationNotFoundError:
            # A name that is too long for the store.
            return None
        return _entry(info, place)

    def stat_many(self, locations: Sequence[Location]) -> list[Entry | None]:
        """Return what lies at each location, asked for in parallel; ``None`` where nothing does.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        by_store: dict[tuple[str, str], list[Location]] = {}
        for location in locations:
            by_store.setdefault((location.scheme, location.bucket), []).append(location)
        found: dict[Location, Entry | None] = {}
        for places in by_store.values():
            found.update(zip(places, self._stat_together(places), strict=True))
        return [found[location] for location in locations]

    def is_directory(self, location: str | Location) -> bool:
        """Return whether a directory, or a prefix with keys, lies at ``location``."""
        entry = self.stat(location)
        return entry is not None and entry.kind is EntryKind.DIRECTORY

    def check_directory(self, location: str | Location) -> None:
        """Return if ``location`` is a directory that can be listed.

        Raises:
            LocationNotFoundError: Nothing lies there, its bucket does not exist, or it is a file.
            StorageAccessDeniedError: The credentials or the permissions do not suffice.
            StorageUnavailableError: The store does not answer.
        """
        place = _location(location)
        entry = self.stat(place)
        if entry is None:
            self._raise_missing(place)
        elif entry.kind is EntryKind.FILE:
            raise LocationNotFoundError(
                f"The location {shown(str(place))} is a file. Give the directory that holds the table's partitions.",
                {"location": str(place)},
            )
        elif place.scheme == "file":
            self._check_readable(place)

    def list_directory(self, location: str | Location) -> list[Entry]:
        """Return what lies directly in ``location``, in no particular order.

        Raises:
            LocationNotFoundError: It does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = _location(location)
        selector = pafs.FileSelector(place.path, recursive=False)
        infos = self.attempt(place, "list", lambda filesystem: filesystem.get_file_info(selector))
        entries = (_entry(info, _child(place, info.base_name)) for info in infos if info.path != place.path)
        return [entry for entry in entries if entry is not None]

    def open_input_file(self, location: str | Location) -> pa.NativeFile:
        """Return the file at ``location``, open for reading at any position; close it.

        Raises:
            LocationNotFoundError: There is no such file.
            StorageError: The store refuses or does not answer.
        """
        place = _location(location)
        return self.attempt(place, "read", lambda filesystem: filesystem.open_input_file(place.path))

    def write_file(self, location: str | Location, data: bytes = b"") -> None:
        """Put a small file at ``location``, over one that is there; its directory exists already.

        Raises:
            LocationNotFoundError: The directory or the bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = _location(location)

        def write(filesystem: pafs.FileSystem) -> None:
            with filesystem.open_output_stream(place.path) as stream:
                stream.write(data)

        self.attempt(place, "write", write)

    def create_directory(self, location: str | Location) -> None:
        """Make sure that ``location`` is a directory, its parents too; nothing happens on S3, which has none.

        Raises:
            StorageError: The store refuses.
        """
        place = _location(location)
        if place.scheme == "file":
            self.attempt(place, "create", lambda filesystem: filesystem.create_dir(place.path, recursive=True))

    def delete_tree(self, location: str | Location) -> None:
        """Remove ``location`` and everything below it; nothing happens where nothing lies.

        Raises:
            StorageError: The location is a bucket or the file system's root, or the store refuses.
        """
        place = _location(location)
        if not place.key:
            raise StorageError(f"The whole of {shown(str(place))} is never deleted. Give a directory in it.")
        if place.scheme == "file" and os.path.islink(place.path):
            # What a link points to is not the table's to delete.
            self.attempt(place, "delete", lambda _: os.unlink(place.path))
            return
        entry = self.stat(place)
        if entry is None:
            return
        if entry.kind is EntryKind.FILE:
            self.attempt(place, "delete", lambda filesystem: filesystem.delete_file(place.path))
        else:
            self.attempt(place, "delete", lambda filesystem: filesystem.delete_dir(place.path))

    def attempt(
        self,
        location: Location,
        action: str,
        call: Callable[[pafs.FileSystem], T],
        *,
        stop: threading.Event | None = None,
    ) -> T:
        """Return what ``call`` returns on the location's file system; a busy store is asked again.

        Args:
            location: The place, for the choice of the file system and for messages.
            action: What is done, as it follows "cannot".
            call: Takes the file system; called again if the store is busy.
            stop: Ends the waiting between two attempts when it is set.

        Raises:
            LocationNotFoundError: The location or its bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        filesystem = self.filesystem(location)
        delays_s = self.backoff.delays_s()
        while True:
            try:
                return call(filesystem)
            except OSError as error:
                delay_s = next(delays_s, None) if location.scheme != "file" and is_throttled(error) else None
                if delay_s is None or (stop is not None and stop.is_set()):
                    raise self.translate(error, location, action) from error
            (stop or threading.Event()).wait(delay_s)

    def translate(self, error: OSError, location: Location, action: str) -> CatalogExtError:
        """Return this project's error for what the store raised at ``location``."""
        endpoint = self.options.for_bucket(location.bucket).endpoint if location.scheme == "s3a" else None
        return translate(error, location, action, endpoint=endpoint)

    def _stat_together(self, places: Sequence[Location]) -> list[Entry | None]:
        paths = [place.path for place in places]
        try:
            infos = self.attempt(places[0], "look at", lambda filesystem: filesystem.get_file_info(paths))
        except LocationNotFoundError:
            # One of them has a name that is too long for the store; the others may be there.
            return [self.stat(place) for place in places]
        return [_entry(info, place) for info, place in zip(infos, places, strict=True)]

    def _connect(self, options: S3Options, location: Location) -> pafs.FileSystem:
        # Parallel listings are bound by pyarrow's pool of I/O threads, whose default is 8.
        if pa.io_thread_count() < self.listing_threads:
            pa.set_io_thread_count(self.listing_threads)
        try:
            return connect(options, location.bucket, self._timeouts)
        except OSError as error:
            raise self.translate(error, location, "find the region of") from error

    def _raise_missing(self, place: Location) -> None:
        if place.scheme == "s3a":
            # A HEAD request cannot tell a missing bucket from a missing key; a listing can.
            self.list_directory(Location("s3a", place.bucket, place.key))
        raise location_not_found(place)

    def _check_readable(self, place: Location) -> None:
        try:
            with os.scandir(place.path):
                return
        except OSError as error:
            raise self.translate(error, place, "list") from error


def _location(location: str | Location) -> Location:
    return location if isinstance(location, Location) else Location.parse(location)


def _child(parent: Location, name: str) -> Location:
    # Names on the store are taken as they are: ``join`` would refuse or drop what a hostile key holds.
    return Location(parent.scheme, parent.bucket, f"{parent.key}/{name}" if parent.key else name)


def _entry(info: pafs.FileInfo, location: Location) -> Entry | None:
    if info.type == pafs.FileType.File:
        return Entry(location, EntryKind.FILE, info.size or 0, (info.mtime_ns or 0) // 1_000_000)
    if info.type == pafs.FileType.Directory:
        return Entry(location, EntryKind.DIRECTORY, 0, (info.mtime_ns or 0) // 1_000_000)
    # A socket or a device is neither; for a table nothing lies there.
    return None
