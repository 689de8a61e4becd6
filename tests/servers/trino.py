"""Trino with its Hive connector, from the Maven repository (200 MB, kept in the user's cache), and a client of it."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from catalog_ext.metastore.runtime.java import jar_folder
from tests.servers.maven_jars import fetch_bundle

VERSION = "483"
WITHOUT_JAVA = (
    "Trino needs Java 25 or newer with the module jdk.incubator.vector, which no package index has: point "
    "CATALOG_EXT_TEST_TRINO_JAVA at the folder of one"
)
_LAUNCHER = Path(__file__).with_name("Trino.java")
# Other stores and another cache: 130 MB that nothing here asks for.
_EXCLUDED = (
    "org.rocksdb:*", "org.alluxio:*",
    "io.trino:trino-filesystem-gcs", "io.trino:trino-filesystem-azure", "io.trino:trino-filesystem-cache-alluxio",
)  # fmt: skip
_QUERY_S = 90


@cache
def trino_java() -> Path | None:
    """The ``java`` that can run Trino: of a variable, of JAVA_HOME, or of those that the system has."""
    named = [os.environ[name] for name in ("CATALOG_EXT_TEST_TRINO_JAVA", "JAVA_HOME") if name in os.environ]
    for home in (*map(Path, named), *sorted(Path("/usr/lib/jvm").glob("*"))):
        java = home / "bin" / "java"
        if not java.is_file():
            continue
        done = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False)
        versions = [
            line.partition("@")[2] for line in done.stdout.splitlines() if line.startswith("jdk.incubator.vector@")
        ]
        if versions and int(versions[0].split(".")[0]) >= 25:
            return java
    return None


def server_jars() -> Path:
    """The folder of the server's jars."""
    return fetch_bundle(f"trino-{VERSION}-server", [f"io.trino:trino-main:{VERSION}"])


def hive_connector_jars() -> Path:
    """The folder of the Hive connector's jars."""
    return fetch_bundle(f"trino-{VERSION}-hive", [f"=io.trino:trino-hive:{VERSION}"], _EXCLUDED)


def trino_command(java: Path, folder: Path, config: Path, catalogs: Path) -> list[str]:
    """What starts Trino.

    Args:
        folder: For its plugins; made when it is not there.
        config: Its ``config.properties``.
        catalogs: The folder of its catalogs' properties.
    """
    server, hive = server_jars(), hive_connector_jars()
    plugin = folder / "plugins" / "hive"
    plugin.mkdir(parents=True)
    for jar in hive.iterdir():
        (plugin / jar.name).symlink_to(jar)
    # Trino's packaging names the plugin beside the jars.
    with zipfile.ZipFile(plugin / "services.jar", "w") as services:
        services.writestr("META-INF/services/io.trino.spi.Plugin", "io.trino.plugin.hive.HivePlugin\n")
    janino = [str(jar) for name in ("janino", "commons-compiler") for jar in jar_folder().glob(f"{name}-*.jar")]
    return [
        str(java), "-Xmx1g", "-XX:TieredStopAtLevel=1", "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
        f"-Dconfig={config}", "-Dnode.environment=test", "-Dnode.id=one", "-Dnode.internal-address=127.0.0.1",
        "-Dnode.bind-ip=127.0.0.1", f"-Dplugin.dir={plugin.parent}", f"-Dcatalog.config-dir={catalogs}",
        "-cp", os.pathsep.join([f"{server}/*", *janino]),
        "org.codehaus.janino.SimpleCompiler", str(_LAUNCHER), "Trino", VERSION,
    ]  # fmt: skip


class TrinoError(Exception):
    """A statement failed; the message is Trino's."""


class TrinoClient:
    """Runs statements by Trino's own protocol.

    Args:
        port: Where it listens.
        catalog: Which catalog names without one are of.
    """

    def __init__(self, port: int, catalog: str) -> None:
        self._uri = f"http://127.0.0.1:{port}/v1/statement"
        self._headers = {"X-Trino-User": "ada", "X-Trino-Catalog": catalog, "X-Trino-Time-Zone": "UTC"}

    def __call__(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; values as JSON has them.

        Raises:
            TrinoError: it failed, or took more than 90 s.
        """
        request = urllib.request.Request(self._uri, statement.encode(), self._headers)
        found: list[tuple[Any, ...]] = []
        deadline = time.monotonic() + _QUERY_S
        while True:
            with urllib.request.urlopen(request, timeout=_QUERY_S) as response:
                answer = json.load(response)
            if "error" in answer:
                raise TrinoError(f"{statement}: {answer['error']['message']}")
            found += map(tuple, answer.get("data", ()))
            if "nextUri" not in answer:
                return found
            if time.monotonic() > deadline:
                raise TrinoError(f"{statement}: no end after {_QUERY_S} s")
            request = urllib.request.Request(answer["nextUri"], headers=self._headers)
