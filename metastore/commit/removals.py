"""Files that commits take away, and which file is which.

Other engines give names again; ours, which carry their transaction's id, are given once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from catalog_ext.metastore.commit.transaction import transaction_id_in
from catalog_ext.metastore.model.etags import same_etag
from catalog_ext.metastore.model.modification_times import same_time

if TYPE_CHECKING:
    from catalog_ext.metastore.model.tables import DataFile


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to delete, as it was when that was decided: other engines write the same names again.

    Attributes:
        path: Its name in the partition's directory (in plans), or its absolute URI; that of a directory, to be removed
            once it is empty, ends with a slash.
        size: Bytes; None where it was not recorded (directories, files whose name decides).
        modified_ms: Milliseconds since 1970; None where it was not recorded, as of a policy's success file.
        etag: The hash of the object's ETag (``etag_hash``); None where it was not known, or the store has none.
    """

    path: str
    size: int | None = None
    modified_ms: int | None = None
    etag: int | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.path.endswith("/")

    @property
    def is_marker(self) -> bool:
        """Whether it is the empty file of a policy, of which a partition that is made again has one of its own."""
        return (self.size, self.modified_ms, self.etag) == (0, None, None)

    def is_still(self, size: int, modified_ms: int | None, etag: int | None) -> bool:
        """Return whether a file of this size, time and ETag is the one that was to be deleted.

        What is not known of it, there or here, makes no difference.
        """
        known = self.size in (None, size) and same_time(self.modified_ms, modified_ms)
        return known and same_etag(self.etag, etag)


RemovalJson: TypeAlias = "str | list[str | int | None]"


def removal_to_json(removal: Removal) -> RemovalJson:
    """Return the removal as a JSON value: its path alone where nothing more is known."""
    if removal.size is None and removal.modified_ms is None and removal.etag is None:
        return removal.path
    known = [removal.path, removal.size, removal.modified_ms]
    return known if removal.etag is None else [*known, removal.etag]


def removal_from_json(value: RemovalJson) -> Removal:
    """Return the removal that ``removal_to_json`` wrote."""
    return Removal(value) if isinstance(value, str) else Removal(*value)  # type: ignore[arg-type]


def _is_own(path: str) -> bool:
    return transaction_id_in(path.rpartition("/")[2]) is not None


def indexed_file(path: str, file: DataFile) -> Removal:
    """Return a file of the index, by a path or URI, to be compared with the store's.

    A write does not ask S3 for the times of its files: the index has the time of the commit, which is left out.
    """
    has_own_time = file.etag is None or not _is_own(path)
    return Removal(path, file.size, file.modified_ms if has_own_time else None, file.etag)


def is_same(recorded: Removal, size: int, modified_ms: int, etag: int | None) -> bool:
    """Return whether what has the recorded file's path now, of this size, time and ETag, is that file.

    A name that carries a transaction's id is compared where its ETag is known: people rewrite such files in place and
    bring them back. Without an ETag the index may have another time for the file than the store, so the name decides.
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
