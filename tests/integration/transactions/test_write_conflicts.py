"""The table of conflicts in ``docs/spec/commit-protocol.md``, row by row, on each database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, TableAlreadyExistsError, TableNotFoundError
from catalog_ext.metastore.index.write.transaction_rows import ApplicationVersion
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.index_cases import create, data_files, definition
from tests.kit.transaction_cases import begin, creation, finish, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

WIDE = Comparison(Operator.GE, "k", "2")
ABOVE_FIVE = Comparison(Operator.GT, "k", "5")


@dataclass
class Writers:
    """An index with a table of the partitions k=1, k=2 and k=3, and a new one for each case."""

    index: Index
    table: Table

    def append(self, *names: str, **more: Any) -> Transaction:
        return begin(self.index, self.table, plan(self.table), *names, **more)

    def overwrite(self, *names: str) -> Transaction:
        return begin(self.index, self.table, plan(self.table, WriteKind.OVERWRITE_PARTITIONS), *names)

    def delete(self, predicate: Any, *names: str) -> Transaction:
        return begin(self.index, self.table, plan(self.table, WriteKind.OVERWRITE, predicate=predicate), *names)

    def truncate(self) -> Transaction:
        return begin(self.index, self.table, plan(self.table, WriteKind.OVERWRITE, keep_emptied=True))

    def static(self, name: str) -> Transaction:
        return begin(self.index, self.table, plan(self.table, WriteKind.OVERWRITE_PARTITIONS, static_partition=name))

    def repair(self, *changes: AddPartition | DropPartition) -> None:
        self.index.commits.apply_changes(self.table.table_id, changes, operation="repair", deliver=False)


@pytest.fixture
def writers(index: Index) -> Iterator[Writers]:
    # What an earlier test has committed still deletes its files: a folder of its own for each.
    table = create(index, keys={"k": "int"}, folder=uuid4().hex)
    index.commits.apply_changes(
        table.table_id, [AddPartition(f"k={i}", data_files(1)) for i in (1, 2, 3)], operation="repair", deliver=False
    )
    yield Writers(index, index.tables.load(table.identifier))
    index.tables.drop(table.identifier, deliver=False)


# This transaction, the other one, and the partition that they quarrel about (None: both commit).
WRITES: dict[str, tuple[Callable[[Writers], Transaction], Callable[[Writers], Transaction], str | None]] = {
    "append, append to p": (lambda w: w.append("k=1"), lambda w: w.append("k=1"), None),
    "append, overwrite of p": (lambda w: w.append("k=1"), lambda w: w.overwrite("k=1"), "k=1"),
    "append, delete of p": (lambda w: w.append("k=2"), lambda w: w.delete(WIDE), "k=2"),
    "append to a new p, delete": (lambda w: w.append("k=9"), lambda w: w.delete(WIDE), "k=9"),
    "append, truncate of p": (lambda w: w.append("k=1"), lambda w: w.truncate(), "k=1"),
    "append, static overwrite of p": (lambda w: w.append("k=1"), lambda w: w.static("k=1"), "k=1"),
    "overwrite, append to p": (lambda w: w.overwrite("k=1"), lambda w: w.append("k=1"), "k=1"),
    "overwrite, overwrite of p": (lambda w: w.overwrite("k=1"), lambda w: w.overwrite("k=1"), "k=1"),
    "overwrite, overwrite of a new p": (lambda w: w.overwrite("k=9"), lambda w: w.overwrite("k=9"), "k=9"),
    "overwrite, delete of p": (lambda w: w.overwrite("k=3"), lambda w: w.delete(WIDE), "k=3"),
    "delete, append to p": (lambda w: w.delete(WIDE), lambda w: w.append("k=2"), "k=2"),
    "delete, append to a new p": (lambda w: w.delete(WIDE), lambda w: w.append("k=9"), "k=9"),
    "delete, overwrite of p": (lambda w: w.delete(WIDE), lambda w: w.overwrite("k=2"), "k=2"),
    "delete, delete of p": (lambda w: w.delete(WIDE), lambda w: w.delete(WIDE), "k="),
    "truncate, truncate": (lambda w: w.truncate(), lambda w: w.truncate(), "k="),
    "truncate, append to p": (lambda w: w.truncate(), lambda w: w.append("k=1"), "k=1"),
    "append, another p overwritten": (lambda w: w.append("k=1"), lambda w: w.overwrite("k=2"), None),
    "append, another p deleted": (lambda w: w.append("k=1"), lambda w: w.delete(WIDE), None),
    "overwrite, another p overwritten": (lambda w: w.overwrite("k=1"), lambda w: w.overwrite("k=2"), None),
    "overwrite, append to another p": (lambda w: w.overwrite("k=1"), lambda w: w.append("k=2"), None),
    "delete, another p deleted": (lambda w: w.delete(WIDE), lambda w: w.delete(ABOVE_FIVE), None),
    "delete with new files, another p": (lambda w: w.delete(WIDE, "k=2"), lambda w: w.append("k=1"), None),
    "same value, another spelling": (lambda w: w.overwrite("k=01"), lambda w: w.append("k=1"), "k="),
}


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "reserved"])
@pytest.mark.parametrize("case", WRITES)
def test_two_writes(writers: Writers, case: str, committed: bool) -> None:
    make_mine, make_other, partition = WRITES[case]
    index = writers.index
    mine, other = make_mine(writers), make_other(writers)
    if committed:
        finish(index, other)
    else:
        index.commits.reserve(Commit(other))
    if partition is None:
        finish(index, mine)
        assert index.transactions.load(mine.transaction_id).state is State.COMMITTED
        return
    with pytest.raises(ConflictError, match=rf"partition '{partition}.*s\.t:") as raised:
        index.commits.reserve(Commit(mine))
    assert raised.value.retryable
    assert raised.value.parameters["table"] == "s.t"
    if "delete, delete" not in case and "truncate, truncate" not in case:
        assert raised.value.parameters["transaction"] == other.transaction_id
    assert index.transactions.load(mine.transaction_id).state is State.OPEN
    if not committed:
        index.transactions.move(other.transaction_id, (State.RESERVED,), State.ABORTING)
        finish(index, mine)


REPAIRS: dict[str, tuple[Callable[[Writers], Transaction], tuple[AddPartition | DropPartition, ...], bool]] = {
    "append, p dropped": (lambda w: w.append("k=1"), (DropPartition("k=1"),), False),
    "append, p added": (lambda w: w.append("k=9"), (AddPartition("k=9", ()),), False),
    "overwrite, p dropped": (lambda w: w.overwrite("k=1"), (DropPartition("k=1"),), True),
    "overwrite, p added": (lambda w: w.overwrite("k=9"), (AddPartition("k=9", data_files(1)),), True),
    "overwrite, p added as 09": (lambda w: w.overwrite("k=9"), (AddPartition("k=09", data_files(1)),), True),
    "delete, p dropped": (lambda w: w.delete(WIDE), (DropPartition("k=3"),), True),
    "delete, p added": (lambda w: w.delete(WIDE), (AddPartition("k=9", ()),), True),
    "truncate, p added": (lambda w: w.truncate(), (AddPartition("k=9", ()),), True),
    "overwrite, another p dropped": (lambda w: w.overwrite("k=1"), (DropPartition("k=2"),), False),
    "delete, another p dropped": (lambda w: w.delete(WIDE), (DropPartition("k=1"),), False),
}


@pytest.mark.parametrize("case", REPAIRS)
def test_a_write_and_a_repair(writers: Writers, case: str) -> None:
    make, changes, conflict = REPAIRS[case]
    mine = make(writers)
    writers.repair(*changes)
    if not conflict:
        finish(writers.index, mine)
        return
    with pytest.raises(ConflictError, match="version 2 of the table changed it"):
        writers.index.commits.reserve(Commit(mine))


def test_tables_are_created_once(writers: Writers) -> None:
    index = writers.index
    first, second = (creation(definition("s", "new", {"k": "int"})) for _ in range(2))
    for made in (first, second):
        index.transactions.begin(made)
    index.commits.reserve(Commit(first))
    with pytest.raises(ConflictError, match=rf"transaction {first.transaction_id} is creating the table s\.new"):
        index.commits.reserve(Commit(second))
    index.commits.apply(Commit(first), deliver=False)
    with pytest.raises(TableAlreadyExistsError):
        index.commits.reserve(Commit(second))
    # A creation by DDL between the reservation and the commit goes first.
    third = creation(definition("s", "newer", {"k": "int"}))
    index.transactions.begin(third)
    index.commits.reserve(Commit(third))
    index.tables.create(definition("s", "newer", {}), deliver=False)
    with pytest.raises(TableAlreadyExistsError):
        index.commits.apply(Commit(third), deliver=False)
    assert index.transactions.load(third.transaction_id).state is State.RESERVED
    for name in ("new", "newer"):
        index.tables.drop(definition("s", name, {}).identifier, deliver=False)


@pytest.mark.parametrize("kind", [WriteKind.REPLACE, WriteKind.CREATE_OR_REPLACE])
def test_a_replacement_is_first(writers: Writers, kind: WriteKind) -> None:
    index = writers.index
    replacement, second = (creation(definition("s", "t", {"k": "int"}), kind) for _ in range(2))
    for made in (replacement, second):
        index.transactions.begin(made, index.tables.load(definition("s", "t", {}).identifier).table_id)
    opened, reserved = writers.append("k=1"), writers.append("k=2")
    index.commits.reserve(Commit(reserved))
    finish(index, replacement)
    with pytest.raises(TableNotFoundError, match="was dropped or replaced while it was being written"):
        index.commits.reserve(Commit(opened))
    with pytest.raises(TableNotFoundError, match="was dropped or replaced while it was being written"):
        index.commits.apply(Commit(reserved), deliver=False)
    with pytest.raises(ConflictError, match="was created, replaced or dropped by another statement meanwhile"):
        index.commits.reserve(Commit(second))


def test_a_dropped_table_is_gone_for_its_writers(writers: Writers) -> None:
    mine = writers.append("k=1")
    writers.index.tables.drop(writers.table.identifier, deliver=False)
    with pytest.raises(TableNotFoundError):
        writers.index.commits.reserve(Commit(mine))
    create(writers.index, keys={"k": "int"})


def test_an_application_commits_its_batches_one_at_a_time_and_once(writers: Writers) -> None:
    index = writers.index
    first, second, third = (writers.append("k=1", app_id="a", app_version=n) for n in (1, 2, 1))
    other = writers.append("k=1", app_id="b", app_version=1)
    index.commits.reserve(Commit(first))
    with pytest.raises(ConflictError, match=rf"transaction {first.transaction_id} is committing a batch"):
        index.commits.reserve(Commit(second))
    finish(index, other)
    index.commits.apply(Commit(first), deliver=False)
    known = index.commits.reserve(Commit(third))
    assert isinstance(known, ApplicationVersion)
    assert known.transaction_id == first.transaction_id
    finish(index, second)
