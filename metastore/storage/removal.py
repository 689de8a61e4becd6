"""Removes and renames files and directories on every store; the files of an index stay."""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.locations import shown
from catalog_ext.metastore.storage.parallel import in_parallel, raise_together
from catalog_ext.metastore.storage.reading import StoreReads, as_location
from catalog_ext.metastore.storage.s3.deletion import KEYS_PER_DELETE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from catalog_ext.metastore.errors import CatalogExtError
    from catalog_ext.metastore.storage.locations import Location

logger = logging.getLogger(__name__)

_FILES_PER_TASK = 50
_NO_OTHER_NAME = frozenset({errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM})
_NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class StoreRemovals(StoreReads):
    """Removes what lies at locations; ``Storage`` is the class that callers use."""

    def delete_tree(self, location: str | Location) -> None:
        """Remove ``location`` and everything below it; nothing happens where nothing lies.

        Raises:
            StorageError: The location is a bucket or the file system's root, or the store refuses.
        """
        place = as_location(location)
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

    def index_within(self, location: str | Location) -> str | None:
        """Return the path of an index that lies in a directory or below it; None where none does."""
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
