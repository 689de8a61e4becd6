"""Moves files that keep their names. Other engines may reuse these names, so each file first gets a unique name.

A slow process may rename a file long after its transaction has ended, when another process's file has the name. On
stores with an atomic rename, a mover therefore first renames the file into its own directory, then asks the index
whether the transaction still wants the file, and moves it back if not; ``docs/spec/commit-protocol.md`` (Moves) has the
reasoning.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.errors import (
    CatalogExtError,
    LocationNotFoundError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.storage.entries import EntryKind, child_location
from catalog_ext.metastore.storage.failures import occupied
from catalog_ext.metastore.storage.locations import shown
from catalog_ext.metastore.storage.parallel import in_parallel
from catalog_ext.metastore.storage.promotion import OvertakenError, check_moved, is_moved, rename_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.promotion import StagedLocation
    from catalog_ext.metastore.storage.store import Storage

_FORTH, _BACK = "promote-", "restore-"
"""The prefixes of movers' directories: for files taken from their sources, and for those taken from targets."""

_ATTEMPTS = 20

Held: TypeAlias = "dict[str, list[Location]]"
"""The present locations of files that are between source and target, in movers' directories, by the file's digest."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Displaced:
    """A file that could not be moved back to its old name.

    Attributes:
        file: The file.
        place: Its present location: beside its source, or in the mover's directory.
        refusal: Why no file can be put at its old location; None if only the name is in use.
    """

    file: StagedLocation
    place: Location
    refusal: CatalogExtError | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """A file that this mover has renamed into its own directory, its present location, and where to return it."""

    file: StagedLocation
    place: Location
    origin: Location


class Mover:
    """Moves the files of one transaction forward or back; movers in other processes may move the same files.

    Every method raises ``StorageError`` if the store refuses or does not answer.

    Args:
        storage: The stores.
        between: The transaction's own hidden directory, on the store of the files.
        root: The directory up to which ``between`` and its ancestors are removed when they are empty.
        wanted: Asks the index, at each call, whether the transaction still moves files in this direction.
        exile: Returns the new location of a file that cannot be moved back to its old one.
        threads: The number of files that are moved in parallel.
    """

    def __init__(
        self, storage: Storage, between: Location, root: Location, *, wanted: Callable[[], bool],
        exile: Callable[[StagedLocation], Location], threads: int,
    ) -> None:  # fmt: skip
        self._storage = storage
        self._between = between
        self._root = root
        self._wanted = wanted
        self.exile = exile
        self._threads = threads
        self._token = secrets.token_hex(8)
        self._taken: dict[str, _Taken] = {}
        self._displaced: list[Displaced] = []

    def promote(self, files: Sequence[StagedLocation]) -> None:
        """Move files from their sources to their targets; files that are at their targets already stay there.

        Raises:
            OvertakenError: The transaction must not be promoted any more.
            StagedFileMissingError: A file was deleted.
            StorageError: The store refuses or does not answer, or another file is at a source or a target.
        """
        if files and not self._storage.store_has_directories(self._between):
            in_parallel(self._copy, files, self._threads)
            return
        self._in_turns(files, _FORTH, self._take_forth, self._put_forth)

    def restore(self, files: Sequence[StagedLocation]) -> list[Displaced]:
        """Move files back to their sources, also files not yet moved; return files that were put elsewhere.

        Files that another process has put at a source or a target stay. Deleted files are no error.

        Raises:
            OvertakenError: Another process has moved the files back.
            StorageError: The store does not answer.
        """
        self._displaced.clear()
        if files and not self._storage.store_has_directories(self._between):
            in_parallel(self._remove_copy, files, self._threads)
        else:
            self._in_turns(files, _BACK, self._take_back, self._put_back)
        return list(self._displaced)

    def return_strays(self, files: Sequence[StagedLocation]) -> None:
        """Move back the files in directories of movers that died after their transaction had ended."""
        held = self._held()
        for file in files:
            for place in held.get(_digest(file), ()):
                self._return(file, place, _origin(file, place))

    def has_strays(self) -> bool:
        """Return whether any mover's directory has files of the transaction."""
        return bool(self._held())

    def place(self, displaced: Displaced, location: Location) -> None:
        """Move a displaced file, which could not be moved back, to a given location; a repeated call does nothing."""
        if displaced.place != location:
            self._rename(displaced.place, location)

    def tidy(self) -> None:
        """Remove the empty directories of movers."""
        if self._storage.store_has_directories(self._between):
            self._storage.remove_empty_directories([*self._movers(), self._between], self._root)

    def _in_turns(
        self, files: Sequence[StagedLocation], way: str, take: Callable[[Held, StagedLocation], _Taken | None],
        put: Callable[[_Taken], bool],
    ) -> None:  # fmt: skip
        """Rename all files into the mover's directory, ask the index whether to go on, and move them on.

        Repeat this for files that another mover of the same transaction took away in the meantime.
        """
        left = list(files)
        for _ in range(_ATTEMPTS):
            if not left:
                return
            if not self._wanted():
                raise OvertakenError
            fault_point("move.before")
            self._taken.clear()
            try:
                taken = in_parallel(partial(take, self._held()), left, self._threads)
            except CatalogExtError:
                if self._taken and not self._still_wanted():
                    self._return_all()
                raise
            fault_point("move.taken")
            if self._taken and not self._still_wanted():
                self._return_all()
                raise OvertakenError
            fault_point("move.asked")
            mine = [one for one in taken if one is not None]
            put_down = in_parallel(put, mine, self._threads)
            left = [one.file for one, done in zip(mine, put_down, strict=True) if not done]
        raise StorageUnavailableError(
            f"Several processes move the same files to {shown(str(left[0].target))} at once. Try again.",
            {"location": str(left[0].target)},
        )

    def _still_wanted(self) -> bool:
        """Return whether the transaction still moves its files in this direction.

        Raises:
            IndexDatabaseError: The index does not answer; the taken files were returned.
        """
        try:
            return self._wanted()
        except CatalogExtError:
            self._return_all()
            raise

    def _take_forth(self, held: Held, file: StagedLocation) -> _Taken | None:
        """Rename a file from its source into the mover's directory; None if it is at its target already."""
        fault_point("promote.file")
        source = _source(file)
        for _ in range(_ATTEMPTS):
            there = self._storage.stat(source)
            if there is not None and not is_moved(file, there):
                raise self._rewritten(file, source)
            if there is not None and (found := self._grab(_FORTH, file, source, source)) is not None:
                return found
            for place in held.get(_digest(file), ()):
                # Leave a file that another process is moving back: that process decides about it.
                if place.parent.name.startswith(_FORTH):
                    found = self._grab(_FORTH, file, place, source)
                    if found is not None:
                        return found
            target = self._storage.stat(file.target)
            if is_moved(file, target):
                return None
            held = self._held()
            if not held.get(_digest(file)):
                # No mover holds the file any more, so it must be at its target. Otherwise it was deleted.
                check_moved(file, self._storage.stat(file.target))
                return None
        raise StorageUnavailableError(f"The file {shown(str(source))} is moved by others. Try again.")

    def _take_back(self, held: Held, file: StagedLocation) -> _Taken | None:
        """Rename a file into the mover's directory to move it back; None if it is at its source or deleted."""
        source = _source(file)
        for _ in range(_ATTEMPTS):
            if is_moved(file, self._storage.stat(file.target)):
                if is_moved(file, self._storage.stat(source)):
                    # The file was never moved, and the equal file at the target belongs to another process.
                    return None
                found = self._grab(_BACK, file, file.target, file.target)
                if found is not None:
                    return found
            for place in held.get(_digest(file), ()):
                found = self._grab(_BACK, file, place, _origin(file, place))
                if found is not None:
                    return found
            if is_moved(file, self._storage.stat(source)):
                return None
            held = self._held()
            if not held.get(_digest(file)) and not is_moved(file, self._storage.stat(file.target)):
                # The file was moved back since the check, was put elsewhere by an earlier undo, or was deleted.
                places = (name_beside(source, file), self.exile(file))
                self._displaced += [Displaced(file, p) for p in places if is_moved(file, self._storage.stat(p))]
                return None
        raise StorageUnavailableError(f"The file {shown(str(source))} is moved by others. Try again.")

    def _grab(self, way: str, file: StagedLocation, place: Location, origin: Location) -> _Taken | None:
        """Rename the file to a name in this mover's directory, and return it; None if it is gone."""
        mine = self._own(way, file)
        if place == mine:
            return None if self._storage.stat(mine) is None else _Taken(file, mine, origin)
        if not self._rename(place, mine):
            return None
        self._taken[_digest(file)] = found = _Taken(file, mine, origin)
        if not is_moved(file, self._storage.stat(mine)):
            # Another process rewrote the file between the check and the rename, so it is not the file to move. Return
            # it.
            self._return(file, mine, origin)
            del self._taken[_digest(file)]
            if way == _FORTH:
                raise self._rewritten(file, origin)
            return None
        return found

    def _put_forth(self, taken: _Taken) -> bool:
        """Move the file to its target; return False if another mover has taken it in the meantime."""
        try:
            return self._rename(taken.place, taken.file.target)
        except FileExistsError as error:
            self._return(taken.file, taken.place, taken.origin)
            raise occupied(taken.file.target, _source(taken.file), "moved") from error

    def _put_back(self, taken: _Taken) -> bool:
        """Move the file back to its source, or beside it if the name is in use.

        Returns:
            False if another mover has taken the file in the meantime. A file that cannot be put at either place is
                recorded as displaced.
        """
        file, source = taken.file, _source(taken.file)
        beside = name_beside(source, file)
        for place in (source, beside):
            try:
                if not self._rename(taken.place, place):
                    return False
            except FileExistsError:
                continue
            except CatalogExtError as error:
                if error.retryable:
                    raise
                self._displaced.append(Displaced(file, taken.place, error))
                return True
            if place == beside:
                self._displaced.append(Displaced(file, beside))
            return True
        self._displaced.append(Displaced(file, taken.place, occupied(beside, source, "moved")))
        return True

    def _return_all(self) -> None:
        for taken in self._taken.values():
            self._return(taken.file, taken.place, taken.origin)
        self.tidy()

    def _return(self, file: StagedLocation, place: Location, origin: Location) -> None:
        """Put a file back to ``origin``, or beside it if the name is in use, because this mover must not keep it."""
        for to in (origin, name_beside(origin, file)):
            try:
                self._rename(place, to)
            except FileExistsError:
                continue
            if to != origin:
                logger.warning("%s has got the name %s: another process has written there. Repair.", origin, to)
            return
        logger.warning("%s stays at %s: files of other processes are at its name and beside it.", origin, place)

    def _rename(self, source: Location, target: Location) -> bool:
        """Rename a file; return False if the source does not exist.

        Raises:
            FileExistsError: The target exists.
        """
        return rename_file(self._storage, source, target)

    def _own(self, way: str, file: StagedLocation) -> Location:
        return self._between.join(f"{way}{self._token}/{_digest(file)}")

    def _movers(self) -> list[Location]:
        try:
            entries = self._storage.list_directory(self._between)
        except LocationNotFoundError:
            return []
        return [
            entry.location
            for entry in entries
            if entry.kind is EntryKind.DIRECTORY and entry.location.name.startswith((_FORTH, _BACK))
        ]

    def _held(self) -> Held:
        found: Held = {}
        for mover in self._movers():
            try:
                entries = self._storage.list_directory(mover)
            except LocationNotFoundError:
                continue
            for entry in entries:
                found.setdefault(entry.location.name, []).append(entry.location)
        return found

    def _copy(self, file: StagedLocation) -> None:
        # On S3 a file is moved by a copy. The step ``clean`` deletes the source later.
        fault_point("promote.file")
        if not self._wanted():
            raise OvertakenError
        self._storage.uploads_to(file.target).copy(_source(file), file.target, file.size, file.mark, file.etag)

    def _remove_copy(self, file: StagedLocation) -> None:
        if not self._wanted():
            raise OvertakenError
        self._storage.uploads_to(file.target).restore(_source(file), file.target, file.size, file.mark)

    def _rewritten(self, file: StagedLocation, source: Location) -> StorageError:
        return StorageError(
            f"The file {shown(str(source))}, which was to be moved to {shown(str(file.target))}, was written again by "
            "another process. Repair the table.",
            {"location": str(source)},
        )


def name_beside(place: Location, file: StagedLocation) -> Location:
    """Return a file's alternative name in the directory of ``place``, for when another file has its own name."""
    stem, dot, suffix = place.name.rpartition(".")
    digest = _digest(file)[:12]
    name = f"{stem}-{digest}.{suffix}" if dot and stem else f"{place.name}-{digest}"
    return child_location(place.parent, name)


def _origin(file: StagedLocation, place: Location) -> Location:
    """Return the location from which a mover took the file that is now at ``place`` in the mover's directory."""
    return file.target if place.parent.name.startswith(_BACK) else _source(file)


def _source(file: StagedLocation) -> Location:
    assert file.source is not None, "uploads are completed"
    return file.source


def _digest(file: StagedLocation) -> str:
    # Use 40 digits. With 32 digits a digest would look like a transaction's id, for which file names are searched.
    return hashlib.blake2b(f"{file.source}\n{file.target}".encode(), digest_size=20).hexdigest()
