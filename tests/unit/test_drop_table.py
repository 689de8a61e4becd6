"""DROP TABLE of managed tables: a directory is one table's until its files are deleted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import ConflictError, StorageAccessDeniedError, TableNotFoundError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.transactions.reports import RecoveryAction
from catalog_ext.metastore_sync.sync import MetastoreSync
from tests.repair_cases import indexed, local_catalog, walked, write
from tests.unit.test_partition_commands import managed
from tests.writes import insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


class Died(BaseException):
    """The end of a process."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


def before_deleting(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Let something happen between the end of the name and that of the files."""
    delete = catalog.storage.delete_tree

    def late(location: Any) -> None:
        monkeypatch.undo()
        work()
        delete(location)

    monkeypatch.setattr(catalog.storage, "delete_tree", late)


def died() -> None:
    raise Died


def interrupted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the table s.t, whose dropping has ended before its files were deleted."""
    root = managed(catalog)
    insert(catalog, "k=1")
    before_deleting(catalog, monkeypatch, died)
    with pytest.raises(Died):
        catalog.drop_table("s.t")
    return root


def test_a_table_that_is_made_meanwhile_keeps_its_files(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    first = managed(catalog)
    insert(catalog, "k=1")
    made: list[Path] = []

    def make_again() -> None:
        made.append(managed(catalog))
        insert(catalog, "k=2")

    before_deleting(catalog, monkeypatch, make_again)
    catalog.drop_table("s.t")
    (second,) = made
    assert (first.exists(), second.name) == (False, "t__2")
    assert indexed(catalog) == walked(second, 1) != {}
    catalog.drop_table("s.t")
    assert managed(catalog) == first, "the directory is free again"


def test_nobody_else_gets_the_directory_before_it_is_deleted(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = interrupted(catalog, monkeypatch)
    refused = r"files of table s\.t, which was dropped.* recover --older-than 0s"
    for kind, place in (
        (TableType.EXTERNAL, root),
        (TableType.EXTERNAL, root.parent),
        (TableType.EXTERNAL, root / "inside"),
        (TableType.MANAGED, root / "inside"),
    ):
        definition = TableDefinition(TableIdentifier("s", "other"), kind, "csv", "", (Column("x", "int"),), ())
        with pytest.raises(ConflictError, match=refused):
            catalog.create_table(definition, str(place))
    assert catalog.list_tables("s") == []


def test_recover_deletes_what_an_interrupted_drop_left(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = interrupted(catalog, monkeypatch)
    assert catalog.recover().transactions == (), "whoever drops it may be at it"
    (preview,) = catalog.recover("s.t", older_than=0, dry_run=True).transactions
    assert (preview.table, preview.operation, preview.action) == ("s.t", "DROP TABLE", RecoveryAction.WOULD_FINISH)
    assert root.exists()
    (done,) = catalog.recover("s.t", older_than=0).transactions
    assert (done.action, done.error, root.exists()) == (RecoveryAction.FINISHED, None, False)
    with pytest.raises(TableNotFoundError):
        catalog.recover("s.t", older_than=0)
    assert managed(catalog) == root


def test_recover_leaves_what_somebody_has_written_there_since(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = interrupted(catalog, monkeypatch)
    write(root, "k=7/000000_0")
    later = (root / "k=7" / "000000_0").stat().st_mtime + 60
    os.utime(root / "k=7" / "000000_0", (later, later))
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
    assert [str(p.relative_to(root)) for p in root.rglob("*")] == ["k=7", "k=7/000000_0"]
    assert "Somebody has written to" in caplog.text


def test_files_that_cannot_be_deleted_are_deleted_later(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")

    def refused(_: object) -> None:
        raise StorageAccessDeniedError("no")

    with monkeypatch.context() as patched:
        patched.setattr(catalog.storage, "delete_tree", refused)
        with pytest.raises(StorageAccessDeniedError):
            catalog.drop_table("s.t")
        (failed,) = catalog.recover(older_than=0).transactions
    assert (failed.action, failed.error, catalog.list_tables("s")) == (RecoveryAction.FAILED, "no", [])
    catalog.recover(older_than=0)
    assert not root.exists()


def test_the_metastore_hears_of_it_when_the_files_are_gone(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = managed(catalog)
    there: list[bool] = []
    publish = MetastoreSync.publish

    def published(sync: MetastoreSync) -> object:
        there.append(root.exists())
        return publish(sync)

    monkeypatch.setattr(MetastoreSync, "publish", published)
    catalog.drop_table("s.t")
    assert there == [False]


def test_a_table_at_the_namespaces_directory_keeps_no_name_waiting(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = managed(catalog)
    catalog.drop_table("s.t")
    definition = TableDefinition(TableIdentifier("s", "all"), TableType.MANAGED, "csv", "", (Column("x", "int"),), ())
    catalog.create_table(definition, str(probe.parent))
    before_deleting(catalog, monkeypatch, died)
    with pytest.raises(Died):
        catalog.drop_table("s.all")
    with pytest.raises(ConflictError, match=r"files of table s\.all"):
        managed(catalog)
    catalog.recover(older_than=0)
    assert managed(catalog) == probe
