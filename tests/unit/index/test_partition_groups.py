"""Groups of partitions against the partitions themselves, one by one, at several versions."""

from __future__ import annotations

import random
from datetime import date, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.dialects import sqlite

from catalog_ext.metastore.errors import TableNotFoundError
from catalog_ext.metastore.index.read.partition_groups import WantedGroups, groups_statement, is_exact
from catalog_ext.metastore.model.changes import AddPartition, DropPartition
from catalog_ext.metastore.model.tables import DataFile
from catalog_ext.metastore.model.typed_values import sort_key, typed_values
from catalog_ext.metastore.model.types import parse_type
from catalog_ext.metastore.model.values import Key
from catalog_ext.metastore.predicates.conditions import Among, Values
from catalog_ext.metastore.predicates.evaluation import Evaluator
from catalog_ext.metastore.predicates.tree import TRUE, And, Comparison, In, IsNull, Match, Operator, StringMatch
from tests.contract.golden import KEY_TYPES
from tests.kit.index_cases import create, fill_with_every_kind, local_index, planned_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import Table
    from catalog_ext.metastore.predicates.tree import Predicate

KEYS = {"ds": "date", "region": "string", "n": "int"}
REGIONS = ("eu", "us", "", "a%20b", "__HIVE_DEFAULT_PARTITION__")
PREDICATES: tuple[Predicate | None, ...] = (
    None,
    TRUE,
    Comparison(Operator.GE, "ds", date(2025, 1, 6)),
    And((Comparison(Operator.LT, "ds", date(2025, 1, 9)), In("region", ("eu", "")))),
    IsNull("region"),
    StringMatch(Match.LIKE, "region", "_u"),
    Comparison(Operator.EQ, "n", 99),
)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Index, list[Table]]]:
    """An index, and one of its tables at three versions."""
    with local_index(tmp_path_factory.mktemp("groups")) as index:
        table, rng = create(index, keys=KEYS), random.Random(5)
        versions = []
        for step in range(3):
            names = {
                f"ds={date(2025, 1, 1) + timedelta(rng.randint(0, 9))}/region={rng.choice(REGIONS)}/n={number}"
                for number in (*range(step * 25, step * 25 + 25), "01", "1")
            }
            present = set(names_of(index, table))
            dropped = [DropPartition(name) for name in sorted(present) if rng.random() < 0.3]
            added = [AddPartition(name, files(rng)) for name in sorted(names - present)]
            index.commits.apply_changes(table.table_id, [*dropped, *added], operation="test", deliver=False)
            table = index.tables.load(table.identifier)
            versions.append(table)
        yield index, versions


def files(rng: random.Random) -> tuple[DataFile, ...]:
    known = rng.random() < 0.8
    return tuple(
        DataFile(f"f{i}", rng.randint(1, 9), i, rng.choice((0, 5) if known else (None, 5)))
        for i in range(rng.randint(0, 2))
    )


def names_of(index: Index, table: Table) -> list[str]:
    return [row["partition"] for row in index.partitions.all(table, None).read_all().to_pylist()]


def read(
    index: Index, table: Table, predicate: Predicate | None, keys: tuple[str, ...], wanted: WantedGroups
) -> dict[tuple[str, ...], list[Row]]:
    """The groups by the encoded values of the keys."""
    chosen = [key for key in table.definition.keys if key.name in keys]
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in index.partition_groups.groups(table, predicate, chosen, wanted).read_all().to_pylist():
        found.setdefault(values(table, row["partition"], keys) if row["partitions"] else (), []).append(row)
    return found


def values(table: Table, name: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    encoded = sort_key(typed_values(name, table.definition.keys), table.definition.keys)
    return tuple(encoded[key.position] for key in table.definition.keys if key.name in keys)


def model(
    index: Index, table: Table, predicate: Predicate | None, keys: tuple[str, ...]
) -> dict[tuple[str, ...], list[Row]]:
    """The partitions that each group has."""
    evaluator = Evaluator(predicate or TRUE, table.definition.keys)
    rows = [
        row
        for row in index.partitions.all(table, None).read_all().to_pylist()
        if evaluator.matches(typed_values(row["partition"], table.definition.keys))
    ]
    rows.sort(key=lambda row: values(table, row["partition"], keys))
    return {k: list(g) for k, g in groupby(rows, key=lambda row: values(table, row["partition"], keys))}


def summary(rows: list[Row]) -> tuple[int, int, int, int | None]:
    counts = [row["rows"] for row in rows]
    return (
        sum(row.get("partitions", 1) for row in rows),
        sum(row["files"] for row in rows),
        sum(row["bytes"] for row in rows),
        None if None in counts else sum(counts),
    )


@pytest.mark.parametrize("keys", [("ds",), ("n",), ("region", "n"), ("ds", "region", "n")])
@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_groups_are_what_their_partitions_are(
    filled: tuple[Index, list[Table]], predicate: Predicate | None, keys: tuple[str, ...]
) -> None:
    index, versions = filled
    for table in versions[1:]:
        expected = model(index, table, predicate, keys)
        summed = read(index, table, predicate, keys, WantedGroups.ROWS)
        assert {k: summary(found) for k, found in summed.items()} == {k: summary(g) for k, g in expected.items()}
        if not isinstance(predicate, StringMatch):
            assert all(len(found) == 1 for found in summed.values())
        assert set(read(index, table, predicate, keys, WantedGroups.VALUES)) == set(expected)
        for k, found in read(index, table, predicate, keys, WantedGroups.PRESENCE).items():
            rows, said = [row["rows"] for row in expected.pop(k)], [group["rows"] for group in found]
            # An unknown count may be reported as unknown, never as some rows or no rows.
            if any(said):
                assert any(rows)
            else:
                assert None in rows if None in said else not any(rows)
        assert not expected


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
@pytest.mark.parametrize("key", KEYS)
def test_the_least_and_the_greatest_are_of_partitions_with_rows(
    filled: tuple[Index, list[Table]], predicate: Predicate | None, key: str
) -> None:
    index, versions = filled
    for table in versions[1:]:
        groups = model(index, table, predicate, (key,))
        some = sorted(k for k, rows in groups.items() if k != ("",) and any(r["rows"] != 0 for r in rows))
        for wanted, at in ((WantedGroups.LEAST, 0), (WantedGroups.GREATEST, -1)):
            found = read(index, table, predicate, (key,), wanted)
            if isinstance(predicate, StringMatch):
                found = dict([sorted((k, g) for k, g in found.items() if k in some)[at]])
            assert list(found) == ([some[at]] if some else [])


@pytest.mark.parametrize("known", [0, 1])
def test_one_partition_with_rows_is_enough_for_a_value(tmp_path: Path, known: int) -> None:
    """Whichever of the partitions of the value the database meets first."""
    with local_index(tmp_path) as index:
        table = create(index, keys={"ds": "date", "region": "string"})
        adds = [
            AddPartition(f"ds=2025-01-01/region={region}", (DataFile("f", 1, 1, 3 if number == known else None),))
            for number, region in enumerate("ab")
        ]
        index.commits.apply_changes(table.table_id, adds, operation="test", deliver=False)
        table = index.tables.load(table.identifier)
        of_day = table.definition.keys[:1]
        for predicate in (None, Comparison(Operator.GE, "ds", date(2025, 1, 1)), In("region", ("a", "b"))):
            for wanted in (WantedGroups.LEAST, WantedGroups.GREATEST, WantedGroups.PRESENCE):
                found = index.partition_groups.groups(table, predicate, of_day, wanted).read_all().to_pylist()
                assert next(row["rows"] for row in found if row["partitions"]) > 0, (predicate, wanted)
        other = In("region", ("ba"[known],))
        (row,) = index.partition_groups.groups(table, other, of_day, WantedGroups.GREATEST).read_all().to_pylist()
        assert row["rows"] is None, "the one that is known does not satisfy the filter"


def test_without_keys_there_is_one_group_even_of_nothing(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled
    ((none,),) = read(index, table, Comparison(Operator.EQ, "n", 1000), (), WantedGroups.ROWS).values()
    assert (none["partitions"], none["files"], none["rows"]) == (0, 0, 0)
    ((every,),) = read(index, table, None, (), WantedGroups.ROWS).values()
    assert (every["partitions"], every["files"], every["bytes"], every["rows"]) == (
        table.totals.partitions, table.totals.files, table.totals.bytes, table.totals.rows,
    )  # fmt: skip


def test_partitions_with_indistinct_keys_come_one_by_one(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        table = fill_with_every_kind(index)
        names = set(names_of(index, table))
        for key in table.definition.keys:
            for wanted in (WantedGroups.ROWS, WantedGroups.VALUES, WantedGroups.GREATEST):
                found = index.partition_groups.groups(table, None, [key], wanted).read_all().to_pylist()
                # The table has truncated keys.
                assert {row["partition"] for row in found} == names


def test_a_plan_looks_among_values_and_numbers_alone(filled: tuple[Index, list[Table]]) -> None:
    index, (*_, table) = filled
    rows = index.partition_groups.groups(table, None, (), WantedGroups.EACH).read_all().to_pylist()
    some = [row for row in rows if row["files"]][::3]
    planned = index.files.plan(table, None, [row["partition_id"] for row in some]).read_all().column("partition")
    assert set(planned.to_pylist()) == {row["partition"] for row in some}
    assert index.files.plan(table, None, []).read_all().num_rows == 0
    sample = tuple(name for name in names_of(index, table) if "region=eu" in name or "DEFAULT" in name)
    wanted = Among(values=(Values("REGION", sample),)).within(table, Comparison(Operator.GE, "ds", date(2025, 1, 4)))
    chosen = [n for n in set(planned_names(index, table)) if "=eu/" in n or "DEFAULT" in n]
    assert set(planned_names(index, table, wanted)) == {n for n in chosen if n >= "ds=2025-01-04"}


def test_groups_of_a_dropped_table_are_no_answer(tmp_path: Path) -> None:
    with local_index(tmp_path) as index:
        table = create(index, keys=KEYS)
        index.tables.drop(table.identifier, deliver=False)
        for wanted in (WantedGroups.ROWS, WantedGroups.VALUES):
            with pytest.raises(TableNotFoundError):
                index.partition_groups.groups(table, None, table.definition.keys[:1], wanted).read_all()


@pytest.mark.parametrize("rows", [1, 5, 6, 23, 10_000])
def test_a_plan_ends_with_the_file_that_holds_the_last_row_wanted(filled: tuple[Index, list[Table]], rows: int) -> None:
    index, (*_, table) = filled
    every = index.files.plan(table, None).read_all().to_pylist()
    some = index.files.plan(table, None, rows=rows).read_all().to_pylist()
    assert some == every[: len(some)]
    held = [sum(row["rows"] or 0 for row in some[:n]) for n in (len(some) - 1, len(some))]
    assert (held[0] < rows <= held[1]) or (len(some) == len(every) and held[1] < rows)


def test_the_next_value_is_looked_for_beyond_the_last_and_nothing_else(filled: tuple[Index, list[Table]]) -> None:
    """Of two lower bounds SQLite takes the first, and would go over all values for each."""
    _, (*_, table) = filled
    statement, _ = groups_statement(
        "sqlite", table, None, table.definition.keys[1:2], WantedGroups.VALUES, long_keys=False
    )
    text = str(statement.compile(dialect=sqlite.dialect()))
    assert (text.count("k2 >= "), text.count("k2 > ")) == (1, 1)


def test_types_that_the_index_distinguishes() -> None:
    """The connector's half is in ``tests/integration/connector/test_golden_partitions.py``."""
    reported = {case["type"]: is_exact(Key(0, "k", parse_type(case["type"]))) for case in KEY_TYPES}
    assert reported == {case["type"]: case["exact"] for case in KEY_TYPES}
