"""What the metastore has yet to hear from us of a table: about that our own change decides, not what it has now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import InvalidPartitionNameError
from catalog_ext.metastore.messages import AlterTableStatistics, SyncPartitions, read_message
from catalog_ext.metastore.model.partition_names import partition_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.messages import Delivery
    from catalog_ext.metastore.model.identifiers import TableIdentifier
    from catalog_ext.metastore.model.tables import Table

_PAGE = 100


@dataclass(slots=True)
class PendingMessages:
    """The messages about a table that the metastore has not taken.

    Attributes:
        definition: Whether there is one about the table itself: its making, its end, its columns or its name.
        values: The values of the partitions that they name.
    """

    definition: bool = False
    values: set[tuple[str | None, ...]] = field(default_factory=set)

    @property
    def any(self) -> bool:
        """Whether there is one at all."""
        return self.definition or bool(self.values)

    def names(self, partition: str) -> bool:
        """Return whether one of them is about a partition."""
        return partition_values(partition) in self.values


def pending_for(index: Index, identifier: TableIdentifier, table: Table | None) -> PendingMessages:
    """Return what is pending about the table of a name; to be asked before the metastore is.

    A message leaves the outbox when the metastore has answered: of what is not pending any more, an answer that is
    asked for afterwards tells.

    Args:
        index: Holds the outbox.
        identifier: The name; messages may be about another table that has had it.
        table: The table; None where the index has none of the name.
    """
    pending = PendingMessages()
    if table is None:
        is_empty = not index.outbox.count()
    else:
        is_empty = not index.outbox.pending_of(table.table_id)[0] and not index.outbox.has_pending_predecessor(table)
    if is_empty:
        return pending
    for delivery in _messages(index, identifier):
        message = read_message(delivery)
        if isinstance(message, SyncPartitions):
            for name in (*(p.name for p in (*message.added, *message.altered)), *message.dropped):
                _note(pending, name)
        elif isinstance(message, AlterTableStatistics):
            pending.values.add(())
        else:
            pending.definition = True
    return pending


def _note(pending: PendingMessages, name: str) -> None:
    try:
        pending.values.add(partition_values(name))
    except InvalidPartitionNameError:
        # The metastore never has it.
        return


def _messages(index: Index, identifier: TableIdentifier) -> Iterator[Delivery]:
    after = 0
    while page := index.outbox.pending(_PAGE, after=after):
        after = page[-1].outbox_id
        for message in page:
            if (message.namespace, message.table) == (identifier.namespace, identifier.name):
                yield message
