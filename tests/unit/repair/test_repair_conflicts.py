"""Repairs that others get in the way of: commits in between, stores without directories, a metastore that is down."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    StorageAccessDeniedError,
    StorageUnavailableError,
    TableAlreadyExistsError,
)
from catalog_ext.metastore.index.write.repairs import Verified
from catalog_ext.metastore.model.changes import AddPartition, DropPartition, ReplaceFiles
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import Comparison, Operator
from catalog_ext.metastore.storage.entries import ListedDirectory, ListedFile, ListingFailure
from catalog_ext.metastore.storage.listing import list_tree
from catalog_ext.metastore_sync.connection import MetastoreConnection
from catalog_ext.repair import batches
from catalog_ext.repair.in_flight_writes import InFlightWrites
from catalog_ext.scan import observe
from tests.kit.repair_cases import indexed, local_catalog, register, skipped, walked, write
from tests.kit.writes import insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.context import RepairProgress
    from catalog_ext.metastore.model.changes import AppliedChanges, Change
    from catalog_ext.metastore.storage.entries import Listed
    from tests.kit.fakes_metastore import FakeMetastore

CHANGED = "version {} of the table changed it meanwhile: repair again"
A, B, C = "ds=2025-01-01/region=eu", "ds=2025-01-01/region=us", "ds=2025-01-02/region=eu"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def catalog(tmp_path: Path, root: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        register(catalog, root)
        yield catalog


def commit(catalog: Catalog, *changes: Change) -> None:
    catalog.index.commits.apply_changes(catalog.load_table("s.t").table_id, changes, operation="other", deliver=False)


def before_applying(work: Callable[[], None]) -> Callable[[RepairProgress], None]:
    """A progress that lets another writer commit between the comparison and the first batch."""

    def reported(progress: RepairProgress) -> None:
        if progress.phase == "comparing":
            work()

    return reported


def test_partition_registered_meanwhile_is_skipped_and_the_rest_is_not(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    other = before_applying(lambda: commit(catalog, AddPartition(B, (DataFile("other.csv", 9, 9),))))
    report = catalog.repair_partitions("s.t", progress=other)
    assert [e.partition for e in report.added] == [A, C]
    assert skipped(report) == {B: CHANGED.format(1)}
    assert indexed(catalog)[B] == {"other.csv": 9}
    catalog.repair_partitions("s.t")
    assert indexed(catalog) == walked(root, 2)


def test_partition_dropped_meanwhile_is_skipped(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    write(root, f"{A}/2.csv", f"{B}/2.csv")
    report = catalog.repair_partitions("s.t", progress=before_applying(lambda: commit(catalog, DropPartition(A))))
    assert [e.partition for e in report.changed] == [B]
    assert skipped(report) == {A: CHANGED.format(2)}


def test_files_registered_meanwhile_skip_their_partition_only(catalog: Catalog, root: Path) -> None:
    names = [f"ds=2025-01-01/region={i}" for i in range(9)]
    write(root, *(f"{name}/1.csv" for name in names))
    catalog.repair_partitions("s.t")
    write(root, *(f"{name}/2.csv" for name in names))
    new = DataFile("2.csv", 1, 1)
    other = before_applying(lambda: commit(catalog, *(ReplaceFiles(names[i], (new,)) for i in (2, 7))))
    report = catalog.repair_partitions("s.t", progress=other)
    assert {e.partition for e in report.changed} == set(names) - {names[2], names[7]}
    assert skipped(report) == dict.fromkeys((names[2], names[7]), CHANGED.format(2))


def test_a_thousand_conflicts_cost_one_look_not_a_thousand_transactions(catalog: Catalog, root: Path) -> None:
    names = [f"ds=2025-01-01/region={i}" for i in range(500)]
    write(root, *(f"{name}/1.csv" for name in names))
    other = before_applying(lambda: commit(catalog, *(AddPartition(name, ()) for name in names)))
    commits: list[int] = []
    whole = catalog.index.commits.apply_changes

    def counted(table_id: int, changes: Sequence[Change], **kwargs: object) -> object:
        commits.append(len(changes))
        return whole(table_id, changes, **kwargs)  # type: ignore[arg-type]

    catalog.index.commits.apply_changes = counted  # type: ignore[method-assign, assignment]
    report = catalog.repair_partitions("s.t", progress=other)
    assert len(report.skipped) == 500
    assert commits == [500, 500], "the other one, and our attempt"


def test_an_insert_acknowledged_after_the_listing_is_not_dropped(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t")
    shutil.rmtree(root / A)
    shutil.rmtree(root / C)
    report = catalog.repair_partitions("s.t", mode="sync", progress=before_applying(lambda: insert(catalog, A)))
    assert [e.partition for e in report.dropped] == [C]
    assert skipped(report) == {A: CHANGED.format(2)}
    assert set(indexed(catalog)) == {A, B}
    assert indexed(catalog)[A].items() >= walked(root, 2)[A].items(), "the INSERT's rows are there"
    catalog.repair_partitions("s.t", mode="sync")
    assert indexed(catalog) == walked(root, 2)


def test_a_partition_deleted_and_written_again_is_not_dropped(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    before_listing = InFlightWrites.note_removals

    def deleted(in_flight: InFlightWrites) -> None:
        before_listing(in_flight)
        table = catalog.load_table("s.t")
        of_a = Comparison(Operator.EQ, "region", "eu")
        catalog.writes.delete(table.table_id, table.version, of_a, truncate=False)

    monkeypatch.setattr(InFlightWrites, "note_removals", deleted)
    report = catalog.repair_partitions("s.t", mode="sync", progress=before_applying(lambda: insert(catalog, A)))
    assert (list(report.dropped), skipped(report)) == ([], {A: CHANGED.format(3)})
    assert indexed(catalog) == walked(root, 2)


def test_a_file_that_an_overwrite_has_replaced_is_not_registered(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    catalog.repair_partitions("s.t")
    write(root, f"{A}/000000_0")
    report = catalog.repair_partitions(
        "s.t", mode="sync", progress=before_applying(lambda: insert(catalog, A, kind=WriteKind.OVERWRITE_PARTITIONS))
    )
    assert skipped(report) == {A: CHANGED.format(2)}
    assert indexed(catalog) == walked(root, 2)


def test_a_partition_that_came_and_went_meanwhile_is_not_added(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")

    def come_and_go() -> None:
        commit(catalog, AddPartition(A, (DataFile("1.csv", 1, 1),)))
        commit(catalog, DropPartition(A))
        shutil.rmtree(root / A)

    report = catalog.repair_partitions("s.t", progress=before_applying(come_and_go))
    assert [e.partition for e in report.added] == [B]
    assert skipped(report) == {A: CHANGED.format(2)}
    assert indexed(catalog) == walked(root, 2)


def test_what_vacuum_has_forgotten_counts_as_changed(catalog: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t", where="region = 'us'")
    write(root, f"{B}/2.csv")

    def forget() -> None:
        commit(catalog, AddPartition(A, ()))
        commit(catalog, DropPartition(A))
        table = catalog.load_table("s.t")
        catalog.index.versions.expire(table.table_id, table.version)

    report = catalog.repair_partitions("s.t", mode="sync", progress=before_applying(forget))
    assert [e.partition for e in report.changed] == [B], "it is there, and shows that no repair touched it"
    assert set(skipped(report)) == {A, C}


def test_a_table_that_moved_meanwhile_gets_nothing_of_its_old_place(
    catalog: Catalog, root: Path, tmp_path: Path
) -> None:
    write(root, f"{A}/1.csv")
    (tmp_path / "elsewhere").mkdir()
    move = before_applying(lambda: catalog.alterations.alter("s.t", location=str(tmp_path / "elsewhere")))
    with pytest.raises(ConflictError, match=r"location or the partition columns of table s\.t were changed"):
        catalog.repair_partitions("s.t", progress=move)
    assert indexed(catalog) == {}


def test_repair_skips_partitions_committed_between_its_batches(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"ds=2025-01-01/region={i}" for i in range(9)]
    write(root, *(f"{name}/1.csv" for name in names))
    commits: list[int] = []
    whole = catalog.index.commits.apply_changes

    def followed_by_another(*args: Any, **kwargs: Any) -> AppliedChanges:
        done = whole(*args, **kwargs)
        if not commits:
            whole(args[0], [DropPartition(names[0]), AddPartition(names[8], ())], operation="other", deliver=False)
        commits.append(done.version)
        return done

    monkeypatch.setattr(catalog.index.commits, "apply_changes", followed_by_another)
    monkeypatch.setattr(batches, "MAX_BATCH_FILES", 2)
    report = catalog.repair_partitions("s.t")
    assert [e.partition for e in report.added] == names[:8]
    assert (skipped(report), commits) == ({names[8]: CHANGED.format(2)}, [1, 3, 4, 5])
    assert set(indexed(catalog)) == set(names[1:])


@pytest.mark.parametrize("repairs", [2, 5])
def test_repairs_at_once_all_end_and_register_everything_once(catalog: Catalog, root: Path, repairs: int) -> None:
    write(root, *(f"ds=2025-01-{day:02d}/region={i}/1.csv" for day in range(1, 6) for i in range(30)))
    together = threading.Barrier(repairs)

    def run(_: int) -> tuple[int, int]:
        together.wait()
        report = catalog.repair_partitions("s.t")
        return len(report.added), len(report.skipped)

    with ThreadPoolExecutor(repairs) as pool:
        outcomes = list(pool.map(run, range(repairs)))
    assert sum(added for added, _ in outcomes) == 150
    assert all(added + skipped_ in (0, 150) for added, skipped_ in outcomes)
    assert indexed(catalog) == walked(root, 2)
    assert catalog.load_table("s.t").totals.partitions == 150


# Stores without directories


@pytest.fixture
def flat(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """The catalog on a store that lists files only, as S3 does."""

    def files_only(*args: object, **kwargs: object) -> Iterator[Listed]:
        return (e for e in list_tree(*args, **kwargs) if not isinstance(e, ListedDirectory))  # type: ignore[arg-type]

    monkeypatch.setattr(observe, "list_tree", files_only)
    monkeypatch.setattr(catalog.storage, "store_has_directories", lambda _: False)
    return catalog


def test_where_no_directories_are_kept_a_partition_has_files(flat: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/", f"{C}/_SUCCESS")
    flat.repair_partitions("s.t")
    assert indexed(flat) == {A: {"1.csv": 1}}


def test_on_object_stores_emptied_partitions_go_and_empty_ones_stay(flat: Catalog, root: Path) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    flat.repair_partitions("s.t")
    commit(flat, AddPartition(C, ()))
    (root / A / "1.csv").unlink()
    report = flat.repair_partitions("s.t")
    assert [(e.action, e.partition, e.reason) for e in report] == [("drop", A, "no file is left under the prefix")]
    assert set(indexed(flat)) == {B, C}


# A fake listing


@pytest.mark.parametrize("first", [True, False])
def test_what_a_failed_part_listed_before_it_failed_is_not_used(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    write(root, f"{A}/1.csv", f"{B}/1.csv", f"{C}/1.csv")
    catalog.repair_partitions("s.t")
    shutil.rmtree(root / C)
    held = indexed(catalog)
    failure: Listed = ListingFailure("ds=2025-01-01", StorageUnavailableError("time-out"))
    part: list[Listed] = [
        ListedDirectory(A),
        ListedFile(A, "1.csv", 5, 5),
        ListedFile(A, "new.csv", 5, 5),
        ListedFile("ds=2025-01-01/region=new", "1.csv", 5, 5),
    ]
    events = [failure, *part] if first else [*part, failure]
    monkeypatch.setattr(observe, "list_tree", lambda *_, **__: (e for e in events))
    report = catalog.repair_partitions("s.t")
    assert skipped(report) == {"ds=2025-01-01": "the listing is incomplete: time-out"}
    assert indexed(catalog) == {A: held[A], B: held[B]}
    assert [e.partition for e in report.dropped] == [C]


def test_a_failure_of_the_whole_table_changes_nothing(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(root, f"{A}/1.csv")
    catalog.repair_partitions("s.t")
    events = [ListingFailure("", StorageAccessDeniedError("denied")), ListedFile(C, "1.csv", 1, 1)]
    monkeypatch.setattr(observe, "list_tree", lambda *_, **__: (e for e in events))
    report = catalog.repair_partitions("s.t")
    assert [(e.action, e.path) for e in report] == [("skip", "")]
    assert "(the table): the listing is incomplete: denied" in str(report)
    assert set(indexed(catalog)) == {A}


def test_a_listing_is_closed_when_the_repair_fails(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    def listing(*_: object, **__: object) -> Iterator[Listed]:
        try:
            yield ListedFile(A, "1.csv", 1, 1)
            raise StorageUnavailableError("the store went away")
        finally:
            closed.append(True)

    monkeypatch.setattr(observe, "list_tree", listing)
    with pytest.raises(StorageUnavailableError, match=r"s\.t cannot be repaired: the store went away"):
        catalog.repair_partitions("s.t")
    assert closed == [True]
    assert catalog.load_table("s.t").version == 0


# The metastore


@pytest.fixture
def followed(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with local_catalog(tmp_path, metastore="thrift://fake:9083") as catalog:
        assert isinstance(catalog.metastore, MetastoreConnection)
        yield catalog


def names(metastore: FakeMetastore) -> set[str]:
    return set(metastore.partition_names("s", "t"))


def test_the_metastore_follows_registration_and_repair(followed: Catalog, metastore: FakeMetastore, root: Path) -> None:
    register(followed, root)
    write(root, f"{A}/1.csv", "ds=2025-01-01/region=/1.csv")
    report = followed.repair_partitions("s.t")
    assert report.pending_deliveries == 0
    assert len(report.added) == 2
    assert names(metastore) == {A}
    assert followed.metastore_state() == "in sync"
    (root / A / "1.csv").unlink()
    (root / A).rmdir()
    followed.repair_partitions("s.t")
    assert names(metastore) == set()


def test_dry_run_sends_the_metastore_nothing(followed: Catalog, metastore: FakeMetastore, root: Path) -> None:
    register(followed, root)
    write(root, f"{A}/1.csv")
    before = metastore.calls.total()
    followed.repair_partitions("s.t", dry_run=True)
    assert metastore.calls.total() == before


@pytest.mark.slow
def test_repair_succeeds_without_the_metastore_which_catches_up_later(
    followed: Catalog, metastore: FakeMetastore, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    metastore.down = True
    register(followed, root)
    write(root, f"{A}/1.csv", f"{B}/1.csv")
    report = followed.repair_partitions("s.t")
    assert len(report.added) == 2
    assert report.pending_deliveries > 0
    assert report.delivery_error
    assert f"the metastore has not taken {report.pending_deliveries} change" in str(report)
    assert "pending: " in followed.metastore_state()
    assert "delivered later" in caplog.text
    assert indexed(followed) == walked(root, 2)
    metastore.down = False
    pending = wait_until_delivered(followed)
    assert pending == 0
    assert names(metastore) == {A, B}


def wait_until_delivered(catalog: Catalog) -> int:
    """Deliveries that failed are due again after a pause; half a minute is ample."""
    done = threading.Event()
    for _ in range(300):
        pending = catalog.deliver(5).pending
        if not pending:
            break
        done.wait(0.1)
    return pending


def test_a_table_of_another_place_in_the_metastore_keeps_its_name(
    followed: Catalog, metastore: FakeMetastore, root: Path, tmp_path: Path
) -> None:
    register(followed, root)
    followed.unregister_table("s.t")
    with pytest.raises(TableAlreadyExistsError, match="import_table"):
        register(followed, tmp_path / "other")
    assert followed.list_tables("s") == []
    register(followed, root)
    assert followed.list_tables("s") == ["t"]


def test_planning_and_previews_never_ask_the_metastore(followed: Catalog, metastore: FakeMetastore, root: Path) -> None:
    write(root, f"{A}/1.csv")
    register(followed, root)
    followed.repair_partitions("s.t")
    before = metastore.calls.total()
    followed.load_table("s.t")
    assert followed.files("s.t", "ds = '2025-01-01'").num_rows == 1
    assert followed.partitions("s.t", {"region": "eu"}).num_rows == 1
    assert metastore.calls.total() == before


def test_comparison_of_one_partition_is_found_among_many_names(catalog: Catalog) -> None:
    """Above 500 names the index is asked first whether it has comparisons of single partitions at all."""
    table, verifications = catalog.load_table("s.t"), catalog.index.verifications
    names = [A, *(f"ds=2025-01-01/region=r{number}" for number in range(600))]
    assert verifications.verified(table, names).of(A) is None
    verifications.note(table, Verified(5, table.version), [A])
    found = verifications.verified(table, names)
    assert (found.of(A), found.of(B)) == (Verified(5, table.version), None)
    assert (found.is_later(A, 4), found.is_later(A, 5), found.is_later(B, 4)) == (True, False, False)
