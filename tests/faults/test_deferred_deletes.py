"""A DELETE or overwrite of everything: readers see it at once, and its rows are ended after it, whatever comes between.

Every bulk delete is deferred here, however small, and completed two partitions at a time.
"""

from __future__ import annotations

import contextlib
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import DEFERRED_DELETE_POINTS, InjectedFault, armed
from catalog_ext.metastore.commit.partition_plans import (
    AddPartitions,
    DataDeletion,
    DropPartitions,
    NewPartition,
    RenamePartition,
)
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.index.database.schema import tables
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.faults.scenarios import EVERYTHING
from tests.faults.test_random_transactions import Metastore, check_metastore, check_totals, read
from tests.kit.index_cases import local_index
from tests.kit.sums import check_sums
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table

NAMES = [f"k={k}/r={r}" for k in (1, 2, 3) for r in ("a", "b")]
STATE = dict[str, set[str]]
_IS_ONE = Comparison(Operator.EQ, "k", "1")
_FAULTS = (
    None, None, None, ("deferred.before", 1), ("deferred.page", 1), ("deferred.page", 1), ("deferred.page", 2),
    ("deferred.page", 3), ("deferred.after", 1), ("clean.before", 1), ("clean.removed", 1), ("apply.after", 1),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _everything_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_deletes, "MANY", 0)
    monkeypatch.setattr(deferred_deletes, "_PAGE", 2)


def floor_of(index: Index, table: Table) -> int:
    return index.tables.load(table.identifier).deleted_before_version


@dataclass
class History:
    """A table, and what is to be in it at each of its versions."""

    stand: Stand
    rng: random.Random
    state: STATE = field(default_factory=dict)
    states: dict[int, tuple[Table, STATE]] = field(default_factory=dict)
    metastore: Metastore = field(default_factory=Metastore)
    left: set[str] = field(default_factory=lambda: {"000000_0"})
    relocates: bool = False
    floors: int = 0
    between: int = 0

    def step(self) -> None:
        """Do something, which may be interrupted, and look at everything."""
        before = self.stand.table()
        self.between += before.deleted_before_version > 0
        operation = self.rng.choice(
            [*[self.delete] * 3, *[self.overwrite] * 3, *[self.append] * 5, self.overwrite_some, self.delete_some,
             self.repair, self.repair, self.add, self.drop, self.rename, self.truncate, self.settle, self.recover,
             self.vacuum, self.expire]
        )  # fmt: skip
        fault = self.rng.choice(_FAULTS)
        try:
            with contextlib.nullcontext() if fault is None else armed(fault[0], "error", fault[1], lasting=True):
                after = operation(before)
        except (InjectedFault, CatalogExtError):
            after = None
        now = self.stand.table()
        if after is not None and (now.version > before.version or self.state == after):
            self.state = after
        elif now.version > before.version:
            # Its owner does not know that it is committed.
            self.state = self.unknown
        self.floors += now.deleted_before_version > before.deleted_before_version
        self.states[now.version] = (now, self.state)
        self.look(now)

    def look(self, now: Table) -> None:
        index = self.stand.index
        assert read(index, now) == self.state
        check_totals(now, self.state)
        self.metastore.take(index)
        if not now.deleted_before_version:
            check_metastore(index, now, self.metastore)
        with index._database.reading() as connection:
            check_sums(connection)
            statement = sa.select(tables.c.oldest_version).where(tables.c.table_id == now.table_id)
            oldest = connection.execute(statement).scalar_one()
        for version, (loaded, state) in self.states.items():
            if version >= oldest:
                assert read(index, loaded) == state, version
                assert read(index, replace(now, version=version)) == state, version

    def _write(
        self, table: Table, kind: WriteKind, names: list[str], after: Callable[[], STATE], **more: object
    ) -> STATE:
        begun = self.stand.begin(kind, table, **more)
        staged = self.stand.put(begun, {name: f"{self.rng.random()}\n" for name in names})
        state = after()
        for file in staged:
            state.setdefault(file.partition, set()).add(file.name)
        self.unknown = state
        self.stand.engine.commit(begun.transaction_id, staged)
        return state

    def _some(self) -> list[str]:
        return [name for name in NAMES if self.rng.random() < 0.6]

    def _copy(self) -> STATE:
        return {name: set(paths) for name, paths in self.state.items()}

    def delete(self, table: Table) -> STATE:
        self.unknown = {}
        self.stand.engine.delete(table, None, truncate=False)
        return {}

    def truncate(self, table: Table) -> STATE:
        self.unknown = {name: set() for name in self.state}
        self.stand.engine.delete(table, None, truncate=True)
        return self.unknown

    def delete_some(self, table: Table) -> STATE:
        self.unknown = {n: p for n, p in self._copy().items() if not n.startswith("k=1/")}
        self.stand.engine.delete(table, _IS_ONE, truncate=False)
        return self.unknown

    def overwrite(self, table: Table) -> STATE:
        mode = {"overwrite-mode": "relocate"} if self.rng.random() < 0.05 else {}
        self.relocates = self.relocates or bool(mode)
        return self._write(table, WriteKind.OVERWRITE, self._some(), dict, options=mode)

    def overwrite_some(self, table: Table) -> STATE:
        names = self._some()
        left = {n: p for n, p in self._copy().items() if n not in names}
        return self._write(table, WriteKind.OVERWRITE_PARTITIONS, names, lambda: left)

    def append(self, table: Table) -> STATE:
        return self._write(table, WriteKind.APPEND, self._some(), self._copy)

    def repair(self, table: Table) -> STATE:
        name, after = self.rng.choice(NAMES), self._copy()
        directory = self.stand.storage
        if name in after:
            self.left |= after.pop(name)
            change: AddPartition | DropPartition = DropPartition(name)
        else:
            # A file that Hive has written, under a name that it gives again and again.
            path = f"{table.definition.location}/{name}/000000_0"
            directory.create_directory(path.rpartition("/")[0])
            directory.write_file(path, b"1\n")
            there = directory.stat(path)
            assert there is not None
            change = AddPartition(name, (DataFile("000000_0", 2, there.modified_ms, self.rng.choice((None, 1))),))
            after[name] = {"000000_0"}
        self.unknown = after
        self.stand.index.commits.apply_changes(table.table_id, [change], operation="repair", deliver=True)
        return after

    def add(self, table: Table) -> STATE:
        name, after = self.rng.choice(NAMES), self._copy()
        self.unknown = {**after, name: set()}
        self.stand.engine.command(table, AddPartitions((NewPartition(name),)), "ADD PARTITION")
        # What lies there is registered with it: what repairs have dropped has kept its files.
        found = read(self.stand.index, self.stand.table())
        assert found[name] <= {"000000_0", *(p for _, s in self.states.values() for p in s.get(name, ()))}
        return {**after, name: found[name]}

    def drop(self, table: Table) -> STATE:
        self.unknown = {n: p for n, p in self._copy().items() if not n.startswith("k=1/")}
        self.stand.engine.command(table, DropPartitions(_IS_ONE, DataDeletion.ALL), "DROP PARTITION")
        return self.unknown

    def rename(self, table: Table) -> STATE:
        there, free = sorted(self.state), sorted({*NAMES} - self.state.keys())
        name, to = self.rng.choice(there or NAMES), self.rng.choice(free or NAMES)
        self.unknown = self._copy()
        if name in self.unknown:
            self.unknown[to] = self.unknown.pop(name)
        self.stand.engine.command(table, RenamePartition(name, to), "RENAME PARTITION")
        return self.unknown

    def settle(self, table: Table) -> STATE:
        deferred_deletes.complete(self.stand.index._database, table_id=table.table_id)
        return self.state

    def recover(self, _: Table) -> STATE:
        assert self.stand.engine.recover(older_than_s=0).dry_run is False
        return self.state

    def vacuum(self, table: Table) -> STATE:
        self.stand.engine.vacuum(table, 0.0)
        return self.state

    def expire(self, table: Table) -> STATE:
        rows = self.rng.choice((1, 5, None))
        upto = self.rng.randint(0, table.version)
        self.stand.index.versions.expire(table.table_id, upto, max_rows=rows, aborted=False)
        return self.state

    def end(self) -> None:
        """See everything through, and look at the store."""
        assert self.stand.engine.recover(older_than_s=0).failed == ()
        if self.relocates:
            self.stand.engine.vacuum(self.stand.table(), 0.0)
        assert self.stand.table().deleted_before_version == 0
        self.look(self.stand.table())
        # Every file of the table is there, and none that is the index's own besides: repairs leave what they drop.
        assert self.stand.rows().keys() == self.state.keys()
        assert {path.rpartition("/")[2] for path in self.stand.strays()} <= self.left


def run(index: Index, folder: Path, seed: int, steps: int) -> History:
    rng = random.Random(seed)
    stand = Stand(index, options={"deliver": lambda _: True})
    stand.create(definition(folder, {"k": "int", "r": "string"}))
    history = History(stand, rng)
    history.states[0] = (stand.table(), {})
    for _ in range(steps):
        history.step()
    history.end()
    return history


@pytest.mark.parametrize("seed", [0, 1, 3, 7, 13])
def test_random_histories(tmp_path: Path, seed: int) -> None:
    with local_index(tmp_path) as index:
        history = run(index, tmp_path / "t", seed, 40)
        assert min(history.floors, history.between) > 0, "the history was too tame"


@pytest.mark.parametrize("point", DEFERRED_DELETE_POINTS)
@pytest.mark.parametrize("action", ["error", "unavailable", "storage"])
@pytest.mark.parametrize("lasting", [False, True])
def test_an_error_while_settling_is_nothing_to_the_writer(
    tmp_path: Path, point: str, action: str, lasting: bool
) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        EVERYTHING.prepare(stand, tmp_path / "t")
        with armed(point, action, lasting=lasting):
            reported = EVERYTHING.write(stand, tmp_path / "t")
        assert reported == "success"
        assert EVERYTHING.state(stand) == EVERYTHING.after
        assert stand.engine.recover(older_than_s=0).failed == ()
        EVERYTHING.check(stand, reported)
        assert stand.table().deleted_before_version == 0


@pytest.mark.parametrize("point", DEFERRED_DELETE_POINTS)
def test_another_process_acts_at_every_step_of_a_deferred_delete(tmp_path: Path, point: str) -> None:
    with local_index(tmp_path) as index:
        stand = Stand(index, options={"deliver": lambda _: True})
        EVERYTHING.prepare(stand, tmp_path / "t")
        seen: list[object] = []

        def others(_: str) -> None:
            with armed(point, lambda _: None):
                seen.append(stand.rows())
                # It settles what is left, and comes after that.
                stand.write({"k=5": "6\n"})
                assert stand.engine.recover(older_than_s=0).failed == ()

        with armed(point, others):
            assert EVERYTHING.write(stand, tmp_path / "t") == "success"
        after = {**EVERYTHING.after, "k=5": "6\n"}
        assert seen == [EVERYTHING.after]
        assert stand.rows() == stand.listed() == after
        assert stand.strays() == []
        dropped = [name for message in index.outbox.pending(100) for name in message.payload["drop"]]
        assert sorted(dropped) == ["k=2", "k=4", "k=5"], "once each"
