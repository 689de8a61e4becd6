"""Decides whether a file on the store is the one that the index recorded.

Other engines may reuse a file's name. Names that this catalog gives contain a transaction's id and are used once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import transaction_id_in

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import DataFile


def _is_own(path: str) -> bool:
    return transaction_id_in(path.rpartition("/")[2]) is not None


def indexed_file(path: str, file: DataFile) -> Removal:
    """Return a file of the index, by a path or URI, in the form that is compared with the store's files.

    The modification time is left out for files on S3 that a write of this catalog made: the index has only the commit's
    time for them.
    """
    has_own_time = file.etag is None or not _is_own(path)
    return Removal(path, file.size, file.modified_ms if has_own_time else None, file.etag)


def is_same(recorded: Removal, size: int, modified_ms: int, etag: int | None) -> bool:
    """Return whether the file now at the recorded path, with this size, time and ETag, is the recorded file.

    For a name with a transaction's id only the ETag is compared, if it is known, because users may rewrite such files
    in place or restore them. Without an ETag the name alone decides: the index may have another time for the file than
    the store.
    """
    if recorded.etag is None and _is_own(recorded.path):
        return True
    return recorded.is_still(size, modified_ms, etag)


def has_only_its_name(recorded: Removal) -> bool:
    """Return whether only the URI identifies the recorded file: an S3 object of this catalog without a known ETag.

    The index has only the commit's time for such an object. On other stores a write reads the times of its files.
    """
    return recorded.etag is None and recorded.path.startswith("s3a:") and _is_own(recorded.path)


def is_unchanged(recorded: Removal, size: int, modified_ms: int | None, etag: int | None) -> bool:
    """Return whether a file that was recorded by its URI is unchanged, as far as its size, time and ETag were recorded.

    This also compares files whose names contain a transaction's id.
    """
    return has_only_its_name(recorded) or recorded.is_still(size, modified_ms, etag)


def has_recorded_content(recorded: Removal, size: int, modified_ms: int | None, etag: int | None) -> bool:
    """Return whether the file at the recorded path can still be read as the recorded one.

    Unlike ``is_unchanged``, this also compares the size of a file that only its name identifies.
    """
    return recorded.size == size and is_unchanged(recorded, size, modified_ms, etag)
