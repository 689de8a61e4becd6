from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.index_cases import without_waiting_for_the_disk

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _index_without_waiting_for_the_disk() -> Iterator[None]:
    with without_waiting_for_the_disk():
        yield
