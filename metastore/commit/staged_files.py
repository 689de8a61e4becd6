"""Files that tasks have written and that no reader sees yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import ColumnStatistics

FILES_AT_ONCE = 5000
"""Files of a transaction that a step holds in memory at a time."""


@dataclass(frozen=True, slots=True)
class UploadedPart:
    """A part of a multipart upload; ``checksums`` by boto3's names (``ChecksumCRC32C``) where the store gave some."""

    number: int
    etag: str
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload to the file's final key that is not completed."""

    upload_id: str
    parts: tuple[UploadedPart, ...]


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task has written and that no reader sees yet.

    Attributes:
        partition: The partition's name (``''`` in an unpartitioned table).
        name: Its final name in the partition's directory; it contains the transaction's id.
        size: Bytes.
        rows: Exact count.
        statistics: By column name, where the format has them.
        upload: On S3, the upload to complete.
        source: Absolute URI of a file of the table (or of another one) that a partition command moves.
        modified_ms: When the source was modified, in milliseconds since 1970; None where it was not recorded.
        etag: The hash of the source's ETag (``etag_hash``), where a listing of S3 has given it.
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
    """What the store says about a file that has its final name; None where it was not asked, or does not say.

    Attributes:
        modified_ms: Last modification, in milliseconds since 1970.
        etag: The hash of an object's ETag.
    """

    modified_ms: int | None = None
    etag: int | None = None
