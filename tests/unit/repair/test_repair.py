"""Repair on local folders and a SQLite index: what it adds, drops, changes and skips, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.context import TimeLeft
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidInputError,
    InvalidPredicateError,
    InvalidValueError,
    LocationNotFoundError,
    MassDropError,
    RepairRefusedError,
    StorageAccessDeniedError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.repair import batches
from catalog_ext.repair.options import RepairMode, RepairOptions
from catalog_ext.repair.repair import Repair
from catalog_ext.scan.scratch import Scratch
from tests.kit.repair_cases import deny, indexed, local_catalog, register, skipped, walked, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.context import RepairProgress

A, B, C = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", "ds=2025-01-02/region=eu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)
        yield catalog


def version(catalog: Catalog) -> int:
    return catalog.load_table("s.t").version


def test_first_repair_registers_every_partition_and_second_is_a_no_op(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{A}/2.csv", f"{B}/1.csv", f"{C}/")
    report = catalog.repair_partitions("s.t")
    assert [e.partition for e in report.added] == [A, B, C]
    assert next((e.files, e.bytes, e.reason) for e in report.added) == (2, 2, "new on the store")
    assert indexed(catalog) == walked(root, 2) == {A: {"1.csv": 1, "2.csv": 1}, B: {"1.csv": 1}, C: {}}
    totals = catalog.load_table("s.t").totals
    assert (totals.partitions, totals.files, totals.bytes) == (3, 3, 3)

    before = version(catalog)
    assert len(catalog.repair_partitions("s.t")) == 0
    assert version(catalog) == before


def test_add_neither_drops_nor_refreshes(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    (root / B / "1.csv").unlink()
    (root / B).rmdir()
    write(root, f"{A}/2.csv", f"{C}/1.csv")
    report = catalog.repair_partitions("s.t", mode="add")
    assert [e.partition for e in report] == [C]
    assert indexed(catalog) == {A: {"1.csv": 1}, B: {"1.csv": 1}, C: {"1.csv": 1}}


def test_drop_neither_adds_nor_refreshes(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    (root / B / "1.csv").unlink()
    (root / B).rmdir()
    write(root, f"{A}/2.csv", f"{C}/1.csv")
    report = catalog.repair_partitions("s.t", mode="DROP")
    assert [(e.action, e.partition, e.reason) for e in report] == [("drop", B, "the directory has gone")]
    assert indexed(catalog) == {A: {"1.csv": 1}}


def test_sync_says_of_each_file_what_became_of_it(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/gone.csv", f"{A}/longer.csv", f"{A}/again.csv", f"{A}/same.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    (root / A / "gone.csv").unlink()
    write(root, f"{A}/longer.csv", content=b"xyz")
    write(root, f"{A}/new.csv")
    os.utime(root / A / "again.csv", (1, 1))
    report = catalog.repair_partitions("s.t")
    assert {e.path.removeprefix(f"{A}/"): e.reason for e in report} == {
        "gone.csv": "file gone",
        "longer.csv": "file changed: 1 bytes before, 3 now",
        "new.csv": "file added",
        "again.csv": "file changed: written again with the same size",
    }
    assert {e.action for e in report} == {"change"}
    assert report.counts("change").partitions == 1
    assert indexed(catalog) == walked(root, 2)


def test_a_partition_without_files_stays_if_its_directory_exists(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv")
    catalog.repair_partitions("s.t")
    (root / A / "1.csv").unlink()
    assert [e.reason for e in catalog.repair_partitions("s.t")] == ["file gone"]
    assert indexed(catalog) == {A: {}}
    assert len(catalog.repair_partitions("s.t")) == 0


def test_a_dry_run_says_the_same_and_writes_nothing(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    (root / B / "1.csv").unlink()
    (root / B).rmdir()
    write(root, f"{A}/2.csv", f"{C}/1.csv", "ds=nonsense/region=eu/1.csv")
    before, held, history = (
        version(catalog),
        indexed(catalog),
        len(catalog.index.tables.history(catalog.identify("s.t"))),
    )
    preview = catalog.repair_partitions("s.t", dry_run=True)
    assert (version(catalog), indexed(catalog)) == (before, held)
    assert len(catalog.index.tables.history(catalog.identify("s.t"))) == history
    assert preview.version == before
    applied = catalog.repair_partitions("s.t")
    assert list(preview) == list(applied)
    assert version(catalog) == before + 1


def test_a_dry_run_asks_the_index_ten_times_whatever_there_is_to_do(catalog: Catalog, root: Path) -> None:
    write(root, *(f"ds=2025-01-{day:02d}/region={i}/1.csv" for day in range(1, 11) for i in range(20)))
    before = catalog.index.query_count
    assert len(catalog.repair_partitions("s.t", dry_run=True).added) == 200
    assert catalog.index.query_count - before == 10, "the table, its partitions (twice), its files, six about writes"


def test_strict_changes_nothing_if_a_path_would_be_skipped(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/1.csv", "stray.csv")
    with pytest.raises(RepairRefusedError, match=r"s\.t would skip 1 path: 'stray\.csv': the file lies above"):
        catalog.repair_partitions("s.t", strict=True)
    assert indexed(catalog) == {}
    with monkeypatch.context() as denied:
        deny(denied, root / "ds=2025-01-01")
        with pytest.raises(RepairRefusedError, match=r"mode of the path; 'stray.csv': .*\. Mend them"):
            catalog.repair_partitions("s.t", strict=True)
    (root / "stray.csv").unlink()
    assert len(catalog.repair_partitions("s.t", strict=True).added) == 1


def test_one_bad_path_never_stops_the_others(catalog: Catalog, root: Path) -> None:
    write(
        root, f"{A}/1.csv", "stray.csv", "ds=2025-01-01/stray.csv", "plain/region=eu/1.csv",
        "ds=tomorrow/region=eu/1.csv", "region=eu/ds=2025-01-01/1.csv", "day=1/region=eu/1.csv",
        "ds=2025-01-01/ds=2025-01-01/1.csv",
        f"{A}/deeper/1.csv", f"{A}/_temporary/0/1.csv", f"{A}/.hidden.csv", "_delta_log/1.json", f"{A}/_x=1.csv",
        f"{A}/._x=1.csv.crc", ".ds=2025-01-01/region=eu/1.csv",
    )  # fmt: skip
    report = catalog.repair_partitions("s.t")
    assert skipped(report) == {
        "stray.csv": "the file lies above the partition directories",
        "ds=2025-01-01/stray.csv": "the file lies above the partition directories",
        "plain": "'plain' is not of the form ds=value",
        "ds=tomorrow": "partition column ds: 'tomorrow' does not fit the type DATE",
        "region=eu": "the key 'region' stands where 'ds' is expected (keys in the wrong order)",
        "day=1": "the key 'day' is not a partition column; 'ds' is expected here",
        "ds=2025-01-01/ds=2025-01-01": "the key 'ds' comes twice in the path",
        f"{A}/deeper": "lies deeper than the 2 partition columns",
    }
    known = {e.path: (e.files, e.bytes) for e in report.skipped}
    assert (known["stray.csv"], known["plain"], known["ds=tomorrow"]) == ((1, 1), (None, None), (None, None))
    stored = catalog.index.repairs.skipped_rows(catalog.load_table("s.t")).read_all().to_pylist()
    assert {row["path"]: (row["files"], row["bytes"]) for row in stored} == known
    assert (report.counts("skip").files, report.counts("skip").bytes) == (None, None)
    assert indexed(catalog) == {A: {"1.csv": 1, "_x=1.csv": 1}}


def test_names_that_are_no_text_are_skipped_and_nothing_else(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    bad = os.fsencode(root) + b"/ds=2025-01-03/region=\xff"
    os.makedirs(bad)
    with open(bad + b"/1.csv", "wb"), open(os.fsencode(root / A) + b"/\xfe.csv", "wb"):
        pass
    write(root, f"{A}/2.csv", f"{C}/1.csv", "ds=2025-01-03/region=eu/1.csv")
    report = catalog.repair_partitions("s.t")
    assert set(skipped(report)) == {"ds=2025-01-03/region=\\udcff", f"{A}/\\udcfe.csv"}
    assert set(indexed(catalog)) == {A, B, C, "ds=2025-01-03/region=eu"}
    assert indexed(catalog)[A] == {"1.csv": 1, "2.csv": 1}


@pytest.mark.parametrize("where", ["ds = '2025-01-01'", {"ds": "2025-01-01"}])
def test_a_limited_repair_lists_and_changes_only_what_it_is_limited_to(
    catalog: Catalog, root: Path, where: str | dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, *(f"ds=2025-01-{day:02d}/region={r}/1.csv" for day in (1, 2, 3) for r in ("eu", "us")))
    write(root, "ds=2025-01-02/stray.csv")
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(str(path).removeprefix(f"{root}")) or scandir(path))
    report = catalog.repair_partitions("s.t", where=where)
    assert sorted(listed) == ["", f"/{A.split('/')[0]}", f"/{A}", f"/{B}"]
    assert set(indexed(catalog)) == {A, B}
    assert len(report.skipped) == 0
    (root / A / "1.csv").unlink()
    (root / A).rmdir()
    catalog.repair_partitions("s.t", mode="drop", where="ds = '2025-01-02'")
    assert set(indexed(catalog)) == {A, B}
    catalog.repair_partitions("s.t", mode="drop", where="region = 'eu' AND ds < '2025-01-02'")
    assert set(indexed(catalog)) == {B}


def test_a_limit_on_the_last_key_is_applied_to_whole_partitions(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t", where="region = 'eu'")
    assert set(indexed(catalog)) == {A, C}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"mode": "msck"}, InvalidInputError),
        ({"where": "nosuch = 1"}, InvalidPredicateError),
        ({"where": "ds = 'tomorrow'"}, InvalidValueError),
        ({"where": "ds = "}, InvalidPredicateError),
        ({"where": "1; DROP TABLE tables"}, InvalidPredicateError),
        ({"where": {"nosuch": "1"}}, InvalidPredicateError),
        ({"where": "x = 1"}, InvalidPredicateError),
    ],
)
def test_bad_arguments_change_nothing(
    catalog: Catalog, root: Path, arguments: dict[str, str], error: type[Exception]
) -> None:
    write(root, f"{A}/1.csv")
    with pytest.raises(error):
        catalog.repair_partitions("s.t", **arguments)  # type: ignore[arg-type]
    assert version(catalog) == 0


def test_a_table_that_is_not_there_is_an_error(catalog: Catalog) -> None:
    with pytest.raises(TableNotFoundError, match=r"s\.nosuch"):
        catalog.repair_partitions("s.nosuch")


def test_a_location_that_has_gone_drops_nothing(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv")
    catalog.repair_partitions("s.t")
    root.rename(root.with_name("elsewhere"))
    with pytest.raises(LocationNotFoundError, match=r"s\.t"):
        catalog.repair_partitions("s.t")
    assert set(indexed(catalog)) == {A}


def test_a_location_that_cannot_be_read_drops_nothing(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/1.csv")
    catalog.repair_partitions("s.t")
    deny(monkeypatch, root)
    with pytest.raises(StorageAccessDeniedError, match=r"s\.t"):
        catalog.repair_partitions("s.t")
    assert set(indexed(catalog)) == {A}


@pytest.mark.parametrize("part", ["ds=2025-01-01", A])
def test_nothing_below_a_listing_that_fails_is_added_dropped_or_changed(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    sibling = "ds=2025-01-01/region=eu2"
    write(
        root,
        f"{A}/1.csv",
        f"{A}/2.csv",
        f"{B}/1.csv",
        f"{C}/1.csv",
        f"{sibling}/1.csv",
        "ds=2025-01-10/region=eu/1.csv",
    )
    catalog.repair_partitions("s.t")
    held = indexed(catalog)
    for gone in (f"{A}/1.csv", f"{C}/1.csv"):
        (root / gone).unlink()
    (root / C).rmdir()
    write(root, f"{A}/3.csv", "ds=2025-01-01/region=new/1.csv", f"{sibling}/2.csv")
    deny(monkeypatch, root / part)
    report = catalog.repair_partitions("s.t")
    assert set(skipped(report)) == {part}
    assert skipped(report)[part].startswith("the listing is incomplete: Cannot list")
    after = indexed(catalog)
    protected = {name for name in held if name == part or name.startswith(f"{part}/")}
    assert {name: after[name] for name in protected} == {name: held[name] for name in protected}
    assert C not in after
    assert ("ds=2025-01-01/region=new" in after) == (part == A)
    assert after["ds=2025-01-10/region=eu"] == {"1.csv": 1}
    monkeypatch.undo()
    catalog.repair_partitions("s.t")
    assert indexed(catalog) == walked(root, 2)


def test_a_listing_that_fails_at_a_partitions_own_location_leaves_it_alone(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(catalog, A, f"file://{tmp_path}/elsewhere", DataFile("old.csv", 1, 1))
    refusal = StorageAccessDeniedError("no entry")

    def refuse(_: object) -> object:
        raise refusal

    monkeypatch.setattr(catalog.storage, "list_directory", refuse)
    assert skipped(catalog.repair_partitions("s.t")) == {A: "the listing is incomplete: no entry"}
    assert indexed(catalog) == {A: {"old.csv": 1}}


def add(catalog: Catalog, name: str, location: str | None = None, *files: DataFile) -> None:
    table_id = catalog.load_table("s.t").table_id
    catalog.index.commits.apply_changes(
        table_id, [AddPartition(name, files, location)], operation="test", deliver=False
    )


def test_a_relocated_partition_is_synced_and_its_namesake_reported(
    catalog: Catalog, root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, "there.csv", "_hidden.csv", "below/1.csv")
    add(catalog, A, f"file://{elsewhere}", DataFile("old.csv", 1, 1))
    write(root, f"{A}/here.csv", f"{B}/1.csv")
    report = catalog.repair_partitions("s.t")
    assert skipped(report) == {A: f"the partition is registered at file://{elsewhere}"}
    assert {e.path: e.reason for e in report.changed} == {f"{A}/there.csv": "file added", f"{A}/old.csv": "file gone"}
    assert indexed(catalog) == {A: {"there.csv": 1}, B: {"1.csv": 1}}
    assert len(catalog.repair_partitions("s.t", mode="add").changed) == 0


def test_a_partition_whose_own_location_has_gone_is_dropped(catalog: Catalog, tmp_path: Path) -> None:
    add(catalog, A, f"file://{tmp_path}/nowhere", DataFile("old.csv", 1, 1))
    report = catalog.repair_partitions("s.t")
    assert [(e.action, e.path) for e in report] == [("drop", f"file://{tmp_path}/nowhere")]
    assert indexed(catalog) == {}


def test_an_unpartitioned_table_has_the_files_in_its_location(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        root = tmp_path / "plain"
        write(root, "1.csv", "_SUCCESS")
        register(catalog, root, {})
        assert [e.partition for e in catalog.repair_partitions("s.t").added] == [""]
        write(root, "2.csv", "below/3.csv")
        report = catalog.repair_partitions("s.t")
        assert [e.path for e in report.changed] == ["2.csv"]
        assert skipped(report) == {"below": "lies in a directory, but the table has no partition columns"}
        assert indexed(catalog) == {"": {"1.csv": 1, "2.csv": 1}}


def test_directories_of_equal_values_are_registered_and_one_is_published(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        root = tmp_path / "t"
        write(root, "k=a b/1.csv", "k=a%20b/1.csv", "K=a b/1.csv", "k=/1.csv", "k=%zz/1.csv")
        register(catalog, root, {"k": "STRING"})
        report = catalog.repair_partitions("s.t")
        reasons = {e.path: e.reason for e in report.added}
        assert len(indexed(catalog)) == 5
        assert reasons["k="] == "not representable in the metastore: the value is empty"
        twins = {path for path, reason in reasons.items() if "which has the same values" in reason}
        assert twins == {"k=a%20b", "K=a b"}
        assert reasons["k=a b"] == reasons["k=%zz"] == "new on the store"


@pytest.mark.parametrize(("first", "second"), [("k=a b", "k=a%20b"), ("k=a%20b", "k=a b"), ("k=%61", "K=a")])
def test_a_spelling_that_comes_later_gives_way_to_the_registered_one(tmp_path: Path, first: str, second: str) -> None:
    with local_catalog(tmp_path) as catalog:
        root = tmp_path / "t"
        write(root, f"{first}/1.csv")
        register(catalog, root, {"k": "STRING"})
        catalog.repair_partitions("s.t")
        write(root, f"{second}/1.csv")
        report = catalog.repair_partitions("s.t")
        assert [e.reason for e in report.added] == [
            f"not representable in the metastore beside {first}, which has the same values"
        ]


def test_a_directory_renamed_to_another_spelling_replaces_the_old_one(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        root = tmp_path / "t"
        write(root, "k=a b/1.csv")
        register(catalog, root, {"k": "STRING"})
        catalog.repair_partitions("s.t")
        (root / "k=a b").rename(root / "k=a%20b")
        report = catalog.repair_partitions("s.t")
        assert [(e.action, e.path, e.reason) for e in report] == [
            ("add", "k=a%20b", "new on the store"), ("drop", "k=a b", "the directory has gone"),
        ]  # fmt: skip


def test_batches_are_bounded_by_partitions_and_by_files(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, *(f"ds=2025-01-01/region={i:02d}/{j}.csv" for i in range(25) for j in range(4)))
    repair(catalog, batch_partitions=10)
    assert version(catalog) == 3
    write(root, *(f"ds=2025-01-02/region={i:02d}/{j}.csv" for i in range(25) for j in range(4)))
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 20)
    repair(catalog)
    assert version(catalog) == 3 + 5
    assert indexed(catalog) == walked(root, 2)


def repair(catalog: Catalog, progress: list[RepairProgress] | None = None, **options: object) -> Scratch:
    scratch = Scratch()
    table = catalog.load_table("s.t")
    reported = progress if progress is not None else []
    whole = RepairOptions(deliver=False, **options)  # type: ignore[arg-type]
    Repair(catalog.index, catalog.storage, table, whole, reported.append).run(scratch)
    return scratch


def test_progress_goes_through_the_phases_and_never_back(catalog: Catalog, root: Path) -> None:
    write(root, *(f"ds=2025-01-01/region={i:02d}/1.csv" for i in range(25)))
    reported: list[RepairProgress] = []
    repair(catalog, reported, batch_partitions=10)
    phases = [p.phase for p in reported]
    assert phases == sorted(phases, key=["listing", "comparing", "applying"].index)
    assert [(p.partitions, p.total) for p in reported if p.phase == "applying"] == [(10, 25), (20, 25), (25, 25)]
    assert (reported[0].partitions, reported[0].files) == (25, 25)


@pytest.mark.parametrize("mode", list(RepairMode))
def test_total_of_the_progress_is_the_number_of_changes(catalog: Catalog, root: Path, mode: RepairMode) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", "ds=2025-01-09/region=eu/1.csv")
    catalog.repair_partitions("s.t")
    (root / B / "1.csv").unlink()
    (root / B).rmdir()
    write(root, f"{A}/2.csv", f"{A}/3.csv", f"{C}/1.csv", "ds=2025-01-03/region=eu/1.csv")
    reported: list[RepairProgress] = []
    repair(catalog, reported, mode=mode, batch_partitions=1)
    expected = {RepairMode.ADD: 2, RepairMode.DROP: 1, RepairMode.SYNC: 4}[mode]
    applying = [(p.partitions, p.total) for p in reported if p.phase == "applying"]
    assert applying == [(i + 1, expected) for i in range(expected)]


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is ten seconds after the last."""
    clock = count(0, 10)
    monkeypatch.setattr("catalog_ext.context.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr("catalog_ext.scan.observe._BUFFER_ROWS", 10)


@pytest.mark.usefixtures("seconds")
def test_first_repair_estimates_time_by_first_key_and_by_additions(catalog: Catalog, root: Path) -> None:
    write(root, *(f"ds=2025-01-{day:02d}/region={i}/1.csv" for day in range(1, 5) for i in range(5)))
    (root / "_hidden").mkdir()
    (root / "none").mkdir()
    reported: list[RepairProgress] = []
    repair(catalog, reported, batch_partitions=10)
    # Of four days the first two were seen when the first rows were flushed, so that one was done after ten seconds.
    assert [p.left_s for p in reported if p.phase == "listing"][:2] == [None, pytest.approx(20 * 3)]
    assert [p.left_s for p in reported if p.phase == "applying"] == [pytest.approx(10), 0]


@pytest.mark.usefixtures("seconds")
def test_a_repair_says_how_long_it_takes_by_what_is_registered(catalog: Catalog, root: Path) -> None:
    write(root, *(f"ds=2025-01-01/region={i:02d}/1.csv" for i in range(25)))
    repair(catalog)
    reported: list[RepairProgress] = []
    repair(catalog, reported)
    known = [(p.partitions, p.left_s) for p in reported if p.phase == "listing"]
    assert known[0] == (5, pytest.approx(10 * 20 / 5))
    assert known[-1] == (25, 0)
    # More than was known: how many is unknown.
    write(root, *(f"ds=2025-01-02/region={i:02d}/1.csv" for i in range(25)))
    reported.clear()
    repair(catalog, reported, dry_run=True)
    assert all((p.left_s is None) == (p.partitions > 25) for p in reported if p.phase == "listing")


def test_how_long_it_takes_is_not_guessed() -> None:
    left = TimeLeft()
    assert left.after(10, 20) is None  # too early


def test_a_repair_that_died_goes_on_where_it_stopped(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, *(f"ds=2025-01-01/region={i:02d}/1.csv" for i in range(35)))
    commit = catalog.index.commits.apply_changes
    left = [2]

    def dying(*args: object, **kwargs: object) -> object:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return commit(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(catalog.index.commits, "apply_changes", dying)
    with pytest.raises(KeyboardInterrupt):
        repair(catalog, batch_partitions=10)
    monkeypatch.undo()
    assert len(indexed(catalog)) == 20
    assert len(catalog.repair_partitions("s.t").added) == 15
    assert indexed(catalog) == walked(root, 2)


def test_a_progress_that_raises_stops_the_repair_and_leaves_whole_batches(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv")

    def stop(progress: RepairProgress) -> None:
        if progress.phase == "comparing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        catalog.repair_partitions("s.t", progress=stop)
    assert version(catalog) == 0


@pytest.mark.parametrize("mode", list(RepairMode))
def test_every_mode_on_an_empty_table_does_nothing(catalog: Catalog, mode: RepairMode) -> None:
    assert len(catalog.repair_partitions("s.t", mode=mode)) == 0
    assert version(catalog) == 0


def gone(root: Path, *directories: str) -> None:
    """Directories with their files are not there any more."""
    for directory in directories:
        shutil.rmtree(root / directory)


def days(count: int) -> list[str]:
    return [f"ds=2025-01-{day:02d}/region=eu" for day in range(1, count + 1)]


@pytest.mark.parametrize("mode", ["sync", "drop"])
def test_an_empty_mount_drops_nothing_until_it_is_allowed(catalog: Catalog, root: Path, mode: str) -> None:
    write(root, f"{A}/1.csv", f"{A}/2.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t")
    before, held = version(catalog), indexed(catalog)
    gone(root, "ds=2025-01-01", "ds=2025-01-02")
    (root / "lost+found").mkdir()

    with pytest.raises(MassDropError) as refused:
        catalog.repair_partitions("s.t", mode=mode)
    assert "would drop 2 of 2 registered partitions, with 3 files, because nothing of the table is left" in str(
        refused.value
    )
    assert "allow_mass_drop => true" in str(refused.value)
    assert "--force" in str(refused.value)
    assert refused.value.parameters == {"table": "s.t", "partitions": "2", "registered": "2", "files": "3"}
    assert (version(catalog), indexed(catalog)) == (before, held)
    kept = catalog.metadata_tables.read(catalog.load_table("s.t").table_id, "repairs").read_all().to_pylist()[0]
    assert (kept["error"], kept["dropped"]) == (refused.value.message, 0)

    assert len(catalog.repair_partitions("s.t", mode="add").added) == 0, "what only adds has nothing to refuse"
    report = catalog.repair_partitions("s.t", mode=mode, allow_mass_drop=True)
    assert (len(report.dropped), len(report.refused), indexed(catalog)) == (2, 0, {})


def test_a_preview_shows_a_mass_drop_and_that_it_would_be_refused(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t")
    gone(root, "ds=2025-01-01", "ds=2025-01-02")
    preview = catalog.repair_partitions("s.t", dry_run=True)
    assert [entry.partition for entry in preview.dropped] == [A, C]
    (refusal,) = preview.refused
    assert (refusal.files, refusal.bytes) == (2, 2)
    assert refusal.reason.startswith("the repair would be refused: it would drop 2 of 2 registered partitions")
    assert refusal in list(preview)
    assert json.loads(preview.to_json())["refused"] == refusal.reason
    for shown in (str(preview), preview._repr_html_()):
        assert "the repair would be refused: " in shown
    allowed = catalog.repair_partitions("s.t", dry_run=True, allow_mass_drop=True)
    assert (len(allowed.refused), json.loads(allowed.to_json())["refused"]) == (0, None)


@pytest.mark.parametrize(
    ("registered", "lost", "refused"),
    [(20, 11, True), (20, 10, False), (19, 18, False), (21, 11, True), (21, 10, False)],
)
def test_more_than_half_of_at_least_20_partitions_is_a_mass_drop(
    catalog: Catalog, root: Path, registered: int, lost: int, refused: bool
) -> None:
    names = days(registered)
    write(root, *(f"{name}/1.csv" for name in names))
    catalog.repair_partitions("s.t")
    gone(root, *names[:lost])
    if refused:
        with pytest.raises(MassDropError, match=rf"drop {lost} of {registered} .* more than the 50 % that it may"):
            catalog.repair_partitions("s.t")
        assert len(indexed(catalog)) == registered
    else:
        assert len(catalog.repair_partitions("s.t").dropped) == lost


def test_the_threshold_of_a_mass_drop_is_a_table_property(catalog: Catalog, root: Path) -> None:
    names = days(20)
    write(root, *(f"{name}/1.csv" for name in names))
    catalog.repair_partitions("s.t")
    gone(root, *names[:3])
    catalog.alter_table_properties("s.t", {"repair.mass-drop-percent": "10"})
    with pytest.raises(MassDropError, match="3 of 20"):
        catalog.repair_partitions("s.t")
    catalog.alter_table_properties("s.t", {"repair.mass-drop-partitions": "21"})
    assert len(catalog.repair_partitions("s.t").dropped) == 3
    gone(root, *names[3:19])
    catalog.alter_table_properties("s.t", {"repair.mass-drop-percent": "100", "repair.mass-drop-partitions": "1"})
    assert len(catalog.repair_partitions("s.t").dropped) == 16
    gone(root, *names[19:])
    with pytest.raises(MassDropError, match="nothing of the table is left"):
        catalog.repair_partitions("s.t")
    with pytest.raises(InvalidConfigurationError, match="from 0 to 100"):
        catalog.alter_table_properties("s.t", {"repair.mass-drop-percent": "101"})


def test_a_limited_repair_drops_its_partitions_if_the_location_has_any(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t")
    gone(root, "ds=2025-01-01")
    assert len(catalog.repair_partitions("s.t", where="ds = DATE '2025-01-01'").dropped) == 1
    gone(root, "ds=2025-01-02")
    with pytest.raises(MassDropError, match="nothing of the table is left"):
        catalog.repair_partitions("s.t", where="ds = DATE '2025-01-02'")


def test_partitions_elsewhere_are_not_the_location_s(catalog: Catalog, root: Path, tmp_path: Path) -> None:
    write(tmp_path, "elsewhere/1.csv")
    catalog.partition_commands.add("s.t", [({"ds": "2025-01-01", "region": "eu"}, str(tmp_path / "elsewhere"))])
    gone(tmp_path, "elsewhere")
    assert len(catalog.repair_partitions("s.t").dropped) == 1


def test_an_unpartitioned_table_keeps_its_files_if_the_location_is_empty(catalog: Catalog, tmp_path: Path) -> None:
    place = tmp_path / "plain"
    write(place, "1.csv", "2.csv")
    register(catalog, place, {}, table="s.plain")
    catalog.repair_partitions("s.plain")
    for file in place.iterdir():
        file.unlink()
    assert len(catalog.repair_partitions("s.plain", mode="drop")) == 0, "it drops partitions, and this one stays"
    with pytest.raises(MassDropError, match="1 of 1 registered partitions, with 2 files"):
        catalog.repair_partitions("s.plain")
    assert indexed(catalog, "s.plain") == {"": {"1.csv": 1, "2.csv": 1}}
    catalog.repair_partitions("s.plain", allow_mass_drop=True)
    assert indexed(catalog, "s.plain") == {"": {}}
