"""Fetches what the servers of the tests are made of, before a test waits for it: ``python -m tests.servers.prefetch``.

Ivy asks for hundreds of small files one after the other, which takes a cold cache ten minutes and hardly any CPU time.
A run of the whole suite does that beside its first tests; one of a part fetches what it needs itself.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT_ONCE = 4
_WHOLE = ["tests"]
_PROCESS: pytest.StashKey[subprocess.Popen[bytes]] = pytest.StashKey()


def _bundles() -> Iterator[Callable[[], object]]:
    from tests.matrix.environments import OLDEST, environment, this_python
    from tests.servers.browser import axe_script, find_chromium
    from tests.servers.hive_releases import RELEASE_3, RELEASE_4, release_jars
    from tests.servers.hive_server import server_jars as hive_server_jars
    from tests.servers.kdc import kdc_jars
    from tests.servers.pgbouncer import find_pgbouncer
    from tests.servers.trino import hive_connector_jars, server_jars, trino_java

    if trino_java() is not None:
        yield hive_connector_jars
        yield server_jars
    yield lambda: environment(OLDEST, this_python())
    yield lambda: release_jars(RELEASE_4)
    yield lambda: release_jars(RELEASE_3)
    yield hive_server_jars
    yield kdc_jars
    yield find_chromium
    yield find_pgbouncer
    yield axe_script


def main() -> None:
    """Fetch what is not in the cache."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(fetch) for fetch in _bundles()]:
            done.result()


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") or config.args != _WHOLE or config.option.collectonly:
        return
    config.stash[_PROCESS] = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.prefetch"],
        # A test that needs what cannot be fetched says so itself.
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def pytest_sessionfinish(session: pytest.Session) -> None:
    process = session.config.stash.get(_PROCESS, None)
    if process is not None:
        process.send_signal(signal.SIGINT)
        process.wait()


if __name__ == "__main__":
    main()
