"""What the pages of a table of a million partitions cost: until something is seen, until all is there, and in bytes."""

from __future__ import annotations

import tempfile
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING

import catalog_ext
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.service.server import Service
from tests.benchmarks.measure import Outcome, shown
from tests.kit.index_cases import create
from tests.kit.page_cases import Visitor
from tests.servers.browser import open_browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import BrowserContext

    from catalog_ext.catalog import Catalog

COMMITS, EACH = 10, 100_000
MOST_BYTES, MOST_S = 1_000_000, 1.0
PAGES = {
    "tables": "/ui/",
    "date by region, 62 days": "/ui/table/s/daily",
    "date by region, 60 months": "/ui/table/s/daily?unit=month",
    "date alone": "/ui/table/s/daily?y=-",
    "region alone": "/ui/table/s/daily?x=region&y=-",
    "one region": "/ui/table/s/daily?where=region+%3D+%27r0500%27",
    "one key of a million values": "/ui/table/s/hashed",
}  # fmt: skip
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def page() -> Outcome:
    """What the pages of tables of a million partitions cost."""
    rows: list[list[str]] = []
    largest, slowest = 0, 0.0
    with (
        tempfile.TemporaryDirectory(prefix="catalog-ext-bench-") as folder,
        catalog_ext.connect(index=f"{folder}/index.db", metastore=None, warehouse=folder) as catalog,
    ):
        catalog.create_namespace("s")
        _fill(catalog, "daily", {"ds": "date", "region": "string"}, _daily)
        _fill(catalog, "hashed", {"hash": "string"}, _hashed)
        catalog.index.planner_statistics.analyze()
        for name, path in PAGES.items():
            # Each from a service that has kept nothing yet.
            with Service(catalog, page=True) as service, open_browser() as browser:
                context = browser.new_context()
                _sign_in(context, service)
                opened = context.new_page()
                started = time.perf_counter()
                opened.goto(f"{service.uri}{path}")
                whole = time.perf_counter() - started
                paint = float(opened.evaluate(_PAINT)) / 1000
                again = _again(service, path)
            rows.append([name, shown(paint), shown(whole), shown(again[0]), f"{again[1] / 1000:,.0f} kB"])
            largest, slowest = max(largest, again[1]), max(slowest, paint)
    return Outcome(
        "Page",
        "Pages in Chromium for tables of 1,000,000 partitions with one file each; SQLite index. The second request "
        "comes within the minute for which the service caches expensive results.",
        ["page", "first paint", "complete page", "second request", "size"],
        rows,
        [
            (f"the first paint of a page takes less than {MOST_S:.0f} s", slowest < MOST_S, shown(slowest)),
            ("no page is larger than 1 MB", largest < MOST_BYTES, f"{largest / 1000:,.0f} kB"),
        ],
    )


def _fill(catalog: Catalog, name: str, keys: dict[str, str], names: Callable[[int], Iterator[str]]) -> None:
    table = create(catalog.index, name, keys)
    for number in range(COMMITS):
        changes = [
            AddPartition(each, (DataFile("part-0.parquet", (i * 104_729) % 300_000_000, 1, i % 1000),))
            for i, each in enumerate(names(number))
        ]
        catalog.index.commits.apply_changes(table.table_id, changes, operation="INSERT", deliver=False)


def _daily(number: int) -> Iterator[str]:
    for day in range(number * 100, number * 100 + 100):
        yield from (f"ds={date(2023, 1, 1) + timedelta(day)}/region=r{region:04}" for region in range(EACH // 100))


def _hashed(number: int) -> Iterator[str]:
    return (f"hash={(number * EACH + i) * 2_654_435_761 % 2**32:08x}" for i in range(EACH))


def _sign_in(context: BrowserContext, service: Service) -> None:
    page = context.new_page()
    page.goto(f"{service.uri}/")
    page.get_by_label("Token").fill(service.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Tables").wait_for()
    page.close()


def _again(service: Service, path: str) -> tuple[float, int]:
    visitor = Visitor(service)
    visitor.sign_in()
    started = time.perf_counter()
    size = len(visitor.page(path).encode())
    return time.perf_counter() - started, size
