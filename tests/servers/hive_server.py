"""Hive 4.0.1's own HiveServer2, with Tez in its process: an engine that reads and writes, without Hadoop or Spark.

It needs a metastore of release 4 (``ReleaseMetastore(RELEASE_4, …, engine=True)``, which evaluates its filters).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from impala.dbapi import connect
from impala.error import Error
from thrift.Thrift import TException

from catalog_ext.metastore.runtime.java import find_java
from tests.servers.hive_cli import HiveCliError, write_settings
from tests.servers.hive_jvm import LOG4J, OPENED_PACKAGES
from tests.servers.hive_releases import engine_4_class_path
from tests.servers.maven_jars import fetch_bundle
from tests.servers.processes import ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_START_TIMEOUT_S = 120.0
_TEZ = "0.10.4"
_JARS = (
    "!ch.qos.reload4j:reload4j:1.2.25",
    "!org.apache.hadoop:hadoop-client-api:3.3.6",
    "!org.apache.hadoop:hadoop-client-runtime:3.3.6",
    "!org.codehaus.jettison:jettison:1.5.4",
    "!org.eclipse.jetty:jetty-runner:9.4.45.v20220203",
    "!org.apache.commons:commons-collections4:4.4",
    "!org.apache.hive:hive-common:4.0.1",
    "!org.apache.hive:hive-hplsql:4.0.1",
    "!org.apache.hive:hive-llap-tez:4.0.1",
    "!org.apache.hive:hive-service:4.0.1",
    "!org.apache.hive:hive-service-rpc:4.0.1",
    *(
        f"!org.apache.tez:{name}:{_TEZ}"
        for name in (
            "hadoop-shim", "tez-api", "tez-common", "tez-dag", "tez-mapreduce", "tez-runtime-internals",
            "tez-runtime-library",
        )
    ),
)  # fmt: skip
"""Beside the jars of the command line, which have the engine: 67 MB. PySpark's newer Hadoop lacks a class that Tez
asks for."""
_FROM_PYSPARK = ("log4j-slf4j2-impl-*.jar", "RoaringBitmap-*.jar", "jsr305-*.jar")


def server_jars() -> Path:
    """The folder of what it has beside the metastore's and PySpark's jars."""
    return fetch_bundle("hive-server-4.0.1", _JARS)


class HiveServer:
    """A running HiveServer2 with one session, whose statements are run one after the other.

    Args:
        directory: Holds its configuration, log and scratch files.
        metastore_uri: The metastore of release 4 that it works on.
    """

    def __init__(self, directory: Path, metastore_uri: str) -> None:
        jars = server_jars()
        (self._port,) = free_ports(1)
        scratch, conf = directory / "tmp", directory / "conf"
        scratch.mkdir(parents=True)
        conf.mkdir()
        write_settings(conf / "hive-site.xml", self._settings(metastore_uri, scratch))
        # The server looks for this name and overlooks Java's properties.
        (conf / "hive-log4j2.properties").write_text(LOG4J, encoding="utf-8")
        command = [
            str(find_java()),
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            f"-Djava.io.tmpdir={scratch}",
            "-cp",
            os.pathsep.join([str(conf), f"{jars}/*", *engine_4_class_path(_FROM_PYSPARK, hadoop=False)]),
            "org.apache.hive.service.server.HiveServer2",
        ]
        self._process = ServerProcess("HiveServer2", command, directory / "server.log", stop_signal=signal.SIGKILL)
        self._cursor: Any = None
        self._process.wait_until(self._missing, _START_TIMEOUT_S)

    def run(self, statements: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """The rows of each statement, each value as Hive prints it (NULL as ``NULL``).

        Raises:
            HiveCliError: a statement failed; those after it were not run.
        """
        return [self._rows(statement) for statement in statements]

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.stop()

    def _rows(self, statement: str) -> list[tuple[str, ...]]:
        try:
            self._cursor.execute(statement)
            rows = self._cursor.fetchall() if self._cursor.description else []
        except (Error, TException) as error:
            raise HiveCliError(f"{statement}\n{error}") from error
        return [tuple(_printed(value) for value in row) for row in rows]

    def _missing(self) -> str | None:
        # The port is open before the server is ready: it may end again, with every session.
        try:
            connection = connect(
                host="127.0.0.1", port=self._port, auth_mechanism="PLAIN", user="ada", password="unused", timeout=60
            )  # fmt: skip
            self._cursor = connection.cursor()
            self._rows("SHOW DATABASES")
        except (Error, TException, HiveCliError, OSError) as error:
            return str(error)
        return None

    def _settings(self, metastore_uri: str, scratch: Path) -> dict[str, str]:
        return {
            "hive.metastore.uris": metastore_uri,
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(scratch),
            "hive.async.log.enabled": "false",
            "hive.exec.dynamic.partition.mode": "nonstrict",
            "hive.exec.local.scratchdir": str(scratch / "local"),
            "hive.exec.scratchdir": str(scratch / "scratch"),
            "hive.execution.engine": "tez",
            "hive.fetch.task.conversion": "more",
            "hive.server2.materializedviews.registry.impl": "DUMMY",
            "hive.metastore.event.db.notification.api.auth": "false",
            "hive.notification.event.poll.interval": "0",
            "hive.query.results.cache.enabled": "false",
            "hive.querylog.location": str(scratch / "querylog"),
            "hive.scheduled.queries.executor.enabled": "false",
            "hive.server2.authentication": "NONE",
            "hive.server2.enable.doAs": "false",
            "hive.server2.logging.operation.enabled": "false",
            "hive.server2.tez.initialize.default.sessions": "false",
            "hive.server2.thrift.bind.host": "127.0.0.1",
            "hive.server2.thrift.port": str(self._port),
            "hive.server2.webui.port": "0",
            "hive.support.concurrency": "false",
            "tez.ignore.lib.uris": "true",
            "tez.local.mode": "true",
            "tez.local.mode.without.network": "true",
            "tez.runtime.io.sort.mb": "32",
            "tez.staging-dir": str(scratch / "staging"),
        }


def _printed(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return value.decode() if isinstance(value, bytes) else str(value)  # the client gives lists as their bytes
