"""Clients that ask for many rows and do not read them: what they hold, and for how long."""

from __future__ import annotations

import logging
import socket
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import sqlalchemy as sa

from catalog_ext.metastore.index.database import arrow_rows, database
from catalog_ext.service import application, rows_response
from catalog_ext.service.keepalive import HEADER
from catalog_ext.service.operations import operations_of
from catalog_ext.service.rows_response import ArrowStream
from catalog_ext.service.server import Service
from tests.kit.repair_cases import EU, catalog_of_files
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.service.messages.core import Request

SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.string())])
NUMBERS = sa.text("(WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 1000000) SELECT x FROM n)")
ROWS = sa.select(sa.literal_column("x"), sa.literal_column(f"'{'y' * 100}'").label("y")).select_from(NUMBERS)
"""A hundred megabytes, which no buffer between two processes takes."""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv") as it:
        yield it


def many_rows(catalog: Catalog, *, spills: bool) -> Callable[[Request | None], ArrowStream]:
    """The answer of an operation that has many rows of the index's, spilled or not."""

    def answer(_: Request | None) -> ArrowStream:
        rows = arrow_rows.stream(
            catalog.index._database, ROWS, SCHEMA, lambda batch: batch, lambda: None, spills=spills
        )
        return ArrowStream.of(rows)

    return answer


def service_of(catalog: Catalog, monkeypatch: pytest.MonkeyPatch, *, spills: bool) -> Service:
    answer = many_rows(catalog, spills=spills)
    monkeypatch.setattr(application, "operations_of", lambda *given: {**operations_of(*given), "tables/plan": answer})
    return Service(catalog)


def asking(service: Service, keepalive: str | None = None) -> socket.socket:
    """A client that has asked for the rows."""
    client = socket.create_connection((service.host, service.port))
    lines = [
        "POST /v1/tables/plan HTTP/1.1", f"Host: {service.host}", f"Authorization: Bearer {service.token}",
        "Content-Length: 2", *([f"{HEADER}: {keepalive}"] if keepalive else []),
    ]  # fmt: skip
    client.sendall("\r\n".join([*lines, "", "{}"]).encode())
    return client


def held(catalog: Catalog) -> int:
    """How many results are being read from the index."""
    return database.MOST_STREAMS - catalog.index._database._streams._value


def awaited(condition: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


# The time without a keepalive is far below, or far above, that in which the first rows are there.
@pytest.mark.parametrize("keepalive", [None, "0.001", "30"])
@pytest.mark.parametrize("spills", [True, False], ids=["spilled", "driver"])
def test_who_does_not_read_is_given_up(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spills: bool,
    keepalive: str | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(rows_response, "UNREAD_S", 1.0)
    with (
        caplog.at_level(logging.WARNING),
        service_of(catalog, monkeypatch, spills=spills) as service,
        closing(asking(service, keepalive)) as client,
    ):
        assert awaited(lambda: held(catalog) == 1)
        assert awaited(lambda: held(catalog) == 0)
        assert catalog.index.pool.in_use == 0
        assert awaited(lambda: "has read nothing for 1 s" in caplog.text)
        assert "/v1/tables/plan" in caplog.text
        assert "Traceback" not in caplog.text
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert awaited(lambda: not service._server.server_state.connections)
        # What it finds when it reads is no whole answer.
        client.settimeout(20)
        with pytest.raises((ConnectionError, EOFError)):
            whole(client)


def whole(client: socket.socket) -> bytes:
    parts = [b""]
    while not parts[-1].endswith(b"0\r\n\r\n"):
        parts.append(client.recv(1 << 20))
        if not parts[-1]:
            raise EOFError
    return b"".join(parts)


def test_who_reads_slowly_has_all_of_it(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_response, "UNREAD_S", 1.0)
    with service_of(catalog, monkeypatch, spills=False) as service, closing(asking(service)) as client:
        time.sleep(0.5)
        parts = [client.recv(1 << 23)]
        time.sleep(0.5)
        assert len(whole(client)) + len(parts[0]) > 100_000_000


def test_streams_leave_connections_to_others(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    assert catalog.index.pool.limit > database.MOST_STREAMS
    monkeypatch.setattr(database, "MOST_STREAMS", 2)
    monkeypatch.setattr(database, "POOL_WAIT_S", 1)
    monkeypatch.setattr(catalog.index._database, "_streams", threading.BoundedSemaphore(2))
    with service_of(catalog, monkeypatch, spills=False) as service, ExitStack() as clients:
        client = Client(service)
        first, _ = (clients.enter_context(closing(asking(service))) for _ in range(2))
        assert awaited(lambda: held(catalog) == 2)
        answer = client.call("tables/plan")
        assert (answer.status, answer.error["code"]) == (503, "CATALOG_EXT_INDEX_UNAVAILABLE")
        assert "2 results of many rows are being read from the index" in answer.error["message"]
        assert answer.error["retryable"]
        assert client.load()["name"] == "t"
        assert catalog.index.pool.in_use == 2
        first.close()
        assert awaited(lambda: held(catalog) == 1)
        with closing(asking(service)) as another:
            assert another.recv(12) == b"HTTP/1.1 200"
