"""The index and what lies beside it are for their owner alone."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from catalog_ext.catalog import connect
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.runtime.private_files import make_folders, make_private_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("usual_umask")
def test_new_state_folder_and_index_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log gets the mode of the index, which SQLite would make by the umask."""
    monkeypatch.chdir(tmp_path)
    with connect(metastore=None) as catalog:
        catalog.create_namespace("sales")
        state = tmp_path / ".catalog-ext"
        assert mode(state) == 0o700
        files = {path.name: mode(path) for path in state.iterdir()}
        assert {"index.db", "index.db-wal"} <= set(files)
        assert set(files.values()) == {0o600}


def test_new_index_elsewhere_is_private_and_its_folder_is_not(tmp_path: Path) -> None:
    with Index.open(str(tmp_path / "team" / "lake.db")):
        assert mode(tmp_path / "team") == 0o755
        assert mode(tmp_path / "team" / "lake.db") == 0o600


def test_modes_of_existing_folder_and_index_are_kept(tmp_path: Path) -> None:
    """A team may share an index on purpose."""
    file = tmp_path / ".catalog-ext" / "index.db"
    with Index.open(str(file)):
        pass
    file.chmod(0o660)
    file.parent.chmod(0o770)
    with Index.open(str(file)):
        assert (mode(file.parent), mode(file)) == (0o770, 0o660)


def test_only_folders_from_the_state_folder_on_are_private(tmp_path: Path) -> None:
    make_folders(tmp_path / "a" / ".catalog-ext" / "metastore")
    assert [mode(tmp_path / path) for path in ("a", "a/.catalog-ext", "a/.catalog-ext/metastore")] == [
        0o755, 0o700, 0o700,
    ]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), [(0o755, 0o700), (0o711, 0o700), (0o777, 0o770), (0o2775, 0o2770)])
def test_old_state_folder_is_closed_to_other_users(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, before: int, after: int
) -> None:
    """A folder that its group may write is shared on purpose."""
    tmp_path.chmod(0o755)
    state = tmp_path / ".catalog-ext"
    (state / "metastore").mkdir(parents=True)
    for folder in (state, state / "metastore"):
        folder.chmod(before)
    with Index.open(str(state / "index.db")):
        assert mode(state) == after
        assert f"its mode was {before:o}, and is {after:o}" in caplog.text
    make_private_folder(state / "metastore")
    assert (mode(state / "metastore"), mode(tmp_path)) == (after, 0o755)
