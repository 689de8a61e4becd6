"""A write whose files are made for a format or options that its table has no more: refused, and run again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog_ext.metastore.commit.fault_points import armed
from catalog_ext.metastore.commit.transaction import new_transaction_id
from catalog_ext.metastore.errors import ConflictError
from catalog_ext.service.messages.core import Request
from catalog_ext.service.operations import operations_of
from tests.kit.repair_cases import indexed, local_catalog, register
from tests.kit.writes import begin, insert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from catalog_ext.catalog import Catalog

AS_IT_IS = {"format": "csv", "options": {"sep": "|"}}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """A catalog with the table ``s.t`` of text with bars between fields."""
    with local_catalog(tmp_path) as catalog:
        register(catalog, tmp_path / "t", {"k": "INT"})
        altered(catalog, "csv", sep="|")
        yield catalog


def altered(catalog: Catalog, format_: str, **options: str) -> None:
    identifier = catalog.load_table("s.t").identifier
    catalog.index.alterations.alter(identifier, lambda d: replace(d, format=format_, options=options), deliver=False)


def begun(catalog: Catalog, **more: Any) -> str:
    """Ask the service for a write as the connector does; the transaction that it has begun."""
    table = catalog.load_table("s.t")
    request = {
        "transaction": new_transaction_id(), "table_id": table.table_id, "version": table.version, "kind": "append",
        "operation": "INSERT", "owner": "o", "predicate": None, "clauses": [], "clause_session": None,
        "app_id": None, "app_version": None, "options": {}, "session": {}, "definition": None, **more,
    }  # fmt: skip
    number: str = operations_of(catalog)["writes/begin"](Request(request))["transaction"]
    return number


@pytest.mark.parametrize(
    ("planned", "changed"),
    [
        ({"format": "csv", "options": {"sep": ","}}, r"the options 'sep' are others"),
        ({"format": "csv", "options": {}}, r"the options 'sep' are others"),
        (
            {"format": "json", "options": {"sep": "|", "token": "secret"}},
            r"the format, json, is csv and the options 'token' are others",
        ),
    ],
)
def test_a_write_that_was_planned_for_another_format_is_refused(
    catalog: Catalog, planned: dict[str, Any], changed: str
) -> None:
    with pytest.raises(
        ConflictError, match=rf"s\.t has changed since this statement was planned: {changed}\. Nothing"
    ) as caught:
        begun(catalog, planned=planned)
    assert caught.value.retryable
    assert catalog.index.transactions.all() == []


@pytest.mark.parametrize("more", [{}, {"planned": None}, {"planned": AS_IT_IS}])
def test_write_planned_for_the_table_begins_and_one_without_a_plan_too(catalog: Catalog, more: dict[str, Any]) -> None:
    assert begun(catalog, **more)


def test_one_that_has_begun_keeps_the_format_and_is_found_again(catalog: Catalog) -> None:
    number = begun(catalog, planned=AS_IT_IS)
    with pytest.raises(ConflictError, match="cannot change while a write to it is open"):
        altered(catalog, "csv", sep=",")
    assert begun(catalog, transaction=number, planned=AS_IT_IS) == number


def _load(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1|2\n")
    catalog.loading.load(catalog.load_table("s.t"), str(tmp_path / "in.csv"), {"k": "1"})


@pytest.mark.parametrize(
    "write",
    [
        lambda catalog, _: begin(catalog),
        lambda catalog, _: insert(catalog, "k=1", txn_app_id="a", txn_version="1"),
        lambda catalog, _: begun(catalog, planned=AS_IT_IS),
        _load,
    ],
)
def test_alteration_between_the_read_and_begin_of_a_write_is_a_conflict(
    catalog: Catalog, tmp_path: Path, write: Callable[[Catalog, Path], object]
) -> None:
    with (
        armed("begin.before", lambda _: altered(catalog, "csv", sep=",")),
        pytest.raises(ConflictError, match="run the statement again"),
    ):
        write(catalog, tmp_path)
    assert indexed(catalog) == {}
    assert catalog.index.transactions.all() == []
