"""A commit whose connection is lost, and many processes that write to one table."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import (
    ConflictError,
    LocationNotFoundError,
    MetastoreUnavailableError,
    StagedFileMissingError,
    TransactionStateError,
)
from catalog_ext.metastore.hive.outbox.delivery import Deliverer
from catalog_ext.metastore.index import Index
from catalog_ext.metastore.storage.store import Storage
from tests.faults.scenarios import OVERWRITE
from tests.kit.index_cases import empty_index
from tests.kit.write_cases import Stand, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.metastore.hive.thrift.hive_metastore import HiveMetastore

PROCESSES = 8
WRITES = 3


@pytest.fixture(params=["sqlite", "postgres"])
def index_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        (tmp_path / "index.db").write_bytes(empty_index())
        return f"sqlite:///{tmp_path}/index.db?timeout=60"
    url: str = request.getfixturevalue("postgres_index_url")
    return url


class LostAnswers:
    """Loses the connection of the next commit that follows a statement on ``transactions`` with a given state."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._admin = sa.create_engine(url)
        self._armed: tuple[str, bool] | None = None
        self.lost = 0
        dialect = self._admin.dialect.__class__
        original = dialect.do_commit
        lost = self

        def do_commit(dialect: object, connection: object) -> None:
            lost.strike(connection, lambda: original(dialect, connection))  # type: ignore[arg-type]

        monkeypatch.setattr(dialect, "do_commit", do_commit)
        sa.event.listen(sa.Engine, "before_cursor_execute", self._seen)
        self._wanted = False

    def arm(self, state: State, *, committed: bool) -> None:
        """At the commit that makes a transaction ``state``: lose the answer, or (not ``committed``) the request."""
        self._armed = (str(state), committed)

    def _seen(self, *event: object) -> None:
        statement, parameters = str(event[2]), str(event[3])
        if self._armed and statement.startswith("UPDATE transactions SET") and f"'{self._armed[0]}'" in parameters:
            self._wanted = True

    def strike(self, connection: object, commit: Callable[[], None]) -> None:
        if not (self._wanted and self._armed):
            commit()
            return
        _, committed = self._armed
        self._armed, self._wanted = None, False
        self.lost += 1
        driver = connection.dbapi_connection  # type: ignore[attr-defined]
        backend = driver.info.backend_pid
        if committed:
            commit()
        with self._admin.connect() as admin:
            assert admin.execute(sa.text(f"SELECT pg_terminate_backend({backend}, 5000)")).scalar()
        # The server has closed the connection: this is the error that its user gets.
        driver.execute("SELECT 1")

    def close(self) -> None:
        sa.event.remove(sa.Engine, "before_cursor_execute", self._seen)
        self._admin.dispose()


@pytest.fixture
def lost_answers(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LostAnswers]:
    lost = LostAnswers(postgres_url, monkeypatch)
    yield lost
    lost.close()


def test_a_connection_that_is_lost_at_commit(postgres_url: str, tmp_path: Path, lost_answers: LostAnswers) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        cases = [(state, committed) for state in (State.RESERVED, State.COMMITTED) for committed in (True, False)]
        for number, (state, committed) in enumerate(cases):
            location = tmp_path / f"{number}"
            stand = Stand(index, options={"unknown_timeout_s": 60.0})
            OVERWRITE.prepare(stand, location)
            lost_answers.arm(state, committed=committed)
            assert OVERWRITE.write(stand, location) == "success"
            assert lost_answers.lost == number + 1
            OVERWRITE.check(stand, "success")
            assert stand.table().version == 2, "it is committed once"
            index.tables.drop(stand.table().identifier, deliver=False)


def test_commit_without_an_answer_is_unknown(postgres_url: str, tmp_path: Path, lost_answers: LostAnswers) -> None:
    with Index.open(postgres_url, migrate=True) as index:
        for committed in (True, False):
            location = tmp_path / f"{committed}"
            stand = Stand(index)
            OVERWRITE.prepare(stand, location)
            lost_answers.arm(State.COMMITTED, committed=committed)
            assert OVERWRITE.write(stand, location) == "unknown"
            assert stand.rows() == (OVERWRITE.after if committed else OVERWRITE.before)
            assert stand.engine.recover(older_than_s=0).failed == ()
            assert stand.rows() == OVERWRITE.after
            OVERWRITE.check(stand, "success")
            index.tables.drop(stand.table().identifier, deliver=False)


def write_many(url: str, number: int) -> None:
    """Appends to one partition, and overwrites one of its own and one that all processes overwrite, so many times."""
    won = 0
    with Index.open(url) as index:
        stand = Stand(index, Storage(), {"unknown_timeout_s": 60.0})
        for n in range(WRITES):
            stand.write({"k=0": f"{number}-{n}\n"})
            stand.write({f"k={number}": f"{n}\n"}, WriteKind.OVERWRITE_PARTITIONS)
            try:
                stand.write({"k=100": f"{number}-{n}\n"}, WriteKind.OVERWRITE_PARTITIONS)
            except ConflictError:
                continue
            won += 1
    os._exit(won)


def test_many_processes_write_to_one_table(index_url: str, tmp_path: Path) -> None:
    with Index.open(index_url) as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.faults.writer"])
        processes = [context.Process(target=write_many, args=(index_url, n)) for n in range(1, PROCESSES + 1)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(300)
        codes = [process.exitcode for process in processes]
        assert all(code is not None and 0 <= code <= WRITES for code in codes), codes
        won = sum(code or 0 for code in codes)
        assert won >= 1
        rows = stand.rows()
        expected = sorted(f"{p}-{n}" for p in range(1, PROCESSES + 1) for n in range(WRITES))
        assert sorted(rows["k=0"].split()) == expected
        assert {rows[f"k={p}"] for p in range(1, PROCESSES + 1)} == {f"{WRITES - 1}\n"}
        assert rows["k=100"].strip() in expected
        assert stand.listed() == rows
        assert stand.strays() == []
        table = stand.table()
        assert table.version == 2 * PROCESSES * WRITES + won
        assert [v.version for v in index.tables.history(table.identifier)] == list(range(table.version, -1, -1))
        assert (table.totals.files, table.totals.rows) == (PROCESSES * WRITES + PROCESSES + 1,) * 2
        states = {t.state for t in index.transactions.all()}
        assert states <= {State.FINISHED, State.ABORTED}


def test_a_recoverer_that_takes_every_writer_for_dead(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(empty_index())
    with Index.open(f"sqlite:///{tmp_path}/index.db?timeout=60") as index:
        stand = Stand(index)
        stand.create(definition(tmp_path / "t"))
        stop = threading.Event()

        def write(number: int) -> dict[str, str]:
            reported: dict[str, str] = {}
            for n in range(8):
                kind = WriteKind.OVERWRITE_PARTITIONS if number == 0 else WriteKind.APPEND
                content = f"{number}-{n}"
                try:
                    stand.write({"k=0": f"{content}\n", f"k={number + 1}": f"{content}\n"}, kind)
                    reported[content] = "success"
                except (TransactionStateError, ConflictError, StagedFileMissingError, LocationNotFoundError):
                    # The last one is a task's, whose directory is removed under its feet.
                    reported[content] = "failure"
            return reported

        def recover() -> None:
            while not stop.is_set():
                report = stand.engine.recover(older_than_s=0)
                assert report.failed == (), report.failed

        with ThreadPoolExecutor(4) as pool:
            recoverer = pool.submit(recover)
            try:
                reported = dict(pair for result in pool.map(write, range(3)) for pair in result.items())
            finally:
                stop.set()
            recoverer.result()
        recover_at_last = stand.engine.recover(older_than_s=0)
        assert recover_at_last.failed == ()
        won = {content for content, outcome in reported.items() if outcome == "success"}
        assert won, "no write succeeded"
        rows = stand.rows()
        for number in (1, 2):
            mine = sorted(content for content in won if content.startswith(f"{number}-"))
            assert rows.get(f"k={number + 1}", "").split() == mine, "each append that was acknowledged is there once"
        assert set(rows.get("k=0", "").split()) <= won
        assert stand.listed() == rows
        # A task that was still writing when its transaction was undone may have left a hidden file.
        assert all(path.startswith("_catalog_ext_staging") for path in stand.strays())
        assert stand.engine.vacuum(stand.table(), -60).failed == ()
        assert stand.strays() == []


def test_metastore_that_was_away_gets_its_messages_later(tmp_path: Path) -> None:
    (tmp_path / "index.db").write_bytes(empty_index())

    def gone() -> HiveMetastore:
        raise MetastoreUnavailableError("The metastore is gone.")

    with Index.open(str(tmp_path / "index.db")) as index:
        deliverer = Deliverer(index.outbox, gone)
        stand = Stand(index, options={"deliver": lambda _: True, "publish": lambda _: deliverer.deliver(timeout_s=5.0)})
        stand.create(definition(tmp_path / "t"))
        outcome = stand.write({"k=1": "1\n"})
        assert (outcome.version, outcome.pending_deliveries) == (1, 1)
        assert stand.rows() == {"k=1": "1\n"}
        assert [m.operation for m in index.outbox.pending()] == ["sync_partitions"]
        assert stand.write({"k=2": "2\n"}).pending_deliveries == 2
        with armed("apply.after", "error"):
            assert OVERWRITE.write(stand, tmp_path / "t") == "unknown"
        stand.engine.recover(older_than_s=0)
        assert [m.operation for m in index.outbox.pending()] == ["sync_partitions"] * 3
