"""The engine of writes on a local folder and a SQLite index: what a write does, and what it leaves."""

from __future__ import annotations

import getpass
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.partition_plans import AddPartitions, NewPartition
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    IndexUnavailableError,
    InvalidConfigurationError,
    InvalidInputError,
    StagedFileMissingError,
    TableAlreadyExistsError,
    TableLayoutError,
    TableNotFoundError,
    TransactionStateError,
)
from catalog_ext.metastore.index.database.schema import transaction_files
from catalog_ext.metastore.index.write.transaction_files import TransactionFiles
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import DataFile, Totals
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.transactions.begin import LOCATIONS_IN_PLAN
from catalog_ext.metastore.transactions.reports import RecoveryAction
from catalog_ext.metastore.transactions.staging_locations import StagingLocations
from catalog_ext.metastore.transactions.write_protocol import Transactions
from tests.kit.index_cases import local_index
from tests.kit.repair_cases import write
from tests.kit.write_cases import Stand, definition
from tests.kit.writes import crash_at

if TYPE_CHECKING:
    from collections.abc import Iterator

APPEND, OVERWRITE, DYNAMIC = WriteKind.APPEND, WriteKind.OVERWRITE, WriteKind.OVERWRITE_PARTITIONS
OTHER = TableIdentifier("s", "new")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Stand]:
    """A stand without a table."""
    with local_index(tmp_path) as index:
        yield Stand(index)


@pytest.fixture
def stand(empty: Stand, root: Path) -> Stand:
    empty.create(definition(root))
    return empty


def check(stand: Stand, rows: dict[str, str], table: TableIdentifier | None = None) -> None:
    where = () if table is None else (table,)
    assert stand.rows(*where) == rows
    assert stand.listed(*where) == rows
    assert stand.strays(*where) == []
    assert all(t.state in (State.FINISHED, State.ABORTED) for t in stand.index.transactions.all())


def equals(value: str) -> Comparison:
    return Comparison(Operator.EQ, "k", value)


def test_an_append_adds_partitions_and_files(stand: Stand, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "catalog_ext.metastore.transactions.write_protocol")
    outcome = stand.write({"k=1": "1\n", "k=2": "2\n2\n"})
    assert (outcome.version, outcome.partitions_added, outcome.files_added, outcome.rows) == (1, 2, 2, 3)
    assert (outcome.bytes, outcome.table, outcome.pending_deliveries) == (6, "s.t", 0)
    assert "INSERT to s.t: version 1, partitions +2 -0 ~0, files +2 -0, 3 rows, 6 bytes" in caplog.text
    outcome = stand.write({"k=2": "3\n"})
    assert (outcome.version, outcome.partitions_added, outcome.partitions_changed) == (2, 0, 1)
    check(stand, {"k=1": "1\n", "k=2": "2\n2\n3\n"})
    assert stand.table().totals == Totals(2, 3, 8, 4)


def test_files_keep_the_time_that_the_store_shows(stand: Stand, root: Path) -> None:
    stand.write({"k=1": "1\n"})
    (row,) = stand.index.files.plan(stand.table(), None).read_all().to_pylist()
    assert row["modified_ms"] == (root / "k=1" / row["path"]).stat().st_mtime_ns // 1_000_000


def test_an_overwrite_replaces_the_partitions_that_receive_rows(stand: Stand) -> None:
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    outcome = stand.write({"k=2": "3\n", "k=3": "4\n"}, DYNAMIC)
    assert (outcome.partitions_added, outcome.partitions_changed, outcome.files_removed) == (1, 1, 1)
    check(stand, {"k=1": "1\n", "k=2": "3\n", "k=3": "4\n"})


def test_an_overwrite_takes_every_directory_of_its_value(stand: Stand, root: Path) -> None:
    write(root, "k=01/a.csv", "k=01/unknown.csv", content=b"0\n")
    stand.index.commits.apply_changes(
        stand.table().table_id, [AddPartition("k=01", (DataFile("a.csv", 2, 0),))], operation="repair", deliver=False
    )
    stand.write({"k=1": "1\n"}, DYNAMIC)
    check(stand, {"k=1": "1\n"})


def test_static_overwrite_without_rows_empties_and_keeps_its_partition(stand: Stand) -> None:
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    stand.write({}, DYNAMIC, static_partition="k=1")
    check(stand, {"k=1": "", "k=2": "2\n"})
    stand.write({}, DYNAMIC, static_partition="k=3")
    check(stand, {"k=1": "", "k=2": "2\n", "k=3": ""})


def test_a_dynamic_overwrite_without_rows_changes_nothing(stand: Stand) -> None:
    stand.write({"k=1": "1\n"})
    assert stand.write({}, DYNAMIC).version == 1
    check(stand, {"k=1": "1\n"})


def test_an_overwrite_by_a_condition_drops_what_gets_no_rows(stand: Stand) -> None:
    stand.write({f"k={n}": f"{n}\n" for n in range(4)})
    predicate = Comparison(Operator.LT, "k", "2")
    outcome = stand.write(
        {"k=1": "9\n", "k=7": "7\n"}, OVERWRITE, predicate=predicate, adds_others=True, operation="REPLACE WHERE"
    )
    assert (outcome.partitions_added, outcome.partitions_removed, outcome.partitions_changed) == (1, 1, 1)
    check(stand, {"k=1": "9\n", "k=2": "2\n", "k=3": "3\n", "k=7": "7\n"})


def test_rows_that_the_condition_is_not_true_for_are_refused(stand: Stand) -> None:
    stand.write({f"k={n}": f"{n}\n" for n in range(4)})
    predicate = Comparison(Operator.LT, "k", "2")
    for files, words in (
        ({"k=1": "9\n", "k=7": "7\n"}, r"rows of the partition 'k=7', which its condition is not true for"),
        ({f"k={n}": "7\n" for n in (2, 3, 4)}, r"the partition 'k=2' and 2 more(.*)replace-where-mismatch = add"),
        ({"k=__HIVE_DEFAULT_PARTITION__": "7\n"}, r"__HIVE_DEFAULT_PARTITION__"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            stand.write(files, OVERWRITE, predicate=predicate, operation="REPLACE WHERE")
        check(stand, {f"k={n}": f"{n}\n" for n in range(4)})
    stand.write({"k=01": "9\n"}, OVERWRITE, predicate=predicate, operation="REPLACE WHERE")
    check(stand, {"k=01": "9\n", "k=2": "2\n", "k=3": "3\n"})


def test_delete_drops_partitions_and_truncate_keeps_them(stand: Stand, root: Path) -> None:
    stand.write({f"k={n}": f"{n}\n" for n in range(4)})
    write(root, "k=2/unknown.csv")
    outcome = stand.engine.delete(stand.table(), equals("1"), truncate=False)
    assert (outcome.operation, outcome.partitions_removed, outcome.files_removed) == ("DELETE", 1, 1)
    assert not (root / "k=1").exists()
    outcome = stand.engine.delete(stand.table(), equals("2"), truncate=True)
    assert (outcome.operation, outcome.partitions_removed, outcome.files_removed) == ("TRUNCATE", 0, 1)
    check(stand, {"k=0": "0\n", "k=2": "", "k=3": "3\n"})
    stand.engine.delete(stand.table(), None, truncate=True)
    check(stand, {"k=0": "", "k=2": "", "k=3": ""})


def test_an_unpartitioned_table_is_one_partition(empty: Stand, root: Path) -> None:
    empty.create(definition(root, {}))
    write(root, "unknown.csv")
    empty.write({"": "1\n"}, OVERWRITE, operation="INSERT OVERWRITE")
    check(empty, {"": "1\n"})
    empty.write({"": "2\n"})
    check(empty, {"": "1\n2\n"})
    empty.engine.delete(empty.table(), None, truncate=True)
    check(empty, {"": ""})
    empty.write({"": "3\n"}, OVERWRITE, options={"overwrite-mode": "relocate"})
    check(empty, {"": "3\n"})


def test_a_partition_at_its_own_location_is_written_there(stand: Stand, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    write(other, "a.csv", content=b"0\n")
    stand.index.commits.apply_changes(
        stand.table().table_id,
        [AddPartition("k=1", (DataFile("a.csv", 2, 0, 1),), location=f"file://{other}")],
        operation="repair",
        deliver=False,
    )
    begun = stand.begin()
    assert begun.partition_locations == {"k=1": f"file://{other}"}
    staged = stand.put(begun, {"k=1": "1\n", "k=2": "2\n"})
    assert (other / "_catalog_ext_staging" / begun.transaction_id / staged[0].name).exists()
    stand.engine.commit(begun.transaction_id, staged)
    check(stand, {"k=1": "0\n1\n", "k=2": "2\n"})
    stand.write({"k=1": "3\n"}, DYNAMIC)
    check(stand, {"k=1": "3\n", "k=2": "2\n"})
    begun = stand.begin()
    stand.put(begun, {"k=1": "4\n"})
    stand.engine.abort(begun.transaction_id, "a task failed")
    check(stand, {"k=1": "3\n", "k=2": "2\n"})
    assert len(list(other.iterdir())) == 1


@pytest.mark.parametrize("ends", ["committed", "aborted", "recovered"])
def test_tasks_ask_where_partitions_lie_when_a_plan_cannot_name_them_all(
    stand: Stand, tmp_path: Path, ends: str
) -> None:
    elsewhere = [tmp_path / "elsewhere" / str(i) for i in range(LOCATIONS_IN_PLAN + 1)]
    for folder in elsewhere[:3]:
        write(folder, "a.csv", content=b"0\n")
    found = [
        AddPartition(f"k={i}", (DataFile("a.csv", 2, 0, 1),) if i < 3 else (), location=f"file://{folder}")
        for i, folder in enumerate(elsewhere)
    ]
    stand.index.commits.apply_changes(stand.table().table_id, found, operation="repair", deliver=False)
    begun = stand.begin()
    assert (begun.plan.asks_locations, begun.partition_locations) == (True, {})
    own = stand.engine.locate(begun.transaction_id, ["k=1", "k=2", "k=1001"])
    assert own == {
        name: f"file://{elsewhere[i]}/_catalog_ext_staging/{begun.transaction_id}"
        for name, i in (("k=1", 1), ("k=2", 2))
    }
    assert stand.engine.locate(begun.transaction_id, ["k=1"]) == {"k=1": own["k=1"]}
    located = {name: f"file://{elsewhere[i]}" for name, i in (("k=1", 1), ("k=2", 2))}
    begun = replace(begun, plan=replace(begun.plan, locations=located))
    staged = stand.put(begun, {"k=1": "1\n", "k=1001": "new\n"})
    stand.put(begun, {"k=2": "of a task that was lost\n"})
    rows = dict.fromkeys(stand.rows(), "") | {"k=0": "0\n", "k=1": "0\n", "k=2": "0\n"}
    if ends == "committed":
        plans: list[str] = []

        def look(_: str) -> None:
            with stand.index._database.reading() as connection:
                plans.extend(
                    connection.execute(sa.text("SELECT plan FROM transactions WHERE state = 'reserved'")).scalars()
                )

        with armed("promote.after", look):
            stand.engine.commit(begun.transaction_id, staged)
        assert "elsewhere" not in plans[0], "many locations would be more than a database takes in one value"
        rows |= {"k=1": "0\n1\n", "k=1001": "new\n"}
    elif ends == "aborted":
        stand.engine.abort(begun.transaction_id, "a task failed")
    else:
        stand.engine.recover(older_than_s=0)
    assert stand.rows() == rows
    left = sorted(
        str(p.relative_to(tmp_path / "elsewhere")) for p in (tmp_path / "elsewhere").rglob("*") if p.is_file()
    )
    expected = ["0/a.csv", "1/a.csv", "2/a.csv", *([f"1/{staged[0].name}"] if ends == "committed" else [])]
    assert left == sorted(expected)
    with stand.index._database.reading() as connection:
        assert connection.execute(sa.text("SELECT count(*) FROM transaction_locations")).scalar() == 0
    if ends != "committed":
        with pytest.raises(TransactionStateError):
            stand.engine.locate(begun.transaction_id, ["k=3"])


def test_a_relocating_overwrite_moves_partitions(stand: Stand, root: Path) -> None:
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    relocate = {"overwrite-mode": "relocate"}
    begun = stand.begin(DYNAMIC, options=relocate)
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=1": "3\n"}))
    moved = f"file://{root}/_catalog_ext_data/{begun.transaction_id}/k=1"
    assert stand.index.partitions.located(stand.table()) == {"k=1": moved}
    rows = {"k=1": "3\n", "k=2": "2\n"}
    assert stand.rows() == stand.listed() == rows
    assert [Path(s).parent.name for s in stand.strays()] == ["k=1"], "the old file stays until vacuum"
    stand.write({"k=1": "4\n"})
    assert stand.rows() == stand.listed() == {**rows, "k=1": "3\n4\n"}
    stand.engine.delete(stand.table(), equals("1"), truncate=True)
    assert stand.rows() == stand.listed() == {**rows, "k=1": ""}
    aborted = stand.begin(DYNAMIC, options=relocate)
    stand.put(aborted, {"k=2": "5\n"})
    stand.engine.abort(aborted.transaction_id, "a task failed")
    assert [p.name for p in (root / "_catalog_ext_data").iterdir()] == [begun.transaction_id]


def test_append_to_an_external_table_registers_files_of_new_partitions(empty: Stand, root: Path) -> None:
    empty.create(definition(root, external=True))
    write(root, "k=1/there.csv", "k=1/_hidden.csv", "k=1/deeper/x.csv", "k=2/there.csv", content=b"0\n")
    empty.write({"k=1": "1\n"})
    assert empty.rows() == {"k=1": "0\n1\n"}
    write(root, "k=1/late.csv", content=b"late\n")
    empty.write({"k=1": "2\n"})
    assert empty.rows() == {"k=1": "0\n1\n2\n"}, "only a partition that is created takes in"
    empty.write({"k=1": "3\n", "k=2": "4\n"}, DYNAMIC)
    assert empty.rows() == {"k=1": "3\n", "k=2": "4\n"}
    assert sorted(empty.strays()) == ["k=1/_hidden.csv", "k=1/deeper/x.csv"]


def test_files_of_other_writers_are_neither_taken_in_nor_removed(empty: Stand, root: Path) -> None:
    """One is taken back after it had given its file the final name."""
    empty.create(definition(root, external=True))
    other = empty.begin()
    (promoted,) = empty.put(other, {"k=1": "9\n"})
    crash_at("promote.after", lambda: empty.engine.commit(other.transaction_id, [promoted]))
    empty.index.transactions.move(other.transaction_id, (State.RESERVED,), State.ABORTING)
    empty.write({"k=1": "1\n"})
    assert empty.rows() == {"k=1": "1\n"}
    empty.write({"k=1": "2\n"}, DYNAMIC)
    assert (root / "k=1" / promoted.name).exists()


def test_a_table_is_created_with_its_rows(empty: Stand, tmp_path: Path) -> None:
    empty.create(definition(tmp_path / "t"))
    made = definition(tmp_path / "new", name="new")
    begun = empty.begin(WriteKind.CREATE, definition=made, operation="CTAS")
    staged = empty.put(begun, {"k=1": "1\n"})
    with pytest.raises(TableNotFoundError):
        empty.table(OTHER)
    outcome = empty.engine.commit(begun.transaction_id, staged)
    assert (outcome.operation, outcome.table_id) == ("CTAS", empty.table(OTHER).table_id)
    check(empty, {"k=1": "1\n"}, OTHER)
    with pytest.raises(TableAlreadyExistsError):
        empty.write({}, WriteKind.CREATE, definition=replace(made, location=f"file://{tmp_path}/third"))
    assert not (tmp_path / "third").exists()


def test_a_table_without_rows_is_created_with_its_folder(empty: Stand, tmp_path: Path) -> None:
    empty.create(definition(tmp_path / "t"))
    empty.write({}, WriteKind.CREATE, definition=definition(tmp_path / "new", name="new"))
    assert (tmp_path / "new").is_dir()
    check(empty, {}, OTHER)


def test_a_table_is_not_created_where_something_lies(empty: Stand, tmp_path: Path) -> None:
    empty.create(definition(tmp_path / "t"))
    write(tmp_path / "new", "k=1/a.csv")
    with pytest.raises(TableLayoutError, match="not empty"):
        empty.begin(WriteKind.CREATE, definition=definition(tmp_path / "new", name="new"))
    assert empty.index.transactions.all() == []


def test_a_failed_creation_leaves_no_folder(empty: Stand, tmp_path: Path) -> None:
    empty.create(definition(tmp_path / "t"))
    begun = empty.begin(WriteKind.CREATE, definition=definition(tmp_path / "new", name="new"))
    empty.put(begun, {"k=1": "1\n"})
    empty.engine.abort(begun.transaction_id, "a task failed")
    assert not (tmp_path / "new").exists()


def test_a_creation_with_a_partition_that_does_not_fit_is_undone(empty: Stand, tmp_path: Path) -> None:
    empty.create(definition(tmp_path / "t"))
    with pytest.raises(InvalidInputError):
        empty.write({"k=1": "1\n", "k=x": "2\n"}, WriteKind.CREATE, definition=definition(tmp_path / "new", name="new"))
    assert not (tmp_path / "new").exists()
    with pytest.raises(TableNotFoundError):
        empty.table(OTHER)
    assert [t.state for t in empty.index.transactions.all()] == [State.ABORTED]


@pytest.mark.parametrize("external", [False, True])
def test_a_replaced_table_has_the_new_rows_alone(empty: Stand, tmp_path: Path, external: bool) -> None:
    old = empty.create(definition(tmp_path / "t", external=external))
    empty.write({"k=1": "1\n", "k=2": "2\n"})
    write(tmp_path / "t", "k=2/unknown.csv")
    new = definition(tmp_path / "t", {"k": "string"}, external=external)
    outcome = empty.write({"k=2": "9\n"}, WriteKind.REPLACE, table=empty.table(), definition=new, operation="RTAS")
    assert outcome.table_id != old.table_id
    check(empty, {"k=2": "9\n"})
    assert not (tmp_path / "t" / "k=1").exists()


def test_writing_to_a_replaced_table_fails(stand: Stand, root: Path) -> None:
    stand.write({"k=1": "1\n"})
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "2\n"})
    stand.write({"k=5": "5\n"}, WriteKind.REPLACE, table=stand.table(), definition=definition(root))
    with pytest.raises(TableNotFoundError):
        stand.engine.commit(begun.transaction_id, staged)
    check(stand, {"k=5": "5\n"})


@pytest.mark.parametrize(
    ("first", "second", "conflict"),
    [(APPEND, APPEND, False), (APPEND, DYNAMIC, True), (DYNAMIC, APPEND, True), (DYNAMIC, DYNAMIC, True)],
)
def test_the_later_of_two_writers_of_a_partition(
    stand: Stand, first: WriteKind, second: WriteKind, conflict: bool
) -> None:
    stand.write({"k=1": "1\n"})
    begun, other = stand.begin(second), stand.begin(first)
    stand.engine.commit(other.transaction_id, stand.put(other, {"k=1": "2\n"}))
    before = stand.rows()
    staged = stand.put(begun, {"k=1": "3\n", "k=2": "3\n"})
    if not conflict:
        stand.engine.commit(begun.transaction_id, staged)
        check(stand, {"k=1": "1\n2\n3\n", "k=2": "3\n"})
        return
    with pytest.raises(ConflictError) as caught:
        stand.engine.commit(begun.transaction_id, staged)
    assert caught.value.retryable
    check(stand, before)
    with pytest.raises(TransactionStateError, match="undone"):
        stand.engine.commit(begun.transaction_id)


def test_a_batch_of_an_application_is_committed_once(stand: Stand) -> None:
    batch = {"app_id": "job", "app_version": 7}
    late = stand.begin(**batch)
    assert stand.write({"k=1": "1\n"}, **batch).duplicate is False
    assert stand.begin(**batch).duplicate
    assert stand.begin(app_id="job", app_version=6).duplicate
    outcome = stand.engine.commit(late.transaction_id, stand.put(late, {"k=1": "1\n"}))
    assert (outcome.duplicate, outcome.version) == (True, 1)
    check(stand, {"k=1": "1\n"})
    assert not stand.begin(app_id="job", app_version=8).duplicate


def test_commit_called_again_answers_the_same(stand: Stand) -> None:
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "1\n"})
    first = stand.engine.commit(begun.transaction_id, staged)
    assert replace(stand.engine.commit(begun.transaction_id), commit_ms=first.commit_ms) == first
    with pytest.raises(TransactionStateError, match="finished"):
        stand.engine.abort(begun.transaction_id, "too late")
    check(stand, {"k=1": "1\n"})


def test_files_are_staged_in_several_calls(stand: Stand) -> None:
    begun = stand.begin()
    stand.engine.stage(begun.transaction_id, stand.put(begun, {"k=1": "1\n"}, task=1))
    stand.engine.stage(begun.transaction_id, stand.put(begun, {"k=1": "2\n"}, task=2))
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=2": "3\n"}, task=3))
    check(stand, {"k=1": "1\n2\n", "k=2": "3\n"})


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"name": "part-0.csv"}, "carry the transaction's id"),
        ({"name": "_part-{id}.csv"}, "carry the transaction's id"),
        ({"name": "a/part-{id}.csv"}, "carry the transaction's id"),
        ({"partition": "k=x"}, "k=x"),
        ({"partition": "other=1"}, "other=1"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_and_undoes_the_write(
    stand: Stand, change: dict[str, str], error: str
) -> None:
    begun = stand.begin()
    (staged,) = stand.put(begun, {"k=1": "1\n"})
    wrong = replace(staged, **{n: v.replace("{id}", begun.transaction_id) for n, v in change.items()})
    with pytest.raises(CatalogExtError, match=error) as caught:
        stand.engine.commit(begun.transaction_id, [wrong])
    assert isinstance(caught.value, InvalidInputError | StagedFileMissingError)
    check(stand, {})


def test_a_staged_file_that_vanished_undoes_the_write(stand: Stand) -> None:
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "1\n", "k=2": "2\n"})
    place = StagingLocations(begun.transaction_id, begun.plan).locate(staged[1]).source
    assert place is not None
    Path(place.path).unlink()
    with pytest.raises(StagedFileMissingError, match="1 of 2 staged files"):
        stand.engine.commit(begun.transaction_id, staged)
    check(stand, {})


def test_options_are_checked_when_a_write_begins(stand: Stand) -> None:
    with pytest.raises(InvalidConfigurationError, match=r"transaction\.lease"):
        stand.begin(options={"transaction.lease": "soon"})
    with pytest.raises(InvalidConfigurationError, match="partition-commit"):
        stand.begin(options={"sink.partition-commit.trigger": "never"})
    begun = stand.begin(options={"staging-dir": ".mine", "transaction.lease": "5s"})
    assert begun.lease_ms == 5000
    staged = stand.put(begun, {"k=1": "1\n"})
    stand.engine.commit(begun.transaction_id, staged)
    check(stand, {"k=1": "1\n"})


def test_a_heartbeat_extends_the_lease_of_a_live_transaction(stand: Stand) -> None:
    begun = stand.begin(options={"transaction.lease": "1h"})
    before = stand.index.transactions.load(begun.transaction_id).expires_at_ms
    assert stand.engine.heartbeat(begun.transaction_id) >= before
    stand.engine.abort(begun.transaction_id, "enough")
    with pytest.raises(TransactionStateError, match="enough"):
        stand.engine.heartbeat(begun.transaction_id)


def test_heartbeat_of_a_finished_write_says_that_its_rows_are_in(stand: Stand) -> None:
    begun = stand.begin()
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=1": "1\n"}))
    with pytest.raises(TransactionStateError, match="its rows are in the table"):
        stand.engine.heartbeat(begun.transaction_id)


def test_commit_waits_for_an_index_that_is_away_before_the_check(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of recorded files is asked for at the begin of a commit: the write is neither failed nor left open."""
    engine = Transactions(stand.index, stand.storage, unknown_timeout_s=30.0, pause=lambda _: None)
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "1\n"})
    whole, errors = TransactionFiles.staged_count, [IndexUnavailableError("away", {})]

    def count(files: TransactionFiles, transaction_id: str) -> int:
        if errors:
            raise errors.pop()
        return whole(files, transaction_id)

    monkeypatch.setattr(TransactionFiles, "staged_count", count)
    engine.commit(begun.transaction_id, staged)
    check(stand, {"k=1": "1\n"})


def test_recover_undoes_what_a_dead_writer_left(stand: Stand) -> None:
    stand.write({"k=1": "1\n"})
    begun = stand.begin()
    stand.put(begun, {"k=1": "2\n", "k=2": "2\n"})
    assert stand.engine.recover(stand.table().identifier).transactions == (), "its lease is not over"
    preview = stand.engine.recover(older_than_s=0, dry_run=True)
    assert [t.action for t in preview.transactions] == [RecoveryAction.WOULD_UNDO]
    (line,) = stand.engine.recover(stand.table().identifier, 0).transactions
    assert (line.transaction_id, line.action) == (begun.transaction_id, RecoveryAction.UNDONE)
    assert line.owner == f"{getpass.getuser()}/test"
    check(stand, {"k=1": "1\n"})
    with pytest.raises(TransactionStateError, match="lease"):
        stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=1": "3\n"}))
    check(stand, {"k=1": "1\n"})


def test_the_next_writer_recovers_expired_transactions(stand: Stand, tmp_path: Path) -> None:
    dead = stand.begin()
    stand.put(dead, {"k=1": "2\n"})
    made = definition(tmp_path / "new", name="new")
    creation = stand.begin(WriteKind.CREATE, definition=made)
    stand.put(creation, {"k=1": "2\n"})
    for begun in (dead, creation):
        stand.index.transactions.extend_lease(begun.transaction_id, 0)
    stand.write({"k=1": "1\n"})
    assert stand.index.transactions.load(dead.transaction_id).state is State.ABORTED
    assert stand.index.transactions.load(creation.transaction_id).state is State.OPEN
    stand.write({"k=3": "3\n"}, WriteKind.CREATE, definition=made)
    check(stand, {"k=1": "1\n"})
    check(stand, {"k=3": "3\n"}, OTHER)


def vacuum(stand: Stand, retention_s: float = 0, *, dry_run: bool = False) -> list[tuple[str, str]]:
    # Files of this very millisecond are younger than it.
    time.sleep(0.005)
    report = stand.engine.vacuum(stand.table(), retention_s, dry_run=dry_run)
    assert report.failed == ()
    return sorted((str(e.action), Path(e.path).name) for e in report.entries)


def test_vacuum_removes_what_a_relocating_overwrite_replaced(stand: Stand, root: Path) -> None:
    stand.write({"k=1": "1\n", "k=2": "2\n"})
    stand.write({"k=1": "3\n"}, DYNAMIC, options={"overwrite-mode": "relocate"})
    (old,) = (Path(path).name for path in stand.strays())
    assert vacuum(stand, 3600) == [("kept", "k=1")]
    preview = vacuum(stand, dry_run=True)
    assert preview == [("delete", old), ("forget versions", "s.t")]
    assert vacuum(stand) == preview
    check(stand, {"k=1": "3\n", "k=2": "2\n"})
    assert not (root / "k=1").exists(), "the partition is elsewhere now"
    stand.write({"k=1": "4\n"}, DYNAMIC, options={"overwrite-mode": "relocate"})
    assert [action for action, _ in vacuum(stand)] == ["delete", "forget versions"]
    check(stand, {"k=1": "4\n", "k=2": "2\n"})
    assert len(list((root / "_catalog_ext_data").iterdir())) == 1


def test_vacuum_waits_for_the_metastore(stand: Stand) -> None:
    """Until it has heard of a relocating overwrite, Hive engines read the files that it has replaced."""
    stand.write({"k=1": "1\n"})
    stand.write({"k=1": "3\n"}, DYNAMIC, options={"overwrite-mode": "relocate"})
    table = stand.table()
    stand.index.commits.apply_changes(table.table_id, [AddPartition("k=9", ())], operation="repair", deliver=True)
    strays = stand.strays()
    (failed,) = stand.engine.vacuum(table, 0, dry_run=False).failed
    assert "Run catalog-ext outbox" in failed.reason
    assert stand.strays() == strays
    (message,) = stand.index.outbox.pending()
    assert stand.index.outbox.skip(message.outbox_id)
    assert [action for action, _ in vacuum(stand)] == ["delete", "forget versions"]


def test_vacuum_removes_what_late_tasks_left(stand: Stand, root: Path, tmp_path: Path) -> None:
    stand.write({"k=1": "1\n"})
    aborted, ended, live = stand.begin(), stand.begin(), stand.begin()
    replacing = stand.begin(WriteKind.REPLACE, definition=definition(root), table=stand.table())
    # A process that is late gives a file its name after another process has undone the write.
    staged = stand.put(aborted, {"k=1": "8\n"})
    crash_at("promote.before", lambda: stand.engine.commit(aborted.transaction_id, staged))
    stand.engine.undo(aborted.transaction_id)
    stand.engine.commit(ended.transaction_id, stand.put(ended, {"k=2": "2\n"}))
    late = [stand.put(begun, {"k=1": "9\n"}, task=7)[0].name for begun in (aborted, ended, live, replacing)]
    visible = f"part-00009-{aborted.transaction_id}-c000.csv"
    write(root, f"k=1/{visible}", "k=1/foreign.csv", "_notes/mine.txt")
    removed = [("delete", name) for name in sorted([late[0], late[1], visible])]
    assert [entry for entry in vacuum(stand) if entry[0] == "delete"] == removed
    left = [Path(path).name for path in stand.strays()]
    assert sorted(left) == sorted([late[2], late[3], "foreign.csv", "mine.txt"])
    stand.engine.commit(live.transaction_id, stand.put(live, {"k=3": "3\n"}))
    assert stand.rows() == {"k=1": "1\n", "k=2": "2\n", "k=3": "3\n"}


def test_vacuum_leaves_the_files_of_dropped_partitions_alone(empty: Stand, root: Path) -> None:
    empty.create(definition(root, external=True))
    empty.write({"k=1": "1\n", "k=2": "2\n"})
    empty.index.commits.apply_changes(
        empty.table().table_id, [DropPartition("k=1")], operation="drop partition", deliver=False
    )
    assert [action for action, _ in vacuum(empty)] == ["forget versions"]
    assert (root / "k=1").exists()
    assert empty.rows() == {"k=2": "2\n"}


def test_a_begin_that_is_asked_again_begins_one_transaction(stand: Stand) -> None:
    first = stand.begin(transaction_id="c" * 32)
    assert first.transaction_id == "c" * 32
    assert stand.begin(transaction_id="c" * 32) == first
    assert [t.transaction_id for t in stand.index.transactions.all()] == ["c" * 32]
    with pytest.raises(InvalidInputError, match="an id of its own"):
        stand.begin(transaction_id="c" * 32, operation="DELETE")
    with pytest.raises(InvalidInputError, match="an id of its own"):
        stand.begin(WriteKind.OVERWRITE_PARTITIONS, transaction_id="c" * 32)
    staged = stand.put(first, {"k=1": "1\n"})
    stand.engine.commit(first.transaction_id, staged)
    check(stand, {"k=1": "1\n"})


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
@pytest.mark.parametrize("reads", [True, False])
def test_replacement_loses_no_commit_made_after_its_read(stand: Stand, kind: WriteKind, reads: bool) -> None:
    table = stand.table()
    begun = stand.begin(kind, table, definition=table.definition, reads_replaced=reads)
    staged = stand.put(begun, {"k=1": "from what was read\n"})
    stand.write({"k=2": "appended\n"})
    if reads:
        with pytest.raises(ConflictError, match="has changed since this statement read it at version 0"):
            stand.engine.commit(begun.transaction_id, staged)
        check(stand, {"k=2": "appended\n"})
    else:
        stand.engine.commit(begun.transaction_id, staged)
        check(stand, {"k=1": "from what was read\n"})
    table = stand.table()
    begun = stand.begin(kind, table, definition=table.definition, reads_replaced=reads)
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=3": "3\n"}))
    check(stand, {"k=3": "3\n"})


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
def test_replacement_of_a_table_just_replaced_is_a_conflict(stand: Stand, kind: WriteKind) -> None:
    """The new table has the very version that the statement read of the old one."""
    table = stand.table()

    def meanwhile(_: str) -> None:
        other = stand.begin(kind, table, definition=table.definition, reads_replaced=True)
        stand.engine.commit(other.transaction_id, stand.put(other, {"k=1": "of the other\n"}))

    with armed("begin.before", meanwhile), pytest.raises(ConflictError, match="dropped by another statement"):
        stand.begin(kind, replace(table, version=1), definition=table.definition, reads_replaced=True)
    check(stand, {"k=1": "of the other\n"})
    assert stand.table().version == 1


@pytest.mark.parametrize("reads", [True, False])
def test_replacement_of_a_table_just_renamed_is_a_conflict(stand: Stand, reads: bool) -> None:
    """The table has kept its directory under its new name."""
    stand.write({"k=1": "1\n"})
    table = stand.table()
    to = TableIdentifier(table.identifier.namespace, "renamed")

    def meanwhile(_: str) -> None:
        stand.index.alterations.rename(table.identifier, to, deliver=False)

    with (
        armed("begin.before", meanwhile),
        pytest.raises(ConflictError, match="renamed or dropped by another statement"),
    ):
        stand.begin(WriteKind.CREATE_OR_REPLACE, table, definition=table.definition, reads_replaced=reads)
    assert stand.index.tables.load(to).table_id == table.table_id


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("elsewhere", [True, False])
def test_a_replacement_deletes_nothing_outside_of_the_table(tmp_path: Path, external: bool, elsewhere: bool) -> None:
    old = tmp_path / "archive" / "2024"
    old.mkdir(parents=True)
    (old / "000000_0").write_text("5\n")
    with local_index(tmp_path) as index:
        stand = Stand(index)
        table = stand.create(definition(tmp_path / "t", external=external))
        stand.write({"k=1": "1\n"})
        add = AddPartitions((NewPartition("k=2", f"file://{old}"),))
        stand.engine.command(table, add, "ADD PARTITION")
        new = definition(tmp_path / ("t2" if elsewhere else "t"), external=external)
        begun = stand.begin(WriteKind.CREATE_OR_REPLACE, stand.table(), definition=new)
        stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=9": "9\n"}))
        assert stand.rows() == stand.listed() == {"k=9": "9\n"}
        assert (old / "000000_0").read_text() == "5\n"
        assert bool(list((tmp_path / "t" / "k=1").glob("*"))) == (external and elsewhere)


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
def test_a_replacement_that_has_read_the_table_is_met_by_its_writers(stand: Stand, kind: WriteKind) -> None:
    table = stand.table()
    first = stand.begin(kind, table, definition=table.definition, reads_replaced=True)
    files = stand.put(first, {"k=1": "of the replacement\n"})
    late = stand.begin()
    late_files = stand.put(late, {"k=2": "late\n"})

    def write_late(_: str) -> None:
        with pytest.raises(ConflictError, match=f"the transaction {first.transaction_id} writes to it"):
            stand.engine.commit(late.transaction_id, late_files)

    # Its files are being moved to their places.
    with armed("reserve.after", write_late):
        stand.engine.commit(first.transaction_id, files)
    check(stand, {"k=1": "of the replacement\n"})

    table = stand.table()
    second = stand.begin(kind, table, definition=table.definition, reads_replaced=True)
    files = stand.put(second, {"k=1": "of the second\n"})

    def replace_late(_: str) -> None:
        with pytest.raises(ConflictError, match="writes to it"):
            stand.engine.commit(second.transaction_id, files)

    append = stand.begin()
    appended = stand.put(append, {"k=2": "appended\n"})
    with armed("reserve.after", replace_late):
        stand.engine.commit(append.transaction_id, appended)
    check(stand, {"k=1": "of the replacement\n", "k=2": "appended\n"})


@pytest.mark.parametrize("kind", [WriteKind.APPEND, DYNAMIC])
def test_a_write_whose_staged_files_the_database_has_lost_fails(stand: Stand, kind: WriteKind) -> None:
    stand.write({"k=1": "1\n"})
    begun = stand.begin(kind)
    files = stand.put(begun, {"k=1": "2\n", "k=2": "3\n"})
    stand.engine.stage(begun.transaction_id, files[:1])
    stand.engine.stage(begun.transaction_id, files[1:])
    forget = sa.delete(transaction_files).where(transaction_files.c.number == 1)
    stand.index._database.write(lambda connection: connection.execute(forget))
    with pytest.raises(StagedFileMissingError, match=r"remembers 1 of the 2 files .* was restarted"):
        stand.engine.commit(begun.transaction_id, recorded=2)
    check(stand, {"k=1": "1\n"})


def test_files_whose_call_is_repeated_are_staged_once(stand: Stand) -> None:
    """Also where the first try of a call arrives after the next call."""
    begun = stand.begin()
    calls = [stand.put(begun, {partition: "1\n"}) for partition in ("k=1", "k=2")]
    for number in (0, 0, 1, 0, 1):
        stand.engine.stage(begun.transaction_id, calls[number], recorded=number)
    with pytest.raises(StagedFileMissingError, match="remembers 2 of the 3 files"):
        stand.engine.stage(begun.transaction_id, calls[0], recorded=3)
    assert stand.engine.commit(begun.transaction_id).files_added == 2
    check(stand, {"k=1": "1\n", "k=2": "1\n"})


def test_uncounted_files_are_written_with_the_commits_inline_files(stand: Stand) -> None:
    """They are recorded while it checks: a call that was slow."""
    before, begun = stand.rows(), stand.begin()
    slow, brought = (stand.put(begun, {name: "1\n"}) for name in ("k=8", "k=9"))
    with armed("check.after", lambda _: stand.engine.stage(begun.transaction_id, slow)):
        stand.engine.commit(begun.transaction_id, brought)
    assert stand.rows() == stand.listed() == {**before, "k=8": "1\n", "k=9": "1\n"}
    assert stand.strays() == []


def test_a_file_that_is_deleted_once_it_has_its_name_is_missed(stand: Stand, root: Path) -> None:
    begun = stand.begin()
    staged = stand.put(begun, {"k=1": "new\n", "k=2": "new\n"})
    one_by_one = Stand(stand.index, options={"threads": 1})

    def delete(_: str) -> None:
        (root / "k=1" / staged[0].name).unlink()

    with armed("promote.file", delete, 2), pytest.raises(StagedFileMissingError, match="It was deleted"):
        one_by_one.engine.commit(begun.transaction_id, staged)
    assert stand.listed() == stand.rows()
    assert not stand.strays()
    assert "new\n" not in stand.rows().values()


@pytest.mark.parametrize(
    ("point", "reads"),
    [("check.after", False), ("promote.after", False), ("promote.after", True)],
    ids=["after its check", "after its reservation", "and reads the table"],
)
def test_replace_table_leaves_a_file_that_was_registered_meanwhile(
    stand: Stand, root: Path, point: str, reads: bool
) -> None:
    """Its check has not looked at the file: another engine wrote it, and a repair registered it in the old table."""
    old = stand.table()
    stand.write({"k=1": "1\n"})
    hives = root / "k=1" / "000000_0"

    def register(_: str) -> None:
        hives.write_text("hive\n")
        late = DataFile(hives.name, 5, hives.stat().st_mtime_ns // 1_000_000)
        stand.index.commits.apply_changes(
            old.table_id, [ReplaceFiles("k=1", (late,))], operation="repair", deliver=False
        )  # fmt: skip

    with armed(point, register):
        stand.write(
            {"k=1": "2\n"}, WriteKind.REPLACE, table=stand.table(), definition=old.definition, reads_replaced=reads
        )
    assert stand.table().table_id != old.table_id
    assert stand.rows() == {"k=1": "2\n"}
    assert stand.listed() == {"k=1": "2\nhive\n"}, "a repair of the new table finds it"
