"""Real Hive: a metastore 2.3 from PySpark's own jars, and the Hive 2.3 command line with the readers that Hive ships.

PySpark has Hive's classes without their libraries: with its jars alone, Hive would read files by Spark's own releases
of Parquet and ORC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from catalog_ext.metastore.hive.embedded.embedded_metastore import EmbeddedMetastore
from catalog_ext.metastore.runtime.java import jar_folder, jar_version
from tests.servers.hive_cli import HiveCli, HiveCliError, engine_jars
from tests.servers.hive_releases import LOCK_TABLES
from tests.servers.maven_jars import fetch_jar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["HiveCli", "HiveCliError", "HiveMetastore", "notification_log", "whole_engine"]

DELETES_FILES = "org.apache.hadoop.hive.metastore.HiveMetaStoreFsImpl"
"""Hive's own deletion of a managed table's files, which the embedded metastore leaves out."""

LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"


def notification_log(release: str) -> Path:
    """Return the jar that has the listener which keeps the metastore's log of events."""
    return fetch_jar(f"org.apache.hive.hcatalog:hive-hcatalog-server-extensions:{release}")


class HiveMetastore:
    """A metastore that a test can stop and start again under the same URI.

    Args:
        directory: Holds it.
        log: Whether it keeps a log of events.
        locks: Whether it has tables of locks.

    Attributes:
        uri: Its thrift URI.
        warehouse: The local folder of databases that have no location.
    """

    def __init__(self, directory: Path, *, log: bool = False, locks: bool = False) -> None:
        self._directory = directory
        self._log = log
        self._locks = locks
        self.warehouse = directory / "warehouse"
        self._server = self._made()
        self.uri = self._server.start()

    def _made(self, port: int = 0) -> EmbeddedMetastore:
        listener = [notification_log(jar_version("hive-metastore"))] if self._log else []
        settings = {"hive.metastore.fs.handler.class": DELETES_FILES}
        if self._log:
            settings["hive.metastore.event.listeners"] = LISTENER
        if self._locks:
            settings |= LOCK_TABLES
        return EmbeddedMetastore(
            self._directory, port, settings=settings, engine_jars=[*engine_jars(), *listener]
        )  # fmt: skip

    def start(self) -> None:
        """It answers at ``uri`` again."""
        self._server = self._made(int(self.uri.rpartition(":")[2]))
        self._server.start()

    def kill(self) -> None:
        """As ``stop``, without a chance to say goodbye."""
        process = self._server._process
        assert process is not None
        process.kill()
        process.wait()
        self._server.stop()

    def stop(self) -> None:
        """No server answers at ``uri``; what it knew is kept."""
        self._server.stop()


def whole_engine(directory: Path, metastore_uri: str, settings: Mapping[str, str] | None = None) -> HiveCli:
    """Hive's command line with its own Parquet 1.8 and ORC 1.3 (a jar of 46 MB), and its JSON serde."""
    version = jar_version("hive-metastore")
    names = ("org.apache.hive:hive-exec", "org.apache.hive.hcatalog:hive-hcatalog-core")
    own = [fetch_jar(f"{name}:{version}") for name in names]
    class_path = [*map(str, [*own, *engine_jars()]), f"{jar_folder()}/*"]
    return HiveCli(directory, metastore_uri, class_path=class_path, settings=settings)
