"""An index with a key of every type, its partitions, and random predicates over them."""

from __future__ import annotations

import contextlib
import math
import random
import sqlite3
import tempfile
import threading
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from hypothesis import strategies as st
from sqlalchemy.util import LRUCache

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database import migration
from catalog_ext.metastore.model.alterations import with_properties
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.partition_names import DEFAULT_PARTITION, escape_path_name
from catalog_ext.metastore.model.tables import Column, DataFile, Namespace, Table, TableDefinition, TableType
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.model.values import Value, value_text
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Match,
    Not,
    Operator,
    Or,
    Predicate,
    StringMatch,
)
from tests.kit.sums import checked_at_close

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine.interfaces import DBAPIConnection

    from catalog_ext.metastore.index.database.database import Database


_LONG = "ü" * 126  # 252 bytes: one more character of two bytes is kept, one of four is cut
STRINGS = (
    "", " ", "a", "A", "a ", "ab", "abc", "b", "%", "_", "a%b", "\\", "x'y\"z; DROP TABLE files --", "\x00", "\x00a",
    "\x01", "\x01\x01", "\x02", "\t", "é", "e\u0301", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff",
    _LONG, f"{_LONG}a", f"{_LONG}ab", f"{_LONG}é", f"{_LONG}éa", f"{_LONG}\uffff", f"{_LONG}\U00010000",
    f"{_LONG}\U00010000x",
    "z" * 251, "z" * 252, "z" * 254, "z" * 255, "z" * 256, "z" * 300,
)  # fmt: skip
POOLS: dict[str, tuple[Value, ...]] = {
    "string": (None, *STRINGS),
    "int": (None, 0, 1, -1, 7, 12, 100, -7, -12, 2**31 - 1, -(2**31)),
    "date": (None, date(1, 1, 1), date(1969, 12, 31), date(2025, 1, 31), date(2025, 2, 1), date(9999, 12, 31)),
    "decimal(38,10)": (
        None, *map(Decimal, (
            "0.0000000000", "0.5000000000", "-0.5000000000", "12.3456789012",
            "-9999999999999999999999999999.9999999999",
            "9999999999999999999999999999.9999999998", "9999999999999999999999999999.9999999999",
        )),
    ),
    "double": (None, 0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan),
    "boolean": (None, True, False),
    "timestamp": (
        None, datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2025, 1, 1, 10, 0, 0, 5),
    ),
    "char(5)": (None, "", "a", "a  b", "Z", "éèàùç"),
    "bigint": (None, 2**63 - 1, -(2**63), 5, 6),
}  # fmt: skip
KEY_TYPES = {
    "s": "string", "i": "int", "d": "date", "m": "decimal(38,10)", "f": "double", "b": "boolean", "t": "timestamp",
    "c": "char(5)", "s9": "string", "l10": "bigint",
}  # fmt: skip
"""Two keys more than the index has columns for."""


@cache
def empty_index() -> bytes:
    """A SQLite index at head, made once: migrating takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.db"
        Index.open(str(path)).close()
        return path.read_bytes()


def local_index(folder: Path) -> Index:
    """The index in the folder, which is made at head when it is not there."""
    path = folder / "index.db"
    if not path.exists():
        path.write_bytes(empty_index())
    return Index.open(str(path))


@contextlib.contextmanager
def taking_nothing(index: Index, statement: str) -> Iterator[Callable[[], None]]:
    """Give what makes each of an index's connections run a statement, after which it can write nothing for the block.

    As many pages as SQLite has, it keeps: ``PRAGMA max_page_count = 1`` leaves it those.
    """
    engine = index._database.engine

    def prepare(connection: DBAPIConnection, *_: object) -> None:
        cursor = connection.cursor()
        cursor.execute(statement)
        cursor.close()
        connection.commit()

    try:
        yield lambda: sa.event.listen(engine, "checkout", prepare)
    finally:
        if sa.event.contains(engine, "checkout", prepare):
            sa.event.remove(engine, "checkout", prepare)
        # Its connections have the setting, new ones do not.
        engine.dispose()


def definition(namespace: str, name: str, keys: dict[str, str]) -> TableDefinition:
    return TableDefinition(
        TableIdentifier(namespace, name),
        TableType.EXTERNAL,
        "parquet",
        f"file:///data/{namespace}/{name}",
        (Column("id", "bigint"),),
        tuple(Column(key, key_type) for key, key_type in keys.items()),
    )


def create(
    index: Index, name: str = "t", keys: dict[str, str] | None = None, namespace: str = "s", folder: str | None = None
) -> Table:
    """A new table, in a namespace that is made when it is not there; in a folder of its name if none is given."""
    if namespace not in index.namespaces.all():
        index.namespaces.create(Namespace(namespace), deliver=False)
    made = definition(namespace, name, keys or {})
    if folder is not None:
        made = replace(made, location=f"file:///data/{namespace}/{folder}")
    return index.tables.create(made, deliver=False)


def partition_name(values: dict[str, Value]) -> str:
    """The directory of these values; unlike Hive's, it may hold an empty string."""
    return "/".join(f"{key}={_component(value)}" for key, value in values.items())


def _component(value: Value) -> str:
    return DEFAULT_PARTITION if value is None else escape_path_name(value_text(value)).replace("\x00", "%00")


def data_files(count: int, rows: int | None = None) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"part-{i:05d}.parquet", 100 + i, 1_700_000_000_000 + i, rows) for i in range(count))


def fill_with_every_kind(index: Index) -> Table:
    """A table of ten keys whose partitions take their values from the pools."""
    table = create(index, "every_kind", KEY_TYPES)
    rng = random.Random(7)
    longest = max(len(pool) for pool in POOLS.values())
    names = {
        partition_name({
            key: rng.choice(POOLS[kind]) if i >= longest else POOLS[kind][i % len(POOLS[kind])]
            for key, kind in KEY_TYPES.items()
        })
        for i in range(200)
    }  # fmt: skip
    index.commits.apply_changes(
        table.table_id, [AddPartition(n, data_files(1)) for n in sorted(names)], operation="test", deliver=False
    )
    return index.tables.load(table.identifier)


class Filled:
    """An index with the table of every kind, and the names of its partitions."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.table = fill_with_every_kind(index)
        self.names = listed_names(index, self.table)
        self._values = [typed_values(name, self.table.definition.keys) for name in self.names]

    def check(self, predicate: Predicate) -> list[str]:
        """The names that the predicate chooses, after comparing the index's answers with the evaluator's."""
        evaluator = Evaluator(predicate, self.table.definition.keys)
        expected = [n for n, values in zip(self.names, self._values, strict=True) if evaluator.matches(values)]
        assert listed_names(self.index, self.table, predicate) == expected
        assert sorted(planned_names(self.index, self.table, predicate)) == sorted(expected)
        return expected


def _values(key: str) -> st.SearchStrategy[Value]:
    return st.sampled_from(POOLS[KEY_TYPES[key]])


def _comparisons(key: str) -> st.SearchStrategy[Predicate]:
    return st.builds(Comparison, st.sampled_from(Operator), st.just(key), _values(key))


def _memberships(key: str) -> st.SearchStrategy[Predicate]:
    return st.builds(In, st.just(key), st.lists(_values(key), max_size=6).map(tuple))


_PATTERNS = st.one_of(
    st.sampled_from(STRINGS),
    st.builds("".join, st.lists(st.sampled_from(("%", "_", "\\", "\\%", "a", "b", "ü", _LONG, "z" * 252)), max_size=4)),
)
_MATCHES = st.builds(StringMatch, st.sampled_from(Match), st.sampled_from(("s", "c", "s9")), _PATTERNS)
_KEYS = st.sampled_from(sorted(KEY_TYPES))
_LEAVES = st.one_of(
    _KEYS.flatmap(_comparisons),
    _KEYS.flatmap(_memberships),
    st.builds(IsNull, _KEYS),
    _MATCHES,
    st.builds(Constant, st.booleans()),
)
predicates: st.SearchStrategy[Predicate] = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, max_size=3).map(tuple)),
    ),
    max_leaves=8,
)


def listed_names(index: Index, table: Table, predicate: Predicate | None = None) -> list[str]:
    names: list[str] = index.partitions.all(table, predicate).read_all().column("partition").to_pylist()
    return names


def planned_names(index: Index, table: Table, predicate: Predicate | None = None) -> list[str]:
    names: list[str] = index.files.plan(table, predicate).read_all().column("partition").to_pylist()
    return names


def alter_properties(
    index: Index, identifier: TableIdentifier, set_: Mapping[str, str], remove: Sequence[str] = ()
) -> Table:
    """The table with properties set and removed, for the metastore too."""
    return index.alterations.alter(identifier, lambda d: with_properties(d, set_, remove), removed=remove, deliver=True)


class _LeavesItToTheSystem(sqlite3.Connection):
    """Knows one level of ``synchronous``, whichever a transaction asks for before it begins."""

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        never = statement.startswith("PRAGMA synchronous")
        return super().execute("PRAGMA synchronous = OFF" if never else statement, *parameters)


@contextlib.contextmanager
def without_waiting_for_the_disk() -> Iterator[None]:
    """SQLite leaves it to the operating system when it writes: for tests that survive no power cut."""

    def connect(dialect: sa.Dialect, _: object, __: object, parameters: dict[str, Any]) -> None:
        if dialect.name == "sqlite":
            parameters["factory"] = _LeavesItToTheSystem

    sa.event.listen(sa.Engine, "do_connect", connect)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "do_connect", connect)


class _SharedStatements(LRUCache[tuple[Any, ...], Any]):
    """Compiled statements of all engines of a dialect, whose keys begin with the engine's own object for it."""

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: tuple[Any, ...], value: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), value)


_COMPILED = _SharedStatements(5000)


@contextlib.contextmanager
def with_statements_compiled_once() -> Iterator[None]:
    """SQLAlchemy compiles a statement once, not for each index again: a third of a unit test's time."""

    def share(connection: sa.Connection) -> None:
        if connection.dialect.name == "sqlite":
            connection.engine._compiled_cache = _COMPILED

    sa.event.listen(sa.Engine, "engine_connect", share)
    try:
        yield
    finally:
        sa.event.remove(sa.Engine, "engine_connect", share)


@cache
def _migrated() -> sqlite3.Connection:
    """A database in memory that the migrations have made."""
    made = sqlite3.connect(":memory:", check_same_thread=False)
    with tempfile.TemporaryDirectory() as folder, Index.connect(f"{folder}/index.db") as index:
        migration.migrate(index._database)
        with index._database.engine.connect() as connection:
            ours: Any = connection.connection.dbapi_connection
            ours.backup(made)
    return made


@contextlib.contextmanager
def made_from_one_that_is_migrated() -> Iterator[None]:
    """New SQLite indexes are copies of one that the migrations have made, which take half of a unit test's time."""
    made, migrate, lock = _migrated(), migration.migrate, threading.Lock()

    def copied(database: Database, revision: str = "head") -> tuple[str | None, str | None]:
        if database.dialect != "sqlite" or revision != "head" or migration.current_revision(database) is not None:
            return migrate(database, revision)
        with lock, database.engine.connect() as connection:
            ours: Any = connection.connection.dbapi_connection
            made.backup(ours)
        return None, migration.head_revision()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migration, "migrate", copied)
        yield


@pytest.fixture(scope="module", autouse=True)
def quick_indexes() -> Iterator[None]:
    """What makes the indexes of a folder's tests quick, and checks them; its ``conftest.py`` imports it.

    Of each module, since others that the same process runs are to have indexes as they are.
    """
    with (
        without_waiting_for_the_disk(),
        with_statements_compiled_once(),
        made_from_one_that_is_migrated(),
        checked_at_close(),
    ):
        yield
