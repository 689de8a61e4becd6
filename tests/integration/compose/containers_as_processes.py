"""The services of docker-compose.yml as processes: the same commands, files, variables, order and health checks.

What differs from the containers is all here: the places (addresses, ports, paths) that ``Places`` replaces, and

| in the composition | here |
|---|---|
| the entry point of PostgreSQL's image | the tests' wheel; user, password, database and SQL as the image makes them |
| the entry point of SeaweedFS' image, ``weed`` | the program of the tests' wheel |
| ``schematool -initOrUpgradeSchema``, whose scripts are in no jar | DataNucleus makes the tables |
| ``hive --service metastore`` | Hive 4.0.1's main class on the jars of Maven |
| ``DbNotificationListener``, in no repository | the listener of ``LoggedMetastore.java``: the same messages |
| ``wget`` | Python |
| a machine for Spark alone | a small one: two tasks after a shuffle, no interface, JVMs that start quickly |
| the entry point of Trino's image | its server's class on the jars of Maven, where there is a Java that runs it |
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from catalog_ext.connector.build import connector_jar
from catalog_ext.metastore.hive.thrift.connect import connect
from catalog_ext.metastore.runtime.cache import cache_folder
from tests.integration.standing_service import SPARK_HOME
from tests.integration.standing_service import environment as spark_environment
from tests.kit.jvms import QUICK_JVM
from tests.servers.composition import PROJECT, Composition, Places, instructions
from tests.servers.databases import PostgresServer
from tests.servers.hive_releases import LISTENER_4, RELEASE_4, metastore_command
from tests.servers.processes import ServerProcess
from tests.servers.trino import trino_command, trino_java

if TYPE_CHECKING:
    from collections.abc import Mapping

_READY_S = 150
_GET = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)"
_ONLY_HERE = {
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "metastore.expression.proxy": "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy",
    "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
}
_SMALL = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": QUICK_JVM,
}


def image_jars() -> Path:
    """The folder of jars that the image has, fetched by the command of the Dockerfile and kept in the user's cache."""
    (command,) = (rest for name, rest in instructions() if name == "RUN" and "org.apache.ivy.Main" in rest)
    ivy = PROJECT / "docker" / "ivy.xml"
    target = cache_folder() / f"image-jars-{sha256(command.encode() + ivy.read_bytes()).hexdigest()[:12]}"
    if not target.is_dir():
        draft = target.with_name(f".{target.name}-{os.getpid()}")
        places = {
            "/opt/spark": SPARK_HOME,
            "/opt/catalog-ext/jars": draft,
            "/tmp/ivy.xml": ivy,
            "/tmp/ivy": draft / "ivy",
        }
        subprocess.run(Places(["-"], ["0"], places).here(command), shell=True, check=True, capture_output=True)
        try:
            draft.rename(target)
        except OSError:  # another process was faster
            shutil.rmtree(draft)
    return target


class Composed:
    """The whole composition, up and healthy when this returns.

    Args:
        folder: Holds everything.
        variables: What ``.env`` would have.

    Attributes:
        places: Where everything is.
        folder: Where they work.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._composition = Composition(variables)
        jars = folder / "jars"
        shutil.copytree(image_jars(), jars)
        (jars / "spark" / "catalog-ext-connector.jar").symlink_to(connector_jar())
        self.places = Places(
            [name for name, service in self._composition.services.items() if "ports" in service],
            self._composition.ports(),
            {
                "/opt/spark": SPARK_HOME,
                "/opt/catalog-ext/jars": jars,
                "/var/lib/catalog-ext": folder / "home",
                "/run/secrets/catalog-ext-token": Path(variables["LAKE_TOKEN_FILE"]),
                "/etc/catalog-ext": folder / "conf",
                "/opt/hive/conf": folder / "hive",
                "/s3.json": folder / "s3.json",
                "/data": folder / "data",
                "/etc/trino": folder / "trino",
            },
        )
        for name in ("home", "conf", "hive", "data", "trino/catalog"):
            (folder / name).mkdir(parents=True)
        self._stack = ExitStack()
        self._processes: dict[str, ServerProcess] = {}
        try:
            self._database()
            self._up()
        except BaseException:
            self.stop()
            raise

    def port(self, number: int) -> int:
        """The port here of one that the composition names."""
        return int(self.places.ports[str(number)])

    def client(self) -> dict[str, str]:
        """The environment of the service, in which ``catalog-ext`` works as ``docker compose exec service`` does."""
        return self._environment("service")

    def restart(self, name: str) -> None:
        """Kill a service and start it again, as ``restart: unless-stopped`` does."""
        self._processes[name].stop()
        self._start(name)

    def stop(self) -> None:
        """Everything is gone."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(ServerProcess.stop, self._processes.values()))
        self._stack.close()

    def _up(self) -> None:
        """Each service when those that it depends on, which the file has before it, are healthy or done."""
        names = [name for name in self._composition.services if name != "trino" or trino_java()]
        started: dict[str, Future[None]] = {}

        def begin(name: str) -> None:
            for other in self._composition.services[name].get("depends_on", {}):
                started[other].result()
            self._start(name)

        with ThreadPoolExecutor(len(names)) as pool:
            for name in names:
                started[name] = pool.submit(begin, name)
        for future in started.values():
            future.result()

    def _database(self) -> None:
        folder = self.folder / "postgres"
        folder.mkdir()
        server = PostgresServer(folder)
        self._stack.callback(server.stop)
        given = self._composition.services["postgres"]["environment"]
        with psycopg.connect(server.create_database().replace("+psycopg", ""), autocommit=True) as connection:
            self.places.ports["5432"] = str(connection.info.port)
            connection.execute(
                f"CREATE ROLE {given['POSTGRES_USER']} SUPERUSER LOGIN PASSWORD '{given['POSTGRES_PASSWORD']}'"
            )
            connection.execute(f"CREATE DATABASE {given['POSTGRES_DB']} OWNER {given['POSTGRES_USER']}")
            for statement in self._composition.config("metastore-database").strip().splitlines():
                connection.execute(statement)

    def _start(self, name: str) -> None:
        service = self._composition.services[name]
        self._files(service)
        if service.get("restart") == "no":
            done = subprocess.run(
                self._command(name), env=self._environment(name), cwd=self.folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=False, timeout=_READY_S,
            )  # fmt: skip
            assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stdout}{done.stderr}"
            return
        process = None if name == "postgres" else self._server(name)
        check = self._health_check(service)
        if process is None:
            assert check() is None
            return
        process.wait_until(check, _READY_S)
        if name == "metastore":
            # Hive's scripts make the table of the last number; here it is made at the first request.
            client = connect(self.places.here("thrift://metastore:9083"))
            client.newest_event_id()
            client.close()

    def _server(self, name: str) -> ServerProcess:
        asks = signal.SIGKILL if name == "s3" else signal.SIGTERM
        log = self.folder / f"{name}.log"
        process = ServerProcess(name, self._command(name), log, stop_signal=asks, environment=self._environment(name))
        self._processes[name] = process
        return process

    def _files(self, service: Mapping[str, Any]) -> None:
        for mount in service.get("configs", ()):
            target = Path(self.places.here(mount["target"]))
            if not target.is_relative_to(self.folder):  # what the image of PostgreSQL reads; see _database
                continue
            text = self.places.here(self._composition.config(mount["source"]))
            if mount["source"] == "metastore-site":
                text = text.replace("org.apache.hive.hcatalog.listener.DbNotificationListener", LISTENER_4)
                further = (
                    f"<property><name>{key}</name><value>{value}</value></property>"
                    for key, value in _ONLY_HERE.items()
                )
                text = text.replace("</configuration>", f"{''.join(further)}</configuration>")
            if mount["source"] == "spark-defaults":
                text += "".join(f"{key} {value}\n" for key, value in _SMALL.items())
            target.write_text(text)

    def _command(self, name: str) -> list[str]:
        service = self._composition.services[name]
        words = [self.places.here(word) for word in (*service.get("entrypoint", ()), *service.get("command", ()))]
        if name == "trino":
            java, folder = trino_java(), self.folder / "trino"
            assert java is not None
            return trino_command(java, folder, folder / "config.properties", folder / "catalog")
        weed = str(Path(sysconfig.get_path("scripts")) / "weed")
        if name == "s3":
            return [weed, *words]
        if name == "s3-bucket":
            return [*words[:-1], words[-1].replace("weed shell", f"{weed} shell")]
        if name == "metastore":
            found = re.search(r"--service metastore -p (\d+)$", words[-1].strip())
            assert found is not None
            further = [f"{self.folder}/jars/{conf}/*" for conf in ("metastore", "spark")]
            return metastore_command(RELEASE_4, self.folder / "hive", int(found[1]), log=True, further=further)
        if words[0] == "catalog-ext":
            return [sys.executable, "-m", "catalog_ext.cli.main", *words[1:]]
        return words

    def _environment(self, name: str) -> dict[str, str]:
        given = self._composition.services[name].get("environment", {})
        own = {key: self.places.here(value) for key, value in given.items()}
        programs = next(iter((self.folder / "postgres").glob("install/*/*/bin")), None)
        path = [str(Path(sys.executable).parent), *([str(programs)] if programs else []), os.environ["PATH"]]
        return spark_environment(None) | {"PATH": os.pathsep.join(path)} | own

    def _health_check(self, service: Mapping[str, Any]) -> Any:
        kind, *command = service["healthcheck"]["test"]
        assert kind == "CMD"
        words = [self.places.here(word) for word in command]
        if words[0] == "wget":
            words = [sys.executable, "-c", _GET, words[-1]]
        environment = spark_environment(None) | {"PATH": self._environment("postgres")["PATH"]}

        def missing() -> str | None:
            done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=20)
            return None if done.returncode == 0 else f"{words[0]} ended with {done.returncode}: {done.stderr[-500:]}"

        return missing
