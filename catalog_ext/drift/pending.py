"""What the outbox still has to deliver of a table: where the metastore differs by that, it has not drifted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from catalog_ext.drift.store_side import key_of
from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.messages import AlterTableStatistics, SyncPartitions, read_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.drift.difference import Difference
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Delivery
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.scan.scratch import Scratch

_AT_ONCE = 10
"""Messages read at a time: each may name a thousand partitions."""

_IN_QUERY = 500
_OF_PARTITIONS = frozenset({SyncPartitions.operation, AlterTableStatistics.operation})
_WHY = "the outbox has it to deliver"


class PendingDeliveries:
    """Notes what is pending of a table; commits after that are told by their versions.

    Attributes:
        definition: Why the definition is pending; None where it is not.
        whole: Whether the table is still to be made, renamed or replaced there.
    """

    def __init__(self, index: Index, table: Table, scratch: Scratch) -> None:
        self._scratch = scratch
        self._any = False
        self.definition: str | None = None
        self.whole = index.outbox.has_pending_predecessor(table)
        self._error: str | None = None
        scratch.execute("CREATE TABLE pending (key TEXT PRIMARY KEY) WITHOUT ROWID")
        for delivery in _deliveries(index, table):
            self._note(delivery)
        if self.whole:
            self.definition = self.why

    @property
    def why(self) -> str:
        """Why the metastore does not have it yet."""
        return _WHY if self._error is None else f"{_WHY}, and failed: {self._error}"

    @property
    def failed(self) -> bool:
        """Whether a delivery has been tried in vain."""
        return self._error is not None

    def marked(self, differences: Iterator[Difference]) -> Iterator[Difference]:
        """Yield differences; those that are pending say whether their delivery has failed."""
        for each in differences:
            yield replace(each, failed=True) if each.pending and self.failed else each

    def _note(self, delivery: Delivery) -> None:
        self._error = self._error or delivery.last_error
        if delivery.operation not in _OF_PARTITIONS:
            self.whole = self.whole or not delivery.operation.startswith("alter_")
            self.definition = self.why
            return
        self._any = True
        names = [""]
        if delivery.operation == SyncPartitions.operation:
            try:
                message = read_message(delivery)
            except MetastoreRefusedError as error:
                # Of another release: whatever differs may be what it says.
                self.whole, self._error = True, self._error or error.message
                return
            assert isinstance(message, SyncPartitions)
            names = [*(p.name for p in (*message.added, *message.altered)), *message.dropped]
        self._scratch.insert("pending", ((key_of(name),) for name in names), columns=1, ignore=True)

    def among(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys of partitions about which a message is pending."""
        if self.whole:
            return set(keys)
        found: set[str] = set()
        for start in range(0, len(keys) if self._any else 0, _IN_QUERY):
            some = tuple(keys[start : start + _IN_QUERY])
            marks = ",".join("?" * len(some))
            found.update(key for (key,) in self._scratch.rows(f"SELECT key FROM pending WHERE key IN ({marks})", some))
        return found


def _deliveries(index: Index, table: Table) -> Iterator[Delivery]:
    after = 0
    while found := index.outbox.of_table(table.table_id, _AT_ONCE, after=after):
        yield from found
        after = found[-1].outbox_id
