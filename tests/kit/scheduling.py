"""Assigns tests to processes, so that tests with a JVM share one.

A module stays in one process, and those that share the JVM in the same one, unless another process would be idle.
``--dist loadgroup`` would do, but xdist 3.8 changes an attribute of tests that pytest 9 no longer has.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.integration.spark_driver import Driver

_PROJECT = Path(__file__).parents[2]
_DRIVER: pytest.StashKey[Driver] = pytest.StashKey()
# ``both`` and ``spark_with_connector`` are fixtures of a conftest that ask for ``driver``.
_SHARES = re.compile(r"\bdriver: Driver\b|\bspark_with_connector\b|\bboth: Lake\b")


@cache
def shares_driver(module: Path) -> bool:
    """Return whether tests of a module ask for the fixture ``driver``, by themselves or by another fixture."""
    return _SHARES.search(module.read_text(encoding="utf-8")) is not None


class ByModule(LoadScopeScheduling):  # type: ignore[misc]
    """Gives modules to processes: those that share a JVM to the first one, as long as there are others for the rest.

    A JVM is warm after some modules, so that one for all takes the least time. A process that has nothing else to do
    starts a second one all the same, rather than be idle.
    """

    _first: Any = None

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: Any) -> None:
        if self._first not in self.nodes:
            self._first = node
        module = next_module(self.workqueue, with_driver=node is self._first)
        self.workqueue.move_to_end(module, last=False)
        super()._assign_work_unit(node)


def next_module(waiting: Iterable[str], *, with_driver: bool) -> str:
    """Return the module that a process is to have next.

    Modules of unit tests are short. They come last in each process, so that none is idle while another ends a long one.
    """
    return min(waiting, key=lambda m: (m.startswith("tests/unit/"), shares_driver(_PROJECT / m) != with_driver))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByModule | None:
    """Take the place of ``--dist loadfile``; ``make unit`` divides single tests."""
    return ByModule(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session")
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """The JVM that the tests of Spark share, one group of tests that one process runs."""
    # Here, so that tests without Spark need not load it.
    from tests.integration.spark_driver import Driver

    shared = request.config.stash[_DRIVER] = Driver()
    yield shared
    shared.stop()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Those that share the JVM come last, so that no other test of the process meets it; the scheduler of several
    # processes begins with them. The order that a plugin has chosen is kept in each half.
    items.sort(key=lambda item: shares_driver(item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    # A process that is through with those that share the JVM goes on with others, which expect none.
    driver = item.config.stash.get(_DRIVER, None)
    if driver is not None and not shares_driver(item.path):
        driver.end()
