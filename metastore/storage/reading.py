"""What lies at a location, on every store: look-ups, listings of one directory, files opened for reading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import LocationNotFoundError
from catalog_ext.metastore.storage.connections import StoreConnections
from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location, entry_of
from catalog_ext.metastore.storage.failures import location_not_found
from catalog_ext.metastore.storage.local.files import OwnFiles
from catalog_ext.metastore.storage.local.listing import list_local_directory
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.s3.lookup import find_objects, list_s3_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.runtime.retry import Backoff
    from catalog_ext.metastore.storage.options import StorageOptions
    from catalog_ext.metastore.storage.s3.client import Timeouts

DEFAULT_LISTING_THREADS = 16
DEFAULT_TARGET_PREFIXES = 64


class StoreReads(StoreConnections):
    """Reads and lists locations; ``Storage`` is the class that callers use."""

    def __init__(
        self, options: StorageOptions | Mapping[str, object] | None = None, *,
        listing_threads: int = DEFAULT_LISTING_THREADS, target_prefixes: int = DEFAULT_TARGET_PREFIXES,
        timeouts: Timeouts | None = None, backoff: Backoff | None = None, indexes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.own_files = OwnFiles(indexes)
        self.listing_threads = max(1, listing_threads)
        self.target_prefixes = max(1, target_prefixes)
        super().__init__(options, threads=self.listing_threads, timeouts=timeouts, backoff=backoff)

    def store_has_directories(self, location: str | Location) -> bool:
        """Return whether the store keeps directories that hold nothing (local and HDFS: yes, S3: no)."""
        return as_location(location).scheme != "s3a"

    def stat(self, location: str | Location) -> Entry | None:
        """Return what lies at ``location``; ``None`` where nothing does.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        try:
            info = self.attempt(place, "look at", lambda filesystem: filesystem.get_file_info(place.path))
        except LocationNotFoundError:
            # A name that is too long for the store.
            return None
        return entry_of(info, place)

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

    def identify_many(self, locations: Sequence[Location]) -> list[Entry | None]:
        """Return what lies at each location as ``stat_many`` does, of objects on S3 with their ETags.

        S3 is asked by listings: eight requests for 1,000 files of one directory, a request a file at most.

        Raises:
            StorageError: The store refuses or does not answer.
        """
        by_bucket: dict[str, list[Location]] = {}
        for location in locations:
            if location.scheme == "s3a":
                by_bucket.setdefault(location.bucket, []).append(location)
        found: dict[Location, Entry | None] = {}
        for objects in by_bucket.values():
            found.update(find_objects(self.keys_of(objects[0]), objects, self.listing_threads))
        others = [location for location in locations if location.scheme != "s3a"]
        found.update(zip(others, self.stat_many(others), strict=True))
        return [found.get(location) for location in locations]

    def check_directory(self, location: str | Location) -> None:
        """Return if ``location`` is a directory that can be listed.

        Raises:
            LocationNotFoundError: Nothing lies there, its bucket does not exist, or it is a file.
            StorageAccessDeniedError: The credentials or the permissions do not suffice.
            StorageUnavailableError: The store does not answer.
        """
        place = as_location(location)
        entry = self.stat(place)
        if entry is None:
            self._raise_missing(place)
        elif entry.kind is EntryKind.FILE:
            raise LocationNotFoundError(
                f"The location {shown(str(place))} is a file. Give the directory that holds the table's partitions.",
                {"location": str(place)},
            )
        elif self.store_has_directories(place):
            self._check_readable(place)

    def list_directory(self, location: str | Location) -> list[Entry]:
        """Return what lies directly in ``location``, in no particular order.

        Raises:
            LocationNotFoundError: It does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        if place.scheme == "file":
            return list_local_directory(place, self.own_files)
        if place.scheme == "s3a":
            return list_s3_directory(self.keys_of(place), place)
        selector = pafs.FileSelector(place.path, recursive=False)
        infos = self.attempt(place, "list", lambda filesystem: filesystem.get_file_info(selector))
        entries = (entry_of(info, child_location(place, info.base_name)) for info in infos if info.path != place.path)
        return [entry for entry in entries if entry is not None]

    def open_input_file(self, location: str | Location) -> pa.NativeFile:
        """Return the file at ``location``, open for reading at any position; close it.

        Raises:
            LocationNotFoundError: There is no such file.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        return self.attempt(place, "read", lambda filesystem: filesystem.open_input_file(place.path))

    def _stat_together(self, places: Sequence[Location]) -> list[Entry | None]:
        if places[0].scheme != "file":
            # pyarrow would ask for one after the other.
            return in_parallel(self.stat, places, self.listing_threads)
        paths = [place.path for place in places]
        try:
            infos = self.attempt(places[0], "look at", lambda filesystem: filesystem.get_file_info(paths))
        except LocationNotFoundError:
            # One of them has a name that is too long for the store; the others may be there.
            return [self.stat(place) for place in places]
        return [entry_of(info, place) for info, place in zip(infos, places, strict=True)]

    def _raise_missing(self, place: Location) -> None:
        if place.scheme == "s3a":
            # A HEAD request does not distinguish a missing bucket from a missing key; a listing does.
            self.list_directory(Location("s3a", place.bucket, place.key))
        raise location_not_found(place)

    def _check_readable(self, place: Location) -> None:
        try:
            self.files_of(place).check_readable(place.path)
        except OSError as error:
            raise self.translate(error, place, "list") from error


def as_location(location: str | Location) -> Location:
    """Return the location, parsed where it is text."""
    return location if isinstance(location, Location) else Location.parse(location)
