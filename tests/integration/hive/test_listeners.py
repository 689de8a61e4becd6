"""Each listener of a session asks who is there, and the embedded metastore deletes no files."""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import (
    Database,
    FieldSchema,
    Partition,
    SerDeInfo,
    StorageDescriptor,
    Table,
)
from hmsclient.hmsclient import HMSClient
from pyspark import SparkContext

from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.hive.embedded.lease import read_state
from catalog_ext.spark import session as sessions
from tests.kit.listeners import answer_to_another_user, listening_ports, needs_another_user, slow_clients, thrift_call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.hive.embedded.lease import ServerState
    from tests.integration.spark_driver import Driver


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    before = os.umask(0o022)
    try:
        with EmbeddedMetastore(tmp_path_factory.mktemp("state") / "metastore") as it:
            yield it
    finally:
        os.umask(before)


def state_of(server: EmbeddedMetastore) -> ServerState:
    state = read_state(server.directory)
    assert state is not None
    return state


def client(server: EmbeddedMetastore) -> HMSClient:
    return HMSClient(host="127.0.0.1", port=state_of(server).thrift_port)


def create_database_call(name: str) -> bytes:
    """The call ``create_database`` in thrift's binary protocol."""

    def text(value: str) -> bytes:
        return struct.pack(">i", len(value)) + value.encode()

    database = struct.pack(">bh", 11, 1) + text(name) + b"\0"
    return (
        struct.pack(">I", 0x80010001)
        + text("create_database")
        + struct.pack(">i", 1)
        + (struct.pack(">bh", 12, 1) + database + b"\0")
    )


def descriptor(location: Path) -> StorageDescriptor:
    return StorageDescriptor(
        cols=[FieldSchema("x", "int", "")], location=location.as_uri(),
        inputFormat="org.apache.hadoop.mapred.TextInputFormat",
        outputFormat="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        serdeInfo=SerDeInfo("l", "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe", {}),
    )  # fmt: skip


def test_another_user_gets_no_byte_from_the_metastore(server: EmbeddedMetastore) -> None:
    needs_another_user()
    state = state_of(server)
    with socket.create_connection(("127.0.0.1", state.lease_port)) as own:
        assert own.recv(100) == f"{state.id}\n".encode()
    assert listening_ports(state.pid) == {state.thrift_port, state.lease_port}
    assert answer_to_another_user(state.lease_port, b"") == b""
    assert answer_to_another_user(state.thrift_port, thrift_call()) == b""
    assert "Refused a connection of user 65534" in server.log_file.read_text(encoding="utf-8")
    with client(server) as own_client:
        assert own_client.get_all_databases() == ["default"]


def test_call_of_another_user_that_hangs_up_is_not_carried_out(server: EmbeddedMetastore) -> None:
    """Linux shows uid 0, which the server takes for root, for a socket whose owner has closed it."""
    needs_another_user()
    port = state_of(server).thrift_port
    for attempt in range(5):
        answer_to_another_user(port, create_database_call(f"evil_{attempt}"), stays=False)
    with client(server) as own:
        own.create_database(Database("mine", "", "s3a://bucket/mine.db", {}))
        assert own.get_all_databases() == ["default", "mine"]
        own.drop_database("mine", False, False)


def test_metastore_deletes_no_file_whatever_it_is_asked(server: EmbeddedMetastore, tmp_path: Path) -> None:
    files = [tmp_path / place / "thesis.txt" for place in ("database", "table", "elsewhere", "partition")]
    for file in files:
        file.parent.mkdir()
        file.write_text("years of work", encoding="utf-8")
    database, table, elsewhere, partition = (file.parent for file in files)
    with client(server) as own:
        own.create_database(Database("d", "", database.as_uri(), {}))
        for name, at in (("managed", table), ("other", elsewhere)):
            keys = [FieldSchema("k", "string", "")] if name == "managed" else []
            own.create_table(Table(
                name, "d", "us", sd=descriptor(at), partitionKeys=keys, parameters={}, tableType="MANAGED_TABLE",
            ))  # fmt: skip
        own.add_partitions([Partition(["1"], "d", "managed", sd=descriptor(partition), parameters={})])
        assert own.drop_partition("d", "managed", ["1"], True)
        own.drop_table("d", "managed", True)
        own.drop_database("d", True, True)
        assert "d" not in own.get_all_databases()
    assert [file.read_text(encoding="utf-8") for file in files] == ["years of work"] * 4


def test_files_of_the_metastore_are_for_their_owner_alone(server: EmbeddedMetastore) -> None:
    """The index, the tokens and the write-ahead log are checked in test_private_files.py."""
    with client(server) as own:
        own.get_all_databases()
    everything = [server.directory, *server.directory.rglob("*")]
    assert server.directory / "metastore_db" / "seg0" in everything
    open_to_others = {
        str(path.relative_to(server.directory)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in everything
        if stat.S_IMODE(path.stat().st_mode) & 0o077
    }
    # Where databases without a location go: a folder of data, which the user's umask governs.
    assert set(open_to_others) <= {"warehouse"}


def refused(port: int, token: str | None) -> int:
    """The status of a call of the service with a token, or without one."""
    call = urllib.request.Request(f"http://127.0.0.1:{port}/v1/namespaces/list", b"{}", method="POST")
    if token is not None:
        call.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(call, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_every_listener_of_a_default_session_refuses_others(driver: Driver, tmp_path: Path) -> None:
    """What catalog-ext opens beside Spark's own ports: the service, which asks for a token, and the metastore."""
    with driver.session() as plain:
        gateway = SparkContext._gateway
        assert gateway is not None
        # Spark's launcher waits for the JVM that it has started.
        jvm = gateway.proc.pid
        plain.sql("SELECT 1").collect()
        own_before, spark_before = listening_ports(os.getpid()), listening_ports(jvm)
        assert spark_before
        with driver.catalog(warehouse=str(tmp_path / "warehouse"), metastore="embedded") as session:
            session.sql("CREATE NAMESPACE lake.sales")
            session.sql("CREATE TABLE lake.sales.t (x INT) USING parquet")
            session.sql("INSERT INTO lake.sales.t VALUES (1)")
            assert session.table("lake.sales.t").count() == 1
            catalog, service = sessions._running["lake"].catalog, sessions._running["lake"].service
            catalog.metastore.uri()
            state = read_state(catalog.settings.embedded_folder)
            assert state is not None
            assert listening_ports(jvm) == spark_before, "the connector listens on nothing"
            assert listening_ports(os.getpid()) - own_before == {service.port}
            assert listening_ports(state.pid) == {state.thrift_port, state.lease_port}

            assert refused(service.port, service.token) == 200
            assert {refused(service.port, token) for token in (None, "", "x" * 43)} == {401}
            needs_another_user()
            head = b"POST /v1/namespaces/list HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
            assert answer_to_another_user(service.port, head).startswith(b"HTTP/1.1 401")
            for port in (state.thrift_port, state.lease_port):
                assert answer_to_another_user(port, thrift_call()) == b""


def test_driver_works_under_two_thousand_slow_clients(driver: Driver, tmp_path: Path) -> None:
    """They connect to the service in the driver, whose sockets to Spark's JVM and Python workers need files, too."""
    with driver.catalog(warehouse=str(tmp_path / "warehouse"), metastore=None) as session:
        session.sql("CREATE NAMESPACE lake.sales")
        session.sql("CREATE TABLE lake.sales.t (x INT) USING parquet")
        service = sessions._running["lake"].service
        with slow_clients(service.port, 2000):
            began = time.monotonic()
            session.sql("INSERT INTO lake.sales.t VALUES (1)")
            assert session.table("lake.sales.t").count() == 1
            assert session.sparkContext.parallelize([1, 2], 2).map(lambda x: x + 1).sum() == 5
            assert refused(service.port, service.token) == 200
            assert time.monotonic() - began < 60
