"""The page in a real Chromium: what it looks like, what it asks for, who can use it.

``CATALOG_EXT_SCREENSHOTS`` names a folder in which the pictures are kept (``make screenshots``).
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from catalog_ext.service.server import Service
from tests.kit.page_cases import HOSTILE, catalog_with_everything
from tests.servers.browser import axe_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

TRIPS = "/ui/table/sales/trips"
PAGES = {
    "tables": "/ui/", "table": TRIPS, "calendar": f"{TRIPS}?y=-", "activity": "/ui/activity",
    "hostile": "/ui/table/sales/hostile", "empty": "/ui/?search=nothing", "problem": f"{TRIPS}?where=(",
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with catalog_with_everything(tmp_path_factory.mktemp("page")) as catalog, Service(catalog, page=True) as service:
        yield service


class Seen:
    """A page of a browser, and what was noticed while it was looked at."""

    def __init__(self, context: BrowserContext, service: Service) -> None:
        self.page: Page = context.new_page()
        self.context = context
        self.messages: list[str] = []
        self.addresses: list[str] = []
        self._service = service
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: self.messages.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self.addresses.append(request.url))

    def go(self, path: str) -> None:
        answer = self.page.goto(f"{self._service.uri}{path}")
        assert answer is not None

    def sign_in(self) -> None:
        self.go("/")
        self.page.get_by_label("Token").fill(self._service.token)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("heading", name="Tables").wait_for()

    @property
    def chosen(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page.url).query).items()}


@contextmanager
def looking(browser: Browser, service: Service, **options: Any) -> Iterator[Seen]:
    context = browser.new_context(**options)
    try:
        seen = Seen(context, service)
        seen.sign_in()
        yield seen
        assert seen.messages == []
        assert {urlsplit(address).netloc for address in seen.addresses} == {f"{service.host}:{service.port}"}
        assert not any(service.token in address for address in seen.addresses)
    finally:
        context.close()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_fits_and_is_accessible(
    browser: Browser, service: Service, theme: str, width: int, tmp_path: Path
) -> None:
    kept = Path(os.environ.get("CATALOG_EXT_SCREENSHOTS", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    axe = axe_script()
    with looking(browser, service, viewport={"width": width, "height": 800}, color_scheme=theme) as seen:
        debugger = seen.context.new_cdp_session(seen.page)
        for name, path in PAGES.items():
            seen.go(path)
            picture = seen.page.screenshot(path=kept / f"page-{name}-{theme}-{width}.png", full_page=True)
            assert picture.startswith(b"\x89PNG")
            assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, name
            paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (sum(map(int, paper.strip("rgb()").split(","))) > 384) == (theme == "light")
            # The debugger's own, because the page's policy allows no other script.
            debugger.send("Runtime.evaluate", {"expression": axe})
            broken = seen.page.evaluate("axe.run().then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
            assert broken == [], name


def test_hostile_names_do_nothing(browser: Browser, service: Service) -> None:
    with looking(browser, service) as seen:
        for path in ("/ui/table/sales/hostile", "/ui/table/sales/hostile?y=-", "/ui/activity"):
            seen.go(path)
            assert seen.page.locator("main img, main script").count() == 0
        seen.go("/ui/table/sales/hostile")
        heads = seen.page.locator("svg.map [role=columnheader]").all_text_contents()
        assert HOSTILE[0] in heads
        assert HOSTILE[1] in heads
        assert any("line⟨U+000A⟩break" in head for head in heads)
        # What follows a mark that turns the direction stands where it would without.
        assert any("⟨U+202E⟩gnp.exe" in head for head in heads)


def test_the_policy_holds_what_slips_through(browser: Browser, service: Service) -> None:
    context = browser.new_context()
    seen = Seen(context, service)
    seen.sign_in()
    blocked: list[tuple[str, str | None]] = []
    seen.page.on("requestfailed", lambda request: blocked.append((request.url, request.failure)))
    seen.page.evaluate("""() => {
        const script = document.createElement('script'); script.textContent = 'window.broken = 1';
        document.body.append(script);
        const image = new Image(); image.src = 'https://elsewhere.invalid/x.png'; document.body.append(image);
        document.body.setAttribute('style', 'background: red');
    }""")
    assert seen.page.evaluate("window.broken") is None
    assert blocked == [("https://elsewhere.invalid/x.png", "csp")]
    assert len([said for said in seen.messages if "Content Security Policy" in said]) == 3
    context.close()


def test_the_cookie_is_out_of_reach(browser: Browser, service: Service) -> None:
    with looking(browser, service) as seen:
        (cookie,) = seen.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/ui")
        assert seen.page.evaluate("document.cookie") == ""
        seen.page.get_by_role("button", name="Sign out").click()
        seen.page.get_by_role("heading", name="Sign in").wait_for()
        assert seen.context.cookies()[0]["name"].endswith("_form")
        seen.go(TRIPS)
        assert "/ui/sign-in" in seen.page.url


def test_a_link_from_elsewhere_leads_to_the_page_of_who_has_signed_in(browser: Browser, service: Service) -> None:
    context = browser.new_context()
    try:
        there = f"{service.uri}{TRIPS}?m=files"
        context.route(
            "http://elsewhere.example/",
            lambda route: route.fulfill(body=f'<a href="{there}">look</a>', content_type="text/html"),
        )
        seen = Seen(context, service)
        seen.page.goto("http://elsewhere.example/")
        seen.page.get_by_text("look").click()
        seen.page.get_by_label("Token").fill(service.token)
        seen.page.get_by_role("button", name="Sign in").click()
        seen.page.wait_for_url(there)
        # Signed in now, the same link leads there at once.
        seen.page.goto("http://elsewhere.example/")
        seen.page.get_by_text("look").click()
        seen.page.wait_for_url(there)
        assert seen.page.get_by_role("heading", name="sales.trips").is_visible()
        assert seen.messages == []
    finally:
        context.close()


def test_what_is_chosen_is_in_the_address_and_comes_back(browser: Browser, service: Service) -> None:
    with looking(browser, service) as seen:
        seen.go(TRIPS)
        with seen.page.expect_navigation():
            seen.page.get_by_label("Colour").select_option("files")
        assert seen.chosen == {"x": "ds", "y": "region", "m": "files", "unit": "day"}
        with seen.page.expect_navigation():
            seen.page.get_by_role("link", name="emea").click()
        assert seen.chosen["where"] == "region = 'emea'"
        assert seen.page.locator("svg.map [role=rowheader]").count() == 1
        seen.page.go_back()
        assert seen.page.locator("svg.map [role=rowheader]").count() == 5
        assert seen.page.get_by_label("Colour").input_value() == "files"
        seen.page.get_by_label("Where").fill("ds < '2025-04-01'")
        with seen.page.expect_navigation():
            seen.page.keyboard.press("Enter")
        assert seen.page.get_by_text("partitions of 1,064 on the map").is_visible()


def test_the_keyboard_is_enough(browser: Browser, service: Service) -> None:
    with looking(browser, service) as seen:
        seen.go(TRIPS)
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the contents"
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert seen.page.evaluate(outline) == "solid"
        seen.page.keyboard.press("Enter")
        assert seen.page.evaluate("document.activeElement.id") == "main"
        for _ in range(30):
            seen.page.keyboard.press("Tab")
            if seen.page.evaluate("document.activeElement.tagName") == "rect":
                break
        first = seen.page.locator("#map-said").inner_text()
        assert first.startswith("ds=2025-08-26 · region=apac: ")
        seen.page.keyboard.press("ArrowRight")
        seen.page.keyboard.press("ArrowDown")
        assert seen.page.locator("#map-said").inner_text().startswith("ds=2025-08-27 · region=emea: ")
        assert seen.page.evaluate(outline) == "solid"
        # Above the first row are the heads: they lead to what is below them.
        for key in ("ArrowUp", "ArrowUp", "ArrowRight"):
            seen.page.keyboard.press(key)
        assert seen.page.evaluate("document.activeElement.textContent") == "2025-08-28"
        assert seen.page.evaluate(outline) == "solid"
        seen.page.keyboard.press("ArrowUp")
        seen.page.keyboard.press("ArrowDown")
        assert seen.page.locator("#map-said").inner_text().startswith("ds=2025-08-28 · region=apac: ")
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.tagName") != "rect"
        seen.page.keyboard.press("Shift+Tab")
        seen.page.keyboard.press("ArrowUp")
        with seen.page.expect_navigation():
            seen.page.keyboard.press("Enter")
        assert seen.chosen["where"] == "ds >= '2025-08-28' AND ds < '2025-08-29'"


def test_the_theme_can_be_switched_and_is_remembered(browser: Browser, service: Service) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    with looking(browser, service, color_scheme="light") as seen:
        light = seen.page.evaluate(paper)
        seen.page.get_by_role("button", name="Theme: system").click()
        seen.page.get_by_role("button", name="Theme: light").click()
        dark = seen.page.evaluate(paper)
        assert dark != light
        seen.go("/ui/activity")
        assert seen.page.evaluate(paper) == dark
        seen.page.get_by_role("button", name="Theme: dark").click()
        assert seen.page.evaluate(paper) == light


def test_nothing_is_lost_without_scripts(browser: Browser, service: Service) -> None:
    with looking(browser, service, java_script_enabled=False) as seen:
        seen.go(TRIPS)
        assert seen.page.locator("#theme").is_hidden()
        seen.page.get_by_label("Colour").select_option("age")
        seen.page.get_by_role("button", name="Show").first.click()
        seen.page.get_by_text("Age of the last change by ds and region").wait_for()
        assert seen.page.locator("svg.map rect").count() == 62 * 5
