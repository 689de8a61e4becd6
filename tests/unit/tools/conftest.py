from __future__ import annotations

import pytest

from docs.tools import error_reference


@pytest.fixture(scope="session")
def described_errors() -> dict[str, error_reference.Described]:
    """The error reference. Reading all sources takes two seconds, so tests that ask for it are slow."""
    return error_reference.described()
