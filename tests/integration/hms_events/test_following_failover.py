"""Following several servers of one metastore: one dies while its events are read, the next in the look at a table."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.hms_events.log import BATCH_EVENTS
from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.mapping.model import EXTERNAL_TABLE, HiveDatabase, HivePartition, HiveTable
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.model.tables import Column
from tests.integration.thrift_proxy import ThriftProxy
from tests.kit.repair_cases import indexed, write
from tests.servers.metastores_on_postgres import copy_events, expire_events, metastores_on_postgres
from tests.unit.hms_events.test_following import PARQUET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore
    from tests.servers.secured_metastore import SecuredMetastore

PARTITIONS = 120


@pytest.fixture
def servers(postgres_url: str, tmp_path: Path) -> Iterator[list[SecuredMetastore]]:
    with metastores_on_postgres(postgres_url, tmp_path / "servers", 3, log=True) as started:
        yield started


def killing(proxy: ThriftProxy, server: SecuredMetastore, method: str, *, call: int) -> Callable[[str], None]:
    """What ends a server when it is about to get so many-th call of a method from now on."""
    before = proxy.calls[method]

    def look(name: str) -> None:
        if name == method and proxy.calls[method] == before + call:
            server.stop()

    return look


def made(client: HiveMetastore, root: Path) -> None:
    """A table with partitions that Hive has made, each with a file."""
    client.create_database(HiveDatabase("f", (root / "f").as_uri()))
    columns, keys = (Column("x", "int"),), (Column("k", "int"),)
    client.create_table(
        HiveTable("f", "t", EXTERNAL_TABLE, (root / "t").as_uri(), columns, keys, PARQUET, {"EXTERNAL": "TRUE"})
    )
    write(root / "t", *(f"k={k}/one" for k in range(PARTITIONS)))
    for start in range(0, PARTITIONS, 60):
        some = range(start, start + 60)
        client.add_partitions("f", "t", [HivePartition((str(k),), f"{root.as_uri()}/t/k={k}") for k in some])


def altered(client: HiveMetastore, root: Path, file: str) -> None:
    """A further file in each partition, as an INSERT of Hive ends: an event each."""
    write(root / "t", *(f"k={k}/{file}" for k in range(PARTITIONS)))
    names = [f"k={k}" for k in range(PARTITIONS)]
    found = client.partitions_by_names("f", "t", names)
    client.alter_partitions("f", "t", [
        HivePartition(p.values, p.location, {**p.parameters, "note": file}, p.storage) for p in found
    ])  # fmt: skip


def state(catalog: Catalog) -> str:
    return next(entry.state for entry in catalog.status() if entry.kind == "follower")


@pytest.mark.slow
def test_another_server_goes_on(servers: list[SecuredMetastore], postgres_url: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        proxies = [stack.enter_context(ThriftProxy("localhost", server.port)) for server in servers]
        hive = connect(servers[-1].uri)
        stack.callback(hive.close)
        made(hive, tmp_path)
        catalog = stack.enter_context(catalog_ext.connect(
            index=str(tmp_path / "index.db"), metastore=",".join(proxy.uri for proxy in proxies),
            warehouse=str(tmp_path / "warehouse"),
        ))  # fmt: skip
        catalog.import_table("f.t")
        assert catalog.follower.look().gap is None
        version = catalog.load_table("f.t").version

        # The first one dies while events are read: it has given a part of them.
        altered(hive, tmp_path, "two")
        proxies[0].before = killing(proxies[0], servers[0], "get_next_notification", call=2)
        first = catalog.follower.look()
        assert proxies[1].calls["get_next_notification"] > 0
        assert (first.gap, first.events) == (None, PARTITIONS)
        assert [(t.action, t.changed) for t in first.tables] == [("followed", PARTITIONS)], first
        assert catalog.load_table("f.t").version == version + 1, "each once"
        assert state(catalog) == "in sync"

        # The next one dies while a table is looked at.
        altered(hive, tmp_path, "three")
        hive.drop_partitions("f", "t", ["k=0"])
        proxies[1].before = killing(proxies[1], servers[1], "get_partitions_by_names", call=1)
        second = catalog.follower.look()
        assert proxies[2].calls["get_partitions_by_names"] > 0
        assert [(t.action, t.changed, t.dropped) for t in second.tables] == [("followed", PARTITIONS - 1, 1)]
        assert catalog.load_table("f.t").version == version + 2
        assert state(catalog) == "in sync"
        files = {"one": 1, "two": 1, "three": 1}
        assert indexed(catalog, "f.t") == {f"k={k}": files for k in range(1, PARTITIONS)}
        assert catalog.follower.look().is_idle

        # Many events at once: what they say of a partition is looked at once in a batch.
        expire_events(postgres_url, first.event_id or 0)
        newest = copy_events(postgres_url, 60)
        calls = proxies[2].calls.copy()
        many = catalog.follower.look()
        assert (many.gap, many.event_id) == (None, newest)
        spent = proxies[2].calls - calls
        batches = -(-many.events // BATCH_EVENTS)
        assert batches > 1
        assert spent["get_partitions_by_names"] <= batches
        assert spent["get_next_notification"] <= 6 * batches + 4
        assert catalog.load_table("f.t").version == version + 2

        # The last one dies, too: nothing moves, and status says why.
        servers[2].stop()
        with pytest.raises(MetastoreUnavailableError):
            catalog.follower.look()
        assert catalog.index.followed.load().event_id == newest
        assert state(catalog) == "failed"
