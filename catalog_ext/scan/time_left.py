"""Estimates how long a phase of a long operation still takes."""

from __future__ import annotations

import time

# What the first second did says little about the rest.
_LEAST_S = 1.0
_LEAST_SHARE = 0.005


class TimeLeft:
    """Counts from when it is made: what is left takes as long, for its part, as what is done has taken."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def after(self, done: float, total: float | None) -> float | None:
        """Return the seconds that are left; None where that would be a guess.

        Args:
            done: How much is done.
            total: How much there is, by what was known before; None where nothing was. If more is done, it was wrong.
        """
        elapsed_s = time.monotonic() - self._began_s
        if not total or not total * _LEAST_SHARE <= done <= total or elapsed_s < _LEAST_S:
            return None
        return elapsed_s * (total - done) / done
