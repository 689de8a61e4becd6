"""Which file is which: other engines give names again; ours, which carry their transaction's id, are given once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import transaction_id_in

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import DataFile


def _is_own(path: str) -> bool:
    return transaction_id_in(path.rpartition("/")[2]) is not None


def indexed_file(path: str, file: DataFile) -> Removal:
    """Return a file of the index, by a path or URI, to be compared with the store's.

    A write does not ask S3 for the times of its files: the index has the time of the commit, which is left out.
    """
    has_own_time = file.etag is None or not _is_own(path)
    return Removal(path, file.size, file.modified_ms if has_own_time else None, file.etag)


def is_same(recorded: Removal, size: int, modified_ms: int, etag: int | None) -> bool:
    """Return whether the file now at the recorded path, with this size, time and ETag, is the recorded file.

    A name with a transaction's id is compared only if its ETag is known: users rewrite such files in place and bring
    them back. Without an ETag the index may have another time for the file than the store, so the name decides.
    """
    if recorded.etag is None and _is_own(recorded.path):
        return True
    return recorded.is_still(size, modified_ms, etag)


def has_only_its_name(recorded: Removal) -> bool:
    """Return whether nothing but the URI says which file was recorded: an object of ours without a known ETag.

    The index has the time of the commit for it. On other stores a write asks for the times of its files.
    """
    return recorded.etag is None and recorded.path.startswith("s3a:") and _is_own(recorded.path)


def is_unchanged(recorded: Removal, size: int, modified_ms: int | None, etag: int | None) -> bool:
    """Return whether a file, recorded by its URI, is as it was recorded, also one of ours, as far as that was known."""
    return has_only_its_name(recorded) or recorded.is_still(size, modified_ms, etag)
