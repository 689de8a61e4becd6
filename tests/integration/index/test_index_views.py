"""Views in the index, on each database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import (
    NamespaceNotFoundError,
    PartitionAlreadyExistsError,
    TableAlreadyExistsError,
    ViewAlreadyExistsError,
    ViewNotFoundError,
)
from catalog_ext.metastore.model.changes import AddPartition
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.metastore.model.views import VIEW_FORMAT, Dependency, Source, View, ViewQuery
from tests.kit.index_cases import create, listed_names

if TYPE_CHECKING:
    from catalog_ext.metastore.index import Index

QUERY = ViewQuery("SELECT 'ü\\' AS x", "lake", ("s",), {"a": "b"}, "BINDING", ("x", "ds"), ("s.t",))


def definition(name: str, namespace: str, **properties: str) -> TableDefinition:
    return TableDefinition(
        TableIdentifier(namespace, name), TableType.VIEW, VIEW_FORMAT, "", (Column("x", "int"),),
        (Column("ds", "string"),), {}, {k.replace("_", "."): v for k, v in properties.items()},
    )  # fmt: skip


def shown(index: Index, view: View) -> list[str]:
    return listed_names(index, index.views.load(view.identifier).table)


def test_views_and_their_partitions(index: Index) -> None:
    table = create(index, keys={"k": "string"}, namespace="views")
    namespace = table.identifier.namespace
    view = index.views.create(definition("v", namespace), QUERY, (), deliver=True)
    assert index.views.load(view.identifier) == view == index.views.load_relation(view.identifier)
    assert index.views.load_relation(table.identifier) == index.tables.load(table.identifier)
    assert index.views.list_names(namespace) == ["v"]
    assert index.tables.all(namespace) == [table.identifier.name]
    with pytest.raises(ViewAlreadyExistsError):
        index.views.create(definition("v", namespace), QUERY, (), deliver=True)
    with pytest.raises(TableAlreadyExistsError):
        index.views.create(definition(table.identifier.name, namespace), QUERY, (), deliver=True)
    many = {f"ds={i:03d}": (Dependency("lake.s.t", (f"k={i}", "k=ü")), Dependency("o.p")) for i in range(120)}
    added = index.views.add_partitions(view.table.table_id, many, if_not_exists=False, deliver=True)
    assert (added.version, added.partitions_added, added.deliveries) == (1, 120, 1)
    with pytest.raises(PartitionAlreadyExistsError, match="ds=005"):
        index.views.add_partitions(view.table.table_id, {"ds=x": (), "ds=005": ()}, if_not_exists=False, deliver=True)
    assert shown(index, view) == sorted(many)
    found = index.views.dependencies(view.table.table_id)
    assert [(d.partition, d.dependency) for d in found[:2]] == [("ds=000", d) for d in many["ds=000"]]
    assert len(found) == 240
    dropped = index.views.drop_partitions(view.table.table_id, ["ds=000", "ds=nothing"], deliver=True)
    assert (dropped.partitions_dropped, len(index.views.dependencies(view.table.table_id))) == (1, 238)
    new = TableIdentifier(namespace, "w")
    index.views.rename(view.identifier, new, deliver=True)
    assert len(listed_names(index, index.views.load(new).table)) == 119
    for missing, error in (("t9", ViewNotFoundError), (table.identifier.name, ViewNotFoundError)):
        with pytest.raises(error):
            index.views.rename(TableIdentifier(namespace, missing), new, deliver=True)
    with pytest.raises(TableAlreadyExistsError):
        index.views.rename(new, table.identifier, deliver=True)
    with pytest.raises(NamespaceNotFoundError):
        index.views.rename(new, TableIdentifier("nowhere", "w"), deliver=True)
    index.views.drop(new, deliver=True)
    with pytest.raises(ViewNotFoundError):
        index.views.load(new)
    assert index.views.dependencies(view.table.table_id) == []


def test_automatic_views_are_stale_when_their_tables_change(index: Index) -> None:
    table = create(index, keys={"ds": "string"}, namespace="followers")
    namespace = table.identifier.namespace
    sources = (table.identifier, TableIdentifier(namespace, "missing"))
    view = index.views.create(definition("a", namespace, partition_auto="true"), QUERY, sources, deliver=False)
    assert index.views.stale() == [view.identifier]
    seen = [Source(table.identifier, table.table_id, table.version), Source(sources[1])]
    commit = index.views.refresh(view, {"ds=1": (), "ds=2": (Dependency("d"),)}, seen, deliver=False)
    assert commit is not None
    assert (commit.partitions_added, index.views.stale()) == (2, [])
    index.commits.apply_changes(table.table_id, [AddPartition("ds=3", ())], operation="x", deliver=False)
    assert index.views.stale() == [view.identifier]
    table = index.tables.load(table.identifier)
    seen[0] = Source(table.identifier, table.table_id, table.version)
    index.views.refresh(view, {"ds=2": (Dependency("e"),), "ds=3": ()}, seen, deliver=False)
    assert (shown(index, view), index.views.stale()) == (["ds=2", "ds=3"], [])
    assert [(d.partition, d.dependency.relation) for d in index.views.dependencies(view.table.table_id)] == [
        ("ds=2", "e")
    ]
    replaced = index.views.replace(definition("a", namespace), QUERY, (), deliver=False)
    assert index.views.refresh(view, {}, seen, deliver=False) is None
    assert (shown(index, replaced), index.views.stale()) == (["ds=2", "ds=3"], [])
    index.views.drop(view.identifier, deliver=False)
    assert index.views.refresh(view, {}, seen, deliver=False) is None
