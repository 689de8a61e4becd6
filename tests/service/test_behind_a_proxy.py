"""The service behind a real proxy that speaks TLS and serves it below a path of its own."""

from __future__ import annotations

import http.client
import json
import sqlite3
import ssl
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from catalog_ext.service.keepalive import HEADER
from catalog_ext.service.server import Service
from tests.kit.repair_cases import local_catalog, register, write
from tests.kit.service_client import END_MARKER
from tests.servers.certificates import Authority
from tests.servers.tls_proxy import TlsProxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog


class Stand:
    """A catalog with its service, the proxy before it, and who signed the proxy's certificate."""

    def __init__(self, folder: Path, catalog: Catalog, service: Service) -> None:
        self.catalog = catalog
        self.service = service
        self.authority = Authority(folder)
        self.proxy = TlsProxy(folder, self.authority, f"{service.host}:{service.port}")

    @contextmanager
    def ask(
        self, operation: str, body: dict[str, object] | None = None, *, prefix: str | None = None, **headers: str
    ) -> Iterator[http.client.HTTPResponse]:
        """Yields the answer, of which nothing but the head is read."""
        address = urlsplit(self.proxy.uri)
        trusting = ssl.create_default_context(cafile=str(self.authority.pem))
        connection = http.client.HTTPSConnection(str(address.netloc), timeout=30, context=trusting)
        given = {"Authorization": f"Bearer {self.service.token}", **headers}
        path = f"{address.path if prefix is None else prefix}/v1/{operation}"
        with closing(connection):
            connection.request("POST", path, json.dumps(body or {}), given)
            yield connection.getresponse()

    def call(self, operation: str, **body: object) -> dict[str, Any]:
        """The answer's body, in JSON."""
        with self.ask(operation, body) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_catalog(tmp_path) as catalog, Service(catalog) as service:
        stand = Stand(tmp_path, catalog, service)
        yield stand
        stand.proxy.stop()


def test_requests_answers_tokens_and_refusals_pass(stand: Stand) -> None:
    assert stand.call("ping")["service"] == "catalog-ext"
    # Larger than what proxies hold back by themselves.
    comment = "x" * 3_000_000
    assert stand.call("namespaces/create", namespace="wordy", properties={"comment": comment})["name"] == "wordy"
    assert stand.call("namespaces/load", namespace="wordy")["comment"] == comment
    with stand.ask("ping", Authorization="Bearer wrong") as refused:
        assert (refused.status, json.load(refused)["error"]["code"]) == (401, "CATALOG_EXT_UNAUTHORIZED")
    assert stand.call("namespaces/load", namespace="nope")["error"]["code"] == "CATALOG_EXT_NAMESPACE_NOT_FOUND"
    with stand.ask("ping", prefix="") as elsewhere:
        assert elsewhere.read() == b"", "the host is unknown, and Caddy says nothing"


def test_many_rows_come_whole(stand: Stand, tmp_path: Path) -> None:
    write(tmp_path / "t", *(f"k={k}/{'long' * 20}" for k in range(2000)))
    register(stand.catalog, tmp_path / "t", {"k": "INT"})
    stand.catalog.repair_partitions("s.t")
    table = stand.catalog.load_table("s.t")
    planned = {
        "table_id": table.table_id, "version": table.version, "predicate": None, "clauses": [], "session": None,
        "among": None, "limit": None, "bounds": [], "staleness": None, "descriptor": None,
    }  # fmt: skip
    with stand.ask("tables/plan", planned) as answer:
        assert answer.headers["X-Accel-Buffering"] == "no", "proxies that gather answers let it through"
        body = answer.read()
    assert body.endswith(END_MARKER)
    assert pa.ipc.open_stream(body).read_all().num_rows == 2000


def test_signs_of_life_pass_when_they_are_made(stand: Stand, tmp_path: Path) -> None:
    (index,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(index, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(2, other.execute, ("ROLLBACK",))
        timer.start()
        began = time.monotonic()
        try:
            with stand.ask("namespaces/create", {"namespace": "late", "properties": {}}, **{HEADER: "0.1"}) as answer:
                assert answer.read(3) == b"   "
                assert time.monotonic() - began < 2, "they are not gathered by the proxy"
                assert "error" not in json.loads(answer.read())
        finally:
            timer.join()


def test_a_service_that_is_away_is_said_by_the_proxy(stand: Stand) -> None:
    stand.service.stop()
    with stand.ask("ping") as answer:
        assert answer.status == 502
