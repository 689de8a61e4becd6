from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index import Index
from tests.integration.fake_service import FakeService

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.clients import StandingService
    from tests.integration.spark_driver import Driver


@pytest.fixture(scope="module")
def fake_service() -> Iterator[FakeService]:
    """A service of the contract with the namespaces ``default`` and ``sales`` and no tables."""
    service = FakeService().start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def spark_with_connector(fake_service: FakeService, driver: Driver) -> Iterator[SparkSession]:
    """A Spark session whose catalog ``lake`` is ``fake_service``."""
    with driver.connected(fake_service.uri, fake_service.token) as session:
        yield session


@pytest.fixture(params=("sqlite", "postgres", "mariadb"), scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An empty index, on each kind of database in turn; a module that wants another defines its own ``index``."""
    folder = tmp_path_factory.mktemp("index")
    server = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_server")
    url = f"sqlite:///{folder}/index.db" if server is None else server.create_database()
    with contextlib.ExitStack() as stack:
        if server is not None:
            stack.callback(server.drop_database, url)
        yield stack.enter_context(Index.open(url, migrate=True))


@pytest.fixture(scope="module")
def standing_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingService]:
    """``catalog-ext serve`` on an empty index."""
    from tests.integration.clients import StandingService

    service = StandingService(tmp_path_factory.mktemp("standing"))
    yield service
    service.stop()
