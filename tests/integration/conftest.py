from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.fake_service import FakeService

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def fake_service() -> Iterator[FakeService]:
    """A service of the contract with the namespaces ``default`` and ``sales`` and no tables."""
    service = FakeService().start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def spark_with_connector(fake_service: FakeService) -> Iterator[SparkSession]:
    """A Spark session whose catalog ``lake`` is ``fake_service``."""
    # Here, so that tests without Spark need not load it.
    from tests.integration.connector_session import connector_session

    with connector_session(fake_service.uri, fake_service.token) as session:
        yield session
