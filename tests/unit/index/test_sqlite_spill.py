"""Many rows of a SQLite index are spilled to a private file and read by ADBC, with the index's locks kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from catalog_ext.metastore.errors import IndexUnavailableError, TableNotFoundError
from catalog_ext.metastore.index.database import arrow_rows
from catalog_ext.metastore.index.database.schema import PARTITION_NUMBER_BITS
from catalog_ext.metastore.index.read.marked_rows import Check
from catalog_ext.metastore.index.read.planned_files import PLAN_SCHEMA, plan_statement
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.predicates.tree import And, Comparison, In, Not, Operator
from tests.kit.index_cases import create, local_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def test_spilled_rows_are_those_that_the_driver_gives(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_lists_are_spilled_as_the_driver_gets_them(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    predicate: Predicate | None, ids: range | None,
) -> None:  # fmt: skip
    monkeypatch.setattr(arrow_rows, "FEW_ROWS", 10)
    first = table.table_id << PARTITION_NUMBER_BITS
    statement, exact = plan_statement("sqlite", table, predicate, ids=None if ids is None else [first + i for i in ids])
    assert exact
    there, here = (_planned(index, table, statement, spills=spills) for spills in (True, False))
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
def test_spilled_values_keep_their_types(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(arrow_rows, "FEW_ROWS", 1)
    kind, shown = sa.func.typeof(value), sa.func.hex(value)
    n = sa.select(sa.literal_column("1").label("x")).union_all(sa.select(sa.literal_column("2"))).subquery()
    schema = pa.schema([("kind", pa.string()), ("shown", pa.string()), ("x", pa.int64())])
    statement = sa.select(kind, shown, n.c.x)
    there, here = (
        arrow_rows.stream(
            index._database, statement, schema, lambda batch: batch, lambda: None, spills=spills
        ).read_all()
        for spills in (True, False)
    )
    assert there.to_pylist() == here.to_pylist()
    assert there.num_rows == 2


def _planned(index: Index, table: Table, statement: arrow_rows.Query, *, spills: bool) -> pa.Table:
    check = Check(table, None)
    rows = arrow_rows.stream(index._database, statement, PLAN_SCHEMA, check.step, check.finish, spills=spills)
    return rows.read_all().sort_by("partition_id").combine_chunks()


def test_a_write_transaction_of_this_process_keeps_its_lock(index: Index, table: Table) -> None:
    other = f"import sqlite3; sqlite3.connect({index._database.url.database!r}, timeout=0).execute('BEGIN IMMEDIATE')"

    def write(connection: sa.Connection) -> None:
        connection.execute(sa.text("UPDATE tables SET version = version"))
        assert index.files.plan(table, None).read_all().num_rows == COUNT
        tried = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, check=False)
        assert "database is locked" in tried.stderr

    index._database.write(write)


def test_few_rows_and_enough_rows_are_not_spilled(index: Index, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def spilled(*_: object) -> None:
        raise AssertionError("rows were spilled")

    monkeypatch.setattr(arrow_rows, "spill_file", spilled)
    assert index.files.plan(table, Comparison(Operator.EQ, "n", 7)).read_all().num_rows == 1
    assert 0 < index.files.plan(table, None, rows=5).read_all().num_rows < 20
    for rows in (None, 1 << 60):
        with pytest.raises(AssertionError, match="rows were spilled"):
            index.files.plan(table, None, rows=rows)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), (None, 2**63 - 1, -(2**63), 0)),
        (pa.string(), (None, "", "\x00", "a\x00'\"\n\U0010ffff", "7")),
        (pa.int64(), (None, None)),
        (pa.string(), (None, None)),
    ],
    ids=["numbers", "texts", "no-number", "no-text"],
)
def test_spilled_values_are_exact(
    index: Index, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType, values: tuple[Any, ...]
) -> None:
    monkeypatch.setattr(arrow_rows, "FEW_ROWS", 1)
    column = sa.Text() if kind == pa.string() else sa.BigInteger()
    rows = sa.union_all(*(sa.select(sa.literal(value, column)) for value in values))
    schema = pa.schema([("x", kind)])
    read = arrow_rows.stream(index._database, rows, schema, lambda batch: batch, lambda: None, spills=True).read_all()
    assert read == pa.table({"x": values}, schema)


def test_a_spilled_result_holds_no_connection_and_leaves_no_file(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    modes = []
    read = arrow_rows.read_spilled

    def noted(file: Path, *rest: Any) -> Iterator[pa.RecordBatch]:
        modes.append((file.parent, file.stat().st_mode & 0o777))
        return read(file, *rest)

    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path))
    monkeypatch.setattr(arrow_rows, "read_spilled", noted)
    monkeypatch.setattr(arrow_rows, "BATCH_ROWS", 500)
    reader = index.files.plan(table, None)
    assert reader.read_next_batch().num_rows > 0
    assert (modes, list(tmp_path.iterdir()), index.pool.in_use) == ([(tmp_path, 0o600)], [], 0)
    reader.close()
    monkeypatch.setattr(arrow_rows, "read_spilled", lambda *_: iter(()))
    with pytest.raises(TableNotFoundError):
        index.files.plan(table, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("full", [True, False], ids=["full", "absent"])
def test_without_room_the_driver_reads_the_rows(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path,
    full: bool,
) -> None:  # fmt: skip
    monkeypatch.setenv("SQLITE_TMPDIR", str(tmp_path if full else tmp_path / "absent"))
    with monkeypatch.context() as patched:
        if full:
            patched.setattr(arrow_rows, "_PRAGMAS", ("max_page_count = 3",))
        assert index.files.plan(table, None).read_all().num_rows == COUNT
    assert ("database or disk is full" if full else "No such file or directory") in caplog.text
    caplog.clear()
    monkeypatch.delenv("SQLITE_TMPDIR")
    assert index.files.plan(table, None).read_all().num_rows == COUNT
    assert not caplog.records


@pytest.mark.parametrize("variable", ["SQLITE_TMPDIR", "TMPDIR"])
def test_the_driver_reads_the_rows_if_the_temporary_directory_is_not_utf8(
    index: Index, table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path,
    variable: str,
) -> None:  # fmt: skip
    """SQLite takes paths as UTF-8 text; Python keeps the other bytes of a path as lone surrogates."""
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    monkeypatch.delenv("SQLITE_TMPDIR", raising=False)
    monkeypatch.setenv(variable, str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert index.files.plan(table, None).read_all().num_rows == COUNT
    assert "not UTF-8" in caplog.text
    assert list(folder.iterdir()) == []


def test_a_spilled_file_that_breaks_is_an_error(index: Index, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    spill = arrow_rows.spill

    def broken(connection: sa.Connection, query: arrow_rows.SentQuery, schema: pa.Schema, file: Path) -> None:
        spill(connection, query, schema, file)
        os.truncate(file, file.stat().st_size // 2)

    monkeypatch.setattr(arrow_rows, "spill", broken)
    with pytest.raises(IndexUnavailableError, match=r"copied to .* cannot be read"):
        index.files.plan(table, None).read_all()
