"""Fixtures of tests that make their tables in `lake` and in the session catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.integration.both_catalogs import PLACES, Place, both_catalogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.lake import Lake
    from tests.integration.spark_driver import Driver


@pytest.fixture(scope="module")
def both(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A session with both catalogs on one index."""
    with both_catalogs(driver, tmp_path_factory.mktemp("both")) as lake:
        yield lake


@pytest.fixture(params=PLACES, ids=str)
def place(request: pytest.FixtureRequest) -> Place:
    """Where a test makes its tables."""
    found: Place = request.param
    return found
