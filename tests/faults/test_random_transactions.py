"""Random writes and repairs against a model in memory: versions, totals, changes, and messages for the metastore."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.plan import Append, Overwrite, OverwritePartitions
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import TRUE, Comparison, IsNull, Operator, bind
from tests.kit.index_cases import create, local_index
from tests.kit.transaction_cases import begin, finish, plan, staged

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.metastore.commit.plan import WritePlan
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

# k=1 and k=01 are one partition to an overwrite, and two to an append.
NAMES = ("k=1", "k=2", "k=3", "k=01", "k=02", "k=__HIVE_DEFAULT_PARTITION__")
WRITTEN = ("k=1", "k=2", "k=3", "k=__HIVE_DEFAULT_PARTITION__")
PREDICATES = (None, Comparison(Operator.GE, "k", "2"), IsNull("k"))

_State = dict[str, set[str]]


@dataclass
class Metastore:
    """The partitions that a metastore has after it took the outbox: their locations and numbers of files."""

    partitions: dict[str, tuple[str, int]] = field(default_factory=dict)

    def take(self, index: Index) -> None:
        for message in index.outbox.pending(1000):
            assert message.operation == "sync_partitions"
            for name in message.payload["drop"]:
                del self.partitions[name]
            for kind in ("add", "alter"):
                for reported in message.payload[kind]:
                    assert (reported["name"] in self.partitions) == (kind == "alter")
                    self.partitions[reported["name"]] = (reported["location"], int(reported["parameters"]["numFiles"]))
            assert index.outbox.claim(message.outbox_id, "test", 60_000)
            assert index.outbox.done(message.outbox_id, "test")


def read(index: Index, table: Table) -> _State:
    state: _State = {name: set() for name in index.partitions.all(table, None).read_all().column(1).to_pylist()}
    for row in index.files.plan(table, None).read_all().to_pylist():
        state[row["partition"]].add(row["path"])
    return state


def same_value(name: str, other: str) -> bool:
    return name.replace("=0", "=") == other.replace("=0", "=")


def repaired(rng: random.Random, index: Index, table: Table, state: _State) -> _State:
    name = rng.choice(NAMES)
    path = f"found-{rng.random()}"
    change = (
        DropPartition(name) if name in state else AddPartition(name, (DataFile(path, 5, 7, rng.choice((None, 3))),))
    )
    index.commits.apply_changes(table.table_id, [change], operation="repair", deliver=True)
    return {**{n: f for n, f in state.items() if n != name}, **({} if name in state else {name: {path}})}


def random_plan(rng: random.Random, table: Table) -> WritePlan:
    kind = rng.choice((WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS, WriteKind.OVERWRITE))
    more: dict[str, Any] = (
        {"static_partition": rng.choice((None, None, *WRITTEN))} if kind is not WriteKind.OVERWRITE else {}
    )
    if kind is WriteKind.OVERWRITE:
        more = {"predicate": rng.choice(PREDICATES), "keep_emptied": rng.random() < 0.3}
    if kind is not WriteKind.APPEND and rng.random() < 0.3:
        more |= {"relocate": True, "base": f"{table.definition.location}/_catalog_ext_data/{rng.randint(0, 9**9)}"}
    return plan(table, kind, **more)


def covered(write: WritePlan, table: Table, name: str) -> bool:
    asked = write.asked
    if not isinstance(asked, Overwrite):
        return False
    keys = table.definition.keys
    bound = TRUE if asked.predicate is None else bind(asked.predicate, keys, "t")
    return Evaluator(bound, keys).matches(typed_values(name, keys))


def expected(write: WritePlan, table: Table, state: _State, arrivals: _State) -> _State:
    """What the write leaves, by its plan; arrivals outside an overwrite's predicate are added to."""
    assert write.write is not None
    asked, static = write.asked, write.write.static_partition
    after: _State = {}
    for name, files in state.items():
        replaced = covered(write, table, name) or (
            isinstance(asked, OverwritePartitions)
            and any(same_value(name, other) for other in (*arrivals, *filter(None, (static,))))
        )
        if not replaced:
            after[name] = set(files)
        elif name in arrivals or (isinstance(asked, Overwrite) and asked.keep_emptied) or kept(static, name, arrivals):
            after[name] = set()
    for name, files in arrivals.items():
        after.setdefault(name, set()).update(files)
    if static is not None and not any(same_value(static, name) for name in after):
        after[static] = set()
    if isinstance(asked, Append) and static is not None:
        after.setdefault(static, set())
    return after


def kept(static: str | None, name: str, arrivals: _State) -> bool:
    return static is not None and static not in arrivals and same_value(name, static)


@pytest.mark.parametrize("seed", range(6))
def test_random_writes_and_repairs(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with local_index(tmp_path) as index:
        table = create(index, keys={"k": "int"})
        metastore = Metastore()
        states: dict[int, tuple[Table, _State]] = {0: (table, {})}
        state: _State = {}
        added: list[tuple[int, str]] = []
        for _ in range(30):
            before = index.tables.load(table.identifier)
            if rng.random() < 0.25:
                state = repaired(rng, index, table, state)
            else:
                write = random_plan(rng, table)
                chosen = [n for n in WRITTEN if rng.random() < 0.4]
                if isinstance(write.asked, Overwrite):
                    chosen = [n for n in chosen if covered(write, table, n)]
                made = begin(index, before, write, *chosen)
                arrivals = {f.partition: {f.name} for f in staged(made.transaction_id, *chosen)}
                state = expected(write, table, state, arrivals)
                finish(index, made, deliver=True)
                assert index.transactions.move(made.transaction_id, (State.COMMITTED,), State.FINISHED)
            now = index.tables.load(table.identifier)
            assert read(index, now) == state, write
            if now.version > before.version:
                known = {path for files in states[before.version][1].values() for path in files}
                added += sorted((now.version, path) for files in state.values() for path in files - known)
            states[now.version] = (now, state)
            check_totals(now, state)
            metastore.take(index)
            check_metastore(index, now, metastore)
        for version_table, version_state in states.values():
            assert read(index, version_table) == version_state
        changes = index.changes.between(table.table_id, 0, now.version).read_all().to_pylist()
        assert sorted((c["version"], c["path"]) for c in changes) == sorted(added)


def check_totals(table: Table, state: _State) -> None:
    assert (table.totals.partitions, table.totals.files) == (len(state), sum(len(f) for f in state.values()))


def check_metastore(index: Index, table: Table, metastore: Metastore) -> None:
    rows = index.partitions.all(table, None).read_all().to_pylist()
    assert metastore.partitions == {
        row["partition"]: (row["location"] or f"{table.definition.location}/{row['partition']}", row["files"])
        for row in rows
    }
