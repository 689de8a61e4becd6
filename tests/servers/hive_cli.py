"""Hive's own command line, version 2.3, on PySpark's jars and two small ones: a real engine, not installed.

``make demo`` and the tests use the same code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from catalog_ext.metastore.errors import MetastoreError
from catalog_ext.metastore.runtime.java import jar_folder, jar_version
from tests.servers.hive_jvm import JVMS
from tests.servers.maven_jars import fetch_jar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_RUN_TIMEOUT_SECONDS = 300
_MARKER = "__catalog_ext_statement__"


class HiveCliError(MetastoreError):
    """A statement failed; the message is what Hive printed."""


class HiveCli:
    """Hive's command line on a metastore: each call is a session of its own, in a JVM that later calls share.

    Args:
        directory: For its configuration and scratch files.
        metastore_uri: The metastore that it works on.
        class_path: Jars (also ``folder/*``) of another engine; by default PySpark's and the two.
        settings: Hive's settings that are added to ours, and win over them.
    """

    def __init__(
        self,
        directory: Path,
        metastore_uri: str,
        *,
        class_path: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._jars = [*map(str, engine_jars()), f"{jar_folder()}/*"] if class_path is None else list(class_path)
        self._settings = dict(settings or {})
        self._write_configuration(metastore_uri)

    def __call__(self, statement: str) -> list[tuple[str, ...]]:
        """The rows of one statement, each value as Hive prints it (NULL as ``NULL``).

        Raises:
            HiveCliError: the statement failed.
        """
        return self.run([statement])[0]

    def run(self, statements: Sequence[str]) -> list[list[tuple[str, ...]]]:
        """The rows of each statement, all in one run of Hive.

        Raises:
            HiveCliError: a statement failed; those after it were not run.
        """
        script, site = self._directory / "statements.sql", self._directory / "conf" / "hive-site.xml"
        output, errors = self._directory / "output", self._directory / "errors"
        lines = [f"{statement.strip().rstrip(';')};\n!echo {_MARKER};\n" for statement in statements]
        script.write_text("".join(lines), encoding="utf-8")
        for file in (output, errors):
            file.write_bytes(b"")
        status = JVMS.run(self._jars, (site, script, output, errors), _RUN_TIMEOUT_SECONDS)
        answer = output.read_text(encoding="utf-8")
        if status != 0 or answer.count(_MARKER) != len(statements):
            raise HiveCliError(f"status {status}\n{answer}\n{errors.read_text(encoding='utf-8')}")
        parts = answer.split(f"{_MARKER}\n")[:-1]
        return [[tuple(line.split("\t")) for line in part.splitlines()] for part in parts]

    def _write_configuration(self, metastore_uri: str) -> None:
        conf, scratch = self._directory / "conf", self._directory / "tmp"
        conf.mkdir(parents=True)
        scratch.mkdir()
        settings = {
            "hive.metastore.uris": metastore_uri,
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(scratch),
            "hive.async.log.enabled": "false",
            "hive.cbo.enable": "false",
            "hive.cli.errors.ignore": "false",
            "hive.exec.dynamic.partition.mode": "nonstrict",
            "hive.exec.local.scratchdir": str(scratch / "local"),
            "hive.exec.scratchdir": str(scratch / "scratch"),
            "hive.exec.submit.local.task.via.child": "false",
            # Hive asks its job in milliseconds whether it is done; by default after a second.
            "hive.exec.counters.pull.interval": "50",
            "hive.execution.engine": "mr",
            "hive.fetch.task.conversion": "more",
            "hive.querylog.location": str(scratch / "querylog"),
            "hive.stats.autogather": "false",
            "mapreduce.framework.name": "local",
            **self._settings,
        }
        write_settings(conf / "hive-site.xml", settings)


def write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write a configuration as Hadoop and Hive read it."""
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")


def engine_jars() -> list[Path]:
    """The two jars that Hive's functions need and PySpark does not have.

    Raises:
        EnvironmentSetupError: They are not in the cache and cannot be fetched.
    """
    version = jar_version("hive-metastore")
    return [fetch_jar(f"org.apache.hive:{name}:{version}") for name in ("hive-llap-common", "hive-llap-client")]
