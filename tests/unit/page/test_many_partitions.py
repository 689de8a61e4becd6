"""Pages of a table of 20,000 partitions: few queries, few bytes, and the head before all else."""

from __future__ import annotations

import http.client
import threading
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.page.pages import read_map
from tests.kit.index_cases import create
from tests.kit.page_cases import looking_at
from tests.kit.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog
    from tests.kit.page_cases import Visitor

MOST_BYTES, MOST_QUERIES = 1_000_000, 26
DAYS, REGIONS, EACH = 400, 250, 5
"""Of a day, each fifth region has a partition."""
TABLE = "/ui/table/s/t"
CHOSEN: tuple[dict[str, str], ...] = (
    {}, {"y": "-"}, {"unit": "month"}, {"unit": "year", "y": "-"}, {"x": "region", "y": "ds"},
    {"x": "region", "y": "-", "m": "age"}, {"where": "ds = '2024-02-01'"}, {"xto": "2024-02-01", "ya": "r0100"},
)  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """A table of 20,000 partitions."""
    with local_catalog(tmp_path_factory.mktemp("page")) as catalog:
        table = create(catalog.index, "t", {"ds": "date", "region": "string"})
        changes = [
            AddPartition(
                f"ds={date(2024, 1, 1) + timedelta(day)}/region=r{region:04}",
                (DataFile("part-0.parquet", (day * 7919 + region * 104_729) % 300_000_000, 1, day * region),),
            )
            for day in range(DAYS) for region in range(day % EACH, REGIONS, EACH)
        ]  # fmt: skip
        catalog.index.commits.apply_changes(table.table_id, changes, operation="INSERT", deliver=False)
        catalog.index.planner_statistics.analyze()
        yield catalog


def _queries(catalog: Catalog, visitor: Visitor, path: str, chosen: dict[str, str]) -> tuple[int, int]:
    before = catalog.index.query_count
    page = visitor.page(path, **chosen)
    assert 'role="alert"' not in page
    return catalog.index.query_count - before, len(page.encode())


@pytest.mark.slow
def test_a_page_has_few_queries_and_less_than_a_megabyte(large: Catalog) -> None:
    with looking_at(large) as visitor:
        for path, chosen in (("/ui/", {}), ("/ui/activity", {}), *((TABLE, chosen) for chosen in CHOSEN)):
            queries, size = _queries(large, visitor, path, chosen)
            assert size < MOST_BYTES, (path, chosen)
            assert queries <= MOST_QUERIES, (path, chosen)


@pytest.mark.slow
def test_what_is_dear_is_asked_once_a_version(large: Catalog) -> None:
    with looking_at(large) as visitor:
        first, _ = _queries(large, visitor, TABLE, {})
        again, _ = _queries(large, visitor, TABLE, {})
        assert again <= first - 8
        table = large.load_table("s.t")
        large.index.commits.apply_changes(
            table.table_id, [AddPartition("ds=2025-03-01/region=new", ())], operation="INSERT", deliver=False
        )
        assert "20,001" in visitor.page(TABLE)
        assert "2025-03-01" in visitor.page(TABLE)


@pytest.mark.slow
def test_the_head_of_a_page_comes_before_the_rest_is_made(large: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with looking_at(large) as visitor:
        kept = "; ".join(f"{name}={value}" for name, value in visitor.cookies.items())
        seen = threading.Event()

        def waits(*arguments: Any) -> object:
            assert seen.wait(30)
            return read_map(*arguments)

        monkeypatch.setattr("catalog_ext.page.pages.read_map", waits)
        connection = http.client.HTTPConnection(visitor.address, timeout=60)
        connection.request("GET", f"{TABLE}?m=mean", headers={"Cookie": kept})
        answer = connection.getresponse()
        head = answer.read1(100_000).decode()
        assert "<h1>" in head
        assert "Partition map" not in head
        seen.set()
        assert "on the map" in answer.read().decode()
        connection.close()
