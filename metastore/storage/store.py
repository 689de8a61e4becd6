"""Storage: one interface to the local file system, to HDFS and to S3, over ``pyarrow.fs``."""

from __future__ import annotations

import errno
import logging
import os
import secrets
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs as pafs

from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageError,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.connections import StoreConnections
from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location, entry_of
from catalog_ext.metastore.storage.failures import is_missing_bucket, location_not_found
from catalog_ext.metastore.storage.local.listing import list_local_directory
from catalog_ext.metastore.storage.local.own_files import OwnFiles
from catalog_ext.metastore.storage.locations import Location, shown
from catalog_ext.metastore.storage.parallel import in_parallel, raise_together
from catalog_ext.metastore.storage.s3.deletion import KEYS_PER_DELETE
from catalog_ext.metastore.storage.s3.directory import list_s3_directory
from catalog_ext.metastore.storage.s3.lookup import find_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.runtime.retry import Backoff
    from catalog_ext.metastore.storage.options import StorageOptions
    from catalog_ext.metastore.storage.s3.client import Timeouts
    from catalog_ext.metastore.storage.uploads import PendingUpload

logger = logging.getLogger(__name__)

DEFAULT_LISTING_THREADS = 16
DEFAULT_TARGET_PREFIXES = 64

_FILES_PER_TASK = 50
_NO_OTHER_NAME = frozenset({errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM})
_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class Storage(StoreConnections):
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

    def __init__(
        self,
        options: StorageOptions | Mapping[str, object] | None = None,
        *,
        listing_threads: int = DEFAULT_LISTING_THREADS,
        target_prefixes: int = DEFAULT_TARGET_PREFIXES,
        timeouts: Timeouts | None = None,
        backoff: Backoff | None = None,
        indexes: Iterable[str] = (),
    ) -> None:
        self.own_files = OwnFiles(indexes)
        self.listing_threads = max(1, listing_threads)
        self.target_prefixes = max(1, target_prefixes)
        super().__init__(options, threads=self.listing_threads, timeouts=timeouts, backoff=backoff)

    def store_has_directories(self, location: str | Location) -> bool:
        """Return whether the store keeps directories that hold nothing (local and HDFS: yes, S3: no)."""
        return _location(location).scheme != "s3a"

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
        place = _location(location)
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
        place = _location(location)
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

    def read_file(self, location: str | Location, limit: int) -> bytes | None:
        """Return what a small file holds, at most ``limit`` bytes of it; None where there is none: one request, or two.

        Raises:
            StorageError: The store refuses or does not answer.
            LocationNotFoundError: The bucket does not exist.
        """
        place = _location(location)

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
        place = _location(location)
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
        place = _location(location)
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
        place = _location(location)
        if self.store_has_directories(place):
            self.attempt(place, "create", lambda filesystem: filesystem.create_dir(place.path, recursive=True))

    def delete_tree(self, location: str | Location) -> None:
        """Remove ``location`` and everything below it; nothing happens where nothing lies.

        Raises:
            StorageError: The location is a bucket or the file system's root, or the store refuses.
        """
        place = _location(location)
        if not place.key:
            raise StorageError(f"The whole of {shown(str(place))} is never deleted. Give a directory in it.")
        self._require_no_index(place)
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

    def rename_directory(self, source: Location, target: Location) -> bool:
        """Give a directory, or a link to one, another name on its store, in one step.

        Returns:
            Whether nothing has the old name now; False where it cannot be done, as on S3, of a mount point, and where
            only the directory itself may be written.

        Raises:
            StorageError: The store refuses.
        """
        if not self.store_has_directories(source):
            return False
        self._require_no_index(source)
        try:
            self.files_of(source).rename(source.path, target.path)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno in _NO_OTHER_NAME:
                return False
            raise self.translate(error, source, "delete") from error
        return True

    def delete_files(self, locations: Iterable[Location]) -> None:
        """Remove files in parallel; one that is gone is fine, and one that cannot be removed does not stop the others.

        Raises:
            StorageError: Some are still there; the message names how many, and the first with its reason.
            LocationNotFoundError: A bucket does not exist.
        """
        together: dict[tuple[str, str], list[Location]] = {}
        for location in locations:
            together.setdefault((location.scheme, location.bucket), []).append(location)
        batches = [
            batch
            for (scheme, _), places in together.items()
            for batch in batched(places, KEYS_PER_DELETE if scheme == "s3a" else _FILES_PER_TASK)
        ]
        kept = [error for errors in in_parallel(self._delete_batch, batches, self.listing_threads) for error in errors]
        raise_together(kept, "file could not be deleted", "files could not be deleted")

    def remove_empty_directories(self, directories: Iterable[Location], upto: Location) -> None:
        """Remove directories that are empty, and then their parents that are, up to but not including ``upto``.

        Nothing happens on S3, which has none, and to what does not lie below ``upto``. A file that appears in between
        keeps its directory.

        Raises:
            StorageError: The store refuses, or does not answer.
        """
        if not self.store_has_directories(upto):
            return
        left = {place for place in directories if place != upto and upto.contains(place)}
        while left:
            # A whole level at a time, the deepest first, so that a parent is asked once, when its children are gone.
            deepest = max(place.key.count("/") for place in left)
            level = sorted(place for place in left if place.key.count("/") == deepest)
            removed = in_parallel(self._remove_if_empty, level, self.listing_threads)
            parents = {place.parent for place, gone in zip(level, removed, strict=True) if gone}
            left = left.difference(level) | (parents - {upto})

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

    def _delete_batch(self, batch: Sequence[Location]) -> list[CatalogExtError]:
        if batch[0].scheme == "s3a":
            return self.uploads_to(batch[0]).delete(batch)
        return [error for location in batch if (error := self._delete_file(location)) is not None]

    def index_within(self, location: str | Location) -> str | None:
        """Return the path of an index that lies in a directory or below it; None where none does."""
        place = _location(location)
        return self.own_files.within(place.path) if place.scheme == "file" else None

    def _require_no_index(self, directory: Location) -> None:
        index = self.index_within(directory)
        if index is not None:
            raise StorageError(
                f"{shown(str(directory))} is not deleted: the index {index} lies in it. Move the index to another "
                "folder, and name it there.",
                {"location": str(directory), "index": index},
            )

    def _delete_file(self, location: Location) -> CatalogExtError | None:
        if location.scheme == "file" and self.own_files.has(location.path):
            logger.warning("%s is a file of the index, and stays. Repair the tables in whose folder it lies.", location)
            return None
        try:
            self.files_of(location).delete_file(location.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # No file has a name that no file can have.
            return None if error.errno == errno.ENAMETOOLONG else self.translate(error, location, "delete")
        return None

    def _remove_if_empty(self, directory: Location) -> bool:
        """Return whether ``directory`` is not there now."""
        try:
            self.files_of(directory).remove_directory(directory.path)
        except FileNotFoundError:
            return True
        except NotADirectoryError:
            return False
        except OSError as error:
            if error.errno in _NOT_EMPTY:
                return False
            if error.errno == errno.ENAMETOOLONG:
                return True
            raise self.translate(error, directory, "remove the empty directory") from error
        return True

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
            # A HEAD request cannot tell a missing bucket from a missing key; a listing can.
            self.list_directory(Location("s3a", place.bucket, place.key))
        raise location_not_found(place)

    def _check_readable(self, place: Location) -> None:
        try:
            self.files_of(place).check_readable(place.path)
        except OSError as error:
            raise self.translate(error, place, "list") from error


def _location(location: str | Location) -> Location:
    return location if isinstance(location, Location) else Location.parse(location)
