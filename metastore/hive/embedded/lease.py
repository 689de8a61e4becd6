"""Leases that keep an embedded metastore server running, its state file, and the id of the metastore in a folder.

A lease is a connection to the server's lease port (``EmbeddedMetastore.java``). The operating system closes the
connection when the process ends, even if it is killed; the server ends after its last lease.
"""

from __future__ import annotations

import json
import socket
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.private_files import write_private
from catalog_ext.metastore.runtime.processes import forget_in_children

if TYPE_CHECKING:
    from pathlib import Path

STATE_FILE = "server.json"
_GREETING_TIMEOUT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """The contents of the state file that a running server writes into its directory."""

    id: str
    pid: int
    thrift_port: int
    lease_port: int

    @property
    def uri(self) -> str:
        """The metastore's thrift URI."""
        return f"thrift://127.0.0.1:{self.thrift_port}"


class Lease:
    """This process's lease: it keeps the server running until ``release`` or the end of this process."""

    def __init__(self, state: ServerState, connection: socket.socket) -> None:
        self.state = state
        self._connection = connection
        # A forked child must close its copy of the connection, or the server would run on after the parent has ended.
        forget_in_children(self)

    def release(self) -> bool:
        """End the lease, and return whether it was the server's last lease, so that the server ends now."""
        try:
            self._connection.sendall(b"x")
            answer = _read_line(self._connection)
        except OSError:
            answer = "last"  # the server has ended, so this was its last lease
        finally:
            self.forget()
        return answer != "shared"

    def forget(self) -> None:
        """Close this process's end of the connection. In a forked child this does not end the parent's lease."""
        self._connection.close()


def read_state(directory: Path) -> ServerState | None:
    """Return the contents of the state file in ``directory``; None if the file is missing or not readable."""
    try:
        fields = json.loads((directory / STATE_FILE).read_text(encoding="utf-8"))
        return ServerState(
            id=str(fields["id"]),
            pid=int(fields["pid"]),
            thrift_port=int(fields["thrift_port"]),
            lease_port=int(fields["lease_port"]),
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def take_lease(directory: Path) -> Lease | None:
    """Return a lease on the server of ``directory``; None if no server runs or the state file is stale."""
    state = read_state(directory)
    if state is None:
        return None
    try:
        connection = socket.create_connection(("127.0.0.1", state.lease_port), timeout=_GREETING_TIMEOUT_SECONDS)
    except OSError:
        return None
    try:
        greeting = _read_line(connection)
    except OSError:
        greeting = ""
    if greeting != state.id:  # another program has the port, or the server is ending
        connection.close()
        return None
    return Lease(state, connection)


def _read_line(connection: socket.socket) -> str:
    received = b""
    while not received.endswith(b"\n") and len(received) < 100:
        part = connection.recv(100)
        if not part:
            break
        received += part
    return received.decode("utf-8", "replace").strip()


ID_FILE = "metastore-id"


def folder_id(folder: Path) -> str | None:
    """Return the id of the metastore in a folder; None if the folder has no metastore or it was never started."""
    try:
        return (folder / ID_FILE).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def give_folder_id(folder: Path) -> None:
    """Give the metastore in a folder an id unless it has one; the caller must hold the folder's start lock."""
    if folder_id(folder) is None:
        unfinished = folder / f"{ID_FILE}.tmp"
        write_private(unfinished, uuid.uuid4().hex)
        unfinished.replace(folder / ID_FILE)
