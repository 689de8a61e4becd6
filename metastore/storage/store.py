"""Storage: one interface to the local file system, to HDFS and to S3, over ``pyarrow.fs``."""

from __future__ import annotations

import errno
import logging
import os
import secrets
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, LocationNotFoundError, StorageError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.failures import is_missing_bucket
from catalog_ext.metastore.storage.locations import shown
from catalog_ext.metastore.storage.parallel import in_parallel, raise_together
from catalog_ext.metastore.storage.reading import StoreReads, as_location
from catalog_ext.metastore.storage.s3.deletion import KEYS_PER_DELETE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyarrow import fs as pafs

    from catalog_ext.metastore.storage.locations import Location

logger = logging.getLogger(__name__)


_FILES_PER_TASK = 50
_NO_OTHER_NAME = frozenset({errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM})
_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class Storage(StoreReads):
    """Reads, lists and changes locations on every store; safe to use from several threads.

    Every method raises ``StorageError`` if the store refuses or does not answer.

    Args:
        options: The connection options of S3 and HDFS, as `StorageOptions` or the settings from which they are parsed.
        listing_threads: The number of prefixes that one listing requests in parallel.
        target_prefixes: The number of prefixes that a listing finds before it lists each of them recursively.
        timeouts: The time limits of a request to S3.
        backoff: The number and length of waits of a throttled request; the S3 client's own retries come first.
        indexes: Absolute paths of SQLite indexes: their files are neither listed nor deleted.

    Raises:
        InvalidConfigurationError: The options do not fit together.
    """

    def write_file(self, location: str | Location, data: bytes = b"") -> None:
        """Write a small file at ``location``, replacing an existing one; its directory must exist.

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
        """Return the first ``limit`` bytes of a small file; None if it does not exist. Takes one or two requests.

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
        """Create a small file unless it exists, and return whether it was created.

        If two processes try at once, only one succeeds, on stores that support this. The file becomes visible with its
        whole content. On S3 this takes one request. An S3 store without conditional requests gets a look-up first, so
        that two processes may both succeed there.

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
        """Replace a small file at ``location`` atomically. On S3 this takes one request.

        On HDFS, where a rename does not replace a file, the file is missing for a moment.

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
        """Create a directory and its parents unless they exist; on S3, which has no directories, do nothing."""
        place = as_location(location)
        if self.store_has_directories(place):
            self.attempt(place, "create", lambda filesystem: filesystem.create_dir(place.path, recursive=True))

    def sync(self, files: Sequence[Location], root: Location) -> None:
        """Sync moved files on a local disk, with their directories and ancestors up to the root's own parent.

        Other stores need nothing: S3 has stored everything that it acknowledged. HDFS has it in the memory of enough
        data nodes, and writes it out later (``docs/operations.md``).

        Raises:
            StorageError: The disk refuses.
        """
        if not files or root.scheme != "file":
            return
        directories: set[Location] = set()
        for file in files:
            place = file.parent
            if root.contains(place):
                # Sync the root only if it contains a moved file: if all partitions lie elsewhere, the table may have no
                # directory.
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
        """Sync directories on a local disk from which files or directories were removed; other stores need nothing.

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

    def delete_tree(self, location: str | Location) -> None:
        """Remove ``location`` and everything below it; a missing location is no error.

        Raises:
            StorageError: The location is a bucket or the file system's root, or the store refuses.
        """
        place = as_location(location)
        if not place.key:
            raise StorageError(f"The whole of {shown(str(place))} is never deleted. Give a directory in it.")
        self._require_no_index(place)
        if place.scheme == "file" and os.path.islink(place.path):
            # Remove only the link: the directory that it points to does not belong to the table.
            self.attempt(place, "delete", lambda _: os.unlink(place.path))
            return
        entry = self.stat(place)
        if entry is None:
            return
        if entry.kind is EntryKind.FILE:
            self.attempt(place, "delete", lambda filesystem: filesystem.delete_file(place.path))
        else:
            self.attempt(place, "delete", lambda filesystem: filesystem.delete_dir(place.path))

    def rename_directory(self, source: Location, target: Location) -> bool:
        """Rename a directory, or a link to one, on its store, in one step.

        Returns:
            Whether the old name is free now. False if the store cannot rename the directory: on S3, for a mount point,
                and if only the directory itself is writable, and not its parent.
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
        """Remove files in parallel; a missing file is no error, and a failure does not stop the others.

        Raises:
            StorageError: Some files are left; the message has their number, and the first with its reason.
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
        """Remove empty directories, and then their empty ancestors, up to but not including ``upto``.

        It does nothing on S3, which has no directories, and for directories outside ``upto``. A directory that gets a
        file in the meantime stays.
        """
        if not self.store_has_directories(upto):
            return
        left = {place for place in directories if place != upto and upto.contains(place)}
        while left:
            # Remove a whole level at a time, the deepest first, so that each parent is tried once, after all its
            # children.
            deepest = max(place.key.count("/") for place in left)
            level = sorted(place for place in left if place.key.count("/") == deepest)
            removed = in_parallel(self._remove_if_empty, level, self.listing_threads)
            parents = {place.parent for place, gone in zip(level, removed, strict=True) if gone}
            left = left.difference(level) | (parents - {upto})

    def index_within(self, location: str | Location) -> str | None:
        """Return the path of an index in a directory or below it; None if there is no index."""
        place = as_location(location)
        return self.own_files.within(place.path) if place.scheme == "file" else None

    def _delete_batch(self, batch: Sequence[Location]) -> list[CatalogExtError]:
        if batch[0].scheme == "s3a":
            return self.uploads_to(batch[0]).delete(batch)
        return [error for location in batch if (error := self._delete_file(location)) is not None]

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
            # A file with a name that is too long cannot exist, so there is nothing to delete.
            return None if error.errno == errno.ENAMETOOLONG else self.translate(error, location, "delete")
        return None

    def _remove_if_empty(self, directory: Location) -> bool:
        """Remove ``directory`` if it is empty; return whether it does not exist any more."""
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
