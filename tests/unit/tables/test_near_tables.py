"""An unknown name: the error suggests a similar one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.errors import (
    CatalogExtError,
    ColumnNotFoundError,
    InvalidPartitionSpecError,
    InvalidPredicateError,
    InvalidTypeError,
    NamespaceNotFoundError,
    ProcedureNotFoundError,
    TableNotFoundError,
)
from catalog_ext.metastore.model.alterations import DropColumn
from catalog_ext.metastore.model.types import parse_fields
from catalog_ext.metastore.predicates.partition_specs import checked_spec
from catalog_ext.service.handlers.procedures import ProcedureOperations
from catalog_ext.service.messages.core import Request

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_ext.catalog import Catalog


@pytest.fixture
def trips(catalog: Catalog, tmp_path: Path) -> Catalog:
    (tmp_path / "t").mkdir()
    catalog.create_namespace("sales")
    catalog.register_table(
        "sales.trips", location=str(tmp_path / "t"), partition_columns={"region": "STRING"},
        schema="fare INT, at STRUCT<day: DATE>", format="json",
    )  # fmt: skip
    return catalog


def called(catalog: Catalog, procedure: str, **arguments: Any) -> str:
    request = Request({"procedure": procedure, "arguments": arguments})
    with pytest.raises(CatalogExtError) as error:
        ProcedureOperations(catalog).handlers["procedures/call"](request)
    assert isinstance(error.value, TableNotFoundError | NamespaceNotFoundError | ProcedureNotFoundError)
    return error.value.message


def test_a_table_of_call(trips: Catalog) -> None:
    assert called(trips, "repair_partitions", table="sales.trip").endswith("Did you mean sales.trips?")
    assert called(trips, "repair_partitions", table="sale.trips").endswith("Did you mean sales.trips?")
    assert called(trips, "repair_partitions", table="x.y").endswith("in the index.")


def test_a_namespace_of_call(trips: Catalog, tmp_path: Path) -> None:
    given = {"location": str(tmp_path / "t"), "partition_columns": {}, "format": "json"}
    assert "Did you mean sales?" in called(trips, "register_table", table="salse.x", **given)


def test_a_procedure(trips: Catalog) -> None:
    assert "Did you mean repair_partitions?" in called(trips, "repair_partition", table="sales.trips")


def test_partition_columns(trips: Catalog) -> None:
    with pytest.raises(InvalidPredicateError, match=r"Did you mean region\? Its partition columns are: region"):
        trips.partitions("sales.trips", where="regoin = 'eu'")
    with pytest.raises(InvalidPartitionSpecError, match=r"those are region\. Did you mean region"):
        checked_spec(trips.load_table("sales.trips"), {"regoin": "eu"})


def test_columns(trips: Catalog) -> None:
    for path, meant in ((("fair",), "fare"), (("at", "dya"), "day")):
        with pytest.raises(ColumnNotFoundError, match=f"Did you mean {meant}"):
            trips.alterations.alter("sales.trips", [DropColumn(path)])


@pytest.mark.parametrize(
    ("ddl", "meant"), [("x INTT", "int"), ("x ARRAY<STRNG>", "string"), ("x DECIML(3, 1)", "decimal")]
)
def test_types(ddl: str, meant: str) -> None:
    with pytest.raises(InvalidTypeError, match=rf"Did you mean {meant}\?$"):
        parse_fields(ddl)
