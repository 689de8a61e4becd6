"""Hive Metastores of releases 3 and 4, and an engine of release 4 (about 80 MB each, kept in the user's cache)."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from catalog_ext.metastore.errors import MetastoreUnavailableError
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.hive.thrift.uris import Address
from catalog_ext.metastore.runtime.java import find_java, jar_folder
from tests.servers.hive_cli import HiveCli
from tests.servers.maven_jars import fetch_bundle, fetch_jar

if TYPE_CHECKING:
    from collections.abc import Iterable

_START_TIMEOUT_SECONDS = 120
_OPENED_PACKAGES = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.io")
_LOGGING = ("log4j-api-*.jar", "log4j-core-*.jar", "log4j-1.2-api-*.jar")


@dataclass(frozen=True)
class Release:
    """What a release is made of.

    Attributes:
        dependencies: ``group:name:version``, with all that they need; ``!`` in front: alone.
        excluded: ``group:name`` of what they name and must not have.
        from_pyspark: Patterns of PySpark's jars that stand in.
    """

    version: str
    dependencies: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    from_pyspark: tuple[str, ...] = _LOGGING


RELEASE_3 = Release(
    "3.1.3",
    ("org.apache.hive:hive-standalone-metastore:3.1.3", "org.apache.hadoop:hadoop-client:3.3.6"),
    ("org.apache.logging.log4j:*", "org.slf4j:slf4j-reload4j", "log4j:log4j"),
)
RELEASE_4 = Release(
    "4.0.1",
    ("org.apache.hive:hive-standalone-metastore-server:4.0.1", "!org.apache.hadoop:hadoop-hdfs:3.3.6"),
    (
        "org.apache.logging.log4j:*",
        "org.slf4j:slf4j-reload4j",
        "jdk.tools:*",
        *(
            f"org.apache.hadoop:{name}"
            for name in (
                "hadoop-common",
                "hadoop-hdfs-client",
                "hadoop-mapreduce-client-core",
                "hadoop-client-api",
                "hadoop-client-runtime",
            )
        ),
    ),
    (*_LOGGING, "hadoop-client-*.jar", "commons-c*.jar", "commons-io-*.jar", "commons-lang*.jar", "slf4j-api-*.jar"),
)


_MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
_LAUNCHER = Path(__file__).with_name("LoggedMetastore.java")
_LISTENER_3 = "org.apache.hive.hcatalog.listener.DbNotificationListener"
_LISTENER_4 = "LoggedMetastore$Listener"
"""Hive's own of release 4 is published for Java 21 alone."""
_ENGINE_4 = (
    "org.apache.hive:hive-exec:4.0.1",
    "org.apache.hive:hive-cli:4.0.1",
    "org.apache.hive.hcatalog:hive-hcatalog-core:4.0.1",
    "com.jayway.jsonpath:json-path:2.8.0",
    "org.reflections:reflections:0.10.2",
)


def engine_4(directory: Path, metastore_uri: str) -> HiveCli:
    """The command line of Hive 4.0.1 on a metastore of that release; 85 MB beside the metastore's own jars.

    It has no Tez: what it can run are plain SELECTs, which Hive does by itself.
    """
    from_pyspark = (*RELEASE_4.from_pyspark, "commons-*.jar", "jackson-*.jar", "janino-*.jar", "snappy-java-*.jar")
    class_path = [*(str(fetch_jar(jar)) for jar in _ENGINE_4), *_pyspark_jars(from_pyspark), f"{_fetch(RELEASE_4)}/*"]
    settings = {
        "hive.metastore.event.db.notification.api.auth": "false",
        "hive.notification.event.poll.interval": "0",
        "hive.support.concurrency": "false",
    }
    return HiveCli(directory, metastore_uri, class_path=class_path, settings=settings)


class ReleaseMetastore:
    """A running metastore of a release, on Derby.

    Args:
        release: The release.
        directory: Holds it.
        log: Whether it keeps a log of events.

    Attributes:
        uri: Its thrift URI.
    """

    def __init__(self, release: Release, directory: Path, *, log: bool = False) -> None:
        jars = _fetch(release)
        own = release is RELEASE_4
        listener = _LISTENER_4 if own else _LISTENER_3
        _write_configuration(directory, listener if log else None)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.uri = str(Address("127.0.0.1", port))
        class_path = [str(directory), *_pyspark_jars(release.from_pyspark), f"{jars}/*"]
        main = [_MAIN]
        if log and own:
            class_path += _pyspark_jars(("janino-*.jar", "commons-compiler-*.jar"))
            main = ["org.codehaus.janino.SimpleCompiler", str(_LAUNCHER), "LoggedMetastore"]
        elif log:
            jar = f"org.apache.hive.hcatalog:hive-hcatalog-server-extensions:{release.version}"
            class_path.append(str(fetch_jar(jar)))
        command = [
            str(find_java()),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
            "-cp",
            os.pathsep.join(class_path),
            *main,
            "-p",
            str(port),
        ]
        self._log = directory / "metastore.log"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            self._await_ready(log=log)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.kill()
        self._process.wait()

    def _await_ready(self, *, log: bool) -> None:
        client = connect(self.uri)
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                client.list_databases()
            except MetastoreUnavailableError:
                continue  # the client has waited already
            if log:
                # The table of the last number is made when somebody asks for it; the listener waits for it otherwise.
                client.newest_event_id()
            client.close()
            return
        raise AssertionError(f"the metastore did not start:\n{self._log.read_text(errors='replace')[-3000:]}")


def _write_configuration(directory: Path, listener: str | None) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={directory / 'db'};create=true",
        "metastore.warehouse.dir": (directory / "warehouse").as_uri(),
        "hive.metastore.schema.verification": "false",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.try.direct.sql.ddl": "false",  # on Derby release 4 fails with 1,000 partitions otherwise
    }
    if listener is not None:
        settings |= {
            "hive.metastore.transactional.event.listeners": listener,
            "hive.metastore.event.db.notification.api.auth": "false",
        }
    properties = "".join(
        f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()
    )
    (directory / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")


def _pyspark_jars(patterns: Iterable[str]) -> list[str]:
    return [str(jar) for pattern in patterns for jar in sorted(jar_folder().glob(pattern))]


def _fetch(release: Release) -> Path:
    return fetch_bundle(f"hive-metastore-{release.version}", release.dependencies, release.excluded)
