"""Storage: one interface to the local file system, to HDFS and to S3, over ``pyarrow.fs``."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
)
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.reading import as_location
from catalog_ext.metastore.storage.removal import StoreRemovals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyarrow import fs as pafs

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.uploads import PendingUpload

logger = logging.getLogger(__name__)


class Storage(StoreRemovals):
    """Reads, lists and changes locations on every store; safe to use from several threads.

    Args:
        options: How S3 and HDFS are reached, as `StorageOptions` or the settings they are parsed from.
        listing_threads: Prefixes that one listing asks for at the same time.
        target_prefixes: Prefixes that a listing looks for before it lists each of them recursively.
        timeouts: How long a request to S3 may take.
        backoff: How often and how long a throttled request waits; the S3 client's own retries come first.
        indexes: Absolute paths of SQLite indexes: their files are neither listed nor deleted.

    Raises:
        InvalidConfigurationError: The options do not fit together.
    """

    def write_file(self, location: str | Location, data: bytes = b"") -> None:
        """Put a small file at ``location``, over one that is there; its directory exists already.

        Raises:
            LocationNotFoundError: The directory or the bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)

        def write(filesystem: pafs.FileSystem) -> None:
            with filesystem.open_output_stream(place.path) as stream:
                stream.write(data)

        self.attempt(place, "write", write)

    def read_file(self, location: str | Location, limit: int) -> bytes | None:
        """Return what a small file holds, at most ``limit`` bytes of it; None where there is none: one request, or two.

        Raises:
            StorageError: The store refuses or does not answer.
            LocationNotFoundError: The bucket does not exist.
        """
        place = as_location(location)

        def read(filesystem: pafs.FileSystem) -> bytes:
            with filesystem.open_input_file(place.path) as stream:
                return bytes(stream.read(limit))

        try:
            return self.attempt(place, "read", read)
        except LocationNotFoundError as error:
            if is_missing_bucket(error):
                raise
            return None

    def create_file(self, location: str | Location, data: bytes) -> bool:
        """Put a small file where nothing is, and return whether it was: of two at once one is, where the store can.

        It appears whole. On S3 it takes one request; a store that has no conditional one is asked a second time, after
        another was there the moment before.

        Raises:
            LocationNotFoundError: The directory or the bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        if place.scheme == "s3a":
            return self.uploads_to(place).create(place, data)
        draft = place.parent.join(f".{place.name}.{secrets.token_hex(8)}")
        self.write_file(draft, data)
        try:
            self.files_of(place).rename(draft.path, place.path)
        except FileExistsError:
            self.delete_files([draft])
            return False
        except OSError as error:
            self.delete_files([draft])
            raise self.translate(error, place, "write") from error
        return True

    def replace_file(self, location: str | Location, data: bytes) -> None:
        """Put a small file at ``location``, in the place of one that is there; it appears whole. On S3 one request.

        Where a rename replaces nothing (HDFS), there is none for a moment.

        Raises:
            LocationNotFoundError: The directory or the bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        place = as_location(location)
        if place.scheme == "s3a":
            self.uploads_to(place).put(place, data)
            return
        draft = place.parent.join(f".{place.name}.{secrets.token_hex(8)}")
        self.write_file(draft, data)
        try:
            if place.scheme != "file":
                self.delete_files([place])
            self.attempt(place, "write", lambda filesystem: filesystem.move(draft.path, place.path))
        except CatalogExtError:
            self.delete_files([draft])
            raise

    def create_directory(self, location: str | Location) -> None:
        """Make sure that ``location`` is a directory, its parents too; nothing happens on S3, which has none.

        Raises:
            StorageError: The store refuses.
        """
        place = as_location(location)
        if self.store_has_directories(place):
            self.attempt(place, "create", lambda filesystem: filesystem.create_dir(place.path, recursive=True))

    def sync(self, files: Sequence[Location], root: Location) -> None:
        """Have a local disk keep files that were moved, their directories and those above, up to the root's own parent.

        What S3 has answered for is kept; HDFS keeps what enough of its data nodes have in memory, and writes it out
        later (``docs/operations.md``).

        Raises:
            StorageError: The disk refuses.
        """
        if not files or root.scheme != "file":
            return
        directories: set[Location] = set()
        for file in files:
            place = file.parent
            if root.contains(place):
                # Only then: a table whose partitions all lie elsewhere need not have a directory of its own.
                directories |= {root, root.parent}
            while place not in directories and root.contains(place):
                directories.add(place)
                place = place.parent
            directories.add(file.parent)
        try:
            self._local_files.sync([file.path for file in files], sorted(place.path for place in directories))
        except OSError as error:
            raise self.translate(error, root, "write out") from error

    def sync_directories(self, directories: Iterable[Location]) -> None:
        """Have a local disk keep what was removed from directories, which may be gone themselves; elsewhere nothing.

        Raises:
            StorageError: The disk refuses.
        """
        places = [place for place in directories if place.scheme == "file"]
        if not places:
            return
        try:
            self._local_files.sync_directories([place.path for place in places])
        except OSError as error:
            raise self.translate(error, places[0], "write out") from error

    def complete_upload(self, location: Location, upload: Upload, size: int) -> int | None:
        """Make ``location`` an object of an upload's parts: one request, and two where the upload is gone.

        It may be called again, and by several processes at once: an object of that size is an upload that was
        completed.

        Returns:
            The hash of the object's ETag (``etag_hash``); None where the store does not say it.

        Raises:
            StagedFileMissingError: The upload was aborted or its parts are gone, and the object is not there.
            LocationNotFoundError: The bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        return self.uploads_to(location).complete(location, upload, size)

    def check_writable(self, directory: Location) -> None:
        """Return if files can be written below a directory on S3: two requests, and nothing is left there.

        Raises:
            LocationNotFoundError: The bucket does not exist.
            StorageAccessDeniedError: It is read-only for us.
            StorageError: The store refuses or does not answer.
        """
        uploads, probe = self.uploads_to(directory), directory.join("_catalog_ext_probe")
        uploads.abort(probe, uploads.begin(probe))

    def abort_upload(self, location: Location, upload_id: str) -> None:
        """Drop an upload and its parts; nothing happens where it is gone.

        Raises:
            LocationNotFoundError: The bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        self.uploads_to(location).abort(location, upload_id)

    def list_uploads(self, prefix: Location) -> Iterator[PendingUpload]:
        """Yield the uploads to keys below ``prefix`` that are neither completed nor aborted; a thousand a request.

        Raises:
            LocationNotFoundError: The bucket does not exist.
            StorageError: The store refuses or does not answer.
        """
        return self.uploads_to(prefix).pending(prefix)
