"""The outbox: messages for the metastore, written in the transaction of what they tell, delivered in their order."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import now_ms
from catalog_ext.metastore.index.database.schema import outbox
from catalog_ext.metastore.model.json import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.identifiers import TableIdentifier

NAMES_PER_MESSAGE = 1000
"""The most partition names that one ``sync_partitions`` message adds, alters, or drops."""

_ERROR_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class ToldPartition:
    """A partition as the metastore is told of it: its name, absolute location, and parameters."""

    name: str
    location: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionChanges:
    """What one commit did to partitions that the metastore can have; ``dropped`` are names."""

    added: list[ToldPartition] = field(default_factory=list)
    altered: list[ToldPartition] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that the metastore has not taken yet.

    Attributes:
        operation: ``create_namespace``, ``alter_namespace``, ``drop_namespace``, ``create_table``, ``alter_table``,
            ``drop_table``, ``rename_table``, ``sync_partitions`` or ``alter_table_statistics``.
        table: The table's name, or None for a message about the namespace.
        attempts: How often the metastore was asked in vain.
        next_attempt_at_ms: Not to be tried before (milliseconds since the epoch, UTC).
    """

    outbox_id: int
    operation: str
    namespace: str
    table: str | None
    payload: Mapping[str, Any]
    created_at_ms: int
    attempts: int
    last_error: str | None
    next_attempt_at_ms: int = 0


def enqueue_for_namespace(
    connection: sa.Connection, namespace: str, operation: str, payload: Mapping[str, Any]
) -> None:
    """Adds a message about a namespace."""
    connection.execute(sa.insert(outbox), _row(None, namespace, None, operation, payload))


def enqueue_for_table(
    connection: sa.Connection, table_id: int, identifier: TableIdentifier, operation: str, payload: Mapping[str, Any]
) -> None:
    """Adds a message about a table."""
    connection.execute(sa.insert(outbox), _row(table_id, identifier.namespace, identifier.name, operation, payload))


def enqueue_partitions(
    connection: sa.Connection,
    table_id: int,
    identifier: TableIdentifier,
    changes: PartitionChanges,
) -> int:
    """Adds the messages about partitions that came, changed and went, and returns how many they are.

    A partition that comes may have the values, in another spelling, of one that goes: the last of these go first.
    """
    size = NAMES_PER_MESSAGE
    drops = -(-len(changes.dropped) // size)
    first = max(drops - 1, 0)
    coming = -(-max(len(changes.added), len(changes.altered)) // size)
    count = max(drops, first + coming if coming else 0)
    for i in range(count):
        chosen = slice(max(i - first, 0) * size, max(i - first + 1, 0) * size)
        payload = {
            "add": [_told(p) for p in changes.added[chosen]],
            "alter": [_told(p) for p in changes.altered[chosen]],
            "drop": changes.dropped[i * size : (i + 1) * size],
        }
        enqueue_for_table(connection, table_id, identifier, "sync_partitions", payload)
    return count


def _told(partition: ToldPartition) -> dict[str, Any]:
    return {"name": partition.name, "location": partition.location, "parameters": partition.parameters}


def statistics_parameters(n_files: int, n_bytes: int, n_rows: int | None, now: int) -> dict[str, str]:
    """The parameters by which Hive engines know how large a partition or table is; ``now`` in milliseconds."""
    known = {"numFiles": n_files, "totalSize": n_bytes, "numRows": n_rows, "transient_lastDdlTime": now // 1000}
    return {name: str(value) for name, value in known.items() if value is not None}


def forget_table(connection: sa.Connection, table_id: int) -> None:
    """Removes what was still to be said about a table that is being dropped, but what is being delivered right now.

    A message that the metastore refuses for good would otherwise hold up the table's end for ever. Renames stay: the
    metastore has to find the table under the name by which it is dropped.
    """
    waiting = sa.or_(outbox.c.last_error.is_not(None), outbox.c.next_attempt_at_ms <= now_ms())
    statement = sa.delete(outbox).where(outbox.c.table_id == table_id, outbox.c.operation != "rename_table", waiting)
    connection.execute(statement)


def _row(
    table_id: int | None, namespace: str, table: str | None, operation: str, payload: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "table_id": table_id,
        "namespace": namespace,
        "table_name": table,
        "operation": operation,
        "payload": to_json(payload),
        "created_at_ms": now_ms(),
        "attempts": 0,
        "next_attempt_at_ms": 0,
        "last_error": None,
    }


def pending_deliveries(database: Database, limit: int, after: int = 0) -> list[Delivery]:
    """The next messages numbered above ``after``, in the order of delivery, due or not."""
    statement = sa.select(outbox).where(outbox.c.outbox_id > after).order_by(outbox.c.outbox_id).limit(limit)
    with database.reading() as connection:
        rows = connection.execute(statement).mappings().all()
    return [
        Delivery(
            outbox_id=row["outbox_id"],
            operation=row["operation"],
            namespace=row["namespace"],
            table=row["table_name"],
            payload=json.loads(row["payload"]),
            created_at_ms=row["created_at_ms"],
            attempts=row["attempts"],
            last_error=row["last_error"],
            next_attempt_at_ms=row["next_attempt_at_ms"],
        )
        for row in rows
    ]


def claim_delivery(database: Database, outbox_id: int, now: int, until_ms: int) -> bool:
    """Whether the message was there and due at ``now``; then it is the caller's, and due again at ``until_ms``."""
    statement = (
        sa.update(outbox)
        .where(outbox.c.outbox_id == outbox_id, outbox.c.next_attempt_at_ms <= now)
        .values(next_attempt_at_ms=until_ms, last_error=None)
    )
    return database.write(lambda connection: connection.execute(statement).rowcount == 1)


def delivery_done(database: Database, outbox_id: int) -> None:
    """Removes a message that the metastore has taken; one that is gone already is no error."""
    database.write(lambda connection: connection.execute(sa.delete(outbox).where(outbox.c.outbox_id == outbox_id)))


def delivery_failed(database: Database, outbox_id: int, error: str, next_attempt_at_ms: int) -> None:
    """Records that the metastore did not take a message, and when to try again."""
    statement = (
        sa.update(outbox)
        .where(outbox.c.outbox_id == outbox_id)
        .values(
            attempts=outbox.c.attempts + 1,
            next_attempt_at_ms=next_attempt_at_ms,
            last_error=ascii_safe(error)[:_ERROR_LENGTH],
        )
    )
    database.write(lambda connection: connection.execute(statement))


def ascii_safe(text: str) -> str:
    """The text without what a database cannot keep: errors quote whatever the other side sent."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
