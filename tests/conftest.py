from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

# Registers the profiles, before pytest chooses one of them.
import tests.examples  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.spark_driver import Driver

pytest_plugins = ["tests.servers.fixtures", "tests.conformance.recording", "tests.jvms"]


@pytest.fixture(scope="session")
def driver() -> Iterator[Driver]:
    """The JVM that the tests of Spark share; they come last, so that no other test meets a running one."""
    # Here, so that tests without Spark need not load it.
    from tests.integration.spark_driver import Driver

    shared = Driver()
    yield shared
    shared.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Whole modules: a module's fixtures would be made twice. The order that a plugin has chosen is kept in each half.
    sharing = {item.path for item in items if "driver" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path in sharing)
