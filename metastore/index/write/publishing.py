"""Publishing again: enqueues, in one transaction, messages that bring the metastore's table to the index's state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

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
)
from catalog_ext.metastore.index.write.partition_descriptors import living_descriptors
from catalog_ext.metastore.index.write.partition_rows import (
    living_named,
    living_page,
    living_pages,
    lock_table,
    successors,
)
from catalog_ext.metastore.messages import AlterTable, CreateTable, PutView
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import metastore_obstacle, partition_values
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.messages import PublishedPartition
    from catalog_ext.metastore.model.tables import Partition, Table

PAGE = 1000
_IN_QUERY = 500


@dataclass(frozen=True, slots=True)
class Publication:
    """The parts of a table to publish.

    Attributes:
        create: Whether the table itself is missing; then all of its partitions are published.
        alter: Whether the definition differs; ``retype``: whether the types of partition columns differ.
        partitions: The names of missing or different partitions; None for all.
        dropped: The names of partitions that are not in the index.
        upto: The last message before the comparison: later messages carry later changes.
    """

    create: bool = False
    alter: bool = False
    retype: bool = False
    partitions: Sequence[str] | None = None
    dropped: Sequence[str] = ()
    upto: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the metastore has everything."""
        return not (self.create or self.alter or self.retype or self.dropped or self.partitions is None or
                    self.partitions)  # fmt: skip


class Publications(IndexPart):
    """Whole tables as messages for the metastore."""

    def last_delivery(self, table: Table) -> int:
        """Return the number of the newest message; 0 without one. The changes of messages up to it are committed."""

        def work(connection: sa.Connection) -> int:
            # Messages are numbered before they are committed, and the table's while its row is held.
            lock_table(connection, table.table_id, str(table.identifier))
            return int(connection.execute(sa.select(sa.func.max(outbox.c.outbox_id))).scalar() or 0)

        return self._database.write(work, durable=False)

    def publish(self, table: Table, publication: Publication) -> int:
        """Enqueue the current state of the parts, in place of pending messages; return the number of messages."""

        def work(connection: sa.Connection) -> int:
            locked = lock_table(connection, table.table_id, str(table.identifier))
            now, at_ms = locked.table, locked.now_ms
            # The state replaces the pending steps that would have led to it: the metastore may refuse one of the steps.
            whole = publication.create or now.definition.table_type is TableType.VIEW
            forget_table(connection, table.table_id, upto=None if whole else publication.upto)
            if now.definition.table_type is TableType.VIEW:
                return _publish_view(connection, now, publication)
            _publish_orphans(connection, now)
            count = _publish_definition(connection, now, publication)
            if publication.dropped:
                # Partitions whose values have come into the index since the comparison stay.
                there = successors(connection, now, publication.dropped)
                gone = [name for name in publication.dropped if partition_values(name) not in there]
                count += enqueue_changes(connection, now, PartitionChanges(dropped=gone), at_ms)
            for found in _chosen(connection, now, None if publication.create else publication.partitions):
                # The user has said that the index is right: also about places.
                moved = {partition.name for partition in found}
                count += enqueue_changes(connection, now, PartitionChanges(altered=found, moved=moved), at_ms)
            return count

        return self._database.write(work)

    def pages(self, table: Table) -> Iterator[list[PublishedPartition]]:
        """Yield all partitions that the metastore is to have, as ``page`` returns them."""
        after: int | None = -1
        while after is not None:
            found, after = self.page(table, after)
            yield found

    def page(self, table: Table, after: int) -> tuple[list[PublishedPartition], int | None]:
        """Return the next partitions that the metastore is to have, and ``after`` of the next page; the first is -1."""
        with self._database.reading() as connection:
            page, at_ms = living_page(connection, table, after, PAGE)
            held = [partition for partition in page if partition.in_metastore]
            found = published(connection, table, [*held, *_orphans(connection, table, page)], at_ms)
        return found, page[-1].partition_id if len(page) == PAGE else None


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
    """Yield the living partitions of some names, or all, that the metastore is to have."""
    if names is not None:
        for chunk in batched(names, _IN_QUERY):
            yield [partition for partition in living_named(connection, table, chunk) if partition.in_metastore]
        return
    for page in living_pages(connection, table, PAGE):
        yield [partition for partition in page if partition.in_metastore]


def _orphans(connection: sa.Connection, table: Table, found: Sequence[Partition]) -> list[Partition]:
    """Return the partitions that the metastore could have, and of whose values it has no other partition."""
    names = [p.name for p in found if not p.in_metastore and not metastore_obstacle(p.name)]
    chosen = {p.partition_id for p in successors(connection, table, names).values() if not p.in_metastore}
    return [partition for partition in found if partition.partition_id in chosen]


def _publish_orphans(connection: sa.Connection, table: Table) -> None:
    """Mark partitions as published that take the place of ended ones with equal values."""
    p = partitions.c
    apart = sa.select(*PARTITION).where(p.table_id == table.table_id, p.end_version == ALIVE, p.in_metastore == 0)
    orphans = _orphans(connection, table, [partition_of(row) for row in connection.execute(apart)])
    mark_published(connection, [partition.partition_id for partition in orphans])
