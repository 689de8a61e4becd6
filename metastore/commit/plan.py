"""Transactions as values; ``docs/spec/commit-protocol.md`` says what they mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.model.tables import Table, TableDefinition


class State(StrEnum):
    """The states of a transaction."""

    OPEN = "open"
    RESERVED = "reserved"
    COMMITTED = "committed"
    FINISHED = "finished"
    ABORTING = "aborting"
    ABORTED = "aborted"


class WriteKind(StrEnum):
    """What a write does to the partitions that it touches.

    ``OVERWRITE_PARTITIONS`` replaces those that receive rows, ``OVERWRITE`` those that a predicate is true for; without
    new files the latter is DELETE and, with ``WritePlan.keep_emptied``, TRUNCATE.
    """

    APPEND = "append"
    OVERWRITE_PARTITIONS = "overwrite_partitions"
    OVERWRITE = "overwrite"
    CREATE = "create"
    REPLACE = "replace"
    CREATE_OR_REPLACE = "create_or_replace"
    ADD_PARTITIONS = "add_partitions"
    DROP_PARTITIONS = "drop_partitions"
    RENAME_PARTITION = "rename_partition"
    RELOCATE_PARTITION = "relocate_partition"
    EXCHANGE_PARTITIONS = "exchange_partitions"


COMMANDS = frozenset((
    WriteKind.ADD_PARTITIONS, WriteKind.DROP_PARTITIONS, WriteKind.RENAME_PARTITION, WriteKind.RELOCATE_PARTITION,
    WriteKind.EXCHANGE_PARTITIONS,
))  # fmt: skip
"""Kinds that are partition commands: nobody stages new rows for them."""


class Promotion(StrEnum):
    """How a staged file gets its final name."""

    RENAME = "rename"
    UPLOAD = "upload"


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
class ColumnStatistics:
    """Of one column in one file: bounds as canonical text (None: not known, or all NULL) and the count of NULLs."""

    minimum: str | None = None
    maximum: str | None = None
    nulls: int | None = None


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task has written and nobody can see.

    Attributes:
        partition: The partition's name (``''`` in an unpartitioned table).
        name: Its final name in the partition's directory; it contains the transaction's id.
        size: Bytes.
        rows: Exact count.
        statistics: By column name, where the format has them.
        upload: On S3, the upload to complete.
        source: Absolute URI of a file of the table (or of another one) that a partition command moves.
    """

    partition: str
    name: str
    size: int
    rows: int | None = None
    statistics: Mapping[str, ColumnStatistics] = field(default_factory=dict)
    upload: Upload | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What a transaction is for; kept with it, so that whoever recovers it knows all that its owner did.

    Attributes:
        location: The table's location, canonical.
        staging: Name of the staging directory (no slash).
        base: Directory under which new partition directories lie: the table's, or that of a relocating overwrite.
        promotion: By rename or by completing uploads.
        predicate: Of ``OVERWRITE``: the contract's JSON predicate, None for the whole table.
        keep_emptied: Whether partitions that an ``OVERWRITE`` leaves without files stay registered.
        keep: Name of the fully static partition that stays (or becomes) registered also without rows.
        relocate: Whether an overwrite moves partitions to ``base``.
        locations: Directories of partitions that are not under ``base``, by name: all of the table's until ``reserve``,
            then of those that the write touches.
        lease_ms: How long the owner may give no sign of life.
        definition: Of ``CREATE`` and ``REPLACE``: the table, as ``definition_to_dict`` has it.
        created_location: Whether the table's directory was made for this transaction.
        takes_in: Visible files found in the directories of new partitions, by partition, to be added by an append.
        removes: Visible files unknown to the index in overwritten directories, by partition, to be deleted.
        partition_commit: The partition-commit options that hold for this write (``partition_commit.chosen_options``).
        announces: From ``reserve`` on, the partitions that get files and have policies to run for them.
        waiting: Partitions whose staged files are not added by the commit, but kept back in ``waiting_files``.
        due: Partitions whose files of ``waiting_files``, left by earlier epochs of the same application, are added by
            the commit.
        command: Of a partition command, what it does, as
            ``catalog_ext.metastore.transactions.partition_commands`` says.
        moves: Of a partition command from ``reserve`` on, whether its staged files are moved from their sources.
    """

    kind: WriteKind
    location: str
    staging: str
    base: str
    promotion: Promotion
    predicate: Any = None
    keep_emptied: bool = False
    keep: str | None = None
    relocate: bool = False
    locations: Mapping[str, str] = field(default_factory=dict)
    lease_ms: int = 600_000
    definition: Mapping[str, Any] | None = None
    created_location: bool = False
    takes_in: Mapping[str, tuple[tuple[str, int, int], ...]] = field(default_factory=dict)
    removes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partition_commit: Mapping[str, str] = field(default_factory=dict)
    announces: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    due: tuple[str, ...] = ()
    command: Mapping[str, Any] = field(default_factory=dict)
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    """A row of ``transactions``.

    Attributes:
        table_id: None until the commit that creates the table.
        table: ``namespace.name``, for people and for creation.
        operation: What the user did (``INSERT``, ``CTAS``, ``STREAMING`` …), for the history.
        base_version: The version that the statement read.
        version: The version that the commit made.
        outcome: ``WriteOutcome`` as JSON values, from the commit on.
    """

    transaction_id: str
    table_id: int | None
    table: str
    operation: str
    state: State
    owner: str
    base_version: int
    began_at_ms: int
    expires_at_ms: int
    plan: WritePlan
    ended_at_ms: int | None = None
    app_id: str | None = None
    app_version: int | None = None
    version: int | None = None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class BeginWrite:
    """The request for a transaction.

    Attributes:
        table: The table at the version that the statement read; None where it is created.
        definition: Of ``CREATE`` and ``REPLACE``, whole and checked.
        options: The write's own options, which go before the table's properties.
        command: Of a partition command.
    """

    kind: WriteKind
    operation: str
    owner: str
    table: Table | None = None
    definition: TableDefinition | None = None
    predicate: Any = None
    keep_emptied: bool = False
    app_id: str | None = None
    app_version: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    command: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BegunWrite:
    """What a writer has to know.

    Attributes:
        duplicate: Whether the application's version is committed already; there is no transaction then.
        partition_locations: Directories of the partitions that are not under ``plan.base``, by name.
        lease_ms: A heartbeat is due at a third of it.
    """

    transaction_id: str
    plan: WritePlan
    partition_locations: Mapping[str, str]
    lease_ms: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did.

    Attributes:
        version: The table's version that shows it; of a duplicate, the version that the first one made.
        rows: Rows written.
        bytes: Bytes written.
        waiting: Partitions whose files are kept back until they are due (``sink.partition-commit.trigger``).
        pending_deliveries: Messages that the metastore has not taken yet.
        commit_ms: From the call of ``commit`` to its end, without the metastore.
    """

    transaction_id: str
    table_id: int
    table: str
    operation: str
    version: int
    partitions_added: int = 0
    partitions_removed: int = 0
    partitions_changed: int = 0
    files_added: int = 0
    files_removed: int = 0
    rows: int = 0
    bytes: int = 0
    waiting: int = 0
    duplicate: bool = False
    pending_deliveries: int = 0
    commit_ms: int = 0
