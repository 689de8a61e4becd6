"""Waiting times between attempts at a busy store."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waiting with full jitter.

    Attributes:
        retries: Attempts after the first one.
        first_s: The longest first wait, in seconds; it doubles each time.
        longest_s: The longest wait of all, in seconds.
    """

    retries: int = 5
    first_s: float = 0.2
    longest_s: float = 5.0

    def delays_s(self) -> Iterator[float]:
        """Yield the wait before each further attempt, in seconds."""
        for attempt in range(self.retries):
            yield random.uniform(0.5, 1.0) * min(self.longest_s, self.first_s * 2**attempt)
