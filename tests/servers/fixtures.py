"""The fixtures of every server. What a server needs is imported when a test asks for it, so that others start fast."""

from __future__ import annotations

import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.servers.databases import DatabaseServer
    from tests.servers.hdfs import HdfsServer
    from tests.servers.hive import HiveCli, HiveMetastore
    from tests.servers.hive_releases import ReleaseMetastore
    from tests.servers.hive_server import HiveServer
    from tests.servers.stores import S3Server

_SERVERS = frozenset({
    "browser", "driver", "hdfs_server", "hive_4_metastore", "hive_cli", "hive_metastore", "hive_server", "kdc",
    "make_hive_metastore", "mariadb_server", "moto_server", "pooled_url", "postgres_server",
    "recorded_service", "s3_server", "standing_service", "tls_metastore",
})  # fmt: skip
_DATABASES = frozenset({"postgres", "mariadb"})
"""The parameters by which a fixture asks for a server."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what needs a server or a JVM, so that ``-m "not server"`` leaves it out."""
    parameters = (
        item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
    )
    asked = {value for value in parameters if isinstance(value, str)} & _DATABASES
    if asked or _SERVERS & set(getattr(item, "fixturenames", ())):
        item.add_marker("server")


@contextmanager
def _open_folder(name: str) -> Iterator[Path]:
    """A new folder that every user may enter: pytest's own are closed to others, and too deep for a socket's path."""
    with tempfile.TemporaryDirectory(prefix=f"catalog-ext-{name}-") as path:
        folder = Path(path)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[DatabaseServer]:
    with _open_folder("postgres") as directory:
        from tests.servers.containers import containers_wanted, postgres_container
        from tests.servers.databases import PostgresServer

        server = postgres_container() if containers_wanted() else PostgresServer(directory)
        yield server
        server.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium, for one module: what drives it keeps an event loop running in the tests' thread."""
    from tests.servers.browser import open_browser

    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[DatabaseServer]:
    with _open_folder("mariadb") as directory:
        from tests.servers.containers import containers_wanted, mariadb_container
        from tests.servers.databases import MariadbServer

        server = mariadb_container() if containers_wanted() else MariadbServer(directory)
        yield server
        server.stop()


@pytest.fixture
def postgres_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh PostgreSQL database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def postgres_index_url(postgres_server: DatabaseServer) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh PostgreSQL database with an empty index."""
    url = postgres_server.create_index()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    """The URL of a fresh PostgreSQL database behind a PgBouncer in transaction mode."""
    with make_pooler(postgres_url) as url:
        yield url


@contextmanager
def make_pooler(database: str, mode: str = "transaction") -> Iterator[str]:
    """The URL of a database behind a PgBouncer of its own."""
    from tests.servers.pgbouncer import PgBouncer

    with _open_folder("pgbouncer") as directory:
        pooler = PgBouncer(directory, database, mode)
        yield pooler.url
        pooler.stop()


@pytest.fixture
def mariadb_url(mariadb_server: DatabaseServer) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh MariaDB database."""
    url = mariadb_server.create_database()
    yield url
    mariadb_server.drop_database(url)


@pytest.fixture
def mariadb_index_url(mariadb_server: DatabaseServer) -> Iterator[str]:
    """The SQLAlchemy URL of a fresh MariaDB database with an empty index."""
    url = mariadb_server.create_index()
    yield url
    mariadb_server.drop_database(url)


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """SeaweedFS. It lists in an order of its own and is otherwise close to the real thing."""
    from tests.servers.seaweedfs import SeaweedServer

    server = SeaweedServer(tmp_path_factory.mktemp("seaweed"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """moto's S3: ordered listings, strict part sizes, no check of credentials."""
    from tests.servers.stores import MotoServer

    server = MotoServer(tmp_path_factory.mktemp("moto"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """HDFS with permissions, in a JVM of its own (6 s, 310 MB)."""
    from tests.servers.hdfs import HdfsServer

    server = HdfsServer(tmp_path_factory.mktemp("hdfs"))
    yield server
    server.stop()


@pytest.fixture
def bucket_name() -> str:
    """A bucket name that no other test uses."""
    return f"bucket-{secrets.token_hex(6)}"


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A metastore for the whole session: use database names of your own, and start it again if you stop it."""
    from tests.servers.hive import HiveMetastore

    server = HiveMetastore(tmp_path_factory.mktemp("metastore"))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def logged_hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A metastore with a log of events, for one module, whose events alone it has."""
    from tests.servers.hive import HiveMetastore

    server = HiveMetastore(tmp_path_factory.mktemp("metastore"), log=True)
    yield server
    server.stop()


@pytest.fixture
def make_hive_metastore(tmp_path: Path) -> Iterator[Callable[[], HiveMetastore]]:
    """Starts metastores that belong to one test (three seconds each)."""
    from tests.servers.hive import HiveMetastore

    servers: list[HiveMetastore] = []

    def make() -> HiveMetastore:
        servers.append(HiveMetastore(tmp_path / f"metastore-{len(servers)}"))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def hive_cli(tmp_path_factory: pytest.TempPathFactory, hive_metastore: HiveMetastore) -> HiveCli:
    """The Hive command line on the session's metastore."""
    from tests.servers.hive import whole_engine

    return whole_engine(tmp_path_factory.mktemp("hive"), hive_metastore.uri)


@pytest.fixture(scope="session")
def hive_4_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReleaseMetastore]:
    """A metastore 4.0.1 with a log and the engine's classes, for the whole session: use database names of your own."""
    from tests.servers.hive_releases import RELEASE_4, ReleaseMetastore

    server = ReleaseMetastore(RELEASE_4, tmp_path_factory.mktemp("metastore-4"), log=True, engine=True)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def hive_server(tmp_path_factory: pytest.TempPathFactory, hive_4_metastore: ReleaseMetastore) -> Iterator[HiveServer]:
    """HiveServer2 4.0.1 on ``hive_4_metastore``."""
    from tests.servers.hive_server import HiveServer

    server = HiveServer(tmp_path_factory.mktemp("hive-4"), hive_4_metastore.uri)
    yield server
    server.stop()
