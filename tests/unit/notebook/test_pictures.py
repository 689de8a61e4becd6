"""Pictures as SVG: the map's places, shades and holes, and the changes of a repair."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidInputError, InvalidPredicateError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.notebook.cards import CHANGED
from catalog_ext.overview.map_svg import SHADES
from catalog_ext.repair.report import NEW
from tests.kit.index_cases import create
from tests.kit.page_cases import HOSTILE, fill
from tests.unit.notebook.test_cards import said
from tests.unit.repair.test_repair_report import report

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog
    from catalog_ext.display import Picture

SVG = "{http://www.w3.org/2000/svg}"
NULL = "__HIVE_DEFAULT_PARTITION__"
STRONGEST = SHADES[-1]


def read(picture: Picture) -> ET.Element:
    return ET.fromstring(picture.svg)


def heads(picture: Picture, role: str) -> list[str]:
    groups = [group for group in read(picture).iter(f"{SVG}g") if group.get("role") == role]
    return ["".join(group.itertext()) for group in groups]


def columns(picture: Picture) -> list[str]:
    _, *found = heads(picture, "columnheader")
    return found


def kinds(picture: Picture) -> list[list[str | None]]:
    """The kinds of the places, row by row; None for a place beside the map."""
    _, *rows = [group for group in read(picture) if group.get("role") == "row"]
    return [[place.get("class") for place in list(row)[1:]] for row in rows]


def test_one_key_of_dates_is_a_calendar_with_its_holes(catalog: Catalog) -> None:
    days = [date(2025, 1, 30) + timedelta(n) for n in (0, 1, 2, 5)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date", "r": "string"}), [f"ds={day}/r=x" for day in days])
    picture = catalog.table("s.t").plot_partitions("ds")
    assert heads(picture, "rowheader") == ["2025-01", "2025-02"]
    assert columns(picture) == [str(n) for n in range(1, 32)]
    january, february = kinds(picture)
    assert [n + 1 for n, kind in enumerate(january) if kind == STRONGEST] == [30, 31]
    assert february[:6] == [STRONGEST, "hole", "hole", STRONGEST, None, None]
    assert "2 days of 6" in said(picture.html)
    assert picture._repr_html_() == picture.html


@pytest.mark.slow
def test_two_keys_measures_and_conditions(catalog: Catalog) -> None:
    names = [f"r={r}/n={n}" for r in ("a", "b", NULL) for n in (1, 2) if (r, n) != ("b", 2)]
    fill(catalog.index, create(catalog.index, "t", {"r": "string", "n": "int"}), names)
    table = catalog.table("s.t")
    picture = table.plot_partitions()
    assert (columns(picture), heads(picture, "rowheader")) == (["NULL", "a", "b"], ["1", "2"])
    assert kinds(picture)[1] == [STRONGEST, STRONGEST, "none"]
    picture = table.plot_partitions(["N", "r"], measure="files", where="r = 'a'")
    assert (columns(picture), heads(picture, "rowheader")) == (["1", "2"], ["a"])
    assert picture.title == "lake.s.t: Files by n and r"
    assert columns(table.plot_partitions("r", measure="age")) == ["NULL", "a", "b"]
    assert "no partition" in said(table.plot_partitions(where="r = 'c'").html)


def test_empty_partitions_and_missing_ones_differ(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"r": "string", "n": "int"})
    catalog.index.commits.apply_changes(
        table.table_id, [AddPartition("r=a/n=1", ())], operation="INSERT", deliver=False
    )
    fill(catalog.index, table, ["r=b/n=2"])
    assert kinds(catalog.table("s.t").plot_partitions()) == [["l0", "none"], ["none", STRONGEST]]


@pytest.mark.slow
def test_dates_are_cut_to_the_finest_unit_that_fits(catalog: Catalog) -> None:
    days = [date(1965, 1, 1) + timedelta(n * 200) for n in range(60)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date"}), [f"ds={day}" for day in days])
    table = catalog.table("s.t")
    assert heads(table.plot_partitions(), "rowheader")[:3] == ["1965", "1966", "1967"]
    assert heads(table.plot_partitions(unit="day"), "rowheader")[-1] == "1997-04"


def test_a_choice_that_is_not_valid_is_refused(catalog: Catalog) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1"])
    fill(catalog.index, create(catalog.index, "plain", {}), [""])
    nine = {f"k{n}": "int" for n in range(9)}
    fill(catalog.index, create(catalog.index, "nine", nine), ["/".join(f"k{n}=1" for n in range(9))])
    table = catalog.table("s.t")
    for keys in (["k", "k"], [], "nope", ["k", "nope"]):
        with pytest.raises(InvalidInputError, match=r"one or two of its keys \(k;"):
            table.plot_partitions(keys)
    with pytest.raises(InvalidInputError, match="the first eight"):
        catalog.table("s.nine").plot_partitions("k8")
    with pytest.raises(InvalidInputError, match="no partition columns"):
        catalog.table("s.plain").plot_partitions()
    with pytest.raises(InvalidInputError, match="measure is 'weight'; it is one of bytes, files"):
        table.plot_partitions(measure="weight")
    with pytest.raises(InvalidInputError, match="unit is 'week'"):
        table.plot_partitions(unit="week")
    with pytest.raises(InvalidPredicateError):
        table.plot_partitions(where="nope = 1")


def test_hostile_names_are_text_in_pictures(catalog: Catalog) -> None:
    from catalog_ext.metastore.model.partition_names import escape_path_name

    names = [f"v={escape_path_name(value)}/$k={n}" for n, value in enumerate(HOSTILE)]
    fill(catalog.index, create(catalog.index, "t", {"v": "string", "$k": "int"}), names)
    of_table = catalog.table("s.t").plot_partitions()
    of_repair = report(*(("add", name, name, 1, 1, NEW) for name in names), keys=["v", "$k"]).plot_partitions()
    assert heads(of_table, "columnheader")[0] == "$k"
    for picture in (of_table, of_repair):
        assert {each.tag for each in read(picture).iter()} <= {
            f"{SVG}{tag}" for tag in ["svg", "g", "rect", "text", "title"]
        }
        assert "<script>alert(1)" in "".join(read(picture).itertext())
        assert not re.search("[\u202e\x00-\x08]", picture.svg + picture.html)


def bars(picture: Picture) -> list[tuple[str, str]]:
    rects = read(picture).iter(f"{SVG}rect")
    return [(str(rect.get("class")), "".join(rect.itertext())) for rect in rects]


def test_a_repairs_picture_counts_partitions_by_the_first_key() -> None:
    rows = [
        ("add", "ds=2025-01-01/r=a", "x", 1, 1, NEW), ("add", "ds=2025-01-01/r=b", "x", 1, 1, NEW),
        ("change", "ds=2025-01-02/r=a", "x/1", 1, 1, "file added"),
        ("change", "ds=2025-01-02/r=a", "x/2", 1, 1, "file added"),
        ("drop", f"ds={NULL}/r=a", "x", 1, 1, "gone"), ("skip", "", "stray", 1, 1, "no key"),
    ]  # fmt: skip
    picture = report(*rows, keys=["DS", "r"], dry_run=True).plot_partitions()
    assert bars(picture) == [
        ("skipped", "(no partition): skipped 1 path"), ("added", "2025-01-01: added 2 partitions"),
        ("changed", "2025-01-02: changed 1 partition"), ("dropped", "NULL: dropped 1 partition"),
    ]  # fmt: skip
    assert picture.title == "Preview of repair of s.t (mode sync): nothing was changed"
    assert "partitions by DS" in said(picture.html)
    fills = {rect.get("class"): rect.get("fill") for rect in read(picture).iter(f"{SVG}rect")}
    assert fills == CHANGED


@pytest.mark.slow
def test_a_repairs_picture_of_much_is_bounded() -> None:
    first = date(1950, 1, 1)
    dates = [("add", f"ds={first + timedelta(n)}/r=x", "x", 1, 1, NEW) for n in range(20_000)]
    by_year = bars(report(*dates, keys=["ds", "r"]).plot_partitions())
    assert by_year[0] == ("added", "1950: added 365 partitions")
    assert sum(int(text.split()[2].replace(",", "")) for _, text in by_year) == 20_000
    words = [("drop", f"k=v{n}/r=x", "x", 1, 1, "gone") for n in range(5_000)]
    picture = report(*words, *words[:40], keys=["k", "r"]).plot_partitions()
    assert Counter(kind for kind, _ in bars(picture)) == {"dropped": 30}
    assert "k (… and 4,970 values more)" not in picture.html
    assert "4,970 values more" in said(picture.html)


def test_a_repairs_picture_of_nothing_says_so() -> None:
    assert "nothing to add, drop or change" in said(report(keys=["k"]).plot_partitions().html)
    picture = report(("change", "", "x", 1, 1, "file added")).plot_partitions()
    assert bars(picture) == [("changed", "the table: changed 1 partition")]
