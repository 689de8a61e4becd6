"""An index that a session makes where there was none: said, and warned of where another one is near."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.errors import CatalogExtError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Path:
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO, "catalog_ext.conf.index_suggestions")
    return tmp_path


def reported(caplog: pytest.LogCaptureFixture, index: str | None) -> list[tuple[str, str]]:
    caplog.clear()
    catalog_ext.connect(index=index, metastore=None).close()
    return [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "catalog_ext.conf.index_suggestions"]


def test_new_index_is_logged_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = f"There was no index at {folder}/.catalog-ext/index.db: a new one was made."
    assert reported(caplog, None) == [("INFO", said)]
    assert reported(caplog, None) == []


@pytest.mark.parametrize("mistyped", ["lake/.catalog-ext/indx.db", "lkae/.catalog-ext/index.db", "lake/index.db"])
def test_a_mistyped_one_is_warned_of(caplog: pytest.LogCaptureFixture, mistyped: str) -> None:
    reported(caplog, "lake/.catalog-ext/index.db")
    ((level, message),) = reported(caplog, mistyped)
    assert level == "WARNING"
    assert "near it: lake/.catalog-ext/index.db (index=" in message


def test_the_wrong_folder_is_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported(caplog, None)
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    ((level, message),) = reported(caplog, None)
    assert (level, f"near it: {folder}/.catalog-ext/index.db" in message) == ("WARNING", True)


def test_index_that_cannot_be_made_is_not_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "file").write_text("no folder")
    with pytest.raises(CatalogExtError):
        reported(caplog, "file/index.db")
    assert caplog.records == []
