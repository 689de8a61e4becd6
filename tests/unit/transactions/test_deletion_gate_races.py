"""A statement deletes or moves files after a registration has listed them, and has ended before its commit."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, StorageUnavailableError, TableLayoutError
from catalog_ext.metastore.index.write.registration_checks import DeletedFilesError
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.transactions.steps import clean
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, TABLE, Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.storage.entries import Entry

B = TableIdentifier("s", "b")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


@pytest.fixture
def stand(catalog: Catalog) -> Stand:
    return Stand(catalog.index)


def create(stand: Stand, folder: Path, *, external: bool = True) -> None:
    """Table t with k=1 and k=2, and the empty external table b."""
    stand.create(definition(folder / "t", external=external))
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    stand.create(definition(folder / "b", name="b", external=True))


def add(stand: Stand, folder: Path, table: TableIdentifier = B, *, place: str = "k=1") -> None:
    asked = AddPartitions((NewPartition("k=7", f"file://{folder}/t/{place}"),))
    stand.engine.command(stand.table(table), asked, "ADD PARTITION")


def set_location(stand: Stand, folder: Path) -> None:
    asked = RelocatePartition("k=2", f"file://{folder}/t/k=1")
    stand.engine.command(stand.table(), asked, "SET LOCATION")


def add_own(stand: Stand, folder: Path) -> None:
    add(stand, folder, TABLE)


def overwrite(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC)


def overwrite_relocating(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC, options=RELOCATE)


def replace_where(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, WriteKind.OVERWRITE, predicate=K1)


def delete(stand: Stand) -> None:
    stand.engine.delete(stand.table(), K1, truncate=False)


def drop(stand: Stand) -> None:
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.ALL), "DROP PARTITION")


def rename(stand: Stand) -> None:
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=5"), "RENAME PARTITION")


def after_listing(work: Callable[[], object], registration: Callable[[], object]) -> None:
    """Do some work when a registration has listed its files; the registration is refused."""
    due = [work]

    def meanwhile(_: str) -> None:
        if due:
            due.pop()()

    with armed("check.after", meanwhile), pytest.raises(ConflictError):
        registration()


def refusal(stand: Stand, entry: Entry, listed_at_ms: int) -> DeletedFilesError:
    """The error of a repair of table b that has listed a file."""
    found = DataFile(entry.location.name, entry.size, entry.modified_ms)
    change = AddPartition("k=7", (found,), str(entry.location.parent))
    with pytest.raises(DeletedFilesError) as refused:
        stand.index.commits.apply_changes(
            stand.table(B).table_id, [change], operation="repair", deliver=False, listed_at_ms=listed_at_ms
        )
    return refused.value


@pytest.mark.parametrize("registration", [add_own, set_location])
@pytest.mark.parametrize(
    ("external", "statement"),
    [
        *((True, one) for one in (overwrite, replace_where, delete, drop)),
        *((False, one) for one in (delete, drop, rename)),
    ],
)
def test_partition_gets_no_files_that_another_partition_has_lost(
    stand: Stand,
    tmp_path: Path,
    external: bool,
    statement: Callable[[Stand], None],
    registration: Callable[[Stand, Path], None],
) -> None:
    """ADD PARTITION and SET LOCATION were acknowledged, and each query of the partition failed."""
    create(stand, tmp_path, external=external)
    after_listing(lambda: statement(stand), lambda: registration(stand, tmp_path))
    # Raises where a row's file is gone.
    assert "k=7" not in stand.rows()


def test_partition_gets_no_files_of_a_table_that_was_dropped_meanwhile(
    catalog: Catalog, stand: Stand, tmp_path: Path
) -> None:
    """Nothing was left of the DROP when the commit looked for it."""
    create(stand, tmp_path, external=False)
    after_listing(lambda: catalog.drop_table("s.t"), lambda: add(stand, tmp_path))
    assert stand.rows(B) == {}


def test_repair_registers_no_files_that_a_drop_is_deleting(catalog: Catalog, stand: Stand, tmp_path: Path) -> None:
    create(stand, tmp_path, external=False)
    listed_at_ms = stand.index.now_ms()
    (entry,) = stand.storage.list_directory(f"file://{tmp_path}/t/k=1")
    crash_at("drop.before", lambda: catalog.drop_table("s.t"))
    refused = refusal(stand, entry, listed_at_ms)
    assert "s.t, which was dropped" in refused.message
    assert (set(refused.directories), refused.has_ended) == ({f"file://{tmp_path}/t/k=1"}, False)


@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
def test_table_in_another_tables_partition_directory_is_not_dropped(
    catalog: Catalog, stand: Stand, tmp_path: Path
) -> None:
    """The partition has its directory by its name. The DROP deleted its rows."""
    create(stand, tmp_path)
    stand.create(definition(tmp_path / "t" / "k=3" / "m", {}, name="free"))
    catalog.drop_table("s.free")
    stand.create(definition(tmp_path / "t" / "k=3", {}, name="inner"))
    inner = TableIdentifier("s", "inner")
    stand.write({"": "3\n"}, table=stand.table(inner))
    stand.engine.command(stand.table(), AddPartitions((NewPartition("k=3", None),)), "ADD PARTITION")
    with pytest.raises(TableLayoutError, match=r"the partition 'k=3' of table s\.t lies at"):
        catalog.drop_table("s.inner")
    assert (stand.rows()["k=3"], stand.rows(inner)) == ("3\n", {"": "3\n"})


def test_partition_gets_no_files_that_an_undone_rename_has_moved_back(stand: Stand, tmp_path: Path) -> None:
    create(stand, tmp_path, external=False)
    crash_at("promote.after", lambda: rename(stand))
    (moving,) = stand.index.transactions.all(states=(State.RESERVED,))
    after_listing(lambda: stand.engine.undo(moving.transaction_id), lambda: add(stand, tmp_path, place="k=5"))
    assert (stand.rows(B), stand.rows()["k=1"]) == ({}, "1\n")


def test_partition_gets_no_files_that_were_deleted_before_a_policy_failed(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overwrite stays ``committed``, and has forgotten which files it deleted."""
    create(stand, tmp_path)

    def failing(*_: object) -> None:
        raise StorageUnavailableError("The store is away.")

    monkeypatch.setattr(clean, "run_policies", failing)
    options = {"sink.partition-commit.policy.kind": "success-file"}
    after_listing(lambda: stand.write({"k=1": "9\n"}, DYNAMIC, options=options), lambda: add(stand, tmp_path))
    assert [one.operation for one in stand.index.transactions.all(states=(State.COMMITTED,))] == ["INSERT"]
    assert stand.rows(B) == {}


def landed(stand: Stand, folder: Path) -> Entry:
    """A file that LOAD DATA can take."""
    (folder / "in").mkdir()
    (folder / "in" / "000000_0.csv").write_text("9\n")
    (entry,) = stand.storage.list_directory(f"file://{folder}/in")
    return entry


@pytest.mark.parametrize("point", ["reserve.after", "promote.after", "apply.before"])
def test_partition_gets_no_files_that_a_reserved_load_replaces(stand: Stand, tmp_path: Path, point: str) -> None:
    """Only the files that LOAD DATA OVERWRITE moves were looked for, and not those that it deletes."""
    create(stand, tmp_path)
    entry = landed(stand, tmp_path)
    crash_at(point, lambda: take_files(stand.engine, stand.table(), "k=1", [entry], replaces=True))
    with pytest.raises(ConflictError, match="is deleting or moving"):
        add(stand, tmp_path)
    stand.engine.recover(older_than_s=0)
    assert (stand.rows(B), stand.rows()["k=1"]) == ({}, "9\n")


def overwrite_in_part(stand: Stand) -> None:
    crash_at("clean.before", lambda: overwrite(stand))


def vacuum_in_part(stand: Stand) -> None:
    overwrite_relocating(stand)
    time.sleep(0.005)
    with contextlib.ExitStack() as stack:
        finish, stand.index.transactions.finish = stand.index.transactions.finish, lambda _: False  # type: ignore[method-assign]
        stack.callback(setattr, stand.index.transactions, "finish", finish)
        crash_at("vacuum.claimed", lambda: stand.engine.vacuum(stand.table(), 0))
    assert [one.operation for one in stand.index.transactions.all(states=(State.COMMITTED,))] == [VACUUM]


@pytest.mark.parametrize("deletion", [overwrite_in_part, vacuum_in_part])
def test_repair_registers_no_files_that_were_deleted_after_its_listing(
    stand: Stand, tmp_path: Path, deletion: Callable[[Stand], None]
) -> None:
    """The deletion counted from its commit. It had committed before the listing, and deleted the files after it."""
    create(stand, tmp_path)
    (entry,) = stand.storage.list_directory(f"file://{tmp_path}/t/k=1")
    deletion(stand)
    time.sleep(0.005)
    listed_at_ms = stand.index.now_ms()
    time.sleep(0.005)
    stand.engine.recover(older_than_s=0)
    assert refusal(stand, entry, listed_at_ms).has_ended


def test_repair_registers_no_replaced_files_that_an_append_has_deleted(stand: Stand, tmp_path: Path) -> None:
    """Appends did not count. One that makes a partition deletes what a relocating overwrite has left there."""
    create(stand, tmp_path)
    overwrite_relocating(stand)
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
    listed_at_ms = stand.index.now_ms()
    (entry,) = stand.storage.list_directory(f"file://{tmp_path}/t/k=1")
    stand.write({"k=1": "3\n"})
    assert stand.storage.stat(entry.location) is None
    assert refusal(stand, entry, listed_at_ms).has_ended
