"""The catalog without Spark: namespaces, names, conditions, and what it holds open."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import catalog_ext
from catalog_ext.catalog import Catalog
from catalog_ext.conf.resolved import Settings
from catalog_ext.metastore.errors import (
    InvalidConfigurationError,
    InvalidIdentifierError,
    InvalidInputError,
    InvalidPredicateError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, Namespace, TableDefinition, TableType
from catalog_ext.metastore.storage.store import Storage
from tests.kit.repair_cases import local_catalog, register, write


def definition(name: str, kind: TableType = TableType.EXTERNAL, *keys: Column) -> TableDefinition:
    return TableDefinition(TableIdentifier.of("s", name), kind, "ORC", "", (Column("x", "int"),), keys)


def test_the_life_of_a_namespace(catalog: Catalog, tmp_path: Path) -> None:
    made = catalog.create_namespace("Sales", location=f"{tmp_path}//sales/", comment="c", properties={"a": "1"})
    assert (made.name, made.location, made.comment) == ("sales", f"file://{tmp_path}/sales", "c")
    with pytest.raises(NamespaceAlreadyExistsError, match="sales"):
        catalog.create_namespace("SALES")
    assert catalog.create_namespace("SALES", comment="another", if_not_exists=True) == made
    altered = catalog.alter_namespace("sales", {"b": "2", "comment": "d"}, ["a"])
    assert (altered.properties, altered.comment) == ({"b": "2"}, "d")
    assert catalog.load_namespace("sales") == altered
    assert catalog.list_namespaces() == ["s", "sales"]
    catalog.drop_namespace("sales")
    with pytest.raises(NamespaceNotFoundError, match="sales"):
        catalog.load_namespace("sales")


def test_a_namespaces_tables_go_with_cascade_only_and_external_files_stay(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=2025-01-01/region=eu/1.csv")
    register(catalog, tmp_path / "t")
    managed = catalog.create_table(definition("m", TableType.MANAGED)).definition.location.removeprefix("file://")
    with pytest.raises(NamespaceNotEmptyError, match="2 tables"):
        catalog.drop_namespace("s")
    assert catalog.list_tables("s") == ["m", "t"]
    assert Path(managed).is_dir()
    catalog.drop_namespace("s", cascade=True)
    assert catalog.list_namespaces() == []
    assert (tmp_path / "t/ds=2025-01-01/region=eu/1.csv").exists()
    assert not Path(managed).exists()


def test_a_table_lies_in_its_namespaces_location_or_in_the_warehouse(catalog: Catalog, tmp_path: Path) -> None:
    assert catalog.create_table(definition("t")).definition.location == f"file://{tmp_path}/warehouse/s.db/t"
    catalog.alter_namespace("s", {"location": f"file://{tmp_path}/own"})
    made = catalog.create_table(definition("u")).definition
    assert (made.location, made.format, str(made.partition_mode)) == (f"file://{tmp_path}/own/u", "orc", "declared")


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ((Column("a", "int"), Column("A", "int")), ()),
        ((Column("a", "int"),), (Column("A", "int"),)),
        ((Column("a/b", "int"),), ()),
        ((Column("a", "int"),), (Column("k", "map<string,int>"),)),
    ],
)
def test_a_definition_that_is_not_valid(
    catalog: Catalog, columns: tuple[Column, ...], keys: tuple[Column, ...]
) -> None:
    bad = TableDefinition(TableIdentifier.of("s", "t"), TableType.EXTERNAL, "csv", "", columns, keys)
    with pytest.raises(InvalidInputError):
        catalog.create_table(bad)
    assert catalog.list_tables("s") == []


@pytest.mark.parametrize("name", ["lake.s.t", "s.t", "S.T", "`s`.`t`", "LAKE.s.t"])
def test_names_of_one_table(catalog: Catalog, tmp_path: Path, name: str) -> None:
    register(catalog, tmp_path / "t")
    assert str(catalog.load_table(name).identifier) == "s.t"


@pytest.mark.parametrize("name", ["t", "other.s.t", "a.lake.s.t", ""])
def test_names_of_no_table(catalog: Catalog, name: str) -> None:
    with pytest.raises(InvalidIdentifierError):
        catalog.load_table(name)


def test_properties_are_checked_set_and_removed(catalog: Catalog, tmp_path: Path) -> None:
    register(catalog, tmp_path / "t")
    with pytest.raises(InvalidConfigurationError, match="partition-columns"):
        catalog.alter_table_properties("s.t", {"partition-columns": "hidden", "a": "1"})
    assert "a" not in catalog.load_table("s.t").definition.properties
    altered = catalog.alter_table_properties("s.t", {"partition-columns": "declared", "a": "1"})
    assert str(altered.definition.partition_mode) == "declared"
    assert catalog.alter_table_properties("s.t", {}, ["a"]).version == 0


def test_partition_commit_options_must_fit_together(catalog: Catalog, tmp_path: Path) -> None:
    trigger, pattern = "sink.partition-commit.trigger", "partition.time-extractor.timestamp-pattern"
    register(catalog, tmp_path / "t")
    with pytest.raises(InvalidConfigurationError, match="the partition columns are ds, region"):
        catalog.alter_table_properties("s.t", {trigger: "partition-time", pattern: "$day"})
    # As long as nothing asks for a partition's time, the pattern may wait for its columns.
    catalog.alter_table_properties("s.t", {pattern: "$day"})
    with pytest.raises(InvalidConfigurationError, match="the partition columns are ds, region"):
        catalog.alter_table_properties("s.t", {trigger: "partition-time"})
    catalog.alter_table_properties("s.t", {trigger: "partition-time"}, [pattern])
    assert trigger in catalog.load_table("s.t").definition.properties
    assert pattern not in catalog.load_table("s.t").definition.properties


def test_partitions_and_files_by_condition_and_by_spec(catalog: Catalog, tmp_path: Path) -> None:
    root = tmp_path / "t"
    write(root, *(f"ds=2025-01-{d:02d}/region={r}/1.csv" for d in (1, 2, 10) for r in ("eu", "us")))
    write(root, "ds=__HIVE_DEFAULT_PARTITION__/region=eu/1.csv")
    register(catalog, root)
    catalog.repair_partitions("s.t")
    names = catalog.partitions("s.t").column("partition").to_pylist()
    assert names[:2] == ["ds=__HIVE_DEFAULT_PARTITION__/region=eu", "ds=2025-01-01/region=eu"]
    assert names[-1] == "ds=2025-01-10/region=us"
    assert catalog.files("s.t", "ds BETWEEN '2025-01-02' AND '2025-01-10'").num_rows == 4
    assert catalog.files("s.t", {"region": "eu"}).num_rows == 4
    assert catalog.partitions("s.t", {"ds": None}).num_rows == 1
    assert catalog.partitions("s.t", {}).num_rows == 7
    for wrong in ("", "region", {"nosuch": "1"}):
        with pytest.raises(InvalidPredicateError):
            catalog.partitions("s.t", wrong)


def test_unregistering_leaves_the_files_and_the_name_is_free_again(catalog: Catalog, tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=2025-01-01/region=eu/1.csv")
    for _ in range(2):
        register(catalog, tmp_path / "t")
        assert len(catalog.repair_partitions("s.t").added) == 1
        catalog.unregister_table("s.t")
    with pytest.raises(TableNotFoundError):
        catalog.unregister_table("s.t")
    assert (tmp_path / "t/ds=2025-01-01/region=eu/1.csv").exists()


def test_without_a_metastore_nothing_is_delivered_and_import_fails(catalog: Catalog) -> None:
    assert catalog.metastore_state() == "none"
    assert catalog.deliver().pending == 0
    with pytest.raises(InvalidConfigurationError, match="no metastore"):
        catalog.import_table("s.t")


@pytest.mark.slow
def test_threads_share_a_catalog(catalog: Catalog, tmp_path: Path) -> None:
    for i in range(8):
        write(tmp_path / f"t{i}", *(f"ds=2025-01-{d:02d}/region=eu/1.csv" for d in range(1, 11)))

    def work(i: int) -> int:
        register(catalog, tmp_path / f"t{i}", table=f"s.t{i}")
        catalog.repair_partitions(f"s.t{i}")
        return catalog.files(f"s.t{i}", "ds > '2025-01-05'").num_rows

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [5] * 8
    assert len(catalog.list_tables("s")) == 8


def open_databases(folder: Path) -> set[str]:
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return {target for link in links if link.is_symlink() and (target := os.readlink(link)).startswith(str(folder))}


def test_a_closed_catalog_holds_nothing_open(tmp_path: Path) -> None:
    write(tmp_path / "t", "ds=2025-01-01/region=eu/1.csv")
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t")
        catalog.repair_partitions("s.t")
        assert open_databases(tmp_path)
    assert open_databases(tmp_path) == set()


def test_a_catalog_that_cannot_be_made_holds_nothing_open(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError):
        catalog_ext.connect(index=str(tmp_path / "index.db"), metastore="http://host:1", warehouse=str(tmp_path / "w"))
    assert open_databases(tmp_path) == set()


def test_a_table_that_hive_cannot_hold_stays_in_the_index_alone(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    settings = Settings.resolve(index=str(tmp_path / "i.db"), metastore="thrift://127.0.0.1:1", warehouse=str(tmp_path))
    with Catalog(settings, Storage) as catalog:
        catalog.index.namespaces.create(Namespace("sales"), deliver=False)
        location = str(tmp_path / "t")
        table = catalog.register_table("sales.t", location=location, partition_columns={}, schema="at TIME")
        assert "Hive has no type for column 'at' TIME" in catalog.metastore_state(table)
        (tmp_path / "t" / "f.parquet").write_bytes(b"PAR1")
        assert len(catalog.repair_partitions("sales.t").added) == 1
        assert catalog.index.outbox.pending() == []


@pytest.mark.parametrize(
    ("key", "text", "mode"),
    [
        ("partition-columns", "declared", "declared"),
        ("Partition-Columns", " Declared ", "declared"),
        ("Partition-Columns", "x", "virtual"),
        ("PARTITION-COLUMNS", "", "virtual"),
    ],
)
def test_partition_mode_of_an_imported_table_may_be_any_text(key: str, text: str, mode: str) -> None:
    """The properties of an imported table are Hive's."""
    made = replace(definition("t"), properties={key: text})
    assert str(made.partition_mode) == mode


def test_a_closed_catalog_says_so(tmp_path: Path) -> None:
    with local_catalog(tmp_path) as catalog:
        pass
    with pytest.raises(InvalidInputError, match="This catalog is closed"):
        catalog.list_namespaces()
    catalog.close()
