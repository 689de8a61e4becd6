"""What a DELETE or overwrite of everything leaves unsettled, and who settles it first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.metastore.index.database.migration import known_revisions
from catalog_ext.metastore.index.database.schema import files, partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.read.marked_rows import at_version
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import TRUE
from tests.kit.index_cases import create, data_files, listed_names, local_index, planned_names
from tests.kit.next_revision import next_release
from tests.kit.transaction_cases import begin, files_by_partition, finish, plan, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

KEYS = {"k": "int", "r": "string"}


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setattr(deferred_deletes, "MANY", 0)
    monkeypatch.setattr(deferred_deletes, "_PAGE", 3)
    with local_index(tmp_path) as index:
        yield index


def filled(index: Index, count: int = 8, name: str = "t") -> Table:
    table = create(index, name=name, keys=KEYS)
    adds = [AddPartition(f"k={i}/r=a", data_files(2)) for i in range(count)]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=True)
    for message in index.outbox.pending(1000):
        assert index.outbox.skip(message.outbox_id)
    return index.tables.load(table.identifier)


def delete(index: Index, table: Table, *partitions: str, relocate: bool = False) -> str:
    """Delete or overwrite everything, and settle nothing; return the transaction's id."""
    asked = plan(table, WriteKind.OVERWRITE, relocate=relocate)
    made = begin(index, index.tables.load(table.identifier), asked, *partitions)
    finish(index, made, deliver=True)
    assert index.tables.load(table.identifier).deleted_before_version == table.version + 1
    return made.transaction_id


def unended(index: Index, table: Table) -> tuple[int, int]:
    """How many rows of partitions and of files have no end."""
    with index._database.reading() as connection:
        counts = [
            connection.execute(sa.select(sa.func.count()).select_from(rows).where(rows.c.end_version == ALIVE)).scalar()
            for rows in (partitions, files)
        ]
    return counts[0] or 0, counts[1] or 0


@pytest.mark.slow
def test_its_commit_asks_as_much_of_a_table_of_any_size(index: Index) -> None:
    asked = []
    for name, count in (("few", 5), ("many", 500)):
        table = filled(index, count, name)
        made = begin(index, table, plan(table, WriteKind.OVERWRITE))
        index.commits.reserve(Commit(made))
        before, rows = index.query_count, unended(index, table)
        outcome = index.commits.apply(Commit(made), deliver=True).outcome
        asked.append(index.query_count - before)
        assert outcome is not None
        assert (outcome.partitions_removed, outcome.files_removed) == (count, 2 * count)
        assert unended(index, table) == rows
        deferred_deletes.complete(index._database, table_id=table.table_id)
        assert unended(index, table) == (0, 0)
    assert asked[0] == asked[1] < 30


def test_readers_see_at_once_what_it_has_done(index: Index) -> None:
    table = filled(index)
    old = planned_names(index, table)
    transaction_id = delete(index, table, "k=1/r=a", "k=9/r=b")
    for settled in (False, True):
        if settled:
            deferred_deletes.complete(index._database, transaction_id=transaction_id)
        now = index.tables.load(table.identifier)
        assert (now.deleted_before_version == 0) is settled
        assert (now.totals.partitions, now.totals.files) == (2, 2)
        assert listed_names(index, now) == ["k=1/r=a", "k=9/r=b"]
        assert sorted(files_by_partition(index, table)) == ["k=1/r=a", "k=9/r=b"]
        assert index.partitions.existing(now, ["k=1/r=a", "k=2/r=a"]) == {"k=1/r=a"}
        groups = (
            index.partition_groups.groups(now, None, now.definition.keys[:1], WantedGroups.ROWS).read_all().to_pylist()
        )
        assert sorted((row["partition"], row["files"]) for row in groups) == [("k=1/r=a", 1), ("k=9/r=b", 1)]
        assert [p.name for p in index.living_partitions.of_values(table, ["k=1/r=a", "k=2/r=a"])] == ["k=1/r=a"]
        assert sorted(p.name for p in index.living_partitions.matching(table, TRUE)) == ["k=1/r=a", "k=9/r=b"]
        assert sorted(p.name for p in index.publications.page(now, -1)[0]) == ["k=1/r=a", "k=9/r=b"]
        assert planned_names(index, table) == old, "the version before"
        states = index.partition_history.rows(now).read_all().to_pylist()
        living = [state["partition"] for state in states if state["until_version"] is None]
        assert sorted(living) == ["k=1/r=a", "k=9/r=b"]
        ended_by = {state["until_version"] for state in states if state["version"] <= table.version}
        assert ended_by == {now.version}
        (newest, *_) = index.tables.history(table.identifier)
        assert newest.summary["partitions_removed"] == 7
        assert (newest.summary["partitions_changed"], newest.summary["partitions_added"]) == (1, 1)
        assert newest.summary["files_removed"] == 16


def test_what_it_has_ended_has_changed_before_it_is_settled(index: Index) -> None:
    table = filled(index, 3)
    names = [f"k={i}/r=a" for i in range(4)]
    transaction_id = delete(index, table, "k=2/r=a")
    for settled in (False, True):
        if settled:
            deferred_deletes.complete(index._database, transaction_id=transaction_id)
        now = index.tables.load(table.identifier)
        assert index.living_partitions.changed_after(table, names) == dict.fromkeys(names[:3], now.version)
        assert index.living_partitions.changed_after(now, names) == {}


def test_a_table_without_a_floor_is_read_as_ever(index: Index) -> None:
    table = filled(index)
    assert len(at_version(partitions, table)) == 3
    delete(index, table)
    assert len(at_version(partitions, index.tables.load(table.identifier))) == 4
    assert len(at_version(partitions, table)) == 3


def append(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1/r=a")


def repair(index: Index, table: Table) -> None:
    # Another file than those that are about to be deleted, which nothing registers any more.
    found = (DataFile("found.parquet", 100, 1_700_000_000_000),)
    index.commits.apply_changes(table.table_id, [AddPartition("k=1/r=a", found)], operation="repair", deliver=False)


def repair_of_what_is_gone(index: Index, table: Table) -> None:
    with pytest.raises(ConflictError, match="no longer there"):
        index.commits.apply_changes(table.table_id, [DropPartition("k=1/r=a")], operation="repair", deliver=False)


def overwrite(index: Index, table: Table) -> None:
    write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=1/r=a")


def again(index: Index, table: Table) -> None:
    write(index, table, plan(table, WriteKind.OVERWRITE))


def deliveries(index: Index, table: Table) -> None:
    index.publications.last_delivery(table)


def removals(index: Index, table: Table) -> None:
    (transaction,) = index.transactions.all(table.table_id)
    assert len(list(index.deletions.of(transaction.transaction_id))) == 16


def expire(index: Index, table: Table) -> None:
    index.versions.expire(table.table_id, table.version + 1)
    with index._database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(partitions)).scalar() == 0
        assert connection.execute(sa.select(sa.func.count()).select_from(files)).scalar() == 0


def ended(index: Index, table: Table) -> None:
    assert sum(map(len, index.ended_files.pages(table, table.version + 1))) == 16


@pytest.mark.parametrize(
    "act", [append, repair, repair_of_what_is_gone, overwrite, again, deliveries, removals, expire, ended]
)
def test_writers_complete_a_deferred_delete_first(index: Index, act: Callable[[Index, Table], None]) -> None:
    table = filled(index)
    delete(index, table, relocate=act is ended)
    assert unended(index, table) == (8, 16)
    act(index, table)
    assert index.tables.load(table.identifier).deleted_before_version == 0
    named = ["k=1/r=a"] if act in (append, repair, overwrite) else []
    assert listed_names(index, index.tables.load(table.identifier)) == named
    assert unended(index, table)[0] == len(named)
    assert index.tables.load(table.identifier).totals.partitions == len(named)


def test_a_table_that_is_dropped_is_settled_first(index: Index) -> None:
    table = filled(index)
    transaction_id = delete(index, table)
    index.tables.drop(table.identifier, deliver=True)
    assert len(list(index.deletions.of(transaction_id))) == 16, "its files are an external table's own no more"
    assert listed_names(index, create(index, keys=KEYS)) == []


def test_the_metastore_hears_of_what_was_settled_before_what_came_after(index: Index) -> None:
    table = filled(index)
    delete(index, table, "k=1/r=a")
    index.alterations.rename(table.identifier, TableIdentifier("s", "u"), deliver=True)
    write(index, index.tables.load(TableIdentifier("s", "u")), plan(table), "k=2/r=a", deliver=True)
    reported = [(m.operation, m.table, m.payload) for m in index.outbox.pending(100)]
    assert [operation for operation, *_ in reported] == [
        "sync_partitions", "rename_table", *["sync_partitions"] * 3, "sync_partitions"
    ]  # fmt: skip
    assert [table for _, table, _ in reported[2:]] == ["u"] * 4
    dropped = [name for _, _, payload in reported[2:-1] for name in payload["drop"]]
    assert sorted(dropped) == [f"k={i}/r=a" for i in range(8) if i != 1]
    assert [added["name"] for added in reported[-1][2]["add"]] == ["k=2/r=a"]
    committed = [m.created_at_ms for m in index.outbox.pending(100)]
    assert {at - committed[0] <= 1000 for at in committed[2:5]} == {True}, "they are of the commit"


def test_few_rows_are_ended_by_the_commit(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    table = filled(index)
    monkeypatch.setattr(deferred_deletes, "MANY", 24)
    write(index, table, plan(table, WriteKind.OVERWRITE))
    assert index.tables.load(table.identifier).deleted_before_version == 0
    assert unended(index, table) == (0, 0)


@pytest.mark.parametrize("keep_emptied", [False, True])
def test_partitions_that_stay_or_have_own_locations_change_at_commit(index: Index, keep_emptied: bool) -> None:
    table = filled(index)
    if not keep_emptied:
        own = AddPartition("k=99/r=a", data_files(1), f"{table.definition.location}/elsewhere")
        index.commits.apply_changes(table.table_id, [own], operation="repair", deliver=False)
    write(index, table, plan(table, WriteKind.OVERWRITE, keep_emptied=keep_emptied))
    now = index.tables.load(table.identifier)
    assert now.deleted_before_version == 0
    assert listed_names(index, now) == ([f"k={i}/r=a" for i in range(8)] if keep_emptied else [])


def test_downgrade_completes_deferred_deletes_first(index: Index) -> None:
    table = filled(index)
    with next_release():
        index.migrate()
        delete(index, table)
        index.migrate(known_revisions()[-2])
    assert unended(index, table) == (0, 0)
    assert listed_names(index, index.tables.load(table.identifier)) == []


def test_a_conflict_is_still_one(index: Index) -> None:
    table = filled(index)
    late = begin(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=3/r=a")
    delete(index, table)
    with pytest.raises(ConflictError, match="Another writer was first"):
        finish(index, late)
