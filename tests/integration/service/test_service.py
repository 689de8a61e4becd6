"""The service over real index databases: plans beside commits, and a database that is locked or gone."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import IndexNotAtHeadError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.service.server import Service
from tests.kit.repair_cases import indexed, local_catalog, register, skipped, write
from tests.kit.service_client import Client
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.servers.databases import DatabaseServer


@pytest.fixture(params=["postgres", "mariadb"])
def database(request: pytest.FixtureRequest) -> tuple[str, DatabaseServer]:
    url = request.getfixturevalue(f"{request.param}_url")
    with Index.connect(url) as index:
        index.migrate()
    return url, request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def catalog(database: tuple[str, DatabaseServer], tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path, index=database[0]) as catalog:
        yield catalog


def test_a_plan_sees_one_version_whole_while_others_commit(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "t"
    register(catalog, root)
    done = threading.Event()
    with Service(catalog) as service, ThreadPoolExecutor(6) as pool:
        client = Client(service)

        def read() -> int:
            plans = 0
            while not done.is_set() or not plans:
                table = client.load()
                rows = client.call(
                    "tables/plan", table_id=table["table_id"], version=table["version"], predicate=None
                ).rows
                assert len(rows) == table["totals"]["files"]
                assert {row["partition"] for row in rows} == {
                    f"ds=2025-01-{day:02d}/region={r}" for day in range(1, table["version"] + 1) for r in ("eu", "us")
                }
                plans += 1
            return plans

        readers = [pool.submit(read) for _ in range(5)]
        for day in range(1, 11):
            write(root, *(f"ds=2025-01-{day:02d}/region={r}/1.csv" for r in ("eu", "us")))
            catalog.repair_partitions("s.t")
        done.set()
        assert all(reader.result() for reader in readers)


def test_a_database_that_is_gone_is_503_and_retryable(
    catalog: Catalog, database: tuple[str, DatabaseServer], tmp_path: Path
) -> None:
    write(tmp_path / "t", "ds=2025-01-01/region=eu/1.csv")
    register(catalog, tmp_path / "t")
    with Service(catalog) as service:
        client = Client(service)
        table = client.load()
        database[1].drop_database(database[0])
        for answer in (
            client.call("tables/load", namespace="s", name="t"),
            client.call("tables/plan", table_id=table["table_id"], version=0, predicate=None),
            client.call("procedures/call", procedure="repair_partitions", arguments={"table": "s.t"}),
        ):
            assert (answer.status, answer.error["code"]) == (503, "CATALOG_EXT_INDEX_UNAVAILABLE")
            assert answer.error["retryable"] is True


@pytest.mark.parametrize("server", ["postgres_url", "mariadb_url"])
def test_a_database_that_is_not_at_head_names_the_command(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue(server)
    with pytest.raises(IndexNotAtHeadError, match="init"):
        catalog_ext.connect(index=url, metastore=None, warehouse=str(tmp_path))


def test_a_locked_index_refuses_changes_and_goes_on_answering(tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=2025-01-01/region=eu/1.csv")
    place = tmp_path / "index.db"
    with local_catalog(tmp_path, index=f"sqlite:///{place}?timeout=0.2") as catalog, Service(catalog) as service:
        client = Client(service)
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
        write(tmp_path / "t", "ds=2025-01-02/region=eu/1.csv")
        other = sqlite3.connect(place, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = client.call("procedures/call", procedure="repair_partitions", arguments={"table": "s.t"})
        assert (answer.status, answer.error["code"]) == (503, "CATALOG_EXT_INDEX_UNAVAILABLE")
        assert client.load()["totals"]["partitions"] == 1
        other.execute("ROLLBACK")
        other.close()
        assert len(catalog.repair_partitions("s.t").added) == 1
        assert len(indexed(catalog)) == 2


def test_repair_beside_writes_on_every_database(catalog: Catalog, tmp_path: Path) -> None:
    eu, us = "ds=2025-01-01/region=eu", "ds=2025-01-02/region=us"
    root = tmp_path / "t"
    write(root, f"{eu}/old.csv")
    register(catalog, root)
    catalog.repair_partitions("s.t")
    crash_at("promote.after", lambda: insert(catalog, us))
    assert list(catalog.repair_partitions("s.t").added) == []
    assert [e.state for e in catalog.status()] == ["reserved (live)"]
    assert [t.action for t in catalog.recover("s.t", older_than=0).transactions] == ["finished"]
    insert(catalog, eu, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, Comparison(Operator.EQ, "region", "eu"), truncate=False)
    report = catalog.repair_partitions("s.t")
    assert [e for e in report if e.action != "skip"] == []
    assert "vacuum removes it" in skipped(report)[f"{eu}/old.csv"]
    assert set(indexed(catalog)) == {us}
    assert [
        e.path
        for e in catalog.vacuum("s.t", retention=0, allow_short_retention=True).entries
        if e.path.endswith("/old.csv")
    ]
    assert not (root / eu).exists()
    assert catalog.repair_partitions("s.t", strict=True).version == catalog.load_table("s.t").version
