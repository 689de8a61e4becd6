"""Leases: who is at work keeps what it has, whatever it does and whatever clocks say; what fails is tried later."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import StorageAccessDeniedError, StorageUnavailableError, TransactionStateError
from catalog_ext.metastore.index.write.transactions import IndexedTransactions
from catalog_ext.metastore.storage.store import Storage
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.kit.repair_cases import indexed, walked
from tests.kit.writes import begin, crash_at, insert
from tests.unit.partitions.test_partition_commands import equals, managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from catalog_ext.catalog import Catalog

LEASE = "300 ms"


@pytest.fixture
def root(catalog: Catalog) -> Path:
    root = managed(catalog)
    insert(catalog, "k=1", "k=2")
    catalog.alterations.alter("s.t", set_={"transaction.lease": LEASE})
    return root


def delete(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=False)


def truncate(catalog: Catalog) -> None:
    table = catalog.load_table("s.t")
    catalog.writes.delete(table.table_id, table.version, equals("k", "1"), truncate=True)


COMMANDS: dict[str, Callable[[Catalog], object]] = {
    "DELETE": delete,
    "TRUNCATE": truncate,
    "DROP PARTITION": lambda c: c.partition_commands.drop("s.t", [equals("k", "1")]),
    "RENAME PARTITION": lambda c: c.partition_commands.rename("s.t", {"k": "1"}, {"k": "7"}),
    "ADD PARTITION": lambda c: c.partition_commands.add("s.t", [({"k": "5"}, None)]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "point"), [*((statement, "check.before") for statement in COMMANDS), ("DELETE", "apply.before")]
)
def test_what_takes_longer_than_its_lease_is_not_taken_for_dead(
    catalog: Catalog, root: Path, statement: str, point: str
) -> None:
    leases: list[int] = []

    def slow(_: str) -> None:
        time.sleep(0.45)
        leases.extend(t.plan.lease_ms for t in catalog.index.transactions.all() if t.state is not State.FINISHED)
        assert catalog.recover().transactions == ()

    with armed(point, slow):
        COMMANDS[statement](catalog)
    assert leases == [300]
    assert indexed(catalog) == walked(root, 1)


@pytest.mark.slow
def test_an_unexpected_error_does_not_end_the_renewal(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole, errors = IndexedTransactions.extend_lease, [MemoryError("no room for now")]
    renewed = threading.Event()

    def extend(index: IndexedTransactions, transaction_id: str, until_ms: int, *, undoing: bool = False) -> bool:
        if errors:
            raise errors.pop()
        # For so long that a slow host does not find it over before it has looked.
        lives = whole(index, transaction_id, until_ms + 3_600_000, undoing=undoing)
        renewed.set()
        return lives

    monkeypatch.setattr(IndexedTransactions, "extend_lease", extend)

    def slow(_: str) -> None:
        assert renewed.wait(60), "the renewal has ended with the error"
        assert catalog.recover().transactions == ()

    with armed("check.before", slow):
        delete(catalog)
    assert "no room for now" in caplog.text
    assert indexed(catalog) == walked(root, 1)


@pytest.mark.slow
def test_a_recoverer_is_not_disturbed_by_another_one(catalog: Catalog, root: Path) -> None:
    crash_at("promote.before", lambda: insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS))
    time.sleep(0.4)
    others: list[int] = []

    def other(_: str) -> None:
        others.append(len(catalog.recover().transactions))

    with armed("promote.before", other):
        assert [t.action for t in catalog.recover().transactions] == [RecoveryAction.FINISHED]
    assert others == [0]
    assert indexed(catalog) == walked(root, 1)


@pytest.mark.slow
def test_what_could_not_be_recovered_is_left_alone_for_a_while(catalog: Catalog, root: Path) -> None:
    crash_at("promote.before", lambda: insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS))
    time.sleep(0.4)
    attempts: list[str] = []

    def away(point: str) -> None:
        attempts.append(point)
        raise StorageUnavailableError("later")

    with armed("promote.before", away, lasting=True):
        assert [t.action for t in catalog.recover().transactions] == [RecoveryAction.FAILED]
        assert catalog.recover().transactions == ()
        begin(catalog)
        assert len(attempts) == 1
        found = [(t.operation, t.action) for t in catalog.recover("s.t", older_than=0).transactions]
        assert found == [("INSERT", RecoveryAction.FAILED), ("INSERT", RecoveryAction.UNDONE)]
    assert RecoveryAction.FAILED not in {t.action for t in catalog.recover(older_than=0).transactions}
    assert indexed(catalog) == walked(root, 1)


def test_a_write_leaves_alone_what_another_one_recovers(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin(catalog)
    assert catalog.index.transactions.extend_lease(first.transaction_id, 1)
    with monkeypatch.context() as patched:
        patched.setattr(IndexedTransactions, "claim_recovery", lambda *_: False)
        begin(catalog)
        assert catalog.index.transactions.load(first.transaction_id).state is State.OPEN
    begin(catalog)
    assert catalog.index.transactions.load(first.transaction_id).state is State.ABORTED


def test_recovery_without_write_access_undoes_nothing(catalog: Catalog, root: Path) -> None:
    crash_at("promote.before", lambda: insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS))

    def denied(_: str) -> None:
        raise StorageAccessDeniedError("this role reads only")

    with armed("promote.file", denied):
        assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FAILED]
    assert [t.action for t in catalog.recover(older_than=0).transactions] == [RecoveryAction.FINISHED]


@pytest.mark.slow
def test_host_with_a_clock_ahead_takes_no_writer_for_dead(
    catalog: Catalog, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = begin(catalog)
    ahead = time.time_ns() + 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: ahead)
    monkeypatch.setattr(time, "time", lambda: ahead / 10**9)
    assert catalog.recover().transactions == ()
    catalog.writes.transactions.heartbeat(begun.transaction_id)
    monkeypatch.undo()
    # Nor is what such a host writes kept for an hour after it has died.
    time.sleep(0.4)
    assert [t.action for t in catalog.recover().transactions] == [RecoveryAction.UNDONE]


def test_an_owner_that_was_undone_hears_it_at_its_next_keepalive(catalog: Catalog, root: Path) -> None:
    begun = begin(catalog)
    catalog.index.transactions.move(begun.transaction_id, (State.OPEN,), State.ABORTING, error="another process did it")
    with pytest.raises(TransactionStateError, match="another process did it"):
        catalog.writes.transactions.heartbeat(begun.transaction_id)


def test_no_thread_is_left(catalog: Catalog, root: Path) -> None:
    delete(catalog)
    assert not [t.name for t in threading.enumerate() if t.name.startswith("catalog-ext-lease")]


def test_many_partitions_are_listed_together(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    root = managed(catalog, keys={"k": "int", "r": "string"})
    names = [f"k={k}/r={r}" for k in range(4) for r in range(40)]
    insert(catalog, *names)
    (root / "k=1" / "r=7" / "_SUCCESS").touch()
    (root / "k=2" / "r=7" / "by_hive").touch()
    listed: list[str] = []
    whole = Storage.list_directory

    def counted(storage: Storage, location: object) -> object:
        listed.append(str(location))
        return whole(storage, location)  # type: ignore[arg-type]

    monkeypatch.setattr(Storage, "list_directory", counted)
    catalog.partition_commands.drop("s.t", [equals("k", "1"), equals("k", "2")])
    assert listed == []
    assert set(indexed(catalog)) == {n for n in names if n.startswith(("k=0", "k=3"))}
    assert not (root / "k=1").exists()
    assert not (root / "k=2").exists()
    catalog.partition_commands.drop("s.t", [equals("r", "7")])
    assert len(listed) == 2, "a few are listed one by one"
