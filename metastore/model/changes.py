"""Changes to a table's contents as values: repair previews them, the index applies them, and the metastore follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.descriptors import PartitionDescriptor
    from catalog_ext.metastore.model.tables import DataFile

Summary: TypeAlias = "Mapping[str, str | int | Mapping[str, str] | None]"
"""What the history says of a commit: counts, and circumstances that the committer gave (``docs/spec/index.md``)."""

FROM_METASTORE = "metastore"
"""The summary's ``source`` of a version that was taken from the metastore, which need not hear of it."""


@dataclass(frozen=True, slots=True)
class AddPartition:
    """A partition appears, with its files.

    Attributes:
        name: The partition's name, ``''`` in an unpartitioned table.
        location: Absolute URI where it is not at ``<table location>/<name>``, else None.
        in_metastore: False when the metastore cannot represent it (``k=``, or the twin of an equal value).
        descriptor: How its files are read, where that is not as its table's; None where it is.
    """

    name: str
    files: tuple[DataFile, ...]
    location: str | None = None
    in_metastore: bool = True
    descriptor: PartitionDescriptor | None = None


@dataclass(frozen=True, slots=True)
class DropPartition:
    """A partition and its files leave the table; nothing is deleted on the store."""

    name: str


@dataclass(frozen=True, slots=True)
class ReplaceFiles:
    """Files of a known partition come and go; a file that changed is both removed and added.

    Attributes:
        removed: Paths relative to the partition's directory.
        location: Absolute URI that the partition moves to; None when it stays where it is.
        redescribed: Whether it is read otherwise from now on: by ``descriptor``, or without one as its table. What is
            known of its files' rows and columns is forgotten.
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
        version: The table's version that it made, or the unchanged one when there was nothing to do.
        deliveries: How many messages for the metastore it put into the outbox.
    """

    version: int
    partitions_added: int = 0
    partitions_dropped: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    deliveries: int = 0
