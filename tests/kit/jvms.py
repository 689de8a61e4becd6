"""Counts the JVMs that a test run starts, and prints the number at the end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""A JVM that lives for seconds is done before its second compiler would have been worth its while.

Without that compiler Java keeps 48 MB of compiled code in place of 240. Spark fills those in two minutes, and from then
on Java throws code away and compiles it again.
"""

OPTIONS_OF_SPARKS_JVMS = ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS", "SPARK_DAEMON_JAVA_OPTS")
"""Variables that Spark's scripts take options of the JVM from."""

_MARK = "CATALOG_EXT_TEST_RUN"
_EVERY_S = 0.3
_KINDS = (
    ("launcher.Main", "Spark's launcher"),
    ("CoarseGrainedExecutorBackend", "executor"),
    ("pyspark-shell", "driver"),
    ("deploy.SparkSubmit", "client or server of Spark"),
    ("MiniDFSCluster", "HDFS"),
    ("Metastore", "metastore"),
    ("MetaStore", "metastore"),
    ("HiveStatements", "Hive command line"),
    ("scala.tools.nsc", "compiler"),
)


class JvmCounter:
    """Looks through the processes for JVMs that have this run's mark in their environment, several times a second.

    One that lives shorter, as ``java -version`` does, may be missed.
    """

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}-{time.time_ns()}"
        os.environ[_MARK] = self._mark
        self._seen: dict[tuple[str, str], str] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="jvm-counter", daemon=True)
        self._thread.start()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The line of the summary; none for a run without JVMs."""
        self._ended.set()
        self._thread.join()
        counts = Counter(self._seen.values())
        if counts:
            kinds = ", ".join(f"{number} {kind}" for kind, number in counts.most_common())
            terminalreporter.write_sep("=", f"{counts.total()} JVMs started: {kinds}")

    def _look(self) -> None:
        wanted = f"{_MARK}={self._mark}".encode()
        while not self._ended.wait(_EVERY_S):
            # Not by os.scandir, which tests replace to see what is listed.
            for name in filter(str.isdigit, os.listdir("/proc")):
                # It may end meanwhile, or belong to another user.
                with contextlib.suppress(OSError):
                    # A script that stands in for Java has the interpreter for its program. Not by Path, which takes
                    # three times as long: a minute of processor time in a run.
                    if os.readlink(f"/proc/{name}/exe").endswith("/java"):
                        self._note(Path("/proc", name), wanted)

    def _note(self, process: Path, wanted: bytes) -> None:
        if wanted not in (process / "environ").read_bytes().split(b"\0"):
            return
        started = (process / "stat").read_text().rpartition(")")[2].split()[19]
        # Before its exec a process has the command line of its parent; the last one seen counts.
        self._seen[process.name, started] = _kind((process / "cmdline").read_text(errors="replace"))


def _kind(command: str) -> str:
    return next((kind for word, kind in _KINDS if word in command), "other")


def pytest_configure(config: pytest.Config) -> None:
    """Count from here; a worker of xdist is counted for by the process that starts it."""
    for name in OPTIONS_OF_SPARKS_JVMS:
        os.environ.setdefault(name, QUICK_JVM)
    if Path("/proc/self/stat").exists() and not hasattr(config, "workerinput"):
        config.pluginmanager.register(JvmCounter(), "jvm-counter")
