"""Statements that replace or delete, while a repair registers files between ``reserve`` and the commit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.partition_plans import CheckedDrop, DataDeletion, DropPartitions
from catalog_ext.metastore.commit.plan import Promotion, WritePlan
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.index.read.partition_groups import WantedGroups
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.changes import AddPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import TRUE, Comparison, Operator
from tests.kit.index_cases import create, data_files
from tests.kit.transaction_cases import begin, files_by_partition, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

LATE = DataFile("000000_0", 7, 1_800_000_000_000, 3)
OLD = tuple(file.path for file in data_files(2))
NEW = "new"
"""Stands for the file that a statement brings."""
IS_1 = Comparison(Operator.EQ, "k", 1)


def filled(index: Index, name: str = "t") -> Table:
    """A table with the partitions k=1 and k=2 of two files each."""
    table = create(index, name, keys={"k": "int"})
    adds = [AddPartition(f"k={i}", data_files(2, 5)) for i in (1, 2)]
    index.commits.apply_changes(table.table_id, adds, operation="repair", deliver=True)
    return index.tables.load(table.identifier)


def register_late(index: Index, table: Table) -> None:
    """Register a file in k=1, and a new partition k=9 with one: what a repair does when Hive has written there."""
    changes = [ReplaceFiles("k=1", (LATE,)), AddPartition("k=9", (LATE,))]
    index.commits.apply_changes(table.table_id, changes, operation="repair", deliver=True)


def drop(table: Table, deletes: DataDeletion = DataDeletion.ALL) -> WritePlan:
    """A checked DROP of all partitions."""
    location = table.definition.location
    return WritePlan(CheckedDrop(DropPartitions(TRUE, deletes)), location, "_staging", location, Promotion.RENAME)


@dataclass(frozen=True)
class Statement:
    """A statement in its commit, with the files of each partition after it and those that it deletes.

    Attributes:
        brings: The partitions that it writes a file to.
    """

    kind: str
    brings: tuple[str, ...]
    left: Mapping[str, tuple[str, ...]]
    deleted: tuple[str, ...]

    def plan(self, table: Table) -> WritePlan:
        """What the statement is for, checked."""
        match self.kind:
            case "INSERT OVERWRITE":
                return plan(table, WriteKind.OVERWRITE_PARTITIONS)
            case "INSERT OVERWRITE of a static partition":
                return plan(table, WriteKind.OVERWRITE_PARTITIONS, static_partition="k=1")
            case "REPLACE WHERE" | "DELETE":
                return plan(table, WriteKind.OVERWRITE, predicate=IS_1)
            case "DELETE of everything" | "overwrite of everything":
                return plan(table, WriteKind.OVERWRITE)
            case "TRUNCATE":
                return plan(table, WriteKind.OVERWRITE, keep_emptied=True)
            case "relocating DELETE":
                moved = plan(table, WriteKind.OVERWRITE)
                return replace(moved, base=f"{moved.location}/_catalog_ext_data/abc", relocate=True)
            case "DROP PARTITION":
                return drop(table)
            case _:
                return drop(table, DataDeletion.NONE)


_BOTH = {"k=1": (LATE.path,), "k=9": (LATE.path,)}
_ALL = ("k=1", "k=2")
STATEMENTS = (
    Statement("INSERT OVERWRITE", ("k=1", "k=9"),
              {"k=1": (LATE.path, NEW), "k=2": OLD, "k=9": (LATE.path, NEW)}, ("k=1",)),
    Statement("INSERT OVERWRITE of a static partition", (),
              {"k=1": (LATE.path,), "k=2": OLD, "k=9": (LATE.path,)}, ("k=1",)),
    Statement("REPLACE WHERE", ("k=1",), {"k=1": (LATE.path, NEW), "k=2": OLD, "k=9": (LATE.path,)}, ("k=1",)),
    Statement("DELETE", (), {"k=1": (LATE.path,), "k=2": OLD, "k=9": (LATE.path,)}, ("k=1",)),
    Statement("DELETE of everything", (), _BOTH, _ALL),
    Statement("overwrite of everything", ("k=1", "k=3"),
              {"k=1": (LATE.path, NEW), "k=3": (NEW,), "k=9": (LATE.path,)}, _ALL),
    Statement("TRUNCATE", (), {**_BOTH, "k=2": ()}, _ALL),
    Statement("relocating DELETE", (), _BOTH, ()),
    Statement("DROP PARTITION", (), _BOTH, _ALL),
    Statement("DROP PARTITION of an external table", (), _BOTH, ()),
)  # fmt: skip


def check(index: Index, table: Table, statement: Statement) -> None:
    """Run a statement, with a repair between its ``reserve`` and its commit, and look at what is left."""
    made = begin(index, table, statement.plan(table), *statement.brings)
    index.commits.reserve(Commit(made))
    register_late(index, table)
    late = index.tables.load(table.identifier)
    committed = index.commits.apply(Commit(made), deliver=True)
    left = {
        name: tuple(NEW if made.transaction_id in path else path for path in paths)
        for name, paths in files_by_partition(index, table).items()
    }
    assert left == {name: tuple(sorted(paths)) for name, paths in statement.left.items()}
    deferred_deletes.complete(index._database, transaction_id=made.transaction_id)
    removals = [r.path for r in index.deletions.of(made.transaction_id) if not r.is_directory]
    location = table.definition.location
    assert sorted(removals) == [f"{location}/{name}/{path}" for name in statement.deleted for path in OLD]
    check_totals(index, table)
    assert index.files.plan(late, None).read_all().num_rows == 6, "readers of the version before see all of it"
    (newest, *_) = index.tables.history(table.identifier)
    assert committed.outcome is not None
    assert newest.summary["files_removed"] == committed.outcome.files_removed
    assert newest.summary.get("partitions_carried") == sum(LATE.path in paths for paths in statement.left.values()) - (
        # Not replaced by it.
        "k=9" in statement.left and statement.kind in _OF_K1
    )


_OF_K1 = ("INSERT OVERWRITE of a static partition", "REPLACE WHERE", "DELETE")


def check_totals(index: Index, table: Table) -> None:
    """The table's totals, and its sums by the first key, are those of its rows."""
    now = index.tables.load(table.identifier)
    assert now.deleted_before_version == 0
    found = index.files.plan(now, None).read_all().to_pylist()
    names = index.partitions.all(now, None).read_all().to_pylist()
    assert (now.totals.files, now.totals.bytes) == (len(found), sum(row["size"] for row in found))
    assert now.totals.partitions == len(names)
    groups = index.partition_groups.groups(now, None, now.definition.keys, WantedGroups.ROWS).read_all().to_pylist()
    assert sum(row["files"] for row in groups) == len(found)
