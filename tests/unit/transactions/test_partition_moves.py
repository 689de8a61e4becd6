"""RENAME, SET LOCATION and EXCHANGE of partitions on an index on SQLite and a local store."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore import errors
from catalog_ext.metastore.commit.fault_points import MOVE_POINTS, armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions.new_files import NewFiles
from catalog_ext.metastore.transactions.store_cleanup import StoreCleanup
from catalog_ext.scan.observe import StoreObserver
from tests.kit.repair_cases import indexed, walked, write
from tests.kit.writes import Crash, crash_at, insert
from tests.unit.partitions.test_partition_commands import consistent, equals, external, managed, names, state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.commit.removals import Removal
    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

pytestmark = pytest.mark.slow


def visible(root: Path) -> list[str]:
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_rename_moves_the_files_of_a_managed_partition(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    rows = catalog.load_table("s.t").totals.rows
    (held,) = indexed(catalog)["k=1"]
    (root / "k=1" / f".{held}.crc").write_bytes(b"crc")
    write(root, "k=1/_SUCCESS", "k=1/unknown.csv")
    outcome = catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert (outcome.operation, outcome.partitions_changed, outcome.files_added) == ("RENAME PARTITION", 1, 0)
    assert sorted(indexed(catalog)) == ["k=2", "k=7"]
    assert (root / "k=7" / held).exists()
    assert not (root / "k=1").exists(), "nothing is left, side files neither"
    assert catalog.load_table("s.t").totals.rows == rows, "counts are kept"
    added = catalog.index.changes.between(
        catalog.load_table("s.t").table_id, outcome.version - 1, outcome.version
    ).read_all()
    assert added.num_rows == 0, "a reader of changes does not get the rows again"
    assert sorted(p.name for p in (root / "k=7").iterdir()) == sorted(["_SUCCESS", held, "unknown.csv"])
    (root / "k=7" / "unknown.csv").unlink()
    consistent(catalog)
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert (root / "k=7" / held).exists()


def test_rename_brings_directories_of_one_value_together(catalog: Catalog) -> None:
    root = managed(catalog, keys={"k": "int", "r": "string"})
    write(root, "k=1/r=a/f.csv", "k=01/r=a/f.csv", "k=01/r=a/g.csv")
    catalog.repair_partitions("s.t")
    catalog.partition_commands.rename("s.t", {"k": "1", "r": "a"}, {"k": "2", "r": "b/c"})
    (files,) = indexed(catalog).values()
    assert names(catalog) == ["k=2/r=b%2Fc"]
    assert len(files) == 3
    assert visible(root) == sorted(f"k=2/r=b%2Fc/{name}" for name in files)
    consistent(catalog)


def test_rename_of_an_external_partition_leaves_its_files(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv", "k=2/a.csv", "k=02/b.csv")
    catalog.repair_partitions("s.t")
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "5"})
    assert catalog.index.partitions.located(catalog.load_table("s.t")) == {"k=5": f"file://{root}/k=1"}
    assert indexed(catalog)["k=5"] == {"a.csv": 1}
    with pytest.raises(errors.InvalidInputError, match="has 2 directories"):
        catalog.partition_commands.rename("s.t", {"k": "2"}, {"k": "6"})
    catalog.partition_commands.drop("s.t", [equals("k", "5")])
    catalog.partition_commands.add("s.t", [({"k": "1"}, None)])
    assert indexed(catalog)["k=1"] == {"a.csv": 1}
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "5"})
    catalog.partition_commands.rename("s.t", {"k": "5"}, {"k": "1"})
    assert catalog.index.partitions.located(catalog.load_table("s.t")) == {}, "back at its default place"


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_write_to_the_directory_of_a_renamed_partition_is_refused(
    catalog: Catalog, tmp_path: Path, kind: WriteKind
) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv")
    catalog.repair_partitions("s.t")
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "5"})
    for partition in ("k=1", "k=5"):
        if partition == "k=1":
            with pytest.raises(errors.TableLayoutError, match=r"'k=1' .* where partition 'k=5' lies"):
                insert(catalog, "k=2", "k=1", kind=kind)
            assert (indexed(catalog), visible(root)) == ({"k=5": {"a.csv": 1}}, ["k=1/a.csv"])
        else:
            insert(catalog, "k=5", kind=kind)
    assert len(indexed(catalog)["k=5"]) == (2 if kind is WriteKind.APPEND else 1)
    consistent(catalog)


@pytest.mark.parametrize("command", ["drop", "truncate", "delete", "rename"])
def test_files_of_a_partition_in_anothers_directory_stay(catalog: Catalog, command: str) -> None:
    root = managed(catalog)
    write(root, "k=1/a.csv")
    catalog.repair_partitions("s.t")
    write(root, "k=1/b.csv")
    stat = (root / "k=1/b.csv").stat()
    files = (DataFile("b.csv", stat.st_size, stat.st_mtime_ns // 1_000_000, 1),)
    table = catalog.load_table("s.t")
    there = AddPartition("k=9", files, location=f"file://{root}/k=1")
    catalog.index.commits.apply_changes(table.table_id, [there], operation="repair", deliver=False)
    if command == "drop":
        catalog.partition_commands.drop("s.t", [equals("k", "1")])
    elif command == "rename":
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "5"})
    else:
        now, one = catalog.load_table("s.t"), Comparison(Operator.EQ, "k", "1")
        catalog.writes.delete(now.table_id, now.version, one, truncate=command == "truncate")
    assert indexed(catalog)["k=9"] == {"b.csv": 1}
    assert (root / "k=1/b.csv").exists()
    assert not (root / "k=1/a.csv").exists()


def test_rename_of_what_is_not_there_or_onto_what_is(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    before = state(catalog), visible(root)
    with pytest.raises(errors.PartitionNotFoundError, match="no partition 'k=9'"):
        catalog.partition_commands.rename("s.t", {"k": "9"}, {"k": "3"})
    with pytest.raises(errors.PartitionAlreadyExistsError, match="'k=2'"):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "02"})
    with pytest.raises(errors.PartitionAlreadyExistsError, match="'k=1'"):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "1"})
    write(root, "k=3/mine.csv")
    with pytest.raises(errors.TableLayoutError, match=r"files lie there that no partition has, such as 'mine\.csv'"):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "3"})
    (root / "k=3" / "mine.csv").unlink()
    assert (state(catalog), visible(root)) == before


def test_set_location_takes_the_files_of_the_new_place(catalog: Catalog, tmp_path: Path) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    before = visible(root)
    write(tmp_path / "new", "a.csv", "b.csv")
    outcome = catalog.partition_commands.relocate("s.t", {"k": "1"}, f"file://{tmp_path}/new")
    assert (outcome.operation, outcome.files_added, outcome.files_removed) == ("SET LOCATION", 2, 1)
    assert indexed(catalog) == {"k=1": {"a.csv": 1, "b.csv": 1}}
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert visible(root) == before, "nothing is touched at the old place, by vacuum neither"
    back = catalog.partition_commands.relocate("s.t", {"k": "1"}, "k=1")
    assert (back.files_added, catalog.index.partitions.located(catalog.load_table("s.t"))) == (1, {})
    catalog.partition_commands.relocate("s.t", {"k": "1"}, "inside/new")
    assert (root / "inside" / "new").is_dir()
    assert indexed(catalog) == {"k=1": {}}
    with pytest.raises(errors.PartitionNotFoundError):
        catalog.partition_commands.relocate("s.t", {"k": "2"}, "x")


def test_set_location_of_a_value_with_two_directories_leaves_one(catalog: Catalog, tmp_path: Path) -> None:
    root = external(catalog, tmp_path)
    write(root, "k=1/a.csv", "k=01/b.csv")
    write(tmp_path / "new", "c.csv")
    catalog.repair_partitions("s.t")
    catalog.partition_commands.relocate("s.t", {"k": "1"}, f"file://{tmp_path}/new")
    assert list(indexed(catalog).values()) == [{"c.csv": 1}]


@pytest.mark.slow
@pytest.mark.parametrize("place", [managed, external])
def test_exchange_moves_partitions_of_both_kinds_of_tables(catalog: Catalog, tmp_path: Path, place: object) -> None:
    keys = {"k": "int", "r": "string"}
    target = managed(catalog, "t", keys=keys)
    source = managed(catalog, "o", keys=keys) if place is managed else external(catalog, tmp_path, "o", keys)
    write(source, "k=1/r=a/1.csv", "k=1/r=b/2.csv", "k=01/r=b/3.csv", "k=2/r=a/4.csv")
    catalog.repair_partitions("s.o")
    write(tmp_path / "own", "5.csv")
    catalog.partition_commands.add("s.o", [({"k": "1", "r": "z"}, f"file://{tmp_path}/own")])
    outcome = catalog.partition_commands.exchange("s.t", "s.o", [{"k": "1"}])
    assert (outcome.operation, outcome.partitions_added, outcome.files_added) == ("EXCHANGE PARTITION", 4, 4)
    assert names(catalog, "s.o") == ["k=2/r=a"]
    assert sorted(names(catalog)) == ["k=01/r=b", "k=1/r=a", "k=1/r=b", "k=1/r=z"]
    assert visible(target) == ["k=01/r=b/3.csv", "k=1/r=a/1.csv", "k=1/r=b/2.csv"]
    assert visible(source) == ["k=2/r=a/4.csv"]
    assert sorted(p.name for p in source.glob("k=*")) == ["k=2"], "empty directories go"
    assert catalog.index.partitions.located(catalog.load_table("s.t")) == {"k=1/r=z": f"file://{tmp_path}/own"}
    for table in ("s.t", "s.o"):
        assert catalog.history(table)[0].operation == "EXCHANGE PARTITION"
        consistent(catalog, table)
        catalog.vacuum(table, retention=0, allow_short_retention=True)
    assert visible(target) == ["k=01/r=b/3.csv", "k=1/r=a/1.csv", "k=1/r=b/2.csv"]
    assert visible(tmp_path / "own") == ["5.csv"]


@pytest.mark.slow
def test_exchange_brings_directories_of_one_name_together(catalog: Catalog, tmp_path: Path) -> None:
    target, source = managed(catalog), managed(catalog, "o")
    write(source, "k=1/f.csv", "K=1/f.csv", "K=1/g.csv")
    catalog.repair_partitions("s.o")
    outcome = catalog.partition_commands.exchange("s.t", "s.o", [{"k": "1"}])
    assert (outcome.partitions_added, outcome.files_added) == (1, 3)
    assert (indexed(catalog), indexed(catalog, "s.o")) == (walked(target, 1), {})
    assert (len(indexed(catalog)["k=1"]), visible(source)) == (3, [])
    for table in ("s.t", "s.o"):
        consistent(catalog, table)
    write(source, "k=2/a.csv", "K=2/b.csv")
    catalog.repair_partitions("s.o")
    before = indexed(catalog, "s.o")
    write(tmp_path / "own", "c.csv")
    catalog.partition_commands.add("s.o", [({"k": "3"}, f"file://{tmp_path}/own")])
    write(source, "K=3/d.csv")
    catalog.repair_partitions("s.o")
    with pytest.raises(errors.InvalidInputError, match=r"'K=3', 'k=3'.*an exchange leaves where they are"):
        catalog.partition_commands.exchange("s.t", "s.o", [{"k": "2"}, {"k": "3"}])
    assert indexed(catalog, "s.o") == {**before, "K=3": {"d.csv": 1}, "k=3": {"c.csv": 1}}
    assert {t.state for t in catalog.index.transactions.all()} <= {State.FINISHED, State.ABORTED}


def test_exchange_keeps_what_is_known_of_files(catalog: Catalog) -> None:
    managed(catalog)
    managed(catalog, "o")
    insert(catalog, "k=1", "k=2", table="s.o")
    catalog.partition_commands.exchange("s.t", "s.o", [{"k": "1"}, {"k": "2"}])
    assert (catalog.load_table("s.t").totals.rows, catalog.load_table("s.o").totals.rows) == (2, 0)


def test_exchange_that_cannot_be(catalog: Catalog, tmp_path: Path) -> None:
    target, source = managed(catalog), managed(catalog, "o")
    managed(catalog, "other_keys", keys={"j": "int"})
    managed(catalog, "other_format", kind="json")
    insert(catalog, "k=1")
    insert(catalog, "k=1", "k=2", "k=3", table="s.o")
    before = state(catalog), state(catalog, "s.o"), visible(target), visible(source)
    exchange = catalog.partition_commands.exchange
    with pytest.raises(errors.PartitionAlreadyExistsError, match="'k=1'"):
        exchange("s.t", "s.o", [{"k": "1"}, {"k": "2"}])
    with pytest.raises(errors.PartitionNotFoundError, match=r"s\.o has no partition 'k=9'"):
        exchange("s.t", "s.o", [{"k": "2"}, {"k": "9"}])
    with pytest.raises(errors.SchemaMismatchError, match="partition columns differ"):
        exchange("s.other_keys", "s.o", [{"k": "2"}])
    with pytest.raises(errors.SchemaMismatchError, match="format differ"):
        exchange("s.other_format", "s.o", [{"k": "2"}])
    with pytest.raises(errors.InvalidInputError, match="with itself"):
        exchange("s.o", "s.o", [{"k": "2"}])
    with pytest.raises(errors.InvalidPartitionSpecError, match="'q'"):
        exchange("s.t", "s.o", [{"q": "2"}])
    for specs, words in (([], "No partition was given"), ([{}], "names no partition column of table")):
        with pytest.raises(errors.InvalidPartitionSpecError, match=words):
            exchange("s.t", "s.o", specs)
    write(target, "k=2/mine.csv")
    with pytest.raises(errors.TableLayoutError, match=r"mine\.csv"):
        exchange("s.t", "s.o", [{"k": "2"}])
    (target / "k=2" / "mine.csv").unlink()
    assert (state(catalog), state(catalog, "s.o"), visible(target), visible(source)) == before


def test_writers_of_the_source_of_an_exchange_conflict_with_it(catalog: Catalog) -> None:
    managed(catalog)
    managed(catalog, "o")
    insert(catalog, "k=1", "k=2", table="s.o")
    read = catalog.load_table("s.o")
    insert(catalog, "k=1", table="s.o")
    with pytest.raises(errors.ConflictError):
        catalog.partition_commands.exchange("s.t", read, [{"k": "1"}])
    catalog.partition_commands.exchange("s.t", read, [{"k": "2"}])
    with pytest.raises(errors.ConflictError):
        catalog.partition_commands.drop(read, [equals("k", "2")], if_exists=True)
    assert sorted(indexed(catalog, "s.o")) == ["k=1"]


@pytest.mark.parametrize("point", ["promote.after", "apply.after", "clean.removed"])
@pytest.mark.parametrize("command", ["rename", "exchange"])
def test_a_repair_that_meets_a_move_leaves_it_alone(catalog: Catalog, point: str, command: str) -> None:
    managed(catalog)
    managed(catalog, "o")
    insert(catalog, "k=1", "k=2")
    insert(catalog, "k=5", "k=6", table="s.o")
    reasons: set[str] = set()

    def repair(_: str) -> None:
        for table in ("s.t", "s.o"):
            report = catalog.repair_partitions(table, mode="sync")
            reasons.update(entry.reason for entry in report.skipped)
            assert report.in_sync is not bool(report.skipped)
            assert (len(report.added), len(report.dropped), len(report.changed)) == (0, 0, 0)

    with armed(point, repair):
        if command == "rename":
            catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "3"})
        else:
            catalog.partition_commands.exchange("s.t", "s.o", [{"k": "5"}])
    assert reasons == ({"a RENAME or EXCHANGE is moving it"} if point == "promote.after" else set())
    assert sorted(indexed(catalog)) == (["k=2", "k=3"] if command == "rename" else ["k=1", "k=2", "k=5"])
    for table in ("s.t", "s.o"):
        consistent(catalog, table)


@pytest.mark.parametrize("content", [b"1\n", b"hive's\n"], ids=["same size", "other size"])
def test_a_rename_takes_no_foreign_file_for_its_own(catalog: Catalog, content: bytes) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/000001_0", content=b"1\n")
    catalog.repair_partitions("s.t")

    def hive_writes(_: str) -> None:
        write(root, "k=2/000001_0", content=content)

    with (
        armed("promote.before", hive_writes),
        pytest.raises(errors.StorageError, match="A file of another process is at"),
    ):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})
    assert visible(root) == ["k=1/000000_0", "k=1/000001_0", "k=2/000001_0"]
    assert (root / "k=2" / "000001_0").read_bytes() == content
    assert names(catalog) == ["k=1"]
    catalog.repair_partitions("s.t")
    consistent(catalog)


def test_undoing_a_rename_leaves_what_hive_has_written_since(catalog: Catalog) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/000001_0", content=b"1\n")
    catalog.repair_partitions("s.t")

    def hive_writes(_: str) -> None:
        write(root, "k=2/000001_0", content=b"2\n")

    def hive_writes_again(_: str) -> None:
        write(root, "k=1/000000_0", content=b"again\n")

    with (
        armed("promote.before", hive_writes),
        armed("undo.sources", hive_writes_again),
        pytest.raises(errors.StorageError, match="A file of another process is at"),
    ):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})
    contents = {name: (root / name).read_bytes() for name in visible(root)}
    # Which rows are right is unknown: all are there.
    assert sorted(contents.values()) == [b"1\n", b"1\n", b"2\n", b"again\n"]
    catalog.repair_partitions("s.t", mode="sync")
    consistent(catalog)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["rename", "exchange"])
def test_nothing_is_moved_while_a_write_is_deleting_what_it_replaced(catalog: Catalog, command: str) -> None:
    managed(catalog)
    managed(catalog, "o")
    insert(catalog, "k=1")
    table = "s.t" if command == "rename" else "s.o"
    insert(catalog, "k=5", table=table)
    overwrite = WriteKind.OVERWRITE_PARTITIONS
    crash_at("clean.before", lambda: insert(catalog, "k=5", kind=overwrite, table=table))

    def move() -> None:
        if command == "rename":
            catalog.partition_commands.rename("s.t", {"k": "5"}, {"k": "7"})
        else:
            catalog.partition_commands.exchange("s.t", "s.o", [{"k": "5"}])

    with pytest.raises(errors.ConflictError, match="has committed and is deleting what it replaced"):
        move()
    catalog.recover(older_than=0)
    move()
    for name in ("s.t", "s.o"):
        catalog.repair_partitions(name)
        consistent(catalog, name)
    assert sum(len(files) for name in ("s.t", "s.o") for files in indexed(catalog, name).values()) == 2


@pytest.mark.parametrize("mode", ["sync", "add", "drop"])
@pytest.mark.parametrize("begun", ["before the repair", "while it lists"])
def test_a_rename_that_is_undone_while_a_repair_runs(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, mode: str, begun: str
) -> None:
    """The listing has the files where they had been moved; when it is compared they are back."""
    root = managed(catalog)
    insert(catalog, "k=1", "k=3")
    before = state(catalog)

    def rename() -> None:
        crash_at("promote.after", lambda: catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"}))

    def undo() -> None:
        (rename,) = catalog.index.transactions.moving_commands()
        catalog.index.transactions.move(rename.transaction_id, (State.RESERVED,), State.ABORTING)
        assert [t.action for t in catalog.recover(older_than=0).transactions] == ["undone"]

    observe = StoreObserver.observe

    def observed(observer: StoreObserver, *, selective: bool) -> None:
        if begun == "while it lists":
            rename()
        observe(observer, selective=selective)
        undo()

    if begun == "before the repair":
        rename()
    monkeypatch.setattr(StoreObserver, "observe", observed)
    report = catalog.repair_partitions("s.t", mode=mode)
    assert {e.reason for e in report.skipped} == {"a RENAME or EXCHANGE is moving it"}
    assert state(catalog) == before
    monkeypatch.undo()
    assert not catalog.repair_partitions("s.t").skipped
    assert indexed(catalog) == walked(root, 1)


def test_a_rename_that_is_undone_while_a_partition_is_added_at_its_target(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    managed(catalog)
    insert(catalog, "k=1")
    crash_at("promote.after", lambda: catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"}))
    visible_ones = NewFiles.visible

    def listed(new: NewFiles, directories: Mapping[str, Location]) -> dict[str, list[Entry]]:
        found = visible_ones(new, directories)
        (rename,) = catalog.index.transactions.moving_commands()
        catalog.index.transactions.move(rename.transaction_id, (State.RESERVED,), State.ABORTING)
        catalog.recover(older_than=0)
        return found

    monkeypatch.setattr(NewFiles, "visible", listed)
    with pytest.raises(errors.ConflictError, match=r"is moving files of partition 'k=2'"):
        catalog.partition_commands.add("s.t", [({"k": "2"}, None)])
    monkeypatch.undo()
    consistent(catalog)


def test_foreign_file_of_the_same_size_is_not_taken_for_a_moved_one(catalog: Catalog) -> None:
    """One process deletes the source, and another writes the target."""
    root = managed(catalog)
    write(root, "k=1/000000_0", content=b"1\n")
    then = (root / "k=1" / "000000_0").stat().st_mtime - 60
    os.utime(root / "k=1" / "000000_0", (then, then))
    catalog.repair_partitions("s.t")

    def hive_writes(_: str) -> None:
        (root / "k=1" / "000000_0").unlink()
        write(root, "k=2/000000_0", content=b"2\n")

    with armed("promote.before", hive_writes), pytest.raises(errors.StorageError, match="Another file, of 2 bytes"):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "2"})
    assert {name: (root / name).read_bytes() for name in visible(root)} == {"k=2/000000_0": b"2\n"}
    assert names(catalog) == ["k=1"]
    catalog.repair_partitions("s.t")
    consistent(catalog)


@pytest.mark.slow
def test_the_directory_of_another_partition_is_not_registered_again(catalog: Catalog) -> None:
    root = managed(catalog)
    write(root, "k=2/f.csv", "k=3/g.csv")
    catalog.partition_commands.add("s.t", [({"k": "1"}, str(root / "k=2"))])
    for mode in ("add", "sync", "sync"):
        report = catalog.repair_partitions("s.t", mode=mode)
        assert {e.path: e.reason for e in report.skipped} == {"k=2": "the directory is that of the partition k=1"}
    assert indexed(catalog) == {"k=1": {"f.csv": 1}, "k=3": {"g.csv": 1}}


def test_a_slow_owner_puts_back_what_it_moves_after_it_was_undone(catalog: Catalog) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    before = state(catalog)

    def undone(_: str) -> None:
        (rename,) = catalog.index.transactions.moving_commands()
        catalog.recover(undo=rename.transaction_id)

    with armed("promote.file", undone), pytest.raises(errors.TransactionStateError):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert (state(catalog), indexed(catalog)) == (before, walked(root, 1))
    catalog.recover(older_than=0)
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert indexed(catalog) == walked(root, 1)


def test_a_slow_owner_deletes_nothing_that_came_back_by_another_rename(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    remove = StoreCleanup.remove_replaced

    def overtaken(cleanup: StoreCleanup, table_id: int | None, taken: list[Removal], upto: Location) -> list[Location]:
        monkeypatch.undo()
        catalog.recover(older_than=0)
        catalog.partition_commands.rename("s.t", {"k": "7"}, {"k": "1"})
        return remove(cleanup, table_id, taken, upto)

    monkeypatch.setattr(StoreCleanup, "remove_replaced", overtaken)
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert set(indexed(catalog)) == {"k=1"}
    assert indexed(catalog) == walked(root, 1)


def test_a_slow_owner_moves_no_file_that_hive_has_written_since(catalog: Catalog) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", content=b"1\n")
    catalog.repair_partitions("s.t")

    def overtaken(_: str) -> None:
        catalog.recover(older_than=0)
        write(root, "k=1/000000_0", content=b"by hive\n")
        catalog.repair_partitions("s.t")

    with armed("promote.file", overtaken):
        catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})
    assert indexed(catalog) == walked(root, 1) == {"k=1": {"000000_0": 8}, "k=7": {"000000_0": 2}}


def undo(catalog: Catalog) -> None:
    (rename,) = (t for t in catalog.index.transactions.moving_commands() if t.state is not State.ABORTED)
    catalog.recover(undo=rename.transaction_id)


def back_and_forth(catalog: Catalog) -> None:
    catalog.partition_commands.rename("s.t", {"k": "7"}, {"k": "1"})


def forth(catalog: Catalog) -> None:
    catalog.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"})


@pytest.mark.parametrize("point", MOVE_POINTS)
def test_a_slow_undoing_takes_nothing_from_the_next_rename(catalog: Catalog, point: str) -> None:
    root = managed(catalog)
    insert(catalog, "k=1")
    write(root, "k=1/000000_0", content=b"hive\n")
    catalog.repair_partitions("s.t")
    crash_at("promote.after", lambda: forth(catalog))

    def overtaken(_: str) -> None:
        undo(catalog)
        assert indexed(catalog) == walked(root, 1)
        forth(catalog)

    with armed(point, overtaken):
        undo(catalog)
    assert names(catalog) == ["k=7"]
    consistent(catalog)
    catalog.recover(older_than=0)
    consistent(catalog)


@pytest.mark.parametrize("point", MOVE_POINTS)
@pytest.mark.parametrize("then", [None, forth])
@pytest.mark.parametrize("ends", ["undone", "finished"])
def test_a_slow_rename_takes_nothing_from_who_comes_after_it(
    catalog: Catalog, point: str, then: Callable[[Catalog], None] | None, ends: str
) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/000001_0", content=b"hive\n")
    catalog.repair_partitions("s.t")

    def overtaken(_: str) -> None:
        if ends == "undone":
            undo(catalog)
        else:
            catalog.recover(older_than=0)
            back_and_forth(catalog)
        assert indexed(catalog) == walked(root, 1)
        if then is not None:
            then(catalog)

    with armed(point, overtaken), nullcontext() if ends == "finished" else pytest.raises(errors.TransactionStateError):
        forth(catalog)
    assert names(catalog) == ["k=1" if then is None else "k=7"]
    consistent(catalog)
    catalog.recover(older_than=0)
    consistent(catalog)
    assert not [path for path in root.iterdir() if path.name.startswith("_")]


@pytest.mark.parametrize("way", ["forth", "back"])
def test_what_a_late_mover_dies_with_is_put_back(catalog: Catalog, way: str) -> None:
    """It is overtaken before it takes the files, which are the next rename's by then, and dies before it asks again."""
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/000001_0", content=b"hive\n")
    catalog.repair_partitions("s.t")
    if way == "back":
        crash_at("promote.after", lambda: forth(catalog))
    mover, late = [0], []

    def overtaken(_: str) -> None:
        undo(catalog)
        if way == "back":
            forth(catalog)
        mover[0] = 1

    def dies(_: str) -> None:
        if mover[0]:
            late.append(indexed(catalog) == walked(root, 1))
            raise Crash

    with armed("move.taken", dies, lasting=True), armed("move.before", overtaken), pytest.raises(Crash):
        (forth if way == "forth" else undo)(catalog)
    assert late == [False]
    catalog.recover(older_than=0)
    consistent(catalog)
    assert not [path for path in root.iterdir() if path.name.startswith("_")]


def test_an_undoing_whose_source_was_written_again_keeps_both(catalog: Catalog) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/a.csv", "k=1/_SUCCESS", content=b"1\n2\n3\n")
    catalog.repair_partitions("s.t")

    def hive_writes(_: str) -> None:
        write(root, "k=1/000000_0", "k=1/a.csv", "k=1/_SUCCESS", content=b"9\n")
        raise errors.StorageAccessDeniedError("quota")

    with armed("promote.after", hive_writes), pytest.raises(errors.StorageAccessDeniedError):
        forth(catalog)
    (files,) = indexed(catalog).values()
    assert list(files.values()) == [6, 6]
    assert sorted(files)[0].startswith("000000_0-")
    assert sorted(files)[1].startswith("a-")
    assert sorted(files)[1].endswith(".csv")
    assert walked(root, 1)["k=1"] == {**files, "000000_0": 2, "a.csv": 2}
    assert catalog.history("s.t")[0].operation == "UNDO RENAME PARTITION"
    catalog.repair_partitions("s.t")
    consistent(catalog)
    assert catalog.recover(older_than=0).transactions == ()


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [Crash, errors.IndexUnavailableError])
def test_what_a_late_mover_of_a_finished_rename_took_is_put_back(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, trouble: type[BaseException]
) -> None:
    """Others have finished its rename and made another one, which brought the very same files back."""
    root = managed(catalog)
    write(root, "k=1/000000_0", "k=1/000001_0", content=b"hive\n")
    catalog.repair_partitions("s.t")
    mover = [""]

    def overtaken(_: str) -> None:
        catalog.recover(older_than=0)
        back_and_forth(catalog)
        assert indexed(catalog) == walked(root, 1)
        mover[0] = "is late"

    def troubled(_: str) -> None:
        if mover[0] == "is late":
            mover[0] = "had trouble"
            if trouble is Crash:
                raise Crash
            asked = [trouble("The index is away.")]
            state_of = catalog.index.transactions.state_of

            def away(number: str) -> State | None:
                if asked:
                    raise asked.pop()
                return state_of(number)

            monkeypatch.setattr(catalog.index.transactions, "state_of", away)

    with armed("move.before", overtaken), armed("move.taken", troubled, lasting=True):
        if trouble is Crash:
            with pytest.raises(Crash):
                forth(catalog)
            assert indexed(catalog) != walked(root, 1)
            catalog.recover(older_than=0)
        else:
            forth(catalog)
    assert mover == ["had trouble"]
    consistent(catalog)
    assert names(catalog) == ["k=1"]
    assert not [path for path in root.iterdir() if path.name.startswith("_")]


@pytest.mark.parametrize("died", [False, True])
def test_an_undoing_whose_source_is_a_file_now_keeps_the_rows_elsewhere(catalog: Catalog, died: bool) -> None:
    root = managed(catalog)
    write(root, "k=1/000000_0", content=b"1\n")
    catalog.repair_partitions("s.t")
    crash_at("promote.after", lambda: forth(catalog))
    (root / "k=1").rmdir()
    (root / "k=1").write_text("in the way")
    if died:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(catalog.index.commits), "apply_changes", lambda *_, **__: die())
            with pytest.raises(Crash):
                undo(catalog)
    catalog.recover(older_than=0) if died else undo(catalog)
    assert indexed(catalog) == {"k=1": {"000000_0": 2}}
    (place,) = catalog.index.partitions.located(catalog.load_table("s.t")).values()
    assert Path(place.removeprefix("file://"), "000000_0").read_bytes() == b"1\n"
    assert not catalog.recover(older_than=0).transactions
    insert(catalog, "k=1")
    catalog.vacuum("s.t", retention=0, allow_short_retention=True)
    assert len(indexed(catalog)["k=1"]) == 2
    forth(catalog)
    assert len(indexed(catalog)["k=7"]) == 2
    catalog.unregister_table("s.t")


def die() -> None:
    raise Crash


def test_write_to_a_directory_that_is_moved_back_is_refused(catalog: Catalog) -> None:
    managed(catalog)
    insert(catalog, "k=1", "k=2")
    crash_at("promote.after", lambda: forth(catalog))
    (rename,) = catalog.index.transactions.moving_commands()
    catalog.index.transactions.move(rename.transaction_id, (State.RESERVED,), State.ABORTING)
    for spec in ("k=1", "k=7"):
        with pytest.raises(errors.ConflictError, match=rename.transaction_id):
            insert(catalog, spec, kind=WriteKind.OVERWRITE_PARTITIONS)
    insert(catalog, "k=2")
    catalog.recover(older_than=0)
    insert(catalog, "k=1", "k=7")
    consistent(catalog)


@pytest.mark.parametrize("at", ["begin.after", "check.after", "reserve.before"])
@pytest.mark.parametrize("command", ["set", "add"])
def test_rows_for_a_directory_that_another_partition_has_got_meanwhile(catalog: Catalog, at: str, command: str) -> None:
    root = managed(catalog)
    insert(catalog, "k=2")

    def meanwhile(_: str) -> None:
        if command == "set":
            catalog.partition_commands.relocate("s.t", {"k": "2"}, "k=1")
        else:
            catalog.partition_commands.add("s.t", [({"k": "3"}, "k=1")])

    with armed(at, meanwhile), pytest.raises((errors.ConflictError, errors.TableLayoutError)):
        insert(catalog, "k=1")
    assert visible(root / "k=1") == []
    assert "k=1" not in indexed(catalog)
    consistent(catalog)


@pytest.mark.parametrize("at", ["reserve.after", "promote.after"])
def test_directory_of_a_write_in_flight_is_not_given_away(catalog: Catalog, at: str) -> None:
    managed(catalog)
    insert(catalog, "k=2")

    def meanwhile(_: str) -> None:
        with pytest.raises(errors.ConflictError, match="writes to"):
            catalog.partition_commands.relocate("s.t", {"k": "2"}, "k=1")
        with pytest.raises(errors.ConflictError, match="writes to"):
            catalog.partition_commands.add("s.t", [({"k": "3"}, "k=1")])

    with armed(at, meanwhile):
        insert(catalog, "k=1")
    assert sorted(indexed(catalog)) == ["k=1", "k=2"]
    consistent(catalog)


@pytest.mark.parametrize("place", ["inside/new", "outside"])
@pytest.mark.parametrize("at", ["reserve.before", "reserve.after"])
def test_of_two_that_choose_a_directory_one_is_first(catalog: Catalog, tmp_path: Path, place: str, at: str) -> None:
    managed(catalog)
    insert(catalog, "k=1", "k=2")
    (tmp_path / "outside").mkdir()
    location = place if place.startswith("inside") else f"file://{tmp_path}/{place}"

    def meanwhile(_: str) -> None:
        with nullcontext() if at == "reserve.before" else pytest.raises(errors.ConflictError, match="writes to"):
            catalog.partition_commands.relocate("s.t", {"k": "2"}, location)

    loses = pytest.raises(errors.ConflictError, match="come to lie") if at == "reserve.before" else nullcontext()
    with armed(at, meanwhile), loses:
        catalog.partition_commands.relocate("s.t", {"k": "1"}, location)
    located = catalog.index.partitions.located(catalog.load_table("s.t"))
    assert list(located) == (["k=2"] if at == "reserve.before" else ["k=1"])
    catalog.partition_commands.relocate("s.t", {"k": "1"}, "k=1")
