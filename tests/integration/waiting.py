"""Functions for Spark's Python workers that hold a task until something is so; each worker loads this module."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 60.0


def until(true: Callable[[], object], what: str) -> None:
    """Return when ``true()`` is; fail after a minute."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took more than {WAIT_S:g} s")
        time.sleep(0.01)


def waits(x: int, last: int, folder: str) -> int:
    """``x``; where it is ``last``, once there is a file ``go`` in the folder."""
    if x == last:
        (Path(folder) / "waiting").touch()
        until((Path(folder) / "go").exists, "the test")
    return x


def meets(x: int, name: str, folder: str) -> int:
    """``x``, once two of different names have come to the folder."""
    (Path(folder) / name).touch()
    until(lambda: len(list(Path(folder).iterdir())) == 2, "the other write")
    return x
