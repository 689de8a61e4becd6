"""HDFS without a container: Hadoop's own cluster in one JVM, from Maven's artifacts (56 MB, in the user's cache)."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.java import find_java, jar_folder, jar_version
from tests.servers.maven_jars import fetch_jar
from tests.servers.processes import ServerProcess, free_ports

if TYPE_CHECKING:
    from pathlib import Path

_START_TIMEOUT_SECONDS = 120.0
# What the cluster's code was compiled against.
_JUNIT = (
    "org.junit.jupiter:junit-jupiter-api:5.13.4",
    "org.junit.platform:junit-platform-commons:1.13.4",
    "org.opentest4j:opentest4j:1.3.0",
    # Before Hadoop 3.5.
    "junit:junit:4.13.2",
    "org.hamcrest:hamcrest-core:1.3",
)
_FROM_PYSPARK = ("hadoop-client-*.jar", "jcl-over-slf4j-*.jar", "log4j-*.jar", "slf4j-api-*.jar")
_SETTINGS = {
    "dfs.permissions.enabled": "true",
    "dfs.replication": "1",
    "dfs.namenode.fs-limits.min-block-size": "1024",
    "dfs.safemode.extension": "0",
}


class HdfsServer:
    """A name node and a data node, with permissions; the superuser is the user of this process.

    Attributes:
        uri: ``hdfs://127.0.0.1:PORT``.
    """

    def __init__(self, directory: Path) -> None:
        self._details = directory / "cluster.json"
        (port,) = free_ports(1)
        self.uri = f"hdfs://127.0.0.1:{port}"
        cluster = f"org.apache.hadoop:hadoop-client-minicluster:{jar_version('hadoop-client-api')}"
        jars = [fetch_jar(jar) for jar in (cluster, *_JUNIT)]
        pyspark_jars = [jar for pattern in _FROM_PYSPARK for jar in sorted(jar_folder().glob(pattern))]
        command = [
            str(find_java()), "-Xmx400m", "-XX:TieredStopAtLevel=1",
            f"-Dtest.build.data={directory / 'data'}", f"-Dhadoop.log.dir={directory}",
            "-cp", os.pathsep.join(str(jar) for jar in (*jars, *pyspark_jars)),
            "org.apache.hadoop.test.MiniDFSClusterManager",
            "-format", "-nnport", str(port), "-datanodes", "1", "-writeDetails", str(self._details),
            *(part for name, value in _SETTINGS.items() for part in ("-D", f"{name}={value}")),
        ]  # fmt: skip
        self._process = ServerProcess("HDFS", command, directory / "hdfs.log", stop_signal=signal.SIGKILL)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def stop(self) -> None:
        """It is gone when this returns."""
        self._process.stop()

    def _missing(self) -> str | None:
        return None if self._details.is_file() and self._details.stat().st_size else "it has not said that it is up"
