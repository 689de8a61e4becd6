"""Files that tasks have written and that readers do not see before the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import ColumnStatistics

FILES_AT_ONCE = 5000
"""The number of a transaction's files that a step holds in memory at a time."""


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part of a multipart upload, with the store's ``checksums`` by boto3's names (``ChecksumCRC32C``)."""

    number: int
    etag: str
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload to the file's final key that is not completed yet."""

    upload_id: str
    parts: tuple[UploadedPart, ...]


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task has written and that readers do not see before the commit.

    Attributes:
        partition: The partition's name (``''`` in an unpartitioned table).
        name: The file's final name in the partition's directory; it contains the transaction's id.
        size: Bytes.
        rows: The exact row count.
        statistics: By column name, if the format has statistics.
        upload: On S3, the upload to complete.
        source: The absolute URI of an existing file, of this or another table, that a partition command moves.
        modified_ms: When the source was modified, in milliseconds since 1970; None if it was not recorded.
        etag: The hash of the source's ETag (``etag_hash``), if a listing of S3 has returned it.
    """

    partition: str
    name: str
    size: int
    rows: int | None = None
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    upload: Upload | None = None
    source: str | None = None
    modified_ms: int | None = None
    etag: int | None = None


class StoredFile(NamedTuple):
    """The store's data about a file that has its final name; None for data that was not requested or is unknown.

    Attributes:
        modified_ms: Last modification, in milliseconds since 1970.
        etag: The hash of an object's ETag.
    """

    modified_ms: int | None = None
    etag: int | None = None
