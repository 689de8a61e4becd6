"""No statement deletes or moves a file that another table needs; nothing is registered that is being deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

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
from catalog_ext.metastore.commit.transaction import VACUUM, State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, TableLayoutError
from catalog_ext.metastore.index.read import ended_files
from catalog_ext.metastore.index.tables.dropped import overlap
from catalog_ext.metastore.index.write.deletion_checks import _neighbours, tables_near
from catalog_ext.metastore.index.write.transaction_rows import IN_FLIGHT
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions import vacuum
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from catalog_ext.metastore.transactions.taken_files import take_files
from tests.kit.index_cases import local_index
from tests.kit.repair_cases import local_catalog
from tests.kit.write_cases import DYNAMIC, K1, RELOCATE, Stand, definition
from tests.kit.writes import Crash, crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

B = TableIdentifier("s", "b")
A_ROWS, B_ROWS = {"k=1": "1\n", "k=2": "2\n"}, {"k=7": "1\n"}


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    """The managed table t, and b, whose partition k=7 lies in the directory of t's k=1."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.write({"k=1": "1\n", "k=2": "2\n"})
        stand.create(definition(tmp_path / "b", name="b", external=True))
        share(stand, tmp_path)
        yield stand


def share(stand: Stand, folder: Path) -> None:
    asked = AddPartitions((NewPartition("k=7", f"file://{folder}/t/k=1"),))
    stand.engine.command(stand.table(B), asked, "ADD PARTITION")


def overwrite(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, DYNAMIC)


def replace_where(stand: Stand) -> None:
    stand.write({"k=1": "9\n"}, WriteKind.OVERWRITE, predicate=K1)


def delete(stand: Stand) -> None:
    stand.engine.delete(stand.table(), K1, truncate=False)


def delete_everything(stand: Stand) -> None:
    stand.engine.delete(stand.table(), None, truncate=False)


def truncate(stand: Stand) -> None:
    stand.engine.delete(stand.table(), K1, truncate=True)


def drop(stand: Stand) -> None:
    stand.engine.command(stand.table(), DropPartitions(K1, DataDeletion.INSIDE), "DROP PARTITION")


def rename(stand: Stand) -> None:
    stand.engine.command(stand.table(), RenamePartition("k=1", "k=5"), "RENAME PARTITION")


def exchange(stand: Stand) -> None:
    source = stand.table()
    stand.create(definition(source.definition.location.replace("/t", "/c"), name="c"))
    asked = ExchangePartitions(source.table_id, "s.t", source.version, K1)
    stand.engine.command(stand.table(TableIdentifier("s", "c")), asked, "EXCHANGE PARTITION")


def replace_table(stand: Stand) -> None:
    made = stand.table().definition
    stand.write({"k=5": "9\n"}, WriteKind.REPLACE, definition=made, table=stand.table(), operation="RTAS")


DELETING = [overwrite, replace_where, delete, delete_everything, truncate, drop]
STATEMENTS = [*DELETING, rename, exchange]


@pytest.mark.parametrize("statement", [*STATEMENTS, replace_table])
def test_statement_is_refused_when_another_table_has_the_files(
    stand: Stand, statement: Callable[[Stand], None]
) -> None:
    """A3: INSERT OVERWRITE, DELETE, TRUNCATE and DROP deleted the rows of table b."""
    with pytest.raises(TableLayoutError, match=r"partition 'k=7' of table s\.b has"):
        statement(stand)
    assert (stand.rows(), stand.rows(B)) == (A_ROWS, B_ROWS)
    assert stand.strays() == []


@pytest.mark.parametrize("statement", [*STATEMENTS, replace_table])
def test_statement_is_refused_when_files_were_registered_after_its_check(
    stand: Stand, tmp_path: Path, statement: Callable[[Stand], None]
) -> None:
    stand.engine.command(stand.table(B), DropPartitions(Comparison(Operator.EQ, "k", "7"), DataDeletion.NONE), "DROP")
    shared: list[str] = []

    def meanwhile(point: str) -> None:
        if not shared:
            shared.append(point)
            share(stand, tmp_path)

    with armed("check.after", meanwhile), pytest.raises(TableLayoutError, match=r"table s\.b"):
        statement(stand)
    assert (stand.rows(), stand.rows(B)) == (A_ROWS, B_ROWS)


@pytest.mark.parametrize("point", ["reserve.after", "apply.before", "apply.after", "clean.before"])
@pytest.mark.parametrize("statement", [*STATEMENTS, replace_table])
def test_files_cannot_be_registered_while_they_are_deleted(
    stand: Stand, tmp_path: Path, statement: Callable[[Stand], None], point: str
) -> None:
    """Whatever the point: a partition of b that was added has its rows, before and after recovery."""
    stand.engine.command(stand.table(B), DropPartitions(Comparison(Operator.EQ, "k", "7"), DataDeletion.NONE), "DROP")
    crash_at(point, lambda: statement(stand))
    with contextlib.suppress(ConflictError):
        share(stand, tmp_path)
    before = stand.rows(B)
    stand.engine.recover(older_than_s=0)
    assert stand.rows(B) == before
    assert "1\n" not in before.get("k=7", ""), "b may have what t got, not what t has lost"


@pytest.mark.parametrize("statement", DELETING)
def test_two_tables_in_one_folder(tmp_path: Path, statement: Callable[[Stand], None]) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        stand.write({"k=1": "1\n", "k=2": "2\n"})
        table = stand.table()
        stand.create(definition(tmp_path / "t", name="b", external=True))
        files = index.living_partitions.files(
            [p.partition_id for p in index.living_partitions.of_values(table, ["k=1"])]
        )
        changes = [AddPartition("k=1", tuple(file for there in files.values() for file in there))]
        index.commits.apply_changes(stand.table(B).table_id, changes, operation="repair", deliver=False)
        with pytest.raises(TableLayoutError, match=r"table s\.b"):
            statement(stand)
        stand.write({"k=2": "9\n"}, DYNAMIC)
        stand.write({"k=1": "9\n"}, DYNAMIC, options=RELOCATE)
        assert stand.rows(B) == {"k=1": "1\n"}
        assert stand.rows() == {"k=1": "9\n", "k=2": "9\n"}


def test_replacement_is_refused_if_another_table_has_the_tables_files(tmp_path: Path) -> None:
    """Its files lie in the table's directory itself, which did not count as inside of it."""
    with local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        stand.create(definition(tmp_path / "t", {}, external=True))
        stand.write({"": "1\n"})
        stand.create(definition(tmp_path / "t", {}, name="b", external=True))
        catalog.repair_partitions("s.b")
        made = stand.table().definition
        with pytest.raises(TableLayoutError, match=r"table s\.b has it too"):
            stand.write({"": "9\n"}, WriteKind.REPLACE, definition=made, table=stand.table(), operation="RTAS")
        assert stand.rows(B) == {"": "1\n"}


def deleted(report: VacuumReport) -> list[str]:
    return [entry.path for entry in report.entries if entry.action is VacuumAction.DELETE]


def set_location(stand: Stand, folder: Path) -> None:
    asked = RelocatePartition("k=1", f"file://{folder}/t/k=1")
    stand.engine.command(stand.table(), asked, "SET LOCATION")


def add_another(stand: Stand, folder: Path) -> None:
    asked = AddPartitions((NewPartition("k=3", f"file://{folder}/t/k=1"),))
    stand.engine.command(stand.table(), asked, "ADD PARTITION")


def add_to_other_table(stand: Stand, folder: Path) -> None:
    stand.create(definition(folder / "b", name="b", external=True))
    share(stand, folder)


@pytest.fixture
def overwritten(tmp_path: Path) -> Iterator[Stand]:
    """An external table whose k=1 was relocated by an overwrite: a replaced file lies in its default directory."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        stand.write({"k=1": "1\n"})
        stand.write({"k=1": "new\n"}, DYNAMIC, options=RELOCATE)
        time.sleep(0.005)
        yield stand


@pytest.mark.parametrize("taking_back", [set_location, add_another, add_to_other_table])
def test_replaced_files_cannot_be_taken_back_while_vacuum_deletes_them(
    overwritten: Stand, tmp_path: Path, taking_back: Callable[[Stand, Path], None]
) -> None:
    """A5: the command was acknowledged with rows whose files vacuum deleted."""
    said: list[str] = []

    def meanwhile(_: str) -> None:
        with pytest.raises(ConflictError, match="try again when it has ended") as refused:
            taking_back(overwritten, tmp_path)
        said.append(refused.value.message)

    with armed("vacuum.claimed", meanwhile):
        report = overwritten.engine.vacuum(overwritten.table(), 0)
    assert [path.rpartition("/")[0] for path in deleted(report)] == [f"file://{tmp_path}/t/k=1"]
    assert len(said) == 1
    assert overwritten.rows() == {"k=1": "new\n"}
    assert not any(one.operation == VACUUM for one in overwritten.index.transactions.all(states=IN_FLIGHT))


def test_vacuum_leaves_what_was_taken_back_before_its_claim(
    overwritten: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand, claim = overwritten, overwritten.index.deletions.claim

    def late(*given: Any) -> object:
        set_location(stand, tmp_path)
        return claim(*given)

    monkeypatch.setattr(stand.index.deletions, "claim", late)
    report = stand.engine.vacuum(stand.table(), 0)
    assert "needed by version 3 of table s.t (partition k=1)" in " ".join(entry.reason for entry in report.kept)
    assert stand.rows() == {"k=1": "1\n"}


def test_recover_deletes_what_a_dead_vacuum_had_claimed(overwritten: Stand, tmp_path: Path) -> None:
    stand = overwritten

    def die(_: str) -> None:
        raise Crash

    finish, stand.index.transactions.finish = stand.index.transactions.finish, lambda _: False  # type: ignore[method-assign]
    with armed("vacuum.claimed", die), contextlib.suppress(Crash):
        stand.engine.vacuum(stand.table(), 0)
    stand.index.transactions.finish = finish  # type: ignore[method-assign]
    (claimed,) = stand.index.transactions.all(states=(State.COMMITTED,))
    assert claimed.operation == VACUUM
    with pytest.raises(ConflictError):
        set_location(stand, tmp_path)
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == {"k=1": "new\n"}
    assert list((tmp_path / "t").glob("k=1/*.csv")) == []
    assert stand.index.transactions.all(states=(State.COMMITTED,)) == []


def test_replaced_files_that_vacuum_forgets_meanwhile_are_passed_over(
    overwritten: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """READ COMMITTED: the second query of a page misses rows of the first one. Repairs and vacuums stopped."""
    last_ends = ended_files._Ended._last_ends

    def late(*given: Any) -> object:
        monkeypatch.setattr(ended_files._Ended, "_last_ends", last_ends)
        overwritten.engine.vacuum(overwritten.table(), 0)
        return last_ends(*given)

    monkeypatch.setattr(ended_files._Ended, "_last_ends", late)
    table = overwritten.table()
    assert [file for page in overwritten.index.ended_files.pages(table, table.version) for file in page] == []


def test_vacuum_claims_at_most_a_batch(overwritten: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vacuum, "_AT_ONCE", 1)
    overwritten.write({"k=2": "1\n"})
    overwritten.write({"k=2": "new\n"}, DYNAMIC, options=RELOCATE)
    time.sleep(0.005)
    claimed: list[int] = []
    claim = overwritten.index.deletions.claim

    def count(*given: Any) -> object:
        claimed.append(len(given[1]))
        return claim(*given)

    monkeypatch.setattr(overwritten.index.deletions, "claim", count)
    overwritten.engine.vacuum(overwritten.table(), 0)
    assert claimed == [1, 1]


def forget(catalog: Catalog) -> None:
    catalog.unregister_table("s.t")


def drop_table(catalog: Catalog) -> None:
    catalog.drop_table("s.t")


def keep(_: Catalog) -> None:
    pass


def registered(catalog: Catalog, folder: Path, name: str) -> dict[str, str]:
    catalog.register_table(
        f"s.{name}", location=str(folder / "t"), format="csv", schema="x INT", partition_columns={"k": "int"}
    )
    catalog.repair_partitions(f"s.{name}")
    return Stand(catalog.index).rows(TableIdentifier("s", name))


@pytest.mark.filterwarnings("ignore::catalog_ext.tables.locations.TableOverlapWarning")
@pytest.mark.parametrize("point", ["apply.after", "clean.before", "clean.removed"])
@pytest.mark.parametrize("going", [forget, drop_table, keep])
@pytest.mark.parametrize("is_delete", [False, True], ids=["overwrite", "delete"])
def test_registering_again_finds_no_replaced_rows(
    tmp_path: Path, going: Callable[[Catalog], None], point: str, is_delete: bool
) -> None:
    """A7: the table registered anew had old and new rows, then files that were not there."""
    with local_catalog(tmp_path) as catalog:
        stand = Stand(catalog.index)
        stand.create(definition(tmp_path / "t", external=True))
        insert(catalog, "k=1", "k=3")

        def statement() -> None:
            if is_delete:
                table = catalog.load_table("s.t")
                catalog.writes.delete(table.table_id, table.version, K1, truncate=False)
            else:
                insert(catalog, "k=1", kind=DYNAMIC)

        crash_at(point, statement)
        going(catalog)
        name = "u" if going is keep else "t"
        expected = {"k=3": "x\n"} if is_delete else {"k=1": "x\n", "k=3": "x\n"}
        assert registered(catalog, tmp_path, name) == expected
        catalog.recover(older_than="0s")
        assert Stand(catalog.index).rows(TableIdentifier("s", name)) == expected


def test_unregistering_deletes_what_a_committed_overwrite_replaced(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        Stand(catalog.index).create(definition(tmp_path / "t", external=True))
        insert(catalog, "k=1")
        crash_at("clean.before", lambda: insert(catalog, "k=1", kind=DYNAMIC))
        assert len(list((tmp_path / "t").glob("k=1/*.csv"))) == 2
        catalog.unregister_table("s.t")
        assert len(list((tmp_path / "t").glob("k=1/*.csv"))) == 1


@pytest.mark.parametrize("place", ["_archive/b", ".b", "_b", "sub/b"])
def test_vacuum_does_not_look_into_another_table(tmp_path: Path, place: str) -> None:
    """A4: staged and relocated files of a table below t are not t's, dead or alive."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        stand.write({"k=1": "1\n"})
        (tmp_path / "t" / place).mkdir(parents=True)
        stand.create(definition(tmp_path / "t" / place, name="b", external=True))
        begun = stand.begin(table=stand.table(B))
        stand.put(begun, {"k=1": "1\n"})
        stand.engine.abort(begun.transaction_id, "given up")
        stand.put(begun, {"k=1": "late\n"})
        time.sleep(0.005)
        assert deleted(stand.engine.vacuum(stand.table(), 0, unknown_writes=True)) == []
        assert len(deleted(stand.engine.vacuum(stand.table(B), 0))) == 1


def test_repair_knows_files_of_aborted_writes_where_another_table_lies(tmp_path: Path) -> None:
    """Vacuum does not look into table b, and forgot by which writes the files that t's repair finds there are."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        stand.write({"k=1": "1\n"})
        stand.create(definition(tmp_path / "t" / "k=1", {}, name="b", external=True))
        begun = stand.begin()
        staged = stand.put(begun, {"k=1": "9\n"})
        crash_at("promote.after", lambda: stand.engine.commit(begun.transaction_id, staged))
        promoted = tmp_path / "t" / "k=1" / staged[0].name
        late = promoted.read_bytes()
        stand.engine.undo(begun.transaction_id)
        promoted.write_bytes(late)
        stand.write({"k=2": "2\n"})
        time.sleep(0.005)
        stand.engine.vacuum(stand.table(), 0)
        assert index.transactions.uncommitted_ids(stand.table().table_id, stand.table().version) == {
            begun.transaction_id: State.ABORTED
        }


def test_recover_leaves_a_folder_that_took_the_place_of_a_dropped_table(tmp_path: Path) -> None:
    """A9: all its files are older than the DROP."""
    with local_catalog(tmp_path) as catalog:
        Stand(catalog.index).create(definition(tmp_path / "t"))
        insert(catalog, "k=1")
        (tmp_path / "import" / "k=1").mkdir(parents=True)
        theirs = tmp_path / "t" / "k=1" / "theirs.csv"
        (tmp_path / "import" / "k=1" / "theirs.csv").write_text("1\n")
        time.sleep(0.005)
        crash_at("drop.before", lambda: catalog.drop_table("s.t"))
        shutil.rmtree(tmp_path / "t")
        (tmp_path / "import").rename(tmp_path / "t")
        catalog.recover(older_than="0s")
        assert theirs.read_text() == "1\n"
        assert catalog.index.dropped_tables.undeleted() == []


def test_recover_leaves_a_new_folder_at_a_dropped_tables_place(tmp_path: Path) -> None:
    """As by ``rm -r`` and ``rsync -a``: ext4 gives the new folder the inode of the old one."""
    with local_catalog(tmp_path) as catalog:
        Stand(catalog.index).create(definition(tmp_path / "t"))
        theirs = tmp_path / "t" / "theirs.csv"
        crash_at("drop.before", lambda: catalog.drop_table("s.t"))
        removed = (tmp_path / "t").stat().st_ino
        shutil.rmtree(tmp_path / "t")
        for i in range(1000):
            made = tmp_path / f"made-{i}"
            made.mkdir()
            if made.stat().st_ino == removed:
                break
        made.rename(tmp_path / "t")
        theirs.write_text("1\n")
        os.utime(theirs, (1_000_000_000, 1_000_000_000))
        catalog.recover(older_than="0s")
        assert theirs.read_text() == "1\n"
        assert catalog.index.dropped_tables.undeleted() == []


def test_locks_for_many_places_take_a_few_queries(tmp_path: Path) -> None:
    """PostgreSQL and MariaDB sent two queries for each directory of an import, under the lock of the table."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", external=True))
        stand.write({"k=1": "1\n"})
        stand.create(definition(tmp_path / "b", name="b", external=True))
        stand.create(definition(tmp_path / "far/c", name="c", external=True))
        places = [f"file://{tmp_path}/{place}" for place in ("t/k=1", "far", *(f"other/k={i}" for i in range(200)))]
        table, before = stand.table(B), index.query_count
        with index._database.reading() as connection:
            found = tables_near(connection, table, places)
        assert found == {stand.table().table_id, stand.table(TableIdentifier("s", "c")).table_id}
        assert index.query_count - before <= 10


def test_own_located_partitions_answer_before_the_directory_is_searched(overwritten: Stand, tmp_path: Path) -> None:
    """The search reads all relocated partitions of the table (0.3 s for 100,000) and cannot change the answer."""
    add_to_other_table(overwritten, tmp_path)
    located = overwritten.table()
    asked = overlap(located.definition.location)
    with overwritten.index._database.reading() as connection:
        found = _neighbours(tuple(asked)).rows(connection, {**asked, "table_id": located.table_id})
        assert [row["table_id"] for row in found] == [located.table_id]


@pytest.fixture
def unpartitioned(tmp_path: Path) -> Iterator[Stand]:
    """The unpartitioned table t, and an empty one of the name b."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t", {}))
        stand.write({"": "1\n"})
        stand.create(definition(tmp_path / "b", name="b", external=True))
        yield stand


def register_directory(stand: Stand, folder: Path) -> None:
    asked = AddPartitions((NewPartition("k=7", f"file://{folder}/t"),))
    stand.engine.command(stand.table(B), asked, "ADD PARTITION")


def overwrite_all(stand: Stand, kind: WriteKind) -> None:
    if kind is WriteKind.REPLACE:
        stand.write({"": "9\n"}, kind, definition=stand.table().definition, table=stand.table(), operation="RTAS")
    else:
        stand.write({"": "9\n"}, kind)


@pytest.mark.parametrize("kind", [WriteKind.OVERWRITE, DYNAMIC, WriteKind.REPLACE])
def test_overwrite_is_refused_if_another_table_has_the_tables_files(
    unpartitioned: Stand, tmp_path: Path, kind: WriteKind
) -> None:
    register_directory(unpartitioned, tmp_path)
    with pytest.raises(TableLayoutError, match=r"partition 'k=7' of table s\.b has"):
        overwrite_all(unpartitioned, kind)
    assert (unpartitioned.rows(), unpartitioned.rows(B)) == ({"": "1\n"}, {"k=7": "1\n"})


@pytest.mark.parametrize("point", ["reserve.after", "apply.before", "apply.after", "clean.before"])
@pytest.mark.parametrize("kind", [WriteKind.OVERWRITE, DYNAMIC, WriteKind.REPLACE])
def test_files_of_an_unpartitioned_table_are_not_registered_during_delete(
    unpartitioned: Stand, tmp_path: Path, kind: WriteKind, point: str
) -> None:
    crash_at(point, lambda: overwrite_all(unpartitioned, kind))
    with contextlib.suppress(ConflictError):
        register_directory(unpartitioned, tmp_path)
    before = unpartitioned.rows(B)
    unpartitioned.engine.recover(older_than_s=0)
    assert unpartitioned.rows(B) == before
    assert "1\n" not in before.get("k=7", "")


@pytest.mark.parametrize("replaces", [False, True], ids=["INTO", "OVERWRITE INTO"])
def test_load_is_refused_when_its_files_were_registered_after_its_check(tmp_path: Path, replaces: bool) -> None:
    """LOAD DATA moved the files of a partition that another table had got since LOAD DATA had looked."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.create(definition(tmp_path / "b", name="b", external=True))
        landed = tmp_path / "in" / "000000_0.csv"
        landed.parent.mkdir()
        landed.write_text("1\n")
        registered: list[str] = []

        def meanwhile(point: str) -> None:
            if not registered:
                registered.append(point)
                asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/in"),))
                stand.engine.command(stand.table(B), asked, "ADD PARTITION")

        (entry,) = stand.storage.list_directory(f"file://{tmp_path}/in")
        with armed("check.after", meanwhile), pytest.raises(ConflictError, match=r"partition 'k=7' of table s\.b"):
            take_files(stand.engine, stand.table(), "k=1", [entry], replaces=replaces)
        assert stand.rows(B) == {"k=7": "1\n"}
        assert (stand.rows(), landed.read_text()) == ({}, "1\n")


def test_partition_is_not_added_if_a_load_moved_its_files_after_the_check(tmp_path: Path) -> None:
    """It was acknowledged, and each query of it failed."""
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.create(definition(tmp_path / "b", name="b", external=True))
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "000000_0.csv").write_text("1\n")
        (entry,) = stand.storage.list_directory(f"file://{tmp_path}/in")
        loaded: list[str] = []

        def meanwhile(point: str) -> None:
            if not loaded:
                loaded.append(point)
                take_files(stand.engine, stand.table(), "k=1", [entry], replaces=False)

        asked = AddPartitions((NewPartition("k=7", f"file://{tmp_path}/in"),))
        with armed("check.after", meanwhile), pytest.raises(ConflictError, match="deleting or moving"):
            stand.engine.command(stand.table(B), asked, "ADD PARTITION")
        assert (stand.rows(), stand.rows(B)) == ({"k=1": "1\n"}, {})
