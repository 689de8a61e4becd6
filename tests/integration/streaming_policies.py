"""A partition-commit policy for tests: it notes what it was called with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

calls: list[tuple[dict[str, str | None], str]] = []
fail_once: list[Exception] = []


def committed(values: Mapping[str, str | None], location: str) -> None:
    """Note the call; fail first if a test wants it to."""
    if fail_once:
        raise fail_once.pop()
    calls.append((dict(values), location))
