"""Lists one directory on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location
from catalog_ext.metastore.storage.failures import location_not_found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.s3.keys import Keys, Page


def list_s3_directory(keys: Keys, directory: Location) -> list[Entry]:
    """Return the files and directories directly in a directory, in no particular order.

    Raises:
        LocationNotFoundError: No key begins with it, or the bucket does not exist.
        StorageError: The store refuses, does not answer or answers something else.
    """
    entries: list[Entry] = []
    begin, exists = None, not directory.key
    while True:
        page = keys.page(directory, whole=False, begin=begin)
        exists = exists or bool(page.keys or page.prefixes)
        entries.extend(_entries(page, directory))
        if page.next is None:
            break
        begin = page.next
    if not exists:
        raise location_not_found(directory)
    return entries


def _entries(page: Page, directory: Location) -> Iterator[Entry]:
    start = len(directory.key) + 1 if directory.key else 0
    for key, size, modified_ms, etag in page.keys:
        # The key of the directory itself is its marker.
        if name := key[start:]:
            yield Entry(child_location(directory, name), EntryKind.FILE, size, modified_ms, etag)
    for prefix in page.prefixes:
        if name := prefix[start:-1]:
            yield Entry(child_location(directory, name), EntryKind.DIRECTORY, 0, 0)
