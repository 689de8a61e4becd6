"""What an index database that is locked, gone, broken or not one gets."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    CommitStateUnknownError,
    EnvironmentSetupError,
    IndexDatabaseError,
    IndexUnavailableError,
    InvalidConfigurationError,
)
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database import urls as urls_module
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import Namespace
from catalog_ext.metastore.transactions.reports import RecoveryAction
from tests.kit.index_cases import create, data_files, listed_names, taking_nothing
from tests.kit.write_cases import Stand, definition
from tests.servers.databases import end_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.databases import DatabaseServer


def test_a_locked_file(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with Index.open(f"sqlite:///{path}?timeout=0.2") as index:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(IndexUnavailableError, match=r"index\.db.* is locked by another process") as raised:
            index.namespaces.create(Namespace("a"), deliver=False)
        assert raised.value.retryable
        assert index.namespaces.all() == []
        other.execute("ROLLBACK")
        other.close()
        index.namespaces.create(Namespace("a"), deliver=False)


def test_files_that_are_no_index(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to be looked at " * 50)
    with pytest.raises(IndexDatabaseError, match=r"text\.db"):
        Index.open(str(text))
    with pytest.raises(IndexUnavailableError, match=str(tmp_path)):
        Index.open(str(tmp_path))
    with pytest.raises(InvalidConfigurationError, match="cannot be made"):
        Index.open(str(text / "below" / "index.db"))


def test_table_row_removed_by_another_program_is_not_found(tmp_path: Path) -> None:
    with Index.open(str(tmp_path / "index.db")) as index:
        other = sqlite3.connect(tmp_path / "index.db")
        other.execute("DROP TABLE namespaces")
        other.commit()
        other.close()
        with pytest.raises(IndexDatabaseError, match="no such table") as raised:
            index.namespaces.all()
        assert not raised.value.retryable


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql+pymysql", "mariadb+pymysql"])
def test_a_server_that_does_not_answer(scheme: str) -> None:
    with pytest.raises(IndexUnavailableError, match=r"127\.0\.0\.1:9/") as raised:
        Index.open(f"{scheme}://user:s3cret@127.0.0.1:9/db")
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_wrong_password(request: pytest.FixtureRequest, kind: str) -> None:
    right = sa.make_url(request.getfixturevalue(f"{kind}_url"))
    wrong = right.set(password="wr0ng").render_as_string(hide_password=False)
    with pytest.raises(IndexUnavailableError, match=r"cannot be reached or used.*credentials") as raised:
        Index.open(wrong)
    assert "wr0ng" not in str(raised.value)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_database_that_goes_away_and_one_that_restarts_connections(request: pytest.FixtureRequest, kind: str) -> None:
    server: DatabaseServer = request.getfixturevalue(f"{kind}_server")
    url = server.create_database()
    with Index.open(url, migrate=True) as index:
        index.namespaces.create(Namespace("a"), deliver=False)
        end_sessions(url)
        assert index.namespaces.all() == ["a"], "a pooled connection that died is replaced"
        server.drop_database(url)
        with pytest.raises(IndexDatabaseError) as raised:
            index.namespaces.all()
        assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    ("kind", "switch"),
    [("postgres", "SET default_transaction_read_only = on"), ("mariadb", "SET SESSION TRANSACTION READ ONLY")],
)
def test_a_server_that_takes_no_writes_for_a_while(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, switch: str
) -> None:
    with Index.open(request.getfixturevalue(f"{kind}_index_url")) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stand.write({"k=1": "1\n"})
        with taking_nothing(index, switch) as begin, armed("apply.before", lambda _: begin()):
            with pytest.raises(CommitStateUnknownError, match="can be read and not written"):
                stand.write({"k=1": "2\n"}, WriteKind.OVERWRITE_PARTITIONS)
            with pytest.raises(IndexUnavailableError, match="can be read and not written") as raised:
                index.namespaces.create(Namespace("a"), deliver=False)
            assert raised.value.retryable
            with pytest.raises(IndexUnavailableError):
                stand.engine.recover(older_than_s=0)
            assert stand.rows() == {"k=1": "1\n"}
        (finished,) = stand.engine.recover(older_than_s=0).transactions
        assert finished.action is RecoveryAction.FINISHED
        assert stand.rows() == stand.listed() == {"k=1": "2\n"}
        assert stand.strays() == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("oracle://host/db", "cannot be kept in a database of the kind 'oracle'"),
        ("postgresql+asyncpg://host/db", "postgresql\\+asyncpg"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("", "empty"),
        ("http//nothing://", "cannot be read|cannot be kept"),
    ],
)
def test_urls_that_are_none(url: str, words: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=words):
        Index.open(url)


def test_a_missing_driver_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls_module, "find_spec", lambda _: None)
    with pytest.raises(EnvironmentSetupError, match=r"pip install 'catalog-ext\[mysql\]'"):
        Index.open("mysql://host/db")


def test_a_relative_path_and_a_url_are_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Index.open("sub/index.db") as one, Index.open("sqlite:///sub/index.db") as other:
        one.namespaces.create(Namespace("a"), deliver=False)
        assert other.namespaces.all() == ["a"]


_OPEN_AND_COMMIT = """
import sys
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.model.identifiers import TableIdentifier
with Index.open(sys.argv[1]) as index:
    table = index.tables.load(TableIdentifier("s", "t"))
    for i in range(10):
        changes = [AddPartition(f"k={sys.argv[2]}-{i}", ())]
        index.commits.apply_changes(table.table_id, changes, operation="x", deliver=False)
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "index.db")
    with Index.open(path) as index:
        table = create(index, keys={"k": "string"})
        processes = [
            subprocess.Popen([sys.executable, "-c", _OPEN_AND_COMMIT, path, str(i)], stderr=subprocess.PIPE)
            for i in range(2)
        ]
        for i in range(10):
            index.commits.apply_changes(
                table.table_id, [AddPartition(f"k=here-{i}", data_files(1))], operation="x", deliver=False
            )
        for process in processes:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 0, errors
        loaded = index.tables.load(table.identifier)
        assert loaded.version == loaded.totals.partitions == len(listed_names(index, loaded)) == 30


def test_threads_that_open_a_new_file_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            with Index.open(str(tmp_path / "new" / "index.db")) as index:
                index.namespaces.all()
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
