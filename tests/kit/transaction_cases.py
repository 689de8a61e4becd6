"""Short calls that begin, reserve and commit transactions of named files."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from catalog_ext.metastore.commit.commit import Commit
from catalog_ext.metastore.commit.plan import CheckedWrite, Promotion, WritePlan, asked_write
from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.commit.transaction import NOT_READ, State, Transaction, WriteOutcome
from catalog_ext.metastore.commit.write_kinds import WriteKind

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table, TableDefinition

_NUMBERS = itertools.count(1)


def new_id() -> str:
    return f"{next(_NUMBERS):032x}"


def plan(table: Table, kind: WriteKind = WriteKind.APPEND, **more: Any) -> WritePlan:
    """A checked plan; ``more`` has fields of what is asked, of what was found and of the plan itself."""
    asked = asked_write(kind, **_of(more, "predicate", "keep_emptied"))
    found = _of(more, "static_partition", "waiting", "due", "published", "found", "unknown")
    location = table.definition.location
    base = more.pop("base", location)
    return WritePlan(CheckedWrite(asked, **found), location, "_staging", base, Promotion.RENAME, **more)


def _of(more: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: more.pop(name) for name in names if name in more}


def creation(definition: TableDefinition, kind: WriteKind = WriteKind.CREATE, **more: Any) -> Transaction:
    location = definition.location
    change = CheckedWrite(asked_write(kind, definition=definition))
    made = WritePlan(change, location, "_staging", location, Promotion.RENAME, **more)
    return transaction(made, table_id=None, table=str(definition.identifier), operation="CTAS", base_version=NOT_READ)


def transaction(plan: WritePlan, **more: Any) -> Transaction:
    """A transaction as it is asked for: the index dates it."""
    values = {
        "transaction_id": new_id(),
        "operation": "INSERT",
        "state": State.OPEN,
        "owner": "test",
        "began_at_ms": 0,
        "expires_at_ms": 0,
    }
    return Transaction(plan=plan, **{**values, **more})


def staged(
    transaction_id: str, *partitions: str, size: int = 10, rows: int | None = 2, each: int = 1
) -> list[StagedFile]:
    """``each`` files for each of the partitions."""
    return [
        StagedFile(name, f"part-{i:05d}-{transaction_id}-c000.parquet", size, rows)
        for name in partitions
        for i in range(each)
    ]


def begin(index: Index, table: Table, write: WritePlan, *partitions: str, each: int = 1, **more: Any) -> Transaction:
    """A transaction with files staged, at the table's version, whose plan knows where partitions are."""
    if not write.relocate:
        write = replace(write, locations=dict(index.partitions.located(table)))
    made = transaction(write, table_id=table.table_id, table=str(table.identifier), base_version=table.version, **more)
    made = index.transactions.begin(made)
    if partitions:
        files = staged(made.transaction_id, *partitions, each=each)
        if write.moves_user_files:
            files = [replace(file, source=f"file:///in/{file.name}") for file in files]
        index.transaction_files.record(made.transaction_id, files)
    return made


def finish(index: Index, made: Transaction, *, deliver: bool = False) -> WriteOutcome:
    """Reserves and commits what ``begin`` made."""
    reserved = index.commits.reserve(Commit(made))
    assert isinstance(reserved, Transaction)
    outcome = index.commits.apply(Commit(reserved), deliver=deliver).outcome
    assert outcome is not None
    return outcome


def write(index: Index, table: Table, plan: WritePlan, *partitions: str, deliver: bool = False) -> WriteOutcome:
    """One write from its begin to its commit, at the newest version of the table."""
    return finish(index, begin(index, index.tables.load(table.identifier), plan, *partitions), deliver=deliver)


def files_by_partition(index: Index, table: Table) -> dict[str, list[str]]:
    """The names of the files of every partition, now."""
    now = index.tables.load(table.identifier)
    names = index.partitions.all(now, None).read_all().column("partition").to_pylist()
    found: dict[str, list[str]] = {name: [] for name in names}
    for row in index.files.plan(now, None).read_all().to_pylist():
        found[row["partition"]].append(row["path"])
    return {name: sorted(paths) for name, paths in found.items()}


def relocated(table: Table, transaction_id: str) -> WritePlan:
    base = f"{table.definition.location}/_catalog_ext_data/{transaction_id}"
    return replace(plan(table, WriteKind.OVERWRITE_PARTITIONS), base=base, relocate=True)
