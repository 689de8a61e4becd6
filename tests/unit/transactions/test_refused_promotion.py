"""Stores that refuse, for good or for a while, to give the files of a decided write their names."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CommitStateUnknownError,
    IndexDatabaseError,
    InvalidInputError,
    StorageAccessDeniedError,
    StorageError,
    StorageUnavailableError,
    TableNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.kit.repair_cases import indexed, register, walked
from tests.kit.writes import crash_at, insert
from tests.unit.partitions.test_partition_commands import managed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.catalog import Catalog

OVERWRITE = WriteKind.OVERWRITE_PARTITIONS


@pytest.fixture
def root(catalog: Catalog) -> Path:
    root = managed(catalog)
    insert(catalog, "k=1")
    return root


@pytest.fixture
def other_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on another file system than the tests' folder: each Linux has one in memory, and one that is not."""
    here = tmp_path.stat().st_dev
    folder = Path(tempfile.mkdtemp(dir=next(d for d in ("/dev/shm", "/var/tmp") if Path(d).stat().st_dev != here)))
    yield folder
    shutil.rmtree(folder)


def states(catalog: Catalog) -> set[State]:
    return {t.state for t in catalog.index.transactions.all()}


def nothing_left(catalog: Catalog, root: Path) -> None:
    assert states(catalog) <= {State.FINISHED, State.ABORTED}
    assert not list(root.rglob("_catalog_ext_staging"))
    assert indexed(catalog) == walked(root, 1)


def refusing(error: StorageError) -> Callable[[str], None]:
    def refuse(_: str) -> None:
        raise error

    return refuse


@pytest.mark.parametrize("kind", [WriteKind.APPEND, OVERWRITE])
@pytest.mark.parametrize("nth", [1, 2])
def test_a_refusal_for_good_undoes_the_write(catalog: Catalog, root: Path, kind: WriteKind, nth: int) -> None:
    before = indexed(catalog)
    denied = refusing(StorageAccessDeniedError("the bucket's policy says no"))
    with armed("promote.file", denied, nth), pytest.raises(StorageAccessDeniedError, match="policy says no"):
        insert(catalog, "k=1", "k=2", kind=kind)
    assert indexed(catalog) == before
    nothing_left(catalog, root)
    insert(catalog, "k=1", "k=2", kind=kind)
    nothing_left(catalog, root)


def test_a_store_that_is_away_leaves_the_write_to_be_finished(catalog: Catalog, root: Path) -> None:
    with (
        armed("promote.file", refusing(StorageUnavailableError("later"))),
        pytest.raises(CommitStateUnknownError, match="later"),
    ):
        insert(catalog, "k=2")
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
    assert set(indexed(catalog)) == {"k=1", "k=2"}
    nothing_left(catalog, root)


def test_a_recoverer_that_is_refused_for_good_undoes_it(catalog: Catalog, root: Path) -> None:
    crash_at("promote.before", lambda: insert(catalog, "k=1", "k=2", kind=OVERWRITE))
    with armed("promote.file", refusing(StorageError("no space")), 2):
        (undone,) = catalog.recover(older_than=0).transactions
    assert (undone.action, undone.error) == (RecoveryAction.UNDONE, "no space")
    nothing_left(catalog, root)


@contextmanager
def refusing_database(database_file: Path) -> Iterator[None]:
    """An index whose database takes no partition k=2."""
    with closing(sqlite3.connect(database_file)) as database:
        database.execute(
            "CREATE TRIGGER refuse BEFORE INSERT ON partitions WHEN NEW.name = 'k=2'"
            " BEGIN SELECT RAISE(ABORT, 'not this one'); END"
        )
        database.commit()
        yield
        database.execute("DROP TRIGGER refuse")
        database.commit()


def test_a_database_that_refuses_for_good_undoes_the_write(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    before = indexed(catalog)
    with refusing_database(tmp_path / "index.db"), pytest.raises(IndexDatabaseError, match="not this one"):
        insert(catalog, "k=1", "k=2", kind=OVERWRITE)
    assert indexed(catalog) == before
    nothing_left(catalog, root)
    crash_at("promote.before", lambda: insert(catalog, "k=1", "k=2", kind=OVERWRITE))
    with refusing_database(tmp_path / "index.db"):
        (undone,) = catalog.recover(older_than=0).transactions
    assert undone.action is RecoveryAction.UNDONE
    assert undone.error is not None
    assert "not this one" in undone.error
    assert indexed(catalog) == before
    nothing_left(catalog, root)


def test_a_schema_of_another_release_leaves_the_write_to_be_finished(
    catalog: Catalog, root: Path, tmp_path: Path
) -> None:
    def rename(old: str, new: str) -> None:
        with closing(sqlite3.connect(tmp_path / "index.db")) as database:
            database.execute(f"ALTER TABLE {old} RENAME TO {new}")
            database.commit()

    with (
        armed("apply.before", lambda _: rename("table_versions", "elsewhere")),
        pytest.raises(CommitStateUnknownError, match="no such table"),
    ):
        insert(catalog, "k=2")
    rename("elsewhere", "table_versions")
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]
    nothing_left(catalog, root)


def test_a_file_where_a_directory_has_to_be(catalog: Catalog, root: Path) -> None:
    (root / "k=9").write_text("mine")
    with pytest.raises(StorageError, match=r"No file can be moved to .*k=9.*is no directory\. Nothing was written"):
        insert(catalog, "k=1", "k=9", kind=OVERWRITE)
    assert (root / "k=9").read_text() == "mine"
    (root / "k=9").unlink()
    nothing_left(catalog, root)


def test_a_partition_on_another_disk(catalog: Catalog, root: Path, other_disk: Path) -> None:
    assert os.stat(other_disk).st_dev != os.stat(root).st_dev
    (root / "k=2").symlink_to(other_disk)
    with pytest.raises(StorageError, match=r"k=2.*is on another file system than .*_catalog_ext_staging"):
        insert(catalog, "k=2")
    nothing_left(catalog, root)

    def appears(_: str) -> None:
        (root / "k=3").symlink_to(other_disk)

    with armed("promote.before", appears), pytest.raises(StorageError, match=r"Cannot move a file to .*k=3"):
        insert(catalog, "k=1", "k=3", kind=OVERWRITE)
    assert list(other_disk.iterdir()) == []
    (root / "k=2").unlink()
    (root / "k=3").unlink()
    nothing_left(catalog, root)


def test_a_write_to_a_table_that_was_unregistered_shows_no_file(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "external"
    register(catalog, root, {"k": "INT"}, table="s.t")
    crash_at("promote.before", lambda: insert(catalog, "k=1"))
    catalog.unregister_table("s.t")
    (undone,) = catalog.recover(older_than=0).transactions
    assert (undone.action, walked(root, 1)) == (RecoveryAction.UNDONE, {})
    with armed("promote.file", refusing(StorageError("never asked"))), pytest.raises(TableNotFoundError):
        catalog.load_table("s.t")


def test_an_operator_ends_a_write_that_waits_for_a_store(catalog: Catalog, root: Path) -> None:
    with armed("promote.file", refusing(StorageUnavailableError("away")), 2), pytest.raises(CommitStateUnknownError):
        insert(catalog, "k=1", "k=2", kind=OVERWRITE)
    (waiting,) = [t for t in catalog.index.transactions.all() if t.state is State.RESERVED]
    (preview,) = catalog.recover(undo=waiting.transaction_id, dry_run=True).transactions
    assert (preview.action, states(catalog)) == (RecoveryAction.WOULD_UNDO, {State.FINISHED, State.RESERVED})
    (undone,) = catalog.recover(undo=waiting.transaction_id).transactions
    assert (undone.action, undone.files) == (RecoveryAction.UNDONE, 2)
    nothing_left(catalog, root)
    (done, *_) = [t for t in catalog.index.transactions.all() if t.state is State.FINISHED]
    with pytest.raises(TransactionStateError, match="is finished and cannot be undone: its rows are in the table"):
        catalog.recover(undo=done.transaction_id)
    with pytest.raises(InvalidInputError, match="without a table"):
        catalog.recover("s.t", undo=waiting.transaction_id)
