"""Another metastore at the address of the index's own gets no message, also in the middle of a process's life."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import catalog_ext
from catalog_ext.identity.record import METASTORE_ID
from catalog_ext.metastore.hive.identity import metastore_id
from catalog_ext.metastore.hive.thrift.connect import connect
from tests.integration.thrift_proxy import ThriftProxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.hive import HiveMetastore


def place(server: HiveMetastore) -> tuple[str, int]:
    parts = urlsplit(server.uri)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port


def state(server: HiveMetastore) -> tuple[list[str], str | None]:
    client = connect(server.uri)
    try:
        return client.list_databases(), metastore_id(client)
    finally:
        client.close()


def test_it_gets_nothing(
    make_hive_metastore: Callable[[], HiveMetastore], hive_metastore: HiveMetastore, tmp_path: Path
) -> None:
    own, other = make_hive_metastore(), hive_metastore
    before = state(other)

    index = str(tmp_path / "i.db")
    with ThriftProxy(*place(own)) as proxy:
        with catalog_ext.connect(index=index, warehouse=str(tmp_path / "wh"), metastore=proxy.uri) as catalog:
            catalog.create_namespace("s")
            recorded = catalog.index.properties.load()[METASTORE_ID]
        proxy.calls.clear()
        with catalog_ext.connect(index=index) as catalog:
            catalog.create_namespace("t")
            catalog.create_namespace("u")
            assert proxy.calls["get_database"] == 1
            proxy.turn_to(*place(other))
            catalog.create_namespace("v")
            report = catalog.deliver()
            assert report.pending == 1
            assert report.error is not None
            assert "is not the one that it was" in report.error
            proxy.turn_to(*place(own))
            catalog.outbox("retry")
            assert catalog.deliver().pending == 0
    names, kept = state(own)
    assert names == ["default", "s", "t", "u", "v"]
    assert kept == recorded
    assert state(other) == before
