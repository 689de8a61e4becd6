"""Connects to the stores, and reads from them: look-ups, listings of one directory, opening files for reading."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location, entry_of
from catalog_ext.metastore.storage.failures import is_throttled, location_not_found, no_credentials, translate
from catalog_ext.metastore.storage.hdfs import Hdfs
from catalog_ext.metastore.storage.local.files import LocalFiles, OwnFiles
from catalog_ext.metastore.storage.local.listing import list_local_directory
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.options import S3Options, StorageOptions
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.s3.client import (
    UPLOAD_REQUEST_S,
    Timeouts,
    chain_has_credentials,
    connect,
    connect_boto,
    knows_region,
)
from catalog_ext.metastore.storage.s3.keys import Keys
from catalog_ext.metastore.storage.s3.lookup import find_objects, list_s3_directory
from catalog_ext.metastore.storage.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from botocore.client import BaseClient

T = TypeVar("T")

_S3Key: TypeAlias = S3Options | tuple[S3Options, str]


DEFAULT_LISTING_THREADS = 16
DEFAULT_TARGET_PREFIXES = 64


class StoreReads:
    """Connects to the stores, reads and lists locations; callers use the subclass ``Storage``.

    Every method that calls a store raises ``StorageError`` if the store refuses or does not answer.
    """

    def __init__(
        self, options: StorageOptions | Mapping[str, object] | None = None, *,
        listing_threads: int = DEFAULT_LISTING_THREADS, target_prefixes: int = DEFAULT_TARGET_PREFIXES,
        timeouts: Timeouts | None = None, backoff: Backoff | None = None, indexes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self.options = options if isinstance(options, StorageOptions) else StorageOptions.parse(options)
        self.backoff = backoff or Backoff()
        self.own_files = OwnFiles(indexes)
        self.listing_threads = max(1, listing_threads)
        self.target_prefixes = max(1, target_prefixes)
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._local = pafs.LocalFileSystem()
        self._local_files = LocalFiles()
        self._hdfs: dict[str, Hdfs] = {}
        self._s3: dict[_S3Key, pafs.FileSystem] = {}
        self._uploads: dict[_S3Key, Uploads] = {}
        self._keys: dict[_S3Key, Keys] = {}

    def filesystem(self, location: Location) -> pafs.FileSystem:
        """Return the pyarrow file system of ``location``; its methods take ``location.path``.

        Raises:
            StorageUnavailableError: The region of a bucket on Amazon S3 cannot be determined.
            EnvironmentSetupError: The client of HDFS is not installed.
        """
        if location.scheme == "file":
            return self._local
        if location.scheme == "hdfs":
            return pafs.PyFileSystem(self.hdfs(location))
        return self._client_of(location, self._s3, self._connect)

    def hdfs(self, location: Location) -> Hdfs:
        """Return the HDFS of ``location``; it connects at its first use.

        Raises:
            EnvironmentSetupError: The client of HDFS is not installed.
            StorageError: The settings do not describe the name service.
        """
        with self._lock:
            if location.bucket not in self._hdfs:
                try:
                    self._hdfs[location.bucket] = Hdfs(location.bucket, self.options.hdfs)
                except OSError as error:
                    raise self.translate(error, location, "connect to") from error
            return self._hdfs[location.bucket]

    def attempt(
        self, location: Location, action: str, call: Callable[[pafs.FileSystem], T], *,
        stop: threading.Event | None = None,
    ) -> T:  # fmt: skip
        """Run ``call`` on the location's file system and return its result; retry it while the store is busy.

        Args:
            location: The location, which selects the file system and is named in messages.
            action: A verb phrase that follows "cannot" in messages.
            call: Gets the file system; called again if the store is busy.
            stop: Ends the wait between two attempts when it is set.

        Raises:
            LocationNotFoundError: The location or its bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        filesystem = self.filesystem(location)

        def is_busy(error: Exception) -> bool:
            return location.scheme == "s3a" and is_throttled(error)

        try:
            return self.backoff.attempt(lambda: call(filesystem), is_busy, stop=stop)
        except OSError as error:
            raise self.translate(error, location, action) from error

    def translate(self, error: OSError, location: Location, action: str) -> CatalogExtError:
        """Return this project's error for a store's error at ``location``."""
        endpoint = self.options.for_bucket(location.bucket).endpoint if location.scheme == "s3a" else None
        failure = translate(error, location, action, endpoint=endpoint)
        if isinstance(failure, StorageAccessDeniedError) and self._has_no_credentials(location):
            return no_credentials(location, action, endpoint)
        return failure

    def _has_no_credentials(self, location: Location) -> bool:
        """Return whether requests to a location on S3 must be signed but no credentials are configured for it."""
        if location.scheme != "s3a":
            return False
        options = self.options.for_bucket(location.bucket)
        return not (options.anonymous or options.access_key or chain_has_credentials())

    def files_of(self, location: Location) -> LocalFiles | Hdfs:
        """Return the functions for single files of a store that has directories."""
        return self.hdfs(location) if location.scheme == "hdfs" else self._local_files

    def uploads_to(self, location: Location) -> Uploads:
        """Return the ``Uploads`` object for the bucket of a location on S3.

        Raises:
            StorageError: The location is on another store.
            StorageUnavailableError: The region of the bucket cannot be determined.
        """
        if location.scheme != "s3a":
            raise StorageError(f"{shown(str(location))} is not on S3, so that there are no uploads to it.")

        def make(options: S3Options, bucket: str) -> Uploads:
            client = self._connect_boto(options, bucket, UPLOAD_REQUEST_S)
            return Uploads(client, self.backoff, options.endpoint)

        return self._client_of(location, self._uploads, make)

    def keys_of(self, location: Location) -> Keys:
        """Return the ``Keys`` object, which lists keys, for the bucket of a location on S3.

        Raises:
            StorageUnavailableError: The region of the bucket cannot be determined.
        """

        def make(options: S3Options, bucket: str) -> Keys:
            return Keys(self._connect_boto(options, bucket), self.backoff, options.endpoint)

        return self._client_of(location, self._keys, make)

    def _client_of(self, location: Location, made: dict[_S3Key, T], make: Callable[[S3Options, str], T]) -> T:
        """Return the client for a location on S3, creating it at the first call."""
        options = self.options.for_bucket(location.bucket)
        # If no region is configured, each bucket may be in another region, so each bucket needs its own client.
        key = options if knows_region(options) else (options, location.bucket)
        with self._lock:
            if key not in made:
                try:
                    made[key] = make(options, location.bucket)
                except OSError as error:
                    raise self.translate(error, location, "find the region of") from error
            return made[key]

    def _connect_boto(self, options: S3Options, bucket: str, read_s: float = 0) -> BaseClient:
        return connect_boto(options, bucket, self._timeouts, max(16, self.listing_threads), read_s)

    def _connect(self, options: S3Options, bucket: str) -> pafs.FileSystem:
        # pyarrow's pool of I/O threads limits parallel listings to 8 by default. Enlarge the pool.
        if pa.io_thread_count() < self.listing_threads:
            pa.set_io_thread_count(self.listing_threads)
        return connect(options, bucket, self._timeouts)

    def store_has_directories(self, location: str | Location) -> bool:
        """Return whether the store has directories that exist without files (local and HDFS: yes, S3: no)."""
        return as_location(location).scheme != "s3a"

    def stat(self, location: str | Location) -> Entry | None:
        """Return the entry at ``location``; ``None`` if nothing exists there."""
        place = as_location(location)
        try:
            info = self.attempt(place, "look at", lambda filesystem: filesystem.get_file_info(place.path))
        except LocationNotFoundError:
            # No file can have a name that is too long for the store, so nothing exists there.
            return None
        return entry_of(info, place)

    def stat_many(self, locations: Sequence[Location]) -> list[Entry | None]:
        """Return the entry at each location, looked up in parallel; ``None`` for a location that does not exist."""
        by_store: dict[tuple[str, str], list[Location]] = {}
        for location in locations:
            by_store.setdefault((location.scheme, location.bucket), []).append(location)
        found: dict[Location, Entry | None] = {}
        for places in by_store.values():
            found.update(zip(places, self._stat_together(places), strict=True))
        return [found[location] for location in locations]

    def identify_many(self, locations: Sequence[Location]) -> list[Entry | None]:
        """Return the entries as ``stat_many`` does, with ETags for objects on S3.

        On S3 it uses listings: eight requests for 1,000 files of one directory, and at most one request per file.
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
        """Check that ``location`` is a directory that can be listed.

        Raises:
            LocationNotFoundError: The location or its bucket does not exist, or it is a file.
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
        """Return the entries directly in ``location``, in no particular order.

        Raises:
            LocationNotFoundError: The location does not exist.
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
        """Open the file at ``location`` for random access; the caller closes it.

        Raises:
            LocationNotFoundError: The file does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        return self.attempt(place, "read", lambda filesystem: filesystem.open_input_file(place.path))

    def _stat_together(self, places: Sequence[Location]) -> list[Entry | None]:
        if places[0].scheme != "file":
            # Look up in parallel: on this store pyarrow would send one request after the other.
            return in_parallel(self.stat, places, self.listing_threads)
        paths = [place.path for place in places]
        try:
            infos = self.attempt(places[0], "look at", lambda filesystem: filesystem.get_file_info(paths))
        except LocationNotFoundError:
            # If one name is too long for the store, the whole call fails. Look up each file alone, since the others may
            # exist.
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
    """Return the location, parsing it if it is text."""
    return location if isinstance(location, Location) else Location.parse(location)
