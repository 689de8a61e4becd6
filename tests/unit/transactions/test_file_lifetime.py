"""A file that a current or later version names is no leftover: nothing deletes it, and vacuum says who needs what."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from catalog_ext.catalog import connect
from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    ExchangePartitions,
    NewPartition,
    RelocatePartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.transaction import BeginWrite
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import TableLayoutError
from catalog_ext.metastore.index.read import ended_files, needed_files
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import TRUE, Comparison, Operator
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.kit.index_cases import local_index
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, TABLE, Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from catalog_ext.metastore.storage.entries import Entry
    from catalog_ext.metastore.storage.locations import Location

OTHER = TableIdentifier("s", "other")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def stand(tmp_path: Path, root: Path) -> Iterator[Stand]:
    """An external table whose partition k=1 was overwritten by mistake: {1} is left at its default place."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        stand.write({"k=1": "1\n"})
        stand.write({"k=1": "wrong\n"}, DYNAMIC, options=RELOCATE)
        yield stand


def drop(stand: Stand) -> None:
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.NONE), "DROP PARTITION")


def add(stand: Stand, location: str | None = None, *, table: TableIdentifier = TABLE, name: str = "k=1") -> None:
    asked = AddPartitions((NewPartition(name, location),), if_not_exists=False)
    stand.engine.command(stand.table(table), asked, "ADD PARTITION")


def set_location(stand: Stand, root: Path, name: str = "k=1") -> None:
    stand.engine.command(stand.table(), RelocatePartition(name, f"file://{root}/k=1"), "SET LOCATION")


def vacuum(stand: Stand, retention_s: float = 0, **more: bool) -> VacuumReport:
    time.sleep(0.005)  # what is written is older than the retention then
    report = stand.engine.vacuum(stand.table(), retention_s, **more)
    assert report.failed == ()
    return report


def kept(report: VacuumReport) -> dict[str, str]:
    return {Path(entry.path).name: entry.reason for entry in report.kept}


def test_append_to_partition_elsewhere_needs_no_table_directory(stand: Stand, root: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    add(stand, f"file://{tmp_path}/far", name="k=2")
    drop(stand)
    shutil.rmtree(root)
    stand.write({"k=2": "2\n"})
    assert stand.rows() == {"k=2": "2\n"}


@pytest.mark.parametrize("between", [False, True], ids=["", "vacuum between"])
def test_rows_brought_back_survive_drop_and_add(stand: Stand, root: Path, between: bool) -> None:
    """Trial F1: relocate, SET LOCATION back, DROP, ADD. ``ADD PARTITION`` deleted the file before."""
    set_location(stand, root)
    drop(stand)
    if between:
        vacuum(stand)
    add(stand)
    assert stand.rows() == stand.listed() == {"k=1": "1\n"}
    vacuum(stand)
    assert stand.rows() == {"k=1": "1\n"}


# No two of them are one value: ``a b`` and ``a%20b`` are, and an overwrite of one replaces both.
ODD_VALUES = ["a b", "a+b", "a%3Ab", "50%25", "a~b", "é", "e\u0301", "'", "x%3Dy", "%zz", "日本", "A", "a"]


@pytest.mark.parametrize("options", [RELOCATE, {}], ids=["relocate", "in place"])
def test_vacuum_leaves_living_files_of_odd_names(tmp_path: Path, options: dict[str, str]) -> None:
    """Delta's and Trino's VACUUM compared encoded with decoded paths, and deleted the living ones."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t x%41+é%20", {"k": "string"}))
        names = [f"k={value}" for value in ODD_VALUES]
        for content in ("1\n", "2\n"):
            stand.write(dict.fromkeys(names, content), DYNAMIC, options=options)
        stand.write(dict.fromkeys(names[::2], "3\n"), DYNAMIC, options=options)
        vacuum(stand)
        there = {name: "3\n" if number % 2 == 0 else "2\n" for number, name in enumerate(names)}
        assert stand.rows() == stand.listed() == there
        assert stand.strays() == []


def test_vacuum_leaves_a_dropped_partition_of_an_external_table(stand: Stand, root: Path) -> None:
    set_location(stand, root)
    drop(stand)
    vacuum(stand)
    assert len(list(root.glob("k=1/*.csv"))) == 1


def test_add_partition_deletes_no_replaced_file(stand: Stand, root: Path) -> None:
    """The default directory holds overwritten rows: the partition gets another one, and nothing is deleted."""
    drop(stand)
    add(stand)
    assert stand.rows() == stand.listed() == {"k=1": ""}
    assert len(list(root.glob("k=1/*.csv"))) == 1
    set_location(stand, root)
    assert stand.rows() == stand.listed() == {"k=1": "1\n"}


def test_add_partition_refuses_replaced_files_beside_new_ones(stand: Stand, root: Path) -> None:
    drop(stand)
    (root / "k=1" / "000000_0").write_text("hive\n")
    with pytest.raises(TableLayoutError, match=r"replaced, and others, such as '000000_0'.*LOCATION.*vacuum"):
        add(stand)
    add(stand, f"file://{root}/k=1")
    assert stand.rows() == stand.listed() == {"k=1": "1\nhive\n"}


@pytest.mark.parametrize("retention_s", [0, 3600])
def test_vacuum_reports_the_replaced_directory_until_it_may_delete(
    stand: Stand, root: Path, retention_s: float
) -> None:
    """A preview of vacuum shows where the rows of a mistaken overwrite lie."""
    preview = vacuum(stand, retention_s, dry_run=True)
    if retention_s:
        (entry,) = preview.kept
        assert (entry.path, entry.bytes) == (f"file://{root}/k=1", 2)
        assert re.fullmatch(r"1 file: replaced by version 2, which is younger .* SET LOCATION .*", entry.reason)
    else:
        assert [Path(e.path).parent.name for e in preview.entries if e.action is VacuumAction.DELETE] == ["k=1"]


def test_vacuum_says_that_a_later_version_names_a_file(stand: Stand, root: Path) -> None:
    set_location(stand, root)
    assert kept(vacuum(stand))["k=1"] == "1 file: replaced by version 2, and used again by a later version"


def test_vacuum_leaves_what_another_table_has(stand: Stand, root: Path, tmp_path: Path) -> None:
    stand.create(definition(tmp_path / "other", name="other", external=True))
    add(stand, f"file://{root}/k=1", table=OTHER, name="k=7")
    assert kept(vacuum(stand))["k=1"] == "1 file: needed by version 1 of table s.other (partition k=7)"
    assert stand.rows(OTHER) == {"k=7": "1\n"}
    stand.engine.command(stand.table(OTHER), DropPartitions(
        Comparison(Operator.EQ, "k", "7"), DataDeletion.NONE), "DROP PARTITION")  # fmt: skip
    vacuum(stand)
    assert not (root / "k=1").exists(), "the index still knew that the file was replaced"


def test_vacuum_leaves_what_another_table_over_the_folder_has(stand: Stand, root: Path) -> None:
    stand.create(definition(root, name="other", external=True))
    add(stand, table=OTHER)
    assert kept(vacuum(stand))["k=1"] == "1 file: needed by version 1 of table s.other (partition k=1)"
    assert stand.rows(OTHER) == {"k=1": "1\n"}


def test_insert_leaves_what_another_table_has(stand: Stand, root: Path, tmp_path: Path) -> None:
    stand.create(definition(tmp_path / "other", name="other", external=True))
    add(stand, f"file://{root}/k=1", table=OTHER, name="k=7")
    drop(stand)
    stand.write({"k=1": "third\n"})
    assert (stand.rows()["k=1"], stand.rows(OTHER)["k=7"]) == ("third\n", "1\n")


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
def test_replace_table_leaves_what_another_table_has(stand: Stand, root: Path, tmp_path: Path, kind: WriteKind) -> None:
    stand.create(definition(tmp_path / "other", name="other", external=True))
    add(stand, f"file://{root}/k=1", table=OTHER, name="k=7")
    table = stand.table()
    stand.write({"k=3": "3\n"}, kind, table=table, definition=table.definition, operation="RTAS")
    assert stand.rows(OTHER) == {"k=7": "1\n"}


def taken_back(stand: Stand, root: Path) -> None:
    set_location(stand, root)


def taken_over(stand: Stand, root: Path) -> None:
    add(stand, f"file://{root}/k=1", name="k=2")


def begun_only(stand: Stand, root: Path) -> None:
    """A command has begun and may have listed the directory; it commits later."""
    asked = RelocatePartition("k=1", f"file://{root}/k=1")
    stand.engine.begin(BeginWrite(asked, "SET LOCATION", "test", stand.table()))


@pytest.mark.parametrize("act", [taken_back, taken_over, begun_only])
def test_vacuum_asks_again_right_before_it_deletes(
    stand: Stand, root: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Stand, Path], None]
) -> None:
    """Attack A5: a statement names the directory between vacuum's look at the store and its deletion."""
    real, done = Storage.stat_many, []

    def stat_many(self: Storage, places: Sequence[Location]) -> list[Entry | None]:
        found = list(real(self, places))
        if not done and any("/k=1/part" in str(place) for place in places):
            done.append(1)
            act(stand, root)
        return found

    monkeypatch.setattr(Storage, "stat_many", stat_many)
    report = vacuum(stand)
    assert done
    assert "k=1" in kept(report)
    assert len(list(root.glob("k=1/*.csv"))) == 1


def test_unknown_writes_removes_relocated_rows_that_nothing_names(stand: Stand, root: Path) -> None:
    """Trial F14: SET LOCATION took the partition out of the overwrite's directory."""
    set_location(stand, root)
    for _ in range(2):
        (skipped,) = vacuum(stand).skipped
        assert re.search(r"1 file: written by the relocating overwrite \w+; no kept .*--unknown-writes", skipped.reason)
    assert [e.action for e in vacuum(stand, unknown_writes=True).entries if "_catalog_ext_data" in e.path] == [
        VacuumAction.DELETE
    ]
    assert not (root / "_catalog_ext_data").exists()
    assert stand.rows() == {"k=1": "1\n"}


def test_unknown_writes_leaves_relocated_rows_that_are_named(stand: Stand, tmp_path: Path) -> None:
    """By the table itself, and by a partition of another one."""
    vacuum(stand, unknown_writes=True)
    assert stand.rows() == {"k=1": "wrong\n"}
    (place,) = stand.index.partitions.located(stand.table()).values()
    stand.create(definition(tmp_path / "other", name="other", external=True))
    add(stand, place, table=OTHER, name="k=7")
    drop(stand)
    vacuum(stand)
    assert "needed by version 1 of table s.other" in kept(vacuum(stand, unknown_writes=True))["k=1"]
    assert stand.rows(OTHER) == {"k=7": "wrong\n"}


def test_vacuum_leaves_relocated_rows_of_a_table_below_a_hidden_folder(tmp_path: Path, stand: Stand) -> None:
    """Attack A4: table s.other lies at ``<t>/_archive/b``, and its rows are below a hidden folder of table s.t."""
    stand.create(definition(tmp_path / "t" / "_archive" / "b", name="other", external=True))
    stand.write({"k=1": "1\n"}, table=stand.table(OTHER))
    stand.write({"k=1": "2\n"}, DYNAMIC, table=stand.table(OTHER), options=RELOCATE)
    vacuum(stand)
    assert stand.rows(OTHER) == {"k=1": "2\n"}


def test_vacuum_leaves_a_file_that_was_brought_back_by_hand(stand: Stand, root: Path) -> None:
    """Attack A9: an overwrite in place deleted it; it was copied back from a snapshot, and no repair ran yet."""
    stand.write({"k=5": "5\n"})
    shutil.copytree(root / "k=5", root.parent / "snapshot")
    stand.write({"k=5": "wrong\n"}, DYNAMIC)
    shutil.copytree(root.parent / "snapshot", root / "k=5", dirs_exist_ok=True)
    vacuum(stand)
    assert len(list(root.glob("k=5/*.csv"))) == 2


@pytest.mark.parametrize("external", [False, True], ids=["managed", "external"])
def test_truncate_makes_the_directories_of_a_relocated_partition(tmp_path: Path, external: bool) -> None:
    """Attack B6: a repair drops a partition whose directory is not there."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=external))
        stand.write({"k=1": "1\n"})
        stand.write({}, WriteKind.OVERWRITE, predicate=K1, keep_emptied=True, options=RELOCATE)
        (place,) = index.partitions.located(stand.table()).values()
        assert os.listdir(place.removeprefix("file://")) == []


def test_relocating_overwrite_removes_an_empty_directory(stand: Stand, root: Path) -> None:
    """A repair would register the default directory again once the partition is dropped."""
    add(stand, name="k=3")
    stand.write({"k=3": "3\n"}, DYNAMIC, options=RELOCATE)
    assert not (root / "k=3").exists()


def test_vacuum_leaves_what_an_exchange_gave_to_another_table(stand: Stand, root: Path, tmp_path: Path) -> None:
    """The partition of an external table outside its directory keeps its files, which lie in another table's folder."""
    stand.create(definition(tmp_path / "b", name="source", external=True))
    stand.create(definition(tmp_path / "c", name="other", external=True))
    source = TableIdentifier("s", "source")
    add(stand, f"file://{root}/k=1", table=source)
    asked = ExchangePartitions(stand.table(source).table_id, "s.source", stand.table(source).version, K1)
    stand.engine.command(stand.table(OTHER), asked, "EXCHANGE PARTITION")
    assert "needed by version 1 of table s.other" in kept(vacuum(stand))["k=1"]
    assert stand.rows(OTHER) == {"k=1": "1\n"}


def test_vacuum_leaves_a_renamed_partition_at_the_place_of_replaced_files(stand: Stand, root: Path) -> None:
    set_location(stand, root)
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=5"), "RENAME PARTITION")
    vacuum(stand)
    assert stand.rows() == {"k=5": "1\n"}
    stand.engine.command(stand.table(), DropPartitions(
        Comparison(Operator.EQ, "k", "5"), DataDeletion.NONE), "DROP PARTITION")  # fmt: skip
    vacuum(stand)
    assert len(list(root.glob("k=1/*.csv"))) == 1


def test_vacuum_leaves_a_table_that_was_unregistered_and_registered_again(stand: Stand, root: Path) -> None:
    """The new table has the rows of the default directory; the old one's versions say nothing of it."""
    stand.index.tables.drop(TABLE, deliver=False)
    stand.create(definition(root, external=True))
    add(stand)
    vacuum(stand)
    assert stand.rows() == {"k=1": "1\n"}


def test_vacuum_leaves_files_that_a_load_is_moving(stand: Stand, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (entry,) = stand.storage.list_directory(f"file://{root}/k=1")
    reports: list[VacuumReport] = []
    with armed("promote.before", lambda _: reports.append(stand.engine.vacuum(stand.table(), -60))):
        take_files(stand.engine, stand.table(), "k=2", [entry], replaces=False)
    assert "moves it" in kept(reports[0])["k=1"]
    assert stand.rows() == {"k=1": "wrong\n", "k=2": "1\n"}


def test_repair_after_a_drop_registers_rows_that_were_brought_back(tmp_path: Path, stand: Stand, root: Path) -> None:
    """An expiry is a drop, too; ``repair`` left the file out as one that an overwrite had replaced."""
    set_location(stand, root)
    drop(stand)
    with connect(index=str(tmp_path / "index.db"), metastore=None, warehouse=str(tmp_path)) as catalog:
        report = catalog.repair_partitions("s.t")
        assert [entry.partition for entry in report.added] == ["k=1"]
    assert stand.rows() == {"k=1": "1\n"}


def test_replaced_files_of_one_partition_are_read_once(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page read all files of its partitions, once for each append to the partition."""
    for number in range(5):
        stand.write({"k=1": f"{number}\n"}, WriteKind.APPEND)
    stand.write({"k=1": "wrong again\n"}, DYNAMIC, options=RELOCATE)
    read: list[str] = []

    def lives(self: ended_files._Ended, *given: Any) -> Iterator[tuple[str, int, int]]:
        found = list(original(self, *given))
        read.extend(uri for uri, *_ in found)
        return iter(found)

    original = ended_files._Ended._lives
    monkeypatch.setattr(ended_files._Ended, "_lives", lives)
    monkeypatch.setattr(ended_files, "_PAGE", 2)
    table = stand.index.tables.load(TABLE)
    replaced = [file.uri for page in stand.index.ended_files.pages(table, table.version) for file in page]
    assert len(replaced) == 7
    assert sorted(read) == sorted(replaced)


@pytest.mark.parametrize("most", [0, 10_000])
def test_locations_are_read_once_however_many_are_asked_for(
    stand: Stand, root: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """REPLACE TABLE asks of all replaced files at once: 500 directories at a time read every location 2,000 times."""
    monkeypatch.setattr(needed_files, "_MOST_LOCATIONS", most)
    monkeypatch.setattr(needed_files, "_AT_ONCE", 1)
    (file,) = (root / "_catalog_ext_data").rglob("k=1/part-*")
    asked: list[str] = []
    sa.event.listen(
        stand.index._database.engine, "before_cursor_execute", lambda _, __, statement, *more: asked.append(statement)
    )
    # No table lies above these: only partitions at locations of their own can be there.
    elsewhere = [f"file:///elsewhere/{number}/f" for number in range(20)]
    assert stand.index.needed_files.users([f"file://{file}", *elsewhere]).keys() == {f"file://{file}"}
    assert sum("location IS NOT NULL" in statement for statement in asked) == 1


@pytest.mark.parametrize(
    ("operation", "sharer"), [("rename", "other table"), ("exchange", "other table"), ("exchange", "same table")]
)
def test_move_is_refused_where_another_partition_has_the_files(
    tmp_path: Path, root: Path, operation: str, sharer: str
) -> None:
    """The partition that stays would point at files that are gone."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=sharer == "same table"))
        stand.create(definition(tmp_path / "other", name="other", external=True))
        stand.create(definition(tmp_path / "target", name="target"))
        stand.write({"k=1": "1\n"})
        sharing = TABLE if sharer == "same table" else OTHER
        add(stand, f"file://{root}/k=1", table=sharing, name="k=7")
        table = stand.table()
        asked: RenamePartition | ExchangePartitions = RenamePartition("k=1", "k=2")
        changed = table
        if operation == "exchange":
            asked = ExchangePartitions(table.table_id, "s.t", table.version, K1)
            changed = stand.table(TableIdentifier("s", "target"))
        with pytest.raises(TableLayoutError, match=r"cannot move .*k=7.* has them too.*Nothing was changed"):
            stand.engine.command(changed, asked, operation.upper())
        assert (stand.rows()["k=1"], stand.rows(sharing)["k=7"]) == ("1\n", "1\n")


def test_exchange_is_refused_where_two_moved_partitions_have_one_directory(
    tmp_path: Path, stand: Stand, root: Path
) -> None:
    set_location(stand, root)
    add(stand, f"file://{root}/k=1", name="k=7")
    stand.create(definition(tmp_path / "other", name="other", external=True))
    asked = ExchangePartitions(stand.table().table_id, "s.t", stand.table().version, TRUE)
    with pytest.raises(TableLayoutError, match="Nothing was changed"):
        stand.engine.command(stand.table(OTHER), asked, "EXCHANGE PARTITION")
    assert stand.rows() == {"k=1": "1\n", "k=7": "1\n"}
