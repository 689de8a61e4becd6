"""Cards of catalogs and tables: what they say, that nothing in them is markup, how few queries and bytes they take."""

from __future__ import annotations

import re
from datetime import date, timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import InvalidInputError, TableNotFoundError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, DataFile
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.overview.map_svg import COLOURS, SHADES
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.index_cases import create
from tests.kit.page_cases import catalog_with_everything, fill
from tests.kit.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

MOST_QUERIES = {"catalog": 3, "table": 9}
MOST_BYTES = 50_000
NULL = "__HIVE_DEFAULT_PARTITION__"
SVG_ATTRIBUTES = {
    "x", "y", "width", "height", "rx", "viewbox", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity",
    "text-anchor", "font-size", "transform", "aria-hidden",
}  # fmt: skip


class Tags(HTMLParser):
    """Collects tags, attributes and text, and notices what is not closed."""

    def __init__(self, of: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(re.sub(r"<style>.*?</style>", "", of, flags=re.DOTALL))
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.text += " " if tag in ("td", "th", "p", "div", "tr") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


def said(html: str) -> str:
    return " ".join(Tags(html).text.split())


@pytest.fixture
def everything(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_with_everything(tmp_path) as catalog:
        yield catalog


def card(catalog: Catalog, table: str) -> str:
    before = catalog.index.query_count
    html = catalog.table(table)._repr_html_()
    # One of them is that of `table`.
    assert catalog.index.query_count - before <= MOST_QUERIES["table"] + 1
    return html


def test_a_catalogs_card_says_where_it_is_and_what_it_has(everything: Catalog) -> None:
    before = everything.index.query_count
    text = said(everything._repr_html_())
    assert everything.index.query_count - before <= MOST_QUERIES["catalog"]
    assert "index.db" in text
    assert f"Warehouse {everything.settings.warehouse}" in text
    assert "5 tables: 1,114 partitions, 3,702 files" in text
    assert "thrift://127.0.0.1:1: 1 change pending, 1 of them tried in vain" in text
    assert re.search(r"sales\.trips ds, region 1,064 3,652 153 GiB [\d: -]+ failed", text)


def test_a_tables_card_says_what_it_is(everything: Catalog) -> None:
    text = said(card(everything, "sales.trips"))
    for fact in (
        "lake.sales.trips external table", "Location file:///data/sales/trips", "Format parquet",
        "Keys ds DATE, region STRING (virtual)", "Size 1,064 partitions, 3,652 files, 153 GiB, 1,824,967,397 rows",
        "Version 8, committed 20", "Metastore failed: 1 change", "Compared with the store 20",
        "Size by ds and region", "1,064 of 1,064 partitions",
        "5 days of 240 from 2025-03-01 to 2025-10-26 have no partition: 2025-07-09 to 2025-07-13.",
    ):  # fmt: skip
        assert fact in text


def test_text_of_a_table_is_its_card_without_the_map(everything: Catalog) -> None:
    lines = repr(everything.table("sales.trips")).splitlines()
    assert lines[:5] == [
        "lake.sales.trips (external table)",
        "Location   file:///data/sales/trips",
        "Format     parquet",
        "Keys       ds DATE, region STRING (virtual)",
        "Size       1,064 partitions, 3,652 files, 153 GiB, 1,824,967,397 rows",
    ]
    assert [line.split()[0] for line in lines[5:]] == ["Version", "Metastore", "Compared"]


def test_a_table_without_keys_or_partitions_has_no_map(everything: Catalog) -> None:
    create(everything.index, "empty", {"ds": "date"}, "sales")
    for table, size in (("sales.riders", "1 file, 3.00 MiB, 1,000 rows"), ("sales.empty", "0 partitions, 0 files")):
        html = card(everything, table)
        assert size in said(html)
        assert "cx-map" not in Tags(html).attributes
        assert "no partition" not in said(html)


def test_one_key_is_a_calendar_and_its_holes_are_framed(catalog: Catalog) -> None:
    days = [date(1969, 12, 30), date(1969, 12, 31), date(1970, 1, 3)]
    fill(catalog.index, create(catalog.index, "t", {"ds": "date"}), [f"ds={day}" for day in days])
    html = card(catalog, "s.t")
    assert "2 days of 5 from 1969-12-30 to 1970-01-03 have no partition: 1970-01-01 to 1970-01-02." in said(html)
    places = [value for name, value in Tags(html).attributes if name == "class"]
    assert places.count("hole") == 2 + 1, "and one in the legend"
    assert places.count("l7") == 3 + 1


def test_far_future_date_and_missing_date_are_shown(catalog: Catalog) -> None:
    days = ("2025-01-01", "2025-01-02", "9999-12-31", NULL)
    fill(catalog.index, create(catalog.index, "t", {"ds": "date"}), [f"ds={day}" for day in days])
    text = said(card(catalog, "s.t"))
    assert "2 of 4 partitions · 1 partition without a ds" in text
    assert "No day is missing from 2025-01-01 to 2025-01-02." in text


def test_null_ten_keys_and_views_have_cards(catalog: Catalog) -> None:
    ten = {f"k{n}": "string" for n in range(10)}
    name = "/".join(f"k{n}={NULL if n == 1 else n}" for n in range(10))
    fill(catalog.index, create(catalog.index, "ten", ten), [name])
    html = card(catalog, "s.ten")
    assert "k8 STRING, k9 STRING (virtual)" in said(html)
    assert "<title>k0=0 · k1=NULL: 40.0 MiB</title>" in html
    fill(catalog.index, create(catalog.index, "none", {"k": "string"}), [f"k={NULL}"])
    assert "<title>k=NULL: 40.0 MiB</title>" in card(catalog, "s.none")


def test_a_view_has_a_card_without_files(catalog: Catalog) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "int"}), ["k=1"])
    query = ViewQuery("SELECT x, k FROM t", "lake", ("s",), tables=())
    catalog.views.create(
        ViewRequest(TableIdentifier.of("s", "v"), query, (Column("x", "int"), Column("k", "int")), ("k",), {})
    )
    catalog.views.add_partitions("s.v", [NewViewPartition({"k": "1"})], if_not_exists=False)
    text = said(card(catalog, "s.v"))
    assert "lake.s.v view" in text
    assert "Size 1 partition Version" in text
    assert "Location" not in text
    assert "1 of 1 partition" in text


def test_names_are_text_whatever_they_hold(everything: Catalog) -> None:
    keys = {"<b>k</b>": "string", "\u202ey": "string"}
    create(everything.index, "k", keys, "sales")
    html = {
        "hostile": card(everything, "sales.hostile"), "keys": card(everything, "sales.k"),
        "status": everything.status()._repr_html_(), "catalog": everything._repr_html_(),
    }  # fmt: skip
    for text in html.values():
        tags = Tags(text)
        assert not {"script", "img", "i", "a", "iframe"} & set(tags.seen)
        assert {name for name, _ in tags.attributes} <= {
            "class",
            "style",
            "title",
            "scope",
            "role",
            "tabindex",
            "aria-label",
            *SVG_ATTRIBUTES,
        }
        assert not re.search("[\u202e\x00-\x08]", text)
        assert "://" not in re.sub(r"(file|thrift)://", "", text), "no other host is asked"
    assert "<script>alert(1)</scr" in said(html["hostile"])
    assert "⟨U+202E⟩y" in said(html["keys"])
    assert "line⟨U+000A⟩break" in said(html["hostile"])
    assert "<b>mallory</b>/⟨U+202E⟩job" in said(html["status"])


def test_huge_names_make_no_huge_card(catalog: Catalog) -> None:
    values = [f"{n:03}{'&' * 240}" for n in range(300)]
    for name, keys in (("one", {"k": "string"}), ("two", {"k" * 120: "string", "j": "string"})):
        first = next(iter(keys))
        names = [f"{first}={value}" + (f"/j={values[-n]}" if len(keys) > 1 else "") for n, value in enumerate(values)]
        fill(catalog.index, create(catalog.index, name, keys), names)
        assert len(card(catalog, f"s.{name}").encode()) < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("keys", [{"ds": "date"}, {"ds": "date", "region": "string"}, {"region": "string", "n": "int"}])
def test_many_partitions_make_no_large_card(catalog: Catalog, keys: dict[str, str]) -> None:
    """Of 6,000 partitions as of a million: what a map shows is bounded, and counted by the database."""
    values = {
        "ds": [str(date(1960, 1, 1) + timedelta(n)) for n in range(6_000)],
        "region": [f"r{n % 150:04}" for n in range(6_000)], "n": [str(n) for n in range(6_000)],
    }  # fmt: skip
    names = ["/".join(f"{key}={values[key][n]}" for key in keys) for n in range(6_000)]
    table = create(catalog.index, "t", keys)
    changes = [AddPartition(name, (DataFile("a", n % 977 + 1, 1, 1),)) for n, name in enumerate(names)]
    catalog.index.commits.apply_changes(table.table_id, changes, operation="INSERT", deliver=False)
    html = card(catalog, "s.t")
    assert len(html.encode()) < MOST_BYTES
    assert "cx-map" in html


def test_what_fails_is_on_the_card(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1"])
        table = catalog.table("s.t")
        with pytest.raises(TableNotFoundError):
            catalog.table("s.nope")
        catalog.unregister_table("s.t")
        assert "CATALOG_EXT_TABLE_NOT_FOUND" in said(table._repr_html_())
        path = tmp_path / "index.db"
        catalog.index._database.engine.dispose()
        path.write_bytes(b"this is no database" * 100)
        for shown in (catalog, table):
            text = said(shown._repr_html_())
            assert "CATALOG_EXT_INDEX" in text
            assert "No table" not in text
        assert "lake" in repr(catalog)
    for shown in (catalog, table):
        assert "This catalog is closed" in said(shown._repr_html_())
    assert repr(catalog).startswith("<Catalog lake (closed): index ")
    assert repr(table).startswith("lake.s.t (CATALOG_EXT_INVALID_INPUT: This catalog is closed")
    with pytest.raises(InvalidInputError, match="closed"):
        table.history()


def test_a_map_that_fails_leaves_the_facts(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "string"}), ["k=1"])

    def fails(*_: object, **__: object) -> None:
        raise InvalidInputError("<i>no</i>")

    monkeypatch.setattr("catalog_ext.notebook.cards.read_map", fails)
    text = said(card(catalog, "s.t"))
    assert "Keys k STRING (virtual)" in text
    assert "The partition map could not be made. CATALOG_EXT_INVALID_INPUT: <i>no</i>" in text

    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("<i>by zero</i>")

    monkeypatch.setattr("catalog_ext.notebook.cards.read_map", breaks)
    text = said(card(catalog, "s.t"))
    assert "Keys k STRING (virtual)" in text
    assert "The partition map could not be made. ZeroDivisionError: <i>by zero</i>" in text
    monkeypatch.setattr("catalog_ext.notebook.cards.metastore_state", breaks)
    assert said(card(catalog, "s.t")) == "lake.s.t ZeroDivisionError: <i>by zero</i>"


def test_a_password_is_on_no_card(catalog: Catalog) -> None:
    from dataclasses import replace

    from catalog_ext.notebook.cards import catalog_card

    settings = replace(catalog.settings, index="postgresql+psycopg://ada:s3cret@db/index")
    html = catalog_card(catalog.index, settings, enabled=False).html()
    assert "s3cret" not in html
    assert "@db/index" in html


def test_every_kind_of_place_has_a_colour() -> None:
    assert COLOURS.keys() == {"hole", "none", "l0", *SHADES}
    assert len(set(map(str, COLOURS.values()))) == len(COLOURS)
