"""Prometheus without a container: Debian's own package (19 MB, unpacked into the user's cache; no root is needed)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import urllib.error
import urllib.parse
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from catalog_ext.metastore.runtime.cache import cache_folder, kept
from tests.servers.debian import FETCH_S, unpacked
from tests.servers.processes import ServerProcess, free_ports

WITHOUT = (
    "Prometheus is neither on PATH nor among the packages of this system (apt-get download prometheus): point "
    "CATALOG_EXT_TEST_PROMETHEUS at a folder with prometheus and promtool"
)
_PROGRAMS = ("prometheus", "promtool")
_START_TIMEOUT_SECONDS = 30.0


@cache
def prometheus_folder() -> Path | None:
    """The folder of ``prometheus`` and ``promtool``: of a variable, of PATH, or of Debian's package; else None."""
    if named := os.environ.get("CATALOG_EXT_TEST_PROMETHEUS"):
        return Path(named)
    found = [shutil.which(program) for program in _PROGRAMS]
    if found[0] and found[1]:
        return Path(found[0]).parent
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return None
    return kept(cache_folder() / "prometheus", _unpacked, FETCH_S)


def _unpacked(work: Path) -> Path:
    return unpacked(work, "prometheus") / "usr" / "bin"


class Prometheus:
    """A server that scrapes and evaluates by a configuration.

    Args:
        programs: The folder of its programs.
        directory: Holds its data and its log.
        config: Its configuration.
    """

    def __init__(self, programs: Path, directory: Path, config: Path) -> None:
        (port,) = free_ports(1)
        self.uri = f"http://127.0.0.1:{port}"
        command = [
            str(programs / "prometheus"), f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
            # Debian's package has the pages apart, and no test looks at them.
            f"--web.console.templates={directory}", f"--web.console.libraries={directory}",
        ]  # fmt: skip
        self._process = ServerProcess("Prometheus", command, directory / "prometheus.log", stop_signal=signal.SIGTERM)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an expression has now."""
        found = self.get("query", query=expression)["result"]
        assert isinstance(found, list)
        return found

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its HTTP interface."""
        with urllib.request.urlopen(f"{self.uri}/api/v1/{path}?{urllib.parse.urlencode(parameters)}") as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.stop()

    def _missing(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.uri}/-/ready", timeout=5) as response:
                return None if response.status == 200 else f"{response.status}"
        except (OSError, urllib.error.URLError) as error:
            return str(error)
