"""Rollback to an earlier version: relocated partitions, dropped ones, files that are gone, and vacuum afterwards."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    NewPartition,
    RenamePartition,
    Rollback,
)
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import (
    CommitStateUnknownError,
    ConflictError,
    FilesLostError,
    StreamChangedError,
    TableLayoutError,
    VersionExpiredError,
)
from catalog_ext.metastore.index.read.history import Removals
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.changes import AddPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions.reports import VacuumAction
from tests.kit.index_cases import local_index
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.commit.transaction import WriteOutcome
    from catalog_ext.metastore.predicates.tree import Predicate

K2 = Comparison(Operator.EQ, "k", "2")
BEFORE = {"k=1": "1\n", "k=2": "2\n"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def stand(tmp_path: Path, root: Path) -> Iterator[Stand]:
    """A table with ``BEFORE`` at version 1."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root))
        stand.write(BEFORE)
        yield stand


def overwrite(stand: Stand, files: dict[str, str]) -> WriteOutcome:
    return stand.write(files, DYNAMIC, options=RELOCATE)


def roll_back(stand: Stand, version: int, predicate: Predicate | None = None) -> WriteOutcome:
    return stand.engine.command(stand.table(), Rollback(version, predicate), "ROLLBACK")


def vacuum(stand: Stand, retention_s: float = 0) -> list[str]:
    """The files that a vacuum deletes."""
    report = stand.engine.vacuum(stand.table(), retention_s)
    assert not report.failed
    return [entry.path for entry in report.entries if entry.action is VacuumAction.DELETE]


def totals(stand: Stand) -> tuple[int, int, int, int | None]:
    """The table's counters, after a comparison with its rows and with the sums of its versions."""
    table = stand.table()
    found = stand.rows()
    there = table.totals
    files = stand.index.files.plan(table, None).read_all().to_pylist()
    assert (there.partitions, there.files) == (len(found), len(files))
    assert there.bytes == sum(row["size"] for row in files)
    assert stand.index.version_lookup.at_version(table, table.version).totals == there
    counted = {row["partition"]: row for row in stand.index.partitions.all(table, None).read_all().to_pylist()}
    assert {name: row["bytes"] for name, row in counted.items()} == {n: len(text) for n, text in found.items()}
    return there.partitions, there.files, there.bytes, there.rows


def test_one_partition_gets_its_earlier_files(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n", "k=2": "right\n"})
    outcome = roll_back(stand, 1, K1)
    assert (outcome.partitions_changed, outcome.files_added, outcome.files_removed) == (1, 1, 1)
    assert stand.rows() == {"k=1": "1\n", "k=2": "right\n"} == stand.listed()
    assert totals(stand) == (2, 2, 8, 2)
    newest = stand.index.tables.history(stand.table().identifier)[0]
    assert (newest.operation, newest.summary["restored_from"]) == ("ROLLBACK", 1)


def test_a_whole_table_and_the_undo_of_the_undo(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n", "k=3": "3\n"})
    wrong = stand.rows()
    for version, rows in ((1, BEFORE), (2, wrong), (1, BEFORE), (4, wrong), (3, BEFORE)):
        roll_back(stand, version)
        assert stand.rows() == rows == stand.listed()
        totals(stand)
    assert stand.table().version == 7
    assert stand.engine.recover(older_than_s=0).transactions == ()


def test_rollback_to_the_present_state_makes_no_version(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    roll_back(stand, 1)
    assert roll_back(stand, 1).version == stand.table().version == 3


def test_a_later_partition_goes_and_a_dropped_one_comes_back(tmp_path: Path, root: Path) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        stand.write(BEFORE)
        stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
        stand.write({"k=3": "3\n"})
        roll_back(stand, 1)
        assert stand.rows() == BEFORE
        totals(stand)
        roll_back(stand, 3)
        assert stand.rows() == {"k=2": "2\n", "k=3": "3\n"}
        totals(stand)


def test_appended_files_are_deleted_if_the_directory_stays(stand: Stand) -> None:
    """Hive engines list the directory, and would read them."""
    stand.write({"k=1": "more\n"})
    roll_back(stand, 1)
    assert stand.rows() == BEFORE == stand.listed()
    totals(stand)
    with pytest.raises(FilesLostError, match="does not exist any more"):
        roll_back(stand, 2)


def test_files_of_later_versions_leave_a_directory_that_comes_back(stand: Stand) -> None:
    stand.write({"k=1": "more\n"})
    overwrite(stand, {"k=1": "wrong\n"})
    roll_back(stand, 1, K1)
    assert stand.rows() == BEFORE == stand.listed()
    assert stand.strays() == [path for path in stand.strays() if path.startswith("_catalog_ext_data/")]


def test_a_foreign_file_in_a_directory_that_comes_back_refuses(stand: Stand, root: Path) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    (root / "k=1" / "000000_0").write_text("foreign\n")
    with pytest.raises(TableLayoutError, match="000000_0' is there"):
        roll_back(stand, 1)
    assert stand.rows() == {**BEFORE, "k=1": "wrong\n"}
    assert stand.table().version == 2


@pytest.mark.parametrize("kind", ["missing", "size", "time"])
def test_lost_files_are_named_and_nothing_changes(stand: Stand, root: Path, kind: str) -> None:
    overwrite(stand, {"k=1": "wrong\n", "k=2": "wrong\n"})
    (file,) = (root / "k=1").glob("*.csv")
    if kind == "missing":
        file.unlink()
    elif kind == "size":
        file.write_text("12\n")
    else:
        os.utime(file, (1, 1))
    with pytest.raises(FilesLostError, match="cannot be restored") as refused:
        roll_back(stand, 1)
    assert refused.value.parameters == {"table": "s.t", "partition": "k=1", "version": "1", "files": "1"}
    assert ("does not exist" in refused.value.message) == (kind == "missing")
    assert file.name in refused.value.message
    assert stand.rows() == {"k=1": "wrong\n", "k=2": "wrong\n"}
    assert stand.table().version == 2
    roll_back(stand, 1, K2)
    assert stand.rows() == {"k=1": "wrong\n", "k=2": "2\n"}


def test_files_that_an_in_place_overwrite_deleted_are_named(stand: Stand) -> None:
    stand.write({"k=1": "wrong\n"}, DYNAMIC)
    with pytest.raises(FilesLostError, match="k=1"):
        roll_back(stand, 1)
    assert stand.rows() == {**BEFORE, "k=1": "wrong\n"}


def test_a_file_that_a_committed_write_still_has_to_delete_is_missing(stand: Stand) -> None:
    with armed("clean.before", "error"):
        stand.write({"k=1": "wrong\n"}, DYNAMIC)
    with pytest.raises(FilesLostError, match="is being deleted"):
        roll_back(stand, 1, K1)


def test_a_managed_rename_moved_the_files_away(stand: Stand) -> None:
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=7"), "RENAME PARTITION")
    with pytest.raises(FilesLostError, match="k=1"):
        roll_back(stand, 1)
    assert stand.rows() == {"k=2": "2\n", "k=7": "1\n"}


def test_statistics_and_other_files_stay(stand: Stand) -> None:
    stand.write({"k=1": "more\n"})
    stand.write({"k=2": "more\n"})
    before = stand.index.files.plan(stand.table(), None).read_all().to_pylist()
    roll_back(stand, 2)
    kept = stand.index.files.plan(stand.table(), None).read_all().to_pylist()
    assert kept == [row for row in before if row in kept]
    assert stand.rows() == {"k=1": "1\nmore\n", "k=2": "2\n"}
    totals(stand)


def test_a_deferred_delete_is_completed_first(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_deletes, "MANY", 1)
    with armed("deferred.before", "storage", lasting=True):
        stand.engine.delete(stand.table(), None, truncate=False, options=RELOCATE)
    assert stand.table().deleted_before_version == 2
    found = stand.engine.restorable(stand.table(), 1, None)
    assert [(each.name, each.present, len(each.restored)) for each in found.differences] == [
        ("k=1", None, 1), ("k=2", None, 1),
    ]  # fmt: skip
    roll_back(stand, 1)
    assert stand.rows() == BEFORE == stand.listed()
    totals(stand)


# Conflicts


def test_the_second_of_two_rollbacks_conflicts(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    stand.engine.command(stand.table(), DropPartitions(K2, DataDeletion.NONE), "DROP PARTITION")

    def second(_: str) -> None:
        with pytest.raises(ConflictError):
            roll_back(stand, 1, K2)
        roll_back(stand, 2, K1)

    with armed("reserve.after", second):
        roll_back(stand, 1, K2)
    assert stand.rows() == {"k=1": "wrong\n", "k=2": "2\n"}


@pytest.mark.parametrize(("partition", "conflicts"), [("k=1", True), ("k=2", False), ("k=9", False)])
def test_a_running_append_conflicts_only_on_the_same_partition(stand: Stand, partition: str, conflicts: bool) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    begun = stand.begin()
    staged = stand.put(begun, {partition: "new\n"})
    roll_back(stand, 1, K1)
    if conflicts:
        with pytest.raises(ConflictError):
            stand.engine.commit(begun.transaction_id, staged)
    else:
        stand.engine.commit(begun.transaction_id, staged)
    assert stand.rows()["k=1"] == "1\n"
    assert ("new\n" in stand.rows().get(partition, "")) != conflicts


def test_an_append_between_the_steps_conflicts_with_the_rollback(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    with armed("check.after", lambda _: stand.write({"k=1": "new\n"})), pytest.raises(ConflictError):
        roll_back(stand, 1, K1)
    with armed("check.after", lambda _: stand.write({"k=2": "new\n"})):
        roll_back(stand, 1, K1)
    assert stand.rows() == {"k=1": "1\n", "k=2": "2\nnew\n"}


@pytest.mark.parametrize("point", ["check.after", "reserve.after"])
@pytest.mark.parametrize(("partition", "conflicts"), [("k=1", True), ("k=2", False)])
def test_a_repair_between_the_steps(stand: Stand, point: str, partition: str, conflicts: bool) -> None:
    """No claim stops a repair, which registers files of Hive engines."""
    overwrite(stand, {"k=1": "wrong\n"})
    (place,) = (uri.rpartition("/")[0] for uri in files_of(stand) if f"/{partition}/" in uri)

    def repair(_: str) -> None:
        path = Path(f"{place}/000000_0".removeprefix("file://"))
        path.write_text("hive\n")
        found = DataFile(path.name, 5, path.stat().st_mtime_ns // 1_000_000)
        changes = [ReplaceFiles(partition, added=(found,))]
        stand.index.commits.apply_changes(stand.table().table_id, changes, operation="REPAIR", deliver=False)

    with armed(point, repair):
        if conflicts:
            with pytest.raises(ConflictError):
                roll_back(stand, 1, K1)
        else:
            roll_back(stand, 1, K1)
    assert stand.rows()["k=1"] == ("hive\nwrong\n" if conflicts else "1\n")
    assert "hive\n" in stand.rows()[partition]


@pytest.mark.parametrize("point", ["check.after", "promote.before"])
def test_rollback_fails_when_its_version_expires_meanwhile(stand: Stand, point: str) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    stand.write({"k=9": "9\n"})

    def expire(_: str) -> None:
        stand.index.versions.expire(stand.table().table_id, 2)

    with armed(point, expire), pytest.raises(VersionExpiredError):
        roll_back(stand, 1, K1)
    assert stand.rows()["k=1"] == "wrong\n"
    (rolled_back,) = (t for t in stand.index.transactions.all() if t.operation == "ROLLBACK")
    assert (rolled_back.state, rolled_back.reserved) == (State.ABORTED, point != "check.after")


# Files that are alive again


@pytest.mark.parametrize("floor", range(1, 6))
def test_vacuum_at_each_floor_keeps_restored_files(stand: Stand, floor: int) -> None:
    """Netflix/iceberg#17, iceberg#8255: a file that was removed and added again went with its first removal."""
    overwrite(stand, {"k=1": "wrong\n"})
    wrong = stand.rows()
    states = {1: BEFORE, 2: wrong}
    for version, rows in ((1, BEFORE), (2, wrong), (1, BEFORE)):
        roll_back(stand, version)
        states[stand.table().version] = rows
    table = stand.table()
    stand.index.history.version_at = lambda *_: floor  # type: ignore[method-assign]
    vacuum(stand)
    assert stand.rows() == BEFORE == stand.listed()
    for version in range(floor, table.version + 1):
        at = stand.index.version_lookup.at_version(table, version)
        for row in stand.index.files.plan(at, None).read_all().to_pylist():
            base = row["location"] or f"{table.definition.location}/{row['partition']}"
            assert Path(f"{base}/{row['path']}".removeprefix("file://")).exists(), version


def test_vacuum_deletes_what_the_rollback_removed_and_nothing_else(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n", "k=3": "3\n"})
    removed = {uri for uri in files_of(stand) if "_catalog_ext_data" in uri}
    roll_back(stand, 1)
    assert set(vacuum(stand)) == removed
    assert stand.rows() == BEFORE == stand.listed()
    assert stand.strays() == []


def files_of(stand: Stand) -> set[str]:
    table = stand.table()
    rows = stand.index.files.plan(table, None).read_all().to_pylist()
    return {f"{row['location'] or table.directory(row['partition'])}/{row['path']}" for row in rows}


def test_a_partition_can_be_created_again_after_a_rollback_removed_it(stand: Stand) -> None:
    """Files that the rollback left in the default directory go, else Hive engines would read them again."""
    stand.write({"k=3": "old\n"})
    roll_back(stand, 1)
    assert stand.listed() == {**BEFORE, "k=3": "old\n"}
    stand.write({"k=3": "new\n"})
    assert stand.rows() == {**BEFORE, "k=3": "new\n"} == stand.listed()


@pytest.mark.parametrize("point", ["check.before", "check.after", "reserve.after", "promote.before", "apply.before"])
def test_a_vacuum_during_a_rollback_keeps_the_files(stand: Stand, point: str) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    deleted: list[str] = []
    # The age of the versions alone does not keep them: the rollback's files do.
    with armed(point, lambda _: deleted.extend(vacuum(stand)) or None):
        try:
            roll_back(stand, 1, K1)
        except (ConflictError, VersionExpiredError):
            assert stand.rows() == {**BEFORE, "k=1": "wrong\n"}
        else:
            assert stand.rows() == BEFORE
    assert deleted == []


def test_a_rollback_during_a_vacuum_that_has_claimed_its_files_conflicts(stand: Stand) -> None:
    overwrite(stand, {"k=1": "wrong\n"})
    stand.write({"k=9": "9\n"})
    errors: list[str] = []

    def during(_: str) -> None:
        with pytest.raises((ConflictError, FilesLostError)) as refused:
            roll_back(stand, 1, K1)
        errors.append(refused.value.message)

    with armed("vacuum.claimed", during):
        assert vacuum(stand)
    assert "is being deleted" in errors[0]
    assert stand.rows() == {**BEFORE, "k=1": "wrong\n", "k=9": "9\n"}


def test_a_vacuum_between_check_and_apply_conflicts(stand: Stand) -> None:
    """The vacuum has looked for running statements before the rollback began, and deletes after its check."""
    overwrite(stand, {"k=1": "wrong\n"})
    stand.write({"k=9": "9\n"})
    table, (uri,) = stand.table(), _ended(stand)
    claims: list[str] = []

    def claim(_: str) -> None:
        made = stand.index.deletions.claim(table, [Removal(uri, 2)], "test", "_staging")
        assert made.transaction_id is not None
        stand.index.transactions.finish(made.transaction_id)
        claims.append(made.transaction_id)

    with armed("check.after", claim), pytest.raises(ConflictError, match="is deleting or moving"):
        roll_back(stand, 1, K1)
    assert claims
    assert stand.rows()["k=1"] == "wrong\n"


def _ended(stand: Stand) -> list[str]:
    return [f.uri for page in stand.index.ended_files.pages(stand.table(), stand.table().version) for f in page]


def test_a_shared_directory_keeps_the_file_of_the_other_partition(tmp_path: Path, root: Path) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        stand.write({"k=1": "1\n"})
        stand.write({"k=1": "more\n"})
        place = f"file://{root}/k=1"
        stand.engine.command(stand.table(), AddPartitions((NewPartition("k=5", place),)), "ADD PARTITION")
        roll_back(stand, 1, K1)
        assert stand.rows() == {"k=1": "1\n", "k=5": "1\nmore\n"}


# Files of other programs


@pytest.mark.parametrize("external", [True, False])
def test_vacuum_keeps_users_files_of_a_partition_that_goes(tmp_path: Path, root: Path, external: bool) -> None:
    """As after a DROP PARTITION of an external table: version 0 is the table as it was registered."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=external))
        found = foreign_file(root / "k=1")
        adds = [AddPartition("k=1", (found,))]
        index.commits.apply_changes(stand.table().table_id, adds, operation="REPAIR", deliver=False)
        stand.write({"k=2": "2\n"})
        (own,) = (uri for uri in files_of(stand) if "k=2" in uri)
        roll_back(stand, 0)
        assert stand.rows() == {}
        users = f"file://{root}/k=1/{found.path}"
        assert set(vacuum(stand)) == ({own} if external else {own, users})
        assert (root / "k=1" / found.path).exists() == external


def test_vacuum_deletes_users_files_that_an_overwrite_replaced(tmp_path: Path, root: Path) -> None:
    """As before the two rollbacks: the partition lies in another directory."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        found = foreign_file(root / "k=1")
        adds = [AddPartition("k=1", (found,))]
        index.commits.apply_changes(stand.table().table_id, adds, operation="REPAIR", deliver=False)
        overwrite(stand, {"k=1": "new\n"})
        for version, rows in ((1, "hive\n"), (2, "new\n")):
            roll_back(stand, version)
            assert stand.rows() == {"k=1": rows} == stand.listed()
        assert vacuum(stand) == [f"file://{root}/k=1/{found.path}"]


def foreign_file(folder: Path) -> DataFile:
    """A file that a Hive engine has written."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "000000_0"
    path.write_text("hive\n")
    return DataFile(path.name, 5, path.stat().st_mtime_ns // 1_000_000)


@pytest.mark.parametrize("keys", [{"k": "int"}, {}])
@pytest.mark.parametrize("external", [True, False])
def test_users_files_in_a_directory_that_stays(
    tmp_path: Path, root: Path, keys: dict[str, str], external: bool
) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, keys, external=external))
        name = "k=1" if keys else ""
        stand.write({name: "1\n"})
        found = foreign_file(root / name)
        changes = [ReplaceFiles(name, added=(found,))]
        index.commits.apply_changes(stand.table().table_id, changes, operation="REPAIR", deliver=False)
        if external:
            with pytest.raises(TableLayoutError, match="another program has written"):
                roll_back(stand, 1)
        else:
            roll_back(stand, 1)
        assert stand.rows() == {name: "1\nhive\n" if external else "1\n"} == stand.listed()


def test_unpartitioned_table_is_emptied(tmp_path: Path, root: Path) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, {}))
        stand.write({"": "1\n"})
        roll_back(stand, 0)
        assert stand.rows() == {}
        assert stand.listed() == {"": ""}


# Recovery


def test_recovery_applies_a_rollback_once(stand: Stand) -> None:
    stand.write({"k=1": "more\n"})
    overwrite(stand, {"k=2": "wrong\n"})
    for point in ("reserve.after", "promote.after", "apply.after", "clean.before"):
        base = stand.table().version
        # An error after ``reserve`` leaves the outcome open, and recovery finishes the rollback.
        with armed(point, "error"), suppress(CommitStateUnknownError):
            roll_back(stand, 2 if base % 2 else 3)
        stand.engine.recover(older_than_s=0)
        stand.engine.recover(older_than_s=0)
        assert stand.table().version == base + 1, point
        assert stand.rows()["k=1"] == "1\nmore\n"
        totals(stand)
    assert {t.state for t in stand.index.transactions.all()} == {State.FINISHED}


# Streams


def test_a_stream_treats_a_rollback_as_a_removal(tmp_path: Path, root: Path) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        stand.write(BEFORE)
        stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")
        number = stand.table().table_id
        # This rollback removes no file.
        roll_back(stand, 1)
        with pytest.raises(StreamChangedError, match="ROLLBACK"):
            index.changes.between(number, 2, 3, Removals.REFUSE)
        assert index.changes.between(number, 2, 3, Removals.SKIP).read_all().num_rows == 0
        assert index.changes.between(number, 0, 3, Removals.SKIP).read_all().num_rows == 2
