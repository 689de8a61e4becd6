"""Server processes that end with their owner: started, watched until they answer, and always stopped.

Each server runs under a small guard, a Python process that waits on a pipe from the owner. When the owner closes the
pipe, exits or is killed, the guard kills the server's whole process group.
"""

from __future__ import annotations

import atexit
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from catalog_ext.metastore.errors import EnvironmentSetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

_TAIL_LINES = 15
_STOP_TIMEOUT_SECONDS = 20.0

# argv: the signal that asks for an end, seconds until SIGKILL, user id or "", the command. Standard library only, so
# that it can run with -I -S and start in 20 ms.
_GUARD = """
import os, signal, subprocess, sys, threading
asks, grace, user, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
identity = dict(user=int(user), group=int(user), extra_groups=[]) if user else {}
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
server = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, restore_signals=True,
                          preexec_fn=lambda: [signal.signal(s, signal.SIG_DFL)
                                              for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)], **identity)
def send(what):
    try:
        os.killpg(server.pid, what)
    except ProcessLookupError:
        pass
def end_with_owner():
    while os.read(0, 1):
        pass
    send(asks)
    threading.Timer(grace, send, [signal.SIGKILL]).start()
threading.Thread(target=end_with_owner, daemon=True).start()
status = server.wait()
send(signal.SIGKILL)
os._exit(status if status >= 0 else 128 - status)
"""


class ServerProcess:
    """A server that runs until ``stop``, or until the process that made it is gone.

    Args:
        name: What it is called in messages.
        command: The program and its arguments.
        log_file: Receives what the server prints.
        stop_signal: Asks the server to end; SIGKILL follows after ``grace_seconds``.
        user_id: The user that the server runs as, where that is not the owner's.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        *,
        stop_signal: int,
        grace_seconds: float = 10.0,
        environment: Mapping[str, str] | None = None,
        user_id: int | None = None,
    ) -> None:
        self.name = name
        self.log_file = log_file
        user = "" if user_id is None else str(user_id)
        guard = [sys.executable, "-I", "-S", "-c", _GUARD, str(int(stop_signal)), str(grace_seconds), user]
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if environment is None else dict(environment),
                cwd=log_file.parent,
                start_new_session=True,
            )
        atexit.register(self.stop)

    def wait_until(self, missing: Callable[[], str | None], timeout: float) -> None:
        """The server is ready when this returns: ``missing``, which says what is missing still, said None.

        Raises:
            EnvironmentSetupError: it ended, or was not ready within ``timeout`` seconds; it is stopped by then.
        """
        deadline = time.monotonic() + timeout
        while (reason := missing()) is not None:
            status = self._process.poll()
            if status is None and time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            happened = f"was not ready within {timeout:g} s" if status is None else f"ended with status {status}"
            self.stop()
            raise EnvironmentSetupError(
                f"{self.name} {happened}: {reason}. Its log {self.log_file} ends with:\n{self._tail()}",
                {"server": self.name, "log": str(self.log_file)},
            )

    def wait(self, timeout: float) -> int:
        """The status that the server has ended with by itself; of one that a signal killed, minus its number."""
        status = self._process.wait(timeout)
        return 128 - status if status > 128 else status

    def stop(self) -> None:
        """The server and its children are gone when this returns."""
        atexit.unregister(self.stop)
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _tail(self) -> str:
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-_TAIL_LINES:])


def unanswered(port: int) -> str | None:
    """Why no connection to a port of the loopback interface succeeds; None if a server listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        return str(error)
    return None


def free_ports(count: int) -> list[int]:
    """``count`` different ports of the loopback interface on which no server listens now."""
    with ExitStack() as open_sockets:
        ports = []
        for _ in range(count):
            probe = open_sockets.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            ports.append(int(probe.getsockname()[1]))
        return ports
