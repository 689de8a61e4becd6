"""The index on each of its three databases."""

from __future__ import annotations

import getpass
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

from catalog_ext.metastore.errors import (
    ConflictError,
    InvalidInputError,
    InvalidPartitionNameError,
    InvalidValueError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database import adbc
from catalog_ext.metastore.index.read.metadata_groups import Aggregate, Function
from catalog_ext.metastore.index.read.metadata_rows import NumberPredicate
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import DataFile, Namespace
from catalog_ext.metastore.predicates.tree import Comparison, In, Not, Operator, Or, Predicate
from tests.kit.index_cases import (
    Filled,
    alter_properties,
    create,
    data_files,
    definition,
    listed_names,
    planned_names,
    predicates,
)
from tests.kit.large_predicates import LARGE
from tests.kit.transaction_cases import begin, plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from catalog_ext.metastore.model.tables import Table

DATABASES = ("sqlite", "postgres", "mariadb")


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/er/index.db"
    fixture: str = request.getfixturevalue(f"{request.param}_index_url")
    return fixture


@pytest.fixture
def index(url: str) -> Iterator[Index]:
    with Index.open(url) as opened:
        yield opened


def add(
    index: Index, table: Table, *names: str, files: int = 1, rows: int | None = None, deliver: bool = False
) -> Table:
    changes = [AddPartition(name, data_files(files, rows)) for name in names]
    index.commits.apply_changes(table.table_id, changes, operation="test", deliver=deliver)
    return index.tables.load(table.identifier)


@pytest.mark.parametrize("url", [name for name in DATABASES if name != "sqlite"], indirect=True)
def test_sql_answers_as_the_evaluator(index: Index) -> None:
    """As tests/unit/index/test_index_predicates.py shows it on SQLite."""
    filled = Filled(index)

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
    @given(predicate=predicates)
    def check(predicate: Predicate) -> None:
        filled.check(predicate)

    check()
    for predicate in LARGE.values():
        filled.check(predicate)


def test_etags_are_kept_and_noted_where_they_are_unknown(index: Index) -> None:
    own = f"part-0-{'0123456789abcdef' * 2}.parquet"
    known, unknown = DataFile("known", 1, 5, etag=-(1 << 63)), DataFile("unknown", 1, 5)
    table = create(index, keys={"k": "string"})
    files = (known, unknown, DataFile("changed", 1, 5), DataFile(own, 1, 5))
    index.commits.apply_changes(table.table_id, [AddPartition("k=a", files)], operation="test", deliver=False)
    table = index.tables.load(table.identifier)
    listed = [DataFile("known", 1, 5, etag=7), DataFile("unknown", 1, 5, etag=7), DataFile("changed", 1, 6, etag=7)]
    index.file_statistics.note_etags(table, [("k=a", file) for file in (*listed, DataFile(own, 1, 6, etag=8))])
    rows = index.files.known(table, None).read_all().to_pylist()
    assert {row["path"]: row["etag_hash"] for row in rows} == {
        "known": known.etag, "unknown": 7, "changed": None, own: 8,
    }  # fmt: skip
    assert index.tables.load(table.identifier).version == table.version
    (partition,) = index.living_partitions.of_values(table, ["k=a"])
    found = index.living_partitions.files([partition.partition_id])[partition.partition_id]
    assert {f.path: f.etag for f in found} == {
        "known": known.etag, "unknown": 7, "changed": None, own: 8,
    }  # fmt: skip


def test_namespaces(index: Index) -> None:
    made = index.namespaces.create(Namespace("sales", "file:///x", "all of it", {"a": "1", "b": "2"}), deliver=True)
    assert index.namespaces.load("sales") == made
    assert index.namespaces.all() == ["sales"]
    with pytest.raises(NamespaceAlreadyExistsError, match="sales"):
        index.namespaces.create(Namespace("sales"), deliver=True)
    altered = index.namespaces.alter("sales", {"b": "3", "comment": "less"}, ["a", "location"], deliver=True)
    assert altered == index.namespaces.load("sales") == Namespace("sales", None, "less", {"b": "3"})
    create(index, "t", namespace="sales")
    with pytest.raises(NamespaceNotEmptyError, match=r"\(t\)"):
        index.namespaces.drop("sales", deliver=True)
    index.tables.drop(TableIdentifier("sales", "t"), deliver=False)
    index.namespaces.drop("sales", deliver=True)
    for act in (index.namespaces.load, index.tables.all, lambda name: index.namespaces.drop(name, deliver=True)):
        with pytest.raises(NamespaceNotFoundError, match="sales"):
            act("sales")
    reported = [(d.operation, d.namespace, d.table) for d in index.outbox.pending()]
    assert reported == [(f"{verb}_namespace", "sales", None) for verb in ("create", "alter", "drop")]


def test_tables(index: Index) -> None:
    with pytest.raises(NamespaceNotFoundError):
        index.tables.create(definition("s", "t", {}), deliver=True)
    index.namespaces.create(Namespace("s"), deliver=False)
    wanted = definition("s", "t", {"ds": "date"})
    table = index.tables.create(wanted, deliver=True)
    assert (table.definition, table.version) == (wanted, 0)
    assert index.tables.load(wanted.identifier) == index.tables.load_by_id(table.table_id) == table
    with pytest.raises(TableAlreadyExistsError, match=r"s\.t exists"):
        index.tables.create(wanted, deliver=True)
    assert index.tables.all("s") == ["t"]
    odd = {"key": "v'; -- ✓ \U0001f600 \\", "nul": "\x00", "comment": "why"}
    altered = alter_properties(index, wanted.identifier, odd, ["absent"])
    assert altered == index.tables.load(wanted.identifier)
    assert altered.definition.comment == "why"
    assert altered.definition.properties == {"key": odd["key"], "nul": "\x00"}
    created, changed = index.outbox.pending()
    assert (created.operation, changed.operation) == ("create_table", "alter_table")
    assert created.payload["partition_columns"][0]["type"] == "date"
    assert index.tables.drop(wanted.identifier, deliver=True, purge=True) == altered
    with pytest.raises(TableNotFoundError, match=r"s\.t"):
        index.tables.load(wanted.identifier)
    with pytest.raises(TableNotFoundError):
        index.tables.drop(wanted.identifier, deliver=True)
    # Messages about a dropped table that were not delivered need not be.
    (dropped,) = index.outbox.pending()
    assert (dropped.operation, dropped.payload["purge"]) == ("drop_table", True)
    assert index.tables.create(wanted, deliver=False).table_id != table.table_id


def test_overlapping_locations(index: Index) -> None:
    for name in ("a", "a_b", "a0", "other"):
        create(index, name)
    at = "file:///data/s/a"
    assert index.tables.overlapping(at) == [TableIdentifier("s", "a")]
    assert index.tables.overlapping(f"{at}/ds=1/") == [TableIdentifier("s", "a")]
    assert len(index.tables.overlapping("file:///data/s")) == len(index.tables.overlapping("file:///data")) == 4
    assert index.tables.overlapping("file:///data/s/a1") == []


def test_a_statement_sees_one_version(index: Index) -> None:
    first = add(index, create(index, keys={"k": "string"}), "k=a", "k=b", "k=c", files=2, rows=10)
    assert (first.version, first.totals.partitions, first.totals.files, first.totals.rows) == (1, 3, 6, 60)
    changed = DataFile("part-00001.parquet", 999, 2, None)
    outcome = index.commits.apply_changes(
        first.table_id,
        [
            ReplaceFiles("k=a", added=(changed, DataFile("new.parquet", 1, 3, 5)), removed=("part-00001.parquet",)),
            DropPartition("k=b"),
            DropPartition("k=c"),
            AddPartition("k=c", data_files(1, 7), location="file:///elsewhere"),
        ],
        operation="repair",
        summary={"why": "test"},
        deliver=False,
    )
    second = index.tables.load(first.identifier)
    assert (outcome.version, outcome.partitions_added, outcome.partitions_dropped, outcome.partitions_changed) == (
        2,
        1,
        2,
        1,
    )
    assert (outcome.files_added, outcome.files_removed) == (3, 5)
    assert sorted(planned_names(index, first)) == ["k=a", "k=a", "k=b", "k=b", "k=c", "k=c"]
    rows = index.files.plan(second, None).read_all().to_pylist()
    files = {(r["partition"], r["location"], r["path"], r["size"], r["rows"]) for r in rows}
    assert files == {
        ("k=a", None, "part-00000.parquet", 100, 10),
        ("k=a", None, "part-00001.parquet", 999, None),
        ("k=a", None, "new.parquet", 1, 5),
        ("k=c", "file:///elsewhere", "part-00000.parquet", 100, 7),
    }
    partitions = index.partitions.all(second, None).read_all().to_pylist()
    assert [(p["partition"], p["files"], p["bytes"], p["rows"]) for p in partitions] == [
        ("k=a", 3, 1100, None),
        ("k=c", 1, 100, 7),
    ]
    before = index.partitions.all(first, None).read_all().to_pylist()
    assert before[0]["partition_id"] == partitions[0]["partition_id"]
    assert before[2]["partition_id"] != partitions[1]["partition_id"]
    totals = second.totals
    assert (totals.partitions, totals.files, totals.bytes, totals.rows) == (2, 4, 1200, None)
    index.commits.apply_changes(
        second.table_id, [ReplaceFiles("k=a", removed=("part-00001.parquet",))], operation="x", deliver=False
    )
    assert index.tables.load(first.identifier).totals.rows == 10 + 5 + 7
    history = index.tables.history(first.identifier)
    assert [(h.version, h.operation) for h in history] == [(3, "x"), (2, "repair"), (1, "test"), (0, "create")]
    assert history[1].summary == {
        "why": "test",
        "partitions_added": 1,
        "partitions_removed": 2,
        "partitions_changed": 1,
        "files_added": 3,
        "files_removed": 5,
        "rows": None,
        "bytes": 1100,
        "rows_removed": 50,
        "bytes_removed": 503,
        "user": getpass.getuser(),
    }


def test_nothing_to_do_makes_no_version(index: Index) -> None:
    table = add(index, create(index, keys={"k": "string"}), "k=a")
    for changes in ([], [ReplaceFiles("k=a")]):
        assert index.commits.apply_changes(table.table_id, changes, operation="none", deliver=True).version == 1
    assert index.tables.load(table.identifier) == table


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (AddPartition("k=a", ()), "there already"),
        (DropPartition("k=b"), "no longer there"),
        (ReplaceFiles("k=b", removed=("x",)), "no longer there"),
        (ReplaceFiles("k=a", removed=("absent",)), "'absent' is no longer there"),
        (ReplaceFiles("k=a", added=data_files(1)), "is there already"),
    ],
)
def test_a_commit_that_presumes_otherwise_changes_nothing(index: Index, change: AddPartition, words: str) -> None:
    table = add(index, create(index, keys={"k": "string"}), "k=a")
    with pytest.raises(ConflictError, match=words):
        index.commits.apply_changes(
            table.table_id, [AddPartition("k=new", data_files(1)), change], operation="x", deliver=True
        )
    assert index.tables.load(table.identifier) == table
    assert listed_names(index, table) == ["k=a"]
    assert index.outbox.pending() == []


def test_one_of_many_new_partitions_that_is_there_changes_nothing(index: Index) -> None:
    """Many are not looked for first: the database refuses the one."""
    table = add(index, create(index, keys={"k": "string"}), "k=here", "k=other")
    many = [AddPartition(f"k={i}", data_files(1)) for i in range(1500)]
    with pytest.raises(ConflictError, match=r"'k=here': it is there already"):
        index.commits.apply_changes(table.table_id, [*many, AddPartition("k=here", ())], operation="x", deliver=True)
    assert index.tables.load(table.identifier) == table
    assert sorted(listed_names(index, table)) == ["k=here", "k=other"]
    assert index.outbox.pending() == []
    again = [*many, AddPartition("k=here", data_files(2)), DropPartition("k=here")]
    done = index.commits.apply_changes(table.table_id, again, operation="x", deliver=True)
    assert (done.partitions_added, done.partitions_dropped, done.files_added) == (1501, 1, 1502)
    after = index.tables.load(table.identifier)
    assert (after.totals.partitions, after.totals.files) == (1502, 1503)
    assert len(listed_names(index, after)) == 1502


def test_a_commit_that_names_its_base_leaves_alone_what_changed_after_it(index: Index) -> None:
    base = add(index, create(index, keys={"k": "string"}), "k=same", "k=changed", "k=gone", "k=again")
    index.commits.apply_changes(
        base.table_id,
        [
            ReplaceFiles("k=changed", removed=("part-00000.parquet",)),
            DropPartition("k=gone"),
            DropPartition("k=again"),
            AddPartition("k=come", ()),
        ],
        operation="x", deliver=False,
    )  # fmt: skip
    index.commits.apply_changes(base.table_id, [AddPartition("k=again", ())], operation="x", deliver=False)
    names = ["k=same", "k=changed", "k=gone", "k=again", "k=come", "k=never"]
    first, second = base.version + 1, base.version + 2
    assert index.living_partitions.changed_after(base, names) == {
        "k=changed": first, "k=gone": first, "k=again": second, "k=come": first,
    }  # fmt: skip
    for change in (
        ReplaceFiles("k=changed", added=data_files(1, 7)),
        AddPartition("k=gone", ()),
        DropPartition("k=again"),
        DropPartition("k=come"),
    ):
        with pytest.raises(ConflictError, match="changed it"):
            index.commits.apply_changes(base.table_id, [change], operation="repair", deliver=False, base=base)
    done = index.commits.apply_changes(
        base.table_id, [DropPartition("k=same"), AddPartition("k=never", ())], operation="repair", deliver=False,
        base=base,
    )  # fmt: skip
    assert done.version == base.version + 3
    latest = index.tables.load(base.identifier)
    assert index.living_partitions.changed_after(latest, names) == {}
    index.versions.expire(base.table_id, latest.version)
    assert index.living_partitions.changed_after(base, names) == {
        "k=changed": first, "k=again": second, "k=come": first, "k=never": latest.version,
        "k=same": latest.version, "k=gone": latest.version,
    }  # fmt: skip


def test_a_change_that_contradicts_another_or_the_table(index: Index) -> None:
    table = create(index, keys={"k": "int", "l": "string"})
    for changes, error in (
        ([AddPartition("k=1/l=a", ()), AddPartition("k=1/l=a", ())], InvalidInputError),
        ([AddPartition("k=1/l=a", data_files(1) * 2)], InvalidInputError),
        ([AddPartition("k=1", ())], InvalidPartitionNameError),
        ([AddPartition("l=a/k=1", ())], InvalidPartitionNameError),
        ([AddPartition("k=x/l=a", ())], InvalidValueError),
    ):
        with pytest.raises(error):
            index.commits.apply_changes(table.table_id, changes, operation="x", deliver=True)
    with pytest.raises(TableNotFoundError):
        index.commits.apply_changes(4711, [AddPartition("k=1/l=a", ())], operation="x", deliver=True)
    assert index.tables.load(table.identifier) == table


def test_names_are_kept_exactly(index: Index) -> None:
    names = [
        "k=x", "k=x ", "k=X", "k=%78", "K=x%20", "k=é", "k=e\u0301", "k=", "k=\U0001f600", "k=a%2Fb", "k=..", "k=\n\t",
        "k='; DROP TABLE files; --", 'k="', "k=\\", "k=" + "y" * 10_000, "k=" + "y" * 9_999 + "z", "k=" + "é" * 10_000,
        "k=__HIVE_DEFAULT_PARTITION__",
    ]  # fmt: skip
    table = add(index, create(index, keys={"k": "string"}), *names)
    assert sorted(listed_names(index, table)) == sorted(names)
    assert listed_names(index, table)[:2] == ["k=__HIVE_DEFAULT_PARTITION__", "k="]
    assert index.partitions.existing(table, [*names, "k=nope"]) == set(names)
    assert listed_names(index, table, Comparison(Operator.EQ, "k", "x")) == ["k=%78", "k=x"]
    assert listed_names(index, table, Comparison(Operator.EQ, "k", "x ")) == ["K=x%20", "k=x "]
    assert listed_names(index, table, Comparison(Operator.EQ, "k", "y" * 9_999 + "z")) == ["k=" + "y" * 9_999 + "z"]
    index.commits.apply_changes(table.table_id, [DropPartition(n) for n in names], operation="x", deliver=False)
    assert listed_names(index, index.tables.load(table.identifier)) == []


@pytest.mark.parametrize("name", ["k=\x00", "k=\udc80"])
def test_names_that_no_database_keeps(index: Index, name: str) -> None:
    table = create(index, keys={"k": "string"})
    with pytest.raises(InvalidPartitionNameError, match="partition name"):
        index.commits.apply_changes(table.table_id, [AddPartition(name, ())], operation="x", deliver=False)
    file = DataFile(name, 1, 1)
    with pytest.raises(InvalidPartitionNameError, match="file name"):
        index.commits.apply_changes(table.table_id, [AddPartition("k=a", (file,))], operation="x", deliver=False)
    assert index.tables.load(table.identifier).version == 0


@pytest.mark.parametrize("text", ["a\x00b", "a\udc80b"])
def test_other_text_that_no_database_keeps(index: Index, text: str) -> None:
    with pytest.raises(InvalidInputError, match="comment of namespace bad has"):
        index.namespaces.create(Namespace("bad", comment=text), deliver=True)
    table = create(index)
    with pytest.raises(InvalidInputError, match=r"comment of table s\.t has"):
        alter_properties(index, table.identifier, {"comment": text})
    assert index.tables.load(table.identifier) == table
    assert index.outbox.pending() == []


def test_partitions_come_in_the_order_of_their_values(index: Index) -> None:
    table = create(index, keys={"n": "int", "s": "string"})
    ordered = [
        "n=__HIVE_DEFAULT_PARTITION__/s=b", "n=-10/s=a", "n=-9/s=a", "n=1/s=__HIVE_DEFAULT_PARTITION__", "n=1/s=",
        "n=01/s=a", "n=1/s=a", "n=1/s=é", "n=1/s=\uffff", "n=1/s=\U00010000", "n=10/s=a", "n=100/s=",
    ]  # fmt: skip
    assert listed_names(index, add(index, table, *reversed(ordered))) == ordered


def test_metastore_gets_what_it_can_hold(index: Index) -> None:
    table = create(index, keys={"k": "string"})
    names = [f"k={i:04d}" for i in range(1500)]
    changes = [AddPartition(n, ()) for n in names[:-1]]
    changes += [AddPartition(names[-1], (), location="file:///far"), AddPartition("k=", (), in_metastore=False)]
    assert index.commits.apply_changes(table.table_id, changes, operation="x", deliver=True).deliveries == 2
    index.commits.apply_changes(
        table.table_id, [DropPartition("k="), DropPartition("k=0000")], operation="x", deliver=True
    )
    first, second, third = index.outbox.pending()
    assert [len(d.payload["add"]) for d in (first, second, third)] == [1000, 500, 0]
    statistics = {"numFiles": "0", "totalSize": "0", "numRows": "0"}
    added = first.payload["add"][0]
    assert added["parameters"].pop("transient_lastDdlTime").isdigit()
    assert added == {"name": "k=0000", "location": "file:///data/s/t/k=0000", "parameters": statistics}
    assert second.payload["add"][-1]["location"] == "file:///far"
    assert third.payload == {"location": "file:///data/s/t", "add": [], "alter": [], "drop": ["k=0000"]}
    assert (third.operation, third.namespace, third.table) == ("sync_partitions", "s", "t")


def test_the_last_names_go_before_the_first_come(index: Index) -> None:
    table = create(index, keys={"k": "string"})
    old = [f"k={i:04d}" for i in range(1200)]
    index.commits.apply_changes(table.table_id, [AddPartition(n, ()) for n in old], operation="x", deliver=False)
    changes = [*(DropPartition(n) for n in old), *(AddPartition(f"{n}x", ()) for n in old)]
    index.commits.apply_changes(table.table_id, changes, operation="x", deliver=True)
    sizes = [(len(d.payload["drop"]), len(d.payload["add"])) for d in index.outbox.pending()]
    assert sizes == [(1000, 0), (200, 1000), (0, 200)]


def test_deliveries_are_claimed_done_and_failed(index: Index) -> None:
    for name in ("a", "b"):
        index.namespaces.create(Namespace(name), deliver=True)
    first, second = index.outbox.pending()
    assert first.due
    assert index.outbox.claim(first.outbox_id, "one", 60_000)
    assert not index.outbox.claim(first.outbox_id, "two", 60_000)
    assert not index.outbox.pending()[0].due
    assert index.outbox.retry(first.outbox_id) == 0
    assert not index.outbox.skip(first.outbox_id)
    index.outbox.failed(first.outbox_id, "one", "it said \x00 no ✓", 60_000, refused=True)
    failed, _ = index.outbox.pending()
    assert (failed.attempts, failed.refusals, failed.last_error) == (1, 1, "it said \\x00 no ✓")
    assert not failed.due
    assert index.outbox.retry() == 2
    assert index.outbox.claim(first.outbox_id, "three", 60_000)
    assert index.outbox.done(first.outbox_id, "three")
    assert not index.outbox.done(first.outbox_id, "three")
    assert index.outbox.pending() == [second]
    assert index.outbox.pending(after=second.outbox_id) == []
    assert not index.outbox.claim(first.outbox_id, "four", 60_000)
    assert index.outbox.skip(second.outbox_id)
    assert index.outbox.find(second.outbox_id) is None


def test_claims_go_by_the_databases_clock(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose clock is an hour ahead takes no live claim, and one that stalled past its claim has lost it."""
    index.namespaces.create(Namespace("a"), deliver=True)
    (message,) = index.outbox.pending()
    assert index.outbox.claim(message.outbox_id, "slow", 60_000)
    later = time.time_ns() + 3600 * 10**9
    with monkeypatch.context() as host:
        host.setattr(time, "time_ns", lambda: later)
        host.setattr(time, "time", lambda: later / 10**9)
        assert not index.outbox.claim(message.outbox_id, "ahead", 60_000)
    assert index.outbox.keep_claim(message.outbox_id, "slow", 60_000)
    assert index.outbox.keep_claim(message.outbox_id, "slow", 300_000), "renewed"
    assert not index.outbox.keep_claim(message.outbox_id, "ahead", 60_000)
    index.outbox.failed(message.outbox_id, "slow", "over", 0, refused=False)
    assert index.outbox.claim(message.outbox_id, "next", 60_000)
    assert not index.outbox.keep_claim(message.outbox_id, "slow", 60_000)
    assert not index.outbox.done(message.outbox_id, "slow")
    index.outbox.failed(message.outbox_id, "slow", "old news", 0, refused=True)
    (left,) = index.outbox.pending()
    assert (left.refusals, left.due, left.last_error) == (0, False, "over")
    assert index.outbox.done(message.outbox_id, "next")


def test_claims_and_pauses_of_a_clock_that_was_ahead_are_over(index: Index) -> None:
    """The database's clock was a day ahead for a while: nothing waits for that day."""
    day_ms = 24 * 3_600_000
    index.namespaces.create(Namespace("a"), deliver=True)
    (message,) = index.outbox.pending()
    assert index.outbox.claim(message.outbox_id, "killed", day_ms)
    assert index.outbox.pending()[0].due
    assert index.outbox.claim(message.outbox_id, "next", 60_000)
    assert not index.outbox.keep_claim(message.outbox_id, "killed", 60_000)
    index.outbox.failed(message.outbox_id, "next", "away", day_ms, refused=False)
    assert index.outbox.claim(message.outbox_id, "later", 60_000)


def test_reader_of_a_dropped_table_gets_an_error(index: Index) -> None:
    table = add(index, create(index, keys={"k": "string"}), *(f"k={i}" for i in range(50)), files=3)
    index.tables.drop(table.identifier, deliver=False)
    for read in (index.files.plan, index.partitions.all):
        with pytest.raises(TableNotFoundError, match="dropped while"):
            read(table, None)
    assert index.partitions.existing(table, ["k=1"]) == set()


def test_a_large_answer_is_streamed_and_a_small_one_keeps_no_connection(index: Index) -> None:
    table = create(index, keys={"k": "int"})
    table = add(index, table, *(f"k={i}" for i in range(400)), files=100)
    reader = index.files.plan(table, None)
    first = reader.read_next_batch()
    assert first.num_rows < 40_000
    index.commits.apply_changes(table.table_id, [DropPartition("k=399")], operation="x", deliver=False)
    ids = first.column("partition_id").to_pylist()
    for batch in reader:
        ids.extend(batch.column("partition_id").to_pylist())
    assert len(ids) == 40_000
    runs = 1 + sum(a != b for a, b in pairwise(ids))
    assert runs == 400, "the files of a partition lie together"
    for _ in range(100):  # more than the pool has connections
        index.files.plan(table, Comparison(Operator.EQ, "k", 7))


def test_rows_of_psycopg_do_where_adbc_is_missing(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        filled = Filled(index)
        by_adbc = index.files.plan(filled.table, None).read_all()
    monkeypatch.setattr(adbc, "find_spec", lambda _: None)
    with Index.open(postgres_url) as index:
        before = index.query_count
        assert index.files.plan(filled.table, None).read_all() == by_adbc
        assert index.query_count - before == 1


def test_planning_is_one_query(index: Index) -> None:
    table = add(index, create(index, keys={"k": "string"}), "k=a", "k=b")
    for act in (
        lambda: index.tables.load(table.identifier),
        lambda: index.files.plan(table, Comparison(Operator.EQ, "k", "a")).read_all(),
        lambda: index.files.plan(table, Comparison(Operator.EQ, "k", "none")).read_all(),
        lambda: index.partitions.all(table, None).read_all(),
    ):
        before = index.query_count
        act()
        assert index.query_count - before == 1


def test_concurrent_commits_take_versions_one_by_one(index: Index, url: str) -> None:
    table = create(index, keys={"k": "string"})
    versions: list[int] = []
    failures: list[Exception] = []

    def work(worker: int) -> None:
        try:
            with Index.open(url) as own:
                for i in range(5):
                    change = AddPartition(f"k={worker}-{i}", data_files(2))
                    versions.append(
                        own.commits.apply_changes(table.table_id, [change], operation="x", deliver=True).version
                    )
        except Exception as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(versions) == list(range(1, 21))
    loaded = index.tables.load(table.identifier)
    assert (loaded.version, loaded.totals.partitions, loaded.totals.files) == (20, 20, 40)
    assert len(index.files.plan(loaded, None).read_all()) == 40


def test_one_of_two_equal_commits_gets_a_conflict(index: Index) -> None:
    table = create(index, keys={"k": "string"})
    outcomes: list[str] = []

    def work() -> None:
        try:
            index.commits.apply_changes(
                table.table_id, [AddPartition("k=a", data_files(1))], operation="x", deliver=False
            )
            outcomes.append("won")
        except ConflictError as error:
            outcomes.append("lost" if error.retryable else "lost for ever")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["lost", "lost", "lost", "won"]
    assert index.tables.load(table.identifier).totals.files == 1


def test_statistics_can_be_renewed(index: Index) -> None:
    add(index, create(index, keys={"k": "string"}), *(f"k={i}" for i in range(1200)))
    index.planner_statistics.analyze()


@pytest.mark.parametrize("name", ["files", "partitions"])
def test_metadata_tables_are_grouped_and_filtered(index: Index, name: str) -> None:
    table = create(index, keys={"ds": "date", "region": "string"})
    counts = (None, 0, 2**40, 2**60)
    changes = [
        AddPartition(f"ds=2025-01-0{day}/region={region}", tuple(
            DataFile(f"{n}", 2**32 + n, 0, counts[(n + day) % 4]) for n in range(day % 4)
        ))
        for day in range(1, 6) for region in ("eu", "us")
    ]  # fmt: skip
    index.commits.apply_changes(table.table_id, changes, operation="test", deliver=False)
    table = index.tables.load(table.identifier)
    number, read = ("size", index.metadata_rows.files) if name == "files" else ("bytes", index.metadata_rows.partitions)
    asked = [
        Aggregate(Function.COUNT, None), Aggregate(Function.SUM, number), Aggregate(Function.SUM, "rows"),
        Aggregate(Function.MIN, "rows"), Aggregate(Function.MAX, number), Aggregate(Function.COUNT, "rows"),
    ]  # fmt: skip
    some = NumberPredicate(name, Or((
        Not(Comparison(Operator.GT, "rows", "5")), Comparison(Operator.NULL_SAFE_EQ, "rows", None),
        In("rows", (str(2**40), None)),
    )))  # fmt: skip
    predicate = Comparison(Operator.EQ, "region", "eu")
    for bound, numbers in ((None, None), (None, some), (predicate, None), (predicate, some)):
        rows = [row for row in read(table).read_all().to_pylist() if numbers is None or numbers.matches(row)]
        rows = [row for row in rows if bound is None or row["partition"].endswith("region=eu")]
        assert read(table, bound, ["rows"], numbers).read_all().num_rows == len(rows)
        assert index.metadata_groups.count(table, name, bound, numbers).read_all().num_rows == len(rows)
        for keys in (None, table.definition.keys[:1], table.definition.keys, ()):
            found = index.metadata_groups.groups(table, name, bound, keys, asked, numbers).read_all().to_pylist()
            known = [row["rows"] for row in rows if row["rows"] is not None]
            values = [[row[f"value_{i}"] for row in found if row[f"value_{i}"] is not None] for i in range(len(asked))]
            assert [sum(values[0]), sum(values[1])] == [len(rows), sum(row[number] for row in rows)]
            assert (sum(values[2]), sum(values[5])) == (sum(known), len(known))
            assert min(values[3], default=None) == min(known, default=None)
            assert max(values[4], default=None) == max((row[number] for row in rows), default=None)


def test_history_of_partitions_has_their_states(index: Index) -> None:
    table = create(index, keys={"ds": "date", "region": "string"})
    add(index, table, "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", rows=5)
    drop = [DropPartition("ds=2025-01-01/region=eu")]
    index.commits.apply_changes(table.table_id, drop, operation="drop", deliver=False)
    table = add(index, table, "ds=2025-01-01/region=eu", files=2)

    def states(predicate: Predicate | None = None, columns: Collection[str] | None = None) -> list[tuple[Any, ...]]:
        rows = index.partition_history.rows(table, predicate, columns).read_all()
        names = ("partition", "version", "until_version", "operation", "files", "rows")
        return sorted(tuple(row.get(name) for name in names) for row in rows.to_pylist())

    eu = [("ds=2025-01-01/region=eu", 1, 2, "test", 1, 5), ("ds=2025-01-01/region=eu", 3, None, "test", 2, None)]
    us = ("ds=2025-01-01/region=us", 1, None, "test", 1, 5)
    assert states() == [*eu, us]
    assert states(Comparison(Operator.EQ, "region", "eu")) == eu
    assert [state[1] for state in states(None, ["version"])] == [1, 1, 3]
    assert index.partition_history.rows(table, None, []).read_all().num_rows == 3
    index.version_holds.tag(table, 1, "one")
    index.versions.raise_floor(table.table_id, 3)
    assert states() == [*eu, us], "a tagged version has the state"
    index.version_holds.untag(table, "one")
    assert states() == [eu[1], us]


def test_the_state_of_an_index_is_what_is_open_and_pending_in_it(index: Index) -> None:
    nothing = index.state()
    assert (nothing.pending, nothing.oldest_pending_s, nothing.tables, nothing.bytes) == (0, 0.0, 0, 0)
    assert nothing.followed_s is None
    table = create(index, keys={"k": "int"})
    add(index, table, "k=1", "k=2", files=2, deliver=True)
    table = index.tables.load(table.identifier)
    begun = begin(index, table, plan(table), "k=3")
    other = begin(index, table, plan(table, lease_ms=-1), "k=4")
    before = index.query_count
    state = index.state()
    assert index.query_count == before + 1
    assert (state.tables, state.partitions, state.files) == (1, 2, 4)
    assert state.bytes == table.totals.bytes > 0
    assert state.pending > 0
    assert state.failing == 0
    assert 0 <= state.oldest_pending_s < 60
    assert begun.transaction_id != other.transaction_id
    assert {str(name): count for name, count in state.transactions.items() if count} == {"open": 2}
    assert state.abandoned == 1
    assert index.pool.limit == 30
