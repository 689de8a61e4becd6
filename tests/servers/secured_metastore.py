"""Metastores with TLS, Kerberos or rights of users: Hive's own main class, of release 2.3 (PySpark's jars), 3 or 4."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.access import PLAIN, Access
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.runtime.java import find_java, jar_folder
from tests.servers.hive_releases import release_class_path
from tests.servers.processes import ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.servers.hive_releases import Release

_START_TIMEOUT_SECONDS = 120.0
_OPENED_PACKAGES = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.io")


class SecuredMetastore:
    """A running metastore, on Derby unless the settings name another database.

    Args:
        directory: Holds it.
        settings: Hive's and Hadoop's, which win over ours.
        access: How a client of it speaks.
        java_options: For its JVM.
        jars: Put before the others.
        release: Its release; None for 2.3.10.

    Attributes:
        uri: Its thrift URI, by the name ``localhost``.
        port: Where it listens.
    """

    def __init__(
        self, directory: Path, settings: Mapping[str, str], access: Access = PLAIN, *,
        java_options: Sequence[str] = (), jars: Sequence[Path] = (), release: Release | None = None,
    ) -> None:  # fmt: skip
        directory.mkdir(parents=True)
        (self.port,) = free_ports(1)
        self.uri = f"thrift://localhost:{self.port}"
        self._access = access
        self._start(directory, settings, java_options, [*map(str, jars), *_jars(release)])

    def stop(self) -> None:
        """It is gone when this returns, without a chance to say goodbye."""
        self._process.stop()

    def _start(
        self, directory: Path, settings: Mapping[str, str], java_options: Sequence[str], jars: Sequence[str]
    ) -> None:
        _write_configuration(directory, settings)
        command = [
            str(find_java()), "-Xmx400m", "-XX:TieredStopAtLevel=1", *java_options,
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
            "-cp", os.pathsep.join([str(directory), *jars]),
            "org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port),
        ]  # fmt: skip
        self._process = ServerProcess("the metastore", command, directory / "log", stop_signal=signal.SIGKILL)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def _missing(self) -> str | None:
        try:
            socket.create_connection(("localhost", self.port), timeout=1).close()
        except OSError as error:
            return str(error)
        client = connect(self.uri, access=self._access)
        try:
            client.list_databases()
        except MetastoreUnavailableError as error:
            return error.message
        finally:
            client.close()
        return None


def _jars(release: Release | None) -> list[str]:
    return [f"{jar_folder()}/*"] if release is None else release_class_path(release)


def _write_configuration(directory: Path, given: Mapping[str, str]) -> None:
    warehouse = (directory / "warehouse").as_uri()
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory / 'db'};create=true",
        "hive.metastore.warehouse.dir": warehouse,
        "metastore.warehouse.dir": warehouse,
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "NONE",
        "hive.async.log.enabled": "false",
        # It would look at the directory of each partition that it gets.
        "hive.stats.autogather": "false",
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        **given,
    }
    properties = "".join(
        f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()
    )
    # Hadoop's part, which says that there is Kerberos, is read from its own file.
    for name in ("hive-site.xml", "core-site.xml"):
        (directory / name).write_text(f"<configuration>{properties}</configuration>")
