"""Parses durations as people write them: ``500ms``, ``30s``, ``1 h``, ``7 days``."""

from __future__ import annotations

import re

_SECONDS = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0,
    "h": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_DURATION = re.compile(rf"(\d{{1,18}}(?:\.\d{{1,6}})?) ?(?:({'|'.join(_SECONDS)})s?)?", re.ASCII)


_LONGEST_S = 1e14


def duration_s(text: str) -> float | None:
    """Return a duration in seconds (the default unit); None if the text is not a duration, or exceeds 1e14 s."""
    match = _DURATION.fullmatch(text.lower())
    value = float(match.group(1)) * _SECONDS[match.group(2) or "s"] if match else None
    return value if value is not None and value <= _LONGEST_S else None
