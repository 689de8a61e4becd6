"""Truststores, and the errors for an invalid or missing server certificate."""

from __future__ import annotations

import datetime
import socket
import ssl
import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidConfigurationError, MetastoreAccessError, MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.access import Access
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.tls import TlsSocket, tls_context
from catalog_ext.metastore.hive.thrift.uris import Address
from tests.integration.waiting import until
from tests.servers.certificates import PASSWORD, Authority, shaking_hands

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority(folder: Path) -> Authority:
    return Authority(folder)


def _asked(port: int, truststore: Path, host: str = "localhost", *more: int) -> None:
    uris = ",".join(f"thrift://{host}:{one}" for one in (port, *more))
    connect(uris, connect_timeout=1, access=Access(tls_context(truststore))).list_databases()


def test_unknown_authority_is_refused(authority: Authority, folder: Path) -> None:
    other = Authority(folder, "other")
    with (
        shaking_hands(authority.server_context("localhost")) as (port, _),
        pytest.raises(MetastoreAccessError, match=r"certificate is refused.*truststore\.path") as caught,
    ):
        _asked(port, other.pem)
    assert not caught.value.retryable


def test_a_certificate_that_has_expired(authority: Authority) -> None:
    context = authority.server_context("localhost", -datetime.timedelta(days=1))
    with shaking_hands(context) as (port, _), pytest.raises(MetastoreAccessError, match="certificate has expired"):
        _asked(port, authority.pem)


def test_a_certificate_of_another_host(authority: Authority) -> None:
    with (
        shaking_hands(authority.server_context("elsewhere")) as (port, _),
        pytest.raises(MetastoreAccessError, match="Hostname mismatch, certificate is not valid for 'localhost'"),
    ):
        _asked(port, authority.pem)
    with (
        shaking_hands(authority.server_context("localhost")) as (port, _),
        pytest.raises(MetastoreAccessError, match="not valid for '127"),
    ):
        _asked(port, authority.pem, "127.0.0.1")


@pytest.mark.slow
def test_a_server_that_is_silent_is_waited_for_once(authority: Authority) -> None:
    begun = time.monotonic()
    with (
        shaking_hands(None) as (port, _),
        pytest.raises(MetastoreAccessError, match=r"in time.*hive\.metastore\.use\.SSL"),
    ):
        _asked(port, authority.pem)
    assert time.monotonic() - begun < 2.5, "the time to connect is 1 s"


def test_of_several_servers_each_is_tried(authority: Authority, folder: Path) -> None:
    context = authority.server_context("localhost")
    with (
        shaking_hands(context) as (one, _),
        shaking_hands(context) as (other, _),
        pytest.raises(MetastoreAccessError, match=f"(?s){one}.*{other}"),
    ):
        _asked(one, Authority(folder, "other").pem, "localhost", other)


def test_a_connection_that_the_server_closed_is_seen(authority: Authority) -> None:
    with shaking_hands(authority.server_context("localhost")) as (port, connections):
        one = TlsSocket(Address("localhost", port), tls_context(authority.pem))
        assert not one.isOpen()
        one.open()
        assert one.isOpen()
        assert one.isOpen()
        # The server ends its side of the handshake after the client.
        until(lambda: connections, "the server has its connection")
        connections[0].shutdown(socket.SHUT_RDWR)
        assert not one.isOpen()
        assert one.handle is None


def test_closed_port_is_not_reported_as_a_certificate_error(authority: Authority) -> None:
    with pytest.raises(MetastoreUnavailableError, match="no connection") as caught:
        _asked(1, authority.pem)
    assert caught.value.retryable


def test_a_store_of_several_authorities(authority: Authority, folder: Path) -> None:
    path = folder / "both.pem"
    path.write_bytes(b"# ours\n" + Authority(folder, "second").pem.read_bytes() + authority.pem.read_bytes())
    context = tls_context(path, PASSWORD)
    assert context.cert_store_stats()["x509_ca"] == 2
    with shaking_hands(authority.server_context("localhost")) as (port, _connections):
        one = TlsSocket(Address("localhost", port), context)
        one.open()
        one.close()


def test_the_wrong_password_of_a_pkcs12_store(folder: Path, authority: Authority) -> None:
    path = authority.key_store("any")
    with pytest.raises(InvalidConfigurationError, match=r"any\.p12.*[Pp]assword"):
        tls_context(path, "another")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "neither PEM nor PKCS12 nor JKS"),
        (b"\xce\xce\xce\xce\0\0\0\2", "JCEKS store"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\2\0\4abcd" + bytes(20), "cannot be used"),
        (b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\2\xff\xffabcd" + bytes(20), "too early"),
        (b"\xfe\xed\xfe\xed\0\0\0\x09\0\0\0\0" + bytes(20), "version 9"),
        (b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n", "cannot be used"),
    ],
)
def test_files_that_are_no_truststores(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(data)
    with pytest.raises(InvalidConfigurationError, match=f"(?s)store cannot be used.*{reason}|{reason}"):
        tls_context(path)
    with pytest.raises(InvalidConfigurationError, match="absent"):
        tls_context(tmp_path / "absent")


def test_without_a_truststore_the_systems_authorities_are_believed(authority: Authority) -> None:
    context = tls_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
