"""Pending outbox messages of a table. Metastore state that they will overwrite is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.messages import (
    AlterTable,
    AlterTableStatistics,
    RenameTable,
    SyncPartitions,
    read_message,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.scan.equivalent_names import key_of
from catalog_ext.scan.scratch import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Delivery
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table

_AT_ONCE = 10
"""The number of messages that are read at a time: each may name a thousand partitions."""

_IN_QUERY = 500
_WHY = "the outbox has it to deliver"


class PendingMessages:
    """The undelivered outbox messages about one table.

    Create it before reading the metastore: a message leaves the outbox after the metastore has applied it, so a later
    read shows its effect. Names of partitions are stored on disk.

    Args:
        index: The index with the outbox.
        identifier: The table's name.
        table: The table. If the index has no table of this name, None: then all messages with the name are read.

    Attributes:
        definition: Whether a message is about the table itself: its creation, drop, columns or name.
        whole: Whether the table must still be created, renamed or replaced in the metastore, so that each partition is
            pending.
        remakes: Whether a message creates or replaces the table, with the index's partitions.
        unreadable: The error of a message of another release that cannot be read, and so may be about this table.
    """

    def __init__(self, index: Index, identifier: TableIdentifier, table: Table | None) -> None:
        self._names: Scratch | None = None
        self._error: str | None = None
        self.unreadable: MetastoreRefusedError | None = None
        self.whole = table is not None and index.outbox.has_pending_predecessor(table)
        self.definition, self.remakes = self.whole, False
        for delivery in _messages(index, identifier, table):
            self._note(delivery)

    def _note(self, delivery: Delivery) -> None:
        self._error = self._error or delivery.last_error
        if delivery.operation == AlterTableStatistics.operation:
            self._add([""])
            return
        if delivery.operation != SyncPartitions.operation:
            self.definition = True
            self.whole = self.whole or not delivery.operation.startswith("alter_")
            self.remakes = self.remakes or delivery.operation not in (AlterTable.operation, RenameTable.operation)
            return
        try:
            message = read_message(delivery)
        except MetastoreRefusedError as error:
            self.whole, self.remakes, self.unreadable = True, True, error
            self._error = self._error or error.message
            return
        assert isinstance(message, SyncPartitions)
        self._add(message.dropped)
        changed = (*message.added, *message.altered)
        self._add(p.name for p in changed if p.moved)
        self._add((p.name for p in changed), unmoved=True)

    def _add(self, names: Iterable[str], *, unmoved: bool = False) -> None:
        """Record the partitions that a message names. ``unmoved``: the message does not change their locations.

        For a partition that several messages name, the first message decides, because the others wait for it.
        """
        if self._names is None:
            self._names = Scratch()
            self._names.execute("CREATE TABLE pending (key TEXT PRIMARY KEY, name TEXT, unmoved INTEGER) WITHOUT ROWID")
        rows = ((key_of(name), name, int(unmoved)) for name in names)
        self._names.insert("pending", rows)

    @property
    def any(self) -> bool:
        """Whether an undelivered message about the table exists."""
        return self.definition or self.whole or self._names is not None

    @property
    def failed(self) -> bool:
        """Whether a delivery of these messages failed."""
        return self._error is not None

    @property
    def why(self) -> str:
        """The reason, as text, why the metastore does not have the changes yet."""
        return _WHY if self._error is None else f"{_WHY}, and failed: {self._error}"

    def names(self, partition: str) -> bool:
        """Return whether an undelivered message is about this partition."""
        return bool(self.among([key_of(partition)]))

    def among(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys of partitions (``key_of``) that undelivered messages are about."""
        if self.whole:
            return set(keys)
        return self._chosen(keys, "key IN ({})")

    def unmoved(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys of partitions whose messages do not change a location.

        If the metastore has such a partition at another location, a Hive engine has moved it, and the message is not
        delivered.
        """
        return self._chosen(keys, "key IN ({}) AND unmoved = 1")

    def unmoved_names(self) -> Iterator[str]:
        """Yield the names of partitions whose messages do not change a location."""
        if self._names is not None:
            yield from (name for (name,) in self._names.rows("SELECT name FROM pending WHERE unmoved = 1", ()))

    def _chosen(self, keys: Iterable[str], condition: str) -> set[str]:
        found: set[str] = set()
        for some in batched(keys, _IN_QUERY) if self._names is not None else ():
            marks = ",".join("?" * len(some))
            assert self._names is not None
            rows = self._names.rows(f"SELECT key FROM pending WHERE {condition.format(marks)}", tuple(some))
            found.update(key for (key,) in rows)
        return found


def pending_for(index: Index, identifier: TableIdentifier, table: Table | None) -> PendingMessages:
    """Return the undelivered messages about a table, whose partitions a change of the index must not import.

    Raises:
        MetastoreRefusedError: A message cannot be read, and may be about this table.
    """
    pending = PendingMessages(index, identifier, table)
    if pending.unreadable is not None:
        raise pending.unreadable
    return pending


def _messages(index: Index, identifier: TableIdentifier, table: Table | None) -> Iterator[Delivery]:
    after = 0
    while found := (
        index.outbox.pending(_AT_ONCE, after=after, named=identifier)
        if table is None
        else index.outbox.of_table(table.table_id, _AT_ONCE, after=after)
    ):
        yield from found
        after = found[-1].outbox_id
