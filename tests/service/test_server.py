"""The service's socket."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import Catalog
from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import ServiceError
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.service.server import Service

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


def test_a_taken_port_is_told(catalog: Catalog) -> None:
    with Service(catalog) as first, pytest.raises(ServiceError, match=str(first.port)):
        Service(catalog, port=first.port)
