"""Alterations of tables in the index, on each kind of database: one after another, and nothing lost."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.commit.transaction import State
from catalog_ext.metastore.errors import (
    CatalogExtError,
    ConflictError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.alterations import AddColumn, altered
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Namespace
from tests.kit.index_cases import create, data_files
from tests.kit.transaction_cases import begin, plan

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index
    from catalog_ext.metastore.model.tables import TableDefinition


def test_alterations_follow_one_another(index: Index) -> None:
    table = create(index, "busy", namespace="altering")
    start = threading.Barrier(4)
    errors: list[CatalogExtError] = []

    def add(number: int) -> None:
        start.wait()
        try:
            for i in range(5):
                new = AddColumn((f"c{number}_{i}",), "int")
                index.alterations.alter(table.identifier, lambda d, n=new: altered(d, [n]), deliver=True)  # type: ignore[misc]
        except CatalogExtError as error:
            errors.append(error)

    threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    after = index.tables.load(table.identifier)
    wanted = {f"c{n}_{i}" for n in range(4) for i in range(5)}
    assert {c.name for c in after.definition.columns} == wanted | {c.name for c in table.definition.columns}
    assert after.version == table.version + 20
    for n in range(21):
        then = index.definition_history.at(after, table.version + n).definition
        assert then.columns == after.definition.columns[: len(table.definition.columns) + n]
    reported = [d.payload for d in index.outbox.pending() if d.table == "busy" and d.operation == "alter_table"]
    assert [len(p["columns"]) for p in reported] == [len(table.definition.columns) + i + 1 for i in range(20)]
    assert all(p["rebuild"] for p in reported)


def test_a_rename_changes_the_name_only(index: Index) -> None:
    table = create(index, "old", namespace="renaming")
    create(index, "taken", namespace="renaming")
    index.namespaces.create(Namespace("renaming2"), deliver=False)
    new = TableIdentifier("renaming2", "new")
    with pytest.raises(TableAlreadyExistsError, match=r"renaming\.taken exists already"):
        index.alterations.rename(table.identifier, TableIdentifier("renaming", "taken"), deliver=True)
    with pytest.raises(NamespaceNotFoundError, match="nowhere"):
        index.alterations.rename(table.identifier, TableIdentifier("nowhere", "new"), deliver=True)
    renamed = index.alterations.rename(table.identifier, new, deliver=True)
    assert renamed == replace(table, definition=replace(table.definition, identifier=new)) == index.tables.load(new)
    assert index.tables.load_by_id(table.table_id) == renamed
    with pytest.raises(TableNotFoundError):
        index.alterations.rename(table.identifier, new, deliver=True)
    # The message is kept also if the table is dropped before its delivery: else the metastore would keep the old name.
    index.tables.drop(new, deliver=True)
    reported = [(d.operation, d.namespace, d.table) for d in index.outbox.pending() if d.namespace.startswith("renam")]
    assert reported[-2:] == [("rename_table", "renaming", "old"), ("drop_table", "renaming2", "new")]


def test_partitions_stay_where_they_are_when_the_location_changes(index: Index) -> None:
    table = create(index, "moving", {"ds": "string"}, namespace="moving")
    first = table.definition.location
    names = [f"ds={'é%2F' * i}x" for i in range(3)]
    index.commits.apply_changes(
        table.table_id, [AddPartition(name, data_files(1)) for name in names[:2]], operation="test", deliver=False
    )
    before = index.tables.load(table.identifier)

    def move(definition: TableDefinition) -> TableDefinition:
        return replace(definition, location="file:///elsewhere")

    transaction = begin(index, before, plan(before))
    with pytest.raises(ConflictError, match="while a write to it is open"):
        index.alterations.alter(table.identifier, move, deliver=True)
    assert index.tables.load(table.identifier) == before
    index.transactions.move(transaction.transaction_id, [State.OPEN], State.ABORTED, error=None)
    after = index.alterations.alter(table.identifier, move, deliver=True)
    with pytest.raises(ConflictError, match="has just changed"):
        begin(index, before, plan(before))
    index.commits.apply_changes(
        table.table_id, [AddPartition(names[2], data_files(1))], operation="test", deliver=False
    )
    listed = index.partitions.all(index.tables.load(table.identifier), None).read_all().to_pylist()
    places = {row["partition"]: row["location"] for row in listed}
    assert places == {names[0]: f"{first}/{names[0]}", names[1]: f"{first}/{names[1]}", names[2]: None}
    assert after.definition.location == "file:///elsewhere"
    assert index.definition_history.at(after, before.version).definition == before.definition
    # Who loaded the table before still finds its files.
    old = index.files.plan(before, None).read_all().to_pylist()
    assert {row["location"] for row in old} == {f"{first}/{name}" for name in names[:2]}
