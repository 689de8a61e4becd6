"""Many rows of a SQLite index come from another process: the same rows, and no lock of this process is lost by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexDatabaseError, IndexUnavailableError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.schema import PARTITION_NUMBER_BITS
from catalog_ext.metastore.index.read.marked_rows import Check
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA, plan_statement
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import And, Comparison, In, Not, Operator
from tests.index_cases import create, local_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

COUNT = arrow_rows.FEW_ROWS + 1500


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    with local_index(tmp_path_factory.mktemp("readers")) as made:
        yield made


@pytest.fixture(scope="module")
def table(index: Index) -> Table:
    made = create(index, keys={"k": "string", "n": "int"})
    changes = [
        AddPartition(
            f"k=é'{i % 7}/n={i}",
            (DataFile(f'part "{i}"\n.parquet', i, i, None if i % 3 else i),),
            location="file:///elsewhere" if i == COUNT - 1 else None,
        )
        for i in range(COUNT)
    ]
    index.commits.apply_changes(made.table_id, changes, operation="x", deliver=False)
    return index.tables.load(made.identifier)


def test_it_gives_the_rows_that_the_driver_gives(index: Index, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = index.query_count
    for predicate in (None, Comparison(Operator.GE, "n", 500), In("k", ("é'1", "é'2", "é'3", "é'4", "é'5"))):
        there = index.files.plan(table, predicate).read_all()
        with monkeypatch.context() as patched:
            patched.setattr(arrow_rows, "FEW_ROWS", 1 << 30)
            assert index.files.plan(table, predicate).read_all().sort_by("partition_id") == there.sort_by(
                "partition_id"
            )
        assert there.num_rows > arrow_rows.FEW_ROWS
    assert index.query_count - before == 6


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (In("n", tuple(range(100, 1100))), None),
        (Not(In("n", tuple(range(300)))), None),
        (And((In("k", ("é'1", "é'2")), Not(In("n", tuple(range(300)))))), None),
        (None, range(1000)),
    ],
    ids=["in", "not-in", "both", "partitions"],
)
def test_lists_reach_it_as_the_driver_gets_them(
    index: Index, table: Table, caplog: pytest.LogCaptureFixture, predicate: Predicate | None, ids: range | None
) -> None:
    first = table.table_id << PARTITION_NUMBER_BITS
    statement, exact = plan_statement("sqlite", table, predicate, ids=None if ids is None else [first + i for i in ids])
    assert exact
    there, here = (_planned(index, table, statement, elsewhere=elsewhere) for elsewhere in (True, False))
    assert there == here
    assert there.num_rows > 100
    assert not caplog.records


@pytest.mark.parametrize(
    "value",
    [
        sa.literal(True), sa.literal(7), sa.literal(1.5), sa.literal(date(2025, 1, 31)), sa.literal("é\x00'"),
        sa.literal(Decimal("1.5"), sa.Numeric(5, 2)), sa.literal(["a", 1], sa.JSON), sa.literal(b"\xff"),
        sa.literal(None, sa.Text), sa.literal(datetime(2025, 1, 31, 1, 2, 3)),
    ],
    ids=lambda value: type(value.value).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Dialect sqlite:sqlalchemy.exc.SAWarning")
def test_values_of_every_type_are_the_same_there(index: Index, table: Table, value: Any) -> None:
    kind, shown = sa.func.typeof(value), sa.func.hex(value)
    n = sa.select(sa.literal_column("1").label("x")).union_all(sa.select(sa.literal_column("2"))).subquery()
    schema = pa.schema([("kind", pa.string()), ("shown", pa.string()), ("x", pa.int64())])
    statement = sa.select(kind, shown, n.c.x)
    there, here = (
        arrow_rows.stream(
            index._database, statement, schema, lambda batch: batch, lambda: None, elsewhere=elsewhere, few_rows=1
        ).read_all()
        for elsewhere in (True, False)
    )
    assert there.to_pylist() == here.to_pylist()
    assert there.num_rows == 2


def _planned(index: Index, table: Table, statement: arrow_rows.Query, *, elsewhere: bool) -> pa.Table:
    check = Check(table, None)
    rows = arrow_rows.stream(
        index._database, statement, PLAN_SCHEMA, check.step, check.finish, elsewhere=elsewhere, few_rows=10
    )
    return rows.read_all().sort_by("partition_id").combine_chunks()


def test_few_rows_start_no_process(index: Index, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    _readers(index).close()
    monkeypatch.setattr(subprocess, "Popen", started)
    assert index.files.plan(table, Comparison(Operator.EQ, "n", 7)).read_all().num_rows == 1
    with pytest.raises(AssertionError, match="a process was started"):
        index.files.plan(table, None)


def test_a_write_transaction_of_this_process_keeps_its_lock(index: Index, table: Table) -> None:
    other = f"import sqlite3; sqlite3.connect({index._database.url.database!r}, timeout=0).execute('BEGIN IMMEDIATE')"

    def write(connection: sa.Connection) -> None:
        connection.execute(sa.text("UPDATE tables SET version = version"))
        assert index.files.plan(table, None).read_all().num_rows == COUNT
        _readers(index).close()
        tried = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
        assert "database is locked" in tried.stderr

    index._database.write(write)


def test_one_that_has_ended_is_replaced(index: Index, table: Table) -> None:
    assert index.files.plan(table, None).read_all().num_rows == COUNT
    waiting = _readers(index)._idle.queue
    assert waiting
    for process in waiting:
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert index.files.plan(table, None).read_all().num_rows == COUNT


def test_one_that_ends_before_the_rows_do_is_an_error(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    readers = _readers(index)
    readers.close()
    start: Callable[[], Any] = readers._started
    started: list[Any] = []

    def recorded() -> Any:
        started.append(start())
        return started[-1]

    monkeypatch.setattr(readers, "_started", recorded)
    # More than the pipe between the two holds.
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000000) SELECT x FROM n"
    batches = readers.read(numbers, [])
    assert next(batches).num_rows > 0
    os.kill(started[0].pid, signal.SIGKILL)
    with pytest.raises(IndexUnavailableError, match="ended before it had given all rows"):
        list(batches)


@pytest.fixture
def impatient(index: Index, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The index's readers, of which the next one must answer in a second."""
    readers = _readers(index)
    readers.close()
    monkeypatch.setattr(readers, "_timeout_s", 30.0)
    list(readers.read("SELECT 1", []))
    (process,) = readers._idle.queue
    monkeypatch.setattr(process, "_timeout_s", 1.0)
    monkeypatch.setattr(process.answers.raw, "_timeout_s", 1.0)
    return readers


def test_one_that_is_stopped_is_killed_and_its_rows_are_read_here(
    index: Index, table: Table, impatient: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (process,) = impatient._idle.queue
    os.kill(process.pid, signal.SIGSTOP)
    assert index.files.plan(table, None).read_all().num_rows == COUNT
    assert "gave no sign of life" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
    assert impatient._idle.empty()


def test_one_that_is_stopped_does_not_take_a_long_query(impatient: Any) -> None:
    (process,) = impatient._idle.queue
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(IndexUnavailableError, match="gave no sign of life"):
        list(impatient.read("SELECT ?", ["x" * 1_000_000]))


def test_one_that_is_stopped_amid_the_rows_is_an_error(impatient: Any) -> None:
    (process,) = impatient._idle.queue
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 2000000) SELECT x FROM n"
    batches = impatient.read(numbers, [])
    assert next(batches).num_rows > 0
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(IndexUnavailableError, match="gave no sign of life"):
        list(batches)


def test_a_long_query_and_its_rows_pass_whole(index: Index) -> None:
    text = "é" * 1_000_000
    (batch,) = _readers(index).read("SELECT ? AS x", [text])
    assert batch.column("x").to_pylist() == [text]


def test_a_limit_starts_no_process_where_the_first_files_are_enough(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    _readers(index).close()
    monkeypatch.setattr(subprocess, "Popen", started)
    assert 0 < index.files.plan(table, None, rows=5).read_all().num_rows < 20
    with pytest.raises(AssertionError, match="a process was started"):
        index.files.plan(table, None, rows=1 << 60)


def test_what_sqlite_refuses_is_an_error_with_its_words(index: Index) -> None:
    with pytest.raises(IndexDatabaseError, match="no such table: absent"):
        list(_readers(index).read("SELECT * FROM absent", []))


def _readers(index: Index) -> Any:
    return index._database.sqlite_readers


SLOW = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n LIMIT 8000000) "
    "SELECT x FROM n WHERE {early} OR x > 7999990"
)


@pytest.mark.parametrize("early", ["x <= 20000", "x < 0"], ids=["amid the rows", "before the first"])
def test_one_that_is_at_work_is_waited_for(impatient: Any, early: str) -> None:
    """It looks for the next rows for longer than a stopped one would be waited for."""
    assert sum(batch.num_rows for batch in impatient.read(SLOW.format(early=early), [])) % 20000 == 10


def test_one_that_does_not_end_hides_no_other_error(impatient: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (process,) = impatient._idle.queue

    def waits(_: float) -> None:
        raise subprocess.TimeoutExpired("reader", 5)

    os.kill(process.pid, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(process._process, "wait", waits)
        with pytest.raises(IndexUnavailableError, match="gave no sign of life"):
            list(impatient.read("SELECT ?", ["x" * 1_000_000]))
    assert process._process.wait(60) == -signal.SIGKILL


def test_a_forked_child_has_none_of_its_parents(index: Index) -> None:
    readers = _readers(index)
    assert list(readers.read("SELECT 1 AS x", []))
    (process, *_) = readers._idle.queue
    child = os.fork()
    if not child:
        # Nothing of the tests' runner is to go on in it, whatever happens.
        signal.alarm(60)
        code = 1
        try:
            alone = readers._idle.empty() and process._process.stdin.closed
            (batch,) = readers.read("SELECT 2 AS x", [])
            readers.close()
            code = 0 if alone and batch.column("x").to_pylist() == [2] else 1
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    (batch,) = readers.read("SELECT 3 AS x", [])
    assert batch.column("x").to_pylist() == [3]
    assert process in readers._idle.queue
