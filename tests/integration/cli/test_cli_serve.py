"""``catalog-ext serve`` as a process of its own: what it prints and logs, its token file, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.integration.waiting import until
from tests.kit.repair_cases import EU, catalog_of_files
from tests.kit.service_client import Client
from tests.service.test_writes import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Serve = Callable[..., tuple[subprocess.Popen[str], dict[str, Any]]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts services on free ports, all on one index and one token file; killed at the end unless they have ended."""
    processes: list[subprocess.Popen[str]] = []

    def start(*options: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
        command = [sys.executable, "-m", "catalog_ext.cli.main", "--metastore", "none", "serve", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--token-file", str(tmp_path / "token"), "--json", *options],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        return process, json.loads(process.stdout.readline())

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def _call(uri: str, token: str, operation: str = "ping", **body: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{uri}/v1/{operation}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


def test_only_the_warehouse_is_served_unless_a_setting_says_more(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_text("1\n", encoding="ascii")
    (tmp_path / "spark-warehouse").mkdir()

    def statuses(uri: str) -> dict[str, int]:
        found, token = {}, (tmp_path / "token").read_text().strip()
        for place in ("spark-warehouse", "elsewhere", ".catalog-ext", "token"):
            try:
                _call(uri, token, "namespaces/create", **_namespace(tmp_path / place))
            except urllib.error.HTTPError as error:
                found[place] = error.code
            else:
                found[place] = 200
        return found

    _, printed = serve()
    assert statuses(printed["uri"]) == {"spark-warehouse": 200, "elsewhere": 403, ".catalog-ext": 403, "token": 403}
    monkeypatch.setenv("CATALOG_EXT_STORAGE_ALLOW", str(tmp_path))
    _, printed = serve()
    assert statuses(printed["uri"])["elsewhere"] == 200
    assert {statuses(printed["uri"])[place] for place in (".catalog-ext", "token")} == {403}


def _namespace(location: Path) -> dict[str, Any]:
    return {"namespace": f"n{uuid.uuid4().hex[:8]}", "properties": {"location": str(location)}}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(serve: Serve, tmp_path: Path, how: signal.Signals) -> None:
    process, printed = serve()
    token_file = tmp_path / "token"
    token = token_file.read_text().strip()
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    assert _call(printed["uri"], token)["service"] == "catalog-ext"
    assert printed["page"] == f"{printed['uri']}/ui/"
    with urllib.request.urlopen(printed["page"], timeout=10) as answer:
        assert (answer.url, "<h1>Sign in</h1>" in answer.read().decode()) == (f"{printed['page']}sign-in", True)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        _call(printed["uri"], "wrong")
    spark = printed["spark"]
    assert spark["spark.sql.catalog.lake.uri"] == printed["uri"]
    assert spark["spark.sql.catalog.lake.token-file"] == str(token_file)
    assert spark["spark.jars"].endswith(".jar")
    assert token not in json.dumps(printed)
    process.send_signal(how)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    *_, started, stopping, stopped = errors.splitlines()
    assert re.match(
        r"\d{4}-\d\d-\d\d [\d:,]+ INFO catalog_ext\.cli\.serve: Process \d+ serves the catalog lake", started
    )
    assert "The service stops" in stopping
    assert stopped == "stopped"


def test_the_settings_name_the_token_file_of_readers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "catalog_ext.cli.main", "--metastore", "none", "serve", "--port", "0"]
    with subprocess.Popen(
        [*command, "--token-file", "token", "--read-token-file", "read.token"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("# the page is at "):
            lines.append(process.stdout.readline())
        process.terminate()
    reads, page = (line.strip() for line in lines[-2:])
    assert reads == f"# a session that only reads: spark.sql.catalog.lake.token-file  {tmp_path / 'read.token'}"
    assert page.startswith("# the page is at ")


def test_two_services_of_one_index_and_one_token_file(serve: Serve, tmp_path: Path) -> None:
    _, first = serve()
    token = (tmp_path / "token").read_text().strip()
    (tmp_path / "token").chmod(0o640)
    second, printed = serve("--log-level", "debug")
    assert (tmp_path / "token").read_text().strip() == token
    _call(first["uri"], token, "namespaces/create", namespace="sales", properties={})
    assert "sales" in _call(printed["uri"], token, "namespaces/list")["namespaces"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        _call(printed["uri"], token, "namespaces/load", namespace="nope")
    second.terminate()
    _, errors = second.communicate(timeout=30)
    assert "WARNING" in errors
    assert f"chmod 600 {tmp_path / 'token'}" in errors
    assert re.search(r"DEBUG .*: namespaces/list took \d+ ms", errors)
    assert re.search(r"DEBUG .*: namespaces/load was refused with CATALOG_EXT_NAMESPACE_NOT_FOUND", errors)
    assert token not in errors


def test_a_log_of_json_has_a_line_for_each_commit_and_no_secret(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalog_of_files(tmp_path, tmp_path / "t", f"{EU}/1.csv"):
        pass
    monkeypatch.setenv("CATALOG_EXT_INDEX", str(tmp_path / "index.db"))
    monkeypatch.setenv("CATALOG_EXT_LOG_FORMAT", "json")
    monkeypatch.setenv("CATALOG_EXT_STORAGE", "endpoint=http://127.0.0.1:9 access_key=ada secret_key=hidden-secret")
    process, printed = serve("--metrics-token-file", str(tmp_path / "metrics"), "--log-level", "debug")
    tokens = [(tmp_path / name).read_text().strip() for name in ("token", "metrics")]
    client = Client(SimpleNamespace(uri=printed["uri"], token=tokens[0]))  # type: ignore[arg-type]
    client.user = "ada"
    made = Writer(client, tmp_path / "t").write("append", EU)
    assert client.call("tables/load", namespace="s", name="nosuch").status == 404
    for path, token, status in (("/metrics", tokens[1], 200), ("/v1/ping", tokens[1], 401), ("/ready", None, 200)):
        method = "POST" if path.startswith("/v1") else "GET"
        assert client.send(path, method=method, token=token).status == status
    process.terminate()
    _, errors = process.communicate(timeout=30)
    lines = [json.loads(line) for line in errors.splitlines()]
    assert all({"time", "level", "logger", "message"} <= set(line) for line in lines)
    (commit,) = [line for line in lines if line.get("operation") == "INSERT"]
    assert (commit["table"], commit["version"], commit["rows"], commit["user"]) == ("s.t", made["version"], 1, "ada")
    assert isinstance(commit["duration_ms"], int)
    assert "traceparent" not in commit
    assert not [secret for secret in (*tokens, "hidden-secret") if secret in errors]


def test_what_is_under_way_is_answered_before_it_ends(serve: Serve, tmp_path: Path) -> None:
    process, printed = serve()
    token = (tmp_path / "token").read_text().strip()
    address = (urlsplit(printed["uri"]).hostname, urlsplit(printed["uri"]).port)
    with socket.create_connection(address, timeout=30) as client:
        head = f"POST /v1/ping HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 2\r\n"
        client.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        # The service has begun with the request when it asks for the body.
        assert client.recv(1000).startswith(b"HTTP/1.1 100")
        process.terminate()
        until(lambda: _refuses(address), "refusing new requests")
        client.sendall(b"{}")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    process.communicate(timeout=30)
    assert process.returncode == 0


def _refuses(address: tuple[Any, Any]) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_page_can_be_left_away(serve: Serve) -> None:
    _, printed = serve("--no-page")
    assert printed["page"] is None
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{printed['uri']}/ui/", timeout=10)
