"""Cards in a real browser: they fit the screen in both themes, and no other host is asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.kit.page_cases import catalog_with_everything
from tests.servers.browser import axe_script
from tests.unit.repair.test_repair_report import ROWS, report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Request

    from catalog_ext.catalog import Catalog

GROUNDS = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}
"""The ground and the text of JupyterLab's two themes."""


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with catalog_with_everything(tmp_path_factory.mktemp("cards")) as catalog:
        shown = {name: catalog.table(f"sales.{name}") for name in ("trips", "hostile", "weather", "zones", "riders")}
        yield {
            "catalog": catalog._repr_html_(), **{name: table._repr_html_() for name, table in shown.items()},
            "history": catalog.history("sales.trips")._repr_html_(), "status": catalog.status()._repr_html_(),
            "report": report(*ROWS)._repr_html_(), "gone": _of_a_table_that_is_gone(catalog),
        }  # fmt: skip


def _of_a_table_that_is_gone(catalog: Catalog) -> str:
    table = catalog.table("sales.riders")
    catalog.index.tables.drop(catalog.identify("sales.riders"), deliver=False)
    return table._repr_html_()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_card_fits_in_both_themes_and_sends_no_request(
    browser: Browser, cards: dict[str, str], theme: Literal["light", "dark"], width: int, tmp_path: Path
) -> None:
    kept = Path(os.environ.get("CATALOG_EXT_SCREENSHOTS", tmp_path))
    kept.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
    page, asked, axe = context.new_page(), list[str](), axe_script()

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    ground, text = GROUNDS[theme]
    for name, card in cards.items():
        style = f"margin:8px;background:{ground};color:{text};font-family:sans-serif"
        head = "<!DOCTYPE html><html lang=en><head><title>A cell</title></head>"
        page.set_content(f'{head}<body style="{style}"><main>{card}</main></body></html>')
        page.screenshot(path=kept / f"card-{name}-{theme}-{width}.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.locator("main script, main img, main a").count() == 0
        page.evaluate(axe)
        rules = "{runOnly: ['wcag2a', 'wcag2aa']}"
        broken = page.evaluate(f"axe.run({rules}).then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
        assert broken == [], name
    assert asked == []
    context.close()
