"""The JVMs that run scripts of Hive's command line one after another (``HiveStatements.java``).

A start of Hive takes seconds of processor time, and a script in a JVM that has run another takes a fraction of that.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from catalog_ext.metastore.runtime.java import find_java, jar_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

OPENED_PACKAGES = (
    "java.lang",
    "java.net",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "java.util.regex",
    "java.io",
    "java.nio",
    "sun.nio.ch",
)
LOG4J = """\
status = error
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %p %c{1}: %m%n
"""
# Hive's own release of Parquet would log among the rows, on the standard output.
_JAVA_LOGGING = """\
org.apache.parquet.handlers = java.util.logging.ConsoleHandler
org.apache.parquet.useParentHandlers = false
java.util.logging.ConsoleHandler.level = SEVERE
"""
_LAUNCHER = Path(__file__).with_name("HiveStatements.java")
_COMPILER = ("janino-*.jar", "commons-compiler-*.jar")
_MOST_AT_ONCE = 2


class HiveJvm:
    """A JVM with the jars of one engine, which runs one script at a time. It ends with the process that made it.

    Args:
        class_path: The jars of the engine (also ``folder/*``).
    """

    def __init__(self, class_path: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="catalog-ext-hive-")
        folder = Path(self._folder.name)
        (folder / "tmp").mkdir()
        (folder / "log4j2.properties").write_text(LOG4J, encoding="utf-8")
        # Without this file Hive's own configuration of Log4j would report on the standard output, among the rows.
        (folder / "hive-log4j2.properties").write_text(LOG4J, encoding="utf-8")
        (folder / "logging.properties").write_text(_JAVA_LOGGING, encoding="utf-8")
        with (folder / "jvm.log").open("wb") as log:
            self._process = subprocess.Popen(
                self._command(folder, class_path),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                cwd=folder,
            )
        atexit.register(self.stop)

    @property
    def runs(self) -> bool:
        """Whether it takes scripts."""
        return self._process.poll() is None

    def run(self, request: Sequence[Path], timeout_s: float) -> int | None:
        """Run a script; return its status, or None if the JVM ended or took longer than the timeout.

        Args:
            request: The files of the configuration, the script, its output and its errors.
            timeout_s: The JVM is killed after this time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write("\t".join(map(str, request)) + "\n")
            answer = self._process.stdout.readline()
        except BaseException:
            # Nothing reads the answer to this script any more: the next script would get it.
            self.stop()
            raise
        finally:
            watchdog.cancel()
        return int(answer) if answer else None

    def stop(self) -> None:
        """End the JVM."""
        atexit.unregister(self.stop)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._folder.cleanup()

    def _command(self, folder: Path, class_path: Sequence[str]) -> list[str]:
        compiler = [str(jar) for pattern in _COMPILER for jar in sorted(jar_folder().glob(pattern))]
        return [
            str(find_java()),
            "-Xmx1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
            f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}",
            f"-Djava.util.logging.config.file={folder / 'logging.properties'}",
            f"-Djava.io.tmpdir={folder / 'tmp'}",
            "-cp",
            os.pathsep.join([str(folder), *class_path, *compiler]),
            "org.codehaus.janino.SimpleCompiler",
            str(_LAUNCHER),
            "HiveStatements",
        ]


class HiveJvms:
    """The JVMs of this process, by their class paths; the one that was used least recently ends when there are many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jvms: dict[tuple[str, ...], HiveJvm] = {}

    def run(self, class_path: Sequence[str], request: Sequence[Path], timeout_s: float) -> int | None:
        """Run a script in the JVM that has these jars (see ``HiveJvm.run``)."""
        key = tuple(class_path)
        with self._lock:
            jvm = self._jvms.pop(key, None)
            if jvm is not None and not jvm.runs:
                jvm.stop()
                jvm = None
            if jvm is None and len(self._jvms) >= _MOST_AT_ONCE:
                self._jvms.pop(next(iter(self._jvms))).stop()
            self._jvms[key] = jvm or HiveJvm(class_path)
            return self._jvms[key].run(request, timeout_s)


JVMS = HiveJvms()
