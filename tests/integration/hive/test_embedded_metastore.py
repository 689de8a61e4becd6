"""The embedded metastore lives exactly as long as a process uses it, whatever happens to its users."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hmsclient.genthrift.hive_metastore.ttypes import Database
from hmsclient.hmsclient import HMSClient

from catalog_ext.metastore.errors import EnvironmentSetupError, MetastoreUnavailableError
from catalog_ext.metastore.hive.embedded import embedded_metastore
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.hive.embedded.lease import read_state, take_lease
from catalog_ext.metastore.runtime.processes import share_processor
from tests.integration.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.metastore.hive.embedded.lease import Lease

PROJECT = Path(__file__).parents[3]
OWNER = """
import os, pathlib, sys, time
from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
server = EmbeddedMetastore(pathlib.Path(sys.argv[1]))
server.start_in_background()
if sys.argv[2] == "starting":
    while server._process is None:
        time.sleep(0.01)
    print(server._process.pid, flush=True)
else:
    uri = server.start()
    # The child is there before the test goes on.
    if sys.argv[2] == "forked" and os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    print(uri, flush=True)
sys.stdin.read()
server.stop()
"""


class Owner:
    """Another process that uses the metastore of ``directory``; ``said`` is the first line that it printed."""

    def __init__(self, directory: Path, mode: str = "started") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(directory), mode],
            cwd=PROJECT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self._close()

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._close()

    def _close(self) -> None:
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One directory for all tests, so that the tables of the metastore's own database are made once."""
    return tmp_path_factory.mktemp("embedded")


@pytest.fixture
def kill_later() -> Iterator[list[int]]:
    """Processes that end with the test, if they have not before."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if runs(pid):
            os.kill(pid, signal.SIGKILL)


def databases(uri: str) -> list[str]:
    host, _, port = uri.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client:
        return client.get_all_databases()


def runs(pid: int) -> bool:
    """Whether the process is there; one that has ended and only waits to be asked how does not count."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def ends(pid: int, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not runs(pid)


def server_pid(directory: Path) -> int:
    state = read_state(directory)
    assert state is not None
    return state.pid


def test_server_in_the_background_has_a_lower_priority(directory: Path) -> None:
    with EmbeddedMetastore(directory, niceness=7):
        threads = [int(thread.name) for thread in Path(f"/proc/{server_pid(directory)}/task").iterdir()]
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {min(own + 7, 19)}


@pytest.mark.parametrize("upto", ["it answers", "it takes long", "a client waits"])
def test_its_session_has_the_least_share(upto: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    least, full = ("nice 19", "nice 0") if sessions_divide_the_processor() else ("", "")
    shares: list[str] = []
    answers = threading.Event()

    def lease(folder: Path) -> Lease | None:
        if server._process is not None:
            shares.append(share(server._process.pid))
        return take_lease(folder) if answers.is_set() else None

    monkeypatch.setattr(embedded_metastore, "take_lease", lease)
    monkeypatch.setattr(embedded_metastore, "_OTHERS_FIRST_S", 2.0 if upto == "it takes long" else 600.0)
    server = EmbeddedMetastore(directory, niceness=7)
    try:
        server.start_in_background()
        until(lambda: len(shares) > 5, "the launch")
        assert set(shares) == {least}
        if upto == "it answers":
            share_processor(server_process(server), 1)  # or a busy machine would not let it start in time
            answers.set()
        elif upto == "a client waits":
            with pytest.raises(MetastoreUnavailableError, match="not ready"):
                server.uri(timeout=0.3)
        until(lambda: share(server_process(server)) == full, "its full share")
        assert upto == "it answers" or not server.settled
        answers.set()
        assert "default" in databases(server.uri())
    finally:
        answers.set()
        server.stop()


def server_process(server: EmbeddedMetastore) -> int:
    assert server._process is not None
    return server._process.pid


def sessions_divide_the_processor() -> bool:
    """Ask one that is new: this process may be in a session of before Linux began to, or in none."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            return bool(share(process.pid))
        finally:
            process.kill()


def share(pid: int) -> str:
    """What a session has of the processor; nothing where it is not divided among sessions."""
    of_linux = Path(f"/proc/{pid}/autogroup")
    return of_linux.read_text(encoding="ascii").strip().partition(" ")[2] if of_linux.exists() else ""


def test_start_in_background_then_stop(directory: Path) -> None:
    server = EmbeddedMetastore(directory)
    before = time.monotonic()
    server.start_in_background()
    assert time.monotonic() - before < 1.0
    uri = server.uri()
    assert "default" in databases(uri)
    with HMSClient(host="127.0.0.1", port=int(uri.rpartition(":")[2])) as client:
        client.create_database(Database("kept", "", "s3a://bucket/warehouse/kept.db", {"owner": "us"}))
    with pytest.raises(ConnectionRefusedError):  # 127.0.0.1 and nothing else, though this too is this machine
        socket.create_connection(("127.0.0.2", int(uri.rpartition(":")[2])))
    pid = server_pid(directory)
    server.stop()
    assert not runs(pid)
    assert read_state(directory) is None


def test_killed_owner_takes_the_server_along(directory: Path, kill_later: list[int]) -> None:
    owner = Owner(directory)
    assert "default" in databases(owner.said)
    pid = server_pid(directory)
    kill_later.append(pid)
    owner.kill()
    assert ends(pid)


def test_a_forked_child_does_not_keep_the_server(directory: Path, kill_later: list[int]) -> None:
    owner = Owner(directory, "forked")
    pid = server_pid(directory)
    kill_later.append(pid)
    owner.kill()
    assert ends(pid)
    os.killpg(owner.process.pid, signal.SIGKILL)


def test_owner_killed_while_starting(directory: Path, kill_later: list[int]) -> None:
    owner = Owner(directory, "starting")
    pid = int(owner.said)
    kill_later.append(pid)
    assert runs(pid)
    owner.kill()
    assert ends(pid)


def test_the_last_of_several_users_ends_it(directory: Path, kill_later: list[int]) -> None:
    owner = Owner(directory)
    with EmbeddedMetastore(directory) as second:
        pid = server_pid(directory)
        kill_later.append(pid)
        assert second.uri() == owner.said
        owner.kill()
        third = Owner(directory)
        assert third.said == second.uri()
        third.leave()
        assert "default" in databases(second.uri())
    assert ends(pid)


def test_a_stale_state_is_recognised_and_nothing_is_lost(directory: Path, tmp_path: Path) -> None:
    owner = Owner(directory)
    host, _, port = owner.said.removeprefix("thrift://").partition(":")
    with HMSClient(host=host, port=int(port)) as client:
        client.create_database(Database("still_there", "", "s3a://bucket/warehouse/still_there.db", {}))
    pid = server_pid(directory)
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    stale = read_state(directory)
    assert stale is not None
    with EmbeddedMetastore(directory) as server:
        fresh = read_state(directory)
        assert fresh is not None
        assert fresh.id != stale.id
        assert "still_there" in databases(server.uri())
    owner.leave()


def test_a_server_that_cannot_start_says_why(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = EmbeddedMetastore(directory, port=taken.getsockname()[1])
        with pytest.raises(MetastoreUnavailableError, match="in use") as caught:
            server.start()
        server.stop()
    assert str(server.log_file) in str(caught.value)


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    server = EmbeddedMetastore(file / "below")
    with pytest.raises(EnvironmentSetupError, match="cannot use its directory"):
        server.start()
    server.stop()
