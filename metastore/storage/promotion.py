"""Promotion: staged files get their final names, and lose them again when a write is undone.

On stores with directories a staged file is renamed; on S3 its multipart upload is completed, one request a file. Every
step may be repeated and may be taken by several processes at once; ``docs/spec/commit-protocol.md`` says why.
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
    """The transaction does not want its files moved that way any more; what was taken is back."""


@dataclass(frozen=True, slots=True)
class StagedLocation:
    """Where a staged file is and where it goes; exactly one of ``source`` and ``upload`` is given.

    Attributes:
        target: Its final location.
        size: Bytes.
        source: The staged file, on a store where it is renamed.
        upload: The upload to complete, on S3.
        modified_ms: When the source was modified, in milliseconds since 1970; None where that does not matter, or was
            not recorded.
        hidden_upload: The hidden name of the upload, which is copied to the target; None: it is to the target itself.
        mark: The transaction's id, which copies on S3 carry.
        etag: The hash of the source's ETag on S3; None where it is not known.
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
        """Where the file is, or can be, before it has its final name."""
        return self.source or self.hidden_upload

    def __post_init__(self) -> None:
        if (self.source is None) == (self.upload is None):
            raise ValueError(f"{self.target} needs either a staged file or an upload")


def check_staged(storage: Storage, staged: Sequence[StagedLocation]) -> None:
    """Return if every staged file that is to be renamed is there with its size; uploads are not looked at.

    Raises:
        StagedFileMissingError: Some are gone or have another size; the message names how many and the first.
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
    """Return if nothing is seen that would keep staged files from being moved to any of the directories.

    Args:
        storage: The stores.
        directories: Those that get files; they need not be there.
        staging: A directory in which files wait.

    Raises:
        StorageError: Something is; nothing was moved.
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
    """Give every staged file its final name, in parallel; one that has it is done.

    After the first error no further file is begun; those that have their names keep them.

    Returns:
        For each file the hash of its object's ETag, where the store has said it: not after a copy or a rename.

    Args:
        storage: The stores.
        staged: The files.
        threads: Files that are promoted at the same time.
        wanted: Says whether the transaction is still to be promoted, asked of the index before each copy: what is
            copied may have been deleted again.

    Raises:
        OvertakenError: The transaction is not to be promoted any more.
        StagedFileMissingError: A staged file, or its upload, is gone for good, and its target is not there.
        StorageError: The store refuses or does not answer, or another file has the name.
        LocationNotFoundError: The bucket does not exist.
    """
    return in_parallel(partial(_promote_one, storage, wanted), staged, threads)


def undo(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Remove every staged file and what was promoted of them; what is gone is fine.

    All sources go first: an owner that is only slow can then promote nothing more, and what it promoted before is a
    target, which goes second. What fails does not stop the rest; the same call may be made again. Directories stay.

    Raises:
        StorageError: Something is still there; the message names how many, and the first with its reason.
        LocationNotFoundError: The bucket does not exist.
    """
    _collect(
        partial(discard, storage, staged, threads=threads),
        partial(storage.delete_files, [file.target for file in staged]),
    )


def hide(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Give files that are to wait again the hidden names that they had; one that has its own is done.

    An upload that was completed under its final name has no other: it stays, as do files of other processes there.

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
        StorageError: Something is still there; the message names how many, and the first with its reason.
        LocationNotFoundError: The bucket does not exist.
    """
    _collect(
        partial(_abort_uploads, storage, staged, threads),
        partial(storage.delete_files, [file.hidden for file in staged if file.hidden is not None]),
    )


def keep(storage: Storage, staged: Sequence[StagedLocation], *, threads: int = DEFAULT_THREADS) -> None:
    """Make whole objects of uploads that are to wait, under their hidden names; it may be called again.

    Raises:
        StagedFileMissingError: An upload is gone for good.
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
    """Copy what is under a hidden name to its final one; the former is left for the clean-up."""
    uploads = storage.uploads_to(file.target)
    try:
        storage.uploads_to(hidden).complete(hidden, upload, file.size)
    except StagedFileMissingError:
        # Another process may have been faster, and cleaned up.
        if not uploads.is_copied(file.target, file.size, file.mark):
            raise
        return
    uploads.copy(hidden, file.target, file.size, file.mark)


def rename_file(storage: Storage, source: Location, target: Location) -> bool:
    """Return whether a file was there, and has got another name now, atomically; its parents are made.

    Raises:
        FileExistsError: Something has that name already; it is never replaced.
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
            # Its directory is not there yet, or another process has just removed it because it was empty.
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
    """Give a staged file its final name, and never over another file.

    It may be called again, and by several processes at once: with the source gone, a target of that size is the file.
    """
    try:
        if not rename_file(storage, source, file.target):
            check_moved(file, storage.stat(file.target))
    except FileExistsError as error:
        raise occupied(file.target, source, "moved") from error


def is_moved(file: StagedLocation, there: Entry | None) -> bool:
    """Return whether what is at a place is the file that is moved: a rename keeps size and time."""
    return (
        there is not None
        and there.kind is EntryKind.FILE
        and there.size == file.size
        and same_time(file.modified_ms, there.modified_ms)
    )


def check_moved(file: StagedLocation, there: Entry | None) -> None:
    """Return if what is at the target is the file that was to be moved to it.

    Raises:
        StagedFileMissingError: Nothing is.
        StorageError: Something else is.
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
    """Return the error for a file that is neither where it was staged nor where it was promoted to."""
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
    """Take every step, then raise what the first failing one raised."""
    failures: list[CatalogExtError] = []
    for step in steps:
        try:
            step()
        except CatalogExtError as error:
            failures.append(error)
    if failures:
        raise failures[0]
