"""The same servers as containers, for machines with a Docker engine: set CATALOG_EXT_TEST_CONTAINERS=1.

The default is the local process, which needs no engine; this way shows that the project does not depend on it.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import sqlalchemy

from tests.servers.databases import migrated

if TYPE_CHECKING:
    from testcontainers.core.generic import DbContainer

POSTGRES_IMAGE = "postgres:18.1-alpine@sha256:aa6eb304ddb6dd26df23d05db4e5cb05af8951cda3e0dc57731b771e0ef4ab29"
MARIADB_IMAGE = "mariadb:11.4.5@sha256:49117dcc565cf51aa57ac5fca59ab31213402ff0eae6ffc13c46a37b938f7e4b"


def containers_wanted() -> bool:
    """Whether containers were asked for and a Docker engine answers."""
    if os.environ.get("CATALOG_EXT_TEST_CONTAINERS") != "1":
        return False
    import docker

    try:
        docker.from_env().ping()
    except docker.errors.DockerException:
        return False
    return True


class ContainerServer:
    """A database server in a container; its administrator makes the databases."""

    def __init__(self, container: DbContainer, driver: str, administrator: str, suffix: str = "") -> None:
        self._container = container.start()
        base = sqlalchemy.make_url(self._container.get_connection_url(driver=driver))
        self._admin = base.set(username=administrator)
        self._suffix = suffix

    def create_database(self) -> str:
        name = f"t_{secrets.token_hex(6)}"
        self._run(f"CREATE DATABASE {name}{self._suffix}")
        return self._admin.set(database=name).render_as_string(hide_password=False)

    def create_index(self) -> str:
        return migrated(self.create_database())

    def drop_database(self, url: str) -> None:
        force = " WITH (FORCE)" if self._admin.get_backend_name() == "postgresql" else ""
        self._run(f"DROP DATABASE IF EXISTS {sqlalchemy.make_url(url).database}{force}")

    def stop(self) -> None:
        self._container.stop()

    def _run(self, statement: str) -> None:
        engine = sqlalchemy.create_engine(self._admin, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(statement))
        engine.dispose()


def postgres_container() -> ContainerServer:
    """PostgreSQL in a container."""
    from testcontainers.postgres import PostgresContainer

    return ContainerServer(PostgresContainer(POSTGRES_IMAGE, username="postgres"), "psycopg", "postgres")


def mariadb_container() -> ContainerServer:
    """MariaDB in a container."""
    from testcontainers.mysql import MySqlContainer

    password = secrets.token_hex(8)
    container = MySqlContainer(MARIADB_IMAGE, dialect="pymysql", password=password, root_password=password)
    return ContainerServer(container, "pymysql", "root", " CHARACTER SET utf8mb4")
