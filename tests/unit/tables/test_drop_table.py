"""DROP TABLE of managed tables: a directory is one table's until its files are deleted."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    IndexUnavailableError,
    StorageAccessDeniedError,
    TableAlreadyExistsError,
    TableLayoutError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.storage.local.files import LocalFiles
from catalog_ext.metastore.transactions.reports import RecoveryAction
from catalog_ext.metastore_sync.sync import MetastoreSync
from catalog_ext.tables.locations import TableOverlapWarning
from catalog_ext.writes.writes import Batch
from tests.kit.repair_cases import indexed, register, walked, write
from tests.kit.writes import begin, crash_at, insert, stage
from tests.unit.partitions.test_partition_commands import equals, external, managed

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


def interrupted(catalog: Catalog) -> Path:
    """The directory of the table s.t, whose dropping has ended before its files were deleted."""
    root = managed(catalog)
    insert(catalog, "k=1")
    crash_at("drop.before", lambda: catalog.drop_table("s.t"))
    return root


def test_a_table_that_is_made_meanwhile_keeps_its_files(catalog: Catalog) -> None:
    first = managed(catalog)
    insert(catalog, "k=1")
    made: list[Path] = []

    def make_again(_: str) -> None:
        made.append(managed(catalog))
        insert(catalog, "k=2")

    with armed("drop.before", make_again):
        catalog.drop_table("s.t")
    (second,) = made
    assert (first.exists(), second.name) == (False, "t__2")
    assert indexed(catalog) == walked(second, 1) != {}
    catalog.drop_table("s.t")
    assert managed(catalog) == first, "the directory is free again"


def test_directory_is_not_given_away_before_it_is_deleted(catalog: Catalog) -> None:
    root = interrupted(catalog)
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


def test_recover_deletes_what_an_interrupted_drop_left(catalog: Catalog) -> None:
    root = interrupted(catalog)
    assert catalog.recover().transactions == (), "the process that drops it may be at it"
    (preview,) = catalog.recover("s.t", older_than=0, dry_run=True).transactions
    assert (preview.table, preview.operation, preview.action) == ("s.t", "DROP TABLE", RecoveryAction.WOULD_FINISH)
    assert root.exists()
    (done,) = catalog.recover("s.t", older_than=0).transactions
    assert (done.action, done.error, root.exists()) == (RecoveryAction.FINISHED, None, False)
    with pytest.raises(TableNotFoundError):
        catalog.recover("s.t", older_than=0)
    assert managed(catalog) == root


def test_recover_leaves_files_written_there_since(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    root = interrupted(catalog)
    write(root, "k=7/000000_0")
    later = (root / "k=7" / "000000_0").stat().st_mtime + 60
    os.utime(root / "k=7" / "000000_0", (later, later))
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
    assert [str(p.relative_to(root)) for p in root.rglob("*")] == ["k=7", "k=7/000000_0"]
    assert "Files were written to" in caplog.text


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

    def published(sync: MetastoreSync, table_id: int) -> object:
        there.append(root.exists())
        return publish(sync, table_id)

    monkeypatch.setattr(MetastoreSync, "publish", published)
    catalog.drop_table("s.t")
    assert there == [False]


def test_a_table_at_the_namespaces_directory_keeps_no_name_waiting(catalog: Catalog) -> None:
    probe = managed(catalog)
    catalog.drop_table("s.t")
    definition = TableDefinition(TableIdentifier("s", "all"), TableType.MANAGED, "csv", "", (Column("x", "int"),), ())
    catalog.create_table(definition, str(probe.parent))
    crash_at("drop.before", lambda: catalog.drop_table("s.all"))
    with pytest.raises(ConflictError, match=r"files of table s\.all"):
        managed(catalog)
    catalog.recover(older_than=0)
    assert managed(catalog) == probe


@pytest.mark.parametrize("at", ["drop.before", "drop.aside"])
def test_a_slow_owner_deletes_nothing_of_the_next_table(catalog: Catalog, at: str) -> None:
    first = managed(catalog)
    insert(catalog, "k=1")

    def overtaken(_: str) -> None:
        assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
        assert managed(catalog) == first
        insert(catalog, "k=2")

    with armed(at, overtaken):
        catalog.drop_table("s.t")
    assert indexed(catalog) == walked(first, 1) != {}


def test_a_drop_that_died_in_the_middle_of_its_files_is_finished(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    crash_at("drop.aside", lambda: catalog.drop_table("s.t"))
    assert [p.name for p in root.parent.iterdir()] != []
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
    assert list(root.parent.iterdir()) == []
    assert managed(catalog) == root


def test_store_clock_ahead_leaves_no_own_files_after_a_drop(catalog: Catalog) -> None:
    root = interrupted(catalog)
    for file in root.rglob("*.csv"):
        later = file.stat().st_mtime + 600
        os.utime(file, (later, later))
    catalog.recover(older_than=0)
    assert not root.exists()


def test_a_table_inside_another_ones_directory_keeps_its_files(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    inside = TableDefinition(TableIdentifier("s", "inside"), TableType.EXTERNAL, "csv", "", (Column("x", "int"),), ())
    with pytest.warns(TableOverlapWarning):
        catalog.create_table(inside, str(root / "inside"))
    with pytest.raises(TableLayoutError, match=r"table s\.inside lies at .*Drop or unregister that one before"):
        catalog.drop_table("s.t")
    assert indexed(catalog) == walked(root, 1) != {}
    catalog.unregister_table("s.inside")
    catalog.drop_table("s.t")
    assert not root.exists()


@pytest.mark.parametrize("dropped", ["s.t", "s.u"])
@pytest.mark.parametrize("undone", [True, False])
def test_no_table_is_dropped_while_an_exchange_moves_its_files(catalog: Catalog, dropped: str, undone: bool) -> None:
    target, source = managed(catalog), managed(catalog, "u")
    insert(catalog, "k=1", table="s.u")
    before = walked(source, 1)
    crash_at(
        "undo.sources" if undone else "promote.after",
        lambda: failing_exchange(catalog) if undone else exchange(catalog),
    )
    with pytest.raises(ConflictError, match=r"the EXCHANGE.* is moving its files"):
        catalog.drop_table(dropped)
    with pytest.raises(ConflictError, match="is moving its files"):
        catalog.unregister_table(dropped)
    catalog.recover(older_than=0)
    table, root = ("s.u", source) if undone else ("s.t", target)
    assert indexed(catalog, table) == walked(root, 1) == before
    catalog.drop_table(dropped)


def exchange(catalog: Catalog) -> None:
    catalog.partition_commands.exchange("s.t", "s.u", [{"k": "1"}])


def failing_exchange(catalog: Catalog) -> None:
    """An exchange that the store refuses, and that is undone."""

    def refused(_: str) -> None:
        raise StorageAccessDeniedError("no")

    with armed("promote.file", refused):
        exchange(catalog)


@pytest.mark.parametrize("replaces", [False, True])
def test_what_a_reserved_creation_has_written_is_not_dropped(catalog: Catalog, replaces: bool) -> None:
    root = managed(catalog)
    definition = catalog.load_table("s.t").definition
    if not replaces:
        catalog.drop_table("s.t")
    kind = WriteKind.CREATE_OR_REPLACE if replaces else WriteKind.CREATE
    begun, _ = catalog.writes.begin_creation(kind, definition, None, Batch("CTAS", "test@host:1"))
    refusals: list[str] = []

    def others(_: str) -> None:
        if not replaces:
            catalog.create_table(definition, str(root))
        with pytest.raises(ConflictError, match=r"table s\.t is being created at") as refused:
            catalog.drop_table("s.t")
        refusals.append(refused.value.message)

    with armed("promote.before", others):
        if replaces:
            catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=3")])
        else:
            with pytest.raises(TableAlreadyExistsError):
                catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=3")])
    assert len(refusals) == 1
    assert indexed(catalog) == walked(root, 1)


def test_a_table_that_was_unregistered_meanwhile_is_not_replaced(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    definition = catalog.load_table("s.t").definition
    kind = WriteKind.CREATE_OR_REPLACE
    begun, _ = catalog.writes.begin_creation(kind, definition, None, Batch("CTAS", "test@host:1"))
    with (
        armed("apply.before", lambda _: catalog.unregister_table("s.t")),
        pytest.raises(ConflictError, match="dropped by another statement"),
    ):
        catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, "k=3")])
    assert sorted(walked(root, 1)) == ["k=1"]


def test_no_partition_or_table_moves_to_a_directory_being_deleted(catalog: Catalog, tmp_path: Path) -> None:
    root = interrupted(catalog)
    external = TableDefinition(
        TableIdentifier("s", "other"), TableType.EXTERNAL, "csv", "", (Column("x", "int"),), (Column("k", "int"),)
    )
    (tmp_path / "other").mkdir()
    catalog.create_table(external, str(tmp_path / "other"))
    refused = r"cannot lie at .* yet: the files of table s\.t, which was dropped"
    with pytest.raises(ConflictError, match=f"Table s\\.other {refused}"):
        catalog.alterations.alter("s.other", location=str(root))
    with pytest.raises(ConflictError, match=f"Partition 'k=1' of table s\\.other {refused}"):
        catalog.partition_commands.add("s.other", [({"k": "1"}, str(root / "k=1"))])
    catalog.partition_commands.add("s.other", [({"k": "2"}, None)])
    with pytest.raises(ConflictError, match=refused):
        catalog.partition_commands.relocate("s.other", {"k": "2"}, str(root / "k=1"))
    assert list(indexed(catalog, "s.other")) == ["k=2"]
    catalog.recover(older_than=0)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EACCES])
def test_a_directory_that_gets_no_other_name_is_emptied(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A mount point, or a folder in one that only another user may write to."""
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")

    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "rename", refused)
        catalog.drop_table("s.t")
    assert list(root.iterdir()) == []
    assert managed(catalog) == root, "it is free again"
    insert(catalog, "k=1")
    assert indexed(catalog) == walked(root, 1)


def test_a_table_that_is_dropped_while_its_files_are_promoted_says_so(catalog: Catalog) -> None:
    """The files vanish with the table: what the store says of them is not the reason."""
    root = managed(catalog)
    begun = begin(catalog)
    staged = stage(begun, "k=1")

    def drop(_: str) -> None:
        catalog.index.tables.drop(catalog.identify("s.t"), deliver=False)
        shutil.rmtree(root)

    with (
        armed("promote.before", drop),
        pytest.raises(TableNotFoundError, match=r"s\.t was dropped or replaced while it was being written"),
    ):
        catalog.writes.transactions.commit(begun.transaction_id, [staged])
    (kept,) = catalog.index.transactions.all()
    assert "was dropped or replaced while it was being written" in (kept.error or "")


def test_a_partition_of_another_table_inside_the_directory_keeps_its_files(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    external(catalog, tmp_path, "e")
    with pytest.warns(TableOverlapWarning):
        catalog.partition_commands.add("s.e", [({"k": "1"}, f"file://{root}/k=1")])
    with pytest.raises(TableLayoutError, match=r"the partition 'k=1' of table s\.e lies at file://.*/t/k=1"):
        catalog.drop_table("s.t")
    assert indexed(catalog, "s.e") == indexed(catalog) == walked(root, 1)
    catalog.partition_commands.drop("s.e", [equals("k", "1")])
    catalog.drop_table("s.t")
    assert not root.exists()


def test_cascade_drops_external_tables_before_the_managed_one_they_share(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    external(catalog, tmp_path, "z")
    with pytest.warns(TableOverlapWarning, match=r"shares files with s\.t"):
        catalog.partition_commands.add("s.z", [({"k": "1"}, f"file://{root}/k=1")])
    catalog.drop_namespace("s", cascade=True)
    assert catalog.list_namespaces() == []
    assert not root.exists()


@pytest.mark.parametrize("linked", ["partition", "table", "relocated"])
def test_what_lies_in_the_directory_by_a_symbolic_link_keeps_its_files(
    catalog: Catalog, tmp_path: Path, linked: str
) -> None:
    """The drop follows the link, also one that was made after the location was given."""
    root = managed(catalog)
    insert(catalog, "k=1")
    write(root, "elsewhere/k=1/a.csv")
    external(catalog, tmp_path, "u")
    link = tmp_path / "link"
    link.symlink_to(root)
    if linked == "table":
        with pytest.warns(TableOverlapWarning, match=r"shares files with s\.t"):
            external(catalog, link, "elsewhere")
    elif linked == "partition":
        with pytest.warns(TableOverlapWarning, match=r"shares files with s\.t"):
            catalog.partition_commands.add("s.u", [({"k": "9"}, f"file://{link}/elsewhere/k=1")])
    else:
        link.unlink()
        write(link, "elsewhere/k=1/a.csv")
        catalog.partition_commands.add("s.u", [({"k": "9"}, f"file://{link}/elsewhere/k=1")])
        shutil.rmtree(link)
        link.symlink_to(root)
    what = r"table s\.elsewhere lies at" if linked == "table" else r"the partition 'k=9' of table s\.u lies at"
    with pytest.raises(TableLayoutError, match=f"s\\.t cannot be dropped: {what} file://{link}/elsewhere"):
        catalog.drop_table("s.t")
    assert indexed(catalog) == {"k=1": walked(root, 1)["k=1"]}
    if linked == "table":
        catalog.unregister_table("s.elsewhere")
    else:
        catalog.partition_commands.drop("s.u", [equals("k", "9")])
    catalog.drop_table("s.t")
    assert not root.exists()


def test_linked_directory_of_a_dropped_table_is_not_given_away(catalog: Catalog, tmp_path: Path) -> None:
    root = interrupted(catalog)
    link = tmp_path / "link"
    link.symlink_to(root)
    write(root, "inside/k=1/a.csv")
    external(catalog, tmp_path, "u")
    with pytest.raises(ConflictError, match=r"files of table s\.t, which was dropped"):
        catalog.partition_commands.add("s.u", [({"k": "9"}, f"file://{link}/inside/k=1")])
    with pytest.raises(ConflictError, match=r"files of table s\.t, which was dropped"):
        external(catalog, link, "inside")


@pytest.mark.parametrize("table", ["dropped_tables", "tables"])
def test_message_of_drop_says_whether_the_table_is_dropped(catalog: Catalog, table: str) -> None:
    """The disk is full before the drop is committed, or after it, when the directory is being deleted."""
    root = managed(catalog)
    insert(catalog, "k=1")
    kind = "DELETE" if table == "tables" else "UPDATE"
    full = f"CREATE TRIGGER full BEFORE {kind} ON {table} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    with catalog.index._database.engine.begin() as connection:
        connection.execute(sa.text(full))
    with pytest.raises(IndexUnavailableError, match="no room left") as raised:
        catalog.drop_table("s.t")
    is_dropped = catalog.list_tables("s") == []
    assert is_dropped == (table == "dropped_tables")
    assert ("Table s.t is dropped" in raised.value.message) == is_dropped
    with catalog.index._database.engine.begin() as connection:
        connection.execute(sa.text("DROP TRIGGER full"))
    catalog.recover(older_than=0)
    assert root.exists() != is_dropped


def test_message_of_drop_namespace_names_what_was_dropped_before(catalog: Catalog) -> None:
    root, _, _ = (managed(catalog, name) for name in ("t", "a", "b"))
    catalog.create_namespace("other")
    with pytest.warns(TableOverlapWarning):
        register(catalog, root / "inside", {"k": "INT"}, table="other.x")
    said = r"Namespace s stays with t; 2 relations of it were dropped before \(a, b\)"
    with pytest.raises(TableLayoutError, match=said):
        catalog.drop_namespace("s", cascade=True)
    assert catalog.list_tables("s") == ["t"]
