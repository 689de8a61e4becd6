"""Calls of one kind that take long, and those of the others meanwhile."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from catalog_ext.service import application
from catalog_ext.service.operations import operations_of
from catalog_ext.service.server import Service
from catalog_ext.service.threads import KINDS, THREADS, Kind
from tests.kit.repair_cases import EU, US, catalog_of_files
from tests.kit.service_client import Client
from tests.service.test_writes import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request

MANY = 45
"""More than there are of any kind, and more than the threads that asyncio's libraries share by themselves."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv", f"{US}/1.csv") as it:
        yield it


class Held:
    """An operation that answers when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.begun = 0

    def __call__(self, request: Request) -> dict[str, Any]:
        self.begun += 1
        assert self.let_go.wait(60)
        return {}


def gauges(client: Client, name: str) -> dict[str, float]:
    text = client.send("/metrics", b"", method="GET").body.decode()
    family = next(f for f in text_string_to_metric_families(text) if f.name == f"catalog_ext_{name}")
    return {sample.labels["kind"]: sample.value for sample in family.samples}


def test_every_operation_is_of_a_kind(catalog: Catalog) -> None:
    assert set(KINDS) == set(operations_of(catalog))
    assert set(THREADS) == set(Kind)


@pytest.mark.parametrize("busy", ["procedures/call", "writes/commit", "paths/plan"])
def test_loads_plans_and_heartbeats_are_answered_during_long_calls(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    held = Held()
    monkeypatch.setattr(application, "operations_of", lambda *given: {**operations_of(*given), busy: held})
    limit = THREADS[KINDS[busy]]
    with Service(catalog) as service:
        client = Client(service)
        begun = Writer(client, tmp_path / "t").begun()
        calls = [threading.Thread(target=client.call, args=(busy,)) for _ in range(MANY)]
        try:
            for call in calls:
                call.start()
            deadline = time.monotonic() + 20
            while gauges(client, "calls_waiting")[KINDS[busy]] < MANY - limit and time.monotonic() < deadline:
                time.sleep(0.02)
            assert held.begun == gauges(client, "threads_in_use")[KINDS[busy]] == limit
            assert gauges(client, "calls_waiting")[KINDS[busy]] == MANY - limit
            assert gauges(client, "threads_limit") == THREADS

            started = time.monotonic()
            table = client.load()
            plan: dict[str, Any] = {"predicate": None, "among": None, "limit": None, "bounds": [], "staleness": None}
            assert len(client.call("tables/plan", table_id=table["table_id"], version=1, **plan).rows) == 2
            assert client.call("writes/heartbeat", transaction=begun["transaction"]).status == 200
            assert time.monotonic() - started < 5
        finally:
            held.let_go.set()
            for call in calls:
                call.join()
        assert held.begun == MANY
        assert set(gauges(client, "calls_waiting").values()) == {0}
