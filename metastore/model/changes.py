"""Changes to a table's contents as values: repairs preview them, the index applies them, the outbox publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import DataFile

Summary: TypeAlias = "Mapping[str, str | int | Mapping[str, str] | None]"
"""The summary of a commit in the table's history: counts, and details from the committer (``docs/spec/index.md``)."""

FROM_METASTORE = "metastore"
"""The summary's ``source`` of a version that was imported from the metastore, and is not published back."""


@dataclass(frozen=True, slots=True)
class AddPartition:
    """A partition is added, with its files.

    Attributes:
        name: The partition's name, ``''`` in an unpartitioned table.
        location: Absolute URI if it differs from ``<table location>/<name>``, else None.
        in_metastore: False if the metastore cannot represent the partition: a value is empty, or another partition of
            the table has equal values there.
        descriptor: The partition's own format and columns; None if its files are read like the table's.
    """

    name: str
    files: tuple[DataFile, ...]
    location: str | None = None
    in_metastore: bool = True
    descriptor: PartitionDescriptor | None = None


@dataclass(frozen=True, slots=True)
class DropPartition:
    """A partition and its files are removed from the index; nothing is deleted on the store."""

    name: str


@dataclass(frozen=True, slots=True)
class ReplaceFiles:
    """Files of a registered partition are added and removed; a changed file is both removed and added.

    Attributes:
        removed: Paths relative to the partition's directory.
        location: Absolute URI of the partition's new directory; None if the directory stays.
        redescribed: Whether the partition gets another format or other columns: those of ``descriptor``, or (None) the
            table's. The row counts and column statistics of the files are then forgotten.
    """

    name: str
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    location: str | None = None
    redescribed: bool = False
    descriptor: PartitionDescriptor | None = None


Change: TypeAlias = AddPartition | DropPartition | ReplaceFiles


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """The outcome of one commit to the index.

    Attributes:
        version: The new version of the table; the unchanged one if there was nothing to do.
        deliveries: The number of messages for the metastore that were put into the outbox.
    """

    version: int
    partitions_added: int = 0
    partitions_dropped: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    deliveries: int = 0
