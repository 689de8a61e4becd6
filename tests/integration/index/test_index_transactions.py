"""Transactions on each database: every kind of write, what the versions list, and writers that race."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.partition_plans import CheckedRollback, Rollback
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, VersionExpiredError
from catalog_ext.metastore.index.database.schema import transactions
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.index.write.outbox import enqueue
from catalog_ext.metastore.index.write.partition_rows import lock_table
from catalog_ext.metastore.index.write.repairs import RepairRecord, SkippedPath
from catalog_ext.metastore.index.write.transaction_rows import FORGOTTEN_KEPT_MS
from catalog_ext.metastore.messages import AlterTable
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import ColumnStatistics
from catalog_ext.metastore.predicates.conditions import bound_to
from catalog_ext.metastore.predicates.tree import TRUE, Comparison, Operator
from tests.kit import fixed_set_cases
from tests.kit.index_cases import create, data_files, definition
from tests.kit.transaction_cases import (
    begin,
    creation,
    files_by_partition,
    finish,
    plan,
    relocated,
    staged,
    transaction,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

OVERWRITE = WriteKind.OVERWRITE_PARTITIONS
WRITERS = 8


@pytest.fixture
def table(index: Index) -> Iterator[Table]:
    made = create(index, keys={"k": "int", "s": "string"})
    yield made
    if made.identifier.name in index.tables.all("s"):
        index.tables.drop(made.identifier, deliver=False)


def names(*numbers: int, s: str = "é") -> list[str]:
    return [f"k={n}/s={s}" for n in numbers]


def counts(index: Index, table: Table) -> dict[str, int]:
    return {name: len(paths) for name, paths in files_by_partition(index, table).items()}


def at_once(count: int, work: Callable[[int], object]) -> list[object]:
    """What ``work`` returned or raised for 0 to ``count`` - 1, each in a thread, begun together."""
    barrier = threading.Barrier(count)

    def run(i: int) -> object:
        barrier.wait(30)
        return work(i)

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, i) for i in range(count)]
        return [future.exception() or future.result() for future in futures]


def test_every_kind_of_write(index: Index, table: Table) -> None:
    write(index, table, plan(table), *names(1, 2))
    write(index, table, plan(table), *names(2, 3))
    assert counts(index, table) == dict(zip(names(1, 2, 3), (1, 2, 1), strict=True))
    spelled = AddPartition("k=03/s=é", data_files(2))
    index.commits.apply_changes(table.table_id, [spelled], operation="repair", deliver=False)
    outcome = write(index, table, plan(table, OVERWRITE), *names(3, 4))
    assert (outcome.partitions_added, outcome.partitions_removed, outcome.partitions_changed) == (1, 1, 1)
    assert len(list(index.deletions.of(outcome.transaction_id))) == 3
    write(index, table, relocated(table, "moved"), *names(1))
    low = Comparison(Operator.LT, "k", "3")
    write(index, table, plan(table, WriteKind.OVERWRITE, predicate=low, keep_emptied=True))
    assert counts(index, table) == dict(zip(names(1, 2, 3, 4), (0, 0, 1, 1), strict=True))
    write(index, table, plan(table, OVERWRITE, static_partition=names(9)[0]))
    write(index, table, plan(table, WriteKind.OVERWRITE))
    assert counts(index, table) == {}
    totals = index.tables.load(table.identifier).totals
    assert (totals.partitions, totals.files, totals.bytes, totals.rows) == (0, 0, 0, 0)
    rows = index.history.transactions(table).read_all()
    assert rows.num_rows == 7
    history = index.history.rows(table).read_all().column("operation").to_pylist()
    assert history == ["INSERT"] * 5 + ["repair"] + ["INSERT"] * 2 + ["create"]


def test_a_rollback_of_moved_dropped_and_later_partitions(index: Index, table: Table) -> None:
    write(index, table, plan(table), *names(1, 2, 3))
    then = index.tables.load(table.identifier)
    write(index, table, relocated(table, "moved"), *names(1))
    write(index, table, plan(table), *names(3, 4))
    index.commits.apply_changes(table.table_id, [DropPartition(names(2)[0])], operation="drop", deliver=False)
    now = index.tables.load(table.identifier)
    few = Comparison(Operator.LT, "k", "9")
    bound = bound_to(now, few)
    found = index.version_differences.between(now, then.version, bound)
    sizes = [(each.name, len(each.kept), len(each.ended), len(each.restored)) for each in found]
    assert sizes == list(zip(names(1, 2, 3, 4), (0, 0, 1, 0), (1, 0, 1, 1), (1, 1, 0, 0), strict=True))
    assert [index.version_differences.last_change(now, bound_to(now, Comparison(Operator.EQ, "k", k)) or TRUE)
            for k in "1234"] == [2, 4, 3, 3]  # fmt: skip
    change = CheckedRollback(Rollback(then.version, few), returning=tuple(names(2)))
    outcome = finish(index, begin(index, now, replace(plan(now), change=change, relocate=True)))
    assert (outcome.partitions_added, outcome.partitions_removed, outcome.partitions_changed) == (1, 1, 2)
    newest = index.tables.load(table.identifier)
    assert counts(index, table) == dict.fromkeys(names(1, 2, 3), 1)
    assert newest.totals == index.version_lookup.at_version(newest, then.version).totals
    assert index.partitions.located(newest) == {}
    places = index.version_differences.directories(newest, now.version, bound)
    assert places == {f"{table.definition.location}/_catalog_ext_data/moved/{names(1)[0]}",
                      *(newest.directory(name) for name in names(3, 4))}  # fmt: skip


def test_the_last_fact_about_a_path_decides_and_its_users_are_found(index: Index, table: Table) -> None:
    """A replaced file is a leftover until a version names its path again, of this table or of another one."""
    (name,), root = names(1), table.definition.location
    index.commits.apply_changes(table.table_id, [AddPartition(name, data_files(2))], operation="repair", deliver=False)
    write(index, table, relocated(table, "abc"), name)
    one, two = (f"{root}/{name}/{file.path}" for file in data_files(2))
    (living,) = (f"{root}/_catalog_ext_data/abc/{name}/{path}" for path in files_by_partition(index, table)[name])

    def ended() -> set[str]:
        now = index.tables.load(table.identifier)
        return {file.uri for page in index.ended_files.pages(now, now.version) for file in page}

    assert ended() == {one, two}
    assert index.needed_files.users({one, two, living}).keys() == {living}
    again = AddPartition(names(2)[0], data_files(1), location=f"{root}/{name}")
    index.commits.apply_changes(table.table_id, [again], operation="repair", deliver=False)
    assert ended() == {two}
    user = index.needed_files.users({one, two})[one]
    assert (user.table, user.partition, user.version) == (str(table.identifier), names(2)[0], 3)
    index.commits.apply_changes(table.table_id, [DropPartition(names(2)[0])], operation="repair", deliver=False)
    assert (ended(), index.needed_files.users({one, two})) == ({two}, {})
    over = replace(definition("s", "over_it", {"k": "int", "s": "string"}), location=root)
    other = index.tables.create(over, deliver=False)
    index.commits.apply_changes(other.table_id, [AddPartition(name, data_files(2))], operation="repair", deliver=False)
    assert {user.table for user in index.needed_files.users({one, two}).values()} == {str(other.identifier)}
    index.tables.drop(other.identifier, deliver=False)


def test_versions_list_their_changes_until_they_expire(index: Index, table: Table) -> None:
    for kind in (WriteKind.APPEND, OVERWRITE, OVERWRITE):
        asked = plan(table, kind, relocate=kind is OVERWRITE)
        made = begin(index, index.tables.load(table.identifier), asked, *names(1, 2))
        known = {"fare": ColumnStatistics("1", "2", 0)}
        index.transaction_files.record(
            made.transaction_id, [StagedFile(names(1)[0], f"more-{made.transaction_id}", 1, 1, known)]
        )
        finish(index, made)
        index.transactions.finish(made.transaction_id)
    changes = index.changes.between(table.table_id, 1, 3).read_all().to_pylist()
    assert [(c["version"], c["position"], c["partition"]) for c in changes] == [
        (v, i, name) for v in (2, 3) for i, name in enumerate(sorted(names(1, 1, 2)))
    ]
    now = index.tables.load(table.identifier)
    assert sum(map(len, index.ended_files.pages(now, 3))) == 6
    assert index.versions.expire(table.table_id, 3) == 6 + 2 * 2 + 2 + 3
    assert list(index.ended_files.pages(now, 3)) == []
    assert counts(index, table) == dict(zip(names(1, 2), (2, 1), strict=True))
    with pytest.raises(VersionExpiredError):
        index.changes.between(table.table_id, 1, 3)


def test_a_forgotten_transaction_is_known_by_its_id(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catalog_ext.metastore.index.write.claim_checks.CLAIMS_KEPT_MS", -60_000)
    made = [begin(index, index.tables.load(table.identifier), plan(table), *names(1)) for _ in range(4)]
    ids = [one.transaction_id for one in made]
    for one in made[:2]:
        finish(index, one)
        assert index.transactions.finish(one.transaction_id)
    assert index.transactions.move(ids[2], (State.OPEN,), State.ABORTED, error="why")
    states = {ids[0]: State.FINISHED, ids[1]: State.FINISHED, ids[2]: State.ABORTED, ids[3]: State.OPEN}
    for one in made[3:]:
        assert not index.forgotten_transactions.known([one.transaction_id])[one.transaction_id].has_ended
    assert {i: one.state for i, one in index.forgotten_transactions.known([*ids, "f" * 32]).items()} == states
    finish(index, made[3])
    index.versions.expire(table.table_id, 3, aborted=False)
    states |= {ids[0]: None, ids[1]: None, ids[3]: State.COMMITTED}
    assert {i: one.state for i, one in index.forgotten_transactions.known(ids).items()} == states
    later = index.now_ms() + 1000
    index.forgotten_transactions.drop(table.table_id + 1, later, ())
    index.forgotten_transactions.drop(table.table_id, 0, ())
    assert index.forgotten_transactions.known(ids[:1])[ids[0]].has_ended
    # What is still there is forgotten anew.
    index.forgotten_transactions.drop(table.table_id, index.now_ms() - 1, ids[:1])
    assert ids[0] in index.forgotten_transactions.known(ids)
    index.forgotten_transactions.drop(table.table_id, later, ())
    assert index.forgotten_transactions.known(ids[:2]) == {}


def test_a_table_is_created_and_replaced_with_its_files(index: Index, table: Table) -> None:
    write(index, table, plan(table), *names(1))
    for kind in (WriteKind.CREATE_OR_REPLACE, WriteKind.REPLACE):
        made = creation(definition("s", "t", {"d": "date"}), kind)
        index.transactions.begin(made, index.tables.load(table.identifier).table_id)
        index.transaction_files.record(made.transaction_id, staged(made.transaction_id, "d=2025-01-01", "d=2025-01-02"))
        finish(index, made, deliver=True)
        assert counts(index, table) == {"d=2025-01-01": 1, "d=2025-01-02": 1}
    for message in index.outbox.pending():
        assert index.outbox.claim(message.outbox_id, "test", 60_000)
        assert index.outbox.done(message.outbox_id, "test")


def test_waiting_files_are_read_page_by_page(index: Index, table: Table) -> None:
    numbers = range(45)
    for version, some in enumerate((numbers[:30], numbers[15:]), start=1):
        waiting = tuple(names(*some))
        finish(index, begin(index, table, plan(table, waiting=waiting), *waiting, app_id="pages", app_version=version))
    found = [(w.partition, w.transaction_id) for w in index.waiting_files.all(table.table_id)]
    assert len(found) == len(set(found)) == 60
    assert {name for name, _ in found} == set(names(*numbers))


def test_waiting_files_and_thousands_of_staged_ones(index: Index, table: Table) -> None:
    first = begin(index, table, plan(table, waiting=tuple(names(1))), app_id="q", app_version=1)
    files = staged(first.transaction_id, *names(1, 2), each=700)
    index.transaction_files.record(first.transaction_id, files)
    assert index.transaction_files.staged_count(first.transaction_id) == 1400
    assert list(index.transaction_files.staged_files(first.transaction_id)) == files
    finish(index, first)
    assert [len(w.files) for w in index.waiting_files.all(table.table_id)] == [500, 200]
    # A server's database has the unfinished writes of other tests' tables too.
    assert index.transactions.uncommitted_ids(table.table_id, 1)[first.transaction_id] is State.COMMITTED
    finish(index, begin(index, table, plan(table, due=tuple(names(1))), app_id="q", app_version=2))
    assert counts(index, table) == dict(zip(names(1, 2), (700, 700), strict=True))
    assert list(index.waiting_files.all(table.table_id)) == []


def test_planning_says_what_is_known_of_columns(index: Index, table: Table) -> None:
    odd = 'x."y\\ é'
    known = {"fare": ColumnStatistics("1.50", 'a"9\n', 0), odd: ColumnStatistics(None, None, 2)}
    made = begin(index, table, plan(table))
    files = [
        StagedFile(names(1)[0], f"part-{made.transaction_id}", 10, 2, known),
        *staged(made.transaction_id, *names(2)),
    ]
    index.transaction_files.record(made.transaction_id, files)
    finish(index, made)
    for i in range(3, 6):
        write(index, table, plan(table), *names(i))
    now = index.tables.load(table.identifier)
    (first, *others) = index.files.plan(now, None, bounds=["fare", odd, "none"]).read_all().to_pylist()
    assert json.loads(first["bounds_0"]) == {"min": "1.50", "max": 'a"9\n', "nulls": 0}
    if index._database.dialect == "postgresql":
        assert json.loads(first["bounds_1"]) == {"min": None, "max": None, "nulls": 2}
    assert first["bounds_2"] is None
    assert {(row["bounds_0"], row["bounds_1"]) for row in others} == {(None, None)}
    assert len(others) == 4
    assert index.files.plan(now, None).schema.names == index.files.plan(now, None, bounds=["fare"]).schema.names[:-1]


def test_of_two_overwrites_of_a_partition_exactly_one_wins(index: Index, table: Table) -> None:
    for _ in range(5):
        now = index.tables.load(table.identifier)
        rivals = [begin(index, now, plan(table, OVERWRITE), *names(1)) for _ in range(2)]
        results = at_once(2, lambda i, rivals=rivals: finish(index, rivals[i]))  # type: ignore[misc]
        lost = [r for r in results if isinstance(r, Exception)]
        assert [type(error) for error in lost] == [ConflictError]
        winner = rivals[1 if results[0] is lost[0] else 0]
        assert files_by_partition(index, table) == {names(1)[0]: [f.name for f in index_files(winner)]}


def index_files(made: Transaction) -> list[StagedFile]:
    return staged(made.transaction_id, *names(1))


def test_appenders_all_commit(index: Index, table: Table) -> None:
    def append(i: int) -> object:
        for _ in range(4):
            write(index, table, plan(table), *names(1, 10 + i))
        return None

    assert at_once(WRITERS, append) == [None] * WRITERS
    now = index.tables.load(table.identifier)
    assert now.version == WRITERS * 4
    assert [h.version for h in index.tables.history(table.identifier)] == list(range(now.version, -1, -1))
    totals = now.totals
    assert (totals.partitions, totals.files, totals.bytes, totals.rows) == (1 + WRITERS, 64, 640, 128)
    assert counts(index, table)[names(1)[0]] == 32
    changes = index.changes.between(table.table_id, 0, now.version).read_all()
    assert len(set(changes.column("path").to_pylist())) == 32
    assert changes.num_rows == 64


def test_one_transaction_is_committed_once_by_many(index: Index, table: Table) -> None:
    made = begin(index, table, plan(table), *names(1))
    index.commits.reserve(Commit(made))
    done = at_once(4, lambda _: index.commits.apply(Commit(made), deliver=False))
    assert {d.version for d in done} == {1}  # type: ignore[attr-defined]
    assert at_once(4, lambda _: index.transactions.finish(made.transaction_id)).count(True) == 1
    assert index.tables.load(table.identifier).version == 1


def test_a_commit_and_an_abort_exclude_each_other(index: Index, table: Table) -> None:
    for i in range(6):
        made = begin(index, index.tables.load(table.identifier), plan(table), *names(100 + i))
        index.commits.reserve(Commit(made))

        def work(n: int, made: Transaction = made) -> object:
            if n:
                return index.transactions.move(made.transaction_id, (State.RESERVED,), State.ABORTING)
            return index.commits.apply(Commit(made), deliver=False)

        committed, aborted = at_once(2, work)
        assert isinstance(committed, Exception) == (aborted is True)
        assert (names(100 + i)[0] in counts(index, table)) == (aborted is False)


def test_two_creations_race(index: Index, table: Table) -> None:
    rivals = [creation(definition("s", "raced", {"k": "int"})) for _ in range(2)]
    for made in rivals:
        index.transactions.begin(made)
    results = at_once(2, lambda i: finish(index, rivals[i]))
    assert sum(isinstance(r, Exception) for r in results) == 1
    index.tables.drop(definition("s", "raced", {}).identifier, deliver=False)


def test_one_begin_of_those_that_come_at_once(index: Index, table: Table) -> None:
    asked = transaction(plan(table), table_id=table.table_id, table=str(table.identifier), base_version=table.version)
    begun = at_once(WRITERS, lambda _: index.transactions.begin(asked).transaction_id)
    assert begun == [asked.transaction_id] * WRITERS
    assert [t.transaction_id for t in index.transactions.all(table.table_id)] == [asked.transaction_id]


def test_the_newest_message_is_known_when_the_tables_own_are_committed(index: Index, table: Table) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def commit(connection: sa.Connection) -> None:
        lock_table(connection, table.table_id, str(table.identifier))
        enqueue(connection, AlterTable(table.definition), table.table_id)
        inside.set()
        assert go_on.wait(30)

    with ThreadPoolExecutor(2) as pool:
        committing = pool.submit(index._database.write, commit)
        assert inside.wait(30)
        asked = pool.submit(index.publications.last_delivery, table)
        with pytest.raises(TimeoutError):
            asked.result(0.5)
        go_on.set()
        committing.result(30)
        assert asked.result(30) == max(message.outbox_id for message in index.outbox.pending())


def test_repairs_that_end_at_the_same_time_are_both_recorded(index: Index, table: Table) -> None:
    """Each inserted the positions of its skipped paths: one of the two failed, after all of its work."""
    record = RepairRecord(table.table_id, 40, "sync", None, 0, "ada@host:1", 0, 0, 0, 2, 3, 3, None)

    def add(writer: int) -> None:
        for _ in range(3):
            index.repairs.add(record, [SkippedPath(f"{writer}/{i}", "", 1, 1, "odd") for i in range(200)])

    assert at_once(4, add) == [None] * 4
    assert index.repairs.rows(table).read_all().num_rows == 12
    paths = index.repairs.skipped_rows(table).read_all().column("path").to_pylist()
    assert len(paths) == 200
    assert len({path.partition("/")[0] for path in paths}) == 1


def test_a_commit_keeps_what_was_registered_after_reserve(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (deferred_deletes.MANY, 0):
        monkeypatch.setattr(deferred_deletes, "MANY", few)
        for number, statement in enumerate(fixed_set_cases.STATEMENTS):
            there = fixed_set_cases.filled(index, f"fixed_{few}_{number}")
            fixed_set_cases.check(index, there, statement)
            index.tables.drop(there.identifier, deliver=False)


def test_rows_of_old_drops_are_removed(index: Index) -> None:
    """DROP TABLE leaves a finished transaction, for registrations that listed the directory before: it stayed."""

    def drops(folder: str) -> list[str]:
        made = create(index, "dropped", {"k": "int"}, folder=folder)
        index.tables.drop(made.identifier, deliver=False, deletes=True)
        (dropped,) = index.dropped_tables.undeleted(made.definition.location)
        index.dropped_tables.note_deleted(dropped, "test")
        done = [one for one in index.transactions.all() if one.operation == "DROP TABLE"]
        return [one.plan.location.rpartition("/")[2] for one in done]

    drops("drop_1")
    assert {"drop_1", "drop_2"} <= set(drops("drop_2"))
    aged = sa.update(transactions).where(transactions.c.plan.contains("s/drop_1"))
    aged = aged.values(expires_at_ms=index.now_ms() - FORGOTTEN_KEPT_MS - 1000)
    index._database.write(lambda connection: connection.execute(aged))
    left = set(drops("drop_3"))
    assert {"drop_2", "drop_3"} <= left
    assert "drop_1" not in left
