"""The history on a table's page: its pictures stay small, and paging back through it lists every event once."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.index.database.schema import repairs, table_versions
from catalog_ext.metastore.index.write.repairs import RepairRecord
from catalog_ext.metastore.model.alterations import AddColumn
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.overview.lists import in_words
from tests.kit.index_cases import create, data_files
from tests.kit.page_cases import fill, looking_at

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

DAY_MS = 86_400_000


def repaired(index: Index, table: Table, version: int = 1, before: int | None = None) -> None:
    started = version if before is None else before
    index.repairs.add(RepairRecord(table.table_id, 9, "sync", None, 0, "ada@h:1", 0, 0, 0, 0, started, version, None))


def dated(index: Index, table: Table, committed_at_ms: int, ended_at_ms: int) -> None:
    """Say that all of a table's commits were at one time, and all of its repairs at another."""
    v, r = table_versions, repairs
    with index._database.engine.begin() as connection:
        connection.execute(sa.update(v).where(v.c.table_id == table.table_id).values(committed_at_ms=committed_at_ms))
        connection.execute(
            sa.update(r).where(r.c.table_id == table.table_id).values(began_at_ms=ended_at_ms, ended_at_ms=ended_at_ms)
        )


@pytest.mark.slow
@pytest.mark.parametrize("days", [-3, 3, 4000])
def test_a_repair_long_after_the_last_commit_makes_no_long_picture(catalog: Catalog, days: int) -> None:
    table = create(catalog.index, "t", {"k": "int"})
    fill(catalog.index, table, ["k=1"])
    repaired(catalog.index, table)
    now = catalog.index.now_ms()
    dated(catalog.index, table, now - 5000 * DAY_MS, now - (5000 - days) * DAY_MS)
    with looking_at(catalog) as visitor:
        page = visitor.page("/ui/table/s/t")
    bars = re.findall(r"<title>[^<]*: (?:none|\d+ [^<]*)</title>", page)
    assert 1 < len(bars) < 130
    assert sum("repair that changed nothing" in bar for bar in bars) == 1
    assert len(page) < 100_000


@pytest.mark.slow
def test_columns_of_seconds_are_distinguished(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"k": "int"})
    fill(catalog.index, table, ["k=1"])
    repaired(catalog.index, table)
    began = 1_700_000_000_000  # 22:13:20
    dated(catalog.index, table, began, began + 4000)
    with looking_at(catalog) as visitor:
        timeline = visitor.page("/ui/table/s/t").partition("Commits over time")[2].partition("</svg>")[0]
    labels = re.findall(r">(\d\d:\d\d:\d\d)</text>", timeline)
    assert labels == [f"22:13:{second}" for second in range(20, 25)]


@pytest.mark.slow
def test_paging_back_lists_every_event_once_whatever_the_clock_shows(catalog: Catalog) -> None:
    index = catalog.index
    table = create(index, "t", {"k": "int"})
    for k in range(120):
        # The changes of a repair are listed with the repair, on whichever page that is.
        change = AddPartition(f"k={k}", data_files(1))
        index.commits.apply_changes(
            table.table_id, [change], operation="repair" if k % 10 == 9 else "INSERT", deliver=False
        )
        if k % 10 == 9:
            repaired(index, table, k + 1, k)
    for _ in range(60):
        repaired(index, table, 120)
    now = index.now_ms()
    dated(index, table, now - DAY_MS, now - DAY_MS)
    # The clock was set back for a while.
    v = table_versions.c
    with index._database.engine.begin() as connection:
        connection.execute(
            sa.update(table_versions).where(v.table_id == table.table_id, v.version.between(30, 50))
            .values(committed_at_ms=now - 9 * DAY_MS)
        )  # fmt: skip
    reported: list[str] = []
    with looking_at(catalog) as visitor:
        address = "/ui/table/s/t"
        for _ in range(9):
            page = visitor.page(address)
            reported += re.findall(r'data-label="Version">([\d,]*)<', page)
            earlier = re.search(r'href="([^"#]+)#timeline-title">Earlier', page)
            if earlier is None:
                break
            address = html.unescape(earlier[1])
    assert sorted(int(version) for version in reported if version) == list(range(121))
    assert len(reported) == 121 + 60


@pytest.mark.parametrize("before", ["1700000000000", "-1..", "1.2", "1.2.x", "..9", f"{'9' * 19}.."])
def test_unknown_position_in_the_history_is_an_error(catalog: Catalog, before: str) -> None:
    create(catalog.index, "t", {"k": "int"})
    with looking_at(catalog) as visitor:
        answer = visitor.get("/ui/table/s/t", before=before)
    assert (answer.status, "take the link to what is earlier" in answer.text) == (400, True)


def test_alteration_says_what_changed(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"k": "int"})
    fill(catalog.index, table, ["k=1"])
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int")], set_={"a": "b"})
    newest = catalog.history("s.t")[0]
    assert (newest.operation, in_words(newest.summary)) == ("ALTER TABLE", "columns changed")
    with looking_at(catalog) as visitor:
        page = visitor.page("/ui/table/s/t")
    assert "ALTER TABLE" in page
    assert "columns changed" in page
