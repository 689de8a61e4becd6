"""Clients that do not finish their requests: what they hold, for how long, and who is served meanwhile."""

from __future__ import annotations

import http.client
import resource
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.service import connections
from catalog_ext.service.server import Service
from tests.kit.repair_cases import EU, catalog_of_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_A_HEAD = b"POST /v1/ping HTTP/1.1\r\nHost: x\r\nX-A: "
HEAD_ALONE = b"POST /page/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
WITHOUT_TOKEN = b"POST /v1/ping HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
SLOW_S = 0.3

_FEW_FILES = """
import resource, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
from catalog_ext.catalog import connect
from catalog_ext.service.server import Service
with connect(index=sys.argv[1], metastore=None, warehouse=sys.argv[2]) as catalog:
    with Service(catalog, token="t" * 40) as service:
        print(service.port, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv") as it:
        yield it


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time that a test can wait for."""
    waits = connections._Waits
    monkeypatch.setattr(waits.HEAD, "_value_", SLOW_S)
    monkeypatch.setattr(waits.BODY, "_value_", 2 * SLOW_S)
    monkeypatch.setattr(waits.READER, "_value_", SLOW_S)


def connected(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(sent)
    return client


def is_closed(client: socket.socket, within_s: float) -> bool:
    """Whether the service closes a connection in time; an answer may come before."""
    deadline = time.monotonic() + within_s
    try:
        while (left := deadline - time.monotonic()) > 0:
            client.settimeout(left)
            if not client.recv(65536):
                return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return False


def ask(port: int, token: str, timeout_s: float = 10) -> tuple[int, float]:
    """The status of a call on a new connection, and the seconds that it took."""
    began = time.monotonic()
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)) as client:
        client.request("POST", "/v1/namespaces/list", "{}", {"Authorization": f"Bearer {token}"})
        answer = client.getresponse()
        answer.read()
        return answer.status, time.monotonic() - began


def metrics(service: Service) -> dict[str, float]:
    with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=10)) as client:
        client.request("GET", "/metrics", headers={"Authorization": f"Bearer {service.token}"})
        lines = client.getresponse().read().decode().splitlines()
    rows = (line.rpartition(" ") for line in lines if line.startswith("catalog_ext_connections"))
    return {name: float(value) for name, _, value in rows}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("first", "sent"),
    [(b"", b""), (b"", HALF_A_HEAD), (HEALTH, HALF_A_HEAD), (b"", HEAD_ALONE)],
    ids=["nothing", "half a head", "half of a second head", "no body"],
)  # fmt: skip
def test_connection_without_a_whole_request_is_closed(catalog: Catalog, first: bytes, sent: bytes) -> None:
    with Service(catalog, page=True) as service, closing(connected(service.port, first)) as client:
        assert not first or client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(sent)
        assert is_closed(client, 5)
        assert metrics(service)['catalog_ext_connections_closed_total{reason="slow"}'] == 1


@pytest.mark.usefixtures("impatient")
def test_head_that_comes_byte_by_byte_is_not_waited_for(catalog: Catalog) -> None:
    """uvicorn's own limit of time begins anew with every byte."""
    with Service(catalog) as service, closing(connected(service.port, HALF_A_HEAD)) as client:
        began = time.monotonic()
        while not is_closed(client, 0.05):
            assert time.monotonic() - began < 5
            with suppress(ConnectionError):
                client.sendall(b"x")
        assert time.monotonic() - began >= SLOW_S - 0.1


@pytest.mark.usefixtures("impatient")
def test_connection_between_two_requests_is_kept(catalog: Catalog) -> None:
    with Service(catalog) as service, closing(http.client.HTTPConnection("127.0.0.1", service.port)) as client:
        for _ in range(2):
            client.request("GET", "/health")
            assert client.getresponse().read() == b'{"status":"ok"}'
            time.sleep(2 * SLOW_S)
        assert client.sock is not None, "http.client would have opened another"


def test_crowd_makes_room_for_new_connections(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections and half requests go first, the oldest before others."""
    monkeypatch.setattr(connections, "_MOST", 5)
    monkeypatch.setattr(connections, "_LEAST", 5)
    with Service(catalog) as service, ExitStack() as stack:
        idle = stack.enter_context(closing(connected(service.port, HEALTH)))
        assert idle.recv(4096)
        slow = [stack.enter_context(closing(connected(service.port, HALF_A_HEAD))) for _ in range(12)]
        assert ask(service.port, service.token)[0] == 200
        assert all(is_closed(each, 5) for each in slow[:7])
        seen = metrics(service)
        assert seen["catalog_ext_connections"] <= 5
        assert seen["catalog_ext_connections_limit"] == 5
        assert seen['catalog_ext_connections_closed_total{reason="crowded"}'] >= 8


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01 TLS\r\n\r\n", HEALTH[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"]
)
def test_client_without_token_writes_no_line_of_the_log(
    catalog: Catalog, capsys: pytest.CaptureFixture[str], sent: bytes
) -> None:
    """Such requests in a row would fill the log's disk."""
    with Service(catalog) as service:
        for _ in range(3):
            with closing(connected(service.port, sent)) as client:
                assert client.recv(4096).startswith((b"HTTP/1.1 400", b"HTTP/1.1 200"))
    assert capsys.readouterr().err == ""


def small_buffers(service: Service) -> Service:
    """The service; the system keeps little of what its clients do not read."""
    service._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return service


def unread(port: int, request: bytes) -> socket.socket:
    """A client that sends requests in a row until their answers fill every buffer, and reads none of them."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", port))
    client.settimeout(0.1)
    with suppress(TimeoutError):
        client.sendall(request * 3000)
    return client


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("request_", [HEALTH, WITHOUT_TOKEN], ids=["health", "refused"])
def test_client_without_token_that_reads_no_answer_is_closed(catalog: Catalog, request_: bytes) -> None:
    closed = 'catalog_ext_connections_closed_total{reason="slow"}'
    with small_buffers(Service(catalog)) as service, closing(unread(service.port, request_)):
        deadline = time.monotonic() + 10
        while metrics(service)[closed] != 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_clients_that_read_no_answer_make_room(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_ARRIVES_S", 0.0)
    with small_buffers(Service(catalog)) as service, ExitStack() as stack:
        service._connections.limit = 2
        for _ in range(2):
            stack.enter_context(closing(unread(service.port, HEALTH)))
        deadline = time.monotonic() + 10
        while [each.flow.write_paused for each in list(service._connections._open)] != [True, True]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ask(service.port, service.token)[0] == 200


@pytest.mark.slow
def test_service_with_few_files_answers_under_two_thousand_clients(tmp_path: Path) -> None:
    """The process may open 1,024 files: SQLite has to get its own, whatever the clients hold."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("this process may not open 2,000 connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    arguments = [sys.executable, "-c", _FEW_FILES, str(tmp_path / "index.db"), str(tmp_path)]
    process = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        with process, ExitStack() as stack:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            for count in range(2000):
                stack.enter_context(closing(connected(port, HALF_A_HEAD)))
                if count % 400 == 399:
                    status, took_s = ask(port, "t" * 40)
                    assert status == 200, "the index was asked, which needs files"
                    assert took_s < 3
            assert process.stdin is not None
            process.stdin.close()
    finally:
        process.kill()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
