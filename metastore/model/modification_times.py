"""Times of files, as stores tell them."""

from __future__ import annotations


def same_time(one: int | None, other: int | None) -> bool:
    """Return whether two answers about a file's modification (milliseconds since 1970) may be about the same one.

    Some stores tell times by the second in one answer and by the millisecond in another. None is a time that nobody has
    recorded.
    """
    if one is None or other is None or one == other:
        return True
    rounded = one % 1000 == 0 or other % 1000 == 0
    return rounded and one // 1000 == other // 1000
