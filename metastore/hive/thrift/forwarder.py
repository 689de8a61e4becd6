"""The base of everything that passes a metastore's calls on: failover, repetition."""

# ruff: noqa: D102 -- the methods are documented at HiveMetastore

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, HiveMetastore, fetch_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.hive.events.event import HiveEvent
    from catalog_ext.metastore.hive.locks.model import LockComponent, ShownLock
    from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition, HiveTable

Result = TypeVar("Result")


class CallForwarder(ABC):
    """A metastore whose every call goes through one method, ``_call``: the base of the decorators.

    Sub-classes decide which metastore answers, and how often a call is tried.
    """

    @abstractmethod
    def _call(self, method: str, function: Callable[[HiveMetastore], Result], *, repeatable: bool = True) -> Result:
        """Return what ``function`` answers for the metastore chosen.

        Args:
            method: The name of the method that it calls.
            function: The call.
            repeatable: Whether the call may reach a server twice and come to the same.
        """

    @abstractmethod
    def close(self) -> None:
        """Give up the connections; a later call opens new ones."""

    def list_databases(self) -> list[str]:
        return self._call("list_databases", lambda m: m.list_databases())

    def get_database(self, name: str) -> HiveDatabase:
        return self._call("get_database", lambda m: m.get_database(name))

    def create_database(self, database: HiveDatabase) -> None:
        self._call("create_database", lambda m: m.create_database(database), repeatable=False)

    def alter_database(self, database: HiveDatabase) -> None:
        self._call("alter_database", lambda m: m.alter_database(database))

    def drop_database(self, name: str) -> None:
        self._call("drop_database", lambda m: m.drop_database(name), repeatable=False)

    def list_tables(self, database: str) -> list[str]:
        return self._call("list_tables", lambda m: m.list_tables(database))

    def get_table(self, database: str, name: str) -> HiveTable:
        return self._call("get_table", lambda m: m.get_table(database, name))

    def create_table(self, table: HiveTable) -> None:
        self._call("create_table", lambda m: m.create_table(table), repeatable=False)

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        self._call("drop_table", lambda m: m.drop_table(database, name, delete_data=delete_data), repeatable=False)

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        self._call("alter_table", lambda m: m.alter_table(table, cascade=cascade))

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        self._call("rename_table", lambda m: m.rename_table(database, name, to_database, to_name), repeatable=False)

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        self._call(
            "add_partitions",
            lambda m: m.add_partitions(database, table, partitions, if_not_exists=if_not_exists),
            repeatable=if_not_exists,
        )

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        self._call("alter_partitions", lambda m: m.alter_partitions(database, table, partitions))

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        self._call(
            "drop_partitions",
            lambda m: m.drop_partitions(database, table, names, if_exists=if_exists, delete_data=delete_data),
            repeatable=if_exists,
        )

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        return self._call("partition_names", lambda m: m.partition_names(database, table))

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        return self._call("partitions_by_names", lambda m: m.partitions_by_names(database, table, names))

    def newest_event_id(self) -> int:
        return self._call("newest_event_id", lambda m: m.newest_event_id())

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        return self._call(
            "events_after", lambda m: m.events_after(event_id, most, once=once), repeatable=not once
        )  # fmt: skip

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        return self._call("lock", lambda m: m.lock(components, user, host, agent), repeatable=False)

    def check_lock(self, number: int) -> int:
        return self._call("check_lock", lambda m: m.check_lock(number))

    def heartbeat_lock(self, number: int) -> None:
        self._call("heartbeat_lock", lambda m: m.heartbeat_lock(number))

    def unlock(self, number: int) -> None:
        self._call("unlock", lambda m: m.unlock(number))

    def show_locks(self, database: str, table: str) -> list[ShownLock]:
        return self._call("show_locks", lambda m: m.show_locks(database, table))

    def config_value(self, name: str, default: str) -> str:
        return self._call("config_value", lambda m: m.config_value(name, default))

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        # Put together here, not passed on: each batch is a call of its own, tried again and counted by itself.
        return fetch_partitions(self, database, table, batch)
