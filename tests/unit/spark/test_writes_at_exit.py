"""Writes that are open when a session's process ends: they are undone before its service is gone."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.service.server import Service
from catalog_ext.spark import session
from tests.kit.repair_cases import EU, US, catalog_of_files
from tests.kit.service_client import Client
from tests.service.test_writes import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv", f"{US}/1.csv") as it:
        yield it


class Driver:
    """A driver's JVM, whose job ends a second after it was cancelled, and whose write is undone then.

    Attributes:
        cancelled: How often its jobs were cancelled.
    """

    def __init__(self, client: Client, write: dict[str, Any], *, ends: bool = True) -> None:
        self.cancelled = 0
        self._client = client
        self._write = write
        self._ends = ends

    def cancel(self) -> bool:
        self.cancelled += 1
        if self.cancelled == 1 and self._ends:
            threading.Timer(1, self._abort).start()
        return True

    def _abort(self) -> None:
        self._client.call("writes/abort", transaction=self._write["transaction"], reason="cancelled")


@pytest.fixture
def running(catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    service = Service(catalog).start()
    (tmp_path / "token").touch()
    monkeypatch.setattr(session, "_running", {"lake": session._Running(catalog, service, tmp_path / "token")})
    yield service
    service.stop()


@pytest.mark.slow
def test_a_write_that_is_cancelled_is_undone(
    catalog: Catalog, running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(running)
    writer = Writer(client, tmp_path / "t")
    begun = writer.begun()
    file = writer.stage(begun, EU)
    assert list((tmp_path / "t").rglob(file["name"]))
    driver = Driver(client, begun)
    monkeypatch.setattr(session, "_cancel_jobs", driver.cancel)
    session._stop_all()
    # The catalog is closed by now, and opens its index again.
    assert catalog.index.transactions.state_of(begun["transaction"]) is State.ABORTED
    assert not list((tmp_path / "t").rglob(file["name"]))
    assert not (tmp_path / "token").exists()


@pytest.mark.slow
def test_one_that_does_not_end_is_not_waited_for_for_ever(
    catalog: Catalog,
    running: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = Writer(Client(running), tmp_path / "t").begun()
    driver = Driver(Client(running), begun, ends=False)
    monkeypatch.setattr(session, "_cancel_jobs", driver.cancel)
    monkeypatch.setattr(session, "_EXIT_DRAIN_S", 2)
    monkeypatch.setattr(session, "_CANCEL_AGAIN_S", 0.5)
    started = time.monotonic()
    session._stop_all()
    assert 2 < time.monotonic() - started < 20
    assert driver.cancelled > 2, "a job that began after the first time is cancelled, too"
    assert "Writes that do not end are left open" in caplog.text
    assert catalog.index.transactions.state_of(begun["transaction"]) is State.OPEN


def test_what_has_ended_is_not_waited_for(
    catalog: Catalog, running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(running)
    writer = Writer(client, tmp_path / "t")
    writer.write("append", EU)
    first, second = (writer.begun("overwrite_partitions") for _ in range(2))
    assert writer.commit(first, writer.stage(first, EU)).status == 200
    assert writer.commit(second, writer.stage(second, EU)).status == 409
    aborted, recovered = writer.begun(), writer.begun()
    assert client.call("writes/abort", transaction=aborted["transaction"], reason="x").status == 200
    # By another process, as a dead writer's.
    catalog.writes.transactions.abort(recovered["transaction"], "x")
    driver = Driver(client, recovered, ends=False)
    monkeypatch.setattr(session, "_cancel_jobs", driver.cancel)
    started = time.monotonic()
    session._stop_all()
    assert time.monotonic() - started < 10
    assert driver.cancelled == 1


def test_exit_without_a_driver_does_not_wait(running: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Writer(Client(running), tmp_path / "t").begun()
    monkeypatch.setattr(session, "_cancel_jobs", lambda: False)
    started = time.monotonic()
    session._stop_all()
    assert time.monotonic() - started < 10
