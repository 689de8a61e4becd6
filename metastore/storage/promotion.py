"""Promotion: gives staged files their final names, and takes these names back when a write is undone.

On stores with directories a staged file is renamed; on S3 its multipart upload is completed, with one request per file.
Every step may be repeated and may be run by several processes at once; ``docs/spec/commit-protocol.md`` says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.fault_points import fault_point
from catalog_ext.metastore.errors import (
    CatalogExtError,
    StagedFileMissingError,
    StorageError,
    StorageUnavailableError,
)
from catalog_ext.metastore.model.etags import same_time
from catalog_ext.metastore.storage.entries import EntryKind
from catalog_ext.metastore.storage.failures import occupied
from catalog_ext.metastore.storage.locations import shown
from catalog_ext.metastore.storage.parallel import in_parallel, raise_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from catalog_ext.metastore.commit.staged_files import Upload
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage

DEFAULT_THREADS = 16
_RENAME_ATTEMPTS = 20


class OvertakenError(Exception):
    """The transaction may no longer move files in this direction; files already taken have been returned."""


@dataclass(frozen=True, slots=True)
class StagedLocation:
    """The source and the target of a staged file; exactly one of ``source`` and ``upload`` is given.

    Attributes:
        target: Its final location.
        size: Bytes.
        source: The staged file, on a store where it is renamed.
        upload: The upload to complete, on S3.
        modified_ms: When the source was modified, in milliseconds since 1970; None if this does not matter, or was not
            recorded.
        hidden_upload: The hidden name of the upload, from which the object is copied to the target; None if the upload
            goes to the target itself.
        mark: The transaction's id, which is stored in the metadata of copies on S3.
        etag: The hash of the source's ETag on S3; None if it is not known.
    """

    target: Location
    size: int
    source: Location | None = None
    upload: Upload | None = None
    modified_ms: int | None = None
    mark: str = ""
    hidden_upload: Location | None = None
    etag: int | None = None

    @property
    def hidden(self) -> Location | None:
        """The location of the file before it has its final name; None for an upload to the target itself."""
        return self.source or self.hidden_upload

    def __post_init__(self) -> None:
        if (self.source is None) == (self.upload is None):
            raise ValueError(f"{self.target} needs either a staged file or an upload")


def check_staged(storage: Storage, staged: Sequence[StagedLocation]) -> None:
    """Check that every staged file to be renamed exists with its size; uploads are not checked.

    Raises:
        StagedFileMissingError: Files are gone or have another size; the message has their number and the first one.
        StorageError: The store refuses or does not answer.
    """
    renamed = [(file, file.source) for file in staged if file.source is not None]
    found = storage.stat_many([source for _, source in renamed])
    wrong = [
        (source, file.size, entry)
        for (file, source), entry in zip(renamed, found, strict=True)
        if entry is None or entry.kind is not EntryKind.FILE or entry.size != file.size
    ]
    if not wrong:
        return
    source, size, entry = wrong[0]
    state = "is not there" if entry is None else f"is a {entry.kind.value} of {entry.size} bytes, not of {size}"
    raise StagedFileMissingError(
        f"{len(wrong)} of {len(staged)} staged files are not as they were written; the first, {shown(str(source))}, "
        f"{state}. They were deleted or changed. Write again.",
        {"location": str(source), "count": str(len(wrong))},
    )


def check_targets(storage: Storage, directories: Iterable[Location], staging: Location) -> None:
    """Check for obstacles to moving staged files to the directories, as far as they can be seen in advance.

    Args:
        storage: The stores.
        directories: The directories that will get files; they need not exist yet.
        staging: The directory with the staged files.

    Raises:
        StorageError: There is an obstacle to one of the directories; nothing was moved.
    """
    if not storage.store_has_directories(staging):
        return

    def obstacle(directory: Location) -> str | None:
        try:
            return storage.files_of(directory).obstacle(directory.path, staging.path)
        except OSError as error:
            raise storage.translate(error, directory, "look at") from error

    places = list(directories)
    for place, why in zip(places, in_parallel(obstacle, places, storage.listing_threads), strict=True):
        if why is not None:
            raise StorageError(
                f"No file can be moved to {shown(str(place))}: {why}. Nothing was written.", {"location": str(place)}
            )


def promote(
    storage: Storage,
    staged: Sequence[StagedLocation],
    *,
    threads: int = DEFAULT_THREADS,
    wanted: Callable[[], bool] = lambda: True,
) -> list[int | None]:
    """Give every staged file its final name, in parallel; files that have their final names already are skipped.

    After the first error no further file is started; files with final names keep them.

    Returns:
        For each file the hash of its object's ETag, if the store reported it: not after a copy or a rename.

    Args:
        storage: The stores.
        staged: The files.
        threads: The number of files that are promoted in parallel.
        wanted: Asks the index whether the transaction may still be promoted. It is called before each copy, because
            another process may have ended the transaction and deleted the source.

    Raises:
        OvertakenError: The transaction must not be promoted any more.
        StagedFileMissingError: A staged file, or its upload, was deleted, and its target does not exist.
        StorageError: The store refuses or does not answer, or another file has the name.
        LocationNotFoundError: The bucket does not exist.
    """
    return in_parallel(partial(_promote_one, storage, wanted), staged, threads)


def undo(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Remove every staged file and every promoted target; missing files are no error.

    All sources are removed first, so that a slow owner can promote no further file; then the targets that it has
    promoted until then are removed. A failure does not stop the rest; the call may be repeated. Directories stay.

    Raises:
        StorageError: Some files are left; the message has their number, and the first with its reason.
        LocationNotFoundError: The bucket does not exist.
    """
    _collect(
        partial(discard, storage, staged, threads=threads),
        partial(storage.delete_files, [file.target for file in staged]),
    )


def hide(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Rename files of partitions that are no longer due back to their hidden names; hidden files are skipped.

    An upload that was completed under its final name has no hidden name, so it stays. Files of other processes at the
    final names stay, too.

    Raises:
        StorageError: The store refuses or does not answer, or another file has the hidden name.
    """

    def hide_one(file: StagedLocation) -> None:
        if file.hidden_upload is not None:
            storage.uploads_to(file.target).restore(file.hidden_upload, file.target, file.size, file.mark)
        elif file.source is not None and is_moved(file, storage.stat(file.target)):
            try:
                rename_file(storage, file.target, file.source)
            except FileExistsError as error:
                raise occupied(file.source, file.target, "moved") from error

    in_parallel(hide_one, staged, threads)


def discard(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Remove staged files and uploads that will not be promoted; promoted files stay.

    Raises:
        StorageError: Some files are left; the message has their number, and the first with its reason.
        LocationNotFoundError: The bucket does not exist.
    """
    _collect(
        partial(_abort_uploads, storage, staged, threads),
        partial(storage.delete_files, [file.hidden for file in staged if file.hidden is not None]),
    )


def keep(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Complete the uploads of files that wait for a later commit, as objects under their hidden names; idempotent.

    Raises:
        StagedFileMissingError: An upload was deleted.
        StorageError: The store refuses or does not answer.
    """

    def complete(file: StagedLocation) -> None:
        if file.upload is not None and file.hidden_upload is not None:
            storage.uploads_to(file.hidden_upload).complete(file.hidden_upload, file.upload, file.size)

    in_parallel(complete, staged, threads)


def _promote_one(storage: Storage, wanted: Callable[[], bool], file: StagedLocation) -> int | None:
    fault_point("promote.file")
    if file.upload is not None and file.hidden_upload is not None:
        if not wanted():
            raise OvertakenError
        _bring_in(storage, file, file.upload, file.hidden_upload)
    elif file.upload is not None:
        return storage.uploads_to(file.target).complete(file.target, file.upload, file.size)
    elif file.source is not None:
        _rename(storage, file, file.source)
    return None


def _bring_in(storage: Storage, file: StagedLocation, upload: Upload, hidden: Location) -> None:
    """Copy an object from its hidden name to its final name; the step ``clean`` removes the hidden object."""
    uploads = storage.uploads_to(file.target)
    try:
        storage.uploads_to(hidden).complete(hidden, upload, file.size)
    except StagedFileMissingError:
        # Another process may have copied the object already, and have removed the hidden one.
        if not uploads.is_copied(file.target, file.size, file.mark):
            raise
        return
    uploads.copy(hidden, file.target, file.size, file.mark)


def rename_file(storage: Storage, source: Location, target: Location) -> bool:
    """Rename a file atomically, creating the target's directory if needed; return False if the source does not exist.

    Raises:
        FileExistsError: The target exists; it is never replaced.
        StorageError: The store refuses or does not answer.
    """
    for _ in range(_RENAME_ATTEMPTS):
        try:
            storage.files_of(target).rename(source.path, target.path)
        except FileExistsError:
            if storage.stat(source) is not None:
                raise
            return False
        except FileNotFoundError:
            if storage.stat(source) is None:
                return False
            # The target's directory does not exist yet, or another process has just removed it because it was empty.
            storage.create_directory(target.parent)
        except OSError as error:
            raise storage.translate(error, target, "move a file to") from error
        else:
            return True
    raise StorageUnavailableError(
        f"The directory of {shown(str(target))} is removed again and again while a file is moved to it. Try again.",
        {"location": str(target)},
    )


def _rename(storage: Storage, file: StagedLocation, source: Location) -> None:
    """Give a staged file its final name without replacing another file.

    The call may be repeated, also by several processes at once: if the source is gone, a target of the same size is the
    file.
    """
    try:
        if not rename_file(storage, source, file.target):
            check_moved(file, storage.stat(file.target))
    except FileExistsError as error:
        raise occupied(file.target, source, "moved") from error


def is_moved(file: StagedLocation, there: Entry | None) -> bool:
    """Return whether the file at the new location is the moved file: a rename keeps size and time."""
    return (
        there is not None
        and there.kind is EntryKind.FILE
        and there.size == file.size
        and same_time(file.modified_ms, there.modified_ms)
    )


def check_moved(file: StagedLocation, there: Entry | None) -> None:
    """Check that the file at the target is the moved file.

    Raises:
        StagedFileMissingError: There is no file at the target.
        StorageError: Another file is at the target.
    """
    target = file.target
    if there is None:
        raise vanished(target)
    if not is_moved(file, there):
        raise StorageError(
            f"Another {there.kind.value}, of {there.size} bytes, is at {shown(str(target))}, where a file of "
            f"{file.size} bytes was to be moved to. Remove it.",
            {"location": str(target)},
        )


def vanished(target: Location) -> StagedFileMissingError:
    """Return the error for a file that is neither at its source nor at its target."""
    return StagedFileMissingError(
        f"The file that was to be moved to {shown(str(target))} is gone, and it is not there either. "
        "It was deleted. Write again.",
        {"location": str(target)},
    )


def _abort_uploads(storage: Storage, staged: Sequence[StagedLocation], threads: int) -> None:
    def abort(file: StagedLocation) -> CatalogExtError | None:
        try:
            if file.upload is not None:
                place = file.hidden_upload or file.target
                storage.uploads_to(place).abort(place, file.upload.upload_id)
        except StorageError as error:
            return error
        return None

    answers = in_parallel(abort, [file for file in staged if file.upload is not None], threads)
    kept = [error for error in answers if error is not None]
    raise_together(kept, "upload could not be aborted", "uploads could not be aborted")


def _collect(*steps: Callable[[], None]) -> None:
    """Run every step, then raise the first error."""
    failures: list[CatalogExtError] = []
    for step in steps:
        try:
            step()
        except CatalogExtError as error:
            failures.append(error)
    if failures:
        raise failures[0]
