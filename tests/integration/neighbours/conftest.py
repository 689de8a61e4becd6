"""What the neighbours work on: a standing service that a Hive Metastore follows, and Spark's Thrift server on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.connector.build import connector_jar
from catalog_ext.spark.session import SESSION_CATALOG, SESSION_CATALOG_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.client_servers import SparkServer
    from tests.integration.standing_service import StandingService
    from tests.servers.hive import HiveMetastore


@pytest.fixture(scope="module")
def delivering_service(
    hive_metastore: HiveMetastore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StandingService]:
    """``catalog-ext serve`` on an empty index that a Hive Metastore follows."""
    from tests.integration.standing_service import StandingService

    service = StandingService(tmp_path_factory.mktemp("delivering"), metastore=hive_metastore.uri)
    yield service
    service.stop()


@pytest.fixture(scope="module")
def conf(delivering_service: StandingService, hive_metastore: HiveMetastore) -> Path:
    """Spark's configuration as docs/neighbours.md has it: ``lake``, and our tables in Spark's Hive catalog too."""
    from tests.integration.standing_service import conf_folder

    prefix = f"spark.sql.catalog.{SESSION_CATALOG}"
    return conf_folder(
        delivering_service,
        {
            prefix: SESSION_CATALOG_CLASS,
            f"{prefix}.uri": delivering_service.uri,
            f"{prefix}.token-file": str(delivering_service.token_file),
            f"{prefix}.create.formats": "parquet,orc",
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.hive.metastore.uris": hive_metastore.uri,
            "spark.sql.warehouse.dir": f"{delivering_service.folder}/spark",
            "spark.driver.extraClassPath": str(connector_jar()),
        },
    )


@pytest.fixture(scope="module")
def thrift(conf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    """Spark's Thrift server with that configuration."""
    from tests.integration.client_servers import thrift_server

    server = thrift_server(conf, tmp_path_factory.mktemp("thrift"))
    try:
        server.wait()
        yield server
    finally:
        server.stop()
