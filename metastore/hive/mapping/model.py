"""What a Hive Metastore holds, in our own words; thrift's types stay inside ``hive.thrift``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from catalog_ext.metastore.model.partition_names import escape_path_name
from catalog_ext.metastore.model.secrets import drop_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog_ext.metastore.model.tables import Column

EXTERNAL_TABLE = "EXTERNAL_TABLE"
MANAGED_TABLE = "MANAGED_TABLE"
VIRTUAL_VIEW = "VIRTUAL_VIEW"
MATERIALIZED_VIEW = "MATERIALIZED_VIEW"


@dataclass(frozen=True, slots=True)
class HiveDatabase:
    """A database (namespace); ``location`` None lets the metastore choose one in its warehouse."""

    name: str
    location: str | None = None
    comment: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HiveStorage:
    """The part of a storage descriptor, common to tables and partitions, that determines how files are read.

    Attributes:
        serde: Java class that reads rows.
        serde_parameters: Its settings; for Spark's tables also the reader's options.
        bucket_columns: Kept unchanged: bucketed tables are read, and not written.
        bucket_count: -1 or 0 for none.
        skewed_columns: The columns of ``SKEWED BY``, by whose frequent values Hive divides rows; kept unchanged.
        skewed_directories: Whether rows with these values lie in separate directories.
    """

    input_format: str
    output_format: str
    serde: str
    serde_parameters: Mapping[str, str] = field(default_factory=dict)
    bucket_columns: tuple[str, ...] = ()
    bucket_count: int = -1
    skewed_columns: tuple[str, ...] = ()
    skewed_directories: bool = False

    @property
    def settings(self) -> dict[str, str]:
        """The settings that determine how files are read, without secrets and the path, which Spark repeats here."""
        return {name: value for name, value in drop_secrets(self.serde_parameters).items() if name != "path"}


@dataclass(frozen=True, slots=True)
class HiveTable:
    """A table as the metastore has it; column types are Hive's type strings.

    Attributes:
        table_type: ``EXTERNAL_TABLE``, ``MANAGED_TABLE``, ``VIRTUAL_VIEW``, …
        location: Absolute URI; ``''`` for views.
        view_original_text: A view's query as it was written; None for tables.
        view_expanded_text: A view's query as engines run it.
    """

    database: str
    name: str
    table_type: str
    location: str
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...]
    storage: HiveStorage
    parameters: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    view_original_text: str | None = None
    view_expanded_text: str | None = None

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def comment(self) -> str | None:
        """The table's comment, which the metastore keeps among the parameters."""
        return self.parameters.get("comment")

    def name_of(self, values: Sequence[str]) -> str:
        """Return the metastore's own name of the partition with these values."""
        return metastore_name((column.name for column in self.partition_columns), values)


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition; it has the table's storage unless it has its own.

    Attributes:
        values: Unescaped values in the order of the keys; NULL is the default partition's name.
        location: Absolute URI; ``''`` for a view's, which has no storage descriptor.
        columns: The columns of its own descriptor, read without comments; they are written only with its own storage.
    """

    values: tuple[str, ...]
    location: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    storage: HiveStorage | None = None
    columns: tuple[Column, ...] = field(default=(), compare=False)


def metastore_name(keys: Iterable[str], values: Sequence[str]) -> str:
    """Return the metastore's own name of a partition: keys as it has them (lower case), values in Hive's escaping."""
    return "/".join(f"{escape_path_name(k)}={escape_path_name(v)}" for k, v in zip(keys, values, strict=True))


class LockType(IntEnum):
    """The types of locks, by thrift's numbers; releases before 4 do not know the last one."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class LockState(IntEnum):
    """What has become of a request, by thrift's numbers."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class LockedOperation(IntEnum):
    """What a lock is for, by thrift's numbers: Hive writes of tables without transactions as no transaction."""

    INSERT = 2
    NO_TXN = 6


@dataclass(frozen=True, slots=True, order=True)
class LockComponent:
    """What one component of a request locks; names are the metastore's, ``partition`` is ``''`` for the whole table."""

    database: str
    table: str
    partition: str
    lock_type: LockType
    operation: LockedOperation = LockedOperation.NO_TXN

    def __str__(self) -> str:
        name = f"{self.database}.{self.table}"
        return f"{name}/{self.partition}" if self.partition else name


@dataclass(frozen=True, slots=True)
class ShownLock:
    """A lock that is held, or waited for.

    Attributes:
        number: The request's.
        table: The table; ``''``: the whole database.
        partition: The partition; ``''``: the whole table.
        state: A ``LockState``.
        lock_type: The name of its type.
        host: The machine that it was asked for on.
        agent: What asked for it, in its own words: the id of Hive's query.
        transaction: The number of Hive's transaction; 0 for none.
        blocked_by: The number of the request that it waits for; None where it does not wait or the server does not say.
    """

    number: int
    database: str
    table: str
    partition: str
    state: int
    lock_type: str
    user: str
    host: str
    agent: str
    transaction: int = 0
    blocked_by: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether the lock is held, rather than waited for."""
        return self.state == LockState.ACQUIRED

    def __str__(self) -> str:
        of = ".".join(filter(None, (self.database, self.table)))
        what = f"{of}/{self.partition}" if self.partition else of
        transaction = f", transaction {self.transaction}" if self.transaction else ""
        return (
            f"{self.lock_type} of {what} by {self.user or 'unknown'}@{self.host or 'nowhere'} "
            f"({self.agent or 'it does not say what for'}, lock {self.number}{transaction})"
        )
