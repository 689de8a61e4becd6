"""What a comparison costs: calls and queries by the page, and memory that does not grow with the table."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.storage.listed import ListedDirectory, ListedFile
from tests.fakes_metastore import FakeMetastore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog

FEWER, MORE = 30_000, 60_000
STATISTICS = {"numFiles": "1", "totalSize": "7"}


class ManyPartitions(FakeMetastore):
    """Has so many partitions of ``s.t``, which are made when they are asked for; each 5,000th is elsewhere."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place
        self.count = 0

    def partition_names(self, database: str, table: str) -> Iterator[str]:
        self._called("partition_names")
        return (f"ds={number:07}" for number in range(self.count))

    def partitions_by_names(self, database: str, table: str, names: Sequence[str]) -> list[HivePartition]:
        self._called("partitions_by_names")
        return [self._made(name) for name in names]

    def _made(self, name: str) -> HivePartition:
        moved = name.endswith(("0000", "5000")) and name != "ds=0000000"
        return HivePartition((name[3:],), f"file://{self.place}/{'moved' if moved else name}", STATISTICS)


@pytest.fixture
def metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ManyPartitions:
    made = ManyPartitions(tmp_path / "t")
    monkeypatch.setattr("catalog_ext.metastore_sync.connection.connect", lambda *_, **__: made)
    return made


@pytest.fixture
def catalog(tmp_path: Path, metastore: ManyPartitions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    def listing(*_: object, **__: object) -> Iterator[ListedFile | ListedDirectory]:
        for number in range(metastore.count):
            yield ListedDirectory(f"ds={number:07}")
            yield ListedFile(f"ds={number:07}", "f", 7, 1)

    monkeypatch.setattr("catalog_ext.repair.table_repair.list_tree", listing)
    (tmp_path / "t").mkdir()
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s")
        catalog.register_table(
            "s.t", location=str(tmp_path / "t"), partition_columns={"ds": "STRING"}, schema="x INT", format="csv"
        )
        catalog.deliver()
        yield catalog


def grow(catalog: Catalog, metastore: ManyPartitions, count: int) -> None:
    table = catalog.load_table("s.t")
    new = range(metastore.count, count)
    changes = [AddPartition(f"ds={number:07}", (DataFile("f", 7, 1),)) for number in new]
    catalog.index.commit(table.table_id, changes, operation="repair", deliver=False)
    metastore.count = count


@pytest.mark.slow
def test_calls_queries_and_memory(catalog: Catalog, metastore: ManyPartitions) -> None:
    costs = []
    grow(catalog, metastore, 1000)
    assert list(catalog.drift("s.t")) == [], "imports and caches do not count"
    for count in (FEWER, MORE):
        grow(catalog, metastore, count)
        calls, queries = metastore.calls.copy(), catalog.index.query_count
        tracemalloc.start()
        found = list(catalog.drift("s.t"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert [d.subject for d in found] == [f"ds={number:07}" for number in range(5_000, count, 5_000)]
        spent = metastore.calls - calls
        assert spent == {"get_table": 1, "partition_names": 1, "partitions_by_names": count // 1000}
        costs.append((peak, catalog.index.query_count - queries))
    (fewer_bytes, fewer_queries), (more_bytes, more_queries) = costs
    pages, described = (MORE - FEWER) // 1000, (MORE - FEWER) // 5_000
    # A page is read; what differs on it is looked up: changed since?, partitions, versions.
    assert more_queries - fewer_queries <= pages + 8 * described
    assert fewer_bytes < 32 * 1024 * 1024, costs
    assert more_bytes < 1.1 * fewer_bytes, costs
