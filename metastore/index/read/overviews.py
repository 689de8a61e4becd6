"""Overviews of the index for people: sums, maps and the newest events, in queries whose answers are bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import followed_tables, outbox, verifications
from catalog_ext.metastore.index.read.file_sizes import FileSizes
from catalog_ext.metastore.index.read.growth import TableHistory
from catalog_ext.metastore.index.read.partition_map import PartitionCounts
from catalog_ext.metastore.index.read.table_list import TableList

if TYPE_CHECKING:
    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.model.tables import Table


class Overviews:
    """The overviews of an open index; they change nothing, and raise the errors of ``Index``.

    Attributes:
        tables: The tables and views with their sums.
        partitions: The partitions of a table by the values of its keys.
        history: The size, the commits and the repairs of a table over time.
        files: The sizes of a table's files.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.tables = TableList(database)
        self.partitions = PartitionCounts(database)
        self.history = TableHistory(database)
        self.files = FileSizes(database)

    def compared_since(self, table: Table) -> int:
        """Return how many partitions were compared with the store one by one since the whole table was compared."""
        v = verifications.c
        statement = sa.select(sa.func.count()).where(v.table_id == table.table_id, v.name_hash != "")
        with self._database.reading() as connection:
            return int(connection.execute(statement).scalar_one())

    def compared_with_metastore(self, table: Table) -> int | None:
        """Return the version at which a follower last compared the table with the metastore; None for never."""
        f = followed_tables.c
        with self._database.reading() as connection:
            return connection.execute(sa.select(f.version).where(f.table_id == table.table_id)).scalar()

    def count_deliveries(self, table: Table | None) -> tuple[int, int]:
        """Return the number of pending outbox messages, and how many of them have failed.

        The messages of a table are those of its name, as ``Outbox.pending`` lists them.
        """
        statement = sa.select(sa.func.count(), sa.func.count(outbox.c.last_error))
        if table is not None:
            named = table.identifier
            statement = statement.where(outbox.c.namespace == named.namespace, outbox.c.table_name == named.name)
        with self._database.reading() as connection:
            pending, failed = connection.execute(statement).one()
        return int(pending), int(failed)
