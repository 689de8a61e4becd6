from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.runtime.garbage import collecting_rarely

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


@pytest.mark.slow
def test_the_thresholds_come_back_with_the_last_block(thresholds: tuple[int, int, int]) -> None:
    with collecting_rarely():
        rarely = gc.get_threshold()
        with pytest.raises(ValueError, match="x"), collecting_rarely():
            raise ValueError("x")
        assert gc.get_threshold() == rarely > thresholds
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("theirs", [(5, 5, 5), (10_000_000, 1, 1)])
def test_garbage_collection_settings_of_others_stay(theirs: tuple[int, int, int]) -> None:
    with collecting_rarely():
        gc.set_threshold(*theirs)
        # As this Python keeps them: 3.14 has no third number.
        theirs = gc.get_threshold()
    assert gc.get_threshold() == theirs
    with collecting_rarely():
        assert gc.get_threshold() >= theirs
    assert gc.get_threshold() == theirs
