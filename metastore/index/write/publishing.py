"""Publishing again: enqueues, in one transaction, messages that bring the metastore's table to the index's state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.errors import MetastoreRefusedError
from catalog_ext.metastore.index.database.part import IndexPart
from catalog_ext.metastore.index.database.rows import PARTITION, partition_of
from catalog_ext.metastore.index.database.schema import outbox, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.tables import views as view_rows
from catalog_ext.metastore.index.tables.view_partitions import all_as_added
from catalog_ext.metastore.index.write.outbox import (
    PartitionChanges,
    enqueue,
    enqueue_changes,
    forget_table,
    mark_published,
    published,
    withdraw,
)
from catalog_ext.metastore.index.write.partition_descriptors import living_descriptors
from catalog_ext.metastore.index.write.partition_rows import (
    living_named,
    living_page,
    living_pages,
    lock_table,
    successors,
)
from catalog_ext.metastore.messages import (
    AlterTable,
    AlterTableStatistics,
    CreateTable,
    PutView,
    SyncPartitions,
    read_message,
)
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import metastore_obstacle, partition_values
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.messages import Delivery, Message, PublishedPartition
    from catalog_ext.metastore.model.tables import Partition, Table

PAGE = 1000
_IN_QUERY = 500
_MOST_NAMES = 100_000
"""The number of names of partitions after which no further pending message is removed."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The parts of a table to publish.

    Attributes:
        create: Whether the metastore lacks the table itself; then all of its partitions are published.
        alter: Whether the definition differs; ``retype``: whether the types of partition columns differ.
        partitions: The names of partitions that are missing or different in the metastore; None for all.
        dropped: The names of partitions that only the metastore has.
        upto: The number of the last message before the comparison: later messages contain later changes.
    """

    create: bool = False
    alter: bool = False
    retype: bool = False
    partitions: Sequence[str] | None = None
    dropped: Sequence[str] = ()
    upto: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to publish."""
        return not (self.create or self.alter or self.retype or self.dropped or self.partitions is None or
                    self.partitions)  # fmt: skip


class Publications(IndexPart):
    """Enqueues the state of whole tables as messages for the metastore."""

    def last_delivery(self, table: Table) -> int:
        """Return the number of the newest message; 0 without one. The changes of messages up to it are committed."""

        def work(connection: sa.Connection) -> int:
            # Take the table's lock first. Messages get their number before they are committed, so a message of this
            # table with a lower number could otherwise still be uncommitted.
            lock_table(connection, table.table_id, str(table.identifier))
            return int(connection.execute(sa.select(sa.func.max(outbox.c.outbox_id))).scalar() or 0)

        return self._database.write(work, durable=False)

    def publish(self, table: Table, publication: Publication) -> int:
        """Enqueue the current state of the given parts, in place of pending messages; return the number of messages."""

        def work(connection: sa.Connection) -> int:
            locked = lock_table(connection, table.table_id, str(table.identifier))
            now, at_ms = locked.table, locked.now_ms
            # Remove the pending messages: the new ones publish the final state. The metastore might refuse one of the
            # old steps.
            is_view = now.definition.table_type is TableType.VIEW
            if publication.create or is_view:
                forget_table(connection, table.table_id)
            if is_view:
                return _publish_view(connection, now, publication)
            sent = publication if publication.create else _with_withdrawn(connection, now, publication)
            _publish_orphans(connection, now)
            count = _publish_definition(connection, now, sent)
            if sent.dropped:
                # Do not drop partitions whose values were added to the index since the comparison.
                there = successors(connection, now, sent.dropped)
                gone = [name for name in sent.dropped if partition_values(name) not in there]
                count += enqueue_changes(connection, now, PartitionChanges(dropped=gone), at_ms)
            for found in _chosen(connection, now, None if sent.create else sent.partitions):
                # The user has decided that the index is right, so the metastore's partitions also move to the index's
                # locations.
                moved = {partition.name for partition in found}
                count += enqueue_changes(connection, now, PartitionChanges(altered=found, moved=moved), at_ms)
            return count

        return self._database.write(work)

    def pages(self, table: Table) -> Iterator[list[PublishedPartition]]:
        """Yield all partitions that the metastore should have, in pages, in the form for messages to the metastore."""
        after: int | None = -1
        while after is not None:
            found, after = self.page(table, after)
            yield found

    def page(self, table: Table, after: int) -> tuple[list[PublishedPartition], int | None]:
        """Return a page of the partitions that the metastore should have, and ``after`` for the next page (first: -1).

        The second item is None after the last page.
        """
        with self._database.reading() as connection:
            page, at_ms = living_page(connection, table, after, PAGE)
            held = [partition for partition in page if partition.in_metastore]
            found = published(connection, table, [*held, *_orphans(connection, table, page)], at_ms)
        return found, page[-1].partition_id if len(page) == PAGE else None


def _with_withdrawn(connection: sa.Connection, table: Table, publication: Publication) -> Publication:
    """Remove the pending messages up to ``upto``; return the publication with the parts that they are about.

    The comparison may have found no difference in these parts only because an earlier message was still on its way: for
    example, a drop that the metastore carries out later, and a pending message that adds the partition again.
    """
    alter, retype, names = publication.alter, publication.retype, dict[str, None]()
    for removed in withdraw(connection, table.table_id, publication.upto):
        for delivery in removed:
            match _readable(delivery):
                case SyncPartitions(added=added, altered=altered, dropped=dropped):
                    names.update(dict.fromkeys((*dropped, *(p.name for p in added), *(p.name for p in altered))))
                case AlterTableStatistics():
                    names[""] = None
                case AlterTable() as message:
                    alter, retype = True, retype or message.retype
                case _:
                    alter, publication = True, replace(publication, partitions=None)
        if len(names) >= _MOST_NAMES:
            break  # later messages stay, and are delivered before the new ones
    given = publication.partitions
    chosen = None if given is None else list(dict.fromkeys((*given, *names)))
    gone = list(dict.fromkeys((*publication.dropped, *filter(None, names))))
    return replace(publication, alter=alter, retype=retype, partitions=chosen, dropped=gone)


def _readable(delivery: Delivery) -> Message | None:
    """Return the message; None if another release wrote it, so that it may be about every part of the table."""
    try:
        return read_message(delivery)
    except MetastoreRefusedError:
        return None


def _publish_view(connection: sa.Connection, table: Table, publication: Publication) -> int:
    view = view_rows.load(connection, table.identifier)
    enqueue(connection, PutView(view.table.definition, view.query), table.table_id)
    changes = all_as_added(connection, table.table_id)
    there = {partition_values(partition.name) for partition in changes.added}
    gone = [name for name in publication.dropped if partition_values(name) not in there]
    return 1 + enqueue_changes(connection, view.table, replace(changes, dropped=gone), at_ms=None)


def _publish_definition(connection: sa.Connection, table: Table, publication: Publication) -> int:
    if publication.create:
        enqueue(connection, CreateTable(table.definition), table.table_id)
    elif publication.alter or publication.retype:
        place = table.definition.location
        kept = tuple(descriptor.to_dict() for descriptor in living_descriptors(connection, table))
        message = AlterTable(
            table.definition, rebuild=True, retype=publication.retype, previous_location=place, kept=kept
        )
        enqueue(connection, message, table.table_id)
    return int(publication.create or publication.alter or publication.retype)


def _chosen(connection: sa.Connection, table: Table, names: Sequence[str] | None) -> Iterator[list[Partition]]:
    """Yield the current partitions with these names (None: all) that the index has marked as published."""
    if names is not None:
        for chunk in batched(names, _IN_QUERY):
            yield [partition for partition in living_named(connection, table, chunk) if partition.in_metastore]
        return
    for page in living_pages(connection, table, PAGE):
        yield [partition for partition in page if partition.in_metastore]


def _orphans(connection: sa.Connection, table: Table, found: Sequence[Partition]) -> list[Partition]:
    """Return unpublished partitions that the metastore should have, because it has no partition with their values."""
    names = [p.name for p in found if not p.in_metastore and not metastore_obstacle(p.name)]
    chosen = {p.partition_id for p in successors(connection, table, names).values() if not p.in_metastore}
    return [partition for partition in found if partition.partition_id in chosen]


def _publish_orphans(connection: sa.Connection, table: Table) -> None:
    """Mark unpublished partitions as published if no published partition has their values.

    The metastore can hold only one partition with the same values.
    """
    p = partitions.c
    apart = sa.select(*PARTITION).where(p.table_id == table.table_id, p.end_version == ALIVE, p.in_metastore == 0)
    orphans = _orphans(connection, table, [partition_of(row) for row in connection.execute(apart)])
    mark_published(connection, [partition.partition_id for partition in orphans])
