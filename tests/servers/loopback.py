"""A small HTTP server of a test on a free loopback port, in a thread of its own."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from typing_extensions import Self


class LoopbackServer:
    """Answers while it is a context.

    Args:
        handler: Answers the requests.
        poll_s: How long its end may wait, in seconds.

    Attributes:
        endpoint: Its URL.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler], poll_s: float = 0.05) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(poll_s,), daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
