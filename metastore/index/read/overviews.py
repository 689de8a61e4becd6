"""What the index comes to, for people who look: sums and the newest of everything, in queries that are bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import followed_tables, outbox, verifications
from catalog_ext.metastore.index.read import file_sizes, growth, partition_map, table_list
from catalog_ext.metastore.index.read.table_list import Pending, TableOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog_ext.metastore.index.database.database import Database
    from catalog_ext.metastore.index.read.dates import DateForm
    from catalog_ext.metastore.index.read.file_sizes import SizeClass, SmallFiles
    from catalog_ext.metastore.index.read.growth import CommitCount, HistoryEvent, Position, Size
    from catalog_ext.metastore.index.read.partition_map import Axis, Bounds, Cell
    from catalog_ext.metastore.index.read.table_list import TableListing, TableSummary
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.model.values import Key
    from catalog_ext.metastore.predicates.tree import Predicate


class Overviews:
    """Overviews of an open index; errors of the database are as in ``Index``. Nothing is changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_tables(
        self, *, search: str = "", pending: Pending = Pending.ALL, order: TableOrder = TableOrder.NAME,
        descending: bool = False, limit: int = 100, offset: int = 0,
    ) -> TableListing:  # fmt: skip
        """Return a page of the tables and views (``list_summaries``)."""
        return table_list.list_summaries(
            self._database, search=search, pending=pending, order=order, descending=descending, limit=limit,
            offset=offset,
        )  # fmt: skip

    def load_table(self, table_id: int) -> TableSummary | None:
        """Return what the index knows of one table; None where it is gone."""
        return table_list.load_summary(self._database, table_id)

    def key_bounds(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key]
    ) -> list[Bounds]:  # fmt: skip
        """Return the bounds of some keys (``partition_map.key_bounds``)."""
        return partition_map.key_bounds(self._database, table, predicate, keys)

    def key_values(
        self, table: Table, predicate: Predicate | None, key: Key, *, after: str | None, limit: int
    ) -> list[str]:
        """Return the next encoded values of a key (``partition_map.key_values``)."""
        return partition_map.key_values(self._database, table, predicate, key, after=after, limit=limit)

    def count_nulls(self, table: Table, predicate: Predicate | None, keys: Sequence[Key]) -> list[int]:
        """Return how many partitions have NULL for each of some keys (``partition_map.count_nulls``)."""
        return partition_map.count_nulls(self._database, table, predicate, keys)

    def combinations(
        self, table: Table, predicate: Predicate | None, keys: Sequence[Key], limit: int
    ) -> list[tuple[str, ...]]:  # fmt: skip
        """Return the combinations of values of some keys (``partition_map.combinations``)."""
        return partition_map.combinations(self._database, table, predicate, keys, limit)

    def days_of(
        self, table: Table, predicate: Predicate | None, key: Key, form: DateForm, limit: int
    ) -> list[str]:  # fmt: skip
        """Return the days of a key whose values are days (``partition_map.days_of``)."""
        return partition_map.days_of(self._database, table, predicate, key, form, limit)

    def partition_map(
        self, table: Table, predicate: Predicate | None, axes: Sequence[Axis], limit: int
    ) -> Mapping[tuple[str, ...], Cell]:
        """Return what lies at each place of a map (``partition_map.partition_map``)."""
        return partition_map.partition_map(self._database, table, predicate, axes, limit)

    def history_span(self, table: Table) -> tuple[int, int] | None:
        """Return when the first and the last commit or repair that is kept were."""
        return growth.history_span(self._database, table)

    def growth(self, table: Table, step_ms: int) -> list[Size]:
        """Return what the table had at the end of each interval (``growth.growth``)."""
        return growth.growth(self._database, table, step_ms)

    def commit_counts(self, table: Table, step_ms: int) -> list[CommitCount]:
        """Return how many commits of each kind each interval has."""
        return growth.commit_counts(self._database, table, step_ms)

    def recent_events(
        self, table: Table, *, before: Position | None, limit: int
    ) -> tuple[list[HistoryEvent], Position | None]:
        """Return commits and repairs, the newest first, and where the next are (``growth.recent_events``)."""
        return growth.recent_events(self._database, table, before=before, limit=limit)

    def file_sizes(self, table: Table, edges: Sequence[int], every: int = 1) -> list[SizeClass]:
        """Return how many files of each class of sizes the table has (``file_sizes.file_sizes``)."""
        return file_sizes.file_sizes(self._database, table, edges, every)

    def small_file_partitions(self, table: Table, below: int, limit: int) -> list[SmallFiles]:
        """Return the partitions whose files are small on average, those with the most files first."""
        return file_sizes.small_file_partitions(self._database, table, below, limit)

    def compared_since(self, table: Table) -> int:
        """Return how many partitions were compared with the store by themselves since all were."""
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
        """Return how many messages the metastore has not taken, and how many of them were tried in vain.

        Of a table those are counted that ``Index.pending_deliveries`` lists: of a dropped one of its name, too.
        """
        statement = sa.select(sa.func.count(), sa.func.count(outbox.c.last_error))
        if table is not None:
            named = table.identifier
            statement = statement.where(outbox.c.namespace == named.namespace, outbox.c.table_name == named.name)
        with self._database.reading() as connection:
            pending, failed = connection.execute(statement).one()
        return int(pending), int(failed)
