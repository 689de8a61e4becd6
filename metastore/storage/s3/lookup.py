"""Finds objects by their keys with few requests: a LIST that begins at one key answers for those after it, too.

A HEAD a file would be a thousand requests for what an overwrite of a thousand files has replaced. The keys are sorted
as S3 sorts them, and each page of a listing answers for at least one of them.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.storage.entries import Entry, EntryKind
from catalog_ext.metastore.storage.locations import Location
from catalog_ext.metastore.storage.parallel import in_parallel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog_ext.metastore.storage.s3.keys import Keys

_KEYS_A_LANE = 125
"""Keys that one thread looks for: of files that lie scattered, each may take a request."""


def find_objects(keys: Keys, wanted: Sequence[Location], threads: int) -> dict[Location, Entry]:
    """Return those of the locations, all in one bucket, at which an object is.

    Raises:
        LocationNotFoundError: The bucket does not exist.
        StorageError: The store refuses, does not answer or answers something else.
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
        # A store that does not begin where it is asked to is read on from the first key, page after page.
        if begin is not None or last <= after:
            begin = page.next
        # More than a page of other keys may lie between a key and the text before it.
        after = max(last, _before(lane[position])) if position < len(lane) else last
    return found


def _common_directory(first: str, last: str) -> str:
    """Return the directory that two keys lie in, and with them all keys that are sorted between them."""
    parts = []
    for one, other in zip(first.split("/")[:-1], last.split("/")[:-1], strict=False):
        if one != other:
            break
        parts.append(one)
    return "/".join(parts)


def _before(key: str) -> str:
    """Return a text that S3 sorts before a key, and few other keys between them."""
    return key[:-1]
