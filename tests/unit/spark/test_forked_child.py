"""A child that a session's process forks, as ``multiprocessing`` does: what it leaves to its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore

if TYPE_CHECKING:
    from collections.abc import Callable

PROJECT = Path(__file__).parents[3]
_SERVE = """
import http.client, os, sys, time
from catalog_ext.conf.resolved import Settings
from catalog_ext.spark import session

settings = Settings.resolve(name="lake", index=f"{sys.argv[1]}/i.db", metastore=None, warehouse=sys.argv[1])
running = session._serve(settings)
session._cancel_jobs = lambda: print("cancelled by", "the parent" if os.getpid() == parent else "the child", flush=True)
parent = os.getpid()
"""
_ENDS = """
child = os.fork()
if not child:
    sys.exit(0)
print("ended with", os.waitpid(child, 0)[1], flush=True)
print("token file:", running.token_file.exists(), flush=True)
connection = http.client.HTTPConnection(running.service.host, running.service.port)
connection.request("GET", "/health")
print("status:", connection.getresponse().status, flush=True)
"""
_LIVES_ON = """
if not os.fork():
    time.sleep(30)
    os._exit(0)
print(running.service.port, flush=True)
os._exit(0)
"""


def said(folder: Path, script: str) -> list[str]:
    """What a process of its own says that serves a catalog and does this."""
    command = [sys.executable, "-c", _SERVE + script, str(folder)]
    with (folder / "said").open("w+") as out:
        # Not a pipe, which a child that lives on would keep open.
        assert subprocess.run(command, cwd=PROJECT, stdout=out, timeout=60, check=False).returncode == 0
        out.seek(0)
        return out.read().splitlines()


@pytest.mark.slow
def test_its_end_stops_no_service_of_its_parent(tmp_path: Path) -> None:
    assert said(tmp_path, _ENDS) == ["ended with 0", "token file: True", "status: 200", "cancelled by the parent"]


@pytest.mark.slow
def test_child_does_not_wait_for_an_ended_parent(tmp_path: Path) -> None:
    (port,) = said(tmp_path, _LIVES_ON)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), timeout=5)


def in_child(work: Callable[[], bool]) -> bool:
    """Whether work is done well by a forked child, within 20 seconds."""
    child = os.fork()
    if not child:
        # Nothing of the tests' runner is to go on in it, whatever happens.
        signal.alarm(20)
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def test_it_does_not_wait_for_a_metastore_that_its_parent_starts(tmp_path: Path) -> None:
    metastore = EmbeddedMetastore(tmp_path)
    metastore._started = Future()

    def stops() -> bool:
        metastore.stop()
        return metastore._started is None

    assert in_child(stops)
    assert metastore._started is not None
    metastore._started = None
