"""A KDC without a system package: Apache Kerby as Hadoop's MiniKdc starts it, from Maven's artifacts (7 MB, cached)."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.java import find_java, jar_folder
from tests.servers.maven_jars import fetch_bundle
from tests.servers.processes import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

REALM = "EXAMPLE.COM"
_START_TIMEOUT_SECONDS = 60.0
_ARTIFACTS = ("!org.apache.hadoop:hadoop-minikdc:3.5.0", "org.apache.kerby:kerb-simplekdc:2.1.1")
_FROM_PYSPARK = ("slf4j-api-*.jar", "log4j-*.jar")
_SETTINGS = {
    "org.name": "EXAMPLE",
    "org.domain": "COM",
    "kdc.bind.address": "127.0.0.1",
    "kdc.port": "0",
    "instance": "DefaultKrbServer",
    "max.ticket.lifetime": "86400000",
    "max.renewable.lifetime": "604800000",
    "transport": "TCP",
    "debug": "false",
}


def kdc_jars() -> Path:
    """The folder of its jars."""
    return fetch_bundle("minikdc-3.5.0", _ARTIFACTS, ("org.slf4j:*",))


class Kdc:
    """A running KDC of the realm ``EXAMPLE.COM``.

    Args:
        directory: Holds it.
        principals: Whom it knows, without the realm.

    Attributes:
        krb5_conf: The configuration of its clients.
        keytab: The keys of all principals.
    """

    def __init__(self, directory: Path, *principals: str) -> None:
        self.krb5_conf = directory / "krb5.conf"
        self.keytab = directory / "keys"
        (directory / "settings").write_text("".join(f"{key}={value}\n" for key, value in _SETTINGS.items()))
        jars = kdc_jars()
        shared = [str(jar) for pattern in _FROM_PYSPARK for jar in sorted(jar_folder().glob(pattern))]
        command = [
            str(find_java()), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join([f"{jars}/*", *shared]),
            "org.apache.hadoop.minikdc.MiniKdc", str(directory), str(directory / "settings"), str(self.keytab),
            *principals,
        ]  # fmt: skip
        self._log = directory / "log"
        self._process = ServerProcess("the KDC", command, self._log, stop_signal=signal.SIGKILL)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.stop()

    def _missing(self) -> str | None:
        # Said when the keytab is whole.
        running = "Standalone MiniKdc Running" in self._log.read_text(errors="replace")
        return None if running else "it has not said that it runs"
