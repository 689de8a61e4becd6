"""The values of the domain: namespaces, tables, partitions and files, as all parts of catalog-ext exchange them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from catalog_ext.metastore.backports import StrEnum
from catalog_ext.metastore.model.properties import property_value
from catalog_ext.metastore.model.types import DataType, parse_type
from catalog_ext.metastore.model.values import Key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.identifiers import TableIdentifier


class TableType(StrEnum):
    """The table type: dropping a MANAGED table deletes its files, dropping an EXTERNAL one does not."""

    MANAGED = "MANAGED"
    EXTERNAL = "EXTERNAL"
    VIEW = "VIEW"
    """A view, which has no files (``catalog_ext.metastore.model.views``); views and tables share one set of names."""


class PartitionMode(StrEnum):
    """The visibility of partition columns: ``SELECT *`` hides ``VIRTUAL`` ones (``docs/spec/semantics.md``)."""

    VIRTUAL = "virtual"
    DECLARED = "declared"


FORMATS = ("parquet", "orc", "csv", "json", "text")
"""The file formats that a table can have, by Spark's names."""

PARTITION_MODE_PROPERTY = "partition-columns"
"""The table property that holds the ``PartitionMode``."""


BUCKETED_BY_PROPERTY = "bucketed-by"
"""The table property that describes the bucketing of an imported table; such a table is read-only."""


LOCATION_WILDCARDS_PROPERTY = "location-wildcards"
"""The table property that is ``true`` if the location is a pattern with wildcards; such a table is read-only."""


def stated_mode(properties: Mapping[str, str]) -> PartitionMode | None:
    """Return the partition mode that a table's properties state; None if they do not state one."""
    text = property_value(properties, PARTITION_MODE_PROPERTY)
    if text is None:
        return None
    # Treat other texts as the default mode: an imported table has Hive's parameters, which may hold any text under this
    # key.
    return PartitionMode.DECLARED if text.strip().lower() == PartitionMode.DECLARED else PartitionMode.VIRTUAL


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``type`` is a canonical type string (``str(catalog_ext.metastore.model.types.DataType)``).

    Attributes:
        nullable: Whether a write may leave the column NULL; a read returns whatever the files hold.
        default: Spark's SQL text of the value that an INSERT without the column writes.
        existing_default: Spark's SQL text of the column's value in files that are older than the column.
        statistics_after: The version after which statistics in files under the column's name describe this column;
            statistics of older files may describe another column, of another type. None if all files' statistics
            describe it. The index sets this.
    """

    name: str
    type: str
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    existing_default: str | None = None
    statistics_after: int | None = field(default=None, compare=False)

    @property
    def data_type(self) -> DataType:
        """The parsed type."""
        return parse_type(self.type)


@dataclass(frozen=True, slots=True)
class Namespace:
    """A database of tables."""

    name: str
    location: str | None = None
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The definition of a table, without its contents.

    Attributes:
        location: Canonical absolute URI (``s3a://bucket/key`` or ``file:///path``), without a slash at its end.
        columns: The columns stored in files, without the partition columns.
        options: Spark's reader options of the format.
        properties: Settings of the table, including the metastore's parameters.
    """

    identifier: TableIdentifier
    table_type: TableType
    format: str
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    owner: str = ""

    @property
    def partition_mode(self) -> PartitionMode:
        """The visibility of the partition columns: virtual (the default) or declared."""
        return stated_mode(self.properties) or PartitionMode.VIRTUAL

    @property
    def bucketed_by(self) -> str | None:
        """A description of the table's bucketing (``id into 4 buckets``); None if the table is not bucketed."""
        return property_value(self.properties, BUCKETED_BY_PROPERTY)

    @property
    def has_wildcards(self) -> bool:
        """Whether the location is a pattern (``catalog_ext.metastore.storage.patterns``) rather than a directory."""
        return property_value(self.properties, LOCATION_WILDCARDS_PROPERTY) is not None

    @property
    def keys(self) -> tuple[Key, ...]:
        """The partition columns as predicates see them."""
        return tuple(Key(i, c.name, c.data_type) for i, c in enumerate(self.partition_columns))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a table's partitions at one version; ``rows`` is None unless every file's row count is known."""

    partitions: int = 0
    files: int = 0
    bytes: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A registered table at one version.

    Attributes:
        deleted_before_version: The version of a deferred bulk delete; 0 without a bulk delete. It ended all partitions
            and files that began before it, although their rows in the index may not say so yet. It is the table's
            present value, also if ``version`` is an older version.
        has_descriptors: Whether the table has, or had, partitions with descriptors that differ from the table's.
    """

    table_id: int
    definition: TableDefinition
    version: int
    totals: Totals
    created_at_ms: int
    deleted_before_version: int = 0
    has_descriptors: bool = False

    @property
    def identifier(self) -> TableIdentifier:
        """The table's name."""
        return self.definition.identifier

    @property
    def begins_at(self) -> int:
        """The lowest begin version of visible rows: a bulk delete has ended older rows. 0 without a bulk delete."""
        return self.deleted_before_version if self.version >= self.deleted_before_version else 0

    def directory(self, partition: str, location: str | None = None) -> str:
        """Return the absolute URI of a partition's directory; ``location`` is the partition's own one, if any."""
        root = self.definition.location
        return location or (f"{root}/{partition}" if partition else root)

    def directory_of(self, partition: Partition) -> str:
        """Return the absolute URI of a partition's directory."""
        return self.directory(partition.name, partition.location)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """The statistics of one column in one file: bounds as canonical text, and the count of NULLs.

    A value of None is unknown: a query then cannot skip the file, or be answered from the statistics. A column with
    only NULLs has no bounds either.

    Attributes:
        after: ``Column.statistics_after`` of the column at the time when the file was written.
    """

    minimum: str | None = None
    maximum: str | None = None
    nulls: int | None = None
    after: int | None = None

    def contradicts(self, rows: int | None) -> bool:
        """Return whether the statistics are impossible for a file of so many rows; False if ``rows`` is None."""
        if self.nulls is None or rows is None:
            return False
        has_bounds = self.minimum is not None or self.maximum is not None
        return not 0 <= self.nulls <= rows or (self.nulls == rows and has_bounds)


def consistent(statistics: Mapping[str, ColumnStatistics], rows: int | None) -> dict[str, ColumnStatistics]:
    """Return the column statistics that are possible for a file of this row count; impossible ones are left out."""
    return {name: column for name, column in statistics.items() if not column.contradicts(rows)}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file directly in a partition's directory.

    Attributes:
        path: The file's name, relative to the partition's directory, in the store's spelling.
        size: Bytes.
        modified_ms: Milliseconds since the epoch, UTC.
        rows: The exact row count, or None if the rows were not counted.
        statistics: Bounds and NULL counts by column, or None if they are unknown.
        etag: The hash of the object's ETag (``etag_hash``); None if it is unknown, or the store has none.
        file_id: The file's number in its partition; None before the file is registered. Equality ignores it.
    """

    path: str
    size: int
    modified_ms: int
    rows: int | None = None
    statistics: Mapping[str, ColumnStatistics] | None = None
    etag: int | None = None
    file_id: int | None = field(default=None, compare=False)


class Partition(NamedTuple):
    """The state of a partition from one version of its table to another.

    A named tuple, because a statement may create a million of them, and a frozen dataclass takes five times as long.

    Attributes:
        name: The directory string, relative to the table; ``''`` for an unpartitioned table.
        location: Absolute URI if it differs from ``<table location>/<name>``, else None.
        begin_version: The version that last changed the partition.
        end_version: The version that changed or dropped this state; the index's constant ``ALIVE`` for the present
            state.
        in_metastore: Whether the partition is published to the metastore if the table is.
        files: The number of files.
        bytes: The bytes of all files.
        rows: The rows of all files; None unless every file's row count is known.
        descriptor: The number of the partition's own descriptor within the table; None if it is read like the table.
        created_at_ms: The time of the commit that added the partition, in milliseconds since the epoch, UTC.
        keys: The partition's values encoded for ordering in the index (``encode_key``), padded with None to the number
            of the index's key columns.
    """

    partition_id: int
    name: str
    location: str | None
    begin_version: int
    end_version: int
    in_metastore: bool
    files: int
    bytes: int
    rows: int | None
    descriptor: int | None
    created_at_ms: int
    keys: tuple[str | None, ...]
