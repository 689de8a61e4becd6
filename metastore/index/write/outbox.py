"""The outbox: messages for the metastore, enqueued in the same transaction as the change, delivered in order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import FAR_MS, NOW_MS
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.schema import outbox, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.write.partition_descriptors import documents
from catalog_ext.metastore.messages import (
    SET_ASIDE_AFTER,
    AlterTableStatistics,
    Delivery,
    PublishedPartition,
    RenameTable,
    SyncPartitions,
    payload_of,
    read_message,
    subject,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.messages import Message
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Partition, Table

NAMES_PER_MESSAGE = 1000
"""The most partitions that one message adds, alters, or drops."""

_ERROR_LENGTH = 4000
_MARKED_AT_ONCE = 200
_WITHDRAWN_AT_ONCE = 10
"""The number of messages that are read at a time: each may name a thousand partitions."""

_IS_DUE = sa.or_(outbox.c.next_attempt_at_ms <= NOW_MS, outbox.c.next_attempt_at_ms > NOW_MS + FAR_MS)
"""The condition that a message is due, by the database's time: hosts whose clocks disagree must not take each other's
claims. Claims and pauses are shorter than an hour, so a later time comes from a clock that was wrong: without this
condition the message, and all messages behind it, would wait until then."""
_IS_FREE = sa.or_(outbox.c.claimed_by.is_(None), _IS_DUE)
"""The condition that no process is delivering the message."""
_DELIVERIES = sa.select(outbox, _IS_DUE.label("due"))


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """The changes of one commit to partitions that the metastore can have.

    Attributes:
        added: Partitions that the index did not have before.
        altered: Partitions with changed files, statistics, descriptors or locations.
        dropped: Names of dropped partitions.
        moved: Names of partitions that the commit has put at another location.
        ended_apart: Names of dropped partitions that were never sent to the metastore. Another engine may have created
            them there; a partition with equal values that the commit adds replaces them in the metastore.
    """

    added: list[Partition] = field(default_factory=list)
    altered: list[Partition] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    moved: set[str] = field(default_factory=set)
    ended_apart: list[str] = field(default_factory=list)


def enqueue(connection: sa.Connection, message: Message, table_id: int | None = None, at_ms: int | None = None) -> None:
    """Add a message to the outbox.

    ``table_id`` is the table or view that the message is about; ``at_ms`` is the time of the change, None for now.
    """
    namespace, table = subject(message)
    row = {
        "table_id": table_id,
        "namespace": namespace,
        "table_name": table,
        "operation": message.operation,
        "payload": to_json(payload_of(message)),
        "created_at_ms": NOW_MS if at_ms is None else at_ms,
        "attempts": 0,
        "next_attempt_at_ms": 0,
    }
    connection.execute(sa.insert(outbox).values(**row))


def enqueue_changes(connection: sa.Connection, table: Table, changes: PartitionChanges, at_ms: int | None) -> int:
    """Add the messages about a commit made at ``at_ms`` (milliseconds since the epoch, UTC); return their number.

    Without a time the messages contain only partition names: partitions of views have no statistics or locations.

    If the table has no partition columns, its single partition stands for the table itself: the messages then publish
    the table's statistics.
    """
    if table.definition.partition_columns:
        return _enqueue_partitions(connection, table, changes, at_ms)
    whole = published(connection, table, [*changes.added, *changes.altered], at_ms)
    place = table.definition.location
    for partition in whole:
        enqueue(connection, AlterTableStatistics(table.identifier, partition.parameters, place), table.table_id)
    return len(whole)


def enqueue_dropped(connection: sa.Connection, table: Table, names: Sequence[str], at_ms: int) -> None:
    """Add the messages about partitions that a commit of this time (milliseconds since the epoch, UTC) has dropped."""
    for some in batched(names, NAMES_PER_MESSAGE):
        message = SyncPartitions(table.identifier, (), (), tuple(some), table.definition.location)
        enqueue(connection, message, table.table_id, at_ms)


def _enqueue_partitions(connection: sa.Connection, table: Table, changes: PartitionChanges, at_ms: int | None) -> int:
    """Add the messages about added, changed and dropped partitions, and return their number.

    An added partition may have the values of a dropped one in another spelling. So the messages with additions begin
    only with the last message of drops.
    """
    size = NAMES_PER_MESSAGE
    drops = -(-len(changes.dropped) // size)
    first = max(drops - 1, 0)
    coming = -(-max(len(changes.added), len(changes.altered)) // size)
    count = max(drops, first + coming if coming else 0)
    for i in range(count):
        chosen = slice(max(i - first, 0) * size, max(i - first + 1, 0) * size)
        added, altered = (
            tuple(
                replace(partition, moved=partition.name in changes.moved)
                for partition in published(connection, table, some[chosen], at_ms)
            )
            for some in (changes.added, changes.altered)
        )
        dropped = tuple(changes.dropped[i * size : (i + 1) * size])
        message = SyncPartitions(table.identifier, added, altered, dropped, table.definition.location)
        enqueue(connection, message, table.table_id)
    return count


def published(
    connection: sa.Connection, table: Table, partitions: Sequence[Partition], at_ms: int | None
) -> list[PublishedPartition]:
    """Convert partitions to the form of outbox messages, with statistics dated by a time in milliseconds.

    Without a time (None), only the names are filled in. The descriptor of a partition that is read as its table is left
    out of the message: another program may just have set one in the metastore.
    """
    if at_ms is None:
        return [PublishedPartition(partition.name, "") for partition in partitions]
    numbers = {partition.descriptor for partition in partitions} - {None}
    described = documents(connection, table.table_id, numbers) if numbers else {}
    return [
        PublishedPartition(
            partition.name,
            table.directory_of(partition),
            _statistics(partition, at_ms),
            None if partition.descriptor is None else described[partition.descriptor],
        )
        for partition in partitions
    ]


def _statistics(partition: Partition, at_ms: int) -> dict[str, str]:
    """Return the parameters with the size of a partition or table, under the names that Hive engines read."""
    parameters = {"numFiles": str(partition.files), "totalSize": str(partition.bytes)}
    if partition.rows is not None:
        parameters["numRows"] = str(partition.rows)
    return {**parameters, "transient_lastDdlTime": str(at_ms // 1000)}


def forget_table(connection: sa.Connection, table_id: int) -> None:
    """Remove the messages about a dropped or republished table, except a message that is being delivered right now.

    A message that the metastore refuses permanently would otherwise block the table's drop for ever. Renames stay: the
    metastore must find the table under the name by which it is dropped.
    """
    connection.execute(sa.delete(outbox).where(*_removable(table_id)))


def withdraw(connection: sa.Connection, table_id: int, upto: int) -> Iterator[list[Delivery]]:
    """Remove the messages that ``forget_table`` removes, up to a number; yield a few removed messages at a time.

    A caller may stop between two yields: the messages after that stay.
    """
    after = 0
    while found := _pending(connection, _WITHDRAWN_AT_ONCE, after, outbox.c.outbox_id <= upto, *_removable(table_id)):
        after = found[-1].outbox_id
        numbers = [each.outbox_id for each in found]
        connection.execute(sa.delete(outbox).where(outbox.c.outbox_id.in_(numbers), _IS_FREE))
        yield found


def _removable(table_id: int) -> tuple[sa.ColumnElement[bool], ...]:
    return outbox.c.table_id == table_id, outbox.c.operation != RenameTable.operation, _IS_FREE


def readdress(connection: sa.Connection, table_id: int, to: TableIdentifier) -> None:
    """Change the table name in the pending messages about a table's partitions, after a rename in the metastore."""
    operations = [SyncPartitions.operation, AlterTableStatistics.operation]
    chosen = sa.update(outbox).where(outbox.c.table_id == table_id, outbox.c.operation.in_(operations))
    connection.execute(chosen.values(namespace=to.namespace, table_name=to.name))
    connection.execute(chosen.where(_IS_FREE).values(refusals=0, next_attempt_at_ms=0))


class Outbox(IndexPart):
    """The outbox: messages for the metastore that are not delivered yet."""

    def pending(self, limit: int = 100, *, after: int = 0, named: TableIdentifier | None = None) -> list[Delivery]:
        """Return the next messages with a number above ``after``, in the order of delivery, due or not.

        With ``named``, only messages about a table or view of that name.
        """
        with self._database.reading() as connection:
            chosen = []
            if named is not None:
                chosen = [outbox.c.namespace == named.namespace, outbox.c.table_name == named.name]
            return _pending(connection, limit, after, *chosen)

    def of_table(self, table_id: int, limit: int = 10, *, after: int = 0) -> list[Delivery]:
        """Return the next messages about a table numbered above ``after``, in the order of delivery, due or not."""
        with self._database.reading() as connection:
            return _pending(connection, limit, after, outbox.c.table_id == table_id)

    def renames(self) -> list[tuple[TableIdentifier, TableIdentifier]]:
        """Return the renames that the metastore has not made yet, in order: the names before and after."""
        with self._database.reading() as connection:
            found = _pending(connection, None, 0, outbox.c.operation == RenameTable.operation)
        messages = map(read_message, found)
        return [(m.previous, m.definition.identifier) for m in messages if isinstance(m, RenameTable)]

    def find(self, outbox_id: int) -> Delivery | None:
        """Return the message with this number, or None."""
        with self._database.reading() as connection:
            return next(iter(_pending(connection, 1, outbox_id - 1, outbox.c.outbox_id == outbox_id)), None)

    def count(self) -> int:
        """Return the number of messages in the outbox, due or not."""
        with self._database.reading() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(outbox)).scalar_one())

    def pending_of(self, table_id: int) -> tuple[int, str | None]:
        """Return the number of messages about a table, and the first error among them, if any."""
        mine, error = outbox.c.table_id == table_id, outbox.c.last_error
        first_error = sa.select(error).where(mine, error.is_not(None)).order_by(outbox.c.outbox_id).limit(1)
        with self._database.reading() as connection:
            count = connection.execute(sa.select(sa.func.count()).select_from(outbox).where(mine)).scalar_one()
            return count, connection.execute(first_error).scalar() if count else None

    def oldest_of(self, table_id: int) -> int | None:
        """Return the time when the oldest message about a table was enqueued, in milliseconds; None without one."""
        statement = sa.select(sa.func.min(outbox.c.created_at_ms)).where(outbox.c.table_id == table_id)
        with self._database.reading() as connection:
            return connection.execute(statement).scalar()

    def has_pending_predecessor(self, table: Table) -> bool:
        """Return whether the drop of an earlier table of this name is still pending."""
        name, o = table.identifier, outbox.c
        earlier = (o.namespace == name.namespace, o.table_name == name.name, o.table_id != table.table_id)
        with self._database.reading() as connection:
            return connection.execute(sa.select(o.outbox_id).where(*earlier).limit(1)).scalar() is not None

    def claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Claim a message for ``lease_ms`` milliseconds; return False if it is gone or not due."""
        due = sa.update(outbox).where(outbox.c.outbox_id == outbox_id, _IS_DUE)
        claimed = due.values(next_attempt_at_ms=NOW_MS + lease_ms, claimed_by=claim)
        return self._database.change(claimed) == 1

    def keep_claim(self, outbox_id: int, claim: str, lease_ms: int) -> bool:
        """Return whether the claim on the message is valid; then it lasts for at least half the lease from now."""
        mine = _claimed(outbox_id, claim)
        with self._database.reading() as connection:
            left = connection.execute(sa.select(outbox.c.next_attempt_at_ms - NOW_MS).where(mine)).scalar()
        if left is None:
            return False
        longer = sa.update(outbox).where(mine).values(next_attempt_at_ms=NOW_MS + lease_ms)
        return int(left) >= lease_ms // 2 or self._database.change(longer) == 1

    def done(self, outbox_id: int, claim: str) -> bool:
        """Remove a message that the metastore has accepted; return False, and do nothing, if the claim is lost."""
        return self._database.change(sa.delete(outbox).where(_claimed(outbox_id, claim))) == 1

    def failed(
        self, outbox_id: int, claim: str, error: str, pause_ms: int, *, refused: bool, rest: Message | None = None
    ) -> None:  # fmt: skip
        """Record that the metastore did not accept a message, and when to try again, unless the claim is lost.

        ``rest`` is the part of the message that the metastore did not accept. With it, the message is set aside at
        once, because only a user can resolve that part.
        """
        values: dict[str, Any] = {
            "attempts": outbox.c.attempts + 1,
            "refusals": outbox.c.refusals + int(refused),
            "next_attempt_at_ms": NOW_MS + pause_ms,
            "last_error": ascii_safe(error)[:_ERROR_LENGTH],
            "claimed_by": None,
        }
        if rest is not None:
            values |= {"payload": to_json(payload_of(rest)), "refusals": outbox.c.refusals + SET_ASIDE_AFTER}
        self._database.change(sa.update(outbox).where(_claimed(outbox_id, claim)).values(values))

    def retry(self, outbox_id: int | None = None) -> int:
        """Make one message, or all, due now, except those that are being delivered; return the number of messages."""
        chosen = sa.true() if outbox_id is None else outbox.c.outbox_id == outbox_id
        return self._database.change(sa.update(outbox).where(chosen, _IS_FREE).values(next_attempt_at_ms=0))

    def skip(self, outbox_id: int) -> bool:
        """Remove a message that must not be delivered; return False if it is gone or being delivered."""
        return self._database.change(sa.delete(outbox).where(outbox.c.outbox_id == outbox_id, _IS_FREE)) == 1


def _claimed(outbox_id: int, claim: str) -> sa.ColumnElement[bool]:
    """Return the condition that this claim on the message is still valid."""
    return sa.and_(outbox.c.outbox_id == outbox_id, outbox.c.claimed_by == claim)


def _pending(
    connection: sa.Connection, limit: int | None, after: int, *chosen: sa.ColumnElement[bool]
) -> list[Delivery]:
    """Return the next messages with a number above ``after`` that satisfy the conditions ``chosen``."""
    later = _DELIVERIES.where(outbox.c.outbox_id > after, *chosen)
    return [_delivery(row) for row in connection.execute(later.order_by(outbox.c.outbox_id).limit(limit))]


def _delivery(row: sa.Row[Any]) -> Delivery:
    return Delivery(
        outbox_id=row.outbox_id,
        operation=row.operation,
        namespace=row.namespace,
        table=row.table_name,
        payload=json.loads(row.payload),
        created_at_ms=row.created_at_ms,
        attempts=row.attempts,
        last_error=row.last_error,
        next_attempt_at_ms=row.next_attempt_at_ms,
        refusals=row.refusals,
        due=bool(row.due),
    )


def ascii_safe(text: str) -> str:
    """Replace the characters that a database cannot store: error texts may quote anything that the metastore sent."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def mark_published(connection: sa.Connection, partition_ids: Sequence[int]) -> None:
    """Mark current partitions, given by number, as published to the metastore."""
    p = partitions.c
    for chunk in batched(partition_ids, _MARKED_AT_ONCE):
        given = sa.update(partitions).where(p.partition_id.in_(chunk), p.end_version == ALIVE)
        connection.execute(given.values(in_metastore=1))
