"""Addresses, failover, repetition and counts of metastore calls, and where the URIs come from."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    MetastoreRefusedError,
    MetastoreUnavailableError,
    TableNotFoundError,
)
from catalog_ext.metastore.hive.mapping.model import HiveDatabase, HivePartition, HiveStorage, HiveTable
from catalog_ext.metastore.hive.thrift.access import Access
from catalog_ext.metastore.hive.thrift.connect import MetastoreClient, Server, connect
from catalog_ext.metastore.hive.thrift.hive_site import METASTORE_URIS, read_site, site_settings, value_of
from catalog_ext.metastore.hive.thrift.thrift_client import ThriftMetastore
from catalog_ext.metastore.hive.thrift.uris import Address, parse_uris, was_request_sent
from tests.kit.counting_metastore import CountingMetastore
from tests.kit.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TABLE = HiveTable("d", "t", "EXTERNAL_TABLE", "file:///t", (), (), HiveStorage("i", "o", "s"))
REPEATABLE: list[Callable[[FakeMetastore], object]] = [
    lambda m: m.list_databases(),
    lambda m: m.get_table("d", "t"),
    lambda m: m.alter_table(TABLE),
    lambda m: m.alter_database(HiveDatabase("d")),
    lambda m: m.add_partitions("d", "t", [HivePartition((), "file:///t/x")]),
    lambda m: m.alter_partitions("d", "t", []),
    lambda m: m.drop_partitions("d", "t", ["a=b"]),
    lambda m: list(m.partitions("d", "t")),
]
UNREPEATABLE: list[Callable[[FakeMetastore], object]] = [
    lambda m: m.create_database(HiveDatabase("e")),
    lambda m: m.drop_database("e"),
    lambda m: m.create_table(TABLE),
    lambda m: m.drop_table("d", "t"),
    lambda m: m.add_partitions("d", "t", [HivePartition((), "file:///t/x")], if_not_exists=False),
    lambda m: m.drop_partitions("d", "t", [], if_exists=False),
]


@pytest.fixture(scope="module", autouse=True)
def _short_pauses() -> None:
    """Pauses are as they are."""


def fakes(count: int) -> list[FakeMetastore]:
    return [FakeMetastore(Address(f"host{i}")) for i in range(count)]


def client_of(*members: FakeMetastore, **more: Any) -> MetastoreClient:
    return MetastoreClient([Server(m.address, m) for m in members], **more)


def failover(members: list[FakeMetastore]) -> MetastoreClient:
    return client_of(*members, attempts=1)


def filled() -> FakeMetastore:
    metastore = FakeMetastore()
    metastore.create_database(HiveDatabase("d"))
    metastore.create_table(TABLE)
    metastore.calls.clear()
    return metastore


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("thrift://a:1, thrift://b:2", "thrift://a:1 thrift://b:2"),
        ("a", "thrift://a:9083"),
        ("thrift://[::1]:7/", "thrift://[::1]:7"),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    assert " ".join(map(str, parse_uris(text))) == expected


@pytest.mark.parametrize("text", ["", " , ", "http://a:1", "thrift://a:b", "thrift://a:1/x", "thrift://:5"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InvalidConfigurationError, match="thrift://host:"):
        parse_uris(text)


def test_the_next_server_takes_over_and_is_kept() -> None:
    members = fakes(3)
    members[0].down = True
    metastore = failover(members)
    metastore.create_database(HiveDatabase("d"))
    assert metastore.list_databases() == ["d"]
    assert [m.calls.total() for m in members] == [1, 2, 0]
    members[0].down, members[1].down = False, True
    assert metastore.list_databases() == []
    assert [m.calls.total() for m in members] == [1, 3, 1]
    metastore.close()
    assert [m.closed for m in members] == [1, 1, 1]


def test_a_refusal_is_no_reason_to_ask_another() -> None:
    members = fakes(2)
    with pytest.raises(TableNotFoundError):
        failover(members).get_table("d", "t")
    assert members[1].calls.total() == 0


def test_all_down_names_them_all() -> None:
    members = fakes(2)
    members[0].down = members[1].down = True
    with pytest.raises(MetastoreUnavailableError, match=r"host0:9083, thrift://host1:9083") as caught:
        failover(members).list_databases()
    assert not was_request_sent(caught.value)


@pytest.mark.parametrize("call", REPEATABLE)
def test_calls_that_may_be_repeated_are(call: Callable[[object], object]) -> None:
    metastore = filled()
    metastore.breaks_off = True
    pauses: list[float] = []
    with pytest.raises(MetastoreUnavailableError):
        call(client_of(metastore, sleep=pauses.append))
    assert max(metastore.calls.values()) == 3
    assert pauses == [0.2, 0.4]
    calls: list[float] = []

    def recover(pause: float) -> None:
        calls.append(pause)
        metastore.breaks_off = False

    metastore.breaks_off = True
    call(client_of(metastore, sleep=recover))
    assert calls == [0.2]


@pytest.mark.parametrize("call", UNREPEATABLE)
def test_calls_that_may_not_be_repeated_are_not(call: Callable[[object], object]) -> None:
    members = [filled(), filled()]
    if call is UNREPEATABLE[1]:
        for member in members:
            member.create_database(HiveDatabase("e"))
            member.calls.clear()
    if call is UNREPEATABLE[2]:
        for member in members:
            member.drop_table("d", "t")
            member.calls.clear()
    for member in members:
        member.breaks_off = True
    with pytest.raises(MetastoreUnavailableError):
        call(client_of(*members, sleep=lambda _: None))
    assert [m.calls.total() for m in members] == [1, 0]


@pytest.mark.parametrize("call", [*REPEATABLE, *UNREPEATABLE])
def test_what_was_not_sent_is_tried_again_always(call: Callable[[object], object]) -> None:
    metastore = filled()
    metastore.down = True
    with pytest.raises(MetastoreUnavailableError):
        call(client_of(metastore, sleep=lambda _: None))
    assert metastore.calls.total() == 3


def test_counts_by_method() -> None:
    counting = CountingMetastore(filled())
    counting.list_tables("d")
    counting.list_tables("d")
    list(counting.partitions("d", "t"))
    assert counting.calls == {"list_tables": 2, "partition_names": 1}
    assert counting.total == 3


@pytest.mark.slow
def test_unreachable_server_is_an_error_within_the_timeout() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused at once
        port = taken.getsockname()[1]
        client = connect(f"thrift://127.0.0.1:{port}", connect_timeout=2)
        with pytest.raises(MetastoreUnavailableError, match=rf"127\.0\.0\.1:{port}.*metastore=None") as caught:
            client.get_table("d", "t")
    assert not was_request_sent(caught.value)


@pytest.fixture
def other_server() -> Iterator[tuple[int, list[bytes]]]:
    """A server on a port that answers with what is put into the list, or not at all."""
    answers: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    if answers:
                        connection.sendall(answers[0])
                    else:
                        # Silent for as long as the client waits.
                        connection.recv(1)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], answers
        server.shutdown(socket.SHUT_RDWR)


def test_a_server_that_does_not_answer(other_server: tuple[int, list[bytes]]) -> None:
    client = connect(f"thrift://127.0.0.1:{other_server[0]}", call_timeout=0.2)
    with pytest.raises(MetastoreUnavailableError, match=r"creating the table d\.t broke off") as caught:
        client.create_table(TABLE)
    assert was_request_sent(caught.value)
    assert "metastore.call-timeout" in caught.value.message
    assert "hive.metastore.uris" not in caught.value.message


@pytest.mark.slow
def test_a_server_that_is_no_metastore(other_server: tuple[int, list[bytes]]) -> None:
    other_server[1].append(b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 100)
    client = connect(f"thrift://127.0.0.1:{other_server[0]}", call_timeout=1)
    with pytest.raises((MetastoreRefusedError, MetastoreUnavailableError), match=str(other_server[0])):
        client.list_databases()


_ANSWER = b"\x80\x01\x00\x02\x00\x00\x00\x01x\x00\x00\x00\x00"


@pytest.mark.parametrize("user", [None, "me"])
@pytest.mark.parametrize(
    "answer",
    [
        b"\x80\x01\x00\x02\x00\x00\x00\x02\xff\xfe\x00\x00\x00\x00\x00",
        _ANSWER + b"\x80\x0d\x02",
        _ANSWER + b"\x0b\x80\xff\x80\x01\x0e\x0a",
        _ANSWER + b"\x0d\x00\x08\x0e\x01\xff\x80\xff\x0d\x80\x03\x01(",
    ],
    ids=["name", "type", "length", "size"],
)
def test_malformed_answer_is_an_error_of_the_metastore(
    other_server: tuple[int, list[bytes]], answer: bytes, user: str | None
) -> None:
    """Thrift raises errors of Python for these, which ended ``doctor`` with a traceback."""
    other_server[1].append(answer)
    server = ThriftMetastore(Address("127.0.0.1", other_server[0]), call_timeout=1, access=Access(None, user=user))
    with pytest.raises((MetastoreRefusedError, MetastoreUnavailableError), match=str(other_server[0])):
        server.list_databases()


def site(folder: Path, uris: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hive-site.xml").write_text(
        '<?xml version="1.0"?><configuration><property><name>x</name><value>y</value></property>'
        f"<property><name> hive.metastore.uris </name><value> {uris} </value></property></configuration>"
    )


def test_settings_come_before_files(tmp_path: Path) -> None:
    site(tmp_path / "spark", "thrift://site:1")
    site(tmp_path / "hive", "thrift://hive:1")
    environment = {"SPARK_CONF_DIR": str(tmp_path / "spark"), "HIVE_CONF_DIR": str(tmp_path / "hive")}
    assert (
        value_of(METASTORE_URIS, {"spark.hadoop.hive.metastore.uris": "thrift://a:1"}, site_settings(environment))
        == "thrift://a:1"
    )
    assert (
        value_of(METASTORE_URIS, {"spark.hive.metastore.uris": "thrift://b:1"}, site_settings(environment))
        == "thrift://b:1"
    )
    assert value_of(METASTORE_URIS, {"hive.metastore.uris": ""}, site_settings(environment)) == "thrift://site:1"
    del environment["SPARK_CONF_DIR"]
    assert value_of(METASTORE_URIS, {}, site_settings(environment)) == "thrift://hive:1"
    site(tmp_path / "home" / "conf", "")
    environment["SPARK_HOME"] = str(tmp_path / "home")
    assert value_of(METASTORE_URIS, {}, site_settings(environment)) is None
    assert value_of(METASTORE_URIS, {}, site_settings({})) is None


@pytest.mark.parametrize("text", ["<configuration>", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', ""])
def test_a_site_file_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "hive-site.xml").write_text(text)
    with pytest.raises(InvalidConfigurationError, match=r"hive-site\.xml"):
        read_site(tmp_path / "hive-site.xml")
    with pytest.raises(InvalidConfigurationError):
        read_site(tmp_path)
