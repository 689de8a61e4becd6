"""A proxy before a metastore that counts the calls that pass, by the methods' names in Thrift's messages."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

# A call of the strict binary protocol: version 1, type 1, the length of the name in four bytes, the name.
_CALL = re.compile(rb"\x80\x01\x00\x01\x00\x00\x00.([a-z_]{3,60})", re.DOTALL)


class ThriftProxy:
    """Passes connections on to ``host:port``.

    Attributes:
        uri: Where it is called.
        calls: Calls so far, by method.
        before: Called for each call, with its method, before the server gets it.
        refuses: Says for each call, by its method and bytes, whether its connection breaks before the server gets it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listener.getsockname()[1]}"
        self.calls: Counter[str] = Counter()
        self.before: Callable[[str], None] = lambda _: None
        self.refuses: Callable[[str, bytes], bool] = lambda *_: False
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            one.close()

    def turn_to(self, host: str, port: int) -> None:
        """Break off the connections; those that come are passed on to another server."""
        self._target = (host, port)
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for source, target, counted in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass_on, args=(source, target, counted), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                if counted:
                    for match in _CALL.finditer(data):
                        self.calls[match.group(1).decode()] += 1
                        self.before(match.group(1).decode())
                        if self.refuses(match.group(1).decode(), data):
                            source.shutdown(socket.SHUT_RDWR)
                            target.shutdown(socket.SHUT_RDWR)
                            return
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            # Either side has gone; the other notices by itself.
            return
