"""The calls that a service carries out, for who ends it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class UnderWay:
    """Counts calls while they run, whether somebody waits for their answers or has hung up."""

    def __init__(self) -> None:
        self._calls = 0
        self._changed = threading.Condition()

    def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a call returns."""
        with self._changed:
            self._calls += 1
        try:
            return call(*args, **kwargs)
        finally:
            with self._changed:
                self._calls -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Return whether none runs any more, at the latest after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._calls, seconds)
