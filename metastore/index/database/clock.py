"""The time that the index writes down."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time in milliseconds since the epoch, UTC."""
    return time.time_ns() // 1_000_000
