"""Compares what lies on the store with files that were recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.file_identity import is_same
from catalog_ext.metastore.commit.transaction import transaction_id_in

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location


def has_own_name(file: Location) -> bool:
    """Return whether no other write gives a file that name again: people alone put another one there."""
    return transaction_id_in(file.name) is not None


def has_no_own_time(recorded: Removal, file: Location) -> bool:
    """Return whether nothing but the name says which file was recorded: an object of ours without a known ETag.

    The index has the time of the commit for it. On other stores a write asks for the times of its files.
    """
    return file.scheme == "s3a" and recorded.etag is None and has_own_name(file)


def is_unchanged(there: Entry, recorded: Removal) -> bool:
    """Return whether a file is as it was recorded, in size, time and ETag, as far as they were known."""
    if has_no_own_time(recorded, there.location):
        return True
    return recorded.is_still(there.size, there.modified_ms, there.etag)


def is_same_file(there: Entry, recorded: Removal) -> bool:
    """Return whether what is at a place now is the file that was recorded there, whatever any clock says."""
    return is_same(recorded, there.size, there.modified_ms, there.etag)
