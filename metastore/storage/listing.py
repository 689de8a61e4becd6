"""Lists a whole tree as a stream, for repair."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, IncompleteListingError, StorageError
from catalog_ext.metastore.storage.entries import Descend, Listed, ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.local.listing import LocalListing
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.s3.listing import S3Listing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from hdfs_native import FileStatus

    from catalog_ext.metastore.storage.store import Storage


def list_tree(
    storage: Storage, root: str | Location, *, descend: Descend, depth_hint: int, selective: bool = False
) -> Generator[Listed, None, None]:  # fmt: skip
    """Yield every file (and, on a local disk and on HDFS, every directory) below ``root``, in no particular order.

    A directory below the root that cannot be listed is yielded as `ListingFailure`, and the listing continues. A
    directory that disappears during the listing is not a failure. An entry that is neither a file nor a readable
    directory is yielded as `ListedOther`. Close the generator to stop early: its threads end after their running
    requests.

    Args:
        storage: The store.
        root: The location to list.
        descend: Returns, for a directory relative to the root, whether to list it. A rejected directory is not listed,
            and nothing below it is yielded. The function is called from several threads, seldom twice for one
            directory, and must be deterministic.
        depth_hint: The number of directory levels between the root and the files, 1 or more. A wrong hint costs
            requests, never results.
        selective: Whether ``descend`` is likely to reject many directories of the deepest level. On S3 that level is
            then listed by itself, so that a rejected directory costs no request.

    Raises:
        LocationNotFoundError: The root does not exist (on S3: its bucket; a prefix without keys yields nothing).
        StorageError: The root itself cannot be listed.
    """
    place = root if isinstance(root, Location) else Location.parse(root)
    if place.scheme == "file":
        return LocalListing(place, descend, storage.own_files, max(1, depth_hint)).run()
    if place.scheme == "hdfs":
        return _list_hdfs(storage, place, descend)
    levels = max(1, depth_hint) - (0 if selective else 1)
    return S3Listing(storage, place, descend, levels).run()


def _list_hdfs(storage: Storage, root: Location, descend: Descend) -> Generator[Listed, None, None]:
    """Yield every file and directory below ``root``, with parallel requests; see `list_tree`.

    The name node can also list a whole tree in one call, equally fast, but ends it at the first directory that it
    refuses.
    """
    hdfs = storage.hdfs(root)
    pool = ThreadPoolExecutor(storage.listing_threads, thread_name_prefix="catalog-ext-listing")
    # List the root first: its failure is raised to the caller, while failures below it are yielded.
    running: dict[Future[list[FileStatus]], str] = {}

    def start(directory: str) -> None:
        path = f"{root.path}/{directory}" if directory else root.path
        running[pool.submit(hdfs.entries, path)] = directory

    try:
        start("")
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                directory = running.pop(future)
                try:
                    found = future.result()
                except OSError as error:
                    yield from _failure(storage, root, directory, error)
                    continue
                for listed in _listed(directory, found):
                    if isinstance(listed, ListedFile):
                        yield listed
                    elif descend(listed.directory):
                        yield listed
                        start(listed.directory)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _listed(directory: str, found: list[FileStatus]) -> Iterator[ListedFile | ListedDirectory]:
    for status in found:
        name = status.path.rpartition("/")[2]
        if status.isdir:
            yield ListedDirectory(f"{directory}/{name}" if directory else name)
        else:
            yield ListedFile(directory, name, status.length, status.modification_time)


def _failure(storage: Storage, root: Location, directory: str, error: OSError) -> Iterator[ListingFailure]:
    if directory and isinstance(error, FileNotFoundError | NotADirectoryError):
        # The directory was deleted during the listing, so it does not belong to the result.
        return
    place = root.join(directory) if directory else root
    translated: CatalogExtError = storage.translate(error, place, "list")
    if not directory:
        raise translated from error
    if not isinstance(translated, StorageError):
        translated = IncompleteListingError(translated.message, translated.parameters)
    yield ListingFailure(directory, translated)
