"""Vacuum makes old versions unreadable before it deletes their files, also if it dies in between."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import VACUUM_POINTS, InjectedFault, armed
from catalog_ext.metastore.errors import VersionExpiredError
from catalog_ext.metastore.index.database.schema import files as file_rows
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from tests.kit.index_cases import local_index
from tests.kit.write_cases import DYNAMIC, RELOCATE, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def stand(tmp_path: Path, root: Path) -> Iterator[Stand]:
    """A table of the versions 0 to 3; the last two are relocating overwrites of k=1."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        for content in ("1\n", "2\n", "3\n"):
            stand.write({"k=1": content}, DYNAMIC, options=RELOCATE)
        yield stand


def vacuum(stand: Stand, retention_s: float = 0, **more: bool) -> VacuumReport:
    time.sleep(0.005)  # what is written is older than the retention then
    report = stand.engine.vacuum(stand.table(), retention_s, **more)
    assert report.failed == ()
    return report


def contents(root: Path) -> list[str]:
    return sorted(path.read_text() for path in root.glob("**/*.csv"))


def planned(stand: Stand, version: int) -> list[str]:
    """Return the paths that a query of a version reads, after the checks of the version."""
    at = stand.index.version_lookup.at_version(stand.table(), version)
    return sorted(stand.index.files.plan(at, None).read_all().column("path").to_pylist())


def test_versions_are_unreadable_before_their_files_are_deleted(stand: Stand, root: Path) -> None:
    """paimon#6978. Vacuum deleted first: a query chose a version whose files were gone, and failed in its tasks."""
    chosen = stand.index.version_lookup.at_version(stand.table(), 2)
    refused: list[str] = []

    def read(_: str) -> None:
        assert contents(root) == ["1\n", "2\n", "3\n"]
        with pytest.raises(VersionExpiredError):
            stand.index.files.plan(chosen, None).read_all()
        for version in (1, 2):
            with pytest.raises(VersionExpiredError):
                stand.index.version_lookup.at_version(stand.table(), version)
            refused.append(str(version))
        assert len(planned(stand, 3)) == 1

    with armed("vacuum.floor", read):
        vacuum(stand)
    assert refused == ["1", "2"]
    assert contents(root) == ["3\n"]


def test_preview_leaves_old_versions_readable(stand: Stand, root: Path) -> None:
    preview = vacuum(stand, dry_run=True)
    assert [entry.action for entry in preview.entries] == [VacuumAction.DELETE] * 2 + [VacuumAction.FORGET]
    assert len(planned(stand, 1)) == 1
    assert contents(root) == ["1\n", "2\n", "3\n"]


@pytest.mark.parametrize("point", VACUUM_POINTS)
@pytest.mark.parametrize("meanwhile", ["", "background expiry", "another commit"])
def test_vacuum_continues_after_a_vacuum_that_died(stand: Stand, root: Path, point: str, meanwhile: str) -> None:
    """The rows of the files stay until the files are gone, whatever the background expiry removes meanwhile."""
    with armed(point, "error"), pytest.raises(InjectedFault):
        vacuum(stand)
    with pytest.raises(VersionExpiredError):
        planned(stand, 2)
    if meanwhile == "background expiry":
        # ``WriteMaintenance.expire_versions`` passes at most the version before the first relocating overwrite that
        # has replaced a file.
        stand.index.versions.expire(stand.table().table_id, 1, aborted=False)
    elif meanwhile:
        stand.write({"k=1": "4\n"})
    stand.engine.recover(older_than_s=0)
    vacuum(stand)
    assert contents(root) == (["3\n", "4\n"] if meanwhile == "another commit" else ["3\n"])
    assert stand.rows() == {"k=1": "3\n4\n" if meanwhile == "another commit" else "3\n"}
    assert ended_rows(stand) == 0
    assert stand.strays() == []


def ended_rows(stand: Stand) -> int:
    with stand.index._database.reading() as connection:
        f, newest = file_rows.c, stand.table().version
        return int(connection.execute(sa.select(sa.func.count()).where(f.end_version <= newest)).scalar_one())


def test_longer_retention_after_a_vacuum_that_died_keeps_the_files(stand: Stand, root: Path) -> None:
    """The floor of a vacuum does not shorten the retention of a later one; the files are deleted when it is over."""
    with armed("vacuum.floor", "error"), pytest.raises(InjectedFault):
        vacuum(stand)
    vacuum(stand, 3600)
    assert contents(root) == ["1\n", "2\n", "3\n"]
    vacuum(stand)
    assert contents(root) == ["3\n"]


def test_path_that_is_alive_again_is_not_deleted(stand: Stand, root: Path) -> None:
    """After a rollback the row of a replaced file and the row of a current file have one path.

    The rows are made by hand, because they have the directory and the path of version 1.
    """
    before = stand.index.version_lookup.at_version(stand.table(), 1)
    (old,) = stand.index.files.plan(before, None).read_all().to_pylist()
    old_root = old["location"] or f"file://{root}/k=1"
    with stand.index._database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE partitions SET location = :place WHERE end_version > 3"),
                           {"place": old_root})  # fmt: skip
        connection.execute(
            sa.text("UPDATE files SET path = :path, size = :size, modified_ms = :at WHERE end_version > 3"),
            {"path": old["path"], "size": old["size"], "at": old["modified_ms"]},
        )
    report = vacuum(stand)
    assert "1\n" in contents(root)
    assert "2\n" not in contents(root)
    assert stand.rows() == {"k=1": "1\n"}
    assert any(entry.path == old_root for entry in report.kept)
