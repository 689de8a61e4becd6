"""The partition map: its places, its colours, what is before and after it, and the days that are missing."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidInputError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.overview.dates import Gap
from catalog_ext.page.pages import chosen_keys, read_map
from catalog_ext.page.query import Query
from tests.kit.index_cases import create, data_files
from tests.kit.page_cases import fill

if TYPE_CHECKING:
    from collections.abc import Iterable

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.overview.partition_map import PartitionMap

FIRST = date(2025, 1, 30)


def made(catalog: Catalog, keys: dict[str, str], names: Iterable[str]) -> Table:
    return fill(catalog.index, create(catalog.index, "t", keys), names)


def mapped(catalog: Catalog, table: Table, where: str | None = None, **chosen: str) -> PartitionMap:
    query = Query.of("/ui/table/s/t", chosen | ({"where": where} if where else {}))
    found = read_map(
        catalog.index.overviews, table, catalog.predicate(table, where), chosen_keys(table, query), query,
        catalog.index.now_ms(),
    )  # fmt: skip
    assert found is not None
    return found


def days(count: int, start: date = FIRST) -> list[str]:
    return [(start + timedelta(i)).isoformat() for i in range(count)]


def addresses(of: PartitionMap) -> dict[str, str]:
    """The addresses of the maps around it, by their words."""
    return {step.words: step.href for step in of.steps if step.href is not None}


def kinds(row: PartitionMap) -> list[list[str]]:
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
        links = addresses(found)
        if "earlier" not in links:
            break
        found = mapped(catalog, table, **_chosen(links["earlier"]))
    assert seen == days(150)
    assert addresses(found).keys() == {"later"}
    later = mapped(catalog, table, **_chosen(addresses(found)["later"]))
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
        links = addresses(found)
        if "next values of n" not in links:
            break
        found = mapped(catalog, table, **_chosen(links["next values of n"]))
    assert [n for page in columns for n in page] == list(range(100))
    found = mapped(catalog, table)
    for _ in range(9):
        rows += [int(head.label) for head, _ in found.rows]
        links = addresses(found)
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
        catalog.index.commits.apply_changes(table.table_id, [change], operation="INSERT", deliver=False)
    table = catalog.index.tables.load(table.identifier)
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


@pytest.mark.parametrize("unit", ["day", "month", "year"])
@pytest.mark.parametrize("keys", [{"ds": "date"}, {"ds": "date", "r": "string"}])
def test_what_has_no_end_is_no_date_of_the_map(catalog: Catalog, keys: dict[str, str], unit: str) -> None:
    rest = "/r=a" if "r" in keys else ""
    there = ("2024-02-27", "2024-03-01", "9999-12-31", "__HIVE_DEFAULT_PARTITION__")
    table = made(catalog, keys, [f"ds={day}{rest}" for day in there])
    found = mapped(catalog, table, unit=unit)
    assert found.shown == 2
    assert found.holes is not None
    assert (found.holes.first, found.holes.last, found.holes.missing) == ("2024-02-27", "2024-03-01", 2)
    links = addresses(found)
    assert links.keys() == {"the year 9999"}
    endless = mapped(catalog, table, **_chosen(links["the year 9999"]))
    assert endless.shown == 1
    assert "2024" not in str(endless.columns)
    # From every head one comes to what is below it, also where no day follows.
    link = next(head.href for head in (*(head for head, _ in endless.rows), *endless.columns)[::-1] if head.href)
    assert mapped(catalog, table, **_chosen(link)).shown == 1
    back = endless
    for _ in range(99):
        back = mapped(catalog, table, **_chosen(addresses(back)["earlier"]))
        if back.shown == 2:
            break
    assert (back.shown, back.steps) == (2, found.steps)
    # The partitions without a date are in no range of dates: the map says so, and leads to them.
    ((label, href),) = [(each.label, each.href) for each in found.undated]
    assert label == "1 partition without a ds"
    assert href is not None
    assert mapped(catalog, table, **_chosen(href)).shown == 1


def test_a_table_that_has_no_end_alone_is_shown(catalog: Catalog) -> None:
    table = made(catalog, {"ds": "date"}, ["ds=9999-12-30", "ds=9999-12-31"])
    for unit in ("day", "month", "year"):
        assert mapped(catalog, table, unit=unit).shown == 2


@pytest.mark.parametrize("kind", ["int", "bigint", "string"])
def test_dates_of_eight_digits_are_a_calendar(catalog: Catalog, kind: str) -> None:
    names = [f"ds={day.replace('-', '')}/r=a" for day in (*days(3), *days(2, date(2025, 2, 27)))]
    table = made(catalog, {"ds": kind, "r": "string"}, names)
    found = mapped(catalog, table, y="-")
    assert [head.label for head, _ in found.rows] == ["2025-01", "2025-02"]
    january, february = kinds(found)
    assert january == ["beside"] * 29 + ["l7", "l7"]
    assert february == ["l7"] + ["hole"] * 25 + ["l7", "l7"] + ["beside"] * 3
    assert found.holes is not None
    assert found.holes.gaps == (Gap("2025-02-02", "2025-02-26", 25),)
    assert next(place.where for _, places in found.rows for place in places if place) == "ds=20250130"
    link = found.rows[1][0].href
    assert link is not None
    assert mapped(catalog, table, **_chosen(link)).shown == 3
    for unit, places in (("day", 30), ("month", 2), ("year", 1)):
        by_two = mapped(catalog, table, unit=unit)
        assert (len(by_two.columns), by_two.shown) == (places, 5)
        link = by_two.columns[-1].href
        assert link is not None
        assert mapped(catalog, table, **_chosen(link)).shown == {"day": 1, "month": 3, "year": 5}[unit]


def test_numbers_and_texts_that_are_no_dates_are_values(catalog: Catalog) -> None:
    table = made(catalog, {"n": "int", "s": "string"}, ["n=20250101/s=p0820250101", "n=20251301/s=p0820250103"])
    found = mapped(catalog, table)
    assert ([head.label for head in found.columns], found.holes) == (["20250101", "20251301"], None)
    assert [head.label for head, _ in found.rows] == ["p0820250101", "p0820250103"]


@pytest.mark.parametrize("where", [None, "r >= 'a'"])
def test_hours_that_are_written_behind_a_day_fill_it(catalog: Catalog, where: str | None) -> None:
    table = made(catalog, {"ds": "string", "r": "string"}, [
        "ds=2025-02-27/r=a", "ds=2025-02-28T05/r=a", "ds=2025-02-28T06/r=a", "ds=2025-03-02/r=a",
    ])  # fmt: skip
    found = mapped(catalog, table, where)
    assert found.shown == 4
    assert found.holes is not None
    assert found.holes.gaps == (Gap("2025-03-01", "2025-03-01", 1),)


@pytest.mark.parametrize("keys", [
    {"year": "int", "month": "int", "day": "int"},
    {"Year": "string", "MONTH": "string", "day": "string", "hour": "int"},
    {"region": "string", "y": "smallint", "m": "tinyint", "d": "string"},
])  # fmt: skip
def test_days_that_are_missing_among_years_months_and_days(catalog: Catalog, keys: dict[str, str]) -> None:
    there = (*days(2, date(2024, 2, 27)), *days(2, date(2024, 3, 2)))
    names = []
    for day in there:
        parts = dict(zip(("y", "m", "d"), day.split("-"), strict=True))
        of = {"region": "eu", "hour": "7", **parts}
        names.append("/".join(f"{key}={of[key.lower() if key in of else key[0].lower()]}" for key in keys))
    names += ["/".join(f"{key}={value}" for key, value in zip(keys, ("2024", "2", "31", "0"), strict=False))]
    table = made(catalog, keys, names)
    found = mapped(catalog, table)
    assert found.holes is not None
    assert found.holes.key == ", ".join(key for key in keys if key[0].lower() in "ymd")
    assert (found.holes.first, found.holes.last, found.holes.missing) == ("2024-02-27", "2024-03-03", 2)
    assert found.holes.gaps == (Gap("2024-02-29", "2024-03-01", 2),)
    last = list(keys)[-1] if "hour" not in keys else "day"
    assert mapped(catalog, table, f"{last} = '03'" if keys[last] == "string" else f"{last} = 3").holes is None


def test_a_year_without_days_has_no_holes(catalog: Catalog) -> None:
    table = made(catalog, {"year": "int", "month": "int"}, ["year=2024/month=1", "year=2024/month=3"])
    assert mapped(catalog, table).holes is None
