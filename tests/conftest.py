from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

# Registers the profiles, before pytest chooses one of them.
import tests.examples  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tests.integration.spark_driver import Driver

_DRIVER: pytest.StashKey[Driver] = pytest.StashKey()

pytest_plugins = ["tests.servers.fixtures", "tests.conformance.recording", "tests.jvms"]


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The JVM that the tests of Spark share, one group of tests that one process runs."""
    # Here, so that tests without Spark need not load it.
    from tests.integration.spark_driver import Driver

    shared = request.config.stash[_DRIVER] = Driver()
    yield shared
    shared.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    # Whole modules: a module's fixtures would be made twice. Without --dist loadgroup the groups mean nothing.
    sharing = {item.path for item in items if "driver" in getattr(item, "fixturenames", ())}
    for item in items:
        item.add_marker(pytest.mark.xdist_group("driver" if item.path in sharing else item.path.stem))
    yield
    # The order that a plugin has chosen is kept in each half. One process: those that share the JVM come last, so that
    # no other meets it. Two: they come first, as one of the two needs most of the run for them.
    first = getattr(config.option, "loadgroup", False)
    items.sort(key=lambda item: (item.path in sharing) != first)


def pytest_runtest_setup(item: pytest.Item) -> None:
    # A process that is through with those that share the JVM goes on with others, which expect none.
    driver = item.config.stash.get(_DRIVER, None)
    if driver is not None and [mark.args for mark in item.iter_markers("xdist_group")] != [("driver",)]:
        driver.end()
