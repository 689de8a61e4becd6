"""What the pages show: everything that the index knows, names as text, the state in the address, within limits."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from markupsafe import Markup

import catalog_ext
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import escape_path_name
from catalog_ext.metastore.model.tables import Column
from catalog_ext.metastore.model.views import ViewQuery
from catalog_ext.overview.formats import visible
from catalog_ext.page.sections import FileSizePart
from catalog_ext.views.views import NewViewPartition, ViewRequest
from tests.kit.index_cases import create
from tests.kit.page_cases import HOSTILE, catalog_with_everything, fill, looking_at
from tests.kit.repair_cases import local_catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.page_cases import Visitor

MOST_BYTES = 1_000_000
VOID = frozenset({"meta", "link", "input", "br", "img"})
OURS = frozenset({
    "a", "bdi", "body", "br", "button", "caption", "code", "dd", "details", "div", "dl", "dt", "figcaption", "figure",
    "footer", "form", "h1", "h2", "h3", "head", "header", "html", "i", "input", "label", "li", "link", "main", "meta",
    "nav", "option", "p", "script", "section", "select", "span", "strong", "summary", "table", "tbody", "td", "th",
    "thead", "time", "title", "tr", "ul", "svg", "g", "rect", "line", "path", "text",
})  # fmt: skip


class Read(HTMLParser):
    """A page taken apart: its elements with their attributes, its text; what is opened must be closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        return [
            found for name, found in self.elements
            if name == tag and all(found.get(key) == value for key, value in attributes.items())
        ]  # fmt: skip


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with catalog_with_everything(tmp_path_factory.mktemp("page")) as catalog:
        yield catalog


@pytest.fixture(scope="module")
def visitor(everything: Catalog) -> Iterator[Visitor]:
    """A visitor who has signed in."""
    with looking_at(everything) as visitor:
        yield visitor


@pytest.mark.parametrize("path", [
    "/ui/", "/ui/activity", "/ui/table/sales/trips", "/ui/table/sales/trips?y=-",
    "/ui/table/sales/trips?unit=month&m=age", "/ui/table/sales/hostile", "/ui/table/sales/hostile?y=-",
    "/ui/table/sales/riders", "/ui/table/sales/weather", "/ui/table/sales/zones?m=mean", "/ui/table/s/no",
    "/ui/%3Cscript%3E", "/ui/?sort=%3Cscript%3E",
])  # fmt: skip
def test_page_is_well_formed_without_inline_code_or_other_hosts(
    visitor: Visitor, path: str
) -> None:  # fmt: skip
    page = Read(visitor.get(path).text)
    assert {tag for tag, _ in page.elements} <= OURS
    for tag, found in page.elements:
        assert not [name for name in found if name.startswith("on") or name == "style"], (tag, found)
        for name in ("src", "href", "action"):
            if found.get(name) is not None:
                assert str(found[name]).startswith(("/ui/", "#")), (tag, found)
    assert [found["src"] for found in page.of("script")] == ["/ui/static/page.js"]
    assert len(page.of("h1")) == 1
    assert page.of("html", lang="en")
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert len(ids) == len(set(ids))


def test_every_table_of_a_page_says_what_it_is_and_what_its_heads_are(visitor: Visitor) -> None:
    for path in ("/ui/", "/ui/activity", "/ui/table/sales/trips"):
        page = Read(visitor.page(path))
        assert len(page.of("caption")) == len(page.of("table")) > 0
        assert all(head.get("scope") in ("col", "row") for head in page.of("th"))
        pictures = [picture for picture in page.of("svg") if picture.get("class") != "swatch"]
        assert {picture["role"] for picture in pictures} <= {"img", "table"}
        assert all(picture.get("aria-label") for picture in pictures)
        labelled = {found["for"] for found in page.of("label")}
        fields = [f for tag in ("input", "select") for f in page.of(tag) if f.get("type") != "hidden"]
        assert {found["id"] for found in fields} == labelled


def test_the_list_has_each_table_with_what_it_comes_to(visitor: Visitor) -> None:
    text = Read(visitor.page("/ui/")).text
    assert "sales.trips parquet 1,064 3,652 153 GiB 2 h ago 3 d ago failed" in text
    assert "sales.riders parquet 1 1 3.00 MiB" in text
    assert "Pending for the metastore 1 1 failed" in text


@pytest.mark.slow
def test_what_the_metastore_has_to_hear_of_what_is_gone_is_counted(tmp_path: Path) -> None:
    where = {"index": str(tmp_path / "i.db"), "metastore": "thrift://127.0.0.1:1", "warehouse": str(tmp_path)}
    with catalog_ext.connect(**where) as c:
        for name in ("gone", "t"):
            table = create(c.index, name, {"k": "int"})
            c.index.commits.apply_changes(table.table_id, [AddPartition("k=1", ())], operation="INSERT", deliver=True)
        c.index.tables.drop(TableIdentifier("s", "gone"), deliver=True)
        reported = c.index.outbox.count()
        assert reported == 2
        with looking_at(c) as visitor:
            assert f"Pending for the metastore {reported}" in Read(visitor.page("/ui/")).text
            assert "Pending for the metastore 1" in Read(visitor.page("/ui/", search="t")).text
            assert "Pending for the metastore 0" in Read(visitor.page("/ui/", metastore="failed")).text
            assert visitor.get("/ui/table/S/T").status == 200
            # One that has come in the place of another waits for that one's DROP.
            create(c.index, "gone", {"k": "int"})
            text = Read(visitor.page("/ui/table/s/gone")).text
            assert "drop_table for the metastore" in text
            assert "1 message pending." in text


def _listed(visitor: Visitor, **chosen: str | int) -> list[str]:
    page = Read(visitor.page("/ui/", **chosen))
    return [str(link["href"]).rpartition("/")[2] for link in page.of("a") if str(link["href"]).startswith("/ui/table/")]


def test_the_list_is_filtered_and_sorted_by_its_address(visitor: Visitor) -> None:
    assert _listed(visitor) == ["hostile", "riders", "trips", "weather", "zones"]
    assert _listed(visitor, desc=1) == ["zones", "weather", "trips", "riders", "hostile"]
    assert _listed(visitor, sort="bytes", desc=1) == ["trips", "hostile", "weather", "zones", "riders"]
    assert _listed(visitor, sort="partitions") == ["riders", "zones", "hostile", "weather", "trips"]
    assert _listed(visitor, sort="committed")[0] == "trips"
    assert _listed(visitor, sort="verified")[0] == "trips"
    assert _listed(visitor, sort="pending", desc=1)[0] == "trips"
    assert _listed(visitor, search="ER") == ["riders", "weather"]
    assert _listed(visitor, search="sales.z") == ["zones"]
    assert _listed(visitor, search="les") == ["hostile", "riders", "trips", "weather", "zones"]
    assert _listed(visitor, search="%") == []
    assert _listed(visitor, metastore="failed") == ["trips"]
    assert _listed(visitor, **{"from": 3}) == ["weather", "zones"]
    page = Read(visitor.page("/ui/", sort="bytes", desc=1, search="r"))
    assert page.of("th", **{"aria-sort": "descending"})
    assert page.of("input", id="search", value="r")
    assert page.of("a", href="/ui/?sort=bytes&search=r")


@pytest.mark.parametrize(("path", "status", "words"), [
    ("/ui/?sort=nothing", 400, "sort is 'nothing' in the page's address; it is one of name, partitions"),
    ("/ui/?from=-1", 400, "from is '-1' in the page's address; it is a whole number"),
    (f"/ui/?search={'x' * 2001}", 400, "at most 2000"),
    ("/ui/?search=%00", 400, "has a NUL"),
    ("/ui/table/sales/a%00b", 400, "has a NUL"),
    ("/ui/table/sales/%ff", 404, "sales.�"),
    ("/ui/table/sales/nothing", 404, "sales.nothing"),
    ("/ui/table/sales/trips?x=nothing", 400, "x is 'nothing' in the page's address; the table's keys are ds, region"),
    ("/ui/table/sales/trips?small=7", 400, "small is 7"),
    ("/ui/table/sales/trips?where=nothing%20%3D%201", 200, "nothing"),
    ("/ui/table/sales/trips?where=%28", 200, "is not a SQL condition"),
    ("/ui/table/sales/trips?where=region%20LIKE%20%27%25a%27", 200, "cannot count partitions by this condition"),
    ("/ui/table/sales/trips?xto=2025-13-01", 200, "The partition map cannot end at '2025-13-01'"),
    ("/ui/nowhere", 404, "There is no such page"),
])  # fmt: skip
def test_invalid_address_gets_an_error_page(visitor: Visitor, path: str, status: int, words: str) -> None:
    answer = visitor.get(path)
    page = Read(answer.text)
    assert answer.status == status
    assert page.of("p", role="alert")
    assert words in page.text


def test_an_address_with_a_slash_too_many_leads_to_the_page_of_this_host(visitor: Visitor) -> None:
    for path, there in (
        ("/ui/activity/", "/ui/activity"),
        ("/ui/table/sales/trips//?m=age", "/ui/table/sales/trips?m=age"),
    ):
        answer = visitor.ask("GET", path, headers={"Host": "elsewhere.example"})
        assert (answer.status, answer.headers["location"]) == (303, there)
    assert visitor.get("/ui/nowhere/").headers["location"] == "/ui/nowhere"
    assert visitor.get("/ui/static/").status == 303


def test_who_asks_for_the_head_alone_has_no_page_made(everything: Catalog, visitor: Visitor) -> None:
    before = everything.index.query_count
    whole = visitor.get("/ui/table/sales/trips?m=partitions")
    of_all, before = everything.index.query_count - before, everything.index.query_count
    answer = visitor.ask("HEAD", "/ui/table/sales/trips?m=partitions&y=-")
    assert (answer.status, answer.headers["content-type"]) == (200, whole.headers["content-type"])
    assert everything.index.query_count - before < 5 < of_all
    assert visitor.ask("HEAD", "/ui/table/sales/nothing").status == 404


def test_a_tables_page_has_every_part(visitor: Visitor) -> None:
    page = Read(visitor.page("/ui/table/sales/trips"))
    text = page.text
    for part in (
        "Size 153 GiB", "Partitions 1,064", "Files 3,652", "Last commit 2 h ago", "Metastore failed",
        "ds date, region string", "Partition map", "Growth", "Commits and repairs", "Under way and pending", "Drift",
        "File sizes", "compared as a whole", "catalog-ext drift sales.trips",
    ):  # fmt: skip
        assert part in text
    # Who and what; a repair that changed nothing and one that failed are there as well.
    assert re.search(r"commit INSERT 8 ada 135 partitions added, 490 files added, [\d,]+ rows written, 21.2 GiB", text)
    assert "repair sync ada@host:71 3 partitions added, 1 partition dropped, 2 partitions changed, 5 paths" in text
    assert "repair add bo@host:72 1 path skipped, where ds >= '2025-06-01' The store refuses to list" in text
    assert "open (live)" in text
    assert "INSERT by ada/nightly-load@etl-1#m:4711" in text
    assert "ds=2025-10-30/region=h22 waiting" in text
    assert "The metastore refused <b>partitions</b>: Duplicate entry" in text
    assert "1 message pending, 1 of them tried in vain" in text
    assert [found["aria-label"] for found in page.of("svg") if found.get("class") != "swatch"] == [
        "Size by ds and region",
        "Size over time", "Partitions over time", "Files over time", "Commits over time", "Files by size",
    ]  # fmt: skip


def test_the_activity_of_all_tables_is_on_one_page(visitor: Visitor) -> None:
    text = Read(visitor.page("/ui/activity")).text
    assert "sales.trips 1 failed" in text
    assert "sales.trips ds=2025-10-30/region=h22 waiting" in text


@pytest.mark.slow
def test_each_page_warns_of_a_restored_index(tmp_path: Path) -> None:
    with catalog_ext.connect(index=str(tmp_path / "i.db"), metastore=None, warehouse=str(tmp_path)) as current:
        create(current.index, "t", {"k": "int"})
        current.backup(str(tmp_path / "backup.db"))
        with looking_at(current) as visitor:
            assert "older than what it once wrote" not in visitor.page("/ui/")
    with catalog_ext.connect(index=str(tmp_path / "backup.db"), metastore=None) as restored:
        with looking_at(restored, signed_in=False) as visitor:
            assert "older than what it once wrote" not in visitor.page("/ui/sign-in")
        with looking_at(restored) as visitor:
            for path in ("/ui/", "/ui/activity", "/ui/table/s/t"):
                assert "older than what it once wrote" in visitor.page(path)


def test_keys_with_hostile_names_are_text(catalog: Catalog) -> None:
    keys = ("<b>k</b>\u202e", "'\"><img src=x>\u200b")
    names = ["/".join(f"{escape_path_name(key)}=1" for key in keys)]
    fill(catalog.index, create(catalog.index, "t", dict.fromkeys(keys, "int")), names)
    with looking_at(catalog) as visitor:
        for chosen in ({}, {"y": "-"}, {"x": keys[1]}):
            page = Read(visitor.page("/ui/table/s/t", **chosen))
            assert {tag for tag, _ in page.elements} <= OURS
            assert not page.of("img")
            said = " ".join([*page.words, *(str(f["title"]) for _, f in page.elements if f.get("title"))])
            assert not re.search("[\u200b\u202a-\u202e]", said)
            assert "1 partition of 1 on the map." in page.text


def test_hostile_names_are_text(visitor: Visitor) -> None:
    for y in ("", "-"):
        page = Read(visitor.page("/ui/table/sales/hostile", y=y))
        shown = {visible(name)[:60] for name in HOSTILE}
        words = " ".join(page.words)
        for name in shown:
            assert name[:19] in words
        assert not re.search("[\u202a-\u202e\x00-\x08]", "".join(page.words))


@pytest.mark.slow
def test_a_value_leads_to_the_partitions_that_have_it(visitor: Visitor) -> None:
    page = Read(visitor.page("/ui/table/sales/hostile"))
    links = [str(found["href"]) for found in page.of("a") if "where=v+" in str(found.get("href"))]
    assert len(links) == len(HOSTILE)
    for link in links:
        text = Read(visitor.page(link.partition("#")[0])).text
        assert "1 partition of 10 on the map." in text
        assert "cannot" not in text


@pytest.mark.slow
def test_a_value_with_controls_leads_there_through_a_field_of_one_line(catalog: Catalog) -> None:
    values = ("a\nb", "a\r\nb", "a\tb", "\x00a", "a\x7f", "a'\\\nb")
    fill(catalog.index, create(catalog.index, "t", {"v": "string"}), [f"v={escape_path_name(v)}" for v in values])
    with looking_at(catalog) as visitor:
        page = Read(visitor.page("/ui/table/s/t"))
        links = [str(found["href"]) for found in page.of("a") if "where=v+" in str(found.get("href"))]
        assert len(links) == len(values)
        for link in links:
            found = Read(visitor.page(link.partition("#")[0]))
            assert "1 partition of 6 on the map." in found.text
            ((where,)) = [str(field["value"]) for field in found.of("input", id="where")]
            assert where.isprintable()


def test_all_that_is_chosen_is_in_the_address_of_what_comes_next(visitor: Visitor) -> None:
    chosen: dict[str, Any] = {
        "x": "region", "y": "ds", "m": "files", "unit": "month", "where": "region = 'emea'", "small": 4194304,
    }  # fmt: skip
    page = Read(visitor.page("/ui/table/sales/trips", **chosen))
    for name, value in (("x", "region"), ("y", "ds"), ("m", "files"), ("small", "4194304")):
        assert [o for o in page.of("option", value=value) if "selected" in o], name
    assert page.of("input", id="where", value="region = 'emea'")
    heads = [html.unescape(str(found["href"])) for found in page.of("a") if "2025-10-01" in str(found.get("href"))]
    assert "m=files" in heads[0]
    assert "unit=month" in heads[0]
    assert "small=4194304" in heads[0]


@pytest.mark.slow
def test_a_page_has_less_than_a_megabyte_whatever_the_names(tmp_path: Any) -> None:
    worst = ["'" * 200 + f"{n:03}" for n in range(60)]
    with local_catalog(tmp_path) as catalog:
        table = create(catalog.index, "t", {"x'y": "string", "z'": "string"})
        names = [
            f"{escape_path_name(f'x{chr(39)}y')}={escape_path_name(a)}/{escape_path_name(f'z{chr(39)}')}={escape_path_name(b)}"
            for a in worst for b in worst
        ]  # fmt: skip
        fill(catalog.index, table, names)
        with looking_at(catalog) as visitor:
            junk = {f"junk{n}": "ä" * 200 for n in range(40)} | {"xto": "ä" * 1000, "search": "ä" * 1000}
            for chosen in ({}, {"y": "-"}, {"where": "`x'y` >= '" + "\\'" * 900 + "'"}, junk):
                page = visitor.page("/ui/table/s/t", **chosen)
                assert "on the map" in page or "No partition" in page
                assert len(page.encode()) < MOST_BYTES
                assert "junk" not in page


@pytest.mark.slow
def test_a_part_that_fails_does_not_take_the_others_with_it(
    everything: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("a detail that is for the log")

    monkeypatch.setattr("catalog_ext.page.pages.read_growth", fails)
    with looking_at(everything) as visitor:
        text = Read(visitor.page("/ui/table/sales/trips")).text
    assert "Growth ZeroDivisionError: see the service's log" in text
    assert "a detail" not in text
    assert "a detail" in caplog.text
    assert "File sizes" in text


@pytest.mark.slow
def test_a_view_has_a_page_without_files(catalog: Catalog) -> None:
    fill(catalog.index, create(catalog.index, "t", {"k": "int"}), ["k=1"])
    query = ViewQuery("SELECT x, k FROM t", "lake", ("s",), tables=())
    catalog.views.create(
        ViewRequest(TableIdentifier.of("s", "v"), query, (Column("x", "int"), Column("k", "int")), ("k",), {})
    )
    catalog.views.add_partitions("s.v", [NewViewPartition({"k": "1"})], if_not_exists=False)
    with looking_at(catalog) as visitor:
        assert "s.v view" in Read(visitor.page("/ui/")).text
        text = Read(visitor.page("/ui/table/s/v")).text
    assert "s.v view" in text
    assert "1 partition of 1 on the map." in text
    assert "File sizes" not in text


@pytest.mark.parametrize(("small", "files", "share"), [
    (0, 0, "0"), (0, 9, "0"), (1, 3652, "under 1"), (1, 3, "33"), (3651, 3652, "over 99"), (5, 5, "100"),
])  # fmt: skip
def test_a_share_is_not_rounded_to_nothing_or_all(small: int, files: int, share: str) -> None:
    assert FileSizePart(Markup(), (), 2**25, small, 0, files, 1, ()).share == share
