"""Repair beside writes: whatever step a write is at, a repair registers nothing that the write has not committed."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import POINTS, armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from tests.kit.repair_cases import indexed, local_catalog, register, walked, write
from tests.kit.writes import crash_at, insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext import RepairReport
    from catalog_ext.catalog import Catalog

EU, US, NEW = "ds=2025-01-01/region=eu", "ds=2025-01-02/region=us", "ds=2025-01-03/region=new"
IS_EU = Comparison(Operator.EQ, "region", "eu")


def append(catalog: Catalog, table: str) -> None:
    insert(catalog, EU, NEW, table=table)


def overwrite(catalog: Catalog, table: str) -> None:
    insert(catalog, EU, NEW, table=table, kind=WriteKind.OVERWRITE_PARTITIONS)


def replace_where(catalog: Catalog, table: str) -> None:
    # The model's new rows lie beside what the condition is true for.
    adds = {"replace_where_mismatch": "add"}
    insert(catalog, NEW, table=table, kind=WriteKind.OVERWRITE, predicate=IS_EU, **adds)


def relocate(catalog: Catalog, table: str) -> None:
    insert(catalog, EU, NEW, table=table, kind=WriteKind.OVERWRITE_PARTITIONS, overwrite_mode="relocate")


def delete(catalog: Catalog, table: str) -> None:
    there = catalog.load_table(table)
    catalog.writes.delete(there.table_id, there.version, IS_EU, truncate=False)


WRITES = (append, overwrite, replace_where, relocate, delete)
each_write = pytest.mark.parametrize("do_write", WRITES, ids=lambda w: w.__name__)


class Trial:
    """A table with two partitions of a file each, in a folder of its own."""

    def __init__(self, catalog: Catalog, folder: Path, name: str) -> None:
        self.catalog = catalog
        self.table = f"s.{name}"
        self.root = folder / name
        write(self.root, f"{EU}/old.csv", f"{US}/old.csv")
        register(catalog, self.root, table=self.table)
        catalog.repair_partitions(self.table)
        self.old = self.shape()

    def shape(self) -> dict[str, int]:
        """How many files each partition has in the index."""
        return {name: len(files) for name, files in indexed(self.catalog, self.table).items()}

    def check_in_sync(self) -> None:
        """The index has what lies on the store, no more and no less, and a repair finds nothing to do."""
        located = self.catalog.partitions(self.table).to_pylist()
        at = {row["partition"]: row["location"] for row in located if row["location"]}
        listed = {name: files for name, files in walked(self.root, 2).items() if files and name not in at}
        registered = indexed(self.catalog, self.table)
        assert {name: files for name, files in registered.items() if name not in at} == listed
        for name, location in at.items():
            assert set(registered[name]) == {
                p.name for p in self.root.glob(location.split(f"{self.root.name}/", 1)[1] + "/*")
            }
        assert changes(self.catalog.repair_partitions(self.table, dry_run=True)) == []
        assert not (self.root / "_catalog_ext_staging").exists()


def changes(report: RepairReport) -> list[tuple[str, str]]:
    """What a repair did, or would do, to the index."""
    return [(e.action, e.path) for e in report if e.action != "skip"]


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


def reached(
    catalog: Catalog, folder: Path, do_write: Callable[[Catalog, str], None]
) -> tuple[list[str], dict[str, int]]:
    """The points that the write comes by, in the protocol's order, and what the index has after it."""
    found: set[str] = set()
    trial = Trial(catalog, folder, "alone")
    with ExitStack() as stack:
        for point in POINTS:
            stack.enter_context(armed(point, found.add))
        do_write(catalog, trial.table)
    trial.check_in_sync()
    assert {"reserve.after", "apply.after"} <= found
    assert ("clean.after" in found) is (do_write is not append), "what only adds files is finished by its commit"
    return [point for point in POINTS if point in found], trial.shape()


@each_write
@pytest.mark.parametrize("mode", ["add", "sync"])
def test_a_repair_between_any_two_steps_does_nothing(
    catalog: Catalog, tmp_path: Path, do_write: Callable[[Catalog, str], None], mode: str
) -> None:
    points, new = reached(catalog, tmp_path, do_write)
    trial = Trial(catalog, tmp_path, "repaired")
    seen: list[tuple[str, list[tuple[str, str]]]] = []

    def repair(point: str) -> None:
        seen.append((point, changes(catalog.repair_partitions(trial.table, mode=mode))))

    with ExitStack() as stack:
        for point in points:
            stack.enter_context(armed(point, repair))
        do_write(catalog, trial.table)
    assert seen == [(point, []) for point, _ in seen]
    assert {point for point, _ in seen} == set(points)
    assert trial.shape() == new
    trial.check_in_sync()


@each_write
def test_repair_after_a_crash_is_a_no_op_and_recovery_is_atomic(
    catalog: Catalog, tmp_path: Path, do_write: Callable[[Catalog, str], None]
) -> None:
    points, new = reached(catalog, tmp_path, do_write)
    for number, point in enumerate(points):
        trial = Trial(catalog, tmp_path, f"crashed{number}")
        crash_at(point, partial(do_write, catalog, trial.table))
        assert (point, changes(catalog.repair_partitions(trial.table))) == (point, [])
        catalog.recover(trial.table, older_than=0)
        assert trial.shape() in (trial.old, new), point
        trial.check_in_sync()
