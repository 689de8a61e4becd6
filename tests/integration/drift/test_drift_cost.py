"""What a comparison costs: calls and queries by the page, and memory that does not grow with the table."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from tests.kit.fakes_many_partitions import ManyPartitions, grow, register
from tests.kit.fakes_metastore import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

FEWER, MORE = 30_000, 60_000


@pytest.fixture
def metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ManyPartitions:
    made = ManyPartitions(tmp_path / "t")
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: made))
    return made


@pytest.fixture
def catalog(tmp_path: Path, metastore: ManyPartitions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    monkeypatch.setattr("catalog_ext.scan.observe.list_tree", metastore.listing)
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        register(catalog, tmp_path / "t")
        yield catalog


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
