"""A Hive engine without locks beside our writes: at every step of ours its files come and go as Hive moves them.

What is left is recorded row by row; ``docs/design/9-hive-writers.md`` has the table that this makes.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import ConflictError, PartitionNotFoundError
from catalog_ext.metastore.hive.mapping.model import HivePartition
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.repair.report import CAME_BACK
from tests.kit.fakes_metastore import FakeMetastore, serving
from tests.kit.repair_cases import local_catalog, register, write
from tests.kit.writes import begin, crash_at, stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_ext.catalog import Catalog
    from catalog_ext.context import RepairProgress

OLD, OURS, HIVES = 1, 2, 30
"""The rows. Hive's file has another size: those of one name, size and second are taken for the same one."""
NAME = "ds=a"
STAGING = ".hive-staging_hive_2025-01-01_00-00-00_000_1-1"


class Hive:
    """Moves files as Hive 2.3 does at the end of an INSERT, and then changes the metastore.

    Args:
        root: The table's directory.
        metastore: Has the table as ``s.t``.

    Attributes:
        acknowledged: Whether the statement has succeeded for its user.
    """

    def __init__(self, root: Path, metastore: FakeMetastore, table: str) -> None:
        self._root = root
        self._table = table
        self._metastore = metastore
        self._folder = root / NAME
        self._is_there = True
        self.acknowledged = False
        write(root, f"{STAGING}/-ext-10000/000000_0", content=b"%d\n" % HIVES)

    def insert(self) -> None:
        """INSERT INTO: the file gets a name that is free."""
        self._look()
        name, number = "000000_0", 0
        while (self._folder / name).exists():
            number += 1
            name = f"000000_0_copy_{number}"
        self._fill(name)

    def overwrite(self, between: Callable[[], object] = lambda: None) -> None:
        """INSERT OVERWRITE: what lies there is deleted, and then the new file put there."""
        self.clear()
        between()
        self.fill()

    def clear(self) -> None:
        """The first half of an overwrite: visible files are deleted, and the directory with them."""
        self._look()
        for file in self._folder.glob("[!._]*"):
            file.unlink()
        if self._folder.exists() and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def fill(self) -> None:
        """The second half of an overwrite."""
        self._fill("000000_0")

    def _look(self) -> None:
        """Decide where the rows go: to where the partition is now, if it is there."""
        found = self._metastore.partitions_by_names("s", self._table, [NAME])
        self._is_there = bool(found)
        self._folder = Path(found[0].location.removeprefix("file:")) if found else self._root / NAME

    def _fill(self, name: str) -> None:
        self._folder.mkdir(exist_ok=True)
        (self._root / STAGING / "-ext-10000" / "000000_0").rename(self._folder / name)
        partition = HivePartition(("a",), f"file:{self._folder}")
        try:
            if self._is_there:
                self._metastore.alter_partitions("s", self._table, [partition])
            else:
                self._metastore.add_partitions("s", self._table, [partition])
        except PartitionNotFoundError:
            return  # the statement fails, and says so
        self.acknowledged = True


def put(trial: Trial, kind: WriteKind, **options: str) -> None:
    begun = begin(trial.catalog, kind, table=trial.table, **options)
    trial.catalog.writes.transactions.commit(begun.transaction_id, [stage(begun, NAME, b"%d\n" % OURS)])


def delete(trial: Trial, *, truncate: bool) -> None:
    there = trial.catalog.load_table(trial.table)
    where = Comparison(Operator.EQ, "ds", "a")
    trial.catalog.writes.delete(there.table_id, there.version, where, truncate=truncate)


def load(trial: Trial) -> None:
    folder = trial.root.parent / f"loaded_{trial.root.name}"
    write(folder, "z.csv", content=b"%d\n" % OURS)
    trial.catalog.loading.load(trial.catalog.load_table(trial.table), str(folder), {"ds": "a"}, overwrite=True)


STATEMENTS: dict[str, Callable[[Trial], object]] = {
    "append": lambda t: put(t, WriteKind.APPEND),
    "overwrite": lambda t: put(t, WriteKind.OVERWRITE_PARTITIONS),
    "relocate": lambda t: put(t, WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate"),
    "delete": lambda t: delete(t, truncate=False),
    "truncate": lambda t: delete(t, truncate=True),
    "drop": lambda t: t.catalog.partition_commands.drop(t.table, [Comparison(Operator.EQ, "ds", "a")]),
    "load": lambda t: load(t),
    "repair": lambda t: t.catalog.repair_partitions(t.table, allow_mass_drop=True),
}


@pytest.fixture
def metastore(monkeypatch: pytest.MonkeyPatch) -> FakeMetastore:
    fake = FakeMetastore()
    monkeypatch.setattr("catalog_ext.conf.resolved.Settings.connect_metastore", serving(lambda _: fake))
    return fake


class Trial:
    """A table in a folder of its own, whose partition ``ds=a`` has a row 1 that Hive has written."""

    def __init__(self, catalog: Catalog, folder: Path, name: str, metastore: FakeMetastore) -> None:
        self.catalog = catalog
        self.table = f"s.{name}"
        self.root = root = folder / name
        write(root, f"{NAME}/000000_0", "ds=b/000000_0", content=b"%d\n" % OLD)
        register(catalog, root, {"ds": "STRING"}, table=self.table)
        catalog.alter_table_properties(self.table, {"external.table.purge": "true"})
        catalog.repair_partitions(self.table)
        self.hive = Hive(root, metastore, name)
        self._metastore = metastore
        self._name = name

    def stored(self) -> set[int]:
        """What an engine reads where the metastore has the partition; nothing where it has none."""
        rows: list[int] = []
        for partition in self._metastore.partitions_by_names("s", self._name, [NAME]):
            folder = Path(partition.location.removeprefix("file:"))
            rows += [int(file.read_text()) for file in sorted(folder.glob("[!._]*"))]
        assert len(set(rows)) == len(rows), "no row is there twice"
        return set(rows)

    def settled(self) -> set[int] | None:
        """What both sides have after a repair."""
        self.catalog.repair_partitions(self.table)
        assert self.catalog.deliver().pending == 0
        stored, indexed = self.stored(), self.indexed()
        assert stored == indexed
        return stored

    def indexed(self) -> set[int] | None:
        """What the index has, read where it says; None where a file is missing, for which a query raises an error."""
        table, catalog = self.catalog.load_table(self.table), self.catalog
        found: set[int] = set()
        for row in catalog.partitions(self.table, where="ds = 'a'").to_pylist():
            folder = Path(table.directory(row["partition"], row["location"]).removeprefix("file://"))
            for file in catalog.files(self.table, where="ds = 'a'").to_pylist():
                if not (folder / file["path"]).exists():
                    return None
                found.add(int((folder / file["path"]).read_text()))
        return found


BEFORE, LOOKED, PROMOTED, COMMITTED = "before", "check.after", "promote.after", "apply.after"
GAP, AFTER = "gap", "after"
"""When Hive moves its files: before our statement, at a point of it, around it (half before, half after), after it."""

# Of each statement of ours, each of Hive's and each moment: which rows Hive reads when both have ended, and which both
# sides have after a repair.
OUTCOMES: dict[str, dict[str, dict[str, tuple[set[int], set[int]]]]] = {
    "append": {
        "insert": {
            BEFORE: ({OLD, OURS, HIVES}, {OLD, OURS, HIVES}),
            PROMOTED: ({OLD, OURS, HIVES}, {OLD, OURS, HIVES}),
            AFTER: ({OLD, OURS, HIVES}, {OLD, OURS, HIVES}),
        },
        "overwrite": {
            LOOKED: ({OURS, HIVES}, {OURS, HIVES}),
            PROMOTED: ({HIVES}, {HIVES}),
            GAP: ({OURS, HIVES}, {OURS, HIVES}),
            AFTER: ({HIVES}, {HIVES}),
        },
    },
    "overwrite": {
        "insert": {
            BEFORE: ({OURS}, {OURS}),
            LOOKED: ({OURS, HIVES}, {OURS, HIVES}),
            COMMITTED: ({OURS, HIVES}, {OURS, HIVES}),
        },
        "overwrite": {
            BEFORE: ({OURS}, {OURS}),
            LOOKED: ({OURS, HIVES}, {OURS, HIVES}),
            PROMOTED: ({HIVES}, {HIVES}),
            COMMITTED: ({HIVES}, {HIVES}),
            GAP: ({OURS, HIVES}, {OURS, HIVES}),
        },
    },
    "relocate": {
        "insert": {
            LOOKED: ({OURS}, {OURS}),
            AFTER: ({OURS, HIVES}, {OURS, HIVES}),
        },
        "overwrite": {
            PROMOTED: ({OURS}, {OURS}),
            AFTER: ({HIVES}, {HIVES}),
        },
    },
    "delete": {
        "insert": {
            BEFORE: (set(), set()),
            LOOKED: (set(), {HIVES}),
            AFTER: ({HIVES}, {HIVES}),
        },
        "overwrite": {
            BEFORE: (set(), set()),
            COMMITTED: (set(), {HIVES}),
            AFTER: ({HIVES}, {HIVES}),
        },
    },
    "truncate": {
        "insert": {LOOKED: ({HIVES}, {HIVES})},
        "overwrite": {COMMITTED: ({HIVES}, {HIVES})},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", OUTCOMES)
def test_rows_of_both(tmp_path: Path, metastore: FakeMetastore, name: str) -> None:
    """Both statements have succeeded: the last move decides, and what neither has replaced stays."""
    ours = STATEMENTS[name]
    seen: dict[str, dict[str, dict[str, tuple[set[int], set[int]]]]] = {name: {}}
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        for hives, moments in OUTCOMES[name].items():
            seen[name][hives] = {}
            for moment in moments:
                trial = Trial(catalog, tmp_path, f"{name}_{hives}_{moment.replace('.', '_')}", metastore)
                move = trial.hive.insert if hives == "insert" else trial.hive.overwrite
                if moment == BEFORE:
                    move()
                    ours(trial)
                elif moment == AFTER:
                    ours(trial)
                    move()
                elif moment == GAP:
                    trial.hive.overwrite(partial(ours, trial))
                else:
                    with armed(moment, lambda _, move=move: move()):  # type: ignore[misc]
                        ours(trial)
                assert trial.hive.acknowledged
                seen[name][hives][moment] = trial.stored(), trial.settled()
    assert seen == {name: OUTCOMES[name]}


# Of each statement, when a repair has looked at Hive's file between ``reserve`` and the commit: which rows Hive reads
# after the commit, which the index has, and which both have after the next repair.
REGISTERED: dict[str, tuple[set[int], set[int], set[int]]] = {
    "append": ({OLD, OURS, HIVES}, {OLD, OURS, HIVES}, {OLD, OURS, HIVES}),
    "overwrite": ({OURS, HIVES}, {OURS, HIVES}, {OURS, HIVES}),
    "relocate": ({OLD, HIVES}, {OLD, HIVES}, {OLD, HIVES}),
    "delete": ({HIVES}, {HIVES}, {HIVES}),
    "truncate": ({HIVES}, {HIVES}, {HIVES}),
    # Files of an external table stay, as after each such DROP, and the next repair finds them.
    "drop": ({OLD, HIVES}, {HIVES}, {OLD, HIVES}),
    # The repair leaves a partition alone that files are being moved into.
    "load": ({OURS, HIVES}, {OURS}, {OURS, HIVES}),
}


@pytest.mark.parametrize("name", REGISTERED)
def test_hives_file_stays_if_a_repair_registers_it_before_the_commit(
    tmp_path: Path, metastore: FakeMetastore, name: str
) -> None:
    """With a live owner, and with a dead one whose statement a recoverer finishes: at each step after ``reserve``."""
    ours = STATEMENTS[name]
    seen: dict[str, tuple[set[int], set[int] | None, set[int] | None]] = {}
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        for point in ("reserve.after", PROMOTED, "apply.before"):
            for owner in ("live", "dead"):
                trial = Trial(catalog, tmp_path, f"{name}_{point.replace('.', '_')}_{owner}", metastore)

                def register(_: str, trial: Trial = trial) -> None:
                    trial.hive.insert()
                    catalog.repair_partitions(trial.table)

                if owner == "live":
                    fails = pytest.raises(ConflictError, match="registered") if name == "relocate" else nullcontext()
                    with armed(point, register), fails:
                        ours(trial)
                else:
                    crash_at(point, partial(ours, trial))
                    register(point)
                    catalog.recover(trial.table, older_than=0)
                    catalog.deliver()
                assert trial.hive.acknowledged
                seen[f"{point}, {owner}"] = trial.stored(), trial.indexed(), trial.settled()
    assert seen == dict.fromkeys(seen, REGISTERED[name])


@pytest.mark.parametrize("ours", ["delete", "repair"])
def test_hives_overwrite_fails_when_its_partition_is_dropped_meanwhile(
    tmp_path: Path, metastore: FakeMetastore, ours: str
) -> None:
    """Hive's statement fails; the files that it has left are there, and a repair finds them."""
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        trial = Trial(catalog, tmp_path, "t", metastore)
        trial.hive.overwrite(lambda: STATEMENTS[ours](trial))
        assert not trial.hive.acknowledged
        assert trial.stored() == set()
        assert trial.settled() == {HIVES}


def test_hive_takes_a_relocated_partition_back(tmp_path: Path, metastore: FakeMetastore) -> None:
    """Hive chooses the directory when its overwrite begins, and stores it in the metastore; the index imports it."""
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        trial = Trial(catalog, tmp_path, "t", metastore)
        trial.hive.overwrite(lambda: STATEMENTS["relocate"](trial))
        assert (trial.stored(), trial.indexed()) == ({HIVES}, {OURS})
        assert list(catalog.mend_drift(trial.table, source="metastore"))
        assert (trial.stored(), trial.indexed()) == ({HIVES}, {HIVES})


@pytest.mark.parametrize("hives", ["insert", "overwrite", "second half of an overwrite"])
def test_a_repair_whose_listing_hive_overtakes(tmp_path: Path, metastore: FakeMetastore, hives: str) -> None:
    """Hive moves its files between the listing and the commit: nothing is dropped that it has put back."""
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        trial = Trial(catalog, tmp_path, "t", metastore)
        move = {"insert": trial.hive.insert, "overwrite": trial.hive.overwrite}.get(hives, trial.hive.fill)
        if move == trial.hive.fill:
            trial.hive.clear()

        def listed(progress: RepairProgress) -> None:
            if progress.phase == "comparing":
                move()

        report = catalog.repair_partitions(trial.table, allow_mass_drop=True, progress=listed)
        assert [(e.action, e.partition) for e in report if e.action == "drop"] == []
        assert trial.hive.acknowledged
        rows = {OLD, HIVES} if hives == "insert" else {HIVES}
        assert trial.stored() == rows
        assert trial.settled() == rows
        if move == trial.hive.fill:
            assert [e.reason for e in report] == [CAME_BACK]
            assert not report.in_sync
