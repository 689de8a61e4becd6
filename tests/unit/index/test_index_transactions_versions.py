"""The content of a table's versions: changes, history, transactions, and what vacuum may remove; on SQLite."""

from __future__ import annotations

import re
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, StreamChangedError, TableNotFoundError, VersionExpiredError
from catalog_ext.metastore.index.database.schema import (
    namespaces,
    partition_sums,
    partitions,
    repairs,
    table_versions,
    tables,
)
from catalog_ext.metastore.index.read.history import Removals
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA
from catalog_ext.metastore.index.write import claim_checks, expire_versions
from catalog_ext.metastore.index.write.repairs import RepairRecord
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION
from catalog_ext.metastore.model.tables import ColumnStatistics, DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.index_cases import create, data_files, local_index
from tests.kit.sums import check_sums
from tests.kit.transaction_cases import begin, files_by_partition, finish, plan, relocated, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

_DAY_MS = 86_400_000
OVERWRITE = WriteKind.OVERWRITE_PARTITIONS


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(index: Index) -> Table:
    return create(index, keys={"k": "int"})


def changed(index: Index, table: Table, after: int, upto: int) -> list[tuple[int, int, str]]:
    rows = index.changes.between(table.table_id, after, upto).read_all().to_pylist()
    return [(row["version"], row["position"], row["partition"]) for row in rows]


def ended(index: Index, table: Table, before: int) -> set[str]:
    now = index.tables.load(table.identifier)
    uris = {file.uri for page in index.ended_files.pages(now, before) for file in page}
    return {uri.removeprefix(f"{now.definition.location}/") for uri in uris}


def test_changes_are_the_files_of_each_version_in_order(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=2", "k=1")
    index.commits.apply_changes(table.table_id, [AddPartition("k=3", data_files(2))], operation="repair", deliver=False)
    write(index, table, plan(table, OVERWRITE), "k=2")
    write(index, table, relocated(table, "abc"), "k=2")
    one, two = [(1, 0, "k=2"), (1, 1, "k=1")], [(2, 0, "k=3"), (2, 1, "k=3")]
    assert changed(index, table, 0, 4) == [*one, *two, (3, 0, "k=2"), (4, 0, "k=2")]
    assert changed(index, table, 1, 3) == [*two, (3, 0, "k=2")]
    assert changed(index, table, 2, 2) == []
    rows = index.changes.between(table.table_id, 2, 4).read_all()
    assert rows.schema.names == [*PLAN_SCHEMA.names, "version", "position"]
    assert rows.column("location").to_pylist() == [None, "file:///data/s/t/_catalog_ext_data/abc/k=2"]
    with pytest.raises(TableNotFoundError):
        index.changes.between(999, 0, 1)


def test_versions_that_removed_files_are_refused_or_passed_over(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=2", "k=1")
    write(index, table, plan(table, OVERWRITE), "k=2")
    write(index, table, plan(table), "k=3")

    def versions(after: int, removals: Removals) -> list[int]:
        rows = index.changes.between(table.table_id, after, 3, removals).read_all()
        found: list[int] = rows.column("version").to_pylist()
        return found

    assert versions(0, Removals.IGNORE) == [1, 1, 2, 3]
    assert versions(0, Removals.SKIP) == [1, 1, 3]
    with pytest.raises(StreamChangedError, match=r"Version 2 of table s\.t \(INSERT\).*skipChangeCommits") as caught:
        versions(0, Removals.REFUSE)
    assert caught.value.parameters == {"table": "s.t", "version": "2", "operation": "INSERT"}
    assert versions(2, Removals.REFUSE) == [3]


def test_the_history_counts_what_each_version_did(index: Index, table: Table) -> None:
    index.commits.apply_changes(table.table_id, [AddPartition("k=3", data_files(2))], operation="repair", deliver=False)
    made = begin(index, index.tables.load(table.identifier), plan(table, OVERWRITE), "k=3", "k=4")
    finish(index, made)
    newest, repair, create_ = index.history.rows(table).read_all().to_pylist()
    assert (newest["version"], newest["operation"], newest["transaction"]) == (2, "INSERT", made.transaction_id)
    assert (newest["files_added"], newest["files_removed"], newest["rows"], newest["bytes"]) == (2, 2, 4, 20)
    assert (repair["partitions_added"], repair["files_added"]) == (1, 2)
    assert (repair["rows"], repair["transaction"]) == (None, None)
    assert (create_["version"], create_["files_added"]) == (0, None)


def test_transactions_are_rows(index: Index, table: Table) -> None:
    finish(index, begin(index, table, plan(table), "k=1", app_id="a", app_version=7))
    begun = begin(index, table, plan(table), "k=1", "k=2", each=3)
    opened, committed = index.history.transactions(table).read_all().to_pylist()
    assert (opened["state"], opened["files"], opened["version"], opened["ended_at"]) == ("open", 6, None, None)
    assert (committed["state"], committed["version"], committed["app_id"], committed["app_version"]) == (
        "committed", 1, "a", 7,
    )  # fmt: skip
    assert round(opened["began_at"].timestamp() * 1000) == begun.began_at_ms
    assert committed["files"] is None


def test_a_time_names_the_version_that_was_current(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1")
    write(index, table, plan(table), "k=1")
    created, first, second = reversed(index.tables.history(table.identifier))
    assert index.history.version_at(table.table_id, created.committed_at_ms - 1) == 0
    assert index.history.version_at(table.table_id, second.committed_at_ms + 1) == 2
    assert index.history.version_at(table.table_id, first.committed_at_ms) in (1, 2)


def test_ended_files_are_those_that_writes_replaced(index: Index, table: Table) -> None:
    index.commits.apply_changes(
        table.table_id, [AddPartition(n, data_files(1)) for n in ("k=1", "k=2")], operation="x", deliver=False
    )
    write(index, table, relocated(table, "a"), "k=1")
    first = files_by_partition(index, table)["k=1"][0]
    assert ended(index, table, 1) == set()
    assert ended(index, table, 2) == {"k=1/part-00000.parquet"}
    write(index, table, relocated(table, "b"), "k=1")
    index.commits.apply_changes(table.table_id, [DropPartition("k=2")], operation="repair", deliver=False)
    assert ended(index, table, 2) == {"k=1/part-00000.parquet"}
    assert ended(index, table, 4) == {"k=1/part-00000.parquet", f"_catalog_ext_data/a/k=1/{first}"}


def test_a_file_that_is_there_again_is_not_ended(index: Index, table: Table) -> None:
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", data_files(2))], operation="repair", deliver=False)
    write(index, table, plan(table, WriteKind.OVERWRITE, relocate=True))
    again = AddPartition("k=1", data_files(1))
    index.commits.apply_changes(table.table_id, [again], operation="repair", deliver=False)
    assert ended(index, table, 3) == {"k=1/part-00001.parquet"}
    elsewhere = AddPartition("k=7", data_files(2), location=f"{table.definition.location}/k=1")
    index.commits.apply_changes(table.table_id, [elsewhere], operation="repair", deliver=False)
    assert ended(index, table, 4) == set()


def test_the_last_fact_about_a_path_decides_whether_it_is_ended(index: Index, table: Table) -> None:
    """A repair names a replaced file again; the partition is dropped: the overwrite is not the last fact any more."""
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", data_files(1))], operation="repair", deliver=False)
    write(index, table, plan(table, WriteKind.OVERWRITE, relocate=True))
    assert ended(index, table, 2) == {"k=1/part-00000.parquet"}
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", data_files(1))], operation="repair", deliver=False)
    index.commits.apply_changes(table.table_id, [DropPartition("k=1")], operation="repair", deliver=False)
    assert ended(index, table, 2) == ended(index, table, 4) == set()


def test_files_replaced_in_place_are_not_ended(index: Index, table: Table) -> None:
    """The clean-up of the overwrite has deleted them: one that lies there was brought back."""
    index.commits.apply_changes(table.table_id, [AddPartition("k=1", data_files(1))], operation="repair", deliver=False)
    write(index, table, plan(table, WriteKind.OVERWRITE))
    assert ended(index, table, 2) == set()


def test_expired_versions_are_refused_and_their_rows_are_gone(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_checks, "CLAIMS_KEPT_MS", -60_000)
    aborted = begin(index, table, plan(table), "k=1")
    index.transactions.move(aborted.transaction_id, (State.OPEN,), State.ABORTED)
    for _ in range(3):
        made = begin(index, index.tables.load(table.identifier), plan(table, OVERWRITE), "k=1")
        finish(index, made)
        index.transactions.finish(made.transaction_id)
    old = index.tables.load(table.identifier)
    write(index, table, plan(table), "k=2")
    before = files_by_partition(index, table)
    assert index.versions.expire(table.table_id, 4) > 0
    assert index.versions.expire(table.table_id, 4) == 0
    assert index.versions.expire(table.table_id, 99) == 0
    assert files_by_partition(index, table) == before
    for read in (index.files.plan, index.partitions.all):
        with pytest.raises(VersionExpiredError, match=r"Version 3 of the table s\.t was removed by vacuum"):
            read(old, None)
    with pytest.raises(VersionExpiredError):
        index.changes.between(table.table_id, 2, 4)
    assert changed(index, table, 3, 4) == [(4, 0, "k=2")]
    assert ended(index, table, 4) == set()
    assert [h.version for h in index.tables.history(table.identifier)] == [4]
    assert [t.version for t in index.transactions.all(table.table_id)] == [4]


@pytest.mark.parametrize(("most", "count"), [("_PAGE", 2), ("_ROWS", 4)])
def test_expiry_goes_on_where_it_was_stopped(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, most: str, count: int
) -> None:
    monkeypatch.setattr(expire_versions, most, count)
    names = [f"k={n}" for n in range(5)]
    for _ in range(3):
        write(index, table, plan(table, OVERWRITE), *names)
    before = files_by_partition(index, table)
    some = index.versions.expire(table.table_id, 3, max_rows=1)
    assert 0 < some <= 2 * 2
    assert [h.version for h in index.tables.history(table.identifier)] == [3, 2, 1, 0], "the history goes last"
    with pytest.raises(VersionExpiredError):
        index.changes.between(table.table_id, 1, 3)
    assert index.versions.expire(table.table_id, 3, max_rows=1000) > some
    assert [h.version for h in index.tables.history(table.identifier)] == [3]
    assert files_by_partition(index, table) == before
    asked = index.query_count
    assert index.versions.expire(table.table_id, 3, aborted=False) == 0
    assert index.query_count - asked == 2, "where nothing is left, nothing is written"


def test_expiry_reads_what_has_ended_and_no_more(index: Index, table: Table) -> None:
    write(index, table, plan(table), *(f"k={n}" for n in range(3000)))
    write(index, table, plan(table, OVERWRITE), "k=1")
    with index._database.reading() as connection:
        explained = sa.select(partitions.c.partition_id).where(expire_versions._ended(table.table_id, 2))
        text = explained.compile(connection, compile_kwargs={"literal_binds": True})
        found = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all()
    assert "ix_partitions_ended" in str(found)


@pytest.mark.parametrize("days", [-8, 8])
def test_a_hosts_clock_that_is_wrong_dates_nothing(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    write(index, table, plan(table), "k=1")
    right = time.time_ns
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: right() + days * _DAY_MS * 1_000_000)
        write(index, table, plan(table), "k=2")
        index.commits.apply_changes(table.table_id, [AddPartition("k=3", ())], operation="repair", deliver=True)
        made = create(index, name="made", namespace="other")
        index.repairs.add(RepairRecord(table.table_id, 5000, "sync", None, 0, "test", 0, 0, 0, 0, 1, 1))
        undone = begin(index, table, plan(table), "k=4").transaction_id
        index.transactions.move(undone, (State.OPEN,), State.ABORTED)
        done = write(index, table, plan(table), "k=5").transaction_id
    now = index.now_ms()
    versions = index.tables.history(table.identifier)
    times = [one.committed_at_ms for one in reversed(versions)]
    assert times == sorted(times)
    ended = [index.transactions.load(one).ended_at_ms or 0 for one in (undone, done)]
    queued = [one.created_at_ms for one in index.outbox.pending()]
    assert queued
    reported = [int(at) * 1000 for at in re.findall(r"lastDdlTime\W+(\d+)", str(index.outbox.pending()))]
    assert reported
    with index._database.reading() as connection:
        created = [
            at
            for rows in (partitions, namespaces, tables)
            for at in connection.scalars(sa.select(rows.c.created_at_ms))
        ]
        repaired = connection.execute(sa.select(repairs.c.began_at_ms, repairs.c.ended_at_ms)).one()
    assert len(created) == 4 + 2 + 2
    assert repaired.ended_at_ms - repaired.began_at_ms == 5000
    times.append(index.tables.history(made.identifier)[0].committed_at_ms)
    for at in (*times, *ended, *queued, *reported, *created, *repaired):
        assert abs(now - at) < 600_000
    assert index.history.version_at(table.table_id, now - 7 * _DAY_MS) == 0
    assert index.history.version_at(table.table_id, now) == versions[0].version


def test_a_version_dated_in_the_past_takes_none_before_it_along(index: Index, table: Table) -> None:
    for name in ("k=1", "k=2", "k=3"):
        write(index, table, plan(table), name)
    _date(index, table, 2, index.now_ms() - 8 * _DAY_MS)
    assert index.history.version_at(table.table_id, index.now_ms() - 7 * _DAY_MS) == 0
    _date(index, table, 0, 0)
    _date(index, table, 1, 0)
    assert index.history.version_at(table.table_id, index.now_ms() - 7 * _DAY_MS) == 2
    later = index.now_ms() + _DAY_MS
    _date(index, table, 3, later)
    write(index, table, plan(table), "k=4")
    assert index.tables.history(table.identifier)[0].committed_at_ms == later, "times never go backwards"


def test_versions_dated_in_the_future_grow_old_from_now_on(
    index: Index, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("k=1", "k=2", "k=3"):
        write(index, table, plan(table), name)
    for version in (0, 1):
        _date(index, table, version, index.now_ms() - 8 * _DAY_MS)
    soon = index.now_ms() + 60_000
    _date(index, table, 3, soon)
    assert index.history.version_at(table.table_id, index.now_ms()) == 2, "a clock may be a little ahead"
    assert index.tables.history(table.identifier)[0].committed_at_ms == soon
    _date(index, table, 2, index.now_ms() + 365 * _DAY_MS)
    write(index, table, plan(table), "k=4")
    assert index.history.version_at(table.table_id, index.now_ms() - 7 * _DAY_MS) == 1
    assert "were dated in the future" in caplog.text
    dates = [version.committed_at_ms for version in index.tables.history(table.identifier)]
    assert max(dates) <= index.now_ms()
    assert dates == sorted(dates, reverse=True)
    assert index.history.version_at(table.table_id, index.now_ms()) == 4
    caplog.clear()
    index.history.version_at(table.table_id, index.now_ms())
    assert not caplog.records


def _date(index: Index, table: Table, version: int, at_ms: int) -> None:
    v = table_versions.c
    mine = sa.update(table_versions).where(v.table_id == table.table_id, v.version == version)
    index._database.write(lambda connection: connection.execute(mine.values(committed_at_ms=at_ms)))


def test_recovery_reads_no_plan_of_a_finished_write(index: Index, table: Table) -> None:
    for name in ("k=1", "k=2"):
        index.transactions.finish(write(index, table, plan(table), name).transaction_id)
    begin(index, table, plan(table), "k=3")
    asked: list[tuple[str, Any]] = []
    engine = index._database.engine
    sa.event.listen(engine, "before_cursor_execute", lambda *given: asked.append((given[2], given[3])))
    assert index.transactions.moving_commands((State.ABORTED, State.COMMITTED, State.FINISHED)) == []
    steps = [
        row.detail
        for text, values in tuple(asked)
        for row in index._database.engine.connect().exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values)
    ]
    in_flight, of_ended = (plan for plan in steps if "transactions" in plan)
    assert "(state=?)" in in_flight, "and no state is asked for"
    assert "(transaction_id=?)" in of_ended, "only those are looked at that have lists of files"


def test_a_write_that_is_older_than_the_oldest_version(index: Index, table: Table) -> None:
    write(index, table, plan(table), "k=1", "k=2", "k=3")
    old = index.tables.load(table.identifier)
    append, overwrite = (begin(index, old, plan(table, kind), "k=1") for kind in (WriteKind.APPEND, OVERWRITE))
    late = begin(index, old, plan(table, OVERWRITE), "k=3")
    for name in ("k=1", "k=2"):
        index.commits.apply_changes(table.table_id, [DropPartition(name)], operation="repair", deliver=False)
    done = write(index, table, plan(table, WriteKind.OVERWRITE, predicate=Comparison(Operator.EQ, "k", "7")))
    write(index, table, plan(table), "k=4")
    index.transactions.finish(done.transaction_id)
    index.versions.expire(table.table_id, 4)
    # An append is not disturbed by forgotten transactions, and the claims of others are remembered.
    assert finish(index, append).version == 5
    for made in (overwrite, late):
        with pytest.raises(ConflictError, match="read at version 1, and what was changed up to 4 is not known"):
            index.commits.reserve(Commit(made))


def test_expiry_keeps_what_still_waits(index: Index, table: Table) -> None:
    stream: dict[str, Any] = {"app_id": "query", "app_version": 1}
    made = begin(index, table, plan(table, waiting=("k=1",)), "k=1", "k=2", **stream)
    finish(index, made)
    index.transactions.finish(made.transaction_id)
    write(index, table, plan(table), "k=3")
    index.versions.expire(table.table_id, 2)
    assert [w.partition for w in index.waiting_files.all(table.table_id, "query")] == ["k=1"]
    assert index.transactions.uncommitted_ids(table.table_id, 2) == {made.transaction_id: State.FINISHED}


def test_statistics_follow_their_files(index: Index, table: Table, tmp_path: Path) -> None:
    made = begin(index, table, plan(table))
    known = {"fare": ColumnStatistics("1.50", "9.00", 0)}
    index.transaction_files.record(
        made.transaction_id, [StagedFile("k=1", f"part-{made.transaction_id}", 10, 2, known)]
    )
    assert next(iter(index.transaction_files.staged_files(made.transaction_id))).statistics == known
    finish(index, made)
    assert statistics(tmp_path) == ['{"fare":{"max":"9.00","min":"1.50","nulls":0}}']
    write(index, table, plan(table, OVERWRITE), "k=1")
    index.versions.expire(table.table_id, 2)
    assert statistics(tmp_path) == []


def statistics(folder: Path) -> list[str]:
    connection = sqlite3.connect(folder / "index.db")
    rows = connection.execute("SELECT statistics FROM file_statistics").fetchall()
    connection.close()
    return [text for (text,) in rows]


def test_expiry_keeps_one_row_of_sums_for_each_first_key(index: Index) -> None:
    table = create(index, name="sums", keys={"k": "string", "n": "int"})
    names = [f"k={k}/n={n}" for k in ("a", "b", DEFAULT_PARTITION) for n in range(3)]
    index.commits.apply_changes(
        table.table_id, [AddPartition(n, data_files(2)) for n in names], operation="x", deliver=False
    )
    uncounted = AddPartition("k=a/n=9", (DataFile("f", 1, 1, None),))
    changes = [*map(DropPartition, names[:5]), uncounted]
    index.commits.apply_changes(table.table_id, changes, operation="x", deliver=False)
    write(index, index.tables.load(table.identifier), plan(table), "k=b/n=2", "k=c/n=0")
    index.versions.expire(table.table_id, 3)
    with index._database.reading() as connection:
        check_sums(connection)
        of_table = partition_sums.c.table_id == table.table_id
        rows = connection.execute(sa.select(partition_sums.c.depth).where(of_table)).scalars().all()
    assert sorted(rows) == [0, 1, 1, 1, 1], "one of all partitions; one each of a, b, c and NULL"
