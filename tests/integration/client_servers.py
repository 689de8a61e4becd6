"""Spark's two servers as users start them: the Thrift server and the Spark Connect server."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.integration.standing_service import environment, program
from tests.servers.processes import ServerProcess, free_ports, unanswered

if TYPE_CHECKING:
    from pathlib import Path

_START_TIMEOUT_S = 120
_MASTER = ("--master", "local[2]")


class SparkServer:
    """A server of Spark's with the configuration in ``conf``, if any; ``wait`` for it before it is used.

    Args:
        name: What it is called in messages and in the name of its log.
        command: Starts it in the foreground, on ``port`` of the loopback interface.
        events: Where it logs its events; None where it does not.
    """

    def __init__(
        self, name: str, command: list[str], port: int, conf: Path | None, folder: Path, events: Path | None = None
    ) -> None:
        self.port = port
        self._events = events
        self._process = ServerProcess(
            name,
            command,
            folder / f"{name.replace(' ', '-')}.log",
            stop_signal=signal.SIGTERM,
            environment=environment(conf) | {"SPARK_LOG_DIR": str(folder), "SPARK_PID_DIR": str(folder)},
        )

    def wait(self) -> None:
        self._process.wait_until(lambda: unanswered(self.port), _START_TIMEOUT_S)

    def jobs_started(self) -> int:
        """How many jobs it has started."""
        assert self._events is not None
        logs = (file.read_bytes() for file in self._events.rglob("*") if file.is_file())
        return sum(log.count(b"SparkListenerJobStart") for log in logs)

    def stop(self) -> None:
        self._process.stop()


def thrift_server(conf: Path, folder: Path) -> SparkServer:
    """The Thrift server. PySpark's package has no start-thriftserver.sh; this is what that script runs."""
    (port,) = free_ports(1)
    events = folder / "events"
    events.mkdir()
    command = [
        program("bin/spark-submit"), *_MASTER, "--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
        "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={events.as_uri()}",
        "--conf", "spark.eventLog.compress=false",
        "spark-internal",
        "--hiveconf", f"hive.server2.thrift.port={port}", "--hiveconf", "hive.server2.thrift.bind.host=127.0.0.1",
    ]  # fmt: skip
    return SparkServer("Thrift server", command, port, conf, folder, events)


def connect_server(conf: Path, folder: Path) -> SparkServer:
    """The Spark Connect server. The packages of PySpark before 4.3 have no start-connect-server.sh either."""
    (port,) = free_ports(1)
    command = [
        program("bin/spark-submit"), *_MASTER, "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal",
    ]  # fmt: skip
    return SparkServer("Connect server", command, port, conf, folder)
