"""Options that are nearly those of a format, or of a read: refused, since Spark passes them over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.conf import keys
from catalog_ext.conf.format_options import OF_FILES, OF_FORMAT, OF_SPARK, check_format_options
from catalog_ext.conf.setting import Scope
from catalog_ext.metastore.errors import InvalidConfigurationError
from catalog_ext.metastore.model.identifiers import TableIdentifier
from catalog_ext.metastore.model.tables import Column, TableDefinition, TableType

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.mark.parametrize(
    ("file_format", "given", "meant"),
    [
        ("csv", "heder", "header"),
        ("csv", "headers", "header"),
        ("csv", "delimeter", "delimiter"),
        ("csv", "multi_line", "multiLine"),
        ("json", "multilines", "multiLine"),
        ("parquet", "compresion", "compression"),
        ("orc", "merge-schemas", "mergeSchema"),
        ("parquet", "hedder", "header"),
        ("parquet", "header", None),
        ("csv", "a-library-of-ours", None),
        ("parquet", "parquet.block.sise", None),
    ],
)
def test_what_is_near(file_format: str, given: str, meant: str | None) -> None:
    if meant is None:
        check_format_options([given], file_format, "s.t")
        return
    with pytest.raises(InvalidConfigurationError, match=f"Did you mean '{meant}'") as error:
        check_format_options([given], file_format, "s.t")
    assert given in error.value.message
    assert "s.t" in error.value.message


def test_what_spark_has_passes() -> None:
    for file_format, names in OF_FORMAT.items():
        check_format_options([*names, *OF_FILES, *map(str.upper, names)], file_format, "s.t")
    for scope in (Scope.READ, Scope.WRITE, Scope.STREAM):
        keys.check_options(OF_SPARK, scope)
        keys.check_options([name for s in keys.SETTINGS for name in s.names], scope)


@pytest.mark.parametrize(
    ("scope", "given", "meant"),
    [
        (Scope.READ, "max-stale", "max-staleness"),
        (Scope.READ, "file-skip", "file-skipping"),
        (Scope.READ, "mergeShema", "mergeSchema"),
        (Scope.WRITE, "distribution-mode", "write.distribution-mode"),
        (Scope.STREAM, "startng-version", "startingVersion"),
    ],
)
def test_an_option_of_a_use(scope: Scope, given: str, meant: str) -> None:
    with pytest.raises(InvalidConfigurationError, match=f"Did you mean '{meant}'"):
        keys.check_options([given], scope)


def test_tables_are_made_without_slips(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    with pytest.raises(InvalidConfigurationError, match="'header'"):
        catalog.register_table(
            "s.t", location=str(tmp_path / "t"), format="csv", partition_columns={}, schema="x INT",
            options={"heder": "true"},
        )  # fmt: skip
    definition = TableDefinition(
        TableIdentifier("s", "u"), TableType.MANAGED, "csv", "", (Column("x", "int"),), (), {"delimeter": ";"}
    )
    with pytest.raises(InvalidConfigurationError, match="'delimiter'"):
        catalog._creation.create_table(definition)
    assert catalog.list_tables("s") == []
