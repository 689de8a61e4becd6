"""Files that a commit removes from the table, and that are deleted from the store after the commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from catalog_ext.metastore.model.etags import same_etag, same_time


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to delete, with its state when the deletion was decided, because other engines may reuse its name.

    Attributes:
        path: The file's name in the partition's directory (in plans), or its absolute URI. A path that ends with a
            slash is a directory, which is removed when it is empty.
        size: Bytes; None if it was not recorded (directories, files identified by name).
        modified_ms: Milliseconds since 1970; None if it was not recorded, as for a policy's success file.
        etag: The hash of the object's ETag (``etag_hash``); None if it was not known, or the store has none.
    """

    path: str
    size: int | None = None
    modified_ms: int | None = None
    etag: int | None = None

    @property
    def is_directory(self) -> bool:
        """Whether the removal is a directory."""
        return self.path.endswith("/")

    @property
    def is_marker(self) -> bool:
        """Whether the removal is the empty file by which a policy marks a complete partition."""
        return (self.size, self.modified_ms, self.etag) == (0, None, None)

    def is_still(self, size: int, modified_ms: int | None, etag: int | None) -> bool:
        """Return whether a file of this size, time and ETag is the file to delete.

        A size, time or ETag that the removal or the caller does not know counts as equal.
        """
        known = self.size in (None, size) and same_time(self.modified_ms, modified_ms)
        return known and same_etag(self.etag, etag)


RemovalJson: TypeAlias = "str | list[str | int | None]"


def removal_to_json(removal: Removal) -> RemovalJson:
    """Return the removal as a JSON value: only its path if nothing else is recorded."""
    if removal.size is None and removal.modified_ms is None and removal.etag is None:
        return removal.path
    known = [removal.path, removal.size, removal.modified_ms]
    return known if removal.etag is None else [*known, removal.etag]


def removal_from_json(value: RemovalJson) -> Removal:
    """Return the removal from the JSON value of ``removal_to_json``."""
    return Removal(value) if isinstance(value, str) else Removal(*value)  # type: ignore[arg-type]
