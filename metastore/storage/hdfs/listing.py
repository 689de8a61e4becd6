"""Lists a tree on HDFS, several directories at a time."""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import CatalogExtError, IncompleteListingError, StorageError
from catalog_ext.metastore.storage.listed import Descend, Listed, ListedDirectory, ListedFile, ListingFailure

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from hdfs_native import FileStatus

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.store import Storage


def list_hdfs(storage: Storage, root: Location, descend: Descend) -> Generator[Listed, None, None]:
    """Yield every file and directory below ``root``, several directories at a time; see `list_tree`.

    The name node lists a whole tree by one call as fast, but ends it at the first directory that it refuses.
    """
    hdfs = storage.hdfs(root)
    pool = ThreadPoolExecutor(storage.listing_threads, thread_name_prefix="catalog-ext-listing")
    # The root's own failure is the caller's.
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
        # It vanished while the listing ran: it is not there.
        return
    place = root.join(directory) if directory else root
    translated: CatalogExtError = storage.translate(error, place, "list")
    if not directory:
        raise translated from error
    if not isinstance(translated, StorageError):
        translated = IncompleteListingError(translated.message, translated.parameters)
    yield ListingFailure(directory, translated)
