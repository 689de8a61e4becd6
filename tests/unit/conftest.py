from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _index_without_waiting_for_the_disk() -> Iterator[None]:
    """SQLite leaves it to the operating system when it writes: no test here survives a power cut, tests/faults do."""
    sa.event.listen(sa.Pool, "checkout", _leave_to_the_system)
    yield
    sa.event.remove(sa.Pool, "checkout", _leave_to_the_system)


def _leave_to_the_system(connection: Any, *_: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
