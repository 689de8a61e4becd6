"""The Spark release under test; skips tests that need a newer one."""

from __future__ import annotations

from importlib.metadata import version

import pytest

SPARK = tuple(map(int, version("pyspark").split(".")[:2]))
"""The minor release, as ``(4, 3)``."""


def since(minor: tuple[int, int], what: str) -> pytest.MarkDecorator:
    """Mark tests of what came with a release. What an older one says instead, the statements of each kind show.

    Args:
        minor: The release, as ``(4, 2)``.
        what: What came with it.
    """
    needed = ".".join(map(str, minor))
    return pytest.mark.skipif(minor > SPARK, reason=f"{what} came with Spark {needed}")
