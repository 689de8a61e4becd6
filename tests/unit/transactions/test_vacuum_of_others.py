"""Vacuum knows whose a staged file is by its transaction: several indexes, or tables, may be over one location."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.partition_commit import DELAY, POLICY_KIND, TIME_PATTERN, TRIGGER
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import StorageError
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.schema import forgotten_transactions
from catalog_ext.metastore.index.write.transaction_rows import FORGOTTEN_KEPT_MS
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.transactions import strays
from catalog_ext.metastore.transactions.reports import VacuumAction, VacuumReport
from tests.kit.index_cases import local_index
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.commit.transaction import BegunWrite
    from catalog_ext.metastore.storage.locations import Location

OTHER = TableIdentifier("s", "other")


@pytest.fixture(autouse=True)
def _no_claims_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    # They keep the rows of committed transactions for an hour.
    monkeypatch.setattr("catalog_ext.metastore.index.write.claim_checks.CLAIMS_KEPT_MS", -1000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def stand(tmp_path: Path, root: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        yield stand


@pytest.fixture
def other(tmp_path: Path, root: Path) -> Iterator[Stand]:
    """Another index with a table at the same location."""
    with Index.open(f"sqlite:///{tmp_path}/other.db", migrate=True) as index:
        stand = Stand(index)
        stand.create(definition(root, external=True))
        yield stand


def vacuum(stand: Stand, retention_s: float = 0, *, unknown_writes: bool = False) -> VacuumReport:
    time.sleep(0.005)  # what is written is older than the retention then
    report = stand.engine.vacuum(stand.table(), retention_s, unknown_writes=unknown_writes)
    assert report.failed == ()
    return report


def deleted(report: VacuumReport) -> list[str]:
    return [Path(e.path).name for e in report.entries if e.action is VacuumAction.DELETE]


def forgotten(stand: Stand) -> set[str]:
    with stand.index._database.reading() as connection:
        return set(connection.execute(sa.select(forgotten_transactions.c.transaction_id)).scalars())


def late(stand: Stand, root: Path, begun: BegunWrite, *, age_s: float = 60) -> str:
    """A task of a write that is over writes a file."""
    (file,) = stand.put(begun, {"k=1": "9\n"}, task=7)
    (path,) = root.rglob(file.name)
    then = time.time() - age_s
    os.utime(path, (then, then))
    return file.name


def ended(stand: Stand, how: str) -> BegunWrite:
    begun = stand.begin()
    if how == "aborted":
        stand.engine.abort(begun.transaction_id, "a task failed")
    else:
        stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=2": "2\n"}))
    return begun


def test_the_open_write_of_another_index_is_left_and_reported(stand: Stand, other: Stand) -> None:
    stand.write({"k=1": "1\n"})
    begun = other.begin()
    staged = other.put(begun, {"k=2": "2\n"})
    report = vacuum(stand)
    assert deleted(report) == []
    (skipped,) = report.skipped
    assert skipped.path.endswith(staged[0].name)
    assert skipped.bytes == staged[0].size
    assert begun.transaction_id in skipped.reason
    for how in ("--unknown-writes", "unknown_writes => true", "unknown_writes=True"):
        assert how in skipped.reason
    other.engine.commit(begun.transaction_id, staged)
    assert other.rows() == {"k=2": "2\n"}
    assert vacuum(stand).skipped == ()


def wait(stand: Stand, name: TableIdentifier) -> None:
    """An epoch of a stream commits nothing but keeps back a file."""
    options = {TRIGGER: "partition-time", DELAY: "1 h", TIME_PATTERN: "2025-01-01 $k:00:00", POLICY_KIND: "metastore"}
    more = {"operation": "STREAMING", "app_id": "q", "app_version": 0, "watermark_ms": 0}
    stand.write({"k=12": "b\n"}, table=stand.table(name), options=options, **more)


def test_what_waits_in_another_index_is_left_and_reported(stand: Stand, other: Stand) -> None:
    wait(other, other.table().identifier)
    report = vacuum(stand)
    assert (deleted(report), len(report.skipped)) == ([], 1)
    other.engine.waiting.release(other.table(), "q", "test", {})
    assert other.rows() == {"k=12": "b\n"}


@pytest.mark.parametrize("what", ["open", "waiting"])
def test_what_another_table_of_the_index_has_there_is_left(stand: Stand, root: Path, what: str) -> None:
    stand.create(definition(root, name="other", external=True))
    stand.write({"k=1": "1\n"})
    if what == "open":
        begun = stand.begin(table=stand.table(OTHER))
        staged = stand.put(begun, {"k=12": "b\n"})
        report = vacuum(stand)
        stand.engine.commit(begun.transaction_id, staged)
    else:
        wait(stand, OTHER)
        report = vacuum(stand)
        stand.engine.waiting.release(stand.table(OTHER), "q", "test", {})
    assert (deleted(report), report.skipped) == ([], ())
    assert stand.rows(OTHER) == {"k=12": "b\n"}


@pytest.mark.parametrize("how", ["aborted", "committed"])
def test_a_forgotten_write_is_known_until_vacuum_has_looked(stand: Stand, root: Path, how: str) -> None:
    begun = ended(stand, how)
    stand.write({"k=1": "1\n"}, WriteKind.OVERWRITE_PARTITIONS)
    assert VacuumAction.FORGET in {e.action for e in vacuum(stand).entries}
    assert stand.index.forgotten_transactions.known([begun.transaction_id])[begun.transaction_id].state is None
    name = late(stand, root, begun)
    assert deleted(vacuum(stand)) == [name]
    assert begun.transaction_id not in forgotten(stand)
    name = late(stand, root, begun)
    assert [Path(e.path).name for e in vacuum(stand).skipped] == [name], "no transaction knows it any more"
    assert deleted(vacuum(stand, unknown_writes=True)) == [name]


def test_what_a_service_has_forgotten_is_known_too(stand: Stand, root: Path) -> None:
    begun = ended(stand, "committed")
    stand.write({"k=1": "1\n"})
    assert stand.index.versions.expire(stand.table().table_id, 2, aborted=False)
    assert forgotten(stand) == {begun.transaction_id}
    assert deleted(vacuum(stand)) == []
    assert begun.transaction_id not in forgotten(stand)


def test_a_forgotten_write_is_known_while_its_files_are_young(stand: Stand, root: Path) -> None:
    begun = ended(stand, "aborted")
    stand.write({"k=1": "1\n"})
    vacuum(stand)
    name = late(stand, root, begun, age_s=0)
    assert vacuum(stand, 3600).entries == ()
    assert begun.transaction_id in forgotten(stand)
    assert deleted(vacuum(stand)) == [name]
    assert begun.transaction_id not in forgotten(stand)


def test_a_preview_and_a_failure_forget_nothing(stand: Stand, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = ended(stand, "aborted")
    stand.write({"k=1": "1\n"})
    vacuum(stand)
    name = late(stand, root, begun)
    stand.engine.vacuum(stand.table(), 0, dry_run=True)
    with monkeypatch.context() as broken:
        broken.setattr("catalog_ext.metastore.transactions.strays.list_tree", _denied)
        assert stand.engine.vacuum(stand.table(), 0).failed
    assert deleted(vacuum(stand)) == [name]


def _denied(*_: object, **__: object) -> Iterator[object]:
    raise StorageError("access denied")


def test_ids_of_forgotten_writes_do_not_pile_up(stand: Stand) -> None:
    """Without any vacuum they go after a time; of a dropped table at once."""
    first = ended(stand, "committed")
    second = ended(stand, "committed")
    stand.write({"k=1": "1\n"})
    number = stand.table().table_id
    stand.index.versions.expire(number, 2, aborted=False)
    assert forgotten(stand) == {first.transaction_id}
    old = sa.update(forgotten_transactions).values(forgotten_at_ms=stand.index.now_ms() - FORGOTTEN_KEPT_MS - 1000)
    stand.index._database.write(lambda connection: connection.execute(old))
    stand.index.versions.expire(number, 3, aborted=False)
    assert forgotten(stand) == {second.transaction_id}
    stand.index.tables.drop(stand.table().identifier, deliver=False)
    assert forgotten(stand) == set()


def test_unknown_files_at_their_final_place_are_never_removed(stand: Stand, root: Path) -> None:
    stand.write({"k=1": "1\n"})
    (root / "k=1" / f"part-00000-{'a' * 32}-c000.csv").write_text("x\n")
    assert vacuum(stand, unknown_writes=True).skipped == ()
    assert len(list((root / "k=1").iterdir())) == 2


def left(stand: Stand, away: Path) -> BegunWrite:
    """A write to a partition at a location of its own, which leaves it then; the write's row is forgotten."""
    table = stand.table()
    (away / "there").mkdir(parents=True)
    stand.index.commits.apply_changes(
        table.table_id, [AddPartition("k=3", (), location=f"file://{away}/there")], operation="x", deliver=False
    )
    begun = stand.begin(table=stand.table())
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=3": "3\n"}))
    stand.index.commits.apply_changes(table.table_id, [DropPartition("k=3")], operation="x", deliver=False)
    (file,) = stand.put(begun, {"k=3": "9\n"}, task=7)
    (path,) = away.rglob(file.name)
    then = time.time() - 60
    os.utime(path, (then, then))
    return begun


def test_what_is_left_where_a_partition_was_is_looked_for(stand: Stand, tmp_path: Path) -> None:
    begun = left(stand, tmp_path / "away")
    stand.write({"k=1": "1\n"}, WriteKind.OVERWRITE_PARTITIONS)
    names = deleted(vacuum(stand))
    assert len(names) == 1
    assert begun.transaction_id in names[0]
    assert not list((tmp_path / "away").rglob(f"_catalog_ext_staging/*/*{begun.transaction_id}*"))


def test_a_place_that_was_left_and_cannot_be_looked_at_stops_nothing(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = left(stand, tmp_path / "away")
    stand.write({"k=1": "1\n"}, WriteKind.OVERWRITE_PARTITIONS)
    whole = strays.list_tree

    def denied(storage: object, root: Location, **more: object) -> object:
        if "away" in str(root):
            raise StorageError("access denied")
        return whole(storage, root, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as broken:
        broken.setattr(strays, "list_tree", denied)
        assert VacuumAction.FORGET in {entry.action for entry in vacuum(stand).entries}
    assert begun.transaction_id in forgotten(stand), "what it has left may be found yet"


def test_ids_of_forgotten_writes_go_to_another_table_over_the_directory(stand: Stand, root: Path) -> None:
    stand.create(definition(root, name="other", external=True))
    table = stand.table(OTHER)
    begun = stand.begin(table=table)
    stand.engine.commit(begun.transaction_id, stand.put(begun, {"k=2": "2\n"}))
    stand.write({"k=1": "1\n"}, WriteKind.OVERWRITE_PARTITIONS, table=stand.table(OTHER))
    stand.index.versions.expire(table.table_id, 2)
    assert begun.transaction_id in forgotten(stand)
    name = late(stand, root, begun)
    stand.index.tables.drop(OTHER, deliver=False)
    assert deleted(vacuum(stand)) == [name]
