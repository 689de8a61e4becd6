"""The messages of a table's life, delivered to metastores of releases 3 and 4."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hmsclient.genthrift.hive_metastore import ttypes as wire
from hmsclient.hmsclient import HMSClient
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport import TSocket, TTransport

from catalog_ext.metastore.errors import (
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.conversion import from_hive, from_hive_partition, to_hive, to_hive_partition
from catalog_ext.metastore.hive.outbox.carry_out import carry_out
from catalog_ext.metastore.hive.outbox.delivery import Deliverer
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.uris import parse_uris
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.messages import AlterTable, PublishedPartition, SyncPartitions
from catalog_ext.metastore.model.alterations import AddColumn, ChangeType, DropColumn, Position, altered
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from tests.kit.counting_metastore import CountingMetastore
from tests.kit.index_cases import alter_properties
from tests.servers.hive_releases import RELEASE_3, RELEASE_4, Release, ReleaseMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


REGIONS = ["a b", "x%2Fy", "ä€", "__HIVE_DEFAULT_PARTITION__", *(f"r{i}" for i in range(300))]


@pytest.fixture(scope="module", params=[RELEASE_3, RELEASE_4], ids=lambda release: release.version)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseMetastore]:
    release: Release = request.param
    server = ReleaseMetastore(release, tmp_path_factory.mktemp(f"metastore-{release.version}"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def client(server: ReleaseMetastore) -> Iterator[CountingMetastore]:
    client = CountingMetastore(connect(server.uri))
    yield client
    client.close()


@contextlib.contextmanager
def raw_client(uri: str) -> Iterator[HMSClient]:
    """Thrift's own client, which sees what ours has no words for."""
    (address,) = parse_uris(uri)
    transport = TTransport.TBufferedTransport(TSocket.TSocket(address.host, address.port))
    with HMSClient(iprot=TBinaryProtocolAccelerated(transport)) as raw:
        yield raw


def described_table(tmp_path: Path) -> wire.Table:
    """A table of a Hive engine's with whatever can be said of one."""
    descriptor = wire.StorageDescriptor(
        cols=[wire.FieldSchema("id", "int", ""), wire.FieldSchema("s", "struct<A:int>", "c")],
        location=f"file:{tmp_path}/described",
        inputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        compressed=True, numBuckets=4, bucketCols=["id"], sortCols=[wire.Order("id", 0)], parameters={"sd": "1"},
        serdeInfo=wire.SerDeInfo("own", "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe", {"p": "q"}),
        skewedInfo=wire.SkewedInfo(["id"], [["1"], ["2"]], {}), storedAsSubDirectories=False,
    )  # fmt: skip
    descriptor.serdeInfo.description = "what reads it"
    table = wire.Table(
        "described", "facts", "analysts", 0, 6, 7, descriptor, [wire.FieldSchema("ds", "string", "k")],
        {"EXTERNAL": "TRUE", "team": "x"}, None, None, "EXTERNAL_TABLE",
    )  # fmt: skip
    table.ownerType = wire.PrincipalType.ROLE
    return table


@pytest.mark.slow
def test_what_a_hive_engine_says_of_its_table_outlives_our_alterations(
    server: ReleaseMetastore, client: CountingMetastore, tmp_path: Path
) -> None:
    with raw_client(server.uri) as raw:
        raw.create_database(wire.Database("facts", "", None, {}))
        raw.create_table(described_table(tmp_path))
        before = raw.get_table_req(wire.GetTableRequest("facts", "described")).table
        assert before.ownerType == wire.PrincipalType.ROLE
        ours = from_hive(client.get_table("facts", "described"))
        carry_out(client, AlterTable(ours, rebuild=True))
        carry_out(client, AlterTable(replace(ours, properties={**ours.properties, "new": "1"})))
        wider = replace(ours, columns=(*ours.columns, Column("note", "string")))
        carry_out(client, AlterTable(wider, rebuild=True))
        added = PublishedPartition("ds=1", f"file:{tmp_path}/described/ds=1", {"numFiles": "1"})
        carry_out(client, SyncPartitions(ours.identifier, (added,), location=ours.location))
        after = raw.get_table_req(wire.GetTableRequest("facts", "described")).table
        (partition,) = raw.get_partitions_by_names("facts", "described", ["ds=1"])
    assert [c.name for c in after.sd.cols] == ["id", "s", "note"]
    assert after.ownerType == wire.PrincipalType.ROLE
    after.sd.cols.pop()
    after.parameters.pop("new")
    assert after == before
    assert (partition.sd.bucketCols, partition.sd.numBuckets, partition.sd.sortCols, partition.sd.skewedInfo) == (
        before.sd.bucketCols, before.sd.numBuckets, before.sd.sortCols, before.sd.skewedInfo,
    )  # fmt: skip
    client.drop_table("facts", "described")
    client.drop_database("facts")


def _altered_and_renamed(
    index: Index, deliverer: Deliverer, client: CountingMetastore, identifier: TableIdentifier
) -> TableDefinition:
    """The definition, after its columns changed in their middle and it was renamed into another namespace."""
    changes = [
        AddColumn(("fare",), "double", position=Position()), ChangeType(("Id",), "bigint"),
        DropColumn(("at",)), AddColumn(("note",), "string"),
    ]  # fmt: skip
    before = [(p.values, p.location) for p in client.partitions(identifier.namespace, identifier.name)]
    index.namespaces.create(Namespace("archive"), deliver=True)
    index.alterations.alter(identifier, lambda d: altered(d, changes), deliver=True)
    renamed = index.alterations.rename(identifier, TableIdentifier("archive", "Old_Trips"), deliver=True)
    again = index.alterations.rename(renamed.identifier, TableIdentifier("sales", "trips2"), deliver=True)
    assert deliverer.deliver(timeout_s=120).error is None
    found = client.get_table("sales", "trips2")
    assert [(c.name, c.type) for c in found.columns] == [("fare", "double"), ("id", "bigint"), ("note", "string")]
    assert from_hive(found) == again.definition
    assert [(p.values, p.location) for p in client.partitions("sales", "trips2")] == before
    assert "trips" not in client.list_tables("sales")
    index.namespaces.drop("archive", deliver=True)
    return again.definition


def _statistics_and_relocation(client: CountingMetastore, names: list[str], tmp_path: Path) -> None:
    counts = {"numFiles": "3", "totalSize": "30", "numRows": "9", "transient_lastDdlTime": "1700000000"}
    reported = counts | {"numFilesErasureCoded": "0"}
    new = names[0].replace("01-01", "01-02")
    states = [
        PublishedPartition(name, f"file:{tmp_path}/moved/{number}", counts, moved=True)
        for number, name in enumerate([*names, new])
    ]
    # What the metastore would find if it looked for itself.
    (tmp_path / "moved" / "0").mkdir(parents=True)
    (tmp_path / "moved" / "0" / "file").write_text("x")
    table = from_hive(client.get_table("sales", "trips"))
    before = Counter(client.calls)
    message = SyncPartitions(table.identifier, tuple(states[-1:]), tuple(states[:-1]), location=table.location)
    carry_out(client, message)
    made = Counter(client.calls) - before
    assert made == {"get_table": 1, "partitions_by_names": 1, "add_partitions": 1, "alter_partitions": 1}
    found = list(client.partitions("sales", "trips"))
    assert {p.location for p in found} == {state.location for state in states}
    assert {tuple(sorted(p.parameters.items())) for p in found} == {tuple(sorted(reported.items()))}
    client.drop_partitions("sales", "trips", ["ds=2025-01-02/region=a b/hour=1"])
    assert (tmp_path / "moved" / "0" / "file").exists()


def _files_are_never_deleted(client: CountingMetastore, definition: TableDefinition, location: Path) -> None:
    """Release 4 makes a managed table an external one that purges its files: not when we drop it."""
    identifier = TableIdentifier("sales", "managed")
    managed = replace(
        definition, identifier=identifier, table_type=TableType.MANAGED, location=f"file:{location}", properties={}
    )
    names = [f"ds=2025-01-01/region={region}/hour=1" for region in ("a", "b")]
    for name in names:
        (location / name).mkdir(parents=True)
        (location / name / "file").write_text("x")
    client.create_table(to_hive(managed))
    table = client.get_table("sales", "managed")
    client.add_partitions("sales", "managed", [to_hive_partition(table, name) for name in names])
    client.drop_partitions("sales", "managed", names[:1])
    client.drop_table("sales", "managed")
    assert all((location / name / "file").exists() for name in names)


@pytest.mark.slow
def test_the_life_of_a_table(client: CountingMetastore, tmp_path: Path) -> None:
    index = Index.open(f"sqlite:///{tmp_path}/index.db")
    deliverer = Deliverer(index.outbox, lambda: client)
    definition = TableDefinition(
        TableIdentifier("sales", "trips"),
        TableType.EXTERNAL,
        "parquet",
        f"file:{tmp_path}/trips",
        (Column("Id", "bigint"), Column("at", "timestamp_ntz")),
        (Column("ds", "date"), Column("Region", "string"), Column("hour", "int")),
        properties={"team": "größe €", "gone": "1"},
        comment="what a day costs",
        owner="ada",
    )
    names = [f"ds=2025-01-01/Region={region}/hour=1" for region in REGIONS]
    index.namespaces.create(Namespace("sales", comment="all"), deliver=True)
    table = index.tables.create(definition, deliver=True)
    index.commits.apply_changes(
        table.table_id, [AddPartition(name, ()) for name in names], operation="repair", deliver=True
    )
    alter_properties(index, definition.identifier, {"new": "2"}, ["gone"])
    report = deliverer.deliver(timeout_s=120)
    assert (report.pending, report.error) == (0, None)

    found = client.get_table("sales", "trips")
    assert from_hive(found) == replace(definition, properties={"team": "größe €", "new": "2"})
    assert {from_hive_partition(found, p) for p in client.partitions("sales", "trips", batch=100)} == {
        (name, None) for name in names
    }
    with pytest.raises(NamespaceNotEmptyError):
        client.drop_database("sales")
    with pytest.raises(TableNotFoundError):
        client.partition_names("sales", "missing")
    with pytest.raises(NamespaceNotFoundError):
        client.create_table(replace(to_hive(definition), database="nowhere"))
    assert client.list_tables("nowhere") == []

    _statistics_and_relocation(client, names, tmp_path)
    index.commits.apply_changes(
        table.table_id, [DropPartition(name) for name in names[1:]], operation="repair", deliver=True
    )
    assert deliverer.deliver(timeout_s=120).error is None
    assert list(client.partition_names("sales", "trips")) == ["ds=2025-01-01/region=a b/hour=1"]
    definition = _altered_and_renamed(index, deliverer, client, definition.identifier)
    _files_are_never_deleted(client, definition, tmp_path / "managed")
    index.tables.drop(definition.identifier, deliver=True)
    index.namespaces.drop("sales", deliver=True)
    assert deliverer.deliver(timeout_s=120).pending == 0
    assert client.list_databases() == ["default"]
    index.close()
