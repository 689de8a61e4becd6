from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.index import Index
from tests.kit.index_cases import local_index
from tests.servers.recorded_service import serve_recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.integration.spark_driver import Driver
    from tests.integration.standing_service import StandingService
    from tests.servers.recorded_service import RecordedService


@pytest.fixture(scope="module")
def recorded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedService]:
    """The service behind a recorder, with the namespaces ``default`` and ``sales`` and no tables."""
    with serve_recorded(tmp_path_factory.mktemp("recorded")) as service:
        yield service


@pytest.fixture(scope="module")
def spark_with_connector(recorded_service: RecordedService, driver: Driver) -> Iterator[SparkSession]:
    """A Spark session whose catalog ``lake`` is ``recorded_service``."""
    with driver.connected(recorded_service.uri, recorded_service.token) as session:
        yield session


@pytest.fixture(params=("sqlite", "postgres", "mariadb"), scope="module")
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """An empty index, on each kind of database in turn; a module that wants another defines its own ``index``."""
    if request.param == "sqlite":
        with local_index(tmp_path_factory.mktemp("index")) as index:
            yield index
        return
    server = request.getfixturevalue(f"{request.param}_server")
    url = server.create_index()
    with Index.open(url) as index:
        yield index
    server.drop_database(url)


@pytest.fixture(scope="module")
def standing_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandingService]:
    """``catalog-ext serve`` on an empty index."""
    from tests.integration.standing_service import StandingService

    service = StandingService(tmp_path_factory.mktemp("standing"))
    yield service
    service.stop()
