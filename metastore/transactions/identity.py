"""Compares what lies on the store with files that were recorded."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.file_identity import is_same
from catalog_ext.metastore.commit.file_identity import is_unchanged as is_as_recorded

if TYPE_CHECKING:
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.storage.entries import Entry


def is_unchanged(there: Entry, recorded: Removal) -> bool:
    """Return whether a file is as it was recorded, in size, time and ETag, as far as they were known."""
    placed = replace(recorded, path=str(there.location))
    return is_as_recorded(placed, there.size, there.modified_ms, there.etag)


def is_same_file(there: Entry, recorded: Removal) -> bool:
    """Return whether what is at a place now is the file that was recorded there, whatever any clock says."""
    placed = replace(recorded, path=str(there.location))
    return is_same(placed, there.size, there.modified_ms, there.etag)
