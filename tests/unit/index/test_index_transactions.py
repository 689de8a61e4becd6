"""Transactions in the index, on SQLite: what each kind of write changes, and what each step refuses."""

from __future__ import annotations

import sqlite3
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.transaction import State, Transaction
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
    InvalidPartitionNameError,
    InvalidValueError,
    TableAlreadyExistsError,
    TableNotFoundError,
    TransactionNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.texts import name_hash
from catalog_ext.metastore.index.write import applying, claim_checks
from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.index_cases import create, data_files, definition, local_index
from tests.kit.transaction_cases import (
    begin,
    creation,
    files_by_partition,
    finish,
    plan,
    relocated,
    staged,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sqlalchemy as sa

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(index: Index) -> Table:
    return create(index, keys={"k": "int"})


def counts(index: Index, table: Table) -> dict[str, int]:
    return {name: len(paths) for name, paths in files_by_partition(index, table).items()}


def test_an_append_adds_partitions_and_files_in_one_version(index: Index, table: Table) -> None:
    index.commits.apply_changes(
        table.table_id, [AddPartition("k=1", data_files(2, 5))], operation="repair", deliver=False
    )
    made = begin(index, index.tables.load(table.identifier), plan(table), "k=1", "k=2", each=2)
    assert index.transaction_files.staged_count(made.transaction_id) == 4
    assert list(index.transaction_files.staged_files(made.transaction_id)) == staged(
        made.transaction_id, "k=1", "k=2", each=2
    )
    assert counts(index, table) == {"k=1": 2}
    outcome = finish(index, made)
    assert (outcome.version, outcome.partitions_added, outcome.partitions_changed) == (2, 1, 1)
    assert (outcome.files_added, outcome.files_removed, outcome.rows, outcome.bytes) == (4, 0, 8, 40)
    assert counts(index, table) == {"k=1": 4, "k=2": 2}
    totals = index.tables.load(table.identifier).totals
    assert (totals.partitions, totals.files, totals.bytes, totals.rows) == (2, 6, 241, 18)
    newest = index.tables.history(table.identifier)[0]
    assert (newest.operation, newest.summary["transaction"], newest.summary["rows"]) == (
        "INSERT",
        made.transaction_id,
        8,
    )


def test_the_steps_are_taken_once(index: Index, table: Table) -> None:
    made = begin(index, table, plan(table), "k=1")
    with pytest.raises(TransactionStateError, match="is open and cannot be committed"):
        index.commits.apply(Commit(made), deliver=False)
    assert isinstance(index.commits.reserve(Commit(made)), Transaction)
    assert isinstance(index.commits.reserve(Commit(made)), Transaction)
    with pytest.raises(TransactionStateError, match="is reserved and cannot take more files"):
        index.transaction_files.record(made.transaction_id, staged(made.transaction_id, "k=2"))
    first = index.commits.apply(Commit(made), deliver=True)
    assert first.state is State.COMMITTED
    assert first == index.commits.apply(Commit(made), deliver=True)
    assert len(index.outbox.pending()) == 1
    assert index.transactions.finish(made.transaction_id)
    assert not index.transactions.finish(made.transaction_id)
    assert index.commits.apply(Commit(made), deliver=True).state is State.FINISHED
    assert index.tables.load(table.identifier).version == 1


def test_an_aborted_transaction_stays_so(index: Index, table: Table) -> None:
    made = begin(index, table, plan(table), "k=1")
    assert not index.transactions.move(made.transaction_id, (State.RESERVED,), State.ABORTING)
    assert index.transactions.move(made.transaction_id, (State.OPEN,), State.ABORTING, error="the job failed")
    with pytest.raises(TransactionStateError, match=r"is aborting and cannot be reserved.*the job failed"):
        index.commits.reserve(Commit(made))
    with pytest.raises(TransactionStateError, match="cannot be committed"):
        index.commits.apply(Commit(made), deliver=False)
    assert index.transaction_files.staged_count(made.transaction_id) == 1
    assert index.transactions.move(made.transaction_id, (State.ABORTING,), State.ABORTED)
    assert index.transaction_files.staged_count(made.transaction_id) == 0
    assert index.transactions.load(made.transaction_id).error == "the job failed"
    assert index.transactions.load(made.transaction_id).ended_at_ms is not None
    assert not index.transactions.extend_lease(made.transaction_id, 10**13)
    with pytest.raises(TransactionNotFoundError, match="no transaction 'x'"):
        index.transactions.load("x")


def test_a_dynamic_overwrite_replaces_by_typed_values(index: Index, table: Table) -> None:
    changes = [AddPartition(n, data_files(2)) for n in ("k=01", "k=1", "k=2")]
    index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=False)
    outcome = write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=1", "k=3", deliver=True)
    assert counts(index, table) == {"k=1": 1, "k=2": 2, "k=3": 1}
    assert (outcome.partitions_added, outcome.partitions_removed, outcome.partitions_changed) == (1, 1, 1)
    assert outcome.files_removed == 4
    folder = table.definition.location
    files = {file.path: file for file in data_files(2)}
    assert sorted(index.deletions.of(outcome.transaction_id), key=lambda removal: removal.path) == [
        Removal(f"{folder}/k={k}/{path}", file.size, file.modified_ms)
        for k in ("01", "1")
        for path, file in files.items()
    ]
    (message,) = index.outbox.pending()
    reported = {
        kind: [p if kind == "drop" else p["name"] for p in message.payload[kind]] for kind in ("add", "alter", "drop")
    }
    assert reported == {"add": ["k=3"], "alter": ["k=1"], "drop": ["k=01"]}


def test_an_empty_dynamic_overwrite_makes_no_version(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1")
    outcome = write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS))
    assert (outcome.version, index.tables.load(table.identifier).version) == (1, 1)
    assert counts(index, table) == {"k=1": 1}


@pytest.mark.parametrize("registered", ["k=1", "k=01"])
def test_a_static_overwrite_without_rows_keeps_its_partition(index: Index, table: Table, registered: str) -> None:
    index.commits.apply_changes(
        table.table_id, [AddPartition(registered, data_files(2))], operation="repair", deliver=False
    )
    outcome = write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS, static_partition="k=1"))
    assert counts(index, table) == {registered: 0}
    assert (outcome.partitions_changed, outcome.files_removed) == (1, 2)
    write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS, static_partition="k=9"))
    assert counts(index, table) == {registered: 0, "k=9": 0}


def test_an_overwrite_by_predicate_drops_what_it_empties(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1", "k=2", "k=3")
    above = Comparison(Operator.GE, "k", "2")
    write(index, table, plan(table, WriteKind.OVERWRITE, predicate=above), "k=3", "k=4")
    assert counts(index, table) == {"k=1": 1, "k=3": 1, "k=4": 1}
    write(index, table, plan(table, WriteKind.OVERWRITE, predicate=above, keep_emptied=True))
    assert counts(index, table) == {"k=1": 1, "k=3": 0, "k=4": 0}
    write(index, table, plan(table, WriteKind.OVERWRITE))
    assert counts(index, table) == {}


@pytest.mark.slow
def test_a_delete_of_everything_holds_little_of_each_partition(index: Index, table: Table) -> None:
    many = 5000
    adds = [AddPartition(f"k={i}", (DataFile("a.csv", 1, 1),)) for i in range(many)]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=False)
    made = begin(index, index.tables.load(table.identifier), plan(table, WriteKind.OVERWRITE))
    tracemalloc.start()
    try:
        outcome = finish(index, made)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert outcome.partitions_removed == many
    assert peak / many < 1200, "bytes a partition"


def test_a_relocating_overwrite_moves_partitions_and_deletes_nothing(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1", "k=2")
    outcome = write(index, table, relocated(table, "abc"), "k=1", "k=3", deliver=True)
    assert list(index.deletions.of(outcome.transaction_id)) == []
    now = index.tables.load(table.identifier)
    base = f"{table.definition.location}/_catalog_ext_data/abc"
    listed = index.partitions.all(now, None).read_all()
    places = dict(zip(listed.column("partition").to_pylist(), listed.column("location").to_pylist(), strict=True))
    assert places == {"k=1": f"{base}/k=1", "k=2": None, "k=3": f"{base}/k=3"}
    (message,) = index.outbox.pending()
    assert [p["location"] for p in (*message.payload["add"], *message.payload["alter"])] == [
        f"{base}/k=3", f"{base}/k=1",
    ]  # fmt: skip
    write(index, table, plan(table), "k=1")
    assert counts(index, table)["k=1"] == 2


def test_found_files_are_taken_in_or_removed(index: Index, table: Table) -> None:
    old, older = DataFile("old.parquet", 7, 3), DataFile("older.parquet", 7, 3)
    found = {"k=1": (old,), "k=2": (old, older)}
    made = begin(index, table, plan(table, found=found), "k=1", "k=2")
    already = AddPartition("k=2", (old,))
    index.commits.apply_changes(table.table_id, [already], operation="repair", deliver=False)
    finish(index, made)
    assert counts(index, table) == {"k=1": 2, "k=2": 3}
    stray, other, touched = Removal("stray.parquet", 1, 2), Removal("other.parquet"), Removal("old.parquet", 7, 9)
    unknown = {"k=1": (stray, touched), "k=5": (other,)}
    outcome = write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS, unknown=unknown), "k=1", "k=5")
    folder = table.definition.location
    removed = {removal.path: removal for removal in index.deletions.of(outcome.transaction_id)}
    assert removed[f"{folder}/k=1/stray.parquet"] == Removal(f"{folder}/k=1/stray.parquet", 1, 2)
    assert removed[f"{folder}/k=5/other.parquet"] == Removal(f"{folder}/k=5/other.parquet")
    assert removed[f"{folder}/k=1/old.parquet"].modified_ms == 9, "as it was found, not as the index has it"
    assert len(removed) == len(list(index.deletions.of(outcome.transaction_id)))


def test_an_unpartitioned_table_keeps_its_one_partition(index: Index) -> None:
    table = create(index, "flat")
    write(index, table, plan(table), "")
    write(index, table, plan(table, WriteKind.OVERWRITE))
    assert counts(index, table) == {"": 0}
    write(index, table, plan(table, WriteKind.OVERWRITE), "")
    assert counts(index, table) == {"": 1}


def test_a_creation_appears_with_its_files(index: Index, table: Table) -> None:
    made = creation(definition("s", "new", {"k": "int"}))
    index.transactions.begin(made)
    index.transaction_files.record(made.transaction_id, staged(made.transaction_id, "k=1"))
    assert "new" not in index.tables.all("s")
    outcome = finish(index, made, deliver=True)
    new = index.tables.load(definition("s", "new", {}).identifier)
    assert (new.version, new.totals.partitions, outcome.table_id) == (1, 1, new.table_id)
    assert index.transactions.load(made.transaction_id).table_id == new.table_id
    assert [m.operation for m in index.outbox.pending()] == ["create_table", "sync_partitions"]
    again = creation(definition("s", "new", {"k": "int"}))
    index.transactions.begin(again)
    with pytest.raises(TableAlreadyExistsError, match=r"s\.new exists already"):
        index.commits.reserve(Commit(again))
    assert new.table_id != table.table_id


def test_a_replacement_removes_the_old_table_at_the_same_instant(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1", "k=2")
    made = creation(definition("s", "t", {"d": "date"}), WriteKind.REPLACE)
    index.transactions.begin(made, table.table_id)
    index.transaction_files.record(made.transaction_id, staged(made.transaction_id, "d=2025-01-01"))
    late = begin(index, index.tables.load(table.identifier), plan(table), "k=1")
    finish(index, made, deliver=True)
    assert [m.operation for m in index.outbox.pending()] == ["drop_table", "create_table", "sync_partitions"]
    assert counts(index, table) == {"d=2025-01-01": 1}
    with pytest.raises(TableNotFoundError, match=r"s\.t was dropped or replaced"):
        index.commits.reserve(Commit(late))
    absent = creation(definition("s", "absent", {}), WriteKind.REPLACE)
    index.transactions.begin(absent)
    with pytest.raises(TableNotFoundError, match=r"s\.absent does not exist"):
        index.commits.reserve(Commit(absent))


def test_applications_commit_a_batch_once(index: Index, table: Table) -> None:
    first = begin(index, table, plan(table), "k=1", app_id="a", app_version=3)
    assert index.transactions.find_application(table.table_id, "a") is None
    finish(index, first)
    again = begin(index, index.tables.load(table.identifier), plan(table), "k=1", app_id="a", app_version=3)
    known = index.commits.reserve(Commit(again))
    assert isinstance(known, ApplicationVersion)
    assert (known.app_version, known.version, known.transaction_id) == (3, 1, first.transaction_id)
    assert index.transactions.load(again.transaction_id).state is State.OPEN
    later = begin(index, index.tables.load(table.identifier), plan(table), "k=1", app_id="a", app_version=4)
    assert finish(index, later).version == 2
    assert index.transactions.find_application(table.table_id, "a") is not None


def test_waiting_files_come_when_their_partition_is_due(index: Index, table: Table) -> None:
    stream: dict[str, Any] = {"app_id": "query", "app_version": 1}
    first = begin(index, table, plan(table, waiting=("k=1", "k=2")), "k=1", "k=2", "k=3", **stream)
    outcome = finish(index, first)
    assert (outcome.waiting, outcome.rows, outcome.files_added) == (2, 2, 1)
    assert counts(index, table) == {"k=3": 1}
    waiting = {w.partition: w for w in index.waiting_files.all(table.table_id, "query")}
    assert set(waiting) == {"k=1", "k=2"}
    assert waiting["k=1"].files == (staged(first.transaction_id, "k=1")[0],)
    assert index.transactions.uncommitted_ids(table.table_id, 1) == {first.transaction_id: State.COMMITTED}
    other = begin(index, table, plan(table, waiting=("k=1",)), "k=1", app_id="other", app_version=1)
    finish(index, other)
    finish(index, begin(index, table, plan(table, due=("k=1",)), "k=1", app_id="query", app_version=2))
    assert counts(index, table) == {"k=3": 1, "k=1": 2}
    assert [(w.partition, w.transaction_id) for w in index.waiting_files.all(table.table_id)] == [
        (name, made.transaction_id) for name, made in sorted((("k=1", other), ("k=2", first)), key=hashed_name)
    ]
    assert [w.partition for w in index.waiting_files.all(table.table_id, "query")] == ["k=2"]


def hashed_name(item: tuple[str, object]) -> str:
    return name_hash(item[0])


def test_repair_gets_uncommitted_files(index: Index, table: Table) -> None:
    committed = begin(index, table, plan(table), "k=1")
    reserved = begin(index, table, plan(table), "k=2")
    aborted = begin(index, table, plan(table), "k=3")
    for made in (reserved, aborted):
        assert isinstance(index.commits.reserve(Commit(made)), Transaction)
    index.transactions.move(aborted.transaction_id, (State.RESERVED,), State.ABORTED)
    # Of these no file has ever had its final name.
    begin(index, table, plan(table), "k=4")
    given_up = begin(index, table, plan(table), "k=5")
    index.transactions.move(given_up.transaction_id, (State.OPEN,), State.ABORTED)
    finish(index, committed)
    states = {reserved.transaction_id: State.RESERVED, aborted.transaction_id: State.ABORTED}
    assert index.transactions.uncommitted_ids(table.table_id, 1) == states
    assert index.transactions.uncommitted_ids(table.table_id, 0) == {
        **states,
        committed.transaction_id: State.COMMITTED,
    }


def test_transactions_are_listed_newest_first(index: Index, table: Table) -> None:
    begun = [begin(index, table, plan(table)) for _ in range(4)]
    made = sorted(begun, key=lambda one: (one.began_at_ms, one.transaction_id))
    over_ms = index.now_ms() - 1
    for over in made[1:]:
        index.transactions.extend_lease(over.transaction_id, over_ms)
    finish(index, made[3])
    ids = [t.transaction_id for t in index.transactions.all(table.table_id)]
    assert ids == [t.transaction_id for t in reversed(made)]
    dead = index.transactions.all(states=(State.OPEN,), expired=True)
    assert [t.transaction_id for t in dead] == ids[1:3]
    assert [t.transaction_id for t in index.transactions.all(limit=1)] == ids[:1]
    opened = replace(made[2], expires_at_ms=over_ms, plan=replace(made[2].plan, change=made[2].plan.asked))
    assert index.transactions.load(ids[1]) == opened


def test_the_outcome_and_statistics_are_kept(index: Index, table: Table) -> None:
    made = begin(index, table, plan(table), "k=1")
    outcome = finish(index, made)
    kept = index.transactions.load(made.transaction_id)
    assert kept.outcome == outcome
    assert (kept.version, kept.state) == (1, State.COMMITTED)


def test_a_small_write_takes_the_same_statements_in_a_large_table(index: Index, table: Table) -> None:
    taken: list[int] = []
    for registered in (10, 2000):
        more = [AddPartition(f"k={i}", data_files(1)) for i in range(10 * len(taken), registered)]
        index.commits.apply_changes(table.table_id, more, operation="repair", deliver=False)
        now = index.tables.load(table.identifier)
        before = index.query_count
        made = begin(index, now, plan(table, WriteKind.OVERWRITE_PARTITIONS), *(f"k={i}" for i in range(10)), each=10)
        finish(index, made, deliver=True)
        assert index.transactions.finish(made.transaction_id)
        taken.append(index.query_count - before)
    assert taken[0] == taken[1] <= 38, "two of them ask for other tables that need the replaced files, also by a link"


def test_claims_are_forgotten_when_no_transaction_can_meet_them(
    index: Index, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = begin(index, table, plan(table), "k=5")
    write(index, table, plan(table), "k=1")
    late = begin(index, index.tables.load(table.identifier), plan(table), "k=5")
    write(index, table, plan(table), "k=2")
    monkeypatch.setattr(applying, "_CLAIMS_CHECKED_EVERY", 1)
    write(index, table, plan(table), "k=3")
    assert claimed(tmp_path) == ["k=1", "k=2", "k=3"]  # not an hour old
    monkeypatch.setattr(claim_checks, "CLAIMS_KEPT_MS", -60_000)
    write(index, table, plan(table), "k=4")
    assert claimed(tmp_path) == ["k=1", "k=2", "k=3", "k=4"]  # a transaction began before them
    index.transactions.move(early.transaction_id, (State.OPEN,), State.ABORTED)
    write(index, table, plan(table), "k=4")
    assert claimed(tmp_path) == ["k=2", "k=3", "k=4", "k=4"]
    index.transactions.move(late.transaction_id, (State.OPEN,), State.ABORTED)
    write(index, table, plan(table), "k=4")
    assert claimed(tmp_path) == ["k=4"]
    stale = begin(index, table, plan(table), "k=9")
    with pytest.raises(ConflictError, match="read at version 0, and what was changed up to 5 is not known"):
        index.commits.reserve(Commit(stale))
    overwrite = begin(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=3")
    with pytest.raises(ConflictError, match=r"'k=3'.*version 3 of the table changed it"):
        index.commits.reserve(Commit(overwrite))
    # A partition that was not changed since it was read is replaced, however long ago that was.
    assert finish(index, begin(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=9")).version == 7


def claimed(folder: Path) -> list[str]:
    connection = sqlite3.connect(folder / "index.db")
    rows = connection.execute("SELECT name FROM transaction_claims ORDER BY name").fetchall()
    connection.close()
    return [name for (name,) in rows]


def test_dropping_a_table_removes_what_belongs_to_it(index: Index, table: Table, tmp_path: Path) -> None:
    finish(index, begin(index, table, plan(table), "k=1", app_id="a", app_version=1))
    opened = begin(index, index.tables.load(table.identifier), plan(table), "k=1")
    index.tables.drop(table.identifier, deliver=False)
    assert claimed(tmp_path) == []
    assert index.transactions.find_application(table.table_id, "a") is None
    # Its owner, or the process that recovers it, still has files to remove.
    assert index.transactions.load(opened.transaction_id).state is State.OPEN
    assert index.transaction_files.staged_count(opened.transaction_id) == 1


def test_an_equal_value_in_another_spelling_is_kept_from_the_metastore(index: Index) -> None:
    table = create(index, "spelled", keys={"k": "string"})
    index.commits.apply_changes(
        table.table_id, [AddPartition("k=a%20b", data_files(1))], operation="repair", deliver=False
    )
    write(index, table, plan(table), "k=a b", "k=c", deliver=True)
    (message,) = index.outbox.pending()
    assert [p["name"] for p in message.payload["add"]] == ["k=c"]
    # An overwrite replaces the twin, whose place in the metastore it takes.
    write(index, table, plan(table, WriteKind.OVERWRITE_PARTITIONS), "k=a b")
    assert counts(index, table) == {"k=a b": 1, "k=c": 1}


def test_a_value_too_long_for_the_metastore_is_kept_from_it(index: Index) -> None:
    table = create(index, "long", keys={"k": "string"})
    write(index, table, plan(table), f"k={'x' * 1100}", "k=y", deliver=True)
    (message,) = index.outbox.pending()
    assert [p["name"] for p in message.payload["add"]] == ["k=y"]
    assert index.tables.load(table.identifier).totals.partitions == 2


def test_a_partition_that_moves_while_it_is_appended_to(index: Index, table: Table) -> None:
    moved = [DropPartition("k=1"), AddPartition("k=1", (), location="file:///far")]
    write(index, table, plan(table), "k=1")
    now = index.tables.load(table.identifier)
    opened, reserved = (begin(index, now, plan(table), "k=1") for _ in range(2))
    index.commits.reserve(Commit(reserved))
    index.commits.apply_changes(table.table_id, moved, operation="ddl", deliver=False)
    with pytest.raises(ConflictError, match=r"'k=1' of table s\.t has got another location since the write began"):
        index.commits.reserve(Commit(opened))
    with pytest.raises(ConflictError, match="has got another location"):
        index.commits.apply(Commit(reserved), deliver=False)
    assert index.transactions.load(reserved.transaction_id).state is State.RESERVED
    write(index, table, plan(table), "k=1")
    assert counts(index, table) == {"k=1": 1}
    # Dropped by a repair between the steps, it comes back where the files are.
    again = begin(index, index.tables.load(table.identifier), plan(table), "k=1")
    index.commits.reserve(Commit(again))
    index.commits.apply_changes(table.table_id, [DropPartition("k=1")], operation="repair", deliver=False)
    index.commits.apply(Commit(again), deliver=False)
    listed = index.partitions.all(index.tables.load(table.identifier), None).read_all()
    assert listed.column("location").to_pylist() == ["file:///far"]


def test_an_empty_partition_that_only_moves_stays(index: Index, table: Table) -> None:
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", ())], operation="ddl", deliver=False)
    everything = plan(table, WriteKind.OVERWRITE, keep_emptied=True, relocate=True, base="file:///data/s/t/_d/x")
    assert write(index, table, everything).version == 2
    assert counts(index, table) == {"k=1": 0}
    replaced = plan(table, WriteKind.OVERWRITE_PARTITIONS, static_partition="k=2")
    assert write(index, table, replaced).version == 3
    assert write(index, table, plan(table, WriteKind.OVERWRITE)).version == 4
    assert counts(index, table) == {}


@pytest.mark.parametrize(
    ("names", "kind", "words"),
    [
        (["k=1", "k=1"], InvalidInputError, "has staged the file .* of partition 'k=1' twice"),
        (["d=1"], InvalidPartitionNameError, "'d=1' is not a partition of table s.t"),
        (["k=x"], InvalidValueError, "Partition 'k=x' of table s.t"),
        ([""], InvalidPartitionNameError, "is not a partition of table s.t"),
    ],
)
def test_what_cannot_be_committed_is_not_reserved(
    index: Index, table: Table, names: list[str], kind: type[InvalidInputError], words: str
) -> None:
    made = begin(index, table, plan(table), *names)
    anew = creation(definition("s", "anew", {"k": "int"}))
    index.transactions.begin(anew)
    index.transaction_files.record(anew.transaction_id, staged(anew.transaction_id, *names))
    for refused in (made, anew):
        with pytest.raises(kind, match=words.replace("s.t", "s.(t|anew)")):
            index.commits.reserve(Commit(refused))
        assert index.transactions.load(refused.transaction_id).state is State.OPEN


def test_conflict_is_not_retried_like_a_lost_race_of_the_database(tmp_path: Path) -> None:
    attempts = []

    def work(connection: sa.Connection) -> None:
        attempts.append(connection)
        raise ConflictError("Another writer was first.")

    with local_index(tmp_path) as index, pytest.raises(ConflictError, match="Another writer"):
        index._database.write(work)
    assert len(attempts) == 1
