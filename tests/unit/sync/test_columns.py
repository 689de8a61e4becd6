"""Columns that Hive engines have altered: what is taken over, by name and by position."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog_ext.metastore.errors import UnsupportedTypeChangeError
from catalog_ext.metastore.hive.mapping.conversion import to_hive
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.sync.definitions import adopted_columns


def table(file_format: str, *columns: Column) -> TableDefinition:
    return TableDefinition(
        identifier=TableIdentifier("s", "t"), table_type=TableType.EXTERNAL, format=file_format, location="file:///t",
        columns=columns, partition_columns=(Column("ds", "string"),), options={}, properties={},
    )  # fmt: skip


def adopted(ours: TableDefinition, *theirs: Column) -> list[tuple[str, str]]:
    found = replace(to_hive(ours), columns=theirs)
    return [(c.name, c.type) for c in adopted_columns(ours, found).columns]


X, BIG = Column("X", "int"), Column("y", "string")


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_columns_keep_their_case_and_their_place_beside_a_hidden_key(file_format: str) -> None:
    ours = table(file_format, X, Column("ds", "int"), BIG)
    theirs = Column("x", "int"), Column("y", "string", comment="c"), Column("z", "double")
    assert adopted(ours, *theirs) == [("X", "int"), ("ds", "int"), ("y", "string"), ("z", "double")]


@pytest.mark.parametrize("file_format", ["csv", "text"])
def test_rows_without_names_are_read_by_position(file_format: str) -> None:
    """A renamed column is another name for the same place; another type there would make NULL of its values."""
    ours = table(file_format, X, BIG)
    assert adopted(ours, Column("a", "int"), Column("y", "string")) == [("a", "int"), ("y", "string")]
    with pytest.raises(UnsupportedTypeChangeError, match=r"'a' of table s.t as DATE at the place of 'X' INT"):
        adopted(ours, Column("a", "date"), Column("y", "string"))
    with pytest.raises(UnsupportedTypeChangeError, match=r"'X' of table s.t has become DATE"):
        adopted(ours, Column("x", "date"), Column("y", "string"))


def test_files_with_names_are_read_by_name() -> None:
    ours = table("parquet", X, BIG)
    assert adopted(ours, Column("a", "date"), Column("y", "string")) == [("a", "date"), ("y", "string")]
    with pytest.raises(UnsupportedTypeChangeError, match=r"and stays INT here"):
        adopted(ours, Column("x", "date"), Column("y", "string"))
