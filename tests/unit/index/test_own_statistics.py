"""Statistics of files go by the names of columns, and a name that comes back may be that of another column."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.staged_files import StagedFile
from catalog_ext.metastore.model.alterations import AddColumn, ChangeType, DropColumn, RenameColumn, altered
from catalog_ext.metastore.model.properties import ANALYZED_VERSION
from catalog_ext.metastore.model.tables import Column, ColumnStatistics
from catalog_ext.writes.column_statistics import column_statistics
from tests.kit.index_cases import create, definition, local_index
from tests.kit.transaction_cases import begin, finish, plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.metastore.commit.transaction import Transaction
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.alterations import ColumnChange
    from catalog_ext.metastore.model.tables import Table, TableDefinition

KNOWN = ColumnStatistics("10", "9", 0)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(index: Index) -> Table:
    create(index, "other")
    new = replace(definition("s", "t", {"k": "int"}), columns=(Column("id", "bigint"), Column("c", "string")))
    return index.tables.create(new, deliver=False)


def alter(index: Index, table: Table, *changes: ColumnChange) -> Table:
    return index.alterations.alter(table.identifier, lambda d: altered(d, changes), deliver=False)


def begun(index: Index, table: Table, partition: str, known: ColumnStatistics = KNOWN, **more: Any) -> Transaction:
    """A write whose file has statistics of the column, by what its writer knows of the table."""
    made = begin(index, table, plan(table, **more), **({"app_id": "q", "app_version": 1} if more else {}))
    known = replace(known, after={c.name: c.statistics_after for c in table.definition.columns}.get("c"))
    index.transaction_files.record(
        made.transaction_id, [StagedFile(partition, f"part-{made.transaction_id}", 10, 2, {"c": known})]
    )
    return made


def bounds(index: Index, table: Table, column: str = "c") -> dict[str, str | None]:
    """The least value of the column in each partition, as planning says it."""
    found = index.files.plan(index.tables.load(table.identifier), None, bounds=[column]).read_all().to_pylist()
    texts = {row["partition"]: row["bounds_0"] for row in found}
    assert all(text is None or json.loads(text).keys() == {"min", "max", "nulls"} for text in texts.values())
    return {partition: None if text is None else json.loads(text)["min"] for partition, text in texts.items()}


@pytest.mark.parametrize(
    "changes",
    [
        [[DropColumn(("c",))], [AddColumn(("c",), "int")]],
        [[RenameColumn(("c",), "old")], [AddColumn(("c",), "int")]],
        [[RenameColumn(("c",), "old"), AddColumn(("c",), "int")]],
        [[DropColumn(("c",))], [RenameColumn(("id",), "c")]],
    ],
)
def test_another_column_of_the_name_has_no_statistics(
    index: Index, table: Table, changes: list[list[ColumnChange]]
) -> None:
    finish(index, begun(index, table, "k=1"))
    assert bounds(index, table) == {"k=1": "10"}
    for each in changes:
        altered_table = alter(index, table, *each)
    assert bounds(index, table) == {"k=1": None}
    # Who loaded the table before, and has its columns, gets none either.
    finish(index, begun(index, altered_table, "k=2", ColumnStatistics("9", "10", 0)))
    assert bounds(index, table) == {"k=1": None, "k=2": "9"}
    alter(index, table, AddColumn(("more",), "int"))
    assert bounds(index, table) == {"k=1": None, "k=2": "9"}


def test_a_column_that_stays_or_becomes_wider_keeps_its_statistics(index: Index, table: Table) -> None:
    alter(index, table, AddColumn(("n",), "int"))
    finish(index, begun(index, index.tables.load(table.identifier), "k=1"))
    alter(index, table, ChangeType(("n",), "bigint"), DropColumn(("c",)), AddColumn(("c",), "string"))
    assert bounds(index, table) == {"k=1": "10"}


def test_writes_that_knew_the_other_column_bring_no_statistics_of_it(index: Index, table: Table) -> None:
    late = begun(index, table, "k=1")
    waits = begun(index, table, "k=2", waiting=("k=2",))
    finish(index, waits)
    alter(index, table, DropColumn(("c",)))
    now = alter(index, table, AddColumn(("c",), "int"))
    finish(index, late)
    knows = begun(index, now, "k=3", ColumnStatistics("9", "10", 0))
    finish(index, knows)
    assert bounds(index, table) == {"k=1": None, "k=3": "9"}
    due = begin(index, index.tables.load(table.identifier), plan(table, due=("k=2",)), app_id="q", app_version=2)
    finish(index, due)
    assert bounds(index, table) == {"k=1": None, "k=2": None, "k=3": "9"}


def test_statistics_of_the_whole_table_go_with_the_column(index: Index, table: Table) -> None:
    found = {f"spark.sql.statistics.colStats.{c}.distinctCount": "3" for c in ("id", "c", "c.d")}

    def analyze(old: TableDefinition) -> TableDefinition:
        return replace(old, properties={**old.properties, **found, ANALYZED_VERSION: "0"})

    index.alterations.alter(table.identifier, analyze, deliver=False)
    alter(index, table, DropColumn(("c",)))
    assert column_statistics(alter(index, table, AddColumn(("c",), "int"))) == {
        "id": {"distinctCount": "3"}, "c.d": {"distinctCount": "3"},
    }  # fmt: skip
    assert column_statistics(index.tables.load(table.identifier)).keys() == {"id", "c.d"}


def test_a_new_table_of_the_same_columns_has_all_its_statistics(index: Index, table: Table) -> None:
    like = alter(index, table, DropColumn(("c",)), AddColumn(("d",), "int"), RenameColumn(("d",), "c")).definition
    assert like.columns[-1].statistics_after == 0
    copy = index.tables.create(replace(definition("s", "u", {"k": "int"}), columns=like.columns), deliver=False)
    assert [column.statistics_after for column in index.tables.load(copy.identifier).definition.columns] == [None, None]
