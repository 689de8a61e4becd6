"""How writers of a SQLite index wait for each other."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexUnavailableError
from catalog_ext.metastore.index.database import engines
from catalog_ext.metastore.index.database.database import Database, use_write_ahead_log
from catalog_ext.metastore.index.database.urls import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ADD = sa.text("INSERT INTO t VALUES (1)")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another writer of the file."""
    connection = sqlite3.connect(tmp_path / "i.db", isolation_level=None, check_same_thread=False)
    connection.execute("CREATE TABLE t (n INTEGER)")
    yield connection
    connection.close()


def opened(tmp_path: Path, options: str = "") -> Database:
    database = Database(parse_url(f"sqlite:///{tmp_path / 'i.db'}{options}"))
    use_write_ahead_log(database)
    return database


def test_the_lock_is_asked_for_at_once_when_it_is_free(
    tmp_path: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = opened(tmp_path)
    waits: list[float] = []

    def released(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 20:
            other.execute("COMMIT")

    monkeypatch.setattr(engines.time, "sleep", released)
    other.execute("BEGIN IMMEDIATE")
    database.write(lambda connection: connection.execute(ADD))
    assert len(waits) == 20
    assert max(waits) <= 0.003, "SQLite itself would sleep up to 100 ms at a time"
    database.close()


def test_wait_beyond_the_timeout_is_an_error(tmp_path: Path, other: sqlite3.Connection) -> None:
    database = opened(tmp_path, "?timeout=0.2")
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    with pytest.raises(IndexUnavailableError, match="locked by another process"):
        database.write(lambda connection: connection.execute(ADD))
    assert time.monotonic() - began >= 0.2
    other.execute("ROLLBACK")
    database.write(lambda connection: connection.execute(ADD))
    with database.reading() as connection:
        assert connection.execute(sa.text("PRAGMA busy_timeout")).scalar() == 200, "as it was for all else"
    database.close()


def test_threads_write_one_after_the_other(tmp_path: Path, other: sqlite3.Connection) -> None:
    database = opened(tmp_path)
    writers = [
        threading.Thread(target=lambda: [database.write(lambda c: c.execute(ADD)) for _ in range(10)]) for _ in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert other.execute("SELECT count(*) FROM t").fetchone() == (80,)
    database.close()
