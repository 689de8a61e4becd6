"""What every client of a standing service needs: the service, and Spark's configuration as docs/clients.md has it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from catalog_ext.connector.build import connector_jar
from catalog_ext.metastore.commit.fault_points import ENVIRONMENT
from tests.kit.jvms import OPTIONS_OF_SPARKS_JVMS, QUICK_JVM
from tests.servers.processes import ServerProcess, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROJECT = Path(__file__).resolve().parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
_RUN_TIMEOUT_S = 240
# What a machine that tests share wants, and docs/clients.md need not say.
_SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    # Derby takes four seconds; what Spark keeps in its own catalog is not looked at.
    "spark.sql.catalogImplementation": "in-memory",
}


class StandingService:
    """``catalog-ext serve`` on an index and a warehouse of its own, by default without a metastore.

    It has one address and one token, however often it is started.

    Args:
        folder: Holds everything, the token's file too; several services of one index may have one folder.
        stop_signal: What ends it.
        index: The URL of an index that is there; a SQLite file of its own if left out.
        starts: Whether it is started at once.
        metastore: The metastore that follows the index.
    """

    def __init__(
        self, folder: Path, *, stop_signal: int = signal.SIGTERM, index: str | None = None, starts: bool = True,
        metastore: str = "none",
    ) -> None:  # fmt: skip
        self.folder = folder
        self.warehouse = str(folder / "warehouse")
        self.token_file = folder / "token"
        self.index = index or str(folder / "index.db")
        self._port = free_ports(1)[0]
        self._log_file = folder / f"serve-{self._port}.log"
        self.uri = f"http://127.0.0.1:{self._port}"
        self._stop_signal = stop_signal
        self._metastore = metastore
        self._process: ServerProcess | None = None
        # Compiled here when it has to be: the service answers only when there is one.
        connector_jar()
        if starts:
            self.start()

    @property
    def log(self) -> str:
        """What it has printed and logged so far."""
        return self._log_file.read_text()

    @property
    def token(self) -> str:
        return self.token_file.read_text().strip()

    def start(self, fault: str = "") -> None:
        """Start it, unless it runs; ``fault``: a fault point that is armed in it, with its action."""
        if self._process is not None:
            return
        command = [
            sys.executable, "-m", "catalog_ext.cli.main", "--index", self.index, "--metastore", self._metastore,
            "--warehouse", self.warehouse,
            "serve", "--port", str(self._port), "--token-file", str(self.token_file),
        ]  # fmt: skip
        # Tests register folders beside the warehouse, which a standing service serves only if it is set to.
        allowed = {"CATALOG_EXT_STORAGE_ALLOW": "*"}
        environment = os.environ | allowed | {"PYTHONPATH": str(PROJECT), ENVIRONMENT: fault}
        self._process = ServerProcess(
            "catalog-ext serve", command, self._log_file,
            stop_signal=self._stop_signal, environment=environment,
        )  # fmt: skip
        self._process.wait_until(self._missing, 60)

    def wait(self, timeout: float) -> int:
        """Return the status that it has ended with by itself; of a signal that killed it, minus its number."""
        assert self._process is not None
        return self._process.wait(timeout)

    @property
    def pid(self) -> int:
        """The number of the process that was started last."""
        return int(re.findall(r"Process (\d+) serves", self.log)[-1])

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _missing(self) -> str | None:
        try:
            with urllib.request.urlopen(f"{self.uri}/ready", timeout=5):
                return None
        except OSError as error:
            return str(error)


def conf_folder(service: StandingService, settings: Mapping[str, str] | None = None) -> Path:
    """A copy of spark_conf/, its CHANGE lines filled in as docs/clients.md says, with further settings at its end."""
    folder = service.folder / "conf"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECT / "spark_conf", folder)
    # There is no metastore, and S3 is not used: its jars would be fetched from the network.
    (folder / "hive-site.xml").unlink()
    file = folder / "spark-defaults.conf"
    changes = {
        "spark.sql.catalog.lake.uri": service.uri,
        "spark.sql.catalog.lake.token-file": str(service.token_file),
        "spark.jars": str(connector_jar()),
        "spark.jars.packages": None,
        "spark.jars.excludes": None,
    }
    text = _changed(file.read_text(), changes)
    file.write_text(text + "\n" + "".join(f"{key} {value}\n" for key, value in {**_SMALL, **(settings or {})}.items()))
    return folder


def environment(conf: Path | None) -> dict[str, str]:
    """The environment that a client is started in."""
    # Neither the variables of a Spark that runs in this process already, nor the one by which a kernel knows pytest.
    foreign = ("SPARK_", "PYSPARK_", "PYTEST_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
    named = {} if conf is None else {"SPARK_CONF_DIR": str(conf)}
    return (
        kept
        | named
        | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **dict.fromkeys(OPTIONS_OF_SPARKS_JVMS, QUICK_JVM),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(PROJECT),
        }
    )


def run(
    command: Sequence[str], conf: Path | None, folder: Path, further: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A client's run to its end; after four minutes it is killed, with all that it has started."""
    process = subprocess.Popen(
        command,
        env=environment(conf) | dict(further or {}),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=_RUN_TIMEOUT_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def program(name: str) -> str:
    """A program of Spark's, such as ``bin/spark-sql``."""
    return str(SPARK_HOME / name)


def _changed(text: str, changes: dict[str, str | None]) -> str:
    for key, value in changes.items():
        line = "" if value is None else f"{key} {value}"
        text, count = re.subn(rf"^{re.escape(key)}\s.*$", lambda _, line=line: line, text, flags=re.MULTILINE)  # type: ignore[misc]
        assert count == 1, key
    return text
