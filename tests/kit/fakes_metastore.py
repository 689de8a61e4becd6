"""A Hive Metastore in memory that refuses what the real one refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.errors import (
    MetastoreRefusedError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PartitionNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, metastore_name
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient, Server
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, fetch_partitions
from catalog_ext.metastore.hive.thrift.uris import Address, unavailable
from tests.kit.fakes_metastore_locks import LockTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.hive.events import HiveEvent
    from catalog_ext.metastore.hive.mapping.model import (
        HiveDatabase,
        HivePartition,
        HiveTable,
        LockComponent,
        ShownLock,
    )
    from catalog_ext.metastore.hive.thrift.forwarder import Guard

_ADDRESS = Address("fake.invalid")


def client_of(fake: Any, guard: Guard | None = None) -> MetastoreClient:
    """A client of one server, which tries each call once."""
    return MetastoreClient([Server(_ADDRESS, fake)], guard, attempts=1)


def serving(find: Callable[[str], Any]) -> Callable[..., MetastoreClient]:
    """What takes the place of ``Settings.connect_metastore``: the metastore at an address is looked up."""
    return lambda _, uris, guard=None: client_of(find(uris), guard)


class FakeMetastore:
    """Keeps databases, tables and partitions in dictionaries.

    Attributes:
        down: Calls fail as if no server accepted the connection.
        breaks_off: Calls are carried out, and fail as if the connection broke before the answer.
        most_altered: More partitions in one alteration are refused, as release 4 on Derby does.
        calls: Calls so far, by method.
        batches: The sizes of the batches of partitions added, altered and dropped.
        locks: Hive's locks.
        cascaded: The columns' names of alterations that partitions followed.
    """

    def __init__(self, address: Address = _ADDRESS) -> None:
        self.address = address
        self.down = False
        self.breaks_off = False
        self.most_altered = 1000
        self.calls: Counter[str] = Counter()
        self.batches: list[int] = []
        self.cascaded: list[tuple[str, ...]] = []
        self.closed = 0
        self.locks = LockTable()
        self._databases: dict[str, HiveDatabase] = {}
        self._tables: dict[tuple[str, str], HiveTable] = {}
        self._partitions: dict[tuple[str, str], dict[tuple[str, ...], HivePartition]] = {}

    def take_over(self, other: FakeMetastore) -> None:
        """Have the databases, tables and partitions that another one has."""
        self._databases = dict(other._databases)
        self._tables = dict(other._tables)
        self._partitions = {table: dict(partitions) for table, partitions in other._partitions.items()}

    def close(self) -> None:
        self.closed += 1

    def list_databases(self) -> list[str]:
        self._called("list_databases")
        return sorted(self._databases)

    def get_database(self, name: str) -> HiveDatabase:
        self._called("get_database")
        if name not in self._databases:
            raise NamespaceNotFoundError(f"The metastore has no namespace {name}.")
        return self._databases[name]

    def create_database(self, database: HiveDatabase) -> None:
        self._reachable("create_database")
        if database.name in self._databases:
            raise NamespaceAlreadyExistsError(f"The namespace {database.name} is in the metastore already.")
        self._databases[database.name] = database
        self._answer()

    def alter_database(self, database: HiveDatabase) -> None:
        found = self.get_database(database.name)
        self._reachable("alter_database")
        self._databases[database.name] = replace(database, location=database.location or found.location)
        self._answer()

    def drop_database(self, name: str) -> None:
        self._reachable("drop_database")
        if name not in self._databases:
            raise NamespaceNotFoundError(f"The metastore has no namespace {name}.")
        if any(database == name for database, _ in self._tables):
            raise NamespaceNotEmptyError(f"The namespace {name} has tables.")
        del self._databases[name]
        self._answer()

    def list_tables(self, database: str) -> list[str]:
        self._called("list_tables")
        return sorted(name for owner, name in self._tables if owner == database)

    def get_table(self, database: str, name: str) -> HiveTable:
        self._called("get_table")
        return self._table(database, name)

    def create_table(self, table: HiveTable) -> None:
        self._reachable("create_table")
        if table.database not in self._databases:
            raise NamespaceNotFoundError(f"The metastore has no namespace {table.database}.")
        if (table.database, table.name) in self._tables:
            raise TableAlreadyExistsError(f"The table {table} is in the metastore already.")
        self._tables[table.database, table.name] = table
        self._partitions[table.database, table.name] = {}
        self._answer()

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        self._reachable("drop_table")
        assert not delete_data, "catalog-ext deletes files itself"
        self._table(database, name)
        del self._tables[database, name], self._partitions[database, name]
        self._answer()

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        self._reachable("alter_table")
        found = self._table(table.database, table.name)
        types = zip((c.type for c in found.columns), (c.type for c in table.columns), strict=False)
        if any(old != new for old, new in types):
            raise MetastoreRefusedError("The following columns have types incompatible with the existing columns")
        if cascade:
            self.cascaded.append(tuple(c.name for c in table.columns))
        self._tables[table.database, table.name] = table
        self._answer()

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        self._reachable("rename_table")
        found = self._table(database, name)
        assert found.table_type == EXTERNAL_TABLE, "the directory of a managed one would move"
        if (to_database, to_name) in self._tables:
            raise MetastoreRefusedError(f"new table {to_database}.{to_name} already exists")
        del self._tables[database, name]
        self._tables[to_database, to_name] = replace(found, database=to_database, name=to_name)
        self._partitions[to_database, to_name] = self._partitions.pop((database, name))
        self._answer()

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        self._reachable("add_partitions")
        self._table(database, table)
        held = self._partitions[database, table]
        if len({p.values for p in partitions}) < len(partitions):
            raise MetastoreRefusedError("Duplicate partitions in the list")
        if not if_not_exists and any(p.values in held for p in partitions):
            raise MetastoreRefusedError("Partition already exists")
        self.batches.append(len(partitions))
        for partition in partitions:
            held.setdefault(partition.values, partition)
        self._answer()

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        self._reachable("alter_partitions")
        self._table(database, table)
        if len(partitions) > self.most_altered:
            raise MetastoreRefusedError("JDOException")
        held = self._partitions[database, table]
        if any(p.values not in held for p in partitions):
            raise PartitionNotFoundError("Not all partitions are there.")
        self.batches.append(len(partitions))
        held.update({p.values: p for p in partitions})
        self._answer()

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        self._reachable("drop_partitions")
        assert not delete_data, "catalog-ext deletes files itself"
        by_name = self._by_name(database, table)
        if not if_exists and any(name not in by_name for name in names):
            raise PartitionNotFoundError("Not all partitions are there.")
        self.batches.append(len(names))
        for name in names:
            if name in by_name:
                del self._partitions[database, table][by_name[name].values]
        self._answer()

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        self._called("partition_names")
        return iter(list(self._by_name(database, table)))

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        self._called("partitions_by_names")
        by_name = self._by_name(database, table)
        return [by_name[name] for name in names if name in by_name]

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        return fetch_partitions(self, database, table, batch)

    def newest_event_id(self) -> int:
        self._called("newest_event_id")
        return 0

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        raise AssertionError("it keeps no log")

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        self._reachable("lock")
        answer = self.locks.lock(components, user, host, agent)
        self._answer()
        return answer

    def check_lock(self, number: int) -> int:
        self._called("check_lock")
        return self.locks.check_lock(number)

    def heartbeat_lock(self, number: int) -> None:
        self._called("heartbeat_lock")
        self.locks.heartbeat_lock(number)

    def unlock(self, number: int) -> None:
        self._called("unlock")
        self.locks.unlock(number)

    def show_locks(self, database: str, table: str) -> list[ShownLock]:
        self._called("show_locks")
        return self.locks.show(database, table)

    def config_value(self, name: str, default: str) -> str:
        self._called("config_value")
        return self.locks.timeout if name == "hive.txn.timeout" else default

    def _called(self, method: str) -> None:
        self._reachable(method)
        self._answer()

    def _reachable(self, method: str) -> None:
        self.calls[method] += 1
        if self.down:
            raise unavailable([self.address], "no connection", request_sent=False)

    def _answer(self) -> None:
        if self.breaks_off:
            raise unavailable([self.address], "the connection broke", request_sent=True)

    def _table(self, database: str, name: str) -> HiveTable:
        if (database, name) not in self._tables:
            name = f"{database}.{name}"
            raise TableNotFoundError(f"The metastore has no table {name}.", {"table": name})
        return self._tables[database, name]

    def _by_name(self, database: str, table: str) -> dict[str, HivePartition]:
        keys = [c.name for c in self._table(database, table).partition_columns]
        return {
            metastore_name(keys, partition.values): partition
            for partition in self._partitions[database, table].values()
        }
