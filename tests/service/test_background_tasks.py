"""A service recovers dead writers' transactions and forgets old versions by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.write import claim_checks
from catalog_ext.service.background_task import BackgroundTask
from catalog_ext.service.server import Service
from tests.kit.repair_cases import indexed, local_catalog, walked
from tests.kit.writes import crash_at, insert
from tests.unit.partitions.test_partition_commands import managed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline, "too long"
        time.sleep(0.02)


def test_dead_writers_are_finished_or_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_RECOVERY_INTERVAL", "100ms")
    with local_catalog(tmp_path) as catalog:
        root = managed(catalog)
        catalog.alterations.alter("s.t", set_={"transaction.lease": "300ms"})
        insert(catalog, "k=1")
        crash_at("promote.after", lambda: insert(catalog, "k=1", "k=2", kind=WriteKind.OVERWRITE_PARTITIONS))
        crash_at("check.after", lambda: insert(catalog, "k=3"))
        with Service(catalog):
            wait_until(lambda: {t.state for t in catalog.index.transactions.all()} == {State.FINISHED, State.ABORTED})
        assert indexed(catalog) == walked(root, 1)
        assert set(indexed(catalog)) == {"k=1", "k=2"}


def test_old_versions_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_EXT_EXPIRY_INTERVAL", "100ms")
    monkeypatch.setattr(claim_checks, "CLAIMS_KEPT_MS", -60_000)
    with local_catalog(tmp_path) as catalog:
        root = managed(catalog)
        for _ in range(3):
            insert(catalog, "k=1", kind=WriteKind.OVERWRITE_PARTITIONS)
        catalog.alterations.alter("s.t", set_={"vacuum.retention": "0s"})
        with Service(catalog):
            wait_until(lambda: [v.version for v in catalog.history("s.t")] == [catalog.load_table("s.t").version])
            wait_until(lambda: [t.version for t in catalog.list_transactions("s.t")] == [3])
        assert indexed(catalog) == walked(root, 1)


@pytest.mark.parametrize("error", [IndexUnavailableError("away"), RuntimeError("unexpected")])
def test_it_goes_on_whatever_happens(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def recover() -> None:
        calls.append(1)
        raise error

    recovery = BackgroundTask("recovery", recover, 0.01, "Dead writers could not be looked for")
    recovery.start()
    wait_until(lambda: len(calls) > 3)
    recovery.stop()
    unexpected = isinstance(error, RuntimeError)
    assert len([r for r in caplog.records if r.levelname == "ERROR"]) == int(unexpected), "once a kind"
    ended = len(calls)
    time.sleep(0.05)
    assert len(calls) == ended


def test_it_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(BackgroundTask, "_run", lambda _: looked.append(1))
    for task in ("RECOVERY", "EXPIRY"):
        monkeypatch.setenv(f"CATALOG_EXT_{task}_INTERVAL", "0")
    with local_catalog(tmp_path) as catalog, Service(catalog):
        time.sleep(0.1)
    assert looked == []
