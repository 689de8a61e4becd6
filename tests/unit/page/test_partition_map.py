"""The partition map: its places, its colours, what is before and after it, and the days that are missing."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.overview.dates import Gap
from catalog_ext.page.partition_map import LinkedMap, chosen_keys, read_map
from catalog_ext.page.query import Query
from tests.index_cases import create, data_files
from tests.page_cases import fill

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table

FIRST = date(2025, 1, 30)


def made(catalog: Catalog, keys: dict[str, str], names: Iterable[str]) -> Table:
    return fill(catalog.index, create(catalog.index, "t", keys), names)


def mapped(catalog: Catalog, table: Table, where: str | None = None, **chosen: str) -> LinkedMap:
    query = Query.of("/ui/table/s/t", chosen | ({"where": where} if where else {}))
    found = read_map(
        catalog.index.overviews, table, catalog.predicate(table, where), chosen_keys(table, query), query,
        catalog.index.now_ms(),
    )  # fmt: skip
    assert found is not None
    return found


def days(count: int, start: date = FIRST) -> list[str]:
    return [(start + timedelta(i)).isoformat() for i in range(count)]


def kinds(row: LinkedMap) -> list[list[str]]:
    return [["beside" if place is None else place.kind for place in places] for _, places in row.rows]


@pytest.mark.parametrize("kind", ["date", "string"])
def test_a_date_alone_is_a_calendar_whether_it_is_declared_or_not(catalog: Catalog, kind: str) -> None:
    table = made(catalog, {"ds": kind}, [f"ds={day}" for day in (*days(3), *days(2, date(2025, 2, 27)))])
    found = mapped(catalog, table)
    assert [head.label for head in found.columns] == [str(n) for n in range(1, 32)]
    assert [head.label for head, _ in found.rows] == ["2025-01", "2025-02"]
    january, february = kinds(found)
    assert january == ["beside"] * 29 + ["l7", "l7"]
    assert february == ["l7"] + ["hole"] * 25 + ["l7", "l7"] + ["beside"] * 3
    assert found.holes is not None
    assert (found.holes.missing, found.holes.days, found.holes.gaps) == (
        25, 30, (Gap("2025-02-02", "2025-02-26", 25),),
    )  # fmt: skip
    months = mapped(catalog, table, unit="month")
    assert [head.label for head, _ in months.rows] == ["2025"]
    assert kinds(months) == [["l1", "l7"] + ["beside"] * 10]
    assert [head.label for head in mapped(catalog, table, unit="year").columns] == ["2025"]


def test_a_key_that_is_no_date_has_no_holes(catalog: Catalog) -> None:
    table = made(catalog, {"ds": "string"}, [f"ds={day}" for day in (*days(3), "latest")])
    found = mapped(catalog, table)
    assert found.holes is None
    assert [place.label.partition(":")[0] for place in found.rows[0][1] if place] == [
        "ds=2025-01-30", "ds=2025-01-31", "ds=2025-02-01", "ds=latest",
    ]  # fmt: skip


def test_values_that_are_no_days_do_not_break_the_days(catalog: Catalog) -> None:
    table = made(catalog, {"ds": "string"}, ["ds=2025-02-28", "ds=2025-02-30", "ds=2025-02-x", "ds=2025-03-02"])
    found = mapped(catalog, table)
    assert found.holes is not None
    assert found.holes.gaps == (Gap("2025-03-01", "2025-03-01", 1),)
    assert found.shown == 2


def test_the_newest_days_are_shown_and_all_others_can_be_reached(catalog: Catalog) -> None:
    table = made(catalog, {"ds": "date", "n": "int"}, [f"ds={day}/n={n}" for day in days(150) for n in range(2)])
    found, seen = mapped(catalog, table), []
    for _ in range(5):
        seen = [head.label for head in found.columns] + seen
        links = dict(found.steps)
        if "earlier" not in links:
            break
        found = mapped(catalog, table, **_chosen(links["earlier"]))
    assert seen == days(150)
    assert dict(found.steps).keys() == {"later"}
    later = mapped(catalog, table, **_chosen(dict(found.steps)["later"]))
    assert later.columns[0].label > found.columns[-1].label
    with pytest.raises(InvalidInputError, match="no day"):
        mapped(catalog, table, xto="2025-02-31")


def _chosen(address: str) -> dict[str, str]:
    from urllib.parse import parse_qsl, urlsplit

    return dict(parse_qsl(urlsplit(address).query))


def test_values_come_a_page_at_a_time(catalog: Catalog) -> None:
    table = made(catalog, {"n": "int", "m": "int"}, [f"n={n}/m={n % 100 - 50}" for n in range(100)])
    found, columns, rows = mapped(catalog, table), [], []
    for _ in range(9):
        columns.append([int(head.label) for head in found.columns])
        links = dict(found.steps)
        if "next values of n" not in links:
            break
        found = mapped(catalog, table, **_chosen(links["next values of n"]))
    assert [n for page in columns for n in page] == list(range(100))
    found = mapped(catalog, table)
    for _ in range(9):
        rows += [int(head.label) for head, _ in found.rows]
        links = dict(found.steps)
        if "next values of m" not in links:
            break
        found = mapped(catalog, table, **_chosen(links["next values of m"]))
    assert rows == list(range(-50, 50))


def test_null_is_a_value_and_leads_to_its_partitions(catalog: Catalog) -> None:
    table = made(
        catalog, {"k": "string", "n": "int"}, ["k=__HIVE_DEFAULT_PARTITION__/n=1", "k=a/n=__HIVE_DEFAULT_PARTITION__"]
    )
    found = mapped(catalog, table)
    assert ([head.label for head in found.columns], [head.label for head, _ in found.rows]) == (
        ["NULL", "a"],
        ["NULL", "1"],
    )
    assert kinds(found) == [["none", "l7"], ["l7", "none"]]
    assert found.columns[0].href is not None
    assert mapped(catalog, table, **_chosen(found.columns[0].href)).shown == 1


def test_the_colour_is_the_logarithm_and_an_age_is_pale(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"n": "int"})
    for n in range(3):
        change = AddPartition(f"n={n}", (DataFile("a", 10 ** (n * 3), 1, n or None), *data_files(n)) if n else ())
        catalog.index.commit(table.table_id, [change], operation="INSERT", deliver=False)
    table = catalog.index.load_table(table.identifier)
    assert kinds(mapped(catalog, table)) == [["l0", "l1", "l7"]]
    assert kinds(mapped(catalog, table, m="files")) == [["l0", "l1", "l7"]]
    assert [mapped(catalog, table, m="rows").rows[0][1][n].text for n in range(3)] == ["0", "not known", "not known"]  # type: ignore[union-attr]
    assert kinds(mapped(catalog, table, m="age"))[0][-1] == "l7"
    # Where all are alike, none is pale.
    assert kinds(mapped(catalog, table, "n = 1", m="age")) == [["l7"]]


def test_a_condition_narrows_the_map(catalog: Catalog) -> None:
    table = made(catalog, {"ds": "date", "r": "string"}, [f"ds={day}/r={r}" for day in days(5) for r in "ab"])
    found = mapped(catalog, table, "r = 'a' AND ds > '2025-01-31'")
    assert ([head.label for head, _ in found.rows], len(found.columns), found.shown) == (["a"], 3, 3)
    assert mapped(catalog, table, "r = 'c'").rows == ()


def test_a_table_without_keys_has_no_map(catalog: Catalog) -> None:
    table = made(catalog, {}, [""])
    query = Query.of("/ui/table/s/t", {})
    assert read_map(catalog.index.overviews, table, None, chosen_keys(table, query), query, 0) is None
