"""Spark sessions that keep quiet: what the JVM and its launcher print goes to a file."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

LISTING_PARALLELISM = 8
"""Tasks with which plain Spark lists directories here; its default, 10,000, makes thousands on two cores."""

_STOP_TIMEOUT_SECONDS = 20.0
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def local_settings(folder: Path) -> dict[str, str]:
    """Settings of a session on this machine that leaves everything in ``folder`` and listens on the loopback only."""
    folder.mkdir(parents=True, exist_ok=True)
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J, encoding="utf-8")
    return {
        "spark.master": "local[*]",
        "spark.app.name": "catalog-ext demo",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dderby.system.home={folder} -XX:+UseSerialGC"
        ),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(LISTING_PARALLELISM),
        "spark.sql.warehouse.dir": (folder / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def s3_settings(storage: dict[str, str]) -> dict[str, str]:
    """Spark's settings of S3A for short names such as ``endpoint``, and those that spare it needless requests."""
    from catalog_ext.metastore.storage.options import StorageOptions
    from catalog_ext.spark.storage import s3a_packages

    given = {f"spark.hadoop.{key}": value for key, value in StorageOptions.parse(storage).to_hadoop().items()}
    return {**given, **s3a_packages(), "spark.hadoop.fs.s3a.performance.flags": "create,mkdir"}


def start(builder: SparkSession.Builder, log_file: Path) -> SparkSession:
    """The session; its JVM prints to ``log_file``."""
    with printing_to(log_file):
        return builder.getOrCreate()


def stop(session: SparkSession) -> None:
    """The session and its JVM are gone when this returns."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    if process is not None:
        # The JVM ends when its standard input does.
        process.stdin.close()
        process.wait(_STOP_TIMEOUT_SECONDS)


@contextmanager
def printing_to(log_file: Path) -> Iterator[None]:
    """Processes that are started meanwhile print to the file."""
    saved = os.dup(1), os.dup(2)
    with log_file.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        for number, copy in enumerate(saved, start=1):
            os.dup2(copy, number)
            os.close(copy)
