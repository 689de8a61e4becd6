"""A Hive Metastore in memory that keeps a notification log, as DbNotificationListener does."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.events import HiveEvent, PartitionHint, Statistics
from catalog_ext.metastore.hive.mapping.model import HivePartition, HiveTable, metastore_name
from catalog_ext.metastore.hive.thrift.uris import unavailable
from tests.kit.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class LoggingMetastore(FakeMetastore):
    """Its changes are events, one each, but for added partitions: one for all of a call.

    Attributes:
        log: The events that are there; tests take some out.
        newest: The number of the last event that was ever there.
        holds: Events that a call may find after the one that it asks from, as a server of release 2.3 reads them all
            and dies of too many; None for a server that reads what it is asked for.
        dies: Whether it is away after such a call, until ``down`` is set back, or only breaks the connection off.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: list[HiveEvent] = []
        self.newest = 0
        self.holds: int | None = None
        self.dies = True

    def newest_event_id(self) -> int:
        self._called("newest_event_id")
        return self.newest

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        self._called("events_after")
        first = bisect_right(self.log, event_id, key=lambda event: event.event_id)
        if self.holds is not None and len(self.log) - first > self.holds:
            self.down = self.dies
            raise unavailable([self.address], "reading the notification log broke off", request_sent=True)
        return self.log[first : first + most]

    def emit(
        self, kind: str, database: str, table: str, partitions: Sequence[PartitionHint] | None = (), **more: object
    ) -> None:
        """Add an event."""
        self.newest += 1
        hints = None if partitions is None else tuple(partitions)
        self.log.append(HiveEvent(self.newest, 0, kind, database, table, hints, **more))  # type: ignore[arg-type]

    def create_table(self, table: HiveTable) -> None:
        super().create_table(table)
        self.emit("CREATE_TABLE", table.database, table.name, definition=True)

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        super().drop_table(database, name, delete_data=delete_data)
        self.emit("DROP_TABLE", database, name, definition=True, dropped=True)

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        before = self._table(table.database, table.name)
        super().alter_table(table, cascade=cascade)
        then, now = before.parameters, table.parameters
        whole = () if table.partition_columns else (PartitionHint("", written=written(then, now)),)
        changed = frozenset(k for k in {*then, *now} if then.get(k) != now.get(k))
        columns = before.columns != table.columns
        moved = None if before.location == table.location else before.location
        self.emit(
            "ALTER_TABLE", table.database, table.name, whole, definition=True, columns=columns, parameters=changed,
            storage=before.storage != table.storage, moved_from=moved,
        )  # fmt: skip

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        super().rename_table(database, name, to_database, to_name)
        self.emit(
            "ALTER_TABLE", database, name, definition=True, dropped=True, renamed_to=(to_database, to_name)
        )  # fmt: skip

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        super().add_partitions(database, table, partitions, if_not_exists=if_not_exists)
        hints = [PartitionHint(self._name(database, table, p), written=written({}, p.parameters)) for p in partitions]
        self.emit("ADD_PARTITION", database, table, hints)

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        before = {p.values: p for p in self._by_name(database, table).values()}
        super().alter_partitions(database, table, partitions)
        for partition in partitions:
            change = written(before[partition.values].parameters, partition.parameters)
            hint = PartitionHint(self._name(database, table, partition), written=change)
            self.emit("ALTER_PARTITION", database, table, [hint])

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        there = self._by_name(database, table)
        super().drop_partitions(database, table, names, if_exists=if_exists, delete_data=delete_data)
        for name in names:
            if name in there:
                self.emit("DROP_PARTITION", database, table, [PartitionHint(name, dropped=True)])

    def rename_partition(self, database: str, table: str, name: str, values: tuple[str, ...]) -> None:
        """Give a partition other values; it stays where it is."""
        found = self._by_name(database, table)[name]
        del self._partitions[database, table][found.values]
        renamed = HivePartition(values, found.location, found.parameters, found.storage)
        self._partitions[database, table][values] = renamed
        hints = [PartitionHint(name, dropped=True), PartitionHint(self._name(database, table, renamed))]
        self.emit("ALTER_PARTITION", database, table, hints)

    def insert(self, database: str, table: str, name: str) -> None:
        """Say that a partition got rows, as Hive does after it has put the files there."""
        self.emit("ALTER_PARTITION", database, table, [PartitionHint(name)])

    def _name(self, database: str, table: str, partition: HivePartition) -> str:
        keys = [c.name for c in self._table(database, table).partition_columns]
        return metastore_name(keys, partition.values)


def written(then: Mapping[str, str], now: Mapping[str, str]) -> Statistics | None:
    """The statistics that a change has set, as the log's reader finds them."""
    names = ("numFiles", "totalSize", "transient_lastDdlTime")
    values = [now.get(name) for name in names]
    if None in values or [then.get(name) for name in names] == values:
        return None
    return Statistics(*map(str, values))
