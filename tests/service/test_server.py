"""The service's socket."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import Catalog
from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import ServiceError
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.service.addresses import authority, is_loopback, listening_socket, without_brackets
from catalog_ext.service.server import Service
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(
        Settings.resolve(index=str(tmp_path / "i.db"), metastore=None, warehouse=str(tmp_path)), Storage
    ) as it:
        yield it


def test_answers_do_not_wait_for_acknowledgements(catalog: Catalog) -> None:
    service = Service(catalog)
    try:
        with (
            socket.create_connection((service.host, service.port)) as client,
            service._socket.accept()[0] as accepted,
        ):
            assert client.getpeername()[1] == service.port
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    finally:
        service.stop()


def test_taken_port_is_an_error(catalog: Catalog) -> None:
    with Service(catalog) as first, pytest.raises(ServiceError, match=str(first.port)):
        Service(catalog, port=first.port)


@pytest.mark.parametrize(
    ("host", "at"),
    [
        ("127.0.0.1", "127.0.0.1:8765"), ("lake.example", "lake.example:8765"), ("::1", "[::1]:8765"),
        ("[::1]", "[::1]:8765"), ("::", "[::]:8765"), ("fe80::1%eth0", "[fe80::1%eth0]:8765"),
    ],
)  # fmt: skip
def test_an_address_of_version_6_stands_in_brackets(host: str, at: str) -> None:
    assert authority(host, 8765) == at
    assert authority(without_brackets(host), 8765) == at


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True), ("127.8.0.1", True), ("localhost", True), ("::1", True), ("[::1]", True),
        ("0:0:0:0:0:0:0:1", True), ("::", False), ("0.0.0.0", False), ("10.0.0.1", False), ("fd00::1", False),
        ("lake.example", False), ("", False),
    ],
)  # fmt: skip
def test_what_only_this_machine_reaches_is_known(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def has_version_6() -> bool:
    """Whether the kernel of this machine has version 6; without it the error is tested."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_it_listens_on_addresses_of_version_6(catalog: Catalog) -> None:
    if not has_version_6():
        with pytest.raises(ServiceError, match=r"cannot listen on \[::1\]:0"):
            Service(catalog, host="::1")
        return
    with Service(catalog, host="::1", page=True) as service:
        assert service.uri == f"http://[::1]:{service.port}"
        assert service.page_uri == f"{service.uri}/ui/"
        assert Client(service).call("ping").json["service"] == "catalog-ext"
        with pytest.raises(ServiceError, match=rf"\[::1\]:{service.port}"):
            Service(catalog, host="[::1]", port=service.port)


def test_every_address_is_those_of_version_4_too(catalog: Catalog) -> None:
    if not has_version_6():
        with pytest.raises(ServiceError, match=r"cannot listen on \[::\]:0"):
            Service(catalog, host="::")
        return
    with Service(catalog, host="::") as service:
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, service.port), timeout=5).close()


def test_a_name_of_both_versions_means_version_4(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    with listening_socket("lake.example", 0) as found:
        assert found.getsockname()[0] == "127.0.0.1"
