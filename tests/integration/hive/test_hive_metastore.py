"""The thrift client against a real Hive Metastore 2.3."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import (
    MetastoreRefusedError,
    MetastoreUnavailableError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PartitionNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive, hive_partition_name, to_hive, to_hive_partition
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.delivery import Deliverer, DeliveryReport
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.forwarder import CallForwarder
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.messages import Delivery, read_message
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import escape_path_name
from catalog_ext.metastore.model.tables import Column, DataFile, Namespace, TableDefinition, TableType
from tests.kit.counting_metastore import CountingMetastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers.hive import HiveMetastore

HARD_VALUES = ["a b", "a%b", "ä€😀", "x/y", "q'\"q", "k=v", "{1}", "a:b", "tab\there", "A", "a", " a "]


def definition(database: str, name: str = "trips", location: str = "s3a://bucket/trips") -> TableDefinition:
    return TableDefinition(
        TableIdentifier(database, name),
        TableType.EXTERNAL,
        "parquet",
        location,
        (Column("Id", "bigint"), Column("fare", "decimal(10,2)", comment="in USD")),
        (Column("ds", "date"), Column("Region", "string"), Column("hour", "int")),
        properties={"team": "größe €", "empty": ""},
        comment="what a day costs",
        owner="ada",
    )


@pytest.fixture(scope="module")
def client(hive_metastore: HiveMetastore) -> Iterator[CountingMetastore]:
    client = CountingMetastore(connect(hive_metastore.uri))
    yield client
    client.close()


@pytest.fixture
def database(client: CountingMetastore, request: pytest.FixtureRequest) -> str:
    name = f"hm_{abs(hash(request.node.name)) % 10**9}"
    client.create_database(HiveDatabase(name, comment="for a test", parameters={"a": "b"}))
    return name


def test_databases(client: CountingMetastore, database: str) -> None:
    assert database in client.list_databases()
    found = client.get_database(database)
    assert (found.comment, found.parameters) == ("for a test", {"a": "b"})
    with pytest.raises(NamespaceAlreadyExistsError):
        client.create_database(HiveDatabase(database))
    client.alter_database(HiveDatabase(database, comment="other", parameters={"c": "d"}))
    assert client.get_database(database).parameters == {"c": "d"}
    client.create_table(to_hive(definition(database)))
    with pytest.raises(NamespaceNotEmptyError, match=database):
        client.drop_database(database)
    client.drop_table(database, "trips")
    client.drop_database(database)
    with pytest.raises(NamespaceNotFoundError, match=database):
        client.get_database(database)
    with pytest.raises(NamespaceNotFoundError):
        client.drop_database(database)


def test_tables_keep_what_they_are_given(client: CountingMetastore, database: str) -> None:
    wanted = to_hive(definition(database))
    client.create_table(wanted)
    assert client.list_tables(database) == ["trips"]
    found = client.get_table(database, "trips")
    assert found.parameters.items() >= wanted.parameters.items()
    assert (found.columns, found.partition_columns, found.storage, found.location, found.owner, found.table_type) == (
        wanted.columns, wanted.partition_columns, wanted.storage, wanted.location, "ada", "EXTERNAL_TABLE",
    )  # fmt: skip
    assert from_hive(found) == definition(database)
    with pytest.raises(TableAlreadyExistsError, match=f"{database}.trips"):
        client.create_table(wanted)
    with pytest.raises(NamespaceNotFoundError, match="nowhere"):
        client.create_table(to_hive(definition("nowhere")))
    with pytest.raises(TableNotFoundError, match=f"{database}.missing"):
        client.get_table(database, "missing")
    with pytest.raises(TableNotFoundError):
        client.drop_table(database, "missing")
    with pytest.raises(TableNotFoundError):
        client.partition_names(database, "missing")
    with pytest.raises(TableNotFoundError):
        client.partitions_by_names(database, "missing", ["ds=1"])
    with pytest.raises(TableNotFoundError):
        client.alter_table(to_hive(definition(database, "missing")))
    with pytest.raises(TableNotFoundError):
        client.add_partitions(database, "missing", [HivePartition(("1",), "s3a://b/x")])
    with pytest.raises(TableNotFoundError):
        client.drop_partitions(database, "missing", ["ds=1"])
    assert client.list_tables("nowhere") == []


def test_a_bad_name_is_refused_with_the_servers_words(client: CountingMetastore, database: str) -> None:
    with pytest.raises(MetastoreRefusedError, match=r"is not a valid object name|InvalidObject|bad-name"):
        client.create_table(to_hive(definition(database, "bad-name")))


def test_partitions_with_hard_values(client: CountingMetastore, database: str) -> None:
    client.create_table(to_hive(definition(database)))
    table = client.get_table(database, "trips")
    names = [f"ds=2025-01-01/Region={escape_path_name(value)}/hour=7" for value in HARD_VALUES]
    names.append("ds=__HIVE_DEFAULT_PARTITION__/Region=__HIVE_DEFAULT_PARTITION__/hour=__HIVE_DEFAULT_PARTITION__")
    wanted = [to_hive_partition(table, name) for name in names]
    client.add_partitions(database, "trips", wanted)
    client.add_partitions(database, "trips", wanted)
    with pytest.raises(MetastoreRefusedError):
        client.add_partitions(database, "trips", wanted, if_not_exists=False)
    assert set(client.partition_names(database, "trips")) == {hive_partition_name(table, name) for name in names}
    found = {p.values: p.location for p in client.partitions(database, "trips", batch=5)}
    assert found == {p.values: p.location for p in wanted}
    client.drop_partitions(database, "trips", [hive_partition_name(table, name) for name in names[:-1]] * 2)
    assert [p.values[0] for p in client.partitions(database, "trips")] == ["__HIVE_DEFAULT_PARTITION__"]
    client.drop_partitions(database, "trips", ["ds=2030-01-01/region=x/hour=1"])
    with pytest.raises(PartitionNotFoundError):
        client.drop_partitions(database, "trips", ["ds=2030-01-01/region=x/hour=1"], if_exists=False)


def test_a_full_message_is_delivered(client: CountingMetastore, database: str) -> None:
    """As many partitions in, moved and out as one message of the outbox can hold: Derby has limits."""
    client.create_table(to_hive(definition(database)))
    names = [f"ds=2025-01-01/Region=r{number}/hour=1" for number in range(1000)]
    payload = {"add": [], "alter": [], "drop": [], "location": definition(database).location}
    message = Delivery(1, "sync_partitions", database, "trips", payload, 0, 0, None)

    def carry_out_message(**changes: object) -> None:
        assert carry_out(client, read_message(replace(message, payload={**payload, **changes}))) is None

    carry_out_message(add=[{"name": n, "location": None, "parameters": {}} for n in names])
    added = list(client.partitions(database, "trips"))
    assert len(added) == 1000
    moved = [
        {"name": n, "location": f"s3a://bucket/moved/{n}", "parameters": {"numFiles": "1"}, "moved": True}
        for n in names
    ]
    before = client.calls
    carry_out_message(alter=moved)
    assert client.calls["alter_partitions"] == before.get("alter_partitions", 0) + 1
    found = list(client.partitions(database, "trips"))
    assert {p.location for p in found} == {m["location"] for m in moved}
    assert all(p.parameters["numFiles"] == "1" and p.storage == added[0].storage for p in found)
    with pytest.raises(PartitionNotFoundError, match=r"r0.*missing"):
        client.alter_partitions(database, "trips", [replace(found[0], values=("2025-01-01", "r0", "2"))])
    carry_out_message(drop=names)
    assert list(client.partition_names(database, "trips")) == []


def test_threads_share_a_client(client: CountingMetastore, database: str) -> None:
    client.create_table(to_hive(definition(database)))
    table = client.get_table(database, "trips")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            names = [f"ds=2025-01-{day:02d}/region={number}/hour=1" for day in range(1, 29)]
            client.add_partitions(database, "trips", [to_hive_partition(table, name) for name in names])
            client.get_table(database, "trips")
        except BaseException as error:  # noqa: BLE001 -- asserted below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list(client.partition_names(database, "trips"))) == 8 * 28


def test_restart_is_survived_and_an_outage_is_reported(make_hive_metastore: Callable[[], HiveMetastore]) -> None:
    server = make_hive_metastore()
    client = CountingMetastore(connect(f"thrift://127.0.0.1:1,{server.uri}", connect_timeout=2))
    assert "default" in client.list_databases()
    server.stop()
    with pytest.raises(MetastoreUnavailableError, match=rf"127\.0\.0\.1:1, {server.uri}.*hive\.metastore\.uris"):
        client.list_databases()
    server.start()
    assert "default" in client.list_databases()
    assert client.calls == {"list_databases": 3}
    client.close()


class Dying(CallForwarder):
    """The metastore is killed after it has carried out the first call of a method; the answer may be lost with it."""

    def __init__(self, client: CountingMetastore, server: HiveMetastore, method: str, *, answers: bool) -> None:
        self._client = client
        self._server = server
        self._method: str | None = method
        self._answers = answers

    def _call(self, method: str, function: Callable[[Any], Any], *, repeatable: bool = True) -> Any:
        answer = function(self._client)
        if method == self._method:
            self._method = None
            self._server.kill()
            if not self._answers:
                raise MetastoreUnavailableError("The connection broke off.")
        return answer

    def close(self) -> None:
        self._client.close()


@pytest.mark.parametrize(("method", "answers"), [("add_partitions", True), ("alter_partitions", False)])
def test_a_metastore_killed_between_messages_gets_each_in_order(
    make_hive_metastore: Callable[[], HiveMetastore], tmp_path: Path, method: str, *, answers: bool
) -> None:
    server = make_hive_metastore()
    client = CountingMetastore(connect(server.uri, connect_timeout=2))
    index = Index.open(f"sqlite:///{tmp_path}/index.db")
    index.namespaces.create(Namespace("dying"), deliver=True)
    table = index.tables.create(definition("dying", location=f"file:{tmp_path}/trips"), deliver=True)
    a, b = ("ds=2025-01-01/region=a/hour=1", "ds=2025-01-01/region=b/hour=1")
    index.commits.apply_changes(
        table.table_id, [AddPartition(a, ()), AddPartition(b, ())], operation="repair", deliver=True
    )
    change = ReplaceFiles(a, (DataFile("f", 7, 1),))
    for changes in ([change], [DropPartition(b)], [AddPartition(b, (DataFile("g", 8, 1),))]):
        index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=True)
    dying = Dying(client, server, method, answers=answers)
    report = Deliverer(index.outbox, lambda: dying).deliver(timeout_s=60)
    assert (report.delivered, report.pending) == (3, 3)
    assert [m.operation for m in index.outbox.pending()] == ["sync_partitions"] * 3
    server.start()
    before = Counter(client.calls)
    index.outbox.retry()
    later = Deliverer(index.outbox, lambda: client)
    assert later.deliver(timeout_s=60) == DeliveryReport(3, 0, None)
    # What the killed one had done already is looked at and not done again.
    made = Counter(client.calls) - before
    assert made["alter_partitions"] == (1 if answers else 0)
    assert (made["drop_partitions"], made["add_partitions"]) == (1, 1)
    found = {p.values[1]: p.parameters.get("totalSize") for p in client.partitions("dying", "trips")}
    assert found == {"a": "7", "b": "8"}
    client.close()
    index.close()
