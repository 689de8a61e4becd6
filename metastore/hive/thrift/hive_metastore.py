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
"""Partitions per call that adds or reads: thrift messages of about 500 kB, transactions that each database accepts."""

SMALL_BATCH = 200
"""Partitions per call that drops: release 2.3 puts all names into one SQL condition, and Derby refuses 600 names."""


class HiveMetastore(Protocol):
    """A Hive Metastore. Names are in the metastore's form: lower case, and databases are not nested.

    Every method raises ``MetastoreUnavailableError`` when no server answers, and ``MetastoreRefusedError`` when a
    server answers with an error that has no class of its own here. Instances may be used by several threads at once.
    """

    def list_databases(self) -> list[str]:
        """Return the names of all databases."""

    def get_database(self, name: str) -> HiveDatabase:
        """Return the database.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
        """

    def create_database(self, database: HiveDatabase) -> None:
        """Create a database.

        Raises:
            NamespaceAlreadyExistsError: A database of that name exists.
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
            NamespaceNotEmptyError: The namespace has tables.
        """

    def list_tables(self, database: str) -> list[str]:
        """Return the names of the database's tables and views; no names if the database does not exist."""

    def get_table(self, database: str, name: str) -> HiveTable:
        """Return the table.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def create_table(self, table: HiveTable) -> None:
        """Create a table.

        Raises:
            NamespaceNotFoundError: The table's database does not exist.
            TableAlreadyExistsError: A table or view of that name exists.
        """

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        """Drop a table with its partitions; the files stay unless ``delete_data`` is true.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        """Replace all attributes of the table that ``HiveTable`` has; attributes that only the metastore has stay.

        Args:
            table: The new attributes; database and name identify the table.
            cascade: Whether the table's partitions get its columns, too.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        """Give an external table another name, possibly in another database.

        Do not call this for a managed table: the metastore would move its directory.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        """Add partitions, all of them or none; with ``if_not_exists``, existing partitions stay unchanged.

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        """Set the location and the parameters of existing partitions, all of them or none.

        The storage of a partition is set if it is given in ``partitions``; other attributes stay. The metastore
        computes no statistics.

        Raises:
            TableNotFoundError: The table does not exist.
            PartitionNotFoundError: A partition does not exist.
        """

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        """Drop partitions by the metastore's names, all of them or none; the files stay unless ``delete_data`` is true.

        Raises:
            TableNotFoundError: The table does not exist.
            PartitionNotFoundError: A partition does not exist, and ``if_exists`` is False.
        """

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        """Return the metastore's names of all partitions (``k1=v1/k2=v2``, values in Hive's escaping).

        Raises:
            TableNotFoundError: The table does not exist.
        """

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        """Return the partitions with the given names, in any order; names without a partition are left out."""

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        """Return all partitions, fetched ``batch`` at a time."""

    def newest_event_id(self) -> int:
        """Return the number of the newest event of the notification log; 0 if the log is empty or switched off."""

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        """Return the next events of the notification log, in order.

        Args:
            event_id: The event after which to start.
            most: The largest number of events to return.
            once: Whether to send this call only once, to one server. Reading very many events can crash a server, and a
                retry would crash the next one, too.
        """

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        """Request a Hive lock on all components or none; return the request's number and its ``LockState``."""

    def check_lock(self, number: int) -> int:
        """Return the ``LockState`` of a lock request; this also counts as a heartbeat.

        Raises:
            HiveLockLostError: The server has ended the lock or the request.
        """

    def heartbeat_lock(self, number: int) -> None:
        """Send a heartbeat for a lock.

        Raises:
            HiveLockLostError: The server has ended the lock.
        """

    def unlock(self, number: int) -> None:
        """Release a lock, or cancel the request for it.

        Raises:
            HiveLockLostError: The server has ended the lock or the request.
        """

    def show_locks(self, database: str, table: str) -> list[ShownLock]:
        """Return the locks of a table and of its partitions that are held, or waited for."""

    def config_value(self, name: str, default: str) -> str:
        """Return a setting of the server's own configuration; ``default`` if the server does not set it."""

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""


def fetch_partitions(metastore: HiveMetastore, database: str, table: str, batch: int) -> Iterator[HivePartition]:
    """Yield all partitions of the table, through ``partition_names`` and ``partitions_by_names``."""
    names = metastore.partition_names(database, table)
    for chunk in batched(names, batch):
        yield from metastore.partitions_by_names(database, table, chunk)
