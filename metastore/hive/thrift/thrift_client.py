"""The thrift client of one metastore server (library hmsclient), for releases 2.1 to 4."""

# ruff: noqa: D102 -- the methods are documented at HiveMetastore

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hmsclient.genthrift.hive_metastore import ttypes as wire
from thrift.Thrift import TApplicationException

from catalog_ext.metastore.errors import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PartitionNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.events import event_of
from catalog_ext.metastore.hive.mapping.model import (
    VIRTUAL_VIEW,
    HiveDatabase,
    HivePartition,
    HiveTable,
    metastore_name,
)
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.connection import ConnectionPool, is_unknown_method, server_message
from catalog_ext.metastore.hive.thrift.hive_metastore import DEFAULT_BATCH, fetch_partitions
from catalog_ext.metastore.hive.thrift.wire_objects import (
    database_of,
    lost_where_gone,
    overlay,
    overlay_partition,
    partition_of,
    shown_lock,
    table_of,
    wire_component,
    wire_database,
    wire_partition,
    wire_view_partition,
    without_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hmsclient.hmsclient import HMSClient

    from catalog_ext.metastore.hive.events import HiveEvent
    from catalog_ext.metastore.hive.mapping.model import LockComponent, ShownLock
    from catalog_ext.metastore.hive.thrift.uris import Address

CONNECT_TIMEOUT_SECONDS = 5.0
CALL_TIMEOUT_SECONDS = 60.0
_ALL = -1
_NAMES_A_REQUEST = 200
"""Partition names per request: releases 3 and 4 on Derby put all names into one SQL condition, and crash with 1,000."""
_NO_STATISTICS = wire.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"})
_CASCADE = wire.EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true", "CASCADE": "true"})


class ThriftMetastore:
    """The client of one metastore server. Connections are opened on demand, one for each thread that is in a call.

    Args:
        address: The server.
        connect_timeout: Seconds that the server has to accept a connection.
        call_timeout: Seconds that the server has to answer a call.
        lost: Called when a connection is lost or cannot be opened.
        access: TLS, Kerberos and user.
    """

    def __init__(
        self, address: Address, *, connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
        call_timeout: float = CALL_TIMEOUT_SECONDS, lost: Callable[[], None] = lambda: None, access: Access = PLAIN,
    ) -> None:  # fmt: skip
        self._pool = ConnectionPool(
            address, connect_timeout=connect_timeout, call_timeout=call_timeout, lost=lost, access=access
        )
        self._without_requests = False

    def close(self) -> None:
        self._pool.close()

    def drop_closed(self) -> None:
        """Close the idle connections that the server has closed."""
        self._pool.drop_closed()

    def list_databases(self) -> list[str]:
        return list(self._pool.call(lambda c: c.get_all_databases(), "listing the databases"))

    def get_database(self, name: str) -> HiveDatabase:
        return database_of(self._pool.call(lambda c: _get_database(c, name), "reading the database", table=name))

    def create_database(self, database: HiveDatabase) -> None:
        def create(client: HMSClient) -> None:
            try:
                client.create_database(wire_database(database))
            except wire.AlreadyExistsException as error:
                raise NamespaceAlreadyExistsError(
                    f"The namespace {database.name} is in the metastore already.", {"namespace": database.name}
                ) from error

        self._pool.call(create, "creating the database", table=database.name)

    def alter_database(self, database: HiveDatabase) -> None:
        def alter(client: HMSClient) -> None:
            found = _get_database(client, database.name)
            found.description = database.comment or ""
            found.parameters = dict(database.parameters)
            found.locationUri = database.location or found.locationUri
            client.alter_database(database.name, found)

        self._pool.call(alter, "altering the database", table=database.name)

    def drop_database(self, name: str) -> None:
        def drop(client: HMSClient) -> None:
            _get_database(client, name)  # release 2.3 fails with a wrong error if it is missing
            try:
                client.drop_database(name, False, False)
            except wire.NoSuchObjectException as error:
                raise _no_namespace(name) from error
            except wire.InvalidOperationException as error:
                raise NamespaceNotEmptyError(
                    f"The metastore does not drop the namespace {name}: {server_message(error)}. "
                    "Drop its tables first.",
                    {"namespace": name},
                ) from error

        self._pool.call(drop, "dropping the database", table=name)

    def list_tables(self, database: str) -> list[str]:
        def names(client: HMSClient) -> list[str]:
            try:
                return list(client.get_all_tables(database))
            except (wire.NoSuchObjectException, wire.UnknownDBException):
                return []  # release 4 raises, other releases return an empty list

        return self._pool.call(names, "listing the tables of", table=database)

    def get_table(self, database: str, name: str) -> HiveTable:
        found = self._pool.call(
            lambda c: self._get_table(c, database, name), "reading the table", table=f"{database}.{name}"
        )
        return table_of(found)

    def create_table(self, table: HiveTable) -> None:
        def create(client: HMSClient) -> None:
            try:
                client.create_table(overlay(wire.Table(), table))
            except wire.AlreadyExistsException as error:
                raise TableAlreadyExistsError(
                    f"The table {table} is in the metastore already.", {"table": str(table)}
                ) from error
            except wire.NoSuchObjectException as error:
                raise _no_namespace(table.database) from error
            except wire.InvalidObjectException as error:
                # Releases before 4 raise the same error for a missing database and for an invalid name. Look whether
                # the database exists.
                if table.database not in client.get_all_databases():
                    raise _no_namespace(table.database) from error
                raise

        self._pool.call(create, "creating the table", table=str(table))

    def drop_table(self, database: str, name: str, *, delete_data: bool = False) -> None:
        def drop(client: HMSClient) -> None:
            try:
                client.drop_table(database, name, delete_data)
            except wire.NoSuchObjectException as error:
                raise _no_table(database, name) from error

        self._pool.call(drop, "dropping the table", table=f"{database}.{name}")

    def alter_table(self, table: HiveTable, *, cascade: bool = False) -> None:
        context = _CASCADE if cascade else _NO_STATISTICS

        def alter(client: HMSClient) -> None:
            found = self._get_table(client, table.database, table.name)
            client.alter_table_with_environment_context(table.database, table.name, overlay(found, table), context)

        self._pool.call(alter, "altering the table", table=str(table))

    def rename_table(self, database: str, name: str, to_database: str, to_name: str) -> None:
        def rename(client: HMSClient) -> None:
            found = self._get_table(client, database, name)
            found.dbName, found.tableName = to_database, to_name
            client.alter_table_with_environment_context(database, name, found, _NO_STATISTICS)

        self._pool.call(rename, "renaming the table", table=f"{database}.{name}")

    def add_partitions(
        self, database: str, table: str, partitions: Sequence[HivePartition], *, if_not_exists: bool = True
    ) -> None:
        if not partitions:
            return

        def add(client: HMSClient) -> None:
            found = self._get_table(client, database, table)
            if found.tableType == VIRTUAL_VIEW:
                rows = [wire_view_partition(database, table, partition) for partition in partitions]
            else:
                shared = without_path(found.sd.serdeInfo)
                rows = [wire_partition(database, table, partition, found.sd, shared) for partition in partitions]
            client.add_partitions_req(wire.AddPartitionsRequest(database, table, rows, if_not_exists, needResult=False))

        self._pool.call(add, f"adding {len(partitions)} partitions to", table=f"{database}.{table}")

    def alter_partitions(self, database: str, table: str, partitions: Sequence[HivePartition]) -> None:
        if not partitions:
            return

        def alter(client: HMSClient) -> None:
            keys = [key.name for key in self._get_table(client, database, table).partitionKeys]
            names = [metastore_name(keys, partition.values) for partition in partitions]
            found = {tuple(p.values): p for p in _named(client, database, table, names)}
            missing = [name for name, p in zip(names, partitions, strict=True) if p.values not in found]
            if missing:
                raise PartitionNotFoundError(
                    f"The metastore's table {database}.{table} does not have the partition {missing[0][:200]!r} "
                    f"({len(missing)} of {len(names)} to alter are missing).",
                    {"table": f"{database}.{table}", "partition": missing[0][:200]},
                )
            rows = [overlay_partition(found[partition.values], partition) for partition in partitions]
            client.alter_partitions_with_environment_context(database, table, rows, _NO_STATISTICS)

        self._pool.call(alter, f"altering {len(partitions)} partitions of", table=f"{database}.{table}")

    def drop_partitions(
        self, database: str, table: str, names: Sequence[str], *, if_exists: bool = True, delete_data: bool = False
    ) -> None:
        if not names:
            return
        request = wire.DropPartitionsRequest(
            database, table, wire.RequestPartsSpec(names=list(names)), delete_data, if_exists, needResult=False
        )

        def drop(client: HMSClient) -> None:
            self._get_table(client, database, table)
            try:
                client.drop_partitions_req(request)
            except wire.NoSuchObjectException as error:
                raise PartitionNotFoundError(
                    f"Not all partitions to drop are in the metastore's table {database}.{table}: "
                    f"{server_message(error)}.",
                    {"table": f"{database}.{table}"},
                ) from error

        self._pool.call(drop, f"dropping {len(names)} partitions of", table=f"{database}.{table}")

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        def names(client: HMSClient) -> list[str]:
            self._get_table(client, database, table)  # raises if missing; releases differ there
            return list(client.get_partition_names(database, table, _ALL))

        return iter(self._pool.call(names, "listing the partitions of", table=f"{database}.{table}"))

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        if not names:
            return []

        def named(client: HMSClient) -> list[wire.Partition]:
            try:
                return _named(client, database, table, names)
            except (TApplicationException, wire.NoSuchObjectException):
                self._get_table(client, database, table)
                raise

        return [partition_of(p) for p in self._pool.call(named, "reading partitions of", table=f"{database}.{table}")]

    def partitions(self, database: str, table: str, *, batch: int = DEFAULT_BATCH) -> Iterator[HivePartition]:
        return fetch_partitions(self, database, table, batch)

    def newest_event_id(self) -> int:
        found = self._pool.call(lambda c: c.get_current_notificationEventId(), "asking for the newest event")
        return int(found.eventId)

    def events_after(self, event_id: int, most: int, *, once: bool = False) -> list[HiveEvent]:
        request = wire.NotificationEventRequest(event_id, most)
        answer = self._pool.call(lambda c: c.get_next_notification(request), "reading the notification log")
        # Parse each event at once: an event on a thousand partitions has a megabyte, of which the parsed form keeps
        # little.
        return [_event_of(event) for event in answer.events or ()]

    def lock(self, components: Sequence[LockComponent], user: str, host: str, agent: str) -> tuple[int, int]:
        asked = [wire_component(component) for component in components]
        request = wire.LockRequest(component=asked, user=user, hostname=host, agentInfo=agent)
        answer = self._pool.call(lambda c: c.lock(request), f"Hive's locks of {', '.join(map(str, components[:3]))}")
        return int(answer.lockid), int(answer.state)

    def check_lock(self, number: int) -> int:
        def check(client: HMSClient) -> int:
            with lost_where_gone(number):
                return int(client.check_lock(wire.CheckLockRequest(lockid=number)).state)

        return self._pool.call(check, f"to say whether lock {number} is held")

    def heartbeat_lock(self, number: int) -> None:
        def heartbeat(client: HMSClient) -> None:
            with lost_where_gone(number):
                client.heartbeat(wire.HeartbeatRequest(lockid=number))

        self._pool.call(heartbeat, f"a heartbeat of lock {number}")

    def unlock(self, number: int) -> None:
        def unlock(client: HMSClient) -> None:
            with lost_where_gone(number):
                client.unlock(wire.UnlockRequest(lockid=number))

        self._pool.call(unlock, f"to give up lock {number}")

    def show_locks(self, database: str, table: str) -> list[ShownLock]:
        request = wire.ShowLocksRequest(dbname=database, tablename=table)
        return [
            shown_lock(lock) for lock in self._pool.call(lambda c: c.show_locks(request), "to show locks").locks or ()
        ]

    def config_value(self, name: str, default: str) -> str:
        return str(self._pool.call(lambda c: c.get_config_value(name, default), f"to say what {name} is"))

    def _get_table(self, client: HMSClient, database: str, name: str) -> wire.Table:
        """Return the table as thrift's object.

        Release 4 has only ``get_table_req``, releases before 2.3 only ``get_table``.
        """
        try:
            if not self._without_requests:
                try:
                    return client.get_table_req(wire.GetTableRequest(database, name)).table
                except TApplicationException as error:
                    if not is_unknown_method(error):
                        raise
                    self._without_requests = True
            return client.get_table(database, name)
        except wire.NoSuchObjectException as error:
            raise _no_table(database, name) from error


def _event_of(e: wire.NotificationEvent) -> HiveEvent:
    message = e.message or ""
    found = event_of(
        e.eventId, e.eventTime, e.eventType or "", e.dbName or "", e.tableName or "", message, e.messageFormat or ""
    )
    return replace(found, message_size=len(message))


def _named(client: HMSClient, database: str, table: str, names: Sequence[str]) -> list[wire.Partition]:
    found: list[wire.Partition] = []
    for start in range(0, len(names), _NAMES_A_REQUEST):
        some = list(names[start : start + _NAMES_A_REQUEST])
        found += client.get_partitions_by_names(database, table, some)
    return found


def _no_table(database: str, name: str) -> TableNotFoundError:
    return TableNotFoundError(f"The metastore has no table {database}.{name}.", {"table": f"{database}.{name}"})


def _no_namespace(name: str) -> NamespaceNotFoundError:
    return NamespaceNotFoundError(f"The metastore has no namespace {name}.", {"namespace": name})


def _get_database(client: HMSClient, name: str) -> wire.Database:
    try:
        return client.get_database(name)
    except wire.NoSuchObjectException as error:
        raise _no_namespace(name) from error
