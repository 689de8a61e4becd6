"""Connections to the stores: one of each kind, made when it is first asked for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import CatalogExtError, StorageAccessDeniedError, StorageError
from catalog_ext.metastore.runtime.retry import Backoff
from catalog_ext.metastore.storage.failures import is_throttled, no_credentials, translate
from catalog_ext.metastore.storage.hdfs import Hdfs
from catalog_ext.metastore.storage.local.files import LocalFiles
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.options import S3Options, StorageOptions
from catalog_ext.metastore.storage.s3.client import (
    UPLOAD_REQUEST_S,
    Timeouts,
    chain_has_credentials,
    connect,
    connect_boto,
    knows_region,
)
from catalog_ext.metastore.storage.s3.keys import Keys
from catalog_ext.metastore.storage.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from botocore.client import BaseClient

T = TypeVar("T")

_S3Key: TypeAlias = S3Options | tuple[S3Options, str]


class StoreConnections:
    """Connects to the local file system, to HDFS and to S3; safe to use from several threads.

    Args:
        options: How S3 and HDFS are reached, as `StorageOptions` or the settings they are parsed from.
        threads: Requests that may be sent at the same time.
        timeouts: How long a request to S3 may take.
        backoff: How often and how long a throttled request waits; the S3 client's own retries come first.

    Raises:
        InvalidConfigurationError: The options do not fit together.
    """

    def __init__(
        self, options: StorageOptions | Mapping[str, object] | None, *, threads: int, timeouts: Timeouts | None,
        backoff: Backoff | None,
    ) -> None:  # fmt: skip
        self.options = options if isinstance(options, StorageOptions) else StorageOptions.parse(options)
        self.backoff = backoff or Backoff()
        self._threads = threads
        self._timeouts = timeouts or Timeouts()
        self._lock = threading.Lock()
        self._local = pafs.LocalFileSystem()
        self._local_files = LocalFiles()
        self._hdfs: dict[str, Hdfs] = {}
        self._s3: dict[_S3Key, pafs.FileSystem] = {}
        self._uploads: dict[_S3Key, Uploads] = {}
        self._keys: dict[_S3Key, Keys] = {}

    def filesystem(self, location: Location) -> pafs.FileSystem:
        """Return the pyarrow file system that ``location`` lies on; it takes ``location.path``.

        Raises:
            StorageUnavailableError: The region of a bucket on Amazon S3 cannot be found out.
            EnvironmentSetupError: The client of HDFS is not installed.
        """
        if location.scheme == "file":
            return self._local
        if location.scheme == "hdfs":
            return pafs.PyFileSystem(self.hdfs(location))
        options = self.options.for_bucket(location.bucket)
        key = _s3_key(options, location)
        with self._lock:
            if key not in self._s3:
                self._s3[key] = self._connect(options, location)
            return self._s3[key]

    def hdfs(self, location: Location) -> Hdfs:
        """Return the HDFS that ``location`` lies on; it does not connect before it is used.

        Raises:
            EnvironmentSetupError: Its client is not installed.
            StorageError: The name service is not described by the settings.
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

        def is_busy(error: Exception) -> bool:
            return location.scheme == "s3a" and is_throttled(error)

        try:
            return self.backoff.attempt(lambda: call(filesystem), is_busy, stop=stop)
        except OSError as error:
            raise self.translate(error, location, action) from error

    def translate(self, error: OSError, location: Location, action: str) -> CatalogExtError:
        """Return this project's error for what the store raised at ``location``."""
        endpoint = self.options.for_bucket(location.bucket).endpoint if location.scheme == "s3a" else None
        failure = translate(error, location, action, endpoint=endpoint)
        if isinstance(failure, StorageAccessDeniedError) and self._has_no_credentials(location):
            return no_credentials(location, action, endpoint)
        return failure

    def _has_no_credentials(self, location: Location) -> bool:
        """Return whether requests to a location on S3 should be signed, and nothing gives credentials for it."""
        if location.scheme != "s3a":
            return False
        options = self.options.for_bucket(location.bucket)
        return not (options.anonymous or options.access_key or chain_has_credentials())

    def files_of(self, location: Location) -> LocalFiles | Hdfs:
        """Return the calls on single files of a store that has directories."""
        return self.hdfs(location) if location.scheme == "hdfs" else self._local_files

    def uploads_to(self, location: Location) -> Uploads:
        """Return the uploads to the bucket of a location on S3.

        Raises:
            StorageError: The location is on another store.
            StorageUnavailableError: The region of the bucket cannot be found out.
        """
        if location.scheme != "s3a":
            raise StorageError(f"{shown(str(location))} is not on S3, so that there are no uploads to it.")
        options = self.options.for_bucket(location.bucket)
        key = _s3_key(options, location)
        with self._lock:
            if key not in self._uploads:
                client = self._connect_boto(options, location, read_s=UPLOAD_REQUEST_S)
                self._uploads[key] = Uploads(client, self.backoff, options.endpoint)
            return self._uploads[key]

    def keys_of(self, location: Location) -> Keys:
        """Return the keys of the bucket of a location on S3.

        Raises:
            StorageUnavailableError: The region of the bucket cannot be found out.
        """
        options = self.options.for_bucket(location.bucket)
        key = _s3_key(options, location)
        with self._lock:
            if key not in self._keys:
                self._keys[key] = Keys(self._connect_boto(options, location), self.backoff, options.endpoint)
            return self._keys[key]

    def _connect_boto(self, options: S3Options, location: Location, *, read_s: float = 0) -> BaseClient:
        try:
            return connect_boto(options, location.bucket, self._timeouts, max(16, self._threads), read_s)
        except OSError as error:
            raise self.translate(error, location, "find the region of") from error

    def _connect(self, options: S3Options, location: Location) -> pafs.FileSystem:
        # Parallel listings are bound by pyarrow's pool of I/O threads, whose default is 8.
        if pa.io_thread_count() < self._threads:
            pa.set_io_thread_count(self._threads)
        try:
            return connect(options, location.bucket, self._timeouts)
        except OSError as error:
            raise self.translate(error, location, "find the region of") from error


def _s3_key(options: S3Options, location: Location) -> _S3Key:
    # Without a region each bucket may lie in another one, so the client belongs to the bucket.
    return options if knows_region(options) else (options, location.bucket)
