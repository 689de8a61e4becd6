"""Earlier versions of a table have the columns, the format and the location of their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.metastore.errors import VersionNotFoundError
from catalog_ext.metastore.model.alterations import AddColumn, ChangeType, DropColumn, RenameColumn
from catalog_ext.metastore.model.as_of import AsOf
from catalog_ext.service.messages.core import table_json
from catalog_ext.tables import reads
from tests.kit.repair_cases import local_catalog, register, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from catalog_ext.metastore.model.tables import Table


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with local_catalog(tmp_path) as catalog:
        yield catalog


def at(catalog: Catalog, name: str, version: int) -> Table:
    return catalog.time_travel.load(catalog.load_table(name), AsOf(version))


def test_each_version_has_the_columns_of_its_time(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=1/a.csv")
    catalog.register_table(
        "s.t", location=str(tmp_path / "t"), partition_columns={"ds": "STRING"}, schema="x INT, y STRING",
        format="parquet",
    )  # fmt: skip
    catalog.repair_partitions("s.t")
    changes = (
        AddColumn(("n",), "int"), ChangeType(("x",), "bigint"), RenameColumn(("n",), "m"), DropColumn(("y",)),
    )  # fmt: skip
    for change in changes:
        catalog.alterations.alter("s.t", [change])
    found = [
        " ".join(f"{column['name']}:{column['type']}" for column in table_json(at(catalog, "s.t", version))["columns"])
        for version in range(6)
    ]
    assert found == [
        "x:int y:string", "x:int y:string", "x:int y:string n:int", "x:bigint y:string n:int",
        "x:bigint y:string m:int", "x:bigint m:int",
    ]  # fmt: skip
    assert [at(catalog, "s.t", version).totals.files for version in range(6)] == [0, 1, 1, 1, 1, 1]
    with pytest.raises(VersionNotFoundError):
        at(catalog, "s.t", 6)


def test_version_that_another_process_makes_after_the_load(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "t")
    stale = catalog.load_table("s.t")
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int")])
    found = catalog.time_travel.load(stale, AsOf(1))
    assert [column.name for column in found.definition.columns] == ["x", "n"]
    assert catalog.time_travel.load(catalog.load_table("s.t"), AsOf(0)).definition == stale.definition


def test_time_travel_to_the_loaded_version_reads_no_definition(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "t")
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int")])
    table, asked = catalog.load_table("s.t"), []
    for version in (1, 0):
        before = catalog.index.query_count
        catalog.time_travel.load(table, AsOf(version))
        asked.append(catalog.index.query_count - before)
    assert asked == [2, 3]


def test_unpartitioned_table_is_read_where_it_lay(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "one", "a.csv")
    write(tmp_path / "two", "b.csv", "c.csv")
    register(catalog, tmp_path / "one", {})
    catalog.repair_partitions("s.t")
    old = catalog.load_table("s.t")
    new = catalog.alterations.alter("s.t", location=str(tmp_path / "two"))
    assert [version.operation for version in catalog.history("s.t")] == ["repair", "ALTER TABLE", "repair", "create"]
    for table, folder, files in ((old, "one", ["a.csv"]), (new, "two", ["b.csv", "c.csv"])):
        found = at(catalog, "s.t", table.version)
        assert found.definition.location == f"file://{tmp_path}/{folder}"
        rows = catalog.reads.plan_files(table.table_id, table.version).read_all().to_pylist()
        assert sorted((row["path"], row["location"]) for row in rows) == [(name, None) for name in files]
        shown = catalog.metadata_tables.read(table.table_id, "files", version=table.version).read_all()
        assert sorted(shown.column("path").to_pylist()) == [f"file://{tmp_path}/{folder}/{name}" for name in files]


def test_plan_of_a_version_that_is_not_cached_has_its_definition(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "t")
    before = catalog.load_table("s.t")
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int")])
    with local_catalog(tmp_path) as other:
        planned = other.reads._at(before.table_id, before.version)
        assert planned.version == before.version
        assert planned.definition == before.definition
        assert other.reads._at(before.table_id, 1).definition == catalog.load_table("s.t").definition


def test_partitions_are_read_where_they_lay(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "one", "ds=1/a.csv")
    write(tmp_path / "two", "ds=2/b.csv")
    register(catalog, tmp_path / "one", {"ds": "STRING"})
    catalog.repair_partitions("s.t")
    old = catalog.load_table("s.t")
    catalog.alterations.alter("s.t", location=str(tmp_path / "two"))
    catalog.repair_partitions("s.t", mode="add")
    found = at(catalog, "s.t", old.version)
    assert found.definition.location == f"file://{tmp_path}/one"
    rows = catalog.reads.list_partitions(old.table_id, old.version).read_all().to_pylist()
    assert [(row["partition"], row["location"]) for row in rows] == [("ds=1", f"file://{tmp_path}/one/ds=1")]


def test_newest_version_costs_no_further_query(
    catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_REMEMBERED_TABLES", 0)
    register(catalog, tmp_path / "t")
    catalog.alterations.alter("s.t", [AddColumn(("n",), "int")])
    table = catalog.load_table("s.t")
    before = catalog.index.query_count
    catalog.reads.plan_files(table.table_id, table.version).read_all()
    assert catalog.index.query_count - before == 2, "the table and its files"
