"""What `CREATE TABLE` makes of `partition_strategy` and its companions."""

from __future__ import annotations

import pytest

from catalog_ext.metastore.errors import CatalogExtError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType
from catalog_ext.tables.partition_strategy import check_alteration, check_registered, placed

YEAR = Column("year", "int", nullable=False)
HIVE = {"partition_strategy": "hive"}


def table(*keys: Column, **properties: str) -> TableDefinition:
    return TableDefinition(
        TableIdentifier("s", "t"), TableType.MANAGED, "parquet", "", (Column("x", "int"),), keys, properties=properties
    )


def place_of(definition: TableDefinition, location: str | None = None) -> tuple[str, str]:
    result, place = placed(definition, location, lambda: "file:///warehouse/s.db/t")
    return str(result.table_type), str(place)


@pytest.mark.parametrize(
    ("properties", "location", "kind", "place"),
    [
        ({}, None, "MANAGED", "file:///warehouse/s.db/t"),
        ({"partition_strategy": "auto"}, "s3://b/k", "MANAGED", "s3a://b/k"),
        (HIVE, None, "MANAGED", "file:///warehouse/s.db/t"),
        (HIVE | {"filename": "data"}, None, "MANAGED", "file:///warehouse/s.db/t/data"),
        (HIVE | {"path": "s3://bucket/root"}, None, "EXTERNAL", "s3a://bucket/root"),
        (HIVE | {"path": "s3://bucket/root/", "filename": "a/b"}, None, "EXTERNAL", "s3a://bucket/root/a/b"),
        (HIVE | {"PATH": "s3a://bucket/root"}, "s3a://bucket/root", "EXTERNAL", "s3a://bucket/root"),
        (HIVE | {"partition_columns_in_data_file": "TRUE"}, None, "MANAGED", "file:///warehouse/s.db/t"),
    ],
)
def test_where_a_table_lies(properties: dict[str, str], location: str | None, kind: str, place: str) -> None:
    assert place_of(table(YEAR, **properties), location) == (kind, place)


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (table(YEAR, partition_strategy="wrong"), "Unknown partitioning style 'wrong'"),
        (table(YEAR, partition_strategy=""), "Unknown partitioning style ''"),
        (table(**HIVE), "Partition strategy hive can not be used without a PARTITION BY expression"),
        (table(Column("d", "double", nullable=False), **HIVE), "supports only partition columns of types"),
        (table(Column("d", "decimal(5,2)", nullable=False), **HIVE), "'d' of table s.t is DECIMAL(5,2)"),
        (table(Column("k", "string"), **HIVE), "Hive partitioning supports only partition columns of types"),
        (table(YEAR, **HIVE, partition_columns_in_data_file="maybe"), "cannot be 'maybe': it is a Boolean"),
        (table(YEAR, partition_columns_in_data_file="1"), "'partition_columns_in_data_file' of table s.t belongs to"),
        (table(YEAR, filename="x"), "'filename' of table s.t belongs to"),
        (table(YEAR, path="s3://b/x"), "and say LOCATION"),
        (table(YEAR, **HIVE, path="not a location"), "Invalid S3 key"),
        (table(YEAR, **HIVE, path="s3://bad bucket/x"), "Invalid S3 key"),
        (table(YEAR, **HIVE, path="s3://b/{x}"), "Invalid S3 key"),
        (table(YEAR, **HIVE, path="s3://b/a/../x"), "Invalid S3 key"),
        (table(YEAR, **HIVE, path="s3://b/" + "x" * 1025), "longer than 1024 bytes"),
        (table(YEAR, **HIVE, path="s3://b/x", filename="_hidden"), "Invalid S3 key in the property 'filename'"),
        (table(YEAR, **HIVE, path="s3://b/x", filename="a*"), "Invalid S3 key"),
    ],
)
def test_what_is_refused(definition: TableDefinition, words: str) -> None:
    with pytest.raises(CatalogExtError, match="s\\.t") as caught:
        place_of(definition)
    assert words in caught.value.message


def test_a_path_beside_another_location_is_refused() -> None:
    with pytest.raises(CatalogExtError, match="Give one of them"):
        place_of(table(YEAR, **HIVE, path="s3://b/x"), "s3://b/y")


def test_a_registered_table_gets_keys_that_no_write_leaves_null() -> None:
    registered = check_registered(table(Column("year", "int"), **HIVE))
    assert registered.partition_columns == (YEAR,)
    assert check_registered(table(Column("year", "int"))).partition_columns == (Column("year", "int"),)
    with pytest.raises(CatalogExtError, match="Unknown partitioning style"):
        check_registered(table(YEAR, partition_strategy="x"))


@pytest.mark.parametrize(
    ("properties", "set_", "remove", "words"),
    [
        ({}, {"partition_strategy": "odd"}, (), "Unknown partitioning style"),
        ({}, {"partition_columns_in_data_file": "1"}, (), "belongs to"),
        (HIVE, {"filename": "x"}, (), "cannot be altered"),
        (HIVE | {"path": "s3://b/x"}, {}, ("path",), "cannot be altered"),
        (HIVE | {"partition_columns_in_data_file": "1"}, {}, ("partition_strategy",), "belongs to"),
    ],
)
def test_alterations_that_are_refused(
    properties: dict[str, str], set_: dict[str, str], remove: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CatalogExtError, match=words):
        check_alteration(table(YEAR, **properties), set_, remove)


def test_alterations_that_are_not() -> None:
    check_alteration(table(YEAR), {"comment": "x"}, ())
    check_alteration(table(YEAR), HIVE, ())
    check_alteration(table(YEAR, **HIVE), {}, ("partition_strategy",))
