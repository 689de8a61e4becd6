"""Lists one directory on S3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location
from catalog_ext.metastore.storage.failures import location_not_found

if TYPE_CHECKING:
    from catalog_ext.metastore.storage.locations import Location
    from catalog_ext.metastore.storage.s3.keys import Keys


def list_s3_directory(keys: Keys, directory: Location) -> list[Entry]:
    """Return the files and directories directly in a directory, in no particular order.

    Raises:
        LocationNotFoundError: No key begins with it, or the bucket does not exist.
        StorageError: The store refuses, does not answer or answers something else.
    """
    files: list[Entry] = []
    directories: set[str] = set()
    begin, exists = None, not directory.key
    start = len(directory.key) + 1 if directory.key else 0
    while True:
        page = keys.page(directory, whole=False, begin=begin)
        exists = exists or bool(page.keys or page.prefixes)
        for key, size, modified_ms, etag in page.keys:
            name, is_deeper, _ = key[start:].partition("/")
            if is_deeper:
                # A store that passes over the delimiter lists what lies in directories.
                directories.add(name)
            elif name:
                # The key of the directory itself is its marker, and has no name.
                files.append(Entry(child_location(directory, name), EntryKind.FILE, size, modified_ms, etag))
        directories.update(prefix[start:].partition("/")[0] for prefix in page.prefixes)
        if page.next is None:
            break
        begin = page.next
    if not exists:
        raise location_not_found(directory)
    made = (child_location(directory, name) for name in directories if name)
    return files + [Entry(place, EntryKind.DIRECTORY, 0, 0) for place in made]
