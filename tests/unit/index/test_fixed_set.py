"""A commit ends only rows that existed when its transaction was reserved: what came later is carried over."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    CheckedAdd,
    CheckedRename,
    MovingPartition,
    NewPartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.plan import CheckedWrite, Promotion, WritePlan
from catalog_ext.metastore.commit.removals import Removal
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, PartitionAlreadyExistsError
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.descriptors import PartitionDescriptor
from catalog_ext.metastore.model.tables import Column, DataFile
from tests.kit.fixed_set_cases import (
    LATE,
    OLD,
    STATEMENTS,
    Statement,
    check,
    check_totals,
    filled,
    register_late,
)
from tests.kit.index_cases import data_files, local_index
from tests.kit.transaction_cases import begin, creation, files_by_partition, plan, relocated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

OVERWRITE = WriteKind.OVERWRITE_PARTITIONS
ORC = PartitionDescriptor("orc", {}, (Column("id", "bigint"),), {})


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(index: Index) -> Table:
    return filled(index)


def reserved(index: Index, table: Table, write: WritePlan, *partitions: str) -> str:
    made = begin(index, table, write, *partitions)
    index.commits.reserve(Commit(made))
    return made.transaction_id


def deleted(index: Index, transaction_id: str) -> list[str]:
    """The files, by partition and name, that a committed transaction deletes."""
    deferred_deletes.complete(index._database, transaction_id=transaction_id)
    removals = index.deletions.of(transaction_id)
    return sorted("/".join(r.path.split("/")[-2:]) for r in removals if not r.is_directory)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.kind)
def test_a_statement_keeps_what_was_registered_after_reserve(index: Index, table: Table, statement: Statement) -> None:
    check(index, table, statement)


@pytest.mark.parametrize("kind", ["DELETE of everything", "overwrite of everything"])
def test_a_floor_keeps_what_was_registered_after_reserve(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(deferred_deletes, "MANY", 0)
    (statement,) = (s for s in STATEMENTS if s.kind == kind)
    check(index, table, statement)


def test_the_log_names_what_was_kept(index: Index, table: Table, caplog: pytest.LogCaptureFixture) -> None:
    number = reserved(index, table, plan(table, WriteKind.OVERWRITE))
    register_late(index, table)
    with caplog.at_level(logging.WARNING):
        index.commits.apply(Commit(index.transactions.load(number)), deliver=True)
    assert "INSERT of table s.t keeps files in 2 partitions, the first 'k=1'" in caplog.text


@pytest.mark.parametrize(
    "changes",
    [
        (ReplaceFiles("k=1", redescribed=True, descriptor=ORC),),
        (DropPartition("k=1"), AddPartition("k=1", data_files(2))),
        (DropPartition("k=1"), AddPartition("k=1", data_files(2), location="file:///data/s/t/k=1")),
    ],
    ids=["described anew", "dropped and added", "given its location"],
)
def test_a_file_that_is_registered_again_is_not_a_later_one(
    index: Index, table: Table, changes: tuple[ReplaceFiles | DropPartition | AddPartition, ...]
) -> None:
    number = reserved(index, table, plan(table, OVERWRITE), "k=1")
    for change in changes:
        index.commits.apply_changes(table.table_id, [change], operation="repair", deliver=False)
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    (only,) = files_by_partition(index, table)["k=1"]
    assert number in only
    assert deleted(index, number) == [f"k=1/{path}" for path in OLD]
    check_totals(index, table)


def test_another_file_of_an_old_name_is_a_later_one(index: Index, table: Table) -> None:
    number = reserved(index, table, plan(table, WriteKind.OVERWRITE))
    again = DataFile(OLD[0], 33, 1_800_000_000_000)
    index.commits.apply_changes(
        table.table_id, [ReplaceFiles("k=1", (again,), (OLD[0],))], operation="repair", deliver=False
    )
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert files_by_partition(index, table) == {"k=1": [OLD[0]]}
    assert deleted(index, number) == [f"k=1/{OLD[1]}", *(f"k=2/{path}" for path in OLD)]


def test_file_found_by_the_check_is_deleted_although_registered(index: Index, table: Table) -> None:
    unknown = {"k=1": (Removal(LATE.path, LATE.size, LATE.modified_ms),)}
    number = reserved(index, table, plan(table, OVERWRITE, unknown=unknown), "k=1")
    register_late(index, table)
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    (only,) = files_by_partition(index, table)["k=1"]
    assert number in only
    assert deleted(index, number) == [f"k=1/{LATE.path}", *(f"k=1/{path}" for path in OLD)]


def test_a_partition_that_lost_a_file_ends_with_the_rest(index: Index, table: Table) -> None:
    number = reserved(index, table, plan(table, WriteKind.OVERWRITE))
    gone = ReplaceFiles("k=1", (), (OLD[0],))
    index.commits.apply_changes(table.table_id, [gone, AddPartition("k=9", ())], operation="repair", deliver=False)
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert files_by_partition(index, table) == {"k=9": []}, "an empty one that came later stays"


@pytest.mark.parametrize("descriptor", [None, ORC], ids=["relocated", "of another format"])
def test_what_cannot_stay_beside_the_new_files_is_a_conflict(
    index: Index, table: Table, descriptor: PartitionDescriptor | None
) -> None:
    write = relocated(table, "abc") if descriptor is None else plan(table, OVERWRITE)
    if descriptor:
        other = ReplaceFiles("k=1", redescribed=True, descriptor=descriptor)
        index.commits.apply_changes(table.table_id, [other], operation="repair", deliver=False)
        table = index.tables.load(table.identifier)
    number = reserved(index, table, write, "k=1")
    register_late(index, table)
    before = files_by_partition(index, table)
    why = "are of another format" if descriptor else "lie in file:///data/s/t/k=1"
    with pytest.raises(ConflictError, match=rf"partition 'k=1' of table s\.t, 1 files .* {why}"):
        index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert files_by_partition(index, table) == before


@pytest.mark.parametrize("bound", [True, False], ids=["checked", "without a version"])
def test_a_table_that_is_replaced_leaves_later_files_where_they_are(index: Index, table: Table, bound: bool) -> None:
    asked = creation(table.definition, WriteKind.REPLACE)
    change = asked.plan.change
    assert isinstance(change, CheckedWrite)
    change = replace(change, replaced_version=table.version if bound else None)
    made = index.transactions.begin(replace(asked, plan=replace(asked.plan, change=change)), table.table_id)
    index.commits.reserve(Commit(made))
    register_late(index, table)
    index.commits.apply(Commit(made), deliver=False)
    late = [] if bound else [f"k=1/{LATE.path}", f"k=9/{LATE.path}"]
    assert deleted(index, made.transaction_id) == sorted([*(f"k={k}/{p}" for k in (1, 2) for p in OLD), *late])


def test_table_replaced_by_its_own_rows_can_be_repaired_meanwhile(index: Index, table: Table) -> None:
    asked = replace(creation(table.definition, WriteKind.REPLACE), base_version=table.version)
    made = index.transactions.begin(asked, table.table_id)
    index.commits.reserve(Commit(made))
    register_late(index, table)
    assert index.commits.apply(Commit(made), deliver=False).version is not None


def test_a_partition_that_keeps_its_files_is_renamed_with_later_ones(index: Index, table: Table) -> None:
    (row,) = index.living_partitions.of_values(table, ["k=1"])
    moving = MovingPartition(row.partition_id, row.begin_version, "k=5")
    change = CheckedRename(RenamePartition("k=1", "k=5"), (moving,), moves=False)
    number = reserved(index, table, replace(plan(table), change=change))
    register_late(index, table)
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert files_by_partition(index, table) == {"k=2": list(OLD), "k=5": [LATE.path, *OLD], "k=9": [LATE.path]}


def test_add_partition_takes_one_that_a_repair_has_registered(index: Index, table: Table) -> None:
    more = DataFile("000001_0", 5, 1)
    asked = AddPartitions((NewPartition("k=9"),))
    change = CheckedAdd(asked, asked.partitions, {"k=9": (LATE, more)})
    location = table.definition.location
    write = WritePlan(change, location, "_staging", location, Promotion.RENAME)
    number, rival = reserved(index, table, write), reserved(index, table, write)
    register_late(index, table)
    # A vacuum's claim has the table's version, which it did not make.
    index.deletions.claim(index.tables.load(table.identifier), [Removal("file:///data/gone", 1)], "vacuum", "_staging")
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert files_by_partition(index, table)["k=9"] == [LATE.path, more.path]
    with pytest.raises(PartitionAlreadyExistsError):
        index.commits.apply(Commit(index.transactions.load(rival)), deliver=False)
    check_totals(index, table)


def test_a_statement_asks_no_more_where_nothing_has_changed(index: Index, table: Table) -> None:
    number = reserved(index, table, plan(table, OVERWRITE), "k=1")
    before = index.query_count
    index.commits.apply(Commit(index.transactions.load(number)), deliver=False)
    assert index.query_count - before == 19, "as before the fixed set"
