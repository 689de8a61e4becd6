"""What is under way: as much as a page has room for is read, however much there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from catalog_ext.writes.status import status_entries
from tests.kit.index_cases import create
from tests.kit.page_cases import looking_at
from tests.kit.transaction_cases import begin, plan

if TYPE_CHECKING:
    from catalog_ext.catalog import Catalog


@pytest.mark.slow
def test_many_writes_cost_a_page_no_more_than_it_shows(catalog: Catalog) -> None:
    table = create(catalog.index, "t", {"k": "int"})
    for _ in range(130):
        begin(catalog.index, table, plan(table))
    assert len([each for each in status_entries(catalog.index, None) if each.kind == "transaction"]) == 130
    before = catalog.index.query_count
    with looking_at(catalog) as visitor:
        page = visitor.page("/ui/activity")
    assert "The first 100;" in page
    assert catalog.index.query_count - before < 120
