"""Hive's locks in our own words; thrift's types stay inside ``hive.thrift``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


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
    """What one component of a request locks; names are the metastore's.

    Attributes:
        database: The database.
        table: The table.
        partition: The partition; ``''`` for the whole table.
        lock_type: How it is locked.
        operation: What for.
    """

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
        database: The database.
        table: The table; ``''``: the whole database.
        partition: The partition; ``''``: the whole table.
        state: Whether it is held.
        lock_type: The name of its type.
        user: Whose it is.
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
        """Whether it is held, rather than waited for."""
        return self.state == LockState.ACQUIRED

    def __str__(self) -> str:
        of = ".".join(filter(None, (self.database, self.table)))
        what = f"{of}/{self.partition}" if self.partition else of
        transaction = f", transaction {self.transaction}" if self.transaction else ""
        return (
            f"{self.lock_type} of {what} by {self.user or 'unknown'}@{self.host or 'nowhere'} "
            f"({self.agent or 'it does not say what for'}, lock {self.number}{transaction})"
        )
