"""The site of `make site`: built without a warning, true to the pages, no link in vain, nothing from other hosts."""

from __future__ import annotations

import functools
import http.server
import json
import os
import posixpath
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
import tomllib
from bs4 import BeautifulSoup
from markdown_it import MarkdownIt

from tests.contract.surface.snapshot import SURFACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bs4 import Tag
    from playwright.sync_api import Browser, Page

PROJECT = Path(__file__).resolve().parents[3]
REPOSITORY = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
ABOVE = {"README.md": "index", "CHANGELOG.md": "changelog", "CONTRIBUTING.md": "contributing"}
# Filled in from docstrings, or converted: Markdown of theirs is not what the site shows.
CONVERTED = {"api"}
# What the theme's script would fetch for a diagram, for a repository on GitHub, and in a browser of before 2020.
NOT_USED = {"unpkg.com/mermaid": ".mermaid", "api.github.com": "[data-md-component=source]", "unpkg.com/resize": None}
_QUERY = "[data-md-component=search-query]"
_ELSEWHERE = re.compile(r"(?:https?:)?//")


@dataclass(frozen=True)
class Site:
    """What was built, and its pages by their paths."""

    folder: Path
    said: str
    pages: dict[str, BeautifulSoup]

    def links(self, name: str) -> Iterator[tuple[Tag, str]]:
        """The elements of a page that name another place, and that place."""
        for element in self.pages[name].find_all(True):
            for attribute in ("href", "src", "data", "poster", "srcset"):
                if element.has_attr(attribute):
                    yield element, element[attribute]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    pictures = folder / "pictures"
    pictures.mkdir()
    for theme in ("light", "dark"):
        (pictures / f"page-tables-{theme}-1280.png").write_bytes(b"\x89PNG")
    command = [sys.executable, "-m", "mkdocs", "build", "--config-file", "docs/site/mkdocs.yml", "--site-dir"]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "CATALOG_EXT_SCREENSHOTS": str(pictures)}
    built = subprocess.run(
        [*command, str(folder / "html")], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    html = folder / "html"
    pages = {
        path.relative_to(html).as_posix(): BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        for path in html.rglob("*.html")
    }
    return Site(html, built.stdout + built.stderr, pages)


def test_nothing_is_warned_of(site: Site) -> None:
    assert "Documentation built" in site.said
    assert not re.search(r"warning|error|deprecat", site.said, re.IGNORECASE), site.said


def test_every_page_is_there_and_in_the_navigation(site: Site) -> None:
    sources = [*(PROJECT / "docs").rglob("*.md"), *(PROJECT / "docs").rglob("*.ipynb")]
    names = {path.relative_to(PROJECT / "docs").with_suffix(".html").as_posix() for path in sources}
    names |= {f"{name}.html" for name in ABOVE.values()}
    assert set(site.pages) == names | {"404.html"}
    reached = {
        posixpath.normpath(posixpath.join(".", link["href"].partition("#")[0] or "index.html"))
        for link in site.pages["index.html"].select(".md-nav--primary a.md-nav__link")
    }
    assert reached == names


def test_the_navigation_has_four_parts(site: Site) -> None:
    tabs = [tab.get_text(strip=True) for tab in site.pages["index.html"].select(".md-tabs__item")]
    assert tabs == ["Start", "Tutorials", "How-to", "Reference", "Explanation"]


def test_every_link_leads_somewhere(site: Site) -> None:
    anchors = {name: {e["id"] for e in page.find_all(id=True)} for name, page in site.pages.items()}
    broken, to_sources = [], 0
    for name in site.pages:
        for _element, target in site.links(name):
            parts = urlsplit(target)
            if target.startswith(REPOSITORY):
                path = re.sub(r"^/(?:blob|tree)/main/", "", target.removeprefix(REPOSITORY)).partition("#")[0]
                broken += [(name, target)] * (not (PROJECT / path).exists())
                to_sources += 1
            elif not parts.scheme and not parts.netloc:
                # 404.html is shown at any address, and so has absolute ones.
                base = "" if parts.path.startswith("/") else posixpath.dirname(name)
                path = posixpath.normpath(posixpath.join(base, unquote(parts.path).lstrip("/"))) if parts.path else name
                there = path in anchors and (not parts.fragment or unquote(parts.fragment) in anchors[path])
                file = (site.folder / path).is_file() and (path not in anchors)
                broken += [(name, target)] * (not there and not file and path != ".")
    assert broken == []
    assert to_sources > 100


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    loaded = [
        (name, target)
        for name in site.pages
        for element, target in site.links(name)
        if element.name != "a" and _ELSEWHERE.match(target)
    ]
    assert loaded == []
    for sheet in site.folder.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet
    scripts = "".join(path.read_text(encoding="utf-8") for path in site.folder.rglob("bundle*.js"))
    hosts = set(re.findall(r"[\"'`]https?://(?!www\.w3\.org)([\w.]+(?:/[a-z]+)?)", scripts))
    for host in hosts:
        known = next((selector for begin, selector in NOT_USED.items() if host.startswith(begin)), "unknown")
        assert known != "unknown", host
        assert not known or not any(page.select(known) for page in site.pages.values()), host
    assert "fonts.googleapis.com" not in str(site.pages["index.html"])


@pytest.mark.parametrize("kind", ["structure", "text"])
def test_a_page_says_what_it_says_in_the_repository(site: Site, kind: str) -> None:
    """The site's Markdown is another dialect: lists, tables and code come out as in the repository's browser."""
    sources = [(PROJECT / name, page) for name, page in ABOVE.items()]
    for path in sorted((PROJECT / "docs").rglob("*.md")):
        sources.append((path, path.relative_to(PROJECT / "docs").with_suffix("").as_posix()))
    different = []
    for path, name in sources:
        if name in CONVERTED:
            continue
        commonmark = MarkdownIt("commonmark").enable("table").render(path.read_text(encoding="utf-8"))
        here = site.pages[f"{name}.html"].select_one("article")
        assert here is not None
        if _shown(BeautifulSoup(commonmark, "html.parser"), kind) != _shown(here, kind):
            different.append(name)
    assert different == []


def _shown(page: Tag, kind: str) -> object:
    if kind == "text":
        left_out = {"headerlink"}
        return re.sub(r"\s", "", "".join(
            str(text) for text in page.find_all(string=True)
            if type(text).__name__ == "NavigableString" and not left_out & set(text.parent.get("class") or ())
        ))  # fmt: skip
    counted = dict.fromkeys(("h1", "h2", "h3", "ul", "ol", "li", "table", "tr", "th", "td", "pre", "strong", "em"), 0)
    for element in page.find_all(list(counted)):
        counted[element.name] += 1
    return counted


def test_the_api_is_what_others_hold_on_to(site: Site) -> None:
    surface = json.loads(SURFACE.read_text(encoding="utf-8"))["python"]
    shown = {element["id"] for element in site.pages["api.html"].find_all(id=True)}
    methods = {
        f"catalog_ext.{name}.{method}"
        for name, described in surface.items()
        for method in described.get("methods", ())
        if not method.startswith("_")
    }
    assert len(methods) > 40
    assert {f"catalog_ext.{name}" for name in surface} | methods <= shown


def test_a_picture_is_shown_where_the_tests_have_made_it(site: Site) -> None:
    pictures = [image["src"] for image in site.pages["page.html"].select("article img")]
    assert pictures == [f"pictures/page-tables-{theme}-1280.png#only-{theme}" for theme in ("light", "dark")]
    # On a small screen it is too small to be read: it leads to itself.
    links = [image.parent["href"] for image in site.pages["page.html"].select("article a > img")]
    assert links == [picture.partition("#")[0] for picture in pictures]


TASKS = {
    "install": "tasks.html",
    "register a table": "tasks.html",
    "partition columns not shown": "troubleshooting.html",
    "repair": "tasks.html",
    "follow hive": "tasks.html",
    "run the service": "tasks.html",
    "token is refused": "troubleshooting.html",
    "upgrade": "tasks.html",
    "migrate": "cli.html",
    "leave": "tasks.html",
    "delta": "coming-from/delta.html",
    "glue": "coming-from/glue.html",
    "CATALOG_EXT_CONFLICT": "errors.html",
    "vacuum.retention": "configuration.html",
    "alert": "monitoring.html",
    "import_tables": "api.html",
}
"""What people look for, and where they find it."""


def test_search_finds_pages_and_asks_no_other_host(site: Site, browser: Browser) -> None:
    handler = functools.partial(Quiet, directory=str(site.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        page = browser.new_page()
        asked: set[str] = set()
        problems: list[str] = []
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: problems.append(str(error)))
        try:
            page.goto(f"http://{host}/index.html")
            lists = {words: found(page, words) for words in TASKS}
        finally:
            page.close()
            server.shutdown()
        assert {words: list for words, list in lists.items() if TASKS[words] not in list} == {}
        assert asked == {host}
        assert problems == []


def found(page: Page, words: str) -> list[str]:
    """The pages that a search lists first."""
    page.evaluate("document.querySelector('.md-search-result__list').replaceChildren()")
    page.fill(_QUERY, words)
    # What a finger leaves behind: the theme looks then, and filling alone is no touch.
    page.dispatch_event(_QUERY, "keyup")
    page.locator(".md-search-result__link").nth(3).wait_for(state="attached")
    links = page.eval_on_selector_all(".md-search-result__link", "links => links.map(link => link.href)")
    return list(dict.fromkeys(urlsplit(link).path.lstrip("/") for link in links))[:3]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, and logs nothing."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""
