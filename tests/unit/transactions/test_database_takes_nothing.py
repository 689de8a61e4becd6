"""Databases that are full or read-only for a while: a write that was decided waits, and is finished afterwards."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import CommitStateUnknownError, IndexUnavailableError
from catalog_ext.metastore.index.database.failures import as_ours, is_refused_for_good
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.kit.index_cases import local_index, taking_nothing
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FULL, READ_ONLY = "has no room left", "can be read and not written"
SWITCHES = {FULL: "PRAGMA max_page_count = 1", READ_ONLY: "PRAGMA query_only = 1"}


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with local_index(tmp_path) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.write({"k=1": "1\n"})
        yield stand


@contextlib.contextmanager
def at(stand: Stand, point: str, statement: str) -> Iterator[None]:
    """Let the database take nothing from a point of the protocol on, until the end of the block."""
    with taking_nothing(stand.index, statement) as begin, armed(point, lambda _: begin()):
        yield


def many(first: str) -> dict[str, str]:
    """Content of partitions whose rows take more than the pages that a database has left."""
    return {"k=1": first, **{f"k={number}": f"{number}\n" for number in range(2, 200)}}


@pytest.mark.slow
@pytest.mark.parametrize("words", [FULL, READ_ONLY])
@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE_PARTITIONS])
def test_a_decided_write_waits_and_is_finished(stand: Stand, words: str, kind: WriteKind) -> None:
    with at(stand, "apply.before", SWITCHES[words]):
        with pytest.raises(CommitStateUnknownError, match=words) as unknown:
            stand.write(many("2\n"), kind)
        assert unknown.value.parameters["ask_again"] == "true"
        (waiting,) = stand.index.transactions.all(states=[State.RESERVED])
        # One that cannot even claim a transaction says so; one that can reports it.
        with contextlib.suppress(IndexUnavailableError):
            (failed,) = stand.engine.recover(older_than_s=0).transactions
            assert failed.action is RecoveryAction.FAILED
        assert stand.rows() == {"k=1": "1\n"}
    assert stand.index.transactions.load(waiting.transaction_id).state is State.RESERVED
    (finished,) = stand.engine.recover(older_than_s=0).transactions
    assert finished.action is RecoveryAction.FINISHED
    assert stand.rows() == stand.listed() == many("2\n" if kind is not WriteKind.APPEND else "1\n2\n")
    assert stand.strays() == []


@pytest.mark.parametrize("words", [FULL, READ_ONLY])
def test_an_undecided_write_says_so_and_leaves_nothing(stand: Stand, words: str) -> None:
    with at(stand, "stage.before", SWITCHES[words]), pytest.raises(IndexUnavailableError, match=words):
        stand.write(many("2\n"))
    stand.engine.recover(older_than_s=0)
    assert stand.rows() == stand.listed() == {"k=1": "1\n"}
    assert stand.strays() == []


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (psycopg.errors.DiskFull("could not extend file: No space left on device"), FULL),
        (psycopg.errors.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"), READ_ONLY),
        (pymysql.err.OperationalError(1114, "The table 'files' is full"), FULL),
        (pymysql.err.OperationalError(1021, "Disk full (/tmp); waiting for someone to free some space..."), FULL),
        (pymysql.err.InternalError(3, "Error writing file (errno: 28 'No space left on device')"), FULL),
        (pymysql.err.OperationalError(1030, "Got error 28 \"No space left on device\" from storage engine"), FULL),
        (pymysql.err.OperationalError(1290, "The server is running with the --read-only option"), READ_ONLY),
        (pymysql.err.OperationalError(1792, "Cannot execute statement in a READ ONLY transaction"), READ_ONLY),
        (pymysql.err.InternalError(1836, "Running in read-only mode"), READ_ONLY),
        (sqlite3.OperationalError("disk I/O error"), "Check whether the disk is full"),
    ],
)  # fmt: skip
def test_what_servers_say(error: Exception, words: str) -> None:
    kind = getattr(sa.exc, type(error).__mro__[1].__name__, sa.exc.OperationalError)
    ours = as_ours(kind("UPDATE t", {}, error), "db")
    assert isinstance(ours, IndexUnavailableError)
    assert words in ours.message
    assert not is_refused_for_good(ours)
