"""DDL of tables without Spark: alterations and renames of the catalog, and the metastore that follows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import catalog_ext
from catalog_ext.metastore.errors import (
    AcidTableError,
    ColumnAlreadyExistsError,
    InvalidAlterationError,
    InvalidConfigurationError,
    InvalidInputError,
    LocationNotFoundError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    UnsupportedFormatError,
)
from catalog_ext.metastore.hive.mapping.conversion import to_hive
from catalog_ext.metastore.hive.outbox.delivery import Deliverer
from catalog_ext.metastore.model.alterations import AddColumn, DropColumn, RenameColumn
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.tables.locations import TableOverlapWarning
from tests.kit.repair_cases import indexed, register, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog
    from tests.kit.fakes_metastore import FakeMetastore


@pytest.fixture
def catalog(tmp_path: Path, metastore: FakeMetastore) -> Iterator[Catalog]:
    with catalog_ext.connect(
        index=str(tmp_path / "index.db"), metastore="thrift://fake:9083", warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace("s")
        yield catalog


def managed(catalog: Catalog, name: str = "t", **more: object) -> TableDefinition:
    columns = (Column("id", "int"), Column("v", "string"))
    made = TableDefinition(TableIdentifier("s", name), TableType.MANAGED, "orc", "", columns, (Column("ds", "date"),))
    return catalog.create_table(replace(made, **more)).definition  # type: ignore[arg-type]


def test_columns_and_properties_change_together_or_not_at_all(catalog: Catalog, metastore: FakeMetastore) -> None:
    before = managed(catalog)
    changes = [AddColumn(("n",), "int", comment="c"), RenameColumn(("v",), "w")]
    set_ = {"a": "1", "comment": "x", "orc.force.positional.evolution": "false"}
    after = catalog.alterations.alter("s.t", changes, set_=set_).definition
    assert [c.name for c in after.columns] == ["id", "w", "n"]
    assert (after.properties["a"], after.comment) == ("1", "x")
    found = metastore.get_table("s", "t")
    assert (found.columns, found.parameters["a"]) == (to_hive(after).columns, "1")
    for wrong, set_, error in (
        ([AddColumn(("x",), "int"), AddColumn(("N",), "int")], {}, ColumnAlreadyExistsError),
        ([AddColumn(("x",), "int")], {"partition-columns": "hidden"}, InvalidConfigurationError),
        ([AddColumn(("x",), "int")], {"transactional": "true"}, AcidTableError),
    ):
        with pytest.raises(error):
            catalog.alterations.alter("s.t", wrong, set_=set_)
        assert catalog.load_table("s.t").definition == after
    assert metastore.get_table("s", "t") == found
    assert before.columns != after.columns


def test_what_the_metastore_could_not_hold_any_more_is_refused(catalog: Catalog, metastore: FakeMetastore) -> None:
    managed(catalog)
    with pytest.raises(InvalidInputError, match="could not hold it any more: Hive has no type for column 'x' VARIANT"):
        catalog.alterations.alter("s.t", [AddColumn(("x",), "variant")])
    odd = managed(catalog, "odd", columns=(Column("id", "int"), Column("x", "variant")))
    with pytest.raises(InvalidInputError, match="does not have it, and would have to"):
        catalog.alterations.alter("s.odd", [DropColumn(("x",))])
    assert catalog.load_table("s.odd").definition == odd
    assert metastore.list_tables("s") == ["t"]


def test_a_renamed_table_is_renamed_in_the_metastore_once_that_is_back(
    catalog: Catalog, metastore: FakeMetastore
) -> None:
    before = managed(catalog)
    catalog.create_namespace("other")
    managed(catalog, "taken")
    metastore.down = True
    renamed = catalog.alterations.rename("lake.s.t", "other.New").definition
    assert renamed == replace(before, identifier=TableIdentifier("other", "new"))
    second = managed(catalog)
    assert second.location == f"{before.location}__2"
    assert catalog.alterations.rename("s.t", "s.t").definition == second
    catalog.drop_table("other.new")
    metastore.down = False
    # Long after, when every message is due again.
    catalog.index.outbox.retry()
    report = Deliverer(catalog.index.outbox, lambda: metastore).deliver(timeout_s=60)
    assert (report.pending, report.error) == (0, None)
    assert (metastore.list_tables("s"), metastore.list_tables("other")) == (["t", "taken"], [])
    assert metastore.get_table("s", "t").location == second.location
    for name, error in (("s.taken", TableAlreadyExistsError), ("nowhere.t", NamespaceNotFoundError)):
        with pytest.raises(error):
            catalog.alterations.rename("s.t", name)
    metastore.create_table(to_hive(replace(second, identifier=TableIdentifier("s", "theirs"), location="file:///x")))
    with pytest.raises(TableAlreadyExistsError, match="metastore has a table"):
        catalog.alterations.rename("s.t", "s.theirs")


def test_another_location(catalog: Catalog, metastore: FakeMetastore, tmp_path: Path) -> None:
    write(tmp_path / "one", "ds=2025-01-01/region=eu/1.csv")
    write(tmp_path / "two", "ds=2025-01-02/region=eu/2.csv", "flat.csv")
    register(catalog, tmp_path / "one")
    catalog.repair_partitions("s.t")
    catalog.alterations.alter("s.t", location=str(tmp_path / "two"))
    assert [p["location"] for p in catalog.partitions("s.t").to_pylist()] == [
        f"file://{tmp_path}/one/ds=2025-01-01/region=eu"
    ]
    assert metastore.get_table("s", "t").location == f"file://{tmp_path}/two"
    catalog.repair_partitions("s.t", mode="add")
    assert list(indexed(catalog)) == ["ds=2025-01-01/region=eu", "ds=2025-01-02/region=eu"]

    register(catalog, tmp_path / "flat", {}, table="s.flat")
    write(tmp_path / "flat2", "a.csv")
    after = catalog.alterations.alter("s.flat", location=str(tmp_path / "flat2"))
    assert after.totals.files == 1
    assert indexed(catalog, "s.flat") == {"": {"a.csv": 1}}
    with pytest.raises(LocationNotFoundError):
        catalog.alterations.alter("s.flat", location=str(tmp_path / "gone"))
    with pytest.warns(TableOverlapWarning):
        catalog.alterations.alter("s.flat", location=str(tmp_path / "two"))
    managed(catalog, "managed")
    with pytest.raises(InvalidAlterationError, match="managed table"):
        catalog.alterations.alter("s.managed", location=str(tmp_path / "one"))


@pytest.mark.parametrize(
    ("file_format", "columns", "words"),
    [
        ("csv", (Column("a", "array<int>"),), "does not have"),
        ("text", (Column("a", "int"),), "one column"),
        ("text", (Column("a", "string"), Column("b", "string")), "one column"),
        ("avro", (Column("a", "int"),), "'avro' is not a format"),
    ],
)
def test_what_no_file_can_hold_is_refused(
    catalog: Catalog, file_format: str, columns: tuple[Column, ...], words: str
) -> None:
    with pytest.raises(UnsupportedFormatError, match=words):
        managed(catalog, format=file_format, columns=columns)
    assert catalog.list_tables("s") == []
