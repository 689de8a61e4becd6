"""Tests with packages of their own environments are a part of `make neighbours` alone, which asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

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
