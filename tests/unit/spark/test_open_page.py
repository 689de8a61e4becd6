"""The catalog of a session, and its page, on request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.service.server import Service
from catalog_ext.spark import session
from tests.kit.page_cases import Visitor

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.mark.slow
def test_a_sessions_page_is_shown_on_request(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Service(catalog) as service:
        monkeypatch.setitem(session._running, "lake", session._Running(catalog, service, tmp_path / "token"))
        assert service.page_uri is None
        page = catalog_ext.open_page()
        assert page == catalog_ext.open_page("lake")
        assert page.address == service.page_uri
        # A notebook keeps what is printed.
        assert page.token not in f"{page!r} {page}"
        visitor = Visitor(service)
        assert visitor.sign_in(page.token).status == 303
        assert "Tables" in visitor.page("/ui/")


@pytest.mark.slow
def test_the_setting_shows_it_from_the_start(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.settings.conf, "page", "true")  # type: ignore[arg-type]
    with Service(catalog) as service:
        assert service.page_uri == f"{service.uri}/ui/"
    with Service(catalog, page=False) as service:
        assert service.page_uri is None


def test_without_a_catalog_there_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_running", {})
    with pytest.raises(InvalidConfigurationError, match="No catalog in this process"):
        catalog_ext.open_page()


@pytest.mark.slow
def test_a_session_gives_its_catalog(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Service(catalog) as service:
        monkeypatch.setattr(session, "_running", {"lake": session._Running(catalog, service, tmp_path / "token")})
        assert catalog_ext.active_catalog() is catalog
        assert catalog_ext.active_catalog("lake") is catalog
    monkeypatch.setattr(session, "_running", {})
    # A driver whose service runs elsewhere.
    with pytest.raises(InvalidConfigurationError, match=r"where the service runs elsewhere.*catalog_ext\.connect"):
        catalog_ext.active_catalog()
