"""The interface to a Hive Metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from catalog_ext.metastore.model.batches import batched

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog_ext.metastore.hive.events import HiveEvent
    from catalog_ext.metastore.hive.mapping.model import (
        HiveDatabase,
        HivePartition,
        HiveTable,
        LockComponent,
        ShownLock,
    )

DEFAULT_BATCH = 1000
"""Partitions added or read a call: thrift messages of some 500 kB, transactions that every metastore database takes."""

SMALL_BATCH = 200
"""Partitions dropped a call: release 2.3 makes one condition of all names, and Derby refuses 600."""


class HiveMetastore(Protocol):
    """A Hive Metastore. Names are the metastore's: lower case, one level.

    Every method raises ``MetastoreUnavailableError`` when no server answers and ``MetastoreRefusedError`` when one
    answers with an error that has no class of its own. Instances may be used by several threads at once.
    """

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""

    def get_database(self, name: str) -> HiveDatabase:
        """Return the database.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
        """

    def create_database(self, database: HiveDatabase) -> None:
        """Make a database.

        Raises:
            NamespaceAlreadyExistsError: One of that name is there.
        """

    def alter_database(self, database: HiveDatabase) -> None:
        """Set the comment, the location (unless it is None) and the parameters of the database.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
        """

    def drop_database(self, name: str) -> None:
        """Drop an empty database; its directory stays.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            NamespaceNotEmptyError: It has tables.
        """

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the database's tables and views; none for a database that is not there."""

    def get_table(self, database: str, name: str) -> HiveTable:
        """Return the table.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def create_table(self, table: HiveTable) -> None:
        """Make a table.

        Raises:
            NamespaceNotFoundError: Its database is not there.
            TableAlreadyExistsError: A table or view of that name is there.
        """

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        """Drop a table with its partitions; the files stay unless ``delete_data``.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        """Replace the attributes of ``HiveTable`` in the table of that name; other attributes stay.

        Args:
            table: The new attributes.
            cascade: Whether its partitions get its columns too.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        """Give an external table another name, maybe in another database; a managed one's directory would move.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        """Add partitions, all of them or none; with ``if_not_exists``, existing ones stay unchanged.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        """Set the location and the parameters of existing partitions, all of them or none.

        Their storage is set if ``partitions`` have one; other attributes stay. The metastore computes no statistics.

        Raises:
            TableNotFoundError: The table does not exist.
            PartitionNotFoundError: A partition does not exist.
        """

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        """Drop partitions by the metastore's names, all of them or none; files stay unless ``delete_data``.

        Raises:
            TableNotFoundError: The table is not there.
            PartitionNotFoundError: A partition is not there and ``if_exists`` is False.
        """

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        """Return the metastore's names of all partitions (``k1=v1/k2=v2``, values in Hive's escaping).

        Raises:
            TableNotFoundError: The table is not there.
        """

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        """Return the existing partitions among the names, in any order."""

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        """Return all partitions, fetched ``batch`` at a time."""

    def newest_event_id(self) -> int:
        """Return the number of the newest event of the notification log; 0 where it has none, as of no log."""

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        """Return the next events of the notification log, at most so many, in order.

        Args:
            event_id: The event that they come after.
            most: How many at most.
            once: Whether one server is asked, once: of many events that are there it may die, and so may the next.
        """

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        """Ask for one of Hive's locks, all of its components or none; return its number and its ``LockState``."""

    def check_lock(self, number: int) -> int:
        """Return the ``LockState`` of a lock that was asked for; this is a sign of life, too.

        Raises:
            HiveLockLostError: The server has it no more.
        """

    def heartbeat_lock(self, number: int) -> None:
        """Give a sign of life for a lock.

        Raises:
            HiveLockLostError: The server has it no more.
        """

    def unlock(self, number: int) -> None:
        """Give up a lock, or the request for it.

        Raises:
            HiveLockLostError: The server has it no more.
        """

    def show_locks(self, database: str, table: str) -> list[ShownLock]:
        """Return the locks of a table and of its partitions that are held, or waited for."""

    def config_value(self, name: str, default: str) -> str:
        """Return a setting of the server's own configuration."""

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""


def fetch_partitions(metastore: HiveMetastore, database: str, table: str, batch: int) -> Iterator[HivePartition]:
    """Yield all partitions of the table, through ``partition_names`` and ``partitions_by_names``."""
    names = metastore.partition_names(database, table)
    for chunk in batched(names, batch):
        yield from metastore.partitions_by_names(database, table, chunk)
