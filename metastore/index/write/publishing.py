"""Publishing again: what the metastore is to have of a table, as the index has it now, enqueued in one transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.clock import now_column
from catalog_ext.metastore.index.database.rows import table_from_row
from catalog_ext.metastore.index.database.schema import ALIVE, living, outbox, partitions
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.tables import views as view_rows
from catalog_ext.metastore.index.tables.view_partitions import published_partitions
from catalog_ext.metastore.index.write.outbox import (
    PartitionChanges,
    enqueue,
    enqueue_changes,
    forget_table,
    statistics_parameters,
)
from catalog_ext.metastore.index.write.partition_descriptors import documents, living_descriptors
from catalog_ext.metastore.index.write.partition_rows import give_to_metastore, heirs, lock_table
from catalog_ext.metastore.messages import AlterTable, CreateTable, PublishedPartition, PutView
from catalog_ext.metastore.model.batches import batched
from catalog_ext.metastore.model.partition_names import metastore_obstacle, partition_values
from catalog_ext.metastore.model.tables import TableType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table

PAGE = 1000
_IN_QUERY = 500


@dataclass(frozen=True, slots=True)
class Publication:
    """What of a table is to be published.

    Attributes:
        create: Whether the table itself is missing; then all of its partitions are published.
        alter: Whether the definition differs, and ``retype`` whether the types of partition columns do.
        partitions: Names of those that are missing or differ; None for all.
        dropped: Names of those that are not in the index.
        upto: The last message before the two sides were compared: those after it tell of what came since.
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


class Publications:
    """Whole tables as messages for the metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def last_delivery(self, table: Table) -> int:
        """Return the number of the newest message; 0 where there is none. What messages up to it say is committed.

        Raises:
            TableNotFoundError: The table is gone.
        """

        def work(connection: sa.Connection) -> int:
            # Messages are numbered before they are committed, and the table's while its row is held.
            lock_table(connection, table.table_id, str(table.identifier))
            return int(connection.execute(sa.select(sa.func.max(outbox.c.outbox_id))).scalar() or 0)

        return self._database.write(work, durable=False)

    def publish(self, table: Table, publication: Publication) -> int:
        """Enqueue what is to be published, as it is now, in the place of what was pending; return how many messages.

        Raises:
            TableNotFoundError: The table is gone.
        """

        def work(connection: sa.Connection) -> int:
            now = table_from_row(lock_table(connection, table.table_id, str(table.identifier)))
            # The state replaces the steps that would have led there, one of which the metastore may refuse.
            whole = publication.create or now.definition.table_type is TableType.VIEW
            forget_table(connection, table.table_id, upto=None if whole else publication.upto)
            if now.definition.table_type is TableType.VIEW:
                return _publish_view(connection, now, publication)
            _give_orphans(connection, now)
            count = _publish_definition(connection, now, publication)
            if publication.dropped:
                count += enqueue_changes(connection, now, PartitionChanges(dropped=_gone(connection, now, publication)))
            for found in _published(connection, now, None if publication.create else publication.partitions):
                count += enqueue_changes(connection, now, PartitionChanges(altered=found))
            return count

        return self._database.write(work)

    def page(self, table: Table, after: int) -> tuple[list[PublishedPartition], int | None]:
        """Return the next partitions that the metastore is to have, and where the page after them begins, if any.

        Args:
            table: The table.
            after: -1, or what the page before has returned.
        """
        with self._database.reading() as connection:
            rows = _rows(connection, table, after)
            orphans = _orphans(connection, table, rows)
            held = [row for row in rows if row["in_metastore"]]
            found = _partitions(connection, table, [*held, *orphans])
        return found, rows[-1]["partition_id"] if len(rows) == PAGE else None


def _publish_view(connection: sa.Connection, table: Table, publication: Publication) -> int:
    view = view_rows.load(connection, table.identifier)
    enqueue(connection, PutView(view.table.definition, view.query), table.table_id)
    changes = published_partitions(connection, table.table_id)
    there = {partition_values(partition.name) for partition in changes.added}
    gone = [name for name in publication.dropped if partition_values(name) not in there]
    return 1 + enqueue_changes(connection, view.table, replace(changes, dropped=gone))


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


def _published(
    connection: sa.Connection, table: Table, names: Sequence[str] | None
) -> Iterator[list[PublishedPartition]]:
    if names is not None:
        for chunk in batched(list(names), _IN_QUERY):
            yield _partitions(
                connection, table, [row for row in _named(connection, table, chunk) if row["in_metastore"]]
            )
        return
    after: int | None = -1
    while after is not None:
        rows = _rows(connection, table, after)
        yield _partitions(connection, table, [row for row in rows if row["in_metastore"]])
        after = rows[-1]["partition_id"] if len(rows) == PAGE else None


def _rows(connection: sa.Connection, table: Table, after: int) -> Sequence[sa.RowMapping]:
    p = partitions.c
    statement = (
        sa.select(partitions, now_column(connection))
        .where(p.table_id == table.table_id, living(partitions, table.table_id), p.partition_id > after)
        .order_by(p.partition_id)
        .limit(PAGE)
    )
    return connection.execute(statement).mappings().all()


def _named(connection: sa.Connection, table: Table, names: Sequence[str]) -> Sequence[sa.RowMapping]:
    p = partitions.c
    hashes = [name_hash(name) for name in names]
    statement = sa.select(partitions, now_column(connection)).where(
        p.table_id == table.table_id, p.name_hash.in_(hashes), p.end_version == ALIVE
    )
    return connection.execute(statement).mappings().all()


def _gone(connection: sa.Connection, table: Table, publication: Publication) -> list[str]:
    """Return the names to drop, but those whose values have come into the index since they were compared."""
    there = heirs(connection, table, publication.dropped)
    return [name for name in publication.dropped if partition_values(name) not in there]


def _orphans(connection: sa.Connection, table: Table, rows: Sequence[sa.RowMapping]) -> list[sa.RowMapping]:
    """Return those of the partitions that the metastore could have, and has no other of their values."""
    names = [row["name"] for row in rows if not row["in_metastore"] and not metastore_obstacle(row["name"])]
    chosen = {row["partition_id"] for row in heirs(connection, table, names).values() if not row["in_metastore"]}
    return [row for row in rows if row["partition_id"] in chosen]


def _give_orphans(connection: sa.Connection, table: Table) -> None:
    """Have the metastore get what its twin has kept from it that has ended: older releases did not tell it."""
    p = partitions.c
    apart = sa.select(partitions).where(p.table_id == table.table_id, p.end_version == ALIVE, p.in_metastore == 0)
    orphans = _orphans(connection, table, connection.execute(apart).mappings().all())
    give_to_metastore(connection, [row["partition_id"] for row in orphans])


def _partitions(connection: sa.Connection, table: Table, rows: Sequence[sa.RowMapping]) -> list[PublishedPartition]:
    # Of those that are read as the table nothing is said: somebody may just have given one a descriptor there.
    numbers = {row["descriptor_id"] for row in rows} - {None}
    said = documents(connection, table.table_id, numbers) if numbers else {}
    return [
        PublishedPartition(
            row["name"],
            table.directory(row["name"], row["location"]),
            statistics_parameters(row["n_files"], row["n_bytes"], row["n_rows"], row["now_ms"]),
            said.get(row["descriptor_id"]),
        )
        for row in rows
    ]
