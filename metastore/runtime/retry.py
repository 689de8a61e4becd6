"""Retries with exponential backoff."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter between attempts.

    Attributes:
        retries: The number of attempts after the first one.
        first_s: The upper limit of the first wait, in seconds; the limit doubles each time.
        longest_s: The upper limit of every wait, in seconds.
    """

    retries: int = 5
    first_s: float = 0.2
    longest_s: float = 5.0

    def delays_s(self) -> Iterator[float]:
        """Yield the wait before each further attempt, in seconds."""
        for attempt in range(self.retries):
            yield random.uniform(0.5, 1.0) * min(self.longest_s, self.first_s * 2**attempt)

    def attempt(
        self, call: Callable[[], T], is_busy: Callable[[Exception], bool], *, stop: threading.Event | None = None
    ) -> T:
        """Return the result of ``call``; retry it while it fails with a busy error; raise the last error unchanged.

        Args:
            call: Calls a store or a database.
            is_busy: Returns whether an error means that the call may succeed a little later.
            stop: Ends the wait between two attempts when it is set.
        """
        delays_s = self.delays_s()
        while True:
            try:
                return call()
            except Exception as error:
                delay_s = next(delays_s, None) if is_busy(error) else None
                if delay_s is None or (stop is not None and stop.is_set()):
                    raise
            (stop or threading.Event()).wait(delay_s)
