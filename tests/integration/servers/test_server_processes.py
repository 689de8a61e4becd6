"""Servers that we start for others end with us."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from catalog_ext.metastore.errors import EnvironmentSetupError
from tests.servers.processes import ServerProcess, free_ports

PROJECT = Path(__file__).parents[3]
OWNER = """
import pathlib, signal, sys, time
from tests.servers.processes import ServerProcess
command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", sys.argv[1]]
ServerProcess("a server", command, pathlib.Path(sys.argv[2]), stop_signal=15)
print("started", flush=True)
time.sleep(60)
"""


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def becomes(port: int, expected: bool, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while answers(port) is not expected and time.monotonic() < deadline:
        time.sleep(0.02)
    return answers(port) is expected


def test_a_killed_owner_takes_its_server_along(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(port), str(tmp_path / "log")], cwd=PROJECT, stdout=subprocess.PIPE
    ) as owner:
        assert becomes(port, True)
        owner.kill()
    assert becomes(port, False)


def test_stop_kills_a_server_that_does_not_listen_to_signals(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    stubborn = (
        "import signal, socket, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"s = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    )
    server = ServerProcess(
        "a stubborn server",
        [sys.executable, "-c", stubborn],
        tmp_path / "log",
        stop_signal=signal.SIGTERM,
        grace_seconds=0.3,
    )
    server.wait_until(lambda: None if answers(port) else "no answer", 15)
    server.stop()
    assert not answers(port)


@pytest.mark.parametrize(
    ("program", "happened"),
    [
        ("raise SystemExit('bad luck')", "ended with status 1"),
        ("import time; print('bad luck', flush=True); time.sleep(60)", "was not ready within 1 s"),
    ],
)
def test_a_server_that_does_not_come_up_is_named_with_its_log(tmp_path: Path, program: str, happened: str) -> None:
    server = ServerProcess(
        "a failing server", [sys.executable, "-c", program], tmp_path / "log", stop_signal=signal.SIGTERM
    )
    with pytest.raises(EnvironmentSetupError, match=f"a failing server {happened}: no answer") as caught:
        server.wait_until(lambda: "no answer", 1)
    assert "bad luck" in str(caught.value)
