"""The embedded metastore: a HiveMetaStore 2.3 server from PySpark's own jars, on a Derby database, started on demand.

One server runs per directory. The first process that needs the metastore starts the server; later processes connect to
it. The server ends when its last process stops it, exits or is killed. It listens on the loopback interface only, and
on Linux it serves only the processes of its own user and of root (``docs/design/18-listeners.md``).
"""

from __future__ import annotations

import atexit
import contextlib
import secrets
import subprocess
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import filelock

from catalog_ext.metastore.errors import EnvironmentSetupError, MetastoreUnavailableError
from catalog_ext.metastore.hive.embedded.lease import STATE_FILE, Lease, give_folder_id, read_state, take_lease
from catalog_ext.metastore.runtime.java import find_java, jar_folder
from catalog_ext.metastore.runtime.private_files import FILE_MODE, make_private_file, make_private_folder, write_private
from catalog_ext.metastore.runtime.processes import LEAST_SHARE, forget_in_children, runs, share_processor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_TIMEOUT_SECONDS = 180.0
LOG_FILE = "metastore.log"
_STOP_TIMEOUT_SECONDS = 15.0
_OTHERS_FIRST_S = 15.0
_LOG_TAIL_LINES = 15
_OPENED_PACKAGES = ("java.lang", "java.net", "java.util", "java.util.concurrent", "java.io")
_REMOTE_SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs")
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""
_LAUNCHER = Path(__file__).with_name("EmbeddedMetastore.java")


class EmbeddedMetastore:
    """A Hive Metastore whose database is in ``directory``; the server ends when no process uses it any more.

    Args:
        directory: Holds the Derby database, the log and the state file; created if it is missing.
        port: The thrift port on the loopback interface; 0 takes a free one. It is ignored when the directory's server
            runs already.
        warehouse: The location for databases that are created without one; by default ``directory/warehouse``.
        settings: Hive and Hadoop settings for the server's configuration; they override this class's own settings.
        extra_jars: Jars put before PySpark's on the class path, for object stores. Without them the server does not
            access remote stores: it records remote locations unchanged, which is all that the catalog needs.
        engine_jars: ``hive-llap-common`` and ``hive-llap-client`` of Hive's release. With them the server prunes
            partitions by any expression of a Hive engine, without them only by plain comparisons.
        niceness: Added to this process's own niceness for a server that this process starts in the background, so that
            its start does not slow down the foreground. On Linux the server's session also has the smallest share of
            the processor until the server answers, a caller in this process waits for it, or 15 s have passed. Callers
            in other processes are not noticed.
    """

    def __init__(
        self, directory: Path, port: int = 0, *, warehouse: str | None = None,
        settings: Mapping[str, str] | None = None, extra_jars: Sequence[Path] = (), engine_jars: Sequence[Path] = (),
        niceness: int = 0,
    ) -> None:  # fmt: skip
        self.directory = directory.absolute()
        self._port = port
        self._warehouse = warehouse or (self.directory / "warehouse").as_uri()
        self._settings = dict(settings or {})
        self._extra_jars = tuple(extra_jars)
        self._engine_jars = tuple(engine_jars)
        self._niceness = niceness
        self.forget()
        # A forked child must not keep this state: when the child exits, it would wait for the start or the end of its
        # parent's server.
        forget_in_children(self)

    def forget(self) -> None:
        """Reset this object, in a forked child, to its state before a start: the lease belongs to the parent."""
        self._guard = threading.Lock()
        self._started: Future[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lease: Lease | None = None
        self._stopping = False
        self._awaited = False

    @property
    def log_file(self) -> Path:
        """The server's log file."""
        return self.directory / LOG_FILE

    @property
    def settled(self) -> bool:
        """Whether a start has ended, with or without success, so that ``uri`` returns or fails at once."""
        started = self._started
        return started is not None and started.done()

    def start(self, timeout: float = START_TIMEOUT_SECONDS) -> str:
        """Start the server if none runs, wait until it answers, and return its URI; ``timeout`` is in seconds.

        Raises:
            EnvironmentSetupError: Java or PySpark is missing.
            MetastoreUnavailableError: The server ended or was not ready in time; the message quotes the end of its log.
        """
        self.start_in_background()
        return self.uri(timeout)

    def check_can_start(self) -> None:
        """Check that the server runs, or that Java and PySpark are installed to start it.

        Raises:
            EnvironmentSetupError: Java or PySpark is missing, or Java is too old.
        """
        running = read_state(self.directory)
        if running is None or not runs(running.pid):
            find_java()
            jar_folder()

    def start_in_background(self) -> None:
        """Start the server in a thread and return at once; ``uri`` waits for the server and reports a failure."""
        with self._guard:
            if self._started is not None:
                return
            self._stopping = False
            self._awaited = False
            started: Future[str] = Future()
            self._started = started
        threading.Thread(target=self._run_start, args=(started,), name="embedded-metastore", daemon=True).start()
        atexit.register(self.stop)

    def uri(self, timeout: float = START_TIMEOUT_SECONDS) -> str:
        """Return the URI of the server once it answers; start the server if none runs.

        Raises:
            EnvironmentSetupError: Java or PySpark is missing.
            MetastoreUnavailableError: The server ended or was not ready within ``timeout`` seconds.
        """
        self.start_in_background()
        self._awaited = True
        started = self._started
        if started is None:
            raise self._unavailable("was stopped while starting")
        try:
            return started.result(timeout)
        except FutureTimeoutError as error:
            raise self._unavailable(f"was not ready within {timeout:g} s") from error

    def stop(self) -> None:
        """Stop the server, unless another process still uses it."""
        with self._guard:
            started, self._started = self._started, None
            self._stopping = True
        if started is None:
            return
        atexit.unregister(self.stop)
        if not started.done() and self._process is not None:
            self._process.kill()
        if started.exception(timeout=START_TIMEOUT_SECONDS) is None and self._lease is not None:
            self._end_lease(self._lease)
        self._lease = self._process = None

    def __enter__(self) -> EmbeddedMetastore:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run_start(self, started: Future[str]) -> None:
        try:
            self._lease = self._join_or_launch()
        except BaseException as error:  # noqa: BLE001 - raised for each caller that asks for the URI
            started.set_exception(error)
        else:
            started.set_result(self._lease.state.uri)

    def _join_or_launch(self) -> Lease:
        # Check first: without Java or PySpark no directory should be created.
        self.check_can_start()
        try:
            make_private_folder(self.directory)
            lock = filelock.FileLock(self.directory / "start.lock", mode=FILE_MODE)
            self._acquire(lock)
            try:
                give_folder_id(self.directory)
                # Take the lock even to join a running server: the process that starts it gets the first lease.
                return take_lease(self.directory) or self._launch()
            finally:
                lock.release()
        except OSError as error:
            raise EnvironmentSetupError(
                f"The embedded metastore cannot use its directory {self.directory}: {error}. "
                "Name another directory, or a metastore that runs.",
                {"directory": str(self.directory)},
            ) from error

    def _acquire(self, lock: filelock.BaseFileLock) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._stopping and time.monotonic() < deadline:
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=0.2)
                return
        raise self._unavailable(
            "was stopped while another process was starting it"
            if self._stopping
            else f"has been in the hands of another starting process for {START_TIMEOUT_SECONDS:g} s"
        )

    def _launch(self) -> Lease:
        (self.directory / STATE_FILE).unlink(missing_ok=True)  # left by a server that has ended
        self._write_configuration()
        command = self._command(identity=secrets.token_hex(8))
        make_private_file(self.log_file)
        with self.log_file.open("wb") as log:
            # Give the server its own session. Ctrl-C in the terminal must reach only this process, which then stops the
            # server in order.
            process = subprocess.Popen(
                command, cwd=self.directory, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
            )
        self._process = process
        if self._niceness:
            share_processor(process.pid, LEAST_SHARE)
        if self._stopping:
            process.kill()
        lease = self._await_ready(process)
        if process.stdin is not None:
            process.stdin.close()  # from here on the lease keeps the server running
        threading.Thread(target=process.wait, name="embedded-metastore-reaper", daemon=True).start()
        return lease

    def _await_ready(self, process: subprocess.Popen[bytes]) -> Lease:
        began = time.monotonic()
        others_first = self._niceness > 0
        while process.poll() is None and (lasts := time.monotonic() - began) < START_TIMEOUT_SECONDS:
            lease = take_lease(self.directory)
            if others_first and (lease or self._awaited or lasts > _OTHERS_FIRST_S):
                # A caller waits for the server. With the smallest share it would hardly start on a busy machine.
                others_first = False
                share_processor(process.pid, 0)
            if lease:
                return lease
            time.sleep(0.05)
        status = process.poll()
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
        raise self._unavailable(
            "was not ready in time" if status is None else f"ended with status {status} before it was ready"
        )

    def _end_lease(self, lease: Lease) -> None:
        process = self._process
        if not lease.release():
            return
        deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if not (runs(lease.state.pid) if process is None else process.poll() is None):
                return
            time.sleep(0.02)
        if process is not None:
            process.kill()

    def _command(self, identity: str) -> list[str]:
        class_path = [str(self.directory / "conf"), *map(str, self._extra_jars), f"{jar_folder()}/*"]
        class_path += map(str, self._engine_jars)
        # Set the niceness with the program ``nice``: niceness that is set on the running server would affect only its
        # existing threads.
        polite = ["nice", "-n", str(self._niceness)] if self._niceness else []
        return [
            *polite,
            str(find_java()),
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",  # a quick start matters more than peak speed
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
            f"-Dderby.stream.error.file={self.directory / 'derby.log'}",
            "-Dderby.storage.useDefaultFilePermissions=false",  # only the owner may read Derby's files
            f"-Dlog4j2.configurationFile={(self.directory / 'conf' / 'log4j2.properties').as_uri()}",
            "-cp",
            ":".join(class_path),
            "org.codehaus.janino.SimpleCompiler",
            str(_LAUNCHER),
            "EmbeddedMetastore",
            str(self.directory),
            str(self._port),
            identity,
        ]

    def _write_configuration(self) -> None:
        conf = self.directory / "conf"
        make_private_folder(conf)
        settings = self._default_settings() | self._settings
        properties = "".join(
            f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
            for name, value in sorted(settings.items())
        )
        write_private(conf / "hive-site.xml", f"<configuration>\n{properties}</configuration>\n")
        write_private(conf / "log4j2.properties", _LOG4J)

    def _default_settings(self) -> dict[str, str]:
        database = self.directory / "metastore_db"
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database};create=true",
            "hive.metastore.warehouse.dir": self._warehouse,
            "hive.metastore.schema.verification": "false",
            "datanucleus.schema.autoCreateAll": "true",
            # Without this setting drop_database fails: Hive's default connection pool is not among PySpark's jars.
            "datanucleus.connectionPoolingType": "NONE",
            "hive.warehouse.subdir.inherit.perms": "false",
            "hive.async.log.enabled": "false",
            "hive.metastore.expression.proxy": "EmbeddedMetastore$Expressions",
            # Never delete files, even if a client calls a drop with deleteData: only this project deletes files.
            "hive.metastore.fs.handler.class": "EmbeddedMetastore$KeepsFiles",
            # Without this setting the server lists the directory of each new table or partition to compute statistics.
            "hive.stats.autogather": "false",
            # The index checks which type changes of a column are allowed. The server must accept all of them.
            "hive.metastore.disallow.incompatible.col.type.changes": "false",
        }
        if not self._extra_jars:
            stand_in = "EmbeddedMetastore$LocationsOnly"
            settings |= {f"fs.{scheme}.impl": stand_in for scheme in _REMOTE_SCHEMES}
        return settings

    def _unavailable(self, what_happened: str) -> MetastoreUnavailableError:
        return MetastoreUnavailableError(
            f"The embedded metastore in {self.directory} {what_happened}. {self._log_tail()}",
            {"directory": str(self.directory), "log": str(self.log_file)},
        )

    def _log_tail(self) -> str:
        try:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        if not lines:
            return f"Its log {self.log_file} is empty."
        tail = "\n".join(lines[-_LOG_TAIL_LINES:])
        return f"Its log {self.log_file} ends with:\n{tail}"
