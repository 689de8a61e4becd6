"""Leaves the tests of neighbours that have environments of their own to ``make neighbours``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_OPTION = "--neighbours"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        _OPTION, action="store_true", help="run the tests with dbt and Airflow too, in environments that are made"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(_OPTION):
        return
    left = [item for item in items if item.get_closest_marker("neighbour")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
