"""How each database finds the partitions that a filter leaves: never by a full scan where a key bounds them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles

from catalog_ext.metastore.index import Index
from catalog_ext.metastore.index.database.database import Database
from catalog_ext.metastore.index.database.schema import partitions
from catalog_ext.metastore.index.database.sqlite_file import ALIVE
from catalog_ext.metastore.index.database.urls import parse_url
from catalog_ext.metastore.index.read.history import changes_statement
from catalog_ext.metastore.index.read.partitions import located_statement, partitions_statement
from catalog_ext.metastore.index.read.planned_files import plan_statement
from catalog_ext.metastore.index.write.partition_rows import by_values_statement
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.typed_values import typed_values
from catalog_ext.metastore.predicates.tree import And, Comparison, In, IsNull, Match, Operator, Or, StringMatch
from tests.kit.index_cases import create, data_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sqlalchemy.sql.compiler import SQLCompiler

    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

DAYS = 180
REGIONS = 10
HOURS = 12
FIRST = date(2025, 1, 1)

_DAY = Comparison(Operator.EQ, "ds", FIRST + timedelta(20))
_REGION = Comparison(Operator.EQ, "region", "r3")
_HOUR = Comparison(Operator.EQ, "hour", 3)
# What a filter asks, and the key whose index must bound the search.
BOUNDED: dict[str, tuple[Predicate, str]] = {
    "all keys": (And((_DAY, _REGION, _HOUR)), "k1"),
    "one day": (_DAY, "k1"),
    "a range of days": (
        And((
            Comparison(Operator.GE, "ds", FIRST + timedelta(20)),
            Comparison(Operator.LE, "ds", FIRST + timedelta(22)),
            _REGION,
        )),
        "k1",
    ),
    "before a day": (Comparison(Operator.LT, "ds", FIRST + timedelta(2)), "k1"),
    "some days": (In("ds", tuple(FIRST + timedelta(i) for i in range(0, 30, 10))), "k1"),
    "many days, most of them absent": (
        And((In("ds", tuple(FIRST + timedelta(20 * i) for i in range(400))), _REGION, _HOUR)),
        "k1",
    ),
    "a rare last key": (Comparison(Operator.EQ, "hour", 99), "k3"),
    "no region": (IsNull("region"), "k2"),
    "a prefix": (StringMatch(Match.STARTS_WITH, "region", "rare-"), "k2"),
    "one of two keys": (Or((_DAY, Comparison(Operator.EQ, "hour", 99))), "k1"),
}  # fmt: skip


class Explained:
    """A filled index and the plans of its database."""

    def __init__(self, url: str) -> None:
        with Index.open(url, migrate=True) as index:
            self.old, self.table = _fill(index)
        self.database = Database(parse_url(url))
        self.dialect = self.database.dialect

    def steps(self, statement: sa.Executable) -> list[tuple[str, str, str]]:
        """For each use of ``partitions`` or ``files``: the table, how it is read, and what bounds the search."""
        with self.database.reading() as connection:
            result = connection.execute(Explain(statement))
            # By the driver's names: SQLAlchemy takes the columns for those of the query that is explained.
            names = [column[0] for column in result.cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in result]
        reads = {"sqlite": _sqlite, "postgresql": _postgresql, "mysql": _mysql}[self.dialect]
        return [step for step in reads(rows) if step[0] in ("partitions", "files")]


class Explain(sa.Executable, sa.ClauseElement):
    inherit_cache = False

    def __init__(self, statement: sa.Executable) -> None:
        self.statement = statement


@compiles(Explain)
def _compile_explain(element: Explain, compiler: SQLCompiler, **options: Any) -> str:
    words = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN (FORMAT JSON)"}.get(
        compiler.dialect.name, "EXPLAIN"
    )
    return f"{words} {compiler.process(element.statement, **options)}"


def _sqlite(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for row in rows:
        words = row["detail"].split()
        if words[0] in ("SCAN", "SEARCH"):
            yield words[1].removesuffix("_1").removesuffix("_2"), words[0], row["detail"].partition("(")[2]


def _postgresql(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    plan = next(iter(rows[0].values()))
    pending: list[Mapping[str, Any]] = [(plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]]
    while pending:
        node = pending.pop()
        pending.extend(node.get("Plans", ()))
        if "Relation Name" in node:
            inner = " ".join(str(below.get("Index Cond", "")) for below in _below(node))
            how = "SCAN" if node["Node Type"] == "Seq Scan" else "SEARCH"
            yield node["Relation Name"], how, inner


def _below(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _below(child)


def _mysql(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for row in rows:
        how = "SCAN" if row["type"] in ("ALL", "index") else "SEARCH"
        # The length shows whether more of the index is used than the table's number, which has eight bytes.
        bound = str(row["key"]) if int(row["key_len"] or 0) > 8 else ""
        yield str(row["table"]).removesuffix("_1").removesuffix("_2"), how, bound


def _fill(index: Index) -> tuple[Table, Table]:
    for i in range(3):
        other = create(index, f"other_{i}", {"ds": "date", "region": "string", "hour": "int"})
        index.commits.apply_changes(other.table_id, _partitions(20), operation="test", deliver=False)
    table = create(index, "big", {"ds": "date", "region": "string", "hour": "int"})
    index.commits.apply_changes(table.table_id, _partitions(DAYS), operation="test", deliver=False)
    old = index.tables.load(table.identifier)
    gone = [DropPartition(change.name) for change in _partitions(2)]
    index.commits.apply_changes(table.table_id, gone, operation="test", deliver=False)
    index.planner_statistics.analyze()
    return old, index.tables.load(table.identifier)


def _partitions(days: int) -> list[AddPartition]:
    return [
        AddPartition(f"ds={FIRST + timedelta(d)}/region=r{r}/hour={h}", data_files(1))
        for d in range(days)
        for r in range(REGIONS)
        for h in range(HOURS)
    ]


@pytest.fixture(scope="module", params=("sqlite", "postgres", "mariadb"))
def explained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explained]:
    if request.param == "sqlite":
        filled = Explained(str(tmp_path_factory.mktemp("plans") / "index.db"))
        yield filled
        filled.database.close()
        return
    server = request.getfixturevalue(f"{request.param}_server")
    url = server.create_database()
    filled = Explained(url)
    yield filled
    filled.database.close()
    server.drop_database(url)


@pytest.mark.parametrize("at", ["head", "an older version"])
@pytest.mark.parametrize("case", BOUNDED)
def test_a_bounded_filter_searches(explained: Explained, case: str, at: str) -> None:
    predicate, key = BOUNDED[case]
    table = explained.table if at == "head" else replace(explained.table, version=explained.old.version)
    statement, exact = plan_statement(explained.dialect, table, predicate)
    assert exact
    steps = explained.steps(statement)
    assert {name for name, _, _ in steps} == {"partitions", "files"}
    assert [step for step in steps if step[1] == "SCAN"] == []
    assert any(name == "partitions" and key in bound for name, _, bound in steps), steps


@pytest.mark.parametrize("case", BOUNDED)
def test_a_bounded_list_searches(explained: Explained, case: str) -> None:
    predicate, key = BOUNDED[case]
    statement, _ = partitions_statement(explained.dialect, explained.table, predicate)
    steps = explained.steps(statement)
    assert [step for step in steps if step[1] == "SCAN"] == []
    assert any(key in bound for _, _, bound in steps), steps


def test_partitions_at_places_of_their_own_are_searched(explained: Explained) -> None:
    ((_, how, bound),) = explained.steps(located_statement(explained.table))
    # MySQL and MariaDB have no index of a part of the rows: they read as many as they think best.
    assert explained.dialect == "mysql" or (how == "SEARCH" and "end_version" in bound)


def test_the_partitions_of_a_write_are_searched(explained: Explained) -> None:
    keys = explained.table.definition.keys
    values = [typed_values(f"ds={FIRST + timedelta(d)}/region=r{r}/hour=3", keys) for d in range(3) for r in range(3)]
    statement = by_values_statement(explained.table, values, partitions.c.end_version == ALIVE)
    steps = explained.steps(statement)
    assert [step for step in steps if step[1] == "SCAN"] == []
    assert all("k1" in bound for _, _, bound in steps), steps


def test_what_a_version_added_is_searched(explained: Explained) -> None:
    version = explained.old.version
    steps = explained.steps(changes_statement(explained.table.table_id, version, version + 1, 10_000_000))
    assert {(name, how) for name, how, _ in steps} == {("partitions", "SEARCH"), ("files", "SEARCH")}
    assert any(name == "partitions" and "begin_version" in bound for name, _, bound in steps), steps


def test_without_a_filter_no_key_bounds_the_search(explained: Explained) -> None:
    statement, _ = plan_statement(explained.dialect, explained.table, None)
    bounds = [bound for name, _, bound in explained.steps(statement) if name == "partitions"]
    assert bounds
    assert not any(key in bound for bound in bounds for key in ("k1=", "k1>", "k1 ", "k1)", "k1_"))
