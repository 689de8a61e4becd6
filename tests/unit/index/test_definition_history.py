"""A changed definition makes a version, and each version keeps its definition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

from catalog_ext.metastore.commit.write_kinds import WriteKind
from catalog_ext.metastore.errors import TableNotFoundError, VersionExpiredError
from catalog_ext.metastore.index.database.schema import table_definitions, table_versions
from catalog_ext.metastore.index.read.history import Removals
from catalog_ext.metastore.index.tables.incarnations import VERSIONS, CounterPosition
from catalog_ext.metastore.index.write import deferred_deletes
from catalog_ext.metastore.model.alterations import (
    AddColumn,
    ChangeComment,
    ChangeDefault,
    ChangeType,
    DropColumn,
    RenameColumn,
    altered,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.properties import ANALYZED_VERSION
from catalog_ext.metastore.model.tables import Column
from catalog_ext.writes.column_statistics import column_statistics
from tests.kit.index_cases import create, data_files, definition, listed_names, local_index, planned_names
from tests.kit.transaction_cases import begin, finish, plan, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.alterations import ColumnChange
    from catalog_ext.metastore.model.tables import Table, TableDefinition

    Change = Callable[[TableDefinition], TableDefinition]

OTHER_OPTIONS = {"sep": ";"}


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with local_index(tmp_path) as index:
        yield index


@pytest.fixture
def table(index: Index) -> Table:
    """A table at version 1, with one partition."""
    create(index, "other")
    new = replace(definition("s", "t", {"k": "int"}), columns=(Column("id", "int"), Column("c", "string")))
    table = index.tables.create(new, deliver=False)
    added = [AddPartition("k=1", data_files(1))]
    index.commits.apply_changes(table.table_id, added, operation="test", deliver=False)
    return index.tables.load(table.identifier)


def columns(*changes: ColumnChange) -> Change:
    return lambda now: altered(now, changes)


def alter(index: Index, table: Table, change: Change) -> Table:
    return index.alterations.alter(table.identifier, change, deliver=False)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (columns(AddColumn(("n",), "int")), "columns"),
        (columns(DropColumn(("c",))), "columns"),
        (columns(RenameColumn(("c",), "d")), "columns"),
        (columns(ChangeType(("id",), "bigint")), "columns"),
        (columns(ChangeDefault(("c",), "'x'")), "columns"),
        (columns(ChangeDefault(("k",), "1")), "partition columns"),
        (lambda now: replace(now, location="file:///elsewhere"), "location"),
        (lambda now: replace(now, format="csv", options=OTHER_OPTIONS), "format, options"),
    ],
)
def test_changed_definition_makes_a_version_without_files(
    index: Index, table: Table, change: Change, parts: str
) -> None:
    after = alter(index, table, change)
    assert after == index.tables.load(table.identifier)
    assert after.version == table.version + 1
    assert after.totals == table.totals
    assert index.definition_history.at(after, table.version).definition == table.definition
    assert index.definition_history.at(table, after.version).definition == after.definition == change(table.definition)
    newest = index.tables.history(table.identifier)[0]
    assert (newest.version, newest.operation, newest.summary["changed"]) == (after.version, "ALTER TABLE", parts)
    assert listed_names(index, table) == listed_names(index, after) == ["k=1"]


@pytest.mark.parametrize(
    "change",
    [
        lambda now: now,
        lambda now: replace(now, comment="c"),
        lambda now: replace(now, properties={"a": "b"}),
        columns(ChangeComment(("id",), "number"), ChangeComment(("k",), "key")),
    ],
)
def test_comments_and_properties_make_no_version(index: Index, table: Table, change: Change) -> None:
    after = alter(index, table, change)
    assert (after.version, after.definition) == (table.version, change(table.definition))
    assert len(index.tables.history(table.identifier)) == table.version + 1
    assert index.definition_history.at(table, 0).definition == after.definition


def test_earlier_version_has_present_name_and_properties(index: Index, table: Table) -> None:
    alter(index, table, columns(DropColumn(("c",))))
    alter(index, table, lambda now: replace(now, properties={"a": "b"}, comment="c"))
    new = index.alterations.rename(table.identifier, TableIdentifier("s", "renamed"), deliver=False).identifier
    then = index.definition_history.at(index.tables.load(new), table.version).definition
    assert then == replace(table.definition, identifier=new, properties={"a": "b"}, comment="c")


def test_version_that_was_made_after_the_table_was_loaded(index: Index, table: Table) -> None:
    alter(index, table, columns(DropColumn(("c",))))
    now = alter(index, table, columns(AddColumn(("d",), "date")))
    names = [
        [column.name for column in index.definition_history.at(table, version).definition.columns]
        for version in range(now.version + 1)
    ]
    assert names == [["id", "c"], ["id", "c"], ["id"], ["id", "d"]]


@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE, WriteKind.OVERWRITE_PARTITIONS])
def test_writes_in_flight_do_not_conflict(index: Index, table: Table, kind: WriteKind) -> None:
    made = begin(index, table, plan(table, kind), "k=1", "k=2")
    alter(index, table, columns(AddColumn(("n",), "int")))
    assert finish(index, made).version == table.version + 2


@pytest.mark.parametrize("removals", list(Removals))
def test_stream_reads_on_across_the_version(index: Index, table: Table, removals: Removals) -> None:
    after = alter(index, table, columns(AddColumn(("n",), "int")))
    write(index, after, plan(after), "k=2")

    def added(start: int, end: int) -> list[tuple[str, int, int]]:
        rows = index.changes.between(table.table_id, start, end, removals).read_all().to_pylist()
        return [(row["partition"], row["version"], row["position"]) for row in rows]

    assert added(table.version, after.version) == []
    assert added(0, 3) == [("k=1", 1, 0), ("k=2", 3, 0)]
    assert added(after.version, 3) == added(table.version, 3) == [("k=2", 3, 0)]
    with index._database.reading() as connection:
        v = table_versions.c
        found = sa.select(v.first_file_id).where(v.table_id == table.table_id, v.version == after.version)
        assert connection.execute(found).scalar() == 1, "so that a stream need not read files of earlier versions"


def stored(index: Index, table: Table) -> list[int]:
    d = table_definitions.c
    with index._database.reading() as connection:
        statement = sa.select(d.end_version).where(d.table_id == table.table_id).order_by(d.end_version)
        return list(connection.execute(statement).scalars())


def test_definitions_of_expired_versions_are_removed(index: Index, table: Table) -> None:
    for name in ("a", "b", "c2"):
        table = alter(index, table, columns(AddColumn((name,), "int")))
    assert (table.version, stored(index, table)) == (4, [2, 3, 4])
    index.versions.expire(table.table_id, 3)
    assert stored(index, table) == [4]
    then = index.definition_history.at(table, 3).definition
    assert [column.name for column in then.columns] == ["id", "c", "a", "b"]
    index.versions.expire(table.table_id, 4)
    assert stored(index, table) == []


def test_tagged_version_keeps_its_definition(index: Index, table: Table) -> None:
    tagged = table.version
    for name in ("a", "b", "c2"):
        table = alter(index, table, columns(AddColumn((name,), "int")))
    index.version_holds.tag(table, tagged, "one")
    held = dict(index.versions.raise_floor(table.table_id, table.version))
    index.versions.expire(table.table_id, table.version, held=held)
    assert stored(index, table) == [2]
    then = index.version_lookup.at_tag(table, "one").definition
    assert [column.name for column in then.columns] == ["id", "c"]


def test_dropped_table_leaves_no_definition(index: Index, table: Table) -> None:
    alter(index, table, columns(AddColumn(("n",), "int")))
    index.tables.drop(table.identifier, deliver=False)
    assert stored(index, table) == []
    with pytest.raises(TableNotFoundError):
        index.definition_history.at(table, 0)


def test_restored_index_keeps_definitions(index: Index, table: Table) -> None:
    after = alter(index, table, columns(AddColumn(("n",), "int")))
    index.restoration.begin(CounterPosition(1, 0), 0)
    assert index.tables.load(table.identifier).version == VERSIONS
    assert index.definition_history.at(after, table.version).definition == table.definition
    for version in (after.version, VERSIONS):
        assert index.definition_history.at(table, version).definition == after.definition


def test_changed_key_types_end_older_versions(index: Index, table: Table) -> None:
    before = alter(index, table, columns(AddColumn(("n",), "int")))
    after = index.alterations.change_key_types(before, {"k": "string"}, deliver=False)
    for version in (table.version, before.version):
        with pytest.raises(VersionExpiredError):
            index.version_lookup.at_version(after, version)
    last = alter(index, after, columns(DropColumn(("n",))))
    assert index.definition_history.at(table, after.version).definition == after.definition
    assert index.definition_history.at(table, last.version).definition == last.definition
    index.versions.expire(table.table_id, after.version)
    assert stored(index, table) == [last.version]


def test_alteration_during_a_deferred_delete(index: Index, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_deletes, "MANY", 0)
    finish(index, begin(index, table, plan(table, WriteKind.OVERWRITE), "k=2"))
    deleted = index.tables.load(table.identifier)
    assert deleted.deleted_before_version == deleted.version
    after = alter(index, table, columns(AddColumn(("n",), "int")))
    for is_complete in (False, True):
        if is_complete:
            deferred_deletes.complete(index._database, table_id=table.table_id)
        now = index.tables.load(table.identifier)
        assert (now.version, now.deleted_before_version == 0) == (after.version, is_complete)
        for then, names in ((table, ["k=1"]), (deleted, ["k=2"]), (now, ["k=2"])):
            assert listed_names(index, then) == names
            assert len(planned_names(index, then)) == 1


@pytest.mark.parametrize(
    ("change", "is_valid"),
    [
        (columns(AddColumn(("n",), "int")), True),
        (lambda now: replace(now, location="file:///elsewhere"), True),
        (lambda now: replace(now, options=OTHER_OPTIONS), False),
    ],
)
def test_results_of_analyze_stay_valid_if_rows_do(index: Index, table: Table, change: Change, is_valid: bool) -> None:
    found = {"spark.sql.statistics.colStats.id.distinctCount": "3", ANALYZED_VERSION: str(table.version)}
    analyzed = alter(index, table, lambda now: replace(now, properties={**now.properties, **found}))
    assert column_statistics(analyzed) == {"id": {"distinctCount": "3"}}
    assert bool(column_statistics(alter(index, table, change))) is is_valid
    now = index.tables.load(table.identifier)
    write(index, now, plan(now), "k=2")
    alter(index, table, columns(AddColumn(("late",), "int")))
    assert column_statistics(index.tables.load(table.identifier)) == {}, "the write changed rows"
