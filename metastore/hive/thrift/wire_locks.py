"""Hive's locks as thrift's types, and back; what the server says of a lock that is gone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hmsclient.genthrift.hive_metastore import ttypes as wire

from catalog_ext.metastore.errors import HiveLockLostError
from catalog_ext.metastore.hive.locks.model import LockState, LockType, ShownLock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hmsclient.hmsclient import HMSClient

    from catalog_ext.metastore.hive.locks.model import LockComponent

_GONE = (wire.NoSuchLockException, wire.NoSuchTxnException, wire.TxnAbortedException)
_TYPES = {one.value: one.name for one in LockType}


def lock(client: HMSClient, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
    """Ask for a lock; return its number and its state."""
    asked = [_component(component) for component in components]
    answer = client.lock(wire.LockRequest(component=asked, user=user, hostname=host, agentInfo=agent))
    return int(answer.lockid), int(answer.state)


def _component(component: LockComponent) -> wire.LockComponent:
    level = wire.LockLevel.PARTITION if component.partition else wire.LockLevel.TABLE
    return wire.LockComponent(
        type=int(component.lock_type), level=level, dbname=component.database, tablename=component.table,
        partitionname=component.partition or None, operationType=int(component.operation), isAcid=False,
        isDynamicPartitionWrite=False,
    )  # fmt: skip


def check_lock(client: HMSClient, number: int) -> int:
    """Return the state of a lock; who waits for it gives a sign of life by this.

    Raises:
        HiveLockLostError: The server has it no more.
    """
    with _lost_where_gone(number):
        return int(client.check_lock(wire.CheckLockRequest(lockid=number)).state)


def heartbeat(client: HMSClient, number: int) -> None:
    """Give a sign of life for a lock.

    Raises:
        HiveLockLostError: The server has it no more.
    """
    with _lost_where_gone(number):
        client.heartbeat(wire.HeartbeatRequest(lockid=number))


def unlock(client: HMSClient, number: int) -> None:
    """Give up a lock, or the request for it.

    Raises:
        HiveLockLostError: The server has it no more.
    """
    with _lost_where_gone(number):
        client.unlock(wire.UnlockRequest(lockid=number))


def show_locks(client: HMSClient, database: str, table: str) -> list[ShownLock]:
    """Return the locks of a table, and of its partitions."""
    answer = client.show_locks(wire.ShowLocksRequest(dbname=database, tablename=table))
    return [_shown(found) for found in answer.locks or ()]


def _shown(found: wire.ShowLocksResponseElement) -> ShownLock:
    return ShownLock(
        number=int(found.lockid), database=found.dbname or "", table=found.tablename or "",
        partition=found.partname or "", state=LockState(found.state), lock_type=_TYPES.get(found.type, str(found.type)),
        user=found.user or "", host=found.hostname or "", agent=found.agentInfo or "",
        transaction=int(found.txnid or 0), blocked_by=None if not found.blockedByExtId else int(found.blockedByExtId),
    )  # fmt: skip


@contextmanager
def _lost_where_gone(number: int) -> Iterator[None]:
    try:
        yield
    except _GONE as error:
        raise HiveLockLostError(
            f"The metastore does not know the lock {number} any more.", {"lock": str(number)}
        ) from error
