"""Listening sockets of processes, and the answers that another user of the machine gets from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER_USER = 65534
_CALL = "80010001000000116765745f616c6c5f6461746162617365730000000100"
"""The metastore's call ``get_all_databases``, as a thrift client sends it."""

_ASK = """
import socket, sys
sent = bytes.fromhex(sys.argv[2])
with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=10) as connection:
    try:
        connection.sendall(sent)
        if sys.argv[3] == "leave":
            sys.exit(0)
        print(connection.recv(65536).hex())
    except ConnectionError:
        print("")
"""

_SLOW = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = []
for _ in range(int(sys.argv[2])):
    held.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30))
    held[-1].sendall(b"POST /v1/ping HTTP/1.1\\r\\nHost: x\\r\\nX-A: ")
print("open", flush=True)
sys.stdin.read()
"""


def listening_ports(pid: int) -> set[int]:
    """The TCP ports that a process listens on."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(descriptor)
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]
    ]
    return {int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def needs_another_user() -> None:
    """Skip the test where no process of another user can be started."""
    if os.getuid() != 0 or shutil.which("setpriv") is None or not Path("/usr/bin/python3").exists():
        pytest.skip("only root, with setpriv and the system's python3, can start a process of another user")


def answer_to_another_user(port: int, sent: bytes, *, stays: bool = True) -> bytes:
    """What another user of the machine gets for some bytes; nothing where the connection is closed.

    Args:
        port: The port on the loopback interface.
        sent: The bytes.
        stays: Whether that user waits for an answer, or closes the connection at once.
    """
    user = ["setpriv", f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups"]
    asked = subprocess.run(
        [*user, "/usr/bin/python3", "-c", _ASK, str(port), sent.hex(), "stay" if stays else "leave"],
        capture_output=True, text=True, check=True, cwd="/", timeout=30,
    )  # fmt: skip
    return bytes.fromhex(asked.stdout.strip())


@contextmanager
def slow_clients(port: int, count: int) -> Iterator[None]:
    """A process that holds connections to a port, each with half the head of a request."""
    command = [sys.executable, "-c", _SLOW, str(port), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "open\n"
            yield
        finally:
            process.stdin.close()


def thrift_call() -> bytes:
    """The metastore's call ``get_all_databases``."""
    return bytes.fromhex(_CALL)
