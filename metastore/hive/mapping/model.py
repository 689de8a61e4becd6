"""Values that describe the contents of a Hive Metastore; thrift's own types are used only inside ``hive.thrift``."""

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
        serde_parameters: The SerDe's settings; for Spark's tables also the reader's options.
        bucket_columns: Columns of CLUSTERED BY. Bucketed tables are read but not written, so these stay unchanged.
        bucket_count: -1 or 0 for a table without buckets.
        skewed_columns: The columns of ``SKEWED BY``, by whose frequent values Hive divides rows; they stay unchanged.
        skewed_directories: Whether rows with these frequent values lie in separate directories.
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
        """The SerDe's settings that determine how files are read, without secrets and the path that Spark adds."""
        return {name: value for name, value in drop_secrets(self.serde_parameters).items() if name != "path"}


@dataclass(frozen=True, slots=True)
class HiveTable:
    """A table as the metastore stores it; column types are Hive's type strings.

    Attributes:
        table_type: ``EXTERNAL_TABLE``, ``MANAGED_TABLE``, ``VIRTUAL_VIEW``, …
        location: Absolute URI; ``''`` for views.
        view_original_text: A view's query as the user wrote it; None for tables.
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
        """Return the metastore's name of the partition with these values."""
        return metastore_name((column.name for column in self.partition_columns), values)


@dataclass(frozen=True, slots=True)
class HivePartition:
    """A partition as the metastore stores it.

    Attributes:
        values: Unescaped values in the order of the keys; NULL is the default partition's name.
        location: Absolute URI; ``''`` for a view's partition, which has no storage descriptor.
        storage: The partition's own storage; None if the partition has the table's.
        columns: The columns of the partition's own descriptor, read without comments. They are written only together
            with ``storage``.
    """

    values: tuple[str, ...]
    location: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    storage: HiveStorage | None = None
    columns: tuple[Column, ...] = field(default=(), compare=False)


def metastore_name(keys: Iterable[str], values: Sequence[str]) -> str:
    """Return the metastore's name of a partition from its keys (lower case) and values, which get escaped."""
    return "/".join(f"{escape_path_name(k)}={escape_path_name(v)}" for k, v in zip(keys, values, strict=True))


class LockType(IntEnum):
    """The types of Hive's locks, with thrift's numbers; releases before 4 do not have the last one."""

    SHARED_READ = 1
    SHARED_WRITE = 2
    EXCLUSIVE = 3
    EXCL_WRITE = 4


class LockState(IntEnum):
    """The state of a lock request, with thrift's numbers."""

    ACQUIRED = 1
    WAITING = 2
    ABORT = 3
    NOT_ACQUIRED = 4


class LockedOperation(IntEnum):
    """The operation that a lock is for, with thrift's numbers; NO_TXN is a write to a table without transactions."""

    INSERT = 2
    NO_TXN = 6


@dataclass(frozen=True, slots=True, order=True)
class LockComponent:
    """One lock of a lock request, in the metastore's names; ``partition`` is ``''`` to lock the whole table."""

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
    """A lock that is held, or waited for, as SHOW LOCKS lists it.

    Attributes:
        number: The number of the lock request.
        table: The table; ``''`` for a lock on the whole database.
        partition: The partition; ``''`` for a lock on the whole table.
        state: A ``LockState``.
        lock_type: The name of a ``LockType``.
        host: The machine that requested the lock.
        agent: The requesting program's own description, for example the id of Hive's query.
        transaction: The number of Hive's transaction; 0 for none.
        blocked_by: The number of the request that this lock waits for; None if it does not wait or the server does not
            say.
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
