"""Lists one directory on S3, and looks up objects by their keys with few requests.

A LIST that begins at one key also answers for the keys after it, while HEAD requests for a thousand replaced files
would be a thousand requests. The keys are sorted as S3 sorts them, and each page of a listing answers for at least one
of them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.entries import Entry, EntryKind, child_location
from catalog_ext.metastore.storage.failures import location_not_found
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.storage.s3.keys import Keys


def list_s3_directory(keys: Keys, directory: Location) -> list[Entry]:
    """Return the files and directories directly in a directory, in no particular order.

    Raises:
        LocationNotFoundError: No key begins with the directory's path, or the bucket does not exist.
        StorageError: The store refuses, does not answer, or gives a wrong answer.
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
                # This store ignores the delimiter and returns keys inside subdirectories: add the subdirectory.
                directories.add(name)
            elif name:
                # An empty name is the directory's own marker object, which is not an entry.
                files.append(Entry(child_location(directory, name), EntryKind.FILE, size, modified_ms, etag))
        directories.update(prefix[start:].partition("/")[0] for prefix in page.prefixes)
        if page.next is None:
            break
        begin = page.next
    if not exists:
        raise location_not_found(directory)
    made = (child_location(directory, name) for name in directories if name)
    return files + [Entry(place, EntryKind.DIRECTORY, 0, 0) for place in made]


_KEYS_A_LANE = 125
"""The number of keys that one thread looks up: if the keys are scattered, each may take a request."""


def find_objects(keys: Keys, wanted: Sequence[Location], threads: int) -> dict[Location, Entry]:
    """Return the objects that exist at the locations, which are all in one bucket.

    Raises:
        LocationNotFoundError: The bucket does not exist.
        StorageError: The store refuses, does not answer, or gives a wrong answer.
    """
    lanes = list(batched(sorted({place.key for place in wanted}), _KEYS_A_LANE))
    bucket = wanted[0].bucket

    def find(lane: Sequence[str]) -> dict[Location, Entry]:
        return _find_lane(keys, bucket, lane)

    found: dict[Location, Entry] = {}
    for some in in_parallel(find, lanes, threads):
        found.update(some)
    return found


def _find_lane(keys: Keys, bucket: str, lane: Sequence[str]) -> dict[Location, Entry]:
    below = Location("s3a", bucket, _common_directory(lane[0], lane[-1]))
    found: dict[Location, Entry] = {}
    looked_for, position = set(lane), 0
    after = _before(lane[0])
    begin: str | None = None
    while position < len(lane):
        page = keys.page(below, whole=True, begin=begin, after=after)
        for key, size, modified_ms, etag in page.keys:
            if key in looked_for:
                place = Location("s3a", bucket, key)
                found[place] = Entry(place, EntryKind.FILE, size, modified_ms, etag)
        if page.next is None or not page.keys:
            break
        last = page.keys[-1][0]
        position = max(position, bisect_right(lane, last))
        # This store ignores ``StartAfter``. Read on from the first key, page by page.
        if begin is not None or last <= after:
            begin = page.next
        # Continue at least after the last returned key: more than a page of other keys may be between it and the next
        # wanted one.
        after = max(last, _before(lane[position])) if position < len(lane) else last
    return found


def _common_directory(first: str, last: str) -> str:
    """Return the directory that contains two keys, and so all keys that are sorted between them."""
    parts = []
    for one, other in zip(first.split("/")[:-1], last.split("/")[:-1], strict=False):
        if one != other:
            break
        parts.append(one)
    return "/".join(parts)


def _before(key: str) -> str:
    """Return a text that S3 sorts shortly before a key, with few other keys in between."""
    return key[:-1]
